package checker

import (
	"slices"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// lateness is what stalls of the machine may have made late.
type lateness struct {
	r      *facts.Facts
	stalls []spans.Span
	ends   []int64 // of beliefs, in the order of time
	plan   []int64 // what the nemesis did, likewise
}

func latenessOf(r *facts.Facts) lateness {
	l := lateness{r: r, stalls: spans.Stalls(r)}
	if len(l.stalls) == 0 {
		return l
	}
	for s := range r.Sessions() {
		for b := range r.Windows(s) {
			l.ends = append(l.ends, b.To)
		}
	}
	for _, f := range r.Faults {
		if f.Kind == history.OpStall {
			continue
		}
		for _, e := range []*history.Event{f.Invoke, f.Begin, f.End} {
			if e != nil {
				l.plan = append(l.plan, e.T)
			}
		}
	}
	slices.Sort(l.ends)
	slices.Sort(l.plan)
	return l
}

// stalled adds to a result the longest stall that may be why an expected violation did not come,
// or came of another cause. A stall matters to what a violation's witness shows if it lies within
// the span of that; and to all that was to happen at some instant of the run, if it made that late:
//
//	▒▒▒ stall ▒▒▒
//	       |  a holder's deadline: it could do nothing before that
//	              |  a step of the plan, due meanwhile, comes as soon as the stall is over
//
// A stall that made nothing late is no excuse.
func (l lateness) stalled(res Result) Result {
	if len(l.stalls) == 0 {
		return res
	}
	witness := witnessed(l.r, res.Witness)
	for _, s := range l.stalls {
		if witness.From < s.To && s.From < witness.To || l.by(s) {
			res.Stalled = max(res.Stalled, history.Seconds(s.Length()))
		}
	}
	return res
}

// by says whether a belief ended in a stall, or the plan was late by it.
func (l lateness) by(stall spans.Span) bool {
	return within(l.ends, stall) || within(l.plan, spans.Of(stall.From, stall.To+int64(l.r.Params.Slack)))
}

// within reports whether one of the instants lies in a span, but not at an end of it.
func within(instants []int64, s spans.Span) bool {
	i := spans.UpTo(instants, s.From)
	return i < len(instants) && instants[i] < s.To
}

// witnessed is the span of what a witness shows.
func witnessed(r *facts.Facts, w *Witness) spans.Span {
	if w == nil {
		return spans.Of(facts.Never, spans.Ever)
	}
	span := spans.Of(w.From, w.To)
	shows := map[int64]bool{}
	for _, n := range w.Events {
		shows[n] = true
	}
	for i := range r.Events {
		if e := &r.Events[i]; shows[e.N] {
			span.From, span.To = min(span.From, e.T), max(span.To, e.T)
		}
	}
	return span
}
