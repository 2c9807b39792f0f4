package sequence

import (
	"cmp"
	"slices"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

type event = history.Event

// never is the instant of what does not happen.
const never = facts.Never

// course is the facts of a run up to where it was stopped, and what follows from them for
// a drawing. It takes any history, also one that no run could have made.
type course struct {
	*facts.Facts
	sessions []*session // in the order in which their acquire was called
	named    map[string]*session
	wires    []*event                     // commands on the wire, in the order in which they were sent
	tries    []*event                     // those of them that set a key
	attempts map[*facts.Session][]attempt // the rounds of its acquire, in that order
	applies  map[string]*apply
	faults   []*facts.Fault // that were seen to be in force, in that order
	last     int64          // the last instant of the run's own time
}

func newCourse(h *history.History) *course {
	f := &course{Facts: facts.ReadUpToStop(h), named: map[string]*session{}, applies: map[string]*apply{}, attempts: map[*facts.Session][]attempt{}}
	for s := range f.Sessions() {
		f.session(s)
	}
	f.wires = f.Sent()
	for _, e := range f.wires {
		if e.Op == history.OpSet {
			f.tries = append(f.tries, e)
		}
	}
	for _, x := range f.Faults {
		if x.Begin != nil {
			f.faults = append(f.faults, x)
		}
	}
	slices.SortStableFunc(f.faults, func(a, b *facts.Fault) int {
		return cmp.Or(cmp.Compare(a.Begin.T, b.Begin.T), cmp.Compare(a.Begin.N, b.Begin.N))
	})
	for i := range f.Events {
		if e := &f.Events[i]; e.Op != history.OpLog { // it is stamped when it was read back
			f.last = max(f.last, e.T)
		}
	}
	f.readLog()
	f.readAttempts()
	return f
}

// nodes lists the lock nodes, from the params or else from the wire.
func (f *course) nodes() []string {
	if len(f.Params.Nodes) > 0 {
		return f.Params.Nodes
	}
	var out []string
	for _, e := range f.tries {
		if !slices.Contains(out, e.Node) && len(out) < 100 {
			out = append(out, e.Node)
		}
	}
	slices.Sort(out)
	return out
}

// slow is how long a message is in flight if it is worth telling.
func (f *course) slow() int64 {
	return int64(cmp.Or(max(f.Params.NodeTimeout, 0), 50*time.Millisecond))
}

// sent returns the wire commands that a client sent from one instant to another.
func sent(wires []*event, client string, from, to int64) []*event {
	i, _ := slices.BinarySearchFunc(wires, from, func(e *event, t int64) int { return cmp.Compare(e.Sent, t) })
	var out []*event
	for _, e := range wires[i:] {
		if e.Sent > to {
			break
		}
		if facts.Sender(e) == client {
			out = append(out, e)
		}
	}
	return out
}

// numbers lists the numbers of events, each once, in order.
func numbers(events ...*event) []int64 {
	var out []int64
	for _, e := range events {
		if e != nil {
			out = append(out, e.N)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

type session struct {
	*facts.Session
	calls   []facts.Operation // the first is the acquire
	windows []facts.Window    // in which the client believes that it holds the lock

	begin, until int64 // of all windows; of one that had none, both are the acquire's return
	deadline     int64 // when it stops believing if nothing else ends it; never: no deadline
	ended        facts.Ending
	promised     int64 // the deadline that it was granted with; never: none
}

// session adds one.
func (f *course) session(x *facts.Session) {
	s := &session{Session: x, calls: []facts.Operation{x.Acquire}}
	for a := range x.Actions() {
		s.calls = append(s.calls, a)
	}
	f.sessions = append(f.sessions, s)
	if s.Name() != "" && f.named[s.Name()] == nil {
		f.named[s.Name()] = s
	}
	s.windows = slices.Collect(f.Windows(x))
	switch {
	case s.Granted():
		s.begin, s.deadline, s.promised = x.Ended, x.Until, x.Until
		if e := f.Lost(x); e != nil && e.T == x.Until { // nobody knew that beforehand
			s.promised = never
		}
	case len(s.windows) > 0: // by an extension
		s.begin, s.deadline = s.windows[0].From, facts.Nothing
	default:
		return
	}
	for e := range x.Extends() {
		if e.Outcome() == history.OK {
			s.deadline = facts.Renewed(e.Return, s.deadline)
		}
	}
	s.until, s.ended = s.begin, facts.Expired
	if n := len(s.windows); n > 0 {
		f.end(s, &s.windows[n-1])
	}
}

// end says what ended a session's last window. What nothing in the record ends lasts
// until its deadline.
func (f *course) end(s *session, w *facts.Window) {
	_, s.ended = f.Closing(*w)
	at, gone := f.Gone[s.Client()]
	switch {
	case s.ended != facts.Still:
	case gone && at == w.To:
		s.ended = facts.Died
	default:
		w.To = max(w.To, s.deadline)
		if s.deadline != never {
			s.ended = facts.Expired
		}
	}
	s.until = w.To
}

// last is the instant of the last thing that the session is seen to do.
func (s *session) last() int64 {
	t := s.Acquire.Call.T
	for _, c := range s.calls {
		t = max(t, c.Call.T)
		if c.Return != nil {
			t = max(t, c.Return.T)
		}
	}
	return t
}

// pending reports whether a call never returned, as when its client was killed.
func (s *session) pending() bool {
	return slices.ContainsFunc(s.calls, func(c facts.Operation) bool { return c.Return == nil })
}

// believes reports whether the client believed at an instant that it held the lock.
func (s *session) believes(at int64) bool {
	return slices.ContainsFunc(s.windows, func(w facts.Window) bool { return w.From <= at && at < w.To })
}

// together is the longest span in which both believed that they held the lock.
func together(a, b *session) (from, to int64) {
	for _, v := range a.windows {
		for _, w := range b.windows {
			if f, t := max(v.From, w.From), min(v.To, w.To); minus(t, f) > minus(to, from) {
				from, to = f, t
			}
		}
	}
	return from, to
}

// apply is what became of one write at the resource.
type apply struct {
	facts.Write
	lost []lostWrite // what it did away with, in the order of versions
}

// lostWrite is an update that a later write did away with.
type lostWrite struct {
	client  string
	version int64
}

// readLog says of each write whose updates it did away with: one that is based on an
// older version than it meets does so with what came between.
func (f *course) readLog() {
	type version struct {
		key  string
		made int64
	}
	writers := map[version]string{}
	for _, w := range f.Writes() {
		a := &apply{Write: w}
		if _, ok := f.applies[w.Value]; !ok {
			f.applies[w.Value] = a
		}
		if w.Type != history.OK {
			continue
		}
		// Far more than a few lost versions is no history of ours.
		for v := w.Met; v > w.Version && minus(w.Met, v) < 100; v-- {
			if who := writers[version{w.Key, v}]; who != "" {
				a.lost = append(a.lost, lostWrite{who, v})
			}
		}
		slices.Reverse(a.lost)
		writers[version{w.Key, w.Made}] = f.writer(w.Event)
	}
}

func (f *course) writer(e *event) string {
	if s := f.named[e.Session]; s != nil {
		return s.Client()
	}
	return e.Session
}

// appliedAt is when the resource had applied or refused a write, 0 if nobody knows.
func (f *course) appliedAt(value string) int64 {
	if a := f.applies[value]; a != nil && a.Applied != 0 {
		return a.Applied
	}
	if w := f.wireWrite(value); w != nil {
		return w.Applied
	}
	return 0
}

// wireWrite is the write as its link saw it.
func (f *course) wireWrite(value string) *event {
	i := slices.IndexFunc(f.wires, func(w *event) bool { return w.Op == history.OpWrite && w.Value == value && value != "" })
	if i < 0 {
		return nil
	}
	return f.wires[i]
}
