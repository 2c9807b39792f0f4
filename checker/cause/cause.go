// Package cause finds why two sessions could have one lock.
//
// That is not inferred from what clients were answered. The
// nodes tell what became of each key (history.Life): any two quorums share a node, and there
// the key by which the first session was granted had ended when the second was granted.
// For each such node the first row that fits says how (rows.go):
//
//	a session's keys are on fewer nodes than a quorum          never-set
//	it got less time than the TTL, for a wrong clock           expired-early; both clocks: clocks-disagree
//	the second came when its time was over                     told-late, given-shorter, granted-late, client-clock
//	deleted by a client, by a stranger / by lockpick           deleted-by-other / deleted-by-harness
//	by its holder, who had acquired it again                   released-early
//	gone with all others / for want of memory                  flushed / evicted
//	not there, or an older one, after a failover               failed-over
//	likewise after a power loss, on a node that keeps a file   lost-unsynced
//	likewise after any other restart                           restarted-and-forgot
//	expired, and the node's clock had gained that much         expired-early
//	another value was put over it                              overwritten
//	none of that was told, or it can't be                      unexplained
//
// What befell a key before is no matter where its time would have been over by then: the
// second would have been granted all the same. The rows of all common nodes are the cause
// (Explanation.Losses), each with the fact and the steps of the plan that did it (steps.go);
// the one that holds on the most nodes gives it its name. A record without the nodes' word
// (Params.Life) is judged all the same, and its overlaps are unexplained.
//
// Deliberately missing: whether two sessions had one lock at all.
package cause

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// explanation is why two sessions could both be granted one lock.
type explanation struct {
	Cause  string
	Node   string
	Text   string
	Losses []verdict.Loss
	Spare  int              // nodes that the second could have done without
	Events []*history.Event // what shows it
}

// strength orders causes that explain as many nodes as each other.
var strength = []string{verdict.RestartedAndForgot, verdict.LostUnsynced, verdict.FailedOver, verdict.DeletedByOther, verdict.ReleasedEarly, verdict.DeletedByHarness,
	verdict.Flushed, verdict.Evicted, verdict.ClientClock, verdict.ToldLate, verdict.GrantedLate, verdict.GivenShorter, verdict.ClocksDisagree, verdict.ExpiredEarly,
	verdict.Overwritten, verdict.Unexplained}

// Explain finds the cause of two sessions' overlap. Any two quorums share a node, so
// either one session had no quorum, or at least one node granted both; there the key that
// was set first was gone before the other's set, and the node has told how.
func Explain(r *facts.Facts, a, b *facts.Session) explanation {
	if !r.Params.Life {
		return untold(r, a, b)
	}
	votes := map[*facts.Session]map[string]*facts.Stay{a: votes(r, a), b: votes(r, b)}
	for _, s := range []*facts.Session{a, b} {
		if n := len(votes[s]); n < r.Params.Quorum {
			return uncounted(r, s, votes[s])
		}
	}
	x := explanation{Spare: len(votes[b]) - r.Params.Quorum}
	for _, name := range r.Params.Nodes {
		va, vb := votes[a][name], votes[b][name]
		switch {
		case va == nil || vb == nil:
		case va.Put.Life.Seq <= vb.Put.Life.Seq:
			x.Losses = append(x.Losses, loss(r, a, b, va, vb))
		default:
			x.Losses = append(x.Losses, loss(r, b, a, vb, va))
			x.Spare = len(votes[a]) - r.Params.Quorum
		}
	}
	if len(x.Losses) == 0 {
		return explanation{Cause: verdict.Unexplained, Text: "no node granted both"}
	}
	return x.headed()
}

// untold is what a record says of an overlap that has no facts of the nodes: nobody knows what
// became of the keys, but when a holder was told of a loss is known.
func untold(r *facts.Facts, both ...*facts.Session) explanation {
	x := explanation{Cause: verdict.Unexplained, Text: "the record has no facts of the nodes"}
	for _, s := range both {
		if lost := r.Lost(s); lost != nil {
			x.Text += fmt.Sprintf(", and %s was told of its loss at %s", s.Client(), facts.Seconds(lost.T))
			x.Events = append(x.Events, lost)
		}
	}
	return x
}

// uncounted tells a session that had too few nodes' keys for a quorum.
func uncounted(r *facts.Facts, s *facts.Session, votes map[string]*facts.Stay) explanation {
	x := explanation{Cause: verdict.NeverSet}
	for _, n := range r.Params.Nodes {
		if v := votes[n]; v != nil {
			x.Events = append(x.Events, v.Put)
		} else if g := r.Lives().Gap(n, s.Acquire.Call.T, s.Acquire.Return.T); g != nil {
			return explanation{Cause: verdict.Unexplained, Node: n, Text: fmt.Sprintf("facts of %s may be missing when %s set its keys", n, s.Client()), Events: []*history.Event{g}}
		}
	}
	x.Text = fmt.Sprintf("%s counted itself in with the votes of %d of %d nodes, and a quorum is %d", s.Client(), len(votes), len(r.Params.Nodes), r.Params.Quorum)
	return x
}

// votes is the last key by node that a session's own link put there within its acquire. A
// lock that takes what it has already, for longer, has voted with that.
func votes(r *facts.Facts, s *facts.Session) map[string]*facts.Stay {
	votes := map[string]*facts.Stay{}
	within := func(e *history.Event) bool {
		ε := facts.Error(e)
		return facts.LinkClient(e.Life.By) == s.Client() && e.T >= s.Acquire.Call.T-ε && e.T <= s.Acquire.Return.T+ε
	}
	for _, n := range r.Params.Nodes {
		for _, v := range r.Lives().Stays(n, s.Key()) {
			if v.Holds(s.Token()) && (within(v.Put) || within(v.Given)) {
				votes[n] = v
			}
		}
	}
	return votes
}

// headed names the explanation by the cause that holds on the most nodes, told for the
// first of them. All that are named were needed if the second had no vote to spare.
func (x explanation) headed() explanation {
	count := map[string]int{}
	for _, l := range x.Losses {
		count[l.Cause]++
	}
	best := slices.MinFunc(x.Losses, func(a, b verdict.Loss) int {
		return cmp.Or(count[b.Cause]-count[a.Cause], slices.Index(strength, a.Cause)-slices.Index(strength, b.Cause))
	})
	x.Cause, x.Node, x.Text = best.Cause, best.Node, best.Text
	var same []string
	for _, l := range x.Losses {
		x.Events = append(x.Events, l.Events...)
		switch {
		case l.Node == best.Node:
		case l.Cause == best.Cause:
			same = append(same, l.Node)
		}
	}
	if len(same) > 0 {
		x.Text += "; likewise on " + verdict.List(same)
	}
	for _, l := range x.Losses {
		if l.Cause != best.Cause {
			x.Text += "; " + l.Text
		}
	}
	return x
}

// loss is the decision table: how the key by which a node had granted the first session
// was gone when the node granted the second. The first row that fits says it.
func loss(r *facts.Facts, first, second *facts.Session, vote, other *facts.Stay) verdict.Loss {
	for _, next := range r.Lives().Stays(vote.Node, first.Key()) { // its own client has changed it, and it is still the session's
		own := next.Put == vote.End && facts.LinkClient(next.By()) == first.Client() && first.Token() != "" && next.Holds(first.Token())
		if own && next.Put.Life.Seq < other.Put.Life.Seq {
			vote = next
		}
	}
	x := losing{&verdict.Loss{Node: vote.Node, First: first.Name(), Second: second.Name()}, first, second, vote, other, vote.Due()}
	x.Events = []*history.Event{vote.Put, other.Put}
	end := vote.End
	if end == nil || end.Life.Seq > other.Put.Life.Seq {
		x.Cause, x.Text = verdict.Unexplained, fmt.Sprintf("%s granted both, and has not told how %s's key ended", x.Node, first.Client())
	} else {
		x.Fact, x.Put = end.N, other.Put.N
		x.Events = append(x.Events, vote.Given, end)
		row(r, x, end)
	}
	if g := r.Lives().Gap(x.Node, vote.Put.T, other.Put.T); g != nil && x.Cause == verdict.Unexplained {
		x.Text += "; facts of that node may be missing"
		x.Events = append(x.Events, g)
	}
	return *x.Loss
}

// row fills in the first row that fits.
func row(r *facts.Facts, x losing, end *history.Event) {
	first, other, what := x.first, x.other, end.Life.What
	switch {
	case shortened(r, x):
	case other.Put.T+facts.Error(other.Put) >= x.due:
		outlived(r, x)
	case what == history.KeyDeleted:
		deleted(r, x, end)
	case what == history.KeyFlushed:
		x.Cause, x.Text = verdict.Flushed, fmt.Sprintf("%s emptied %s at %s, and %s's key went with all others", doer(end), x.Node, facts.Seconds(end.T), first.Client())
	case what == history.KeyEvicted:
		x.Cause, x.Text = verdict.Evicted, fmt.Sprintf("%s had no memory left, and dropped %s's key at %s", x.Node, first.Client(), facts.Seconds(end.T))
	case what == history.KeyLost, what == history.KeyReverted:
		forgotten(r, x, end)
	case what == history.KeyExpired:
		early(r, x, end)
	case facts.LinkClient(end.Life.By) != "":
		x.Cause = verdict.Overwritten
		x.Text = fmt.Sprintf("%s of %s put another value into %s's key on %s at %s, which had been to live until %s",
			command(end), doer(end), first.Client(), x.Node, facts.Seconds(end.T), until(x.due))
	default:
		x.Cause, x.Text = verdict.Unexplained, fmt.Sprintf("%s's key on %s is told to be %s at %s", first.Client(), x.Node, what, facts.Seconds(end.T))
	}
}
