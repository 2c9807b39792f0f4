package sequence

import (
	"fmt"
	"slices"

	"lockpick/reports/display"
)

// grant is how a session got the lock.
type grant struct {
	s      *session
	won    attempt
	votes  []string // the nodes whose yes counted; none: the wire was not recorded
	voters int      // how many nodes there are to vote
	quorum int      // how many votes are a majority, 0: nobody knows
	twice  string   // the nodes that had voted for somebody who still believes in it, in words
}

// grantOf is the grant of a session by its winning round.
func (sc *scene) grantOf(s *session, won attempt) grant {
	votes := won.votes(s.Acquire.Return.T)
	g := grant{s: s, won: won, votes: votes, voters: max(len(sc.f.nodes()), len(votes)), quorum: sc.f.Params.Quorum}
	for _, o := range sc.focus {
		first := sc.f.winning(o)
		if o == s || first == nil || o.Key() != s.Key() || !o.believes(s.begin) {
			continue
		}
		var both []string
		for _, n := range first.votes(o.begin) {
			if slices.Contains(votes, n) && first.of(n).Applied < won.of(n).Applied {
				both = append(both, n)
			}
		}
		if len(both) > 0 {
			g.twice = fmt.Sprintf("%s had voted for %s", nodeRange(both), short(o.Client()))
			break
		}
	}
	return g
}

// minority reports whether the votes that are known are no majority.
func (g grant) minority() bool { return len(g.votes) > 0 && len(g.votes) < g.quorum }

// enough is what so many votes are called.
func (g grant) enough() string {
	if g.quorum == g.voters/2+1 {
		return "a majority"
	}
	return "a quorum"
}

// detail is the grant for its arrows; it is bad if there was no majority, or if a
// node voted twice.
func (g grant) detail() (detail string, bad bool) {
	s := g.s
	detail = fmt.Sprintf("%s holds %s", short(s.Client()), short(s.Key()))
	switch until := s.promised; {
	case until == never:
		detail += ", no deadline"
	case until <= s.begin:
		detail += ", past its deadline already"
	default:
		detail += fmt.Sprintf(" until %s", display.Seconds(until))
	}
	if fence := s.Acquire.Return.Fence; fence != 0 {
		detail += fmt.Sprintf(", fence %d", fence)
	}
	if g.minority() {
		detail += fmt.Sprintf("; %s is %d", g.enough(), g.quorum)
	}
	if g.twice != "" {
		detail += "; " + g.twice
	}
	return detail, g.minority() || g.twice != ""
}

// words is the grant for the caption.
func (g grant) words() string {
	ok := g.s.Acquire.Return
	text := fmt.Sprintf("acquired %s at %s", short(g.s.Key()), display.Seconds(ok.T))
	if until := g.s.promised; until != never {
		text += fmt.Sprintf(" with %s left", display.Span(max(0, minus(until, g.s.begin))))
	}
	if n := len(g.votes); n > 0 {
		text += fmt.Sprintf(", by %d of %d votes", n, g.voters)
	}
	if g.minority() {
		text += fmt.Sprintf(" where %d are %s", g.quorum, g.enough())
	}
	if g.twice != "" {
		text += "; " + g.twice
	}
	return text
}
