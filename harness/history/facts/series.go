package facts

import (
	"container/heap"

	"lockpick/harness/history"
)

// series is the faults of one kind on one target that belong to one step: each that is
// told of another event is the last that was tried and can be. What can't any more is
// dropped, so that nobody looks at it twice.
type series struct {
	tried []numbered // that may still begin
	whole []numbered // that may still fail
	begun latest     // that may still end
}

// numbered is a fault with its number among all.
type numbered struct {
	*Fault
	number int
}

// seriesKey is what the faults of a series have in common.
type seriesKey struct {
	kind, target string
	step         int
}

// seriesOf is the one that an event of the nemesis belongs to.
func (in *reading) seriesOf(e *history.Event) *series {
	key := seriesKey{e.Op, e.Node, e.Step}
	s := in.series[key]
	if s == nil {
		s = &series{}
		in.series[key] = s
	}
	return s
}

// add keeps a fault that was tried.
func (s *series) add(x numbered) {
	s.tried, s.whole = append(s.tried, x), append(s.whole, x)
}

// begin is the last fault that may begin, or none.
func (s *series) begin() (numbered, bool) {
	return last(&s.tried, func(x *Fault) bool { return x.Begin == nil && x.End == nil && x.Fail == nil })
}

// fail is the last that may fail, or none.
func (s *series) fail() (numbered, bool) {
	return last(&s.whole, func(x *Fault) bool { return x.End == nil && x.Fail == nil })
}

// end is the last that may end, or none.
func (s *series) end() (numbered, bool) {
	if len(s.begun) == 0 {
		return numbered{}, false
	}
	return heap.Pop(&s.begun).(numbered), true
}

// last drops from the end of a list those of which something holds no longer.
func last(list *[]numbered, can func(*Fault) bool) (numbered, bool) {
	for n := len(*list) - 1; n >= 0; n-- {
		x := (*list)[n]
		*list = (*list)[:n+1]
		if can(x.Fault) {
			return x, true
		}
		*list = (*list)[:n]
	}
	return numbered{}, false
}

// latest is a heap with the fault on top that was tried last.
type latest []numbered

func (l latest) Len() int           { return len(l) }
func (l latest) Less(i, j int) bool { return l[i].number > l[j].number }
func (l latest) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *latest) Push(x any)        { *l = append(*l, x.(numbered)) }
func (l *latest) Pop() any {
	n := len(*l) - 1
	x := (*l)[n]
	*l = (*l)[:n]
	return x
}
