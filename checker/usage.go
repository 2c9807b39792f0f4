package checker

import (
	"cmp"
	"slices"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// usage is what a lock made use of and when, in order, so that each step of a plan can ask
// what its fault hit. What may be long is made when it is first asked for.
type usage struct {
	*facts.Facts
	clients map[string]bool         // of the run
	steps   map[int][]*facts.Fault  // the faults of each
	clocks  map[string]spans.Spread // by process: faults that turn clocks
	downs   map[string]*downs       // by node

	sessions map[string]spans.Spread // by client
	commands map[traffic]spans.Spread
	keys     map[string]spans.Spread // by node
	done     map[doing]spans.Spread
}

func newUsage(r *facts.Facts) *usage {
	u := &usage{Facts: r, clients: map[string]bool{}, steps: map[int][]*facts.Fault{}, downs: map[string]*downs{}, done: map[doing]spans.Spread{}}
	for _, c := range r.Params.Clients {
		u.clients[c] = true
	}
	turned := map[string][]spans.Span{}
	var down []*facts.Fault
	for _, f := range r.Faults {
		u.steps[f.Step] = append(u.steps[f.Step], f)
		switch {
		case f.Begin == nil:
		case f.TurnsClock():
			turned[f.Target] = append(turned[f.Target], spans.Of(f.Begin.T, f.To()))
		case endsNode(f):
			down = append(down, f)
		}
	}
	u.clocks = spreads(turned)
	slices.SortStableFunc(down, func(a, b *facts.Fault) int { return cmp.Compare(a.Begin.T, b.Begin.T) })
	for _, f := range down {
		if u.downs[f.Target] == nil {
			u.downs[f.Target] = &downs{}
		}
		u.downs[f.Target].add(f)
	}
	return u
}

// endsNode reports whether a fault ends the process that it hits.
func endsNode(f *facts.Fault) bool {
	return f.Kind == facts.Kill || f.Kind == facts.Shutdown || f.Kind == facts.PowerLoss
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
func spreads[K comparable](of map[K][]spans.Span) map[K]spans.Spread {
	all := map[K]spans.Spread{}
	for k, list := range of {
		all[k] = spans.SpreadOf(list)
	}
	return all
}

// inSessions is where each client wanted a lock or had one.
func (r *usage) inSessions() map[string]spans.Spread {
	if r.sessions == nil {
		of := map[string][]spans.Span{}
		for s := range r.Sessions() {
			of[s.Client()] = append(of[s.Client()], busy(r.Facts, s))
		}
		r.sessions = spreads(of)
	}
	return r.sessions
}

// busy is from a session's call to the last that was done in it.
func busy(r *facts.Facts, s *facts.Session) spans.Span {
	to := spans.Wait(r, s).To
	for a := range s.Actions() {
		if to = max(to, a.Call.T); a.Return == nil {
			to = facts.Never
		} else {
			to = max(to, a.Return.T)
		}
	}
	return spans.Of(s.Acquire.Call.T, to)
}

// asked is where commands of a sort were under way.
func (r *usage) asked(c traffic) spans.Spread {
	if r.commands == nil {
		of := map[traffic][]spans.Span{}
		for _, e := range r.Links {
			span := spans.Of(e.Sent, max(e.T, e.Applied, e.Answered))
			of[traffic{process: e.Process}] = append(of[traffic{process: e.Process}], span)
			of[traffic{node: e.Node}] = append(of[traffic{node: e.Node}], span)
			if e.Type == history.OK {
				yes := traffic{node: e.Node, ok: true}
				of[yes] = append(of[yes], span)
			}
		}
		r.commands = spreads(of)
	}
	return r.commands[c]
}

// keysOn is where each node had a lock's key: one that was set or extended less than its
// TTL before, and not deleted since.
func (r *usage) keysOn(node string) spans.Spread {
	if r.keys == nil {
		type place struct{ node, key string }
		of := map[string][]spans.Span{}
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
				has := spans.Of(at, at+cmp.Or(e.TTL, int64(r.Params.TTL)))
				if ok {
					has.To = min(has.To, end-1)
				}
				if has.From <= has.To {
					of[e.Node] = append(of[e.Node], has)
				}
			}
		}
		r.keys = spreads(of)
	}
	return r.keys[node]
}

// doings is where operations of a sort were under way.
func (r *usage) doings(d doing) spans.Spread {
	if _, ok := r.done[doing{all: d.all}]; !ok {
		of := map[doing][]spans.Span{{all: d.all}: nil}
		for s := range r.Sessions() {
			k := doing{client: s.Client()}
			if d.all {
				k = doing{all: true}
			}
			of[k] = append(of[k], spans.Of(s.Acquire.Call.T, s.Acquire.Ended()))
			for a := range s.Actions() {
				if a.Call.Op != history.OpCheck {
					k.work = a.Call.Op == history.OpRead || a.Call.Op == history.OpWrite
					of[k] = append(of[k], spans.Of(a.Call.T, a.Ended()))
				}
			}
		}
		for k, list := range of {
			r.done[k] = spans.SpreadOf(list)
		}
	}
	return r.done[d]
}
