package checker

import (
	"lockpick/checker/spans"
	"lockpick/harness/history/facts"
)

// downs is where a node was down, in the order of the begins: of those up to each the one
// that lasted longest, and the longest besides.
type downs struct {
	begins         []int64
	longest, other []*facts.Fault
}

// last is of those that had begun when a fault did the one that lasted longest, but for the
// fault itself; nil: there was none.
func (d *downs) last(f *facts.Fault) *facts.Fault {
	if d == nil {
		return nil
	}
	i := spans.UpTo(d.begins, f.Begin.T)
	switch {
	case i == 0:
		return nil
	case d.longest[i-1] == f:
		return d.other[i-1]
	}
	return d.longest[i-1]
}

// add puts another fault behind those that are there.
func (d *downs) add(f *facts.Fault) {
	longest, other := f, (*facts.Fault)(nil)
	if i := len(d.begins) - 1; i >= 0 {
		longest, other = d.longest[i], d.other[i]
		switch {
		case f.To() > longest.To():
			longest, other = f, longest
		case other == nil || f.To() > other.To():
			other = f
		}
	}
	d.begins, d.longest, d.other = append(d.begins, f.Begin.T), append(d.longest, longest), append(d.other, other)
}
