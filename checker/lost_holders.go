package checker

import (
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
	var all []loss
	add := func(f *fault, client string, at, until int64) {
		d, ok := r.holding(client, at)
		if d.fault = f; ok && d.free > f.First().T && d.free <= until {
			all = append(all, d)
		}
	}
	for _, f := range r.Faults {
		stops := f.Kind == killed || f.Kind == paused
		if !stops || f.Begin == nil || !slices.Contains(r.Params.Clients, f.Target) {
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
	var lists [][]interval
	for _, n := range r.Params.Nodes {
		var spans []interval
		if reach, ok := down.reach[client]; ok && !slices.Contains(reach, n) {
			spans = []interval{{ever, never}}
		}
		for _, f := range cuts {
			if f.Target != client+"-"+n {
				continue
			}
			s := interval{f.Begin.T, never}
			if f.End != nil {
				s.to = f.End.T
			}
			spans = append(spans, s)
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
	var d loss
	for _, c := range r.contests() {
		s := facts.LastCalled(r.of(c)[client], at)
		if s == nil || d.session != nil && s.Acquire.Call.T < d.session.Acquire.Call.T {
			continue
		}
		d = loss{contest: c, session: s, at: at}
	}
	if d.session == nil || over(d.session, at) {
		return d, false
	}
	h, ok := r.tenure(d.session, d.contest.wire)
	d.lastSet, d.free = h.last, h.lapse
	if h.last == nil {
		d.free = r.lapse(at)
	}
	return d, ok
}

// over reports whether a session surely held nothing any more.
func over(s *session, at int64) bool {
	if s.Acquire.Outcome() == history.Fail {
		return true
	}
	for x := range s.Releases() {
		if x.Outcome() != history.Info && x.Return.T <= at {
			return true
		}
	}
	return false
}
