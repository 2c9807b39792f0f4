package facts

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"lockpick/harness/history"
)

// reading is the facts while their history is read, once from begin to end. It
// looks out for what no clients can have done that do one thing after the other.
type reading struct {
	*Facts
	clients map[string]*client
	all     []*client
	pending map[faultKey]*pendingFaults

	backwards string         // where time runs backwards, or ""
	numbers   []bool         // which numbers were seen, up to that of the events
	beyond    map[int64]bool // and which beyond
	misuse    string         // what no client can have done, or ""
	wired     bool           // there are stamps of the wire
	turned    bool           // a clock was turned
}

type client struct {
	session *Session
	lock    *Lock          // the session's
	open    *history.Event // the call whose return is awaited
	of      *Session       // whose action it is, and its place there
	place   int
	called  *history.Event // the call that has not returned
	last    *history.Event
	serial  int // the highest number in a name of its sessions
	grants  int
	dead    *history.Event // it has ended, or was killed
}

// client begins a client.
func (in *reading) client(name string) *client {
	c := &client{}
	in.clients[name] = c
	in.all = append(in.all, c)
	return c
}

func (in *reading) event(e *history.Event) {
	if in.Stop == nil {
		in.End = e.T
	}
	in.wired = in.wired || e.Applied != 0 || e.Answered != 0
	in.turned = in.turned || e.Op == history.OpClock
	c := in.clients[e.Process]
	if in.misuse == "" {
		in.misuse = in.strange(e, c != nil || e.Op == history.OpAcquire)
	}
	if c == nil && e.Op == history.OpAcquire {
		c = in.stranger(e)
	}
	switch {
	case c != nil:
		in.look(c, e)
		in.book(c, e)
	case e.Process == history.Nemesis:
		in.nemesis(e)
	case e.Op == history.OpLife:
		in.life(e)
	case e.Op == history.OpLack:
		in.Lacks = append(in.Lacks, e)
	case e.Op == history.OpLog:
		in.Log = append(in.Log, e)
	case e.Process == history.Harness:
		in.harness(e)
	case e.Node == "":
		in.remark(e)
	case e.Op == history.OpSet || e.Op == history.OpExtend || e.Op == history.OpRelease:
		in.Links = append(in.Links, e)
	default:
		in.Others = append(in.Others, e)
	}
}

// stranger begins a client that is not among the run's, by its acquire.
func (in *reading) stranger(e *history.Event) *client {
	in.misused("%s acquires (event %d), but is not among the clients", e.Process, e.N)
	if e.Node != "" || e.Process == history.Nemesis || e.Process == history.Harness {
		return nil
	}
	return in.client(e.Process)
}

// nemesis books a turn of a clock, or an event of a fault.
func (in *reading) nemesis(e *history.Event) {
	in.turn(e)
	in.fault(e)
	if c := in.clients[e.Node]; c != nil && e.Op == Kill && e.Type == history.Begin {
		c.die(e)
	}
}

// harness books where the run was stopped.
func (in *reading) harness(e *history.Event) {
	if e.Op == history.OpStop && in.Stop == nil {
		in.Stop = e
	}
}

// life books what a node told of a key.
func (in *reading) life(e *history.Event) {
	if e.Life != nil {
		in.told = append(in.told, e)
	}
}

// remark books what nobody did whom the run knows.
func (in *reading) remark(e *history.Event) {
	if e.Op != history.OpClient {
		in.Loose = append(in.Loose, e)
	}
}

func (in *reading) book(c *client, e *history.Event) {
	switch {
	case e.Op == history.OpClient:
		if e.Type == history.Begin {
			in.Began[e.Process] = true
		}
		if e.Type == history.End {
			in.leave(e.Process, e.T)
			c.die(e)
		}
	case e.Op == history.OpLost:
		if s := in.of(c, e); s != nil && in.lost[s] == nil {
			if in.lost == nil {
				in.lost = map[*Session]*history.Event{}
			}
			in.lost[s] = e
		}
	case e.Type == history.Invoke && e.Op == history.OpAcquire:
		in.begin(c, e)
	case e.Type == history.Invoke:
		c.open = nil
		if s := in.act(c, e, nil); s != nil {
			c.open, c.of, c.place = e, s, len(s.actions)-1
			in.Touched = in.Touched || e.Op == history.OpRead || e.Op == history.OpWrite
		}
	case c.open != nil && e.Op == c.open.Op:
		in.returned(c, e)
	case e.Op == history.OpCheck:
		in.act(c, e, e)
	default:
		in.Loose = append(in.Loose, e)
	}
}

// act enters what a client does with the handle of a session, and returns that; nil: there is none.
func (in *reading) act(c *client, call, ret *history.Event) *Session {
	s := in.of(c, call)
	if s == nil || !isAction(call.Op) && call.Op != history.OpCheck {
		in.Loose = append(in.Loose, call)
		return nil
	}
	in.Interleaved = in.Interleaved || s != c.session
	s.actions = append(s.actions, Operation{Call: call, Return: ret})
	return s
}

// returned enters the return that a client awaits.
func (in *reading) returned(c *client, e *history.Event) {
	c.open = nil
	if e.Op != history.OpAcquire {
		c.of.actions[c.place].Return = e
		return
	}
	c.session.returned(e)
	c.lock.sessions = append(c.lock.sessions, c.session)
	if e.Type == history.OK {
		in.Grants++
		c.grants++
	}
}

// acquiring reports whether the client awaits the lock.
func (c *client) acquiring() bool {
	return c.open != nil && c.open.Op == history.OpAcquire
}

func (c *client) die(by *history.Event) {
	if c.dead == nil {
		c.dead = by
	}
}

func (in *reading) begin(c *client, e *history.Event) {
	if c.acquiring() { // it never returned
		c.lock.sessions = append(c.lock.sessions, c.session)
	}
	c.session = &Session{Acquire: Operation{Call: e}, Called: e.T, Ended: Never, Until: Nothing}
	c.open = e
	in.sessions = append(in.sessions, c.session)
	c.serial = max(c.serial, serialOf(e))
	if in.named != nil {
		in.named[e.Session] = c.session
	}
	if c.lock == nil || c.lock.Name != e.Key {
		c.lock = in.lockNamed(e.Key)
	}
}

// lockNamed returns the lock of that name, which is new if nobody has asked for it before.
func (in *reading) lockNamed(key string) *Lock {
	l := in.locks[key]
	if l == nil {
		l = &Lock{Name: key}
		in.locks[key] = l
		in.Locks = append(in.Locks, l)
	}
	return l
}

// of is the client's session that an event belongs to: the one it names, or its last.
func (in *reading) of(c *client, e *history.Event) *Session {
	if e.Session == "" || c.session != nil && c.session.Name() == e.Session {
		return c.session
	}
	if s := in.Named(e.Session); s != nil && s.Client() == e.Process {
		return s
	}
	return c.session
}

// serialOf is the number in a session's name of the form "c1/3", or 0. A client that counts upwards
// can't use a name twice, so such names need no index. Building one would take as long as the rest
// of the reading.
func serialOf(e *history.Event) int {
	digits, ok := strings.CutPrefix(e.Session, e.Process+"/")
	if !ok {
		return 0
	}
	n, _ := strconv.Atoi(digits)
	return n
}

// finish books what only the end of the history tells.
func (in *reading) finish() {
	for _, c := range in.all {
		if c.acquiring() {
			c.lock.sessions = append(c.lock.sessions, c.session)
		}
		if c.session != nil {
			in.Shares = append(in.Shares, c.grants)
		}
	}
	inOrder(in.Log)
	for _, f := range in.Faults {
		if f.Kind == Kill && in.clients[f.Target] != nil {
			in.leave(f.Target, f.First().T)
		}
	}
	slices.SortStableFunc(in.Turns, func(a, b Turn) int { return cmp.Compare(a.T, b.T) })
}
