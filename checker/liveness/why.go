package liveness

import (
	"fmt"
	"slices"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// unavailabilityCauses is in the order in which equals are named.
var unavailabilityCauses = []string{verdict.LeftKeys, verdict.NoMajority, verdict.WaitedLong, verdict.SplitVote, verdict.TurnedAway, verdict.TooFewVotes}

// whyNobody is the cause that holds for most of the attempts in a span in which nobody got a
// lock, and what the first of these met. What stood in an attempt's way the nodes tell.
func whyNobody(c *lockState, in spans.Span) (cause, text string) {
	if !c.Params.Life {
		return verdict.Unexplained, "the record has no facts of the nodes"
	}
	if c.wire == nil {
		return verdict.Unexplained, "the links saw no attempt"
	}
	quiet, silence := silent(c, in)
	if quiet != nil && quiet.Acquire.Return == nil {
		return verdict.Hung, silence
	}
	count, first := map[string]int{}, map[string]string{}
	owners := map[string][]*facts.Attempt{} // by the value that they set
	for _, a := range c.wire.Attempts {
		if a.From >= in.To {
			break
		}
		owners[a.Token] = append(owners[a.Token], a)
	}
	for _, a := range c.wire.Attempts {
		if a.From >= in.To {
			break
		}
		if silent := c.waitedFor(a, in); len(silent) > 0 {
			if count[verdict.WaitedLong]++; count[verdict.WaitedLong] == 1 {
				first[verdict.WaitedLong] = fmt.Sprintf("%s's attempt at %s took %s, and %s gave no answer",
					a.Session.Client(), facts.Seconds(a.From), facts.Seconds(c.ended(a)-a.From), verdict.List(silent))
			}
			continue
		}
		if a.From < in.From || a.Won {
			continue
		}
		m := encounters(c.conditions, c.name, a, owners)
		cause, text := m.cause(len(c.Params.Nodes))
		if count[cause]++; count[cause] == 1 {
			first[cause] = fmt.Sprintf("%s's attempt at %s %s", a.Session.Client(), facts.Seconds(a.From), text)
		}
	}
	if len(count) == 0 {
		for _, a := range c.wire.Attempts {
			if a.Won && c.tooLong(a, in) {
				return verdict.Unexplained, fmt.Sprintf("%s's attempt at %s took %s, and had the lock then", a.Session.Client(), facts.Seconds(a.From), facts.Seconds(c.ended(a)-a.From))
			}
		}
		if quiet != nil {
			return verdict.Hung, silence
		}
		return verdict.Unexplained, "nobody's attempt began in that time"
	}
	cause = slices.MaxFunc(unavailabilityCauses, func(a, b string) int { return count[a] - count[b] })
	return cause, first[cause]
}

// silent is the first session whose acquire hangs in a span, and tells of it: it is under way
// to the end, and for longer than all rounds take its client asked no node, though it could
// have. One that never returned goes first. Nil: there is none.
func silent(c *lockState, in spans.Span) (of *facts.Session, text string) {
	asked := c.asked(in.To)
	for _, s := range c.callers().sessions {
		if s.Called >= in.To {
			break
		}
		since := max(s.Called, asked[s])
		quiet := spans.Of(max(since, in.From), in.To)
		returned := s.Acquire.Return != nil
		if of != nil && returned || spans.Wait(c.Facts, s).To < in.To || spans.Share(c.available(s.Client()), quiet) <= rounds(&c.Params) {
			continue
		}
		of, text = s, fmt.Sprintf("%s's acquire, called at %s, asked no node after %s", s.Client(), facts.Seconds(s.Called), facts.Seconds(since))
		if !returned {
			break
		}
	}
	return of, text
}

// asked returns when each session without the lock last asked a node, in attempts that began before
// an instant.
func (c *lockState) asked(until int64) map[*facts.Session]int64 {
	asked := map[*facts.Session]int64{}
	for _, a := range c.wire.Attempts {
		if a.From >= until {
			break
		}
		if a.Won { // which ended it
			continue
		}
		asked[a.Session] = max(asked[a.Session], a.From)
		for _, e := range a.Sets {
			asked[a.Session] = max(asked[a.Session], e.Sent)
		}
	}
	return asked
}

// waitedFor is the nodes that gave no answer to an attempt which had to do with a span and
// took too long, or none.
func (c *lockState) waitedFor(a *facts.Attempt, in spans.Span) (silent []string) {
	if !c.tooLong(a, in) {
		return nil
	}
	asking := spans.Of(a.From, c.ended(a))
	for _, n := range c.Params.Nodes {
		missing := func(e *history.Event) bool { return e.Node == n && c.missing(e) }
		if spans.Meets(c.down.link(a.Session.Client(), n), asking) || slices.ContainsFunc(a.Sets, missing) || slices.ContainsFunc(a.Deletes, missing) {
			silent = append(silent, n)
		}
	}
	return silent
}

// tooLong reports whether an attempt went on for longer than it takes to ask each node twice,
// for keys and for fencing tokens, one after the other, and none of them answers.
func (c *lockState) tooLong(a *facts.Attempt, in spans.Span) bool {
	to, patience := c.ended(a), 2*int64(len(c.Params.Nodes))*int64(c.Params.NodeTimeout)+int64(c.Params.Slack)
	return a.From < in.To && to > in.From && to-a.From > patience
}

// missing reports whether a node's answer had not come in time.
func (c *lockState) missing(e *history.Event) bool {
	return e.Answered == 0 || e.Answered-e.Sent > int64(c.Params.NodeTimeout)
}

// ended is when an attempt had got the lock or been undone, as far as the nodes' answers tell.
// Where nobody saw it undone that is its begin, but of one without an answer it is when the
// next could have been put off no longer.
func (c *lockState) ended(a *facts.Attempt) int64 {
	if a.Won {
		return a.Session.Acquire.Ended()
	}
	undone := int64(facts.Never)
	for _, d := range a.Deletes {
		if d.Sent >= a.From && c.missing(d) {
			return a.Over
		}
		undone = min(undone, max(d.Sent, a.From))
	}
	switch {
	case undone < facts.Never:
	case slices.ContainsFunc(a.Sets, c.missing):
		return max(a.From, a.Over-int64(c.Params.RetryMax))
	default:
		return a.From
	}
	return undone
}

// encounter is what an attempt met on the nodes.
type encounter struct {
	left   []string // nodes with the key of an attempt that was over
	by     []string // what had left each of these there: "attempts of c1", "c1's release at 3 s"
	kept   bool     // a release had left one
	rival  []string // nodes with the key of another client's that was not
	away   []string // nodes that were down or out of reach
	no     int      // how many refused
	quorum int
}

// encounters looks at each node: the key that was there, if it was not the attempt's own, or
// that nobody could ask.
func encounters(c *conditions, key string, a *facts.Attempt, owners map[string][]*facts.Attempt) encounter {
	m := encounter{quorum: quorumOf(&c.Params), no: a.No}
	down := c.down
	for _, n := range c.Params.Nodes {
		other := inTheWay(c.Lives(), n, key, a)
		switch {
		case other != nil:
			client := facts.LinkClient(other.By())
			by := owner(owners[other.Value], other)
			if by != nil && goneBack(c.Facts, by) > a.From {
				if by.Session.Client() != a.Session.Client() {
					m.rival = append(m.rival, n)
				}
				continue
			}
			m.left = append(m.left, n)
			culprit := "attempts of " + client
			if by != nil && by.Won && by.Session.FirstRelease() != nil {
				m.kept = true
				culprit = fmt.Sprintf("%s's release at %s", client, facts.Seconds(by.Session.FirstRelease().T))
			}
			m.by = append(m.by, culprit)
		case spans.Meets(down.link(a.Session.Client(), n), spans.Of(a.From, a.To+1)):
			m.away = append(m.away, n)
		}
	}
	return m
}

// owner is the last of a token's attempts that can have put a value on a node, or nil.
func owner(attempts []*facts.Attempt, s *facts.Stay) *facts.Attempt {
	for _, a := range slices.Backward(attempts) {
		if a.From <= put(s) {
			return a
		}
	}
	return nil
}

// goneBack is when an attempt's keys were to be gone: when it was over, or when a holder
// that called release had had the time to ask a node.
func goneBack(r *facts.Facts, a *facts.Attempt) int64 {
	if call := a.Session.FirstRelease(); a.Won && call != nil {
		return min(a.Over, spans.Plus(call.T, int64(r.Params.NodeTimeout)))
	}
	return a.Over
}

// inTheWay is a key of another attempt's that a node had while one was under way, or nil.
func inTheWay(lives *facts.Lives, node, key string, a *facts.Attempt) *facts.Stay {
	for _, s := range lives.During(node, key, a.From, a.To) {
		if own := s.Holds(a.Token) && put(s) >= a.From; !own && s.From() <= a.To && s.To() > a.From {
			return s
		}
	}
	return nil
}

// cause is what kept an attempt from a quorum of so many nodes.
func (m encounter) cause(nodes int) (cause, text string) {
	switch {
	case nodes-len(m.left) < m.quorum:
		return verdict.LeftKeys, "met keys " + m.remains()
	case m.kept && nodes-len(m.away) >= m.quorum && nodes-len(m.left)-len(m.away) < m.quorum:
		return verdict.LeftKeys, fmt.Sprintf("could not ask %s, and met keys %s", verdict.List(m.away), m.remains())
	case len(m.away) > 0 && nodes-len(m.left)-len(m.away) < m.quorum:
		text = fmt.Sprintf("could not ask %s", verdict.List(m.away))
		if len(m.left) > 0 {
			text += ", and met keys " + m.remains()
		}
		return verdict.NoMajority, text
	case len(m.rival) > 0:
		return verdict.SplitVote, fmt.Sprintf("met keys of others' attempts on %s", verdict.List(m.rival))
	}
	if refused := m.no - len(m.left); nodes-refused < m.quorum {
		return verdict.TurnedAway, fmt.Sprintf("was refused by %s without a key", verdict.Plural(refused, "node"))
	}
	return verdict.TooFewVotes, "met no key on so many nodes that it could not have had a quorum"
}

// remains says on which nodes keys were left, and by what. Attempts are told of together.
func (m encounter) remains() string {
	var order, parts []string
	nodes := map[string][]string{}
	for i, by := range m.by {
		if !slices.Contains(order, by) {
			order = append(order, by)
		}
		nodes[by] = append(nodes[by], m.left[i])
	}
	for _, by := range order {
		parts = append(parts, fmt.Sprintf("on %s that %s had left there", verdict.List(nodes[by]), by))
	}
	return verdict.List(parts)
}
