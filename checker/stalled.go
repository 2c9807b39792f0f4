package checker

import (
	"slices"

	"lockpick/harness/history"
)

// stalled adds to a result the longest stall that may be why it is not another. A stall
// matters to what a violation's witness shows if it lies within the span of that; and to
// all that was to happen at some instant of the run, if it made that late:
//
//	▒▒▒ stall ▒▒▒
//	       |  a holder's deadline: it could do nothing before that
//	              |  a step of the plan, due meanwhile, comes as soon as the stall is over
//
// A stall that made nothing late is no excuse.
func (r *record) stalled(res Result) Result {
	stalls := r.stalls()
	if len(stalls) == 0 {
		return res
	}
	witness, late := r.witnessed(res.Witness), r.lateness()
	for _, s := range stalls {
		if witness.from < s.to && s.from < witness.to || late.by(s) {
			res.Stalled = max(res.Stalled, history.Seconds(s.length()))
		}
	}
	return res
}

// witnessed is the span of what a witness shows.
func (r *record) witnessed(w *Witness) interval {
	if w == nil {
		return interval{never, ever}
	}
	span := interval{w.From, w.To}
	shows := map[int64]bool{}
	for _, n := range w.Events {
		shows[n] = true
	}
	for i := range r.Events {
		if e := &r.Events[i]; shows[e.N] {
			span.from, span.to = min(span.from, e.T), max(span.to, e.T)
		}
	}
	return span
}

// lateness is what a stall may have made late, in the order of time.
type lateness struct {
	ends  []int64 // of beliefs
	plan  []int64 // what the nemesis did
	slack int64
}

// lateness is found once.
func (r *record) lateness() *lateness {
	if r.tardy != nil {
		return r.tardy
	}
	r.tardy = &lateness{slack: int64(r.Params.Slack)}
	for s := range r.Sessions() {
		for b := range r.Windows(s) {
			r.tardy.ends = append(r.tardy.ends, b.To)
		}
	}
	for _, f := range r.Faults {
		if f.Kind == history.OpStall {
			continue
		}
		for _, e := range []*history.Event{f.Invoke, f.Begin, f.End} {
			if e != nil {
				r.tardy.plan = append(r.tardy.plan, e.T)
			}
		}
	}
	slices.Sort(r.tardy.ends)
	slices.Sort(r.tardy.plan)
	return r.tardy
}

// by says whether a belief ended in a stall, or the plan was late by it.
func (l *lateness) by(stall interval) bool {
	return within(l.ends, stall) || within(l.plan, interval{stall.from, stall.to + l.slack})
}

// within reports whether one of the instants lies in a span, but not at an end of it.
func within(instants []int64, s interval) bool {
	i := upTo(instants, s.from)
	return i < len(instants) && instants[i] < s.to
}

// upTo is how many of the instants are not after one.
func upTo(instants []int64, at int64) int {
	i, _ := slices.BinarySearchFunc(instants, at, func(t, at int64) int {
		if t <= at {
			return -1
		}
		return 1
	})
	return i
}
