package checker

import (
	"fmt"
	"slices"

	"lockpick/harness/history/facts"
)

// Causes of a drought: why the attempts in it came to nothing.
const (
	LeftKeys    = "left-keys"     // keys of attempts that were over stood in the way on so many nodes that no majority was left
	NoMajority  = "no-majority"   // with the nodes that were down or out of reach no majority was left
	SplitVote   = "split-vote"    // attempts of several clients stood in each other's way
	TooFewVotes = "too-few-votes" // nothing stood in the way, and the nodes gave too few votes all the same
)

// droughtCauses is in the order in which equals are named.
var droughtCauses = []string{LeftKeys, NoMajority, SplitVote, TooFewVotes}

// whyDry is the cause that holds for most of the attempts in a span in which nobody got a
// lock, and what the first of these met. What stood in an attempt's way the nodes tell.
func (r *record) whyDry(c *contest, in interval) (cause, text string) {
	if !r.Params.Life {
		return Unexplained, "the record has no facts of the nodes"
	}
	if c.wire == nil {
		return Unexplained, "the links saw no attempt"
	}
	count, first := map[string]int{}, map[string]string{}
	owners := map[string]*attempt{} // by the value that it set
	for _, a := range c.wire.Attempts {
		if a.From >= in.to {
			break
		}
		owners[a.Token] = a
	}
	for _, a := range c.wire.Attempts {
		if a.From < in.from || a.From >= in.to || a.Won {
			continue
		}
		m := r.meets(c.name, a, owners)
		cause, text := m.cause(len(r.Params.Nodes))
		if count[cause]++; count[cause] == 1 {
			first[cause] = fmt.Sprintf("%s's attempt at %s %s", a.Session.Client(), seconds(a.From), text)
		}
	}
	if len(count) == 0 {
		return Unexplained, "nobody's attempt began in that time"
	}
	cause = slices.MaxFunc(droughtCauses, func(a, b string) int { return count[a] - count[b] })
	return cause, first[cause]
}

// encounter is what an attempt met on the nodes.
type encounter struct {
	left   []string // nodes with the key of an attempt that was over
	whose  []string // clients whose keys these were
	rival  []string // nodes with the key of another client's that was not
	away   []string // nodes that were down or out of reach
	quorum int
}

// meets looks at each node: the key that was there, if it was not the attempt's own, or
// that nobody could ask.
func (r *record) meets(key string, a *attempt, owners map[string]*attempt) encounter {
	m := encounter{quorum: quorumOf(len(r.Params.Nodes))}
	down := r.outages()
	for _, n := range r.Params.Nodes {
		other := r.inTheWay(n, key, a)
		switch {
		case other != nil:
			client := facts.LinkClient(other.By())
			if by := owners[other.Value]; by != nil && by.Over > a.From {
				if by.Session.Client() != a.Session.Client() {
					m.rival = append(m.rival, n)
				}
				continue
			}
			m.left = append(m.left, n)
			if client != "" && !slices.Contains(m.whose, client) {
				m.whose = append(m.whose, client)
			}
		case meets(down.link(a.Session.Client(), n), interval{a.From, a.To + 1}):
			m.away = append(m.away, n)
		}
	}
	return m
}

// inTheWay is a key of another attempt's that a node had while one was under way, or nil.
func (r *record) inTheWay(node, key string, a *attempt) *facts.Stay {
	for _, s := range r.Lives().During(node, key, a.From, a.To) {
		if !s.Holds(a.Token) && s.From() <= a.To && s.To() > a.From {
			return s
		}
	}
	return nil
}

// cause is what kept an attempt from a quorum of so many nodes.
func (m encounter) cause(nodes int) (cause, text string) {
	switch {
	case nodes-len(m.left) < m.quorum:
		return LeftKeys, fmt.Sprintf("met keys on %s that attempts of %s had left there", list(m.left), list(m.whose))
	case len(m.away) > 0 && nodes-len(m.left)-len(m.away) < m.quorum:
		text = fmt.Sprintf("could not ask %s", list(m.away))
		if len(m.left) > 0 {
			text += fmt.Sprintf(", and met keys on %s that were left there", list(m.left))
		}
		return NoMajority, text
	case len(m.rival) > 0:
		return SplitVote, fmt.Sprintf("met keys of others' attempts on %s", list(m.rival))
	}
	return TooFewVotes, "met no key on so many nodes that it could not have had a quorum"
}
