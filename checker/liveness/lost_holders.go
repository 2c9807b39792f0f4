package liveness

import (
	"cmp"
	"slices"
	"sort"
	"sync"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// loss is where a client may have held a lock, and from some instant could not give it
// back before its lease was over: it was killed, cut off from a majority, or paused.
type loss struct {
	fault   *facts.Fault
	lock    *lockState
	session *facts.Session
	at      int64 // it was surely lost by then
	free    int64 // the latest instant at which its keys are gone
	lastSet *history.Event
}

// lossKinds is the kinds of fault by which a holder is lost, in the order of reports.
var lossKinds = []string{facts.Kill, facts.Cut, facts.Pause}

// ways says of each how one tells of it.
var ways = map[string]struct{ verb, noun, holder string }{
	facts.Kill:  {"was killed", "death", "dead holder"},
	facts.Cut:   {"was cut off", "cut", "cut-off holder"},
	facts.Pause: {"was paused", "pause", "paused holder"},
}

// lossesOf is in the order of the faults.
func lossesOf(r *conditions, locks []*lockState) []loss {
	var all []loss
	wanted := sync.OnceValue(func() map[string][]wanting { return wantings(locks) })
	add := func(f *facts.Fault, client string, at, until int64) {
		d, ok := holding(wanted()[client], at)
		if d.fault = f; ok && d.free > f.First().T && d.free <= until {
			all = append(all, d)
		}
	}
	clients := map[string]bool{}
	for _, c := range r.Params.Clients {
		clients[c] = true
	}
	for _, f := range r.Faults {
		if stops := f.Kind == facts.Kill || f.Kind == facts.Pause; stops && f.Begin != nil && clients[f.Target] {
			add(f, f.Target, f.Begin.T, f.To())
		}
	}
	for client, cuts := range cutsOf(r.Facts) {
		by := map[int64]*facts.Fault{}
		for _, f := range slices.Backward(cuts) {
			by[f.Begin.T] = f
		}
		for _, s := range isolated(r.down, client, cuts) {
			add(by[s.From], client, s.From, s.To)
		}
	}
	slices.SortStableFunc(all, func(a, b loss) int { return verdict.ByTime(a.fault.Begin, b.fault.Begin) })
	return all
}

// cutsOf is the cuts of each client's links that were seen to be in force.
func cutsOf(r *facts.Facts) map[string][]*facts.Fault {
	cuts := map[string][]*facts.Fault{}
	for _, f := range r.Faults {
		if client := facts.LinkClient(f.Target); f.Kind == facts.Cut && f.Begin != nil {
			cuts[client] = append(cuts[client], f)
		}
	}
	return cuts
}

// isolated is where a client was surely cut off from so many nodes that no
// majority was left. A node that it never reaches is no news.
func isolated(down *outages, client string, cuts []*facts.Fault) []spans.Span {
	cut := map[string][]spans.Span{} // by link
	for _, f := range cuts {
		cut[f.Target] = append(cut[f.Target], spans.Of(f.Begin.T, f.To()))
	}
	var lists [][]spans.Span
	for _, n := range down.nodes {
		list := cut[client+"-"+n]
		if down.never(client, n) {
			list = append(list, spans.Of(spans.Ever, facts.Never))
		}
		lists = append(lists, spans.Union(list))
	}
	n := len(down.nodes)
	found := spans.AtLeast(n-down.quorum+1, lists...)
	return slices.DeleteFunc(found, func(s spans.Span) bool { return s.From == spans.Ever })
}

// holding is what a client, by all that it wanted, held or may have held at an instant.
// Where the record doesn't tell of its keys, the last was set just then.
func holding(of []wanting, at int64) (loss, bool) {
	i := sort.Search(len(of), func(i int) bool { return of[i].session.Acquire.Call.T > at })
	if i == 0 {
		return loss{}, false
	}
	d := loss{lock: of[i-1].lock, session: of[i-1].session, at: at}
	h := d.lock.hold(d.session)
	if h.over <= at {
		return d, false
	}
	d.lastSet, d.free = h.last, h.lapse
	if h.last == nil {
		d.free = d.lock.keys.of(at)
	}
	return d, h.ok
}

// wanting is a session and what it is about.
type wanting struct {
	session *facts.Session
	lock    *lockState
}

// wantings is the sessions of each client in the order of their call, and of one instant in
// the order of the locks.
func wantings(locks []*lockState) map[string][]wanting {
	all := map[string][]wanting{}
	for _, c := range locks {
		for s := range c.called {
			all[s.Client()] = append(all[s.Client()], wanting{s, c})
		}
	}
	for _, of := range all {
		slices.SortStableFunc(of, func(a, b wanting) int { return cmp.Compare(a.session.Acquire.Call.T, b.session.Acquire.Call.T) })
	}
	return all
}
