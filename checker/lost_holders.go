package checker

import (
	"cmp"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// loss is where a client held a lock, or may have held it, and from some instant
// could not give it back before its lease was over: it was killed, cut off from
// a majority, or paused.
type loss struct {
	fault   *fault
	contest *contest
	session *session
	at      int64 // it was surely lost by then
	free    int64 // the latest instant at which its keys are gone
	lastSet *history.Event
}

// lossKinds is the kinds of fault by which a holder is lost, in the order of reports.
var lossKinds = []string{killed, cutOff, paused}

// ways says of each how one tells of it.
var ways = map[string]struct{ verb, noun, holder string }{
	killed: {"was killed", "death", "dead holder"},
	cutOff: {"was cut off", "cut", "cut-off holder"},
	paused: {"was paused", "pause", "paused holder"},
}

// losses is in the order of the faults.
func (r *record) losses() []loss {
	if r.lost != nil {
		return r.lost
	}
	all := []loss{}
	add := func(f *fault, client string, at, until int64) {
		d, ok := r.holding(client, at)
		if d.fault = f; ok && d.free > f.First().T && d.free <= until {
			all = append(all, d)
		}
	}
	for _, f := range r.Faults {
		stops := f.Kind == killed || f.Kind == paused
		if !stops || f.Begin == nil || !r.isClient(f.Target) {
			continue
		}
		until := int64(never)
		if f.End != nil {
			until = f.End.T
		}
		add(f, f.Target, f.Begin.T, until)
	}
	for client, cuts := range r.cuts() {
		by := map[int64]*fault{}
		for _, f := range slices.Backward(cuts) {
			by[f.Begin.T] = f
		}
		for _, s := range r.isolated(client, cuts) {
			add(by[s.from], client, s.from, s.to)
		}
	}
	slices.SortStableFunc(all, func(a, b loss) int { return byTime(a.fault.Begin, b.fault.Begin) })
	r.lost = all
	return all
}

// cuts is the cuts of each client's links that were seen to be in force.
func (r *record) cuts() map[string][]*fault {
	cuts := map[string][]*fault{}
	for _, f := range r.Faults {
		if client := facts.LinkClient(f.Target); f.Kind == cutOff && f.Begin != nil {
			cuts[client] = append(cuts[client], f)
		}
	}
	return cuts
}

// isolated is where a client was surely cut off from so many nodes that no
// majority was left. A node that it never reaches is no news.
func (r *record) isolated(client string, cuts []*fault) []interval {
	down := r.outages()
	cut := map[string][]interval{} // by link
	for _, f := range cuts {
		cut[f.Target] = append(cut[f.Target], interval{f.Begin.T, f.To()})
	}
	var lists [][]interval
	for _, n := range r.Params.Nodes {
		spans := cut[client+"-"+n]
		if down.never(client, n) {
			spans = append(spans, interval{ever, never})
		}
		lists = append(lists, union(spans))
	}
	n := len(r.Params.Nodes)
	found := atLeast(n-quorumOf(n)+1, lists...)
	return slices.DeleteFunc(found, func(s interval) bool { return s.from == ever })
}

// holding is what a client held, or may have held, at an instant. Where the
// record doesn't tell of its keys, the last was set just then.
func (r *record) holding(client string, at int64) (loss, bool) {
	of := r.wantings()[client]
	i, _ := slices.BinarySearchFunc(of, at, func(w wanting, at int64) int {
		if w.session.Acquire.Call.T <= at {
			return -1
		}
		return 1
	})
	if i == 0 {
		return loss{}, false
	}
	d := loss{contest: of[i-1].contest, session: of[i-1].session, at: at}
	h := r.tenureOf(d.session, d.contest.wire)
	if h.over <= at {
		return d, false
	}
	d.lastSet, d.free = h.last, h.lapse
	if h.last == nil {
		d.free = r.lapse(at)
	}
	return d, h.ok
}

// wanting is a session and what it is about.
type wanting struct {
	session *session
	contest *contest
}

// wantings is the sessions of each client in the order of their call, and of one instant in
// the order of the locks.
func (r *record) wantings() map[string][]wanting {
	if r.wanting != nil {
		return r.wanting
	}
	r.wanting = map[string][]wanting{}
	for _, c := range r.contests() {
		for s := range r.calls(c) {
			r.wanting[s.Client()] = append(r.wanting[s.Client()], wanting{s, c})
		}
	}
	for _, of := range r.wanting {
		slices.SortStableFunc(of, func(a, b wanting) int { return cmp.Compare(a.session.Acquire.Call.T, b.session.Acquire.Call.T) })
	}
	return r.wanting
}

// remembered is a tenure that may be asked for again.
type remembered struct {
	tenure
	ok   bool  // there was one
	over int64 // the session surely held nothing from then on
}

// tenureOf is a session's tenure, for those who may ask for it often.
func (r *record) tenureOf(s *session, w *wire) remembered {
	h, ok := r.tenured[s]
	if !ok {
		h.tenure, h.ok = r.tenure(s, w)
		h.over = over(s)
		if r.tenured == nil {
			r.tenured = map[*session]remembered{}
		}
		r.tenured[s] = h
	}
	return h
}

// over is when a session surely held nothing any more.
func over(s *session) int64 {
	if s.Acquire.Outcome() == history.Fail {
		return ever
	}
	at := int64(never)
	for x := range s.Releases() {
		if x.Outcome() != history.Info {
			at = min(at, x.Return.T)
		}
	}
	return at
}
