package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/harness/history"
)

// inVain says how a fault that was in force hit nothing, by what its step says must be
// seen of it, or "".
func (r *record) inVain(s history.PlannedStep, f *fault) string {
	p := s.Proof
	if p == nil {
		return ""
	}
	switch {
	case p.Idle != "" && strings.Contains(f.Begin.Cause, p.Idle):
		return p.Idle
	case p.Keeps && r.Params.Persistence == "none":
		return "the nodes keep nothing on disk"
	case p.Off > 0 && r.wrongBy(s, f) < p.Off:
		return fmt.Sprintf("the clock of %s was not wrong by as much as %v", f.Target, p.Off)
	}
	from, to, link := strings.Cut(f.Target, "-")
	switch {
	case link && to != history.Replica && r.absent(to, f):
		return to + " was down all the while"
	case link && to == history.Replica && r.absent(from, f), !link && r.absent(f.Target, f):
		return from + " was down all the while"
	}
	return r.unused(p, f)
}

// wrongBy is how far a fault has turned a clock while it lasted. What sets another right
// again, which is in force, has done something.
func (r *record) wrongBy(s history.PlannedStep, f *fault) time.Duration {
	by := s.By.Abs()
	if s.Rate != 0 {
		by = time.Duration(max(s.Rate-1, 1-s.Rate) * float64(r.spanOf(f).length()))
	}
	if r.wrongClocks(f.Target).reached(f.Begin.T-1) > f.Begin.T {
		return never
	}
	return by
}

// spanOf is where a fault was in force.
func (r *record) spanOf(f *fault) interval {
	s := interval{f.First().T, max(r.End, f.Begin.T)}
	if f.End != nil {
		s.to = f.End.T
	}
	return s
}

// absent says whether a node was down already, and did not come back before a fault of it or
// of its link was over.
func (r *record) absent(node string, f *fault) bool {
	// What a rate has made of a clock stays when it ends, what a jump has does not.
	stays := f.Kind == clockWrong+"rate" || f.Kind == clockWrong+"slew"
	d := r.downs(node).last(f)
	switch {
	case d == nil:
		return false
	case d.End == nil:
		return true
	}
	return f.End != nil && !stays && d.End.T > f.Begin.T && f.End.T <= d.End.T
}

// downs is where a node was down, in the order of the begins: of those up to each the one
// that lasted longest, and the longest besides.
type downs struct {
	begins         []int64
	longest, other []*fault
}

// last is of those that had begun when a fault did the one that lasted longest, but for the
// fault itself; nil: there was none.
func (d *downs) last(f *fault) *fault {
	i := upTo(d.begins, f.Begin.T)
	switch {
	case i == 0:
		return nil
	case d.longest[i-1] == f:
		return d.other[i-1]
	}
	return d.longest[i-1]
}

// downs is a node's.
func (r *record) downs(node string) *downs {
	if r.used.downs == nil {
		r.used.downs = map[string]*downs{}
		var faults []*fault
		for _, f := range r.Faults {
			if f.Begin != nil && (f.Kind == killed || f.Kind == shutDown || f.Kind == powerLost) {
				faults = append(faults, f)
			}
		}
		slices.SortStableFunc(faults, func(a, b *fault) int { return cmp.Compare(a.Begin.T, b.Begin.T) })
		for _, f := range faults {
			d := r.used.downs[f.Target]
			if d == nil {
				d = &downs{}
				r.used.downs[f.Target] = d
			}
			d.add(f)
		}
	}
	if d := r.used.downs[node]; d != nil {
		return d
	}
	return &downs{}
}

func (d *downs) add(f *fault) {
	longest, other := f, (*fault)(nil)
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

// wrongClocks is where faults of a process's clock were in force.
func (r *record) wrongClocks(process string) spread {
	if r.used.clocks == nil {
		of := map[string][]interval{}
		for _, f := range r.Faults {
			if strings.HasPrefix(f.Kind, clockWrong) && f.Begin != nil {
				of[f.Target] = append(of[f.Target], interval{f.Begin.T, f.To()})
			}
		}
		r.used.clocks = spreads(of)
	}
	return r.used.clocks[process]
}

// unused says that no lock made use of what a fault hit while it lasted, or "".
func (r *record) unused(p *history.Proof, f *fault) string {
	span := r.spanOf(f)
	node, of := f.Target, history.UseNode
	from, to, link := strings.Cut(f.Target, "-")
	switch {
	case r.isClient(f.Target):
		of = history.UseClient
	case link && to == history.Replica:
		node, of = from, history.UseLink
	case link:
		node, of = to, history.UseLink
	}
	switch {
	case !slices.Contains(p.Use, of):
		return ""
	case of != history.UseClient && len(r.Links) == 0 && r.anySession().meets(span):
		return "" // the record tells of no commands
	case of == history.UseClient:
		if !r.inSessions()[f.Target].meets(span) {
			return f.Target + " wanted no lock meanwhile, and had none"
		}
	case of == history.UseNode:
		if !r.asked(traffic{node: node}).meets(span) && !r.keysOn(node).meets(interval{span.from, span.from}) &&
			(p.Off > 0 || !r.wanted("", node, span)) {
			return node + " was asked nothing meanwhile, and had no key of a lock"
		}
	case to == history.Replica:
		if !r.asked(traffic{node: node, ok: true}).meets(span) {
			return node + " had nothing to replicate meanwhile"
		}
	case !r.asked(traffic{process: f.Target}).meets(span) && !r.wanted(from, node, span):
		return f.Target + " carried nothing meanwhile"
	}
	return ""
}

// wanted reports whether somebody, or one client, must have tried to ask a node in a span,
// though no command of it was seen there, as where no connection came about. Who calls an
// operation asks; who waits in one asks again within a round. A node that nobody has asked
// at any time, though others were, is none that the lock uses.
func (r *record) wanted(client, node string, span interval) bool {
	work := node == r.Params.Resource
	if !work && len(r.Links) > 0 && len(r.asked(traffic{node: node}).spans) == 0 && !covering([]interval{span}, interval{r.First, r.Last}) {
		return false
	}
	round := int64(r.Params.NodeTimeout + r.Params.RetryMax)
	asks := r.doings(doing{client: client, all: client == "", work: work})
	before := asks.begun(span.from - 1)
	return asks.begun(span.to) > before || before > 0 && min(asks.reached(span.from-1), r.End, span.to)-span.from > round
}
