package resource

import (
	"slices"
	"sort"

	"lockpick/checker/spans"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// course is what a session did, put in order for those who ask about each of its writes:
// the log of a resource may have thousands of one session.
type course struct {
	windows []facts.Window             // in the order of time
	writes  map[string]facts.Operation // by value: the first
	read    facts.Operation            // the last
	reads   int
	claims  []claim // in the order of time
}

// claim is the deadline that a session had from an instant on.
type claim struct{ from, deadline int64 }

type courses struct {
	r       *facts.Facts
	kept    map[*facts.Session]*course // of long sessions
	session *facts.Session             // the last that was asked for
	last    *course
}

// long is how many actions make a session so long that its course is kept. Of shorter ones
// there may be millions, and each costs little.
const long = 16

func (cs *courses) of(s *facts.Session) *course {
	if s == cs.session {
		return cs.last
	}
	cs.session, cs.last = s, cs.kept[s]
	if cs.last == nil {
		var actions int
		if cs.last, actions = follow(cs.r, s); actions > long {
			cs.kept[s] = cs.last
		}
	}
	return cs.last
}

// follow reads a session, and says how many actions it has.
func follow(r *facts.Facts, s *facts.Session) (c *course, actions int) {
	c = &course{windows: slices.Collect(r.Windows(s)), writes: map[string]facts.Operation{}}
	if s.Granted() {
		c.claims = append(c.claims, claim{spans.Ever, s.Until})
	}
	for x := range s.Actions() {
		actions++
		switch {
		case x.Call.Op == history.OpRead:
			c.read = x
			c.reads++
		case x.Call.Op == history.OpWrite && x.Call.Value != "":
			if _, ok := c.writes[x.Call.Value]; !ok {
				c.writes[x.Call.Value] = x
			}
		case x.Call.Op == history.OpExtend && x.Outcome() == history.OK && s.Granted():
			c.claims = append(c.claims, claim{x.Return.T, facts.Renewed(x.Return, c.claims[len(c.claims)-1].deadline)})
		}
	}
	return c, actions
}

// until is the first belief window that ends at an instant or later.
func (c *course) until(at int64) (facts.Window, bool) {
	i := sort.Search(len(c.windows), func(i int) bool { return c.windows[i].To >= at })
	if i == len(c.windows) {
		return facts.Window{}, false
	}
	return c.windows[i], true
}

// claimedAt is the deadline that a granted session had at an instant.
func (c *course) claimedAt(at int64) int64 {
	i := sort.Search(len(c.claims), func(i int) bool { return c.claims[i].from > at })
	return c.claims[i-1].deadline
}

// answeredBy is the operation that a log entry answers: the write of its
// value, or the session's only read.
func (c *course) answeredBy(e *history.Event) (found facts.Operation, ok bool) {
	if e.Cause == history.OpWrite {
		found, ok = c.writes[e.Value]
		return found, ok
	}
	return c.read, c.reads == 1
}
