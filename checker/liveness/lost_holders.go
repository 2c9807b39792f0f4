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
	wanted := sync.OnceValue(func() map[string]*wants { return wantsOf(locks) })
	add := func(f *facts.Fault, client string, at, until int64) {
		for _, d := range wanted()[client].held(at, f.First().T) {
			if d.fault = f; d.free <= until {
				all = append(all, d)
			}
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

// wanting is a session and what it is about.
type wanting struct {
	session *facts.Session
	lock    *lockState
}

// wants is all that a client wanted, in the order of the calls, and of one instant in the
// order of the locks.
type wants struct {
	all   []wanting
	lapse []int64 // of each: when the last key that is known of it, or of any before it, has lapsed
}

// held is what a client held or may have held at an instant, of each lock that session whose
// keys are gone last, if that is after another instant. Of an earlier session than the last
// only those keys count of which the record tells; of the last, where it doesn't, one was set
// just then.
func (w *wants) held(at, after int64) (all []loss) {
	if w == nil {
		return nil
	}
	last := sort.Search(len(w.all), func(i int) bool { return w.all[i].session.Acquire.Call.T > at }) - 1
	for i := last; i >= 0 && (i == last || w.lapse[i] > after); i-- {
		of := w.all[i]
		h := of.lock.hold(of.session)
		d := loss{lock: of.lock, session: of.session, at: at, lastSet: h.last, free: h.lapse}
		if h.last == nil {
			d.free = of.lock.keys.of(at)
		}
		if !h.ok || h.over <= at || d.free <= after || h.last == nil && i < last {
			continue
		}
		same := slices.IndexFunc(all, func(o loss) bool { return o.lock == d.lock })
		switch {
		case same < 0:
			all = append(all, d)
		case d.free > all[same].free:
			all[same] = d
		}
	}
	return all
}

func wantsOf(locks []*lockState) map[string]*wants {
	all := map[string]*wants{}
	for _, c := range locks {
		for s := range c.called {
			of := all[s.Client()]
			if of == nil {
				of = new(wants)
				all[s.Client()] = of
			}
			of.all = append(of.all, wanting{s, c})
		}
	}
	for _, of := range all {
		slices.SortStableFunc(of.all, func(a, b wanting) int { return cmp.Compare(a.session.Acquire.Call.T, b.session.Acquire.Call.T) })
		lapse := int64(spans.Ever)
		for _, x := range of.all {
			if h := x.lock.hold(x.session); h.ok && h.last != nil {
				lapse = max(lapse, h.lapse)
			}
			of.lapse = append(of.lapse, lapse)
		}
	}
	return all
}
