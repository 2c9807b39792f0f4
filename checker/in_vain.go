package checker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// inVain says how a fault that was in force hit nothing, by what its step says must be
// seen of it, or "".
func faultInVain(r *usage, s history.PlannedStep, f *facts.Fault) string {
	p := s.Proof
	if p == nil {
		return ""
	}
	switch {
	case p.Idle != "" && strings.Contains(f.Begin.Cause, p.Idle):
		return p.Idle
	case p.Keeps && r.Params.Persistence == "none":
		return "the nodes keep nothing on disk"
	case p.Off > 0 && wrongBy(r, s, f) < p.Off:
		return fmt.Sprintf("the clock of %s was not wrong by as much as %v", f.Target, p.Off)
	}
	from, to, link := strings.Cut(f.Target, "-")
	switch {
	case link && to != history.Replica && absent(r, to, f):
		return to + " was down all the while"
	case link && to == history.Replica && absent(r, from, f), !link && absent(r, f.Target, f):
		return from + " was down all the while"
	}
	return unused(r, p, f)
}

// wrongBy is how far a fault has turned a clock while it lasted. What sets another right
// again, which is in force, has done something.
func wrongBy(r *usage, s history.PlannedStep, f *facts.Fault) time.Duration {
	by := s.By.Abs()
	if s.Rate != 0 {
		by = time.Duration(max(s.Rate-1, 1-s.Rate) * float64(spanOf(r.Facts, f).Length()))
	}
	if r.clocks[f.Target].Reached(f.Begin.T-1) > f.Begin.T {
		return facts.Never
	}
	return by
}

// spanOf is where a fault was in force.
func spanOf(r *facts.Facts, f *facts.Fault) spans.Span {
	s := spans.Of(f.First().T, max(r.End, f.Begin.T))
	if f.End != nil {
		s.To = f.End.T
	}
	return s
}

// absent says whether a node was down already, and did not come back before a fault of it or
// of its link was over.
func absent(r *usage, node string, f *facts.Fault) bool {
	// What a rate has made of a clock stays when it ends, what a jump has does not.
	stays := f.Kind == facts.ClockRate || f.Kind == facts.ClockSlew
	d := r.downs[node].last(f)
	switch {
	case d == nil:
		return false
	case d.End == nil:
		return true
	}
	return f.End != nil && !stays && d.End.T > f.Begin.T && f.End.T <= d.End.T
}

// unused says that no lock made use of what a fault hit while it lasted, or "".
func unused(r *usage, p *history.Proof, f *facts.Fault) string {
	span := spanOf(r.Facts, f)
	node, of := f.Target, history.UseNode
	from, to, link := strings.Cut(f.Target, "-")
	switch {
	case r.clients[f.Target]:
		of = history.UseClient
	case link && to == history.Replica:
		node, of = from, history.UseLink
	case link:
		node, of = to, history.UseLink
	}
	switch {
	case !slices.Contains(p.Use, of):
		return ""
	case of != history.UseClient && len(r.Links) == 0 && slices.ContainsFunc(r.Params.Clients, func(c string) bool { return r.inSessions()[c].Meets(span) }):
		return "" // the record tells of no commands
	case of == history.UseClient:
		if !r.inSessions()[f.Target].Meets(span) {
			return f.Target + " wanted no lock meanwhile, and had none"
		}
	case of == history.UseNode:
		if !r.asked(traffic{node: node}).Meets(span) && !r.keysOn(node).Meets(spans.Of(span.From, span.From)) && !counted(r, f) &&
			(p.Off > 0 || !wanted(r, "", node, span)) {
			return node + " was asked nothing meanwhile, and had no key of a lock"
		}
	case to == history.Replica:
		if !r.asked(traffic{node: node, ok: true}).Meets(span) {
			return node + " had nothing to replicate meanwhile"
		}
	case !r.asked(traffic{process: f.Target}).Meets(span) && !wanted(r, from, node, span):
		return f.Target + " carried nothing meanwhile"
	}
	return ""
}

// counted reports whether a node that a fault ends had counted grants since it last was without
// memory: what fencing tokens are made of outlives all keys.
func counted(r *usage, f *facts.Fault) bool {
	if !endsNode(f) {
		return false
	}
	since := int64(spans.Ever)
	if before := r.downs[f.Target].last(f); before != nil && r.Params.Persistence == "none" {
		since = before.Begin.T
	}
	return slices.ContainsFunc(r.Links, func(e *history.Event) bool {
		return e.Op == history.OpSet && e.Fence > 0 && e.Node == f.Target && facts.Applied(e) > since && facts.Applied(e) < f.Begin.T
	})
}

// wanted reports whether somebody, or one client, must have tried to ask a node in a span,
// though no command of it was seen there, as where no connection came about. Who calls an
// operation asks; who waits in one asks again within a round. A node that nobody has asked
// at any time, though others were, is none that the lock uses.
func wanted(r *usage, client, node string, span spans.Span) bool {
	work := node == r.Params.Resource
	if !work && len(r.Links) > 0 && len(r.asked(traffic{node: node}).Spans) == 0 && !spans.Covering([]spans.Span{span}, spans.Of(r.First, r.Last)) {
		return false
	}
	round := int64(r.Params.NodeTimeout + r.Params.RetryMax)
	asks := r.doings(doing{client: client, all: client == "", work: work})
	before := asks.Begun(span.From - 1)
	return asks.Begun(span.To) > before || before > 0 && min(asks.Reached(span.From-1), r.End, span.To)-span.From > round
}
