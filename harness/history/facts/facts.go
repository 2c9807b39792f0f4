package facts

import (
	"cmp"
	"iter"
	"slices"

	"lockpick/harness/history"
)

// Facts is a history in order. Events are those of the history with each ValidUntil as it
// came true; pointers to events point into it.
type Facts struct {
	Params    history.Params
	Cut       string
	Malformed string // why nobody can have recorded the history, or ""
	Events    []history.Event
	End       int64 // the instant of the last event of the run's own time

	Grants  int
	Shares  []int            // of each client that tried, its grants
	Locks   []*Lock          // in the order of first use
	Began   map[string]bool  // clients that began
	Gone    map[string]int64 // the instant at which a client ended or was about to be killed
	gone    int64            // the earliest of these
	First   int64            // instants of the clients' first event and their last; -1: there is none
	Last    int64
	Touched bool             // a client called the resource
	Loose   []*history.Event // of clients, that belong to no session or answer no call

	Interleaved bool // a client used a handle after it had begun another session

	Faults []*Fault         // in the order in which they were tried
	Turns  []Turn           // of clocks, in the order of time
	Links  []*history.Event // what the links saw of sets, extensions and releases on nodes
	Others []*history.Event // and of all else
	Lacks  []*history.Event // what the simulation doesn't have
	Log    []*history.Event // the resource's log, in the order of apply
	Stop   *history.Event   // where the run was stopped early; nil: it was not

	sessions []*Session // in the order of their acquires' calls
	named    map[string]*Session
	locks    map[string]*Lock
	wires    map[string]*Wire            // made when first asked for
	lives    *Lives                      // likewise
	departed map[string]*history.Event   // likewise: by client
	lost     map[*Session]*history.Event // the first that its client was told of
	promised map[*Session]int64          // of those: Promised
	told     []*history.Event            // of the lives of keys, by the nodes
}

// Read puts a history in order. It keeps the events, and copies them only where a clock
// was turned or a hold lost.
func Read(h *history.History) *Facts {
	if h == nil {
		h = &history.History{}
	}
	in := read(h, h.Events)
	if in.turned || len(in.lost) > 0 { // which is rare, so nobody looks for it first
		if came := history.CameTrue(h.Events); &came[0] != &h.Events[0] {
			in = read(h, came)
		}
		if len(in.lost) > 0 {
			in.promise(history.Reckoned(h.Events))
		}
	}
	in.finish()
	in.Malformed = in.malformed()
	return in.Facts
}

// read enters the events of a history, each with its ValidUntil as it came true.
func read(h *history.History, events []history.Event) *reading {
	in := &reading{
		Facts: &Facts{
			Params: h.Params, Cut: h.Cut, Events: events, First: -1, Last: -1, gone: Never,
			Began: map[string]bool{}, Gone: map[string]int64{}, locks: map[string]*Lock{},
		},
		clients: map[string]*client{}, pending: map[faultKey]*pendingFaults{}, numbers: make([]bool, len(events)+1), beyond: map[int64]bool{},
	}
	for _, name := range h.Params.Clients {
		in.client(name)
	}
	for i := range events {
		in.event(&events[i])
	}
	return in
}

// Sessions are in the order of their acquires' calls.
func (f *Facts) Sessions() iter.Seq[*Session] { return slices.Values(f.sessions) }

// Named is the session of a name, or nil.
func (f *Facts) Named(name string) *Session {
	if f.named == nil {
		f.named = map[string]*Session{}
		for _, s := range f.sessions {
			f.named[s.Name()] = s
		}
	}
	return f.named[name]
}

// Lock is the lock of a name, or nil.
func (f *Facts) Lock(key string) *Lock { return f.locks[key] }

// ReadUpToStop puts in order what happened before a run was stopped early, for whoever
// tells of it: what was done and answered as it was taken down nobody meant. Of any other
// run it is all.
func ReadUpToStop(h *history.History) *Facts {
	f := Read(h)
	if f.Stop == nil {
		return f
	}
	short := &history.History{Params: h.Params, Cut: h.Cut}
	for i := range h.Events {
		if e := &h.Events[i]; !f.takenDown(e) {
			short.Events = append(short.Events, *e)
		}
	}
	return Read(short)
}

// takenDown reports whether an event is of the taking down of a stopped run. A command
// counts by when it was sent; what is read back then is of the run.
func (f *Facts) takenDown(e *history.Event) bool {
	switch {
	case e.Op == history.OpLog:
		return false
	case onWire(e) && e.Sent != 0:
		return e.Sent > f.Stop.T
	}
	return e.T > f.Stop.T || e.T == f.Stop.T && e.N > f.Stop.N
}

// leave notes when a client was gone.
func (f *Facts) leave(client string, at int64) {
	if t, ok := f.Gone[client]; !ok || at < t {
		f.Gone[client] = at
		f.gone = min(f.gone, at)
	}
}

// inOrder sorts by number: of what is read back, that is the order in which it happened,
// or in which it was asked for. It needn't be that of T.
func inOrder(events []*history.Event) {
	slices.SortStableFunc(events, func(a, b *history.Event) int { return cmp.Compare(a.N, b.N) })
}
