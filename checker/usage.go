package checker

import (
	"cmp"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// usage is what a lock made use of and when, in order, so that each step of a plan can ask
// what its fault hit. Each part is made when it is first asked for.
type usage struct {
	sessions map[string]spread // by client
	all      *spread           // of all clients of the run
	commands map[traffic]spread
	keys     map[string]spread // by node
	done     map[doing]spread
	faults   map[int][]*fault  // by step
	clocks   map[string]spread // by process: faults that turn clocks
	downs    map[string]*downs // by node
}

// traffic is what links saw of one link (with its process), or of one node.
type traffic struct {
	process, node string
	ok            bool // only those that a node said yes to
}

// doing is operations of one client, or of all, on the lock or on the resource.
type doing struct {
	client string
	all    bool
	work   bool // on the resource
}

// spreads puts spans in order by what they are of.
func spreads[K comparable](of map[K][]interval) map[K]spread {
	all := map[K]spread{}
	for k, spans := range of {
		all[k] = spreadOf(spans)
	}
	return all
}

// inSessions is where each client wanted a lock or had one.
func (r *record) inSessions() map[string]spread {
	if r.used.sessions == nil {
		of := map[string][]interval{}
		for s := range r.Sessions() {
			of[s.Client()] = append(of[s.Client()], r.busy(s))
		}
		r.used.sessions = spreads(of)
	}
	return r.used.sessions
}

// anySession is where any client of the run did.
func (r *record) anySession() spread {
	if r.used.all == nil {
		var spans []interval
		for s := range r.Sessions() {
			if r.isClient(s.Client()) {
				spans = append(spans, r.busy(s))
			}
		}
		all := spreadOf(spans)
		r.used.all = &all
	}
	return *r.used.all
}

// busy is from a session's call to the last that was done in it.
func (r *record) busy(s *session) interval {
	to := r.wait(s).to
	for a := range s.Actions() {
		if to = max(to, a.Call.T); a.Return == nil {
			to = never
		} else {
			to = max(to, a.Return.T)
		}
	}
	return interval{s.Acquire.Call.T, to}
}

// asked is where commands of a sort were under way.
func (r *record) asked(c traffic) spread {
	if r.used.commands == nil {
		of := map[traffic][]interval{}
		for _, e := range r.Links {
			span := interval{e.Sent, max(e.T, e.Applied, e.Answered)}
			of[traffic{process: e.Process}] = append(of[traffic{process: e.Process}], span)
			of[traffic{node: e.Node}] = append(of[traffic{node: e.Node}], span)
			if e.Type == history.OK {
				yes := traffic{node: e.Node, ok: true}
				of[yes] = append(of[yes], span)
			}
		}
		r.used.commands = spreads(of)
	}
	return r.used.commands[c]
}

// keysOn is where each node had a lock's key: one that was set or extended less than its
// TTL before, and not deleted since.
func (r *record) keysOn(node string) spread {
	if r.used.keys == nil {
		type place struct{ node, key string }
		of := map[string][]interval{}
		deleted := map[place]int64{} // by a release that is in the record after what is looked at
		for i := len(r.Links) - 1; i >= 0; i-- {
			e := r.Links[i]
			p, at := place{e.Node, e.Key}, facts.Applied(e)
			end, ok := deleted[p]
			switch {
			case e.Type != history.OK:
			case e.Op == history.OpRelease && (!ok || at < end):
				deleted[p] = at
			case e.Op == history.OpRelease:
			default:
				has := interval{at, at + cmp.Or(e.TTL, int64(r.Params.TTL))}
				if ok {
					has.to = min(has.to, end-1)
				}
				if has.from <= has.to {
					of[e.Node] = append(of[e.Node], has)
				}
			}
		}
		r.used.keys = spreads(of)
	}
	return r.used.keys[node]
}

// doings is where operations of a sort were under way.
func (r *record) doings(d doing) spread {
	if _, ok := r.used.done[doing{all: d.all}]; !ok {
		of := map[doing][]interval{{all: d.all}: nil}
		for s := range r.Sessions() {
			k := doing{client: s.Client()}
			if d.all {
				k = doing{all: true}
			}
			of[k] = append(of[k], interval{s.Acquire.Call.T, s.Acquire.Ended()})
			for a := range s.Actions() {
				if a.Call.Op != history.OpCheck {
					k.work = a.Call.Op == history.OpRead || a.Call.Op == history.OpWrite
					of[k] = append(of[k], interval{a.Call.T, a.Ended()})
				}
			}
		}
		if r.used.done == nil {
			r.used.done = map[doing]spread{}
		}
		for k, spans := range of {
			r.used.done[k] = spreadOf(spans)
		}
	}
	return r.used.done[d]
}

// ofStep is the faults of a step.
func (r *record) ofStep(step int) []*fault {
	if r.used.faults == nil {
		r.used.faults = map[int][]*fault{}
		for _, f := range r.Faults {
			r.used.faults[f.Step] = append(r.used.faults[f.Step], f)
		}
	}
	return r.used.faults[step]
}
