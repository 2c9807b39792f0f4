package checker

import "lockpick/harness/history"

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
	for _, s := range r.stalls() {
		if r.withinWitness(res.Witness, s) || r.madeLate(s) {
			res.Stalled = max(res.Stalled, history.Seconds(s.length()))
		}
	}
	return res
}

// withinWitness says whether a stall meets the span of what a witness shows.
func (r *record) withinWitness(w *Witness, stall interval) bool {
	if w == nil {
		return false
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
	return stall.from < span.to && span.from < stall.to
}

// madeLate says whether a belief ended in a stall, or the plan was late by it.
func (r *record) madeLate(stall interval) bool {
	for s := range r.Sessions() {
		for b := range r.Windows(s) {
			if stall.from < b.To && b.To < stall.to {
				return true
			}
		}
	}
	for _, f := range r.Faults {
		if f.Kind == history.OpStall {
			continue
		}
		for _, e := range []*history.Event{f.Invoke, f.Begin, f.End} {
			if e != nil && stall.from < e.T && e.T < stall.to+int64(r.Params.Slack) {
				return true
			}
		}
	}
	return false
}
