package facts

import (
	"iter"
	"math"
	"slices"
	"time"

	"lockpick/harness/history"
)

// Never is the instant of what did not happen, or is not known to have.
const Never = math.MaxInt64

// Session is one acquire call and all that was done with its handle. What every judge asks
// of the acquire is beside it: events are large, and in a long history far apart.
type Session struct {
	Acquire Operation
	Called  int64       // the instant of its call
	Ended   int64       // of its return, whatever the outcome, or Never
	Until   int64       // the deadline that came with the lock (Deadline); Nothing: it was not granted
	actions []Operation // what was done with the handle, in the order of calls
}

// Name is the session's name, Client whose it is and Key the lock that it is about.
func (s *Session) Name() string   { return s.Acquire.Call.Session }
func (s *Session) Client() string { return s.Acquire.Call.Process }
func (s *Session) Key() string    { return s.Acquire.Call.Key }

// Token is the lock's random value, "" if the lock doesn't tell.
func (s *Session) Token() string {
	if s.Acquire.Return == nil {
		return ""
	}
	return s.Acquire.Return.Token
}

// Granted reports whether the acquire returned the lock.
func (s *Session) Granted() bool { return s.Until != Nothing }

// Calls is the session's operations of one kind, in the order of their calls.
func (s *Session) Calls(op string) iter.Seq[Operation] {
	return func(yield func(Operation) bool) {
		for _, a := range s.actions {
			if a.Call.Op == op && !yield(a) {
				return
			}
		}
	}
}

// Actions is all that was done with the handle, in the order of calls. The client's look at its
// own deadline is an action that takes no time: its call is its return.
func (s *Session) Actions() iter.Seq[Operation] { return slices.Values(s.actions) }

// Extended reports whether an extension was called.
func (s *Session) Extended() bool {
	return slices.ContainsFunc(s.actions, func(a Operation) bool { return a.Call.Op == history.OpExtend })
}

// FirstRelease is the call of the first release, or nil.
func (s *Session) FirstRelease() *history.Event {
	for x := range s.Calls(history.OpRelease) {
		return x.Call
	}
	return nil
}

// Released is when the session had surely given the lock back, by its client's own
// account, or Never.
func (s *Session) Released() int64 {
	for x := range s.Calls(history.OpRelease) {
		if x.Outcome() != history.Info {
			return x.Return.T
		}
	}
	return Never
}

// returned enters the return of its acquire.
func (s *Session) returned(e *history.Event) {
	s.Acquire.Return = e
	if s.Ended = e.T; e.Type == history.OK {
		s.Until = Deadline(e)
	}
}

// Lock is one key and its sessions.
type Lock struct {
	Name     string
	sessions []*Session
}

// Sessions lists the lock's sessions in the order in which their acquires returned. Those that never
// returned come last.
func (l *Lock) Sessions() iter.Seq[*Session] { return slices.Values(l.sessions) }

// Operation is a call and its return.
type Operation struct {
	Call   *history.Event
	Return *history.Event // nil: it never returned
}

// Outcome is OK, Fail or Info; what never returned is unknown.
func (o Operation) Outcome() history.Type {
	if o.Return == nil {
		return history.Info
	}
	return o.Return.Type
}

// Returned is the instant of the return, and Never for an unknown outcome: such
// an operation may take effect at any later time.
func (o Operation) Returned() int64 {
	if o.Outcome() == history.Info {
		return Never
	}
	return o.Return.T
}

// Unreturned reports whether a call had not returned when the run was stopped, at the scenario's limit or
// before: a call that returns because its client is stopped has not returned by itself.
func (f *Facts) Unreturned(o Operation) bool {
	if o.Return == nil {
		return true
	}
	limit := int64(Never)
	if f.Params.Limit > 0 {
		limit = int64(f.Params.Limit)
	}
	if f.Stop != nil {
		limit = min(limit, f.Stop.T)
	}
	return o.Return.T >= limit-int64(f.Params.StampError)
}

// Ended is when the call returned, whatever the outcome, or Never.
func (o Operation) Ended() int64 {
	if o.Return == nil {
		return Never
	}
	return o.Return.T
}

// IsOperation reports whether what a client did has a call and a return. Its
// look at its own deadline has not, nor has a remark.
func IsOperation(op string) bool { return op == history.OpAcquire || isAction(op) }

// isAction reports whether it is done with a handle.
func isAction(op string) bool {
	switch op {
	case history.OpExtend, history.OpRead, history.OpWrite, history.OpRelease:
		return true
	}
	return false
}

// Window is a span of true time in which a client surely believed, by its own
// clock, that it held a lock:
//
//	acquire call   return            call of the first release, or
//	     |-----------|=================| deadline, or death
//	                From               To
//
// It begins when acquire has returned, for until then the client believes
// nothing. It ends at the earliest of its deadline, the call of its first
// release (whatever comes of that), the instant before its kill, a definite "not held"
// in answer to an extension and the lock's word, unasked, that it is lost. A pause does not end it: the clock runs
// on, and validity is what the lock promised. An extension that comes back late
// opens another window, and so does one after an acquire of unknown outcome or one that
// failed, which open none. An extension that comes back after its own deadline ends
// belief when it comes back: until then the client went by the deadline before.
//
// Who is granted the lock by the record's last event believes from then on: that window
// has no length, and counts.
//
// Each end may be wrong by Params.StampError.
type Window struct {
	From, To int64
	Session  *Session
	Opens    *history.Event // the return that opened it
	Closes   *history.Event // the event that fixed its end; nil: the record's end, or a death
}

// Open reports whether the belief outlasts the record.
func (f *Facts) Open(w Window) bool {
	if w.Closes != nil || w.To != f.End {
		return false
	}
	t, gone := f.Gone[w.Session.Client()]
	return !(gone && t <= f.End)
}

// Windows of one session are disjoint and in the order of time.
func (f *Facts) Windows(s *Session) iter.Seq[Window] {
	return func(yield func(Window) bool) {
		end, release := f.LastMoment(s)
		held := func(w Window) bool {
			if w.To > end {
				w.To, w.Closes = end, release
			}
			return w.From > w.To || w.From == w.To && !f.Open(w) || yield(w)
		}
		var last Window
		until := int64(Nothing)
		if s.Granted() {
			last = Window{From: s.Ended, To: s.Until, Session: s, Opens: s.Acquire.Return, Closes: s.Acquire.Return}
			until = s.Until
		}
		for x := range s.Calls(history.OpExtend) {
			switch ret := x.Return; x.Outcome() {
			case history.OK:
				d := Renewed(ret, until)
				switch {
				case until == Nothing:
					last = opened(s, ret, d)
				case d > ret.T && ret.T > last.To:
					if !held(last) {
						return
					}
					last = opened(s, ret, d)
				case d > ret.T || d < last.To:
					last.To, last.Closes = d, ret
				}
				until = d
			case history.Fail:
				if until != Nothing && ret.T < last.To {
					last.To, last.Closes, until = ret.T, ret, ret.T
				}
			}
		}
		if until != Nothing {
			held(last)
		}
	}
}

func opened(s *Session, ret *history.Event, to int64) Window {
	return Window{From: ret.T, To: to, Session: s, Opens: ret, Closes: ret}
}

// Nothing is the deadline of who believes nothing.
const Nothing = math.MinInt64

// Deadline is the instant at which the client stops believing, as an acquire returned
// it, and as it came true. A lock without one is believed in until it is given back.
func Deadline(ret *history.Event) int64 {
	if ret.ValidUntil == 0 {
		return Never
	}
	return ret.ValidUntil
}

// Renewed is the same once an extension was granted to who went by a deadline until then,
// or believed nothing. One that names no deadline moves none. One that comes back after
// its own ends belief then, and takes back none.
func Renewed(ret *history.Event, until int64) int64 {
	switch {
	case ret.ValidUntil == 0 && until != Nothing:
		return until
	case ret.ValidUntil != 0 && ret.ValidUntil < ret.T:
		return min(until, ret.T)
	}
	return Deadline(ret)
}

// LastMoment is the instant after which a session can't be believed in whatever
// its deadline, and the release that says so, if one does.
func (f *Facts) LastMoment(s *Session) (int64, *history.Event) {
	call := s.FirstRelease()
	if call != nil && call.T <= min(f.End, f.gone) { // as nearly always; it spares a look at who is gone
		return call.T, call
	}
	end := f.End
	if t, ok := f.Gone[s.Client()]; ok && t < end {
		end = t
	}
	if call != nil && call.T <= end {
		return call.T, call
	}
	return end, nil
}

// Ending says what ended a belief.
type Ending string

const (
	Released Ending = "released" // it called release
	Expired  Ending = "expired"  // its deadline
	notHeld  Ending = "not-held" // an extension said that it does not hold
	Lost     Ending = "lost"     // the lock told it, unasked
	Died     Ending = "died"     // its client was killed
	Still    Ending = ""         // the record ended
)

// Beliefs is the windows of all sessions: by session in the order of their acquires'
// calls, and those of one in the order of time. Closes is the event that says what ended
// each (Closing).
func (f *Facts) Beliefs() (all []Window) {
	for s := range f.Sessions() {
		for w := range f.Windows(s) {
			w.Closes, _ = f.Closing(w)
			all = append(all, w)
		}
	}
	return all
}

// Lost is when the lock told the client, unasked, that it had lost the session's hold, the
// first time; nil: it did not.
func (f *Facts) Lost(s *Session) *history.Event { return f.lost[s] }

// Promised is the deadline that came with a session's lock, whatever was said of its loss later;
// Never: it named none.
func (f *Facts) Promised(s *Session) int64 {
	if until, ok := f.promised[s]; ok {
		return until
	}
	return s.Until
}

// promise notes what locks that were lost had promised, of the same events before anybody was
// told of a loss.
func (f *Facts) promise(reckoned []history.Event) {
	f.promised = map[*Session]int64{}
	of := map[*history.Event]*Session{}
	for s := range f.lost {
		if s.Granted() {
			of[s.Acquire.Return] = s
		}
	}
	for i := range f.Events {
		if s := of[&f.Events[i]]; s != nil {
			f.promised[s] = Deadline(&reckoned[i])
		}
	}
}

// Closing is what ended a window, and the event that says so; nil: none does.
func (f *Facts) Closing(w Window) (*history.Event, Ending) {
	switch e := w.Closes; {
	case e == nil:
		if d := f.departure(w.Session.Client()); d != nil && d.T == w.To {
			return d, Died
		}
		return nil, Still
	case e.Op == history.OpRelease:
		return e, Released
	case e.Op == history.OpExtend && e.Type == history.Fail:
		return e, notHeld
	case f.lost[w.Session] != nil && f.lost[w.Session].T == w.To:
		return f.lost[w.Session], Lost
	case w.To == Never:
		return nil, Still
	}
	return w.Closes, Expired
}

// Turn is how the wall clock of a client or a lock node ran from an instant on. A record
// without an Epoch doesn't tell by how much a clock is wrong, and has none.
type Turn struct {
	T       int64
	Process string
	Offset  int64   // how far it was ahead of a right clock at T, nanoseconds
	Rate    float64 // how fast it ran from then on; 1 is right
	Event   *history.Event
}

func (f *Facts) turn(e *history.Event) {
	if e.Op != history.OpClock || !e.Wall || f.Params.Epoch == 0 || e.Local == 0 {
		return
	}
	f.Turns = append(f.Turns, Turn{T: e.T, Process: e.Node, Offset: e.Local - f.Params.Epoch - e.T, Rate: 1 + float64(e.Drift)/1e9, Event: e})
}

// TurnsOf is the turns of one process's clock, in the order of time.
func (f *Facts) TurnsOf(process string) []Turn {
	return slices.DeleteFunc(slices.Clone(f.Turns), func(t Turn) bool { return t.Process != process })
}

// ClockAt is the one of a clock's turns, in the order of time, by which it runs at an instant.
func ClockAt(turns []Turn, at int64) Turn {
	now := Turn{Rate: 1}
	for _, t := range turns {
		if t.T <= at {
			now = t
		}
	}
	return now
}

// Shown is how much time passed by a client's own clock, the one that it read for an event, from that event to a
// later instant.
func (f *Facts) Shown(since *history.Event, until int64) int64 {
	at, shows, drift := since.T, since.Local, int64(0)
	if shows == 0 {
		return until - since.T
	}
	for i := range f.Events {
		switch e := &f.Events[i]; {
		case e.T > until:
			return shows - since.Local + elapsed(until-at, drift)
		case e.Op != history.OpClock || e.Node != since.Process || e.Wall != since.Wall:
		case e.T <= since.T:
			drift = e.Drift
		default:
			at, shows, drift = e.T, e.Local, e.Drift
		}
	}
	return shows - since.Local + elapsed(until-at, drift)
}

// elapsed is how much time a clock shows that runs so fast, in parts in 10⁹, in a span of true time.
func elapsed(span, drift int64) int64 { return span + int64(float64(span)*(float64(drift)/1e9)) }

// readError bounds the error with which a clock is read where it is right.
const readError = int64(time.Millisecond) / 2

// Wrong reports whether the clock shows another time than a right one, or runs otherwise.
func (t Turn) Wrong() bool { return t.Offset >= readError || t.Offset <= -readError || t.Rate != 1 }

// Ahead is how far the clock is ahead at an instant from the turn on, if nobody turns it again.
func (t Turn) Ahead(at int64) int64 {
	gained := float64(at-t.T) * (t.Rate - 1)
	return int64(min(max(float64(t.Offset)+gained, math.MinInt64/2), math.MaxInt64/2))
}
