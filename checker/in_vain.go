package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
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
	if slices.ContainsFunc(r.Faults, func(o *fault) bool {
		return o != f && o.Target == f.Target && strings.HasPrefix(o.Kind, clockWrong) && o.Begin != nil && o.Begin.T < f.Begin.T &&
			(o.End == nil || o.End.T > f.Begin.T)
	}) {
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
	return slices.ContainsFunc(r.Faults, func(d *fault) bool {
		switch {
		case d == f || d.Target != node || d.Kind != killed && d.Kind != "shutdown" && d.Kind != powerLost:
			return false
		case d.Begin == nil || d.Begin.T > f.Begin.T:
			return false
		case d.End == nil:
			return true
		}
		// What a rate has made of a clock stays when it ends, what a jump has does not.
		stays := f.Kind == clockWrong+"rate" || f.Kind == clockWrong+"slew"
		return f.End != nil && !stays && d.End.T > f.Begin.T && f.End.T <= d.End.T
	})
}

// unused says that no lock made use of what a fault hit while it lasted, or "".
func (r *record) unused(p *history.Proof, f *fault) string {
	span := r.spanOf(f)
	node, of := f.Target, history.UseNode
	from, to, link := strings.Cut(f.Target, "-")
	switch {
	case slices.Contains(r.Params.Clients, f.Target):
		of = history.UseClient
	case link && to == history.Replica:
		node, of = from, history.UseLink
	case link:
		node, of = to, history.UseLink
	}
	switch {
	case !slices.Contains(p.Use, of):
		return ""
	case of != history.UseClient && len(r.Links) == 0 && slices.ContainsFunc(r.Params.Clients, func(c string) bool { return r.inSession(c, span) }):
		return "" // the record tells of no commands
	case of == history.UseClient:
		if !r.inSession(f.Target, span) {
			return f.Target + " wanted no lock meanwhile, and had none"
		}
	case of == history.UseNode:
		if !r.asked(span, func(e *history.Event) bool { return e.Node == node }) && !r.keyOn(node, span.from) &&
			(p.Off > 0 || !r.wanted("", node, span)) {
			return node + " was asked nothing meanwhile, and had no key of a lock"
		}
	case to == history.Replica:
		if !r.asked(span, func(e *history.Event) bool { return e.Node == node && e.Type == history.OK }) {
			return node + " had nothing to replicate meanwhile"
		}
	case !r.asked(span, func(e *history.Event) bool { return e.Process == f.Target }) && !r.wanted(from, node, span):
		return f.Target + " carried nothing meanwhile"
	}
	return ""
}

// inSession reports whether a client wanted a lock or had one in a span.
func (r *record) inSession(client string, span interval) bool {
	for s := range r.Sessions() {
		if s.Client() != client || s.Acquire.Call.T > span.to {
			continue
		}
		to := r.wait(s).to
		for a := range s.Actions() {
			if to = max(to, a.Call.T); a.Return == nil {
				to = never
			} else {
				to = max(to, a.Return.T)
			}
		}
		if to >= span.from {
			return true
		}
	}
	return false
}

// asked reports whether a lock's command of a sort was under way in a span.
func (r *record) asked(span interval, sort func(*history.Event) bool) bool {
	return slices.ContainsFunc(r.Links, func(e *history.Event) bool {
		return e.Sent <= span.to && max(e.T, e.Applied, e.Answered) >= span.from && sort(e)
	})
}

// keyOn reports whether a node had a lock's key at an instant: one that was set or
// extended less than its TTL before, and not deleted since.
func (r *record) keyOn(node string, at int64) bool {
	live := map[string]string{} // by key, the token
	for _, e := range r.Links {
		switch {
		case e.Node != node || e.Type != history.OK || facts.Applied(e) > at:
		case e.Op == history.OpRelease:
			delete(live, e.Key)
		case facts.Applied(e)+cmp.Or(e.TTL, int64(r.Params.TTL)) >= at:
			live[e.Key] = e.Token
		}
	}
	return len(live) > 0
}

// wanted reports whether somebody, or one client, must have tried to ask a node in a span,
// though no command of it was seen there, as where no connection came about. Who calls an
// operation asks; who waits in one asks again within a round. A node that nobody has asked
// at any time, though others were, is none that the lock uses.
func (r *record) wanted(client, node string, span interval) bool {
	if node != r.Params.Resource && len(r.Links) > 0 && !slices.ContainsFunc(r.Links, func(e *history.Event) bool { return e.Node == node }) &&
		!covering([]interval{span}, interval{r.First, r.Last}) {
		return false
	}
	round := int64(r.Params.NodeTimeout + r.Params.RetryMax)
	meets := func(o operation) bool {
		to := min(o.Ended(), r.End)
		return o.Call.T >= span.from && o.Call.T <= span.to || min(to, span.to)-max(o.Call.T, span.from) > round
	}
	for s := range r.Sessions() {
		if client != "" && s.Client() != client {
			continue
		}
		if node != r.Params.Resource && meets(s.Acquire) {
			return true
		}
		for a := range s.Actions() {
			work := a.Call.Op == history.OpRead || a.Call.Op == history.OpWrite
			if a.Call.Op != history.OpCheck && work == (node == r.Params.Resource) && meets(a.Operation) {
				return true
			}
		}
	}
	return false
}
