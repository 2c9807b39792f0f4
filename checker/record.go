package checker

import (
	"iter"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// record is a history put in the order of its sessions.
type record struct {
	params history.Params
	cut    string
	events []history.Event
	end    int64 // the instant of the last event

	sessions arena[session] // in the order of their acquire's call
	actions  arena[action]
	grants   int
	shares   []int               // of each client that tried, its grants
	bypasses int                 // grants that an acquire saw go to one called later
	keys     []*lock             // in the order of first use
	byName   map[string]*session // made when first asked for
	began    map[string]bool     // clients that began
	gone     map[string]int64    // the instant at which a client ended or was about to be killed
	first    int64               // instants of the clients' first event and their last
	last     int64
	touched  bool             // a client called the resource
	faults   []*fault         // in the order in which they were tried
	links    []*history.Event // what the links saw of sets, extensions and releases on nodes
	lacks    []*history.Event // what the simulation doesn't have
	lives    *facts.Lives     // of keys on nodes
	turns    []*history.Event // of clocks
	log      []*history.Event // the resource's log, in the order of apply

	found     *overlaps            // memo of overlapping
	leased    []leaseKey           // memo of leases
	down      *outages             // memo of outages
	back      map[string][]setBack // memo of setBacks
	seen      map[string]*wire     // memo of wires
	contested []*contest           // memo of contests
	windowed  *lock
	windows   []window  // of windowed, memory that keys share, one after the other
	ops       []leaseOp // memory that sessions share, likewise
	spans     []int64   // and measures
}

// lock is one key and its sessions.
type lock struct {
	name  string
	last  *session // the last to return from its acquire; its next is the first
	asked Outcome  // memo of porcupine's answer
}

// sessions of a lock are in the order in which their acquires returned, those
// that never did at the end.
func (l *lock) sessions() iter.Seq[*session] {
	return func(yield func(*session) bool) {
		if l.last == nil {
			return
		}
		for s := l.last.next; yield(s) && s != l.last; s = s.next {
		}
	}
}

func (l *lock) add(s *session) {
	s.next = s
	if l.last != nil {
		s.next, l.last.next = l.last.next, s
	}
	l.last = s
}

// newRecord puts a well-formed history in order.
func newRecord(h *history.History) *record {
	r, _ := readRecord(h)
	return r
}

// readRecord puts a history in order, and says why nobody can have recorded it, or "".
func readRecord(h *history.History) (*record, string) {
	r := &record{
		params: h.Params, cut: h.Cut, events: history.CameTrue(h.Events), first: -1, last: -1,
		began: map[string]bool{}, gone: map[string]int64{},
	}
	r.lives = facts.ReadLives(r.events)
	in := &reading{record: r, clients: map[string]*client{}, locks: map[string]*lock{}}
	for _, name := range h.Params.Clients {
		c := &client{}
		in.clients[name] = c
		in.all = append(in.all, c)
	}
	for i := range r.events {
		in.event(&r.events[i])
	}
	for _, c := range in.all {
		if c.acquiring() {
			c.lock.add(c.session)
		}
		if c.session != nil {
			r.shares = append(r.shares, c.grants)
		}
	}
	// The order of apply is the order of reading back; it needn't be that of T.
	slices.SortStableFunc(r.log, func(a, b *history.Event) int { return int(a.N - b.N) })
	for _, f := range r.faults {
		if f.kind == killed && in.clients[f.target] != nil {
			r.leave(f.target, f.first().T)
		}
	}
	return r, in.malformed()
}

func (r *record) leave(client string, at int64) {
	if t, ok := r.gone[client]; !ok || at < t {
		r.gone[client] = at
	}
}

// named is the session of a name, or nil.
func (r *record) named(name string) *session {
	if r.byName == nil {
		r.byName = map[string]*session{}
		for s := range r.sessions.all() {
			r.byName[s.name()] = s
		}
	}
	return r.byName[name]
}

// locked is the lock of a name, or nil.
func (r *record) locked(key string) *lock {
	for _, l := range r.keys {
		if l.name == key {
			return l
		}
	}
	return nil
}
