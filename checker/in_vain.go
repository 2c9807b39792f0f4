package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/harness/history"
)

// inVain says how a fault that was in force hit nothing, by what its step says must be
// seen of it, or "".
func (r *record) inVain(s history.PlannedStep, f *fault) string {
	p := s.Proof
	if p == nil {
		return ""
	}
	switch {
	case p.Idle != "" && strings.Contains(f.begin.Cause, p.Idle):
		return p.Idle
	case p.Keeps && r.params.Persistence == "none":
		return "the nodes keep nothing on disk"
	case p.Off > 0 && r.wrongBy(s, f) < p.Off:
		return fmt.Sprintf("the clock of %s was not wrong by as much as %v", f.target, p.Off)
	}
	from, to, link := strings.Cut(f.target, "-")
	switch {
	case link && to != history.Replica && r.absent(to, f):
		return to + " was down all the while"
	case link && to == history.Replica && r.absent(from, f), !link && r.absent(f.target, f):
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
	if slices.ContainsFunc(r.faults, func(o *fault) bool {
		return o != f && o.target == f.target && strings.HasPrefix(o.kind, clockWrong) && o.begin != nil && o.begin.T < f.begin.T &&
			(o.end == nil || o.end.T > f.begin.T)
	}) {
		return never
	}
	return by
}

// spanOf is where a fault was in force.
func (r *record) spanOf(f *fault) interval {
	s := interval{f.first().T, max(r.end, f.begin.T)}
	if f.end != nil {
		s.to = f.end.T
	}
	return s
}

// absent says whether a node was down already, and did not come back before a fault of it or
// of its link was over.
func (r *record) absent(node string, f *fault) bool {
	return slices.ContainsFunc(r.faults, func(d *fault) bool {
		switch {
		case d == f || d.target != node || d.kind != killed && d.kind != "shutdown" && d.kind != powerLost:
			return false
		case d.begin == nil || d.begin.T > f.begin.T:
			return false
		case d.end == nil:
			return true
		}
		// What a rate has made of a clock stays when it ends, what a jump has does not.
		stays := f.kind == clockWrong+"rate" || f.kind == clockWrong+"slew"
		return f.end != nil && !stays && d.end.T > f.begin.T && f.end.T <= d.end.T
	})
}

// unused says that no lock made use of what a fault hit while it lasted, or "".
func (r *record) unused(p *history.Proof, f *fault) string {
	span := r.spanOf(f)
	node, of := f.target, history.UseNode
	from, to, link := strings.Cut(f.target, "-")
	switch {
	case slices.Contains(r.params.Clients, f.target):
		of = history.UseClient
	case link && to == history.Replica:
		node, of = from, history.UseLink
	case link:
		node, of = to, history.UseLink
	}
	switch {
	case !slices.Contains(p.Use, of):
		return ""
	case of != history.UseClient && len(r.links) == 0 && slices.ContainsFunc(r.params.Clients, func(c string) bool { return r.inSession(c, span) }):
		return "" // the record tells of no commands
	case of == history.UseClient:
		if !r.inSession(f.target, span) {
			return f.target + " wanted no lock meanwhile, and had none"
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
	case !r.asked(span, func(e *history.Event) bool { return e.Process == f.target }) && !r.wanted(from, node, span):
		return f.target + " carried nothing meanwhile"
	}
	return ""
}

// inSession reports whether a client wanted a lock or had one in a span.
func (r *record) inSession(client string, span interval) bool {
	for s := range r.sessions.all() {
		if s.client() != client || s.acquire.call.T > span.to {
			continue
		}
		to := r.wait(s).to
		for a := range s.actions() {
			if to = max(to, a.call.T); a.ret == nil {
				to = never
			} else {
				to = max(to, a.ret.T)
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
	return slices.ContainsFunc(r.links, func(e *history.Event) bool {
		return e.Sent <= span.to && max(e.T, e.Applied, e.Answered) >= span.from && sort(e)
	})
}

// keyOn reports whether a node had a lock's key at an instant: one that was set or
// extended less than its TTL before, and not deleted since.
func (r *record) keyOn(node string, at int64) bool {
	live := map[string]string{} // by key, the token
	for _, e := range r.links {
		switch {
		case e.Node != node || e.Type != history.OK || applied(e) > at:
		case e.Op == history.OpRelease:
			delete(live, e.Key)
		case applied(e)+cmp.Or(e.TTL, int64(r.params.TTL)) >= at:
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
	if node != r.params.Resource && len(r.links) > 0 && !slices.ContainsFunc(r.links, func(e *history.Event) bool { return e.Node == node }) &&
		!covering([]interval{span}, interval{r.first, r.last}) {
		return false
	}
	round := int64(r.params.NodeTimeout + r.params.RetryMax)
	meets := func(o operation) bool {
		to := min(o.ended(), r.end)
		return o.call.T >= span.from && o.call.T <= span.to || min(to, span.to)-max(o.call.T, span.from) > round
	}
	for s := range r.sessions.all() {
		if client != "" && s.client() != client {
			continue
		}
		if node != r.params.Resource && meets(s.acquire) {
			return true
		}
		for a := range s.actions() {
			work := a.call.Op == history.OpRead || a.call.Op == history.OpWrite
			if work == (node == r.params.Resource) && meets(a.operation) {
				return true
			}
		}
	}
	return false
}
