package checker

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"lockpick/harness/history"
)

// reading is a record while its history is read, once from begin to end. It
// looks out for what no clients can have done that do one thing after the other.
type reading struct {
	*record
	clients map[string]*client
	all     []*client
	locks   map[string]*lock

	backwards string // where time runs backwards, or ""
	misuse    string // what no client can have done, or ""
	wired     bool   // there are stamps of the wire
	stopped   bool   // what follows is the run's taking down
}

// client is where one client stands.
type client struct {
	session *session
	lock    *lock          // the session's
	open    *operation     // what is awaited for it
	called  *history.Event // the call that has not returned
	last    *history.Event
	serial  int64 // of the last session whose name tells it
	grants  int
	dead    bool // it has ended, or was killed
}

// malformed says why the history can't be a record of clients that do one thing
// after the other, under the faults that it tells of, or "". Where time runs
// backwards the order of events means nothing, so that goes first.
func (in *reading) malformed() string {
	return cmp.Or(in.backwards, in.misuse, in.unfaithful())
}

func (in *reading) event(e *history.Event) {
	if !in.stopped {
		in.end = e.T
	}
	in.stopped = in.stopped || e.Process == history.Harness && e.Op == history.OpStop
	in.wired = in.wired || e.Applied != 0 || e.Answered != 0
	switch c := in.clients[e.Process]; {
	case c != nil:
		in.order(c, e)
		if in.misuse == "" {
			in.misuse = cmp.Or(in.use(c, e), c.pair(e))
		}
		in.book(c, e)
	case e.Op == history.OpAcquire && in.misuse == "":
		in.misuse = fmt.Sprintf("%s acquires (event %d), but is not among the clients", e.Process, e.N)
	case e.Process == history.Nemesis:
		in.fault(e)
		if e.Op == history.OpClock {
			in.turns = append(in.turns, e)
		}
		if c := in.clients[e.Node]; c != nil && e.Op == killed && e.Type == history.Begin {
			c.dead = true
		}
	case e.Op == history.OpLack:
		in.lacks = append(in.lacks, e)
	case e.Op == history.OpLog:
		in.log = append(in.log, e)
	case e.Node != "" && (e.Op == history.OpSet || e.Op == history.OpExtend || e.Op == history.OpRelease):
		in.links = append(in.links, e)
	}
}

// order finds time that runs backwards. Events are sorted by time, and one
// client's arrive in the order in which they happened, so it shows in the numbers.
func (in *reading) order(c *client, e *history.Event) {
	if c.last != nil && e.N < c.last.N && in.backwards == "" {
		in.backwards = fmt.Sprintf("time runs backwards in %s: event %d is stamped %s, and the later event %d is stamped %s",
			e.Process, e.N, seconds(e.T), c.last.N, seconds(c.last.T))
	}
	c.last = e
	if in.first < 0 {
		in.first = e.T
	}
	in.record.last = e.T
}

// use finds sessions that change hands, or are used out of order.
func (in *reading) use(c *client, e *history.Event) string {
	calls := e.Op == history.OpAcquire && e.Type == history.Invoke
	if e.Session == "" {
		if calls {
			return fmt.Sprintf("%s calls acquire without a session (event %d)", e.Process, e.N)
		}
		return ""
	}
	s := c.session
	if s == nil || s.name() != e.Session {
		s = nil
		if !calls || in.byName != nil || c.number(e) <= c.serial {
			s = in.named(e.Session)
		}
	}
	switch {
	case s != nil && s.client() != e.Process:
		return fmt.Sprintf("session %s of %s is used by %s (event %d)", e.Session, s.client(), e.Process, e.N)
	case s != nil && calls:
		return fmt.Sprintf("session %s is acquired twice (event %d)", e.Session, e.N)
	case s == nil && !calls:
		return fmt.Sprintf("session %s is used before its acquire is called (event %d)", e.Session, e.N)
	}
	return ""
}

// number is the number in a session's name of the form "c1/3", or 0. A client
// that counts upwards can't use a name twice, so such names need no index.
func (c *client) number(e *history.Event) int64 {
	digits, ok := strings.CutPrefix(e.Session, e.Process)
	if !ok || len(digits) < 2 || digits[0] != '/' || digits[1] < '1' || digits[1] > '9' {
		return 0
	}
	n, err := strconv.ParseInt(digits[1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// pair finds two operations at once, and returns without a call.
func (c *client) pair(e *history.Event) string {
	if !isOperation(e.Op) {
		return ""
	}
	open := c.called
	switch e.Type {
	case history.Invoke:
		if open != nil {
			return fmt.Sprintf("%s calls %s (event %d) while its %s (event %d) has not returned", e.Process, e.Op, e.N, open.Op, open.N)
		}
		c.called = e
	case history.OK, history.Fail, history.Info:
		if open == nil || open.Op != e.Op {
			return fmt.Sprintf("%s returns from %s (event %d), which it had not called", e.Process, e.Op, e.N)
		}
		if open.Session != "" && e.Session != "" && open.Session != e.Session {
			return fmt.Sprintf("%s calls %s for session %s (event %d) and returns for %s (event %d)",
				e.Process, e.Op, open.Session, open.N, e.Session, e.N)
		}
		c.called = nil
	}
	return ""
}

// isOperation reports whether what a client did has a call and a return. Its
// look at its own deadline has not, nor has a remark.
func isOperation(op string) bool { return op == history.OpAcquire || isAction(op) }

// isAction reports whether it is done with a handle.
func isAction(op string) bool {
	switch op {
	case history.OpExtend, history.OpRead, history.OpWrite, history.OpRelease:
		return true
	}
	return false
}

// book enters a client's event.
func (in *reading) book(c *client, e *history.Event) {
	switch {
	case e.Op == history.OpClient && e.Type == history.Begin:
		in.began[e.Process] = true
	case e.Op == history.OpClient && e.Type == history.End:
		in.leave(e.Process, e.T)
		c.dead = true
	case e.Type == history.Invoke && e.Op == history.OpAcquire:
		in.begin(c, e)
	case e.Type == history.Invoke:
		c.open = nil
		if s := in.of(c, e); s != nil && isAction(e.Op) {
			a := in.actions.add(action{operation: operation{call: e}})
			s.add(a)
			c.open = &a.operation
			in.touched = in.touched || e.Op == history.OpRead || e.Op == history.OpWrite
		}
	case c.open != nil && e.Op == c.open.call.Op:
		c.open.ret = e
		c.open = nil
		if e.Op != history.OpAcquire {
			return
		}
		c.lock.add(c.session)
		if e.Type == history.OK {
			in.grants++
			c.grants++
			in.bypass(c)
		}
	}
}

// acquiring reports whether the client awaits the lock.
func (c *client) acquiring() bool {
	return c.session != nil && c.open == &c.session.acquire
}

// bypass counts the clients that see a grant go to one that called after them.
func (in *reading) bypass(granted *client) {
	for _, c := range in.all {
		if c.acquiring() && c.lock == granted.lock && !c.dead && c.open.call.T < granted.session.acquire.call.T {
			in.bypasses++
		}
	}
}

// begin enters a new session.
func (in *reading) begin(c *client, e *history.Event) {
	if n := c.number(e); n > 0 {
		c.serial = n
	}
	c.session = in.sessions.add(session{acquire: operation{call: e}})
	c.open = &c.session.acquire
	if in.byName != nil {
		in.byName[e.Session] = c.session
	}
	if c.lock != nil && c.lock.name == e.Key {
		return
	}
	if c.lock = in.locks[e.Key]; c.lock == nil {
		c.lock = &lock{name: e.Key}
		in.locks[e.Key] = c.lock
		in.keys = append(in.keys, c.lock)
	}
}

// of is the session that an event belongs to: the one it names, or the client's last.
func (in *reading) of(c *client, e *history.Event) *session {
	if e.Session == "" || c.session != nil && c.session.name() == e.Session {
		return c.session
	}
	if s := in.named(e.Session); s != nil {
		return s
	}
	return c.session
}
