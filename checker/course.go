package checker

import (
	"cmp"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// course is what a session did, put in order for those who ask about each of its writes:
// the log of a resource may have thousands of one session.
type course struct {
	windows []facts.Window       // in the order of time
	writes  map[string]operation // by value: the first
	read    operation            // the last
	reads   int
	claims  []claim // in the order of time
}

// claim is the deadline that a session had from an instant on.
type claim struct{ from, deadline int64 }

// long is how many actions make a session so long that its course is kept. Of shorter ones
// there may be millions, and each costs little.
const long = 16

// courseOf is a long session's course, and nil for a short one.
func (r *record) courseOf(s *session) *course {
	if c := r.courses[s]; c != nil {
		return c
	}
	actions := 0
	for range s.Actions() {
		if actions++; actions > long {
			break
		}
	}
	if actions <= long {
		return nil
	}
	if r.courses == nil {
		r.courses = map[*session]*course{}
	}
	r.courses[s] = r.follow(s)
	return r.courses[s]
}

// follow reads a session.
func (r *record) follow(s *session) *course {
	c := &course{windows: slices.Collect(r.Windows(s)), writes: map[string]operation{}}
	if s.Granted() {
		c.claims = append(c.claims, claim{ever, facts.Deadline(s.Acquire.Return)})
	}
	for x := range s.Actions() {
		switch {
		case x.Call.Op == history.OpRead:
			c.read = x.Operation
			c.reads++
		case x.Call.Op == history.OpWrite && x.Call.Value != "":
			if _, ok := c.writes[x.Call.Value]; !ok {
				c.writes[x.Call.Value] = x.Operation
			}
		case x.Call.Op == history.OpExtend && x.Outcome() == history.OK && s.Granted():
			c.claims = append(c.claims, claim{x.Return.T, facts.Renewed(x.Return, c.claims[len(c.claims)-1].deadline)})
		}
	}
	return c
}

// until is a session's first belief window that ends at an instant or later.
func (r *record) until(s *session, at int64) (facts.Window, bool) {
	if c := r.courseOf(s); c != nil {
		i, _ := slices.BinarySearchFunc(c.windows, at, func(w facts.Window, at int64) int { return cmp.Compare(w.To, at) })
		if i == len(c.windows) {
			return facts.Window{}, false
		}
		return c.windows[i], true
	}
	for w := range r.Windows(s) {
		if w.To >= at {
			return w, true
		}
	}
	return facts.Window{}, false
}

// claimedAt is the deadline that a granted session had at an instant.
func (r *record) claimedAt(s *session, at int64) int64 {
	if c := r.courseOf(s); c != nil {
		i, _ := slices.BinarySearchFunc(c.claims, at, func(x claim, at int64) int {
			if x.from <= at {
				return -1
			}
			return 1
		})
		return c.claims[i-1].deadline
	}
	d := facts.Deadline(s.Acquire.Return)
	for x := range s.Extends() {
		if x.Outcome() == history.OK && x.Return.T <= at {
			d = facts.Renewed(x.Return, d)
		}
	}
	return d
}

// answeredBy is the session's operation that a log entry answers: the write of its
// value, or the session's only read.
func (r *record) answeredBy(s *session, e *history.Event) (found operation, ok bool) {
	c := r.courseOf(s)
	switch {
	case c != nil && e.Cause == history.OpWrite:
		found, ok = c.writes[e.Value]
		return found, ok
	case c != nil:
		return c.read, c.reads == 1
	case e.Cause == history.OpWrite:
		for x := range s.Writes() {
			if x.Call.Value != "" && x.Call.Value == e.Value {
				return x, true
			}
		}
		return found, false
	}
	n := 0
	for x := range s.Reads() {
		found = x
		n++
	}
	return found, n == 1
}
