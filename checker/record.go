package checker

import (
	"math"
	"slices"
	"strings"

	"lockpick/harness/history"
)

// never is the instant of what did not happen, or is not known to have.
const never = math.MaxInt64

// Kinds of fault. By the first two a client stops: without warning for good, or for a time.
const (
	killed   = "kill"
	paused   = "pause"
	cutOff   = "cut"
	withheld = "hold" // a single message
)

// record is a well-formed history put in the order of its sessions.
type record struct {
	params history.Params
	cut    string
	events []history.Event
	end    int64 // the instant of the last event

	sessions []*session // in the order of their acquire's call
	named    map[string]*session
	began    map[string]bool  // clients that began
	gone     map[string]int64 // the instant at which a client ended or was about to be killed
	faults   []*fault         // in the order in which they were tried
	log      []*history.Event // the resource's log, in the order of apply

	found  *overlaps          // memo of overlapping
	leased []leaseKey         // memo of leases
	asked  map[string]Outcome // memo of porcupine's answers about whole keys

	down      *outages         // memo of outages
	seen      map[string]*wire // memo of wires
	contested []*contest       // memo of contests
}

// session is one acquire call and all that was done with its handle.
type session struct {
	name   string
	client string
	key    string
	token  string // "" if the lock doesn't tell

	acquire  operation
	extends  []operation
	reads    []operation
	writes   []operation
	releases []operation
}

// operation is a call and its return.
type operation struct {
	call *history.Event
	ret  *history.Event // nil: it never returned
}

// outcome is OK, Fail or Info; what never returned is unknown.
func (o operation) outcome() history.Type {
	if o.ret == nil {
		return history.Info
	}
	return o.ret.Type
}

// returned is the instant of the return, and never for an unknown outcome: such
// an operation may take effect at any later time.
func (o operation) returned() int64 {
	if o.outcome() == history.Info {
		return never
	}
	return o.ret.T
}

// fault is one fault on one target.
type fault struct {
	kind, target string
	step         int
	invoke       *history.Event
	begin        *history.Event // nil: it was not seen to be in force
	end          *history.Event // nil: it was in force until the end
	fail         *history.Event // it could not be injected, seen or healed
}

// newRecord puts a well-formed history in order.
func newRecord(h *history.History) *record {
	r := &record{
		params: h.Params, cut: h.Cut, events: h.Events,
		named: map[string]*session{}, began: map[string]bool{}, gone: map[string]int64{},
	}
	clients := map[string]*client{}
	for _, name := range h.Params.Clients {
		clients[name] = &client{}
	}
	for i := range r.events {
		e := &r.events[i]
		r.end = e.T
		switch c := clients[e.Process]; {
		case c != nil:
			r.client(c, e)
		case e.Process == history.Nemesis:
			r.fault(e)
		case e.Op == history.OpLog:
			r.log = append(r.log, e)
		}
	}
	// The order of apply is the order of reading back; it needn't be that of T.
	slices.SortStableFunc(r.log, func(a, b *history.Event) int { return int(a.N - b.N) })
	for _, f := range r.faults {
		if f.kind == killed && clients[f.target] != nil {
			r.leave(f.target, f.first().T)
		}
	}
	return r
}

// client is where one client stands while its events are read.
type client struct {
	session *session
	open    *operation // the operation whose return is awaited
}

func (r *record) client(c *client, e *history.Event) {
	switch {
	case e.Op == history.OpClient && e.Type == history.Begin:
		r.began[e.Process] = true
	case e.Op == history.OpClient && e.Type == history.End:
		r.leave(e.Process, e.T)
	case e.Type == history.Invoke && e.Op == history.OpAcquire:
		c.session = &session{name: e.Session, client: e.Process, key: e.Key, acquire: operation{call: e}}
		c.open = &c.session.acquire
		r.sessions = append(r.sessions, c.session)
		r.named[e.Session] = c.session
	case e.Type == history.Invoke:
		c.open = nil
		if s := r.of(c, e); s != nil {
			if ops := s.operations(e.Op); ops != nil {
				*ops = append(*ops, operation{call: e})
				c.open = &(*ops)[len(*ops)-1]
			}
		}
	case c.open != nil && e.Op == c.open.call.Op:
		c.open.ret = e
		c.open = nil
		if e.Op == history.OpAcquire {
			c.session.token = e.Token
		}
	}
}

// of is the session that an event belongs to: the one it names, or the client's last.
func (r *record) of(c *client, e *history.Event) *session {
	if s := r.named[e.Session]; s != nil {
		return s
	}
	return c.session
}

func (s *session) operations(op string) *[]operation {
	switch op {
	case history.OpExtend:
		return &s.extends
	case history.OpRead:
		return &s.reads
	case history.OpWrite:
		return &s.writes
	case history.OpRelease:
		return &s.releases
	}
	return nil
}

func (r *record) leave(client string, at int64) {
	if t, ok := r.gone[client]; !ok || at < t {
		r.gone[client] = at
	}
}

// fault books an event of the nemesis. A fault that is planned for every
// occurrence of its trigger has one entry for each.
func (r *record) fault(e *history.Event) {
	last := func(open func(*fault) bool) *fault {
		for _, f := range slices.Backward(r.faults) {
			if f.kind == e.Op && f.target == e.Node && f.step == e.Step && open(f) {
				return f
			}
		}
		f := &fault{kind: e.Op, target: e.Node, step: e.Step}
		r.faults = append(r.faults, f)
		return f
	}
	switch e.Type {
	case history.Invoke:
		r.faults = append(r.faults, &fault{kind: e.Op, target: e.Node, step: e.Step, invoke: e})
	case history.Begin:
		last(func(f *fault) bool { return f.begin == nil && f.fail == nil }).begin = e
	case history.Fail:
		last(func(f *fault) bool { return f.end == nil && f.fail == nil }).fail = e
	case history.End:
		last(func(f *fault) bool { return f.begin != nil && f.end == nil }).end = e
	}
}

// first is the earliest event of the fault: it can't have been in force before.
func (f *fault) first() *history.Event {
	for _, e := range []*history.Event{f.invoke, f.begin, f.fail} {
		if e != nil {
			return e
		}
	}
	return f.end
}

// granted reports whether the acquire returned the lock.
func (s *session) granted() bool { return s.acquire.outcome() == history.OK }

// linkClient is the client's end of a link such as "c1-n3".
func linkClient(link string) string {
	client, _, _ := strings.Cut(link, "-")
	return client
}

// byKey is the sessions of each key. Keys are in the order of first use.
func (r *record) byKey() [][]*session {
	place := map[string]int{}
	var keys [][]*session
	for _, s := range r.sessions {
		i, ok := place[s.key]
		if !ok {
			i = len(keys)
			place[s.key] = i
			keys = append(keys, nil)
		}
		keys[i] = append(keys[i], s)
	}
	return keys
}
