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

// Loss is why one node could grant a lock to a second session while the first still
// counted on its vote: what became of the first's key there.
type Loss struct {
	Node  string `json:"node"`
	Cause string `json:"cause"`
	Text  string `json:"text"`
	Fact  int64  `json:"fact,omitempty"`  // number of the fact that ended the key before its time; 0: none did
	Put   int64  `json:"put,omitempty"`   // and of the one by which the second's took its place
	Steps []int  `json:"steps,omitempty"` // of the plan, that did it

	// First and Second are the sessions by the order of their keys on this node.
	First  string `json:"first"`
	Second string `json:"second"`

	events []*history.Event // what shows it
}

// explanation is why two sessions could both be granted one lock.
type explanation struct {
	cause  string
	node   string
	text   string
	losses []Loss
	spare  int              // nodes that the second could have done without
	events []*history.Event // what shows it
}

// tick is how coarsely a node counts: Redis expires keys by whole milliseconds.
const tick = int64(time.Millisecond)

// strength orders causes that explain as many nodes as each other.
var strength = []string{RestartedAndForgot, LostUnsynced, FailedOver, DeletedByOther, DeletedByHarness, Flushed, Evicted, ClientClock, GrantedLate, GivenShorter, ClocksDisagree, ExpiredEarly, Overwritten, Unexplained}

// explain finds the cause of two sessions' overlap. Any two quorums share a node, so
// either one session had no quorum, or at least one node granted both; there the key that
// was set first was gone before the other's set, and the node has told how.
func (r *record) explain(a, b *session) explanation {
	if !r.Params.Life {
		return explanation{cause: Unexplained, text: "the record has no facts of the nodes"}
	}
	votes := map[*session]map[string]*facts.Stay{a: r.votes(a), b: r.votes(b)}
	for _, s := range []*session{a, b} {
		if n := len(votes[s]); n < r.Params.Quorum {
			return r.uncounted(s, votes[s])
		}
	}
	x := explanation{spare: len(votes[b]) - r.Params.Quorum}
	for _, name := range r.Params.Nodes {
		va, vb := votes[a][name], votes[b][name]
		switch {
		case va == nil || vb == nil:
		case va.Put.Life.Seq <= vb.Put.Life.Seq:
			x.losses = append(x.losses, r.loss(a, b, va, vb))
		default:
			x.losses = append(x.losses, r.loss(b, a, vb, va))
			x.spare = len(votes[a]) - r.Params.Quorum
		}
	}
	if len(x.losses) == 0 {
		return explanation{cause: Unexplained, text: "no node granted both"}
	}
	return x.headed()
}

// uncounted tells a session that had too few nodes' keys for a quorum.
func (r *record) uncounted(s *session, votes map[string]*facts.Stay) explanation {
	x := explanation{cause: NeverSet}
	for _, n := range r.Params.Nodes {
		if v := votes[n]; v != nil {
			x.events = append(x.events, v.Put)
		} else if g := r.Lives().Gap(n, s.Acquire.Call.T, s.Acquire.Return.T); g != nil {
			return explanation{cause: Unexplained, node: n, text: fmt.Sprintf("facts of %s may be missing when %s set its keys", n, s.Client()), events: []*history.Event{g}}
		}
	}
	x.text = fmt.Sprintf("%s counted itself in with the votes of %d of %d nodes, and a quorum is %d", s.Client(), len(votes), len(r.Params.Nodes), r.Params.Quorum)
	return x
}

// votes is by node the key that a session's own link put there within its acquire, the
// last one, with its token if that is known. A lock that takes what it has already, for
// longer, has voted with that.
func (r *record) votes(s *session) map[string]*facts.Stay {
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
	for _, l := range x.losses {
		count[l.Cause]++
	}
	best := slices.MinFunc(x.losses, func(a, b Loss) int {
		return cmp.Or(count[b.Cause]-count[a.Cause], slices.Index(strength, a.Cause)-slices.Index(strength, b.Cause))
	})
	x.cause, x.node, x.text = best.Cause, best.Node, best.Text
	var same []string
	for _, l := range x.losses {
		x.events = append(x.events, l.events...)
		switch {
		case l.Node == best.Node:
		case l.Cause == best.Cause:
			same = append(same, l.Node)
		}
	}
	if len(same) > 0 {
		x.text += "; likewise on " + list(same)
	}
	for _, l := range x.losses {
		if l.Cause != best.Cause {
			x.text += "; " + l.Text
		}
	}
	return x
}

// losing is one common node while its key's end is looked for.
type losing struct {
	*Loss
	first, second *session
	vote, other   *facts.Stay
	due           int64 // when the voted key's time was over, by a clock that ran right
}

// loss is the decision table: how the key by which a node had granted the first session
// was gone when the node granted the second. The first row that fits says it; see the
// package's documentation.
func (r *record) loss(first, second *session, vote, other *facts.Stay) Loss {
	x := losing{&Loss{Node: vote.Node, First: first.Name(), Second: second.Name()}, first, second, vote, other, vote.Due()}
	x.events = []*history.Event{vote.Put, other.Put}
	end := vote.End
	if end == nil || end.Life.Seq > other.Put.Life.Seq {
		x.Cause, x.Text = Unexplained, fmt.Sprintf("%s granted both, and has not told how %s's key ended", x.Node, first.Client())
	} else {
		x.Fact, x.Put = end.N, other.Put.N
		x.events = append(x.events, vote.Given, end)
		r.row(x, end)
	}
	if g := r.Lives().Gap(x.Node, vote.Put.T, other.Put.T); g != nil && x.Cause == Unexplained {
		x.Text += "; facts of that node may be missing"
		x.events = append(x.events, g)
	}
	return *x.Loss
}

// row fills in the first row that fits.
func (r *record) row(x losing, end *history.Event) {
	first, other, what := x.first, x.other, end.Life.What
	switch {
	case r.shortened(x):
	case other.Put.T+facts.Error(other.Put) >= x.due:
		r.outlived(x)
	case what == history.KeyDeleted:
		r.deleted(x, end)
	case what == history.KeyFlushed:
		x.Cause, x.Text = Flushed, fmt.Sprintf("%s emptied %s at %s, and %s's key went with all others", doer(end), x.Node, seconds(end.T), first.Client())
	case what == history.KeyEvicted:
		x.Cause, x.Text = Evicted, fmt.Sprintf("%s had no memory left, and dropped %s's key at %s", x.Node, first.Client(), seconds(end.T))
	case what == history.KeyLost, what == history.KeyReverted:
		r.forgotten(x, end)
	case what == history.KeyExpired:
		r.early(x, end)
	case facts.LinkClient(end.Life.By) != "":
		x.Cause = Overwritten
		x.Text = fmt.Sprintf("%s of %s put another value into %s's key on %s at %s, which had been to live until %s",
			command(end), doer(end), first.Client(), x.Node, seconds(end.T), until(x.due))
	default:
		x.Cause, x.Text = Unexplained, fmt.Sprintf("%s's key on %s is told to be %s at %s", first.Client(), x.Node, what, seconds(end.T))
	}
}

// until says when a key's time is over.
func until(due int64) string {
	if due == facts.Never {
		return "it is deleted"
	}
	return seconds(due)
}

// doer is who gave the command of a fact.
func doer(e *history.Event) string {
	switch by := e.Life.By; by {
	case "":
		return "nobody"
	case history.Harness:
		return "lockpick"
	default:
		return facts.LinkClient(by)
	}
}

// command is the command of a fact.
func command(e *history.Event) string {
	word := "the " + strings.ToUpper(cmp.Or(e.Life.Command, "command"))
	if e.Life.Script {
		word += " in a script"
	}
	return word
}
