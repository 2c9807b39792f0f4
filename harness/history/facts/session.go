package facts

import (
	"iter"
	"math"
	"slices"
	"time"

	"lockpick/harness/history"
)

// Never is the time of something that did not happen or is not known to have happened.
const Never = math.MaxInt64

// Session is an acquire call and everything done with its handle. It contains copies of the
// acquire's most frequently used fields because events are large and, in a long history, far apart
// in memory.
type Session struct {
	Acquire  Operation
	CalledAt int64       // when acquire was called
	EndedAt  int64       // when acquire returned, whatever the outcome, or Never
	Deadline int64       // deadline returned by acquire, or NotGranted
	actions  []Operation // operations on the handle, in call order
}

// Name returns the session's name.
func (s *Session) Name() string { return s.Acquire.Call.Session }

// Client returns the client that called acquire.
func (s *Session) Client() string { return s.Acquire.Call.Process }

// Key returns the name of the lock.
func (s *Session) Key() string { return s.Acquire.Call.Key }

// Token returns the lock's random value, or "" if the lock doesn't reveal it.
func (s *Session) Token() string {
	if s.Acquire.Return == nil {
		return ""
	}
	return s.Acquire.Return.Token
}

// Granted reports whether the acquire succeeded.
func (s *Session) Granted() bool { return s.Deadline != NotGranted }

// Calls iterates over the session's operations of one kind, in call order.
func (s *Session) Calls(op string) iter.Seq[Operation] {
	return func(yield func(Operation) bool) {
		for _, a := range s.actions {
			if a.Call.Op == op && !yield(a) {
				return
			}
		}
	}
}

// Actions iterates over all operations on the handle, in call order. They include checks of the
// deadline, which take no time: their Call and Return are the same event.
func (s *Session) Actions() iter.Seq[Operation] { return slices.Values(s.actions) }

// HasExtension reports whether the client tried to extend the lock.
func (s *Session) HasExtension() bool {
	return slices.ContainsFunc(s.actions, func(a Operation) bool { return a.Call.Op == history.OpExtend })
}

// FirstRelease returns the call of the first release, or nil.
func (s *Session) FirstRelease() *history.Event {
	for x := range s.Calls(history.OpRelease) {
		return x.Call
	}
	return nil
}

// ReleasedAt returns when the client knew that the session no longer held the lock, because a
// release had succeeded or definitely failed. Otherwise it returns Never.
func (s *Session) ReleasedAt() int64 {
	for x := range s.Calls(history.OpRelease) {
		if x.Outcome() != history.Info {
			return x.Return.T
		}
	}
	return Never
}

func (s *Session) recordReturn(e *history.Event) {
	s.Acquire.Return = e
	if s.EndedAt = e.T; e.Type == history.OK {
		s.Deadline = Deadline(e)
	}
}

// Lock is one key and its sessions.
type Lock struct {
	Name     string
	sessions []*Session
}

// Sessions iterates over the lock's sessions in the order in which their acquires returned.
// Sessions whose acquire never returned come last.
func (l *Lock) Sessions() iter.Seq[*Session] { return slices.Values(l.sessions) }

// Operation is a call and its return.
type Operation struct {
	Call   *history.Event
	Return *history.Event // nil means the call never returned
}

// Outcome returns OK, Fail or Info. Info means that the outcome is unknown or that the operation
// never returned.
func (o Operation) Outcome() history.Type {
	if o.Return == nil {
		return history.Info
	}
	return o.Return.Type
}

// OutcomeAt returns the time of the return, or Never if the outcome is unknown, because then the
// operation may take effect at any later time.
func (o Operation) OutcomeAt() int64 {
	if o.Outcome() == history.Info {
		return Never
	}
	return o.Return.T
}

// PendingAtStop reports whether a call was pending when the run was stopped, at the scenario's time
// limit or earlier. A call that returned only because its client was stopped counts as pending.
func (f *Facts) PendingAtStop(o Operation) bool {
	if o.Return == nil {
		return true
	}
	limit := int64(Never)
	if f.Params.Limit > 0 {
		limit = int64(f.Params.Limit)
	}
	if f.StopEvent != nil {
		limit = min(limit, f.StopEvent.T)
	}
	return o.Return.T >= limit-int64(f.Params.StampError)
}

// ReturnedAt returns when the call returned, whatever its outcome, or Never.
func (o Operation) ReturnedAt() int64 {
	if o.Return == nil {
		return Never
	}
	return o.Return.T
}

// IsOperation reports whether op is a client operation with both a call and a return. A deadline
// check, for example, is a single event.
func IsOperation(op string) bool { return op == history.OpAcquire || isAction(op) }

// isAction reports whether op uses a handle and has both a call and a return.
func isAction(op string) bool {
	switch op {
	case history.OpExtend, history.OpRead, history.OpWrite, history.OpRelease:
		return true
	}
	return false
}

// Window is a span of true time in which a client, according to its own clock, certainly considered
// itself the holder of a lock:
//
//	acquire call   return            call of the first release, or
//	     |-----------|=================| deadline, or death
//	                From               To
//
// A window begins when acquire returns, because the client does not know of the grant earlier. It
// ends at the deadline, at the call of the first release (whatever its result), just before the
// client is killed, when an extension definitely reports that the lock is not held, or when the
// lock notifies the client of a loss, whichever comes first. A pause does not end a window: the
// clock keeps running, and the lock has promised to be valid until the deadline.
//
// An extension that returns after the window has ended opens another one. So does an extension
// after an acquire that failed or whose outcome is unknown, because such an acquire opens no
// window. An extension that returns after its own new deadline ends the window when it returns,
// because until then the client relied on the previous deadline.
//
// If a grant is the last event of the history, its window has no length, but counts.
//
// Both From and To may be off by Params.StampError.
type Window struct {
	From, To   int64
	Session    *Session
	OpenEvent  *history.Event // return that opened the window
	CloseEvent *history.Event // event that ended the window; nil: the history or the client ended
}

// StillOpen reports whether the window was still open when the history ended.
func (f *Facts) StillOpen(w Window) bool {
	if w.CloseEvent != nil || w.To != f.End {
		return false
	}
	t, gone := f.GoneAt[w.Session.Client()]
	return !(gone && t <= f.End)
}

// Windows iterates over a session's windows, which are disjoint and in chronological order.
func (f *Facts) Windows(s *Session) iter.Seq[Window] {
	return func(yield func(Window) bool) {
		end, release := f.LastMoment(s)
		yieldWindow := func(w Window) bool {
			if w.To > end {
				w.To, w.CloseEvent = end, release
			}
			return w.From > w.To || w.From == w.To && !f.StillOpen(w) || yield(w)
		}
		var current Window
		deadline := int64(NotGranted)
		if s.Granted() {
			current = Window{From: s.EndedAt, To: s.Deadline, Session: s, OpenEvent: s.Acquire.Return, CloseEvent: s.Acquire.Return}
			deadline = s.Deadline
		}
		for x := range s.Calls(history.OpExtend) {
			switch ret := x.Return; x.Outcome() {
			case history.OK:
				d := ExtendedDeadline(ret, deadline)
				switch {
				case deadline == NotGranted:
					current = newWindow(s, ret, d)
				case d > ret.T && ret.T > current.To:
					if !yieldWindow(current) {
						return
					}
					current = newWindow(s, ret, d)
				case d > ret.T || d < current.To:
					current.To, current.CloseEvent = d, ret
				}
				deadline = d
			case history.Fail:
				if deadline != NotGranted && ret.T < current.To {
					current.To, current.CloseEvent, deadline = ret.T, ret, ret.T
				}
			}
		}
		if deadline != NotGranted {
			yieldWindow(current)
		}
	}
}

func newWindow(s *Session, ret *history.Event, to int64) Window {
	return Window{From: ret.T, To: to, Session: s, OpenEvent: ret, CloseEvent: ret}
}

// NotGranted is the deadline of a client that does not consider itself the holder.
const NotGranted = math.MinInt64

// Deadline returns when a client stops considering itself the holder, given the return of its
// acquire. It returns Never for a lock without a deadline, which is held until it is released.
func Deadline(ret *history.Event) int64 {
	if ret.ValidUntil == 0 {
		return Never
	}
	return ret.ValidUntil
}

// ExtendedDeadline returns the deadline after a successful extension, given the previous deadline
// (or NotGranted). An extension without a deadline leaves the deadline unchanged. An extension that
// returns after its own deadline sets the deadline to the time of its return, but does not postpone
// an earlier deadline.
func ExtendedDeadline(ret *history.Event, deadline int64) int64 {
	switch {
	case ret.ValidUntil == 0 && deadline != NotGranted:
		return deadline
	case ret.ValidUntil != 0 && ret.ValidUntil < ret.T:
		return min(deadline, ret.T)
	}
	return Deadline(ret)
}

// LastMoment returns the time after which a session's client can't consider itself the holder,
// whatever its deadline, and the release that determines this time, if any.
func (f *Facts) LastMoment(s *Session) (int64, *history.Event) {
	call := s.FirstRelease()
	if call != nil && call.T <= min(f.End, f.firstGoneAt) { // the usual case, which doesn't need GoneAt
		return call.T, call
	}
	end := f.End
	if t, ok := f.GoneAt[s.Client()]; ok && t < end {
		end = t
	}
	if call != nil && call.T <= end {
		return call.T, call
	}
	return end, nil
}

// Ending says how a window ended.
type Ending string

const (
	Released      Ending = "released" // the client called release
	Expired       Ending = "expired"  // the deadline passed
	notHeld       Ending = "not-held" // an extension failed because the lock was not held
	Lost          Ending = "lost"     // the lock notified the client of a loss
	Died          Ending = "died"     // the client was killed
	StillBelieved Ending = ""         // the history ended
)

// AllWindows returns the windows of all sessions, ordered by acquire call and then by time.
// CloseEvent is the event that WindowEnd returns.
func (f *Facts) AllWindows() (all []Window) {
	for s := range f.Sessions() {
		for w := range f.Windows(s) {
			w.CloseEvent, _ = f.WindowEnd(w)
			all = append(all, w)
		}
	}
	return all
}

// Loss returns the first event in which the lock notified the client that the session no longer
// holds it, or nil.
func (f *Facts) Loss(s *Session) *history.Event { return f.losses[s] }

// PromisedDeadline returns the deadline that a session's acquire returned, regardless of any later
// loss. Never means that the lock had no deadline.
func (f *Facts) PromisedDeadline(s *Session) int64 {
	if deadline, ok := f.promisedDeadlines[s]; ok {
		return deadline
	}
	return s.Deadline
}

// recordPromises records the promised deadlines of sessions that lost their lock. corrected
// contains the same events with deadlines that ignore losses.
func (f *Facts) recordPromises(corrected []history.Event) {
	f.promisedDeadlines = map[*Session]int64{}
	sessionByReturn := map[*history.Event]*Session{}
	for s := range f.losses {
		if s.Granted() {
			sessionByReturn[s.Acquire.Return] = s
		}
	}
	for i := range f.Events {
		if s := sessionByReturn[&f.Events[i]]; s != nil {
			f.promisedDeadlines[s] = Deadline(&corrected[i])
		}
	}
}

// WindowEnd returns the event that ended a window, or nil, and how the window ended.
func (f *Facts) WindowEnd(w Window) (*history.Event, Ending) {
	switch e := w.CloseEvent; {
	case e == nil:
		if d := f.departure(w.Session.Client()); d != nil && d.T == w.To {
			return d, Died
		}
		return nil, StillBelieved
	case e.Op == history.OpRelease:
		return e, Released
	case e.Op == history.OpExtend && e.Type == history.Fail:
		return e, notHeld
	case f.losses[w.Session] != nil && f.losses[w.Session].T == w.To:
		return f.losses[w.Session], Lost
	case w.To == Never:
		return nil, StillBelieved
	}
	return w.CloseEvent, Expired
}

// ClockChange describes how the wall clock of a client or a lock node ran from time T on. A history
// without an Epoch has no clock changes, because it doesn't show by how much a clock is off.
type ClockChange struct {
	T       int64
	Process string
	Offset  int64   // how far the clock was ahead of a correct one at T, in nanoseconds
	Rate    float64 // how fast the clock ran after T; 1 is correct
	Event   *history.Event
}

func (f *Facts) addClockChange(e *history.Event) {
	if e.Op != history.OpClock || !e.WallClock || f.Params.Epoch == 0 || e.Local == 0 {
		return
	}
	f.ClockChanges = append(f.ClockChanges, ClockChange{T: e.T, Process: e.Node, Offset: e.Local - f.Params.Epoch - e.T, Rate: 1 + float64(e.Drift)/1e9, Event: e})
}

// ClockChangesOf returns the changes to a process's clock, in chronological order.
func (f *Facts) ClockChangesOf(process string) []ClockChange {
	return slices.DeleteFunc(slices.Clone(f.ClockChanges), func(t ClockChange) bool { return t.Process != process })
}

// ClockAt returns the last change at or before the given time, or one that describes a correct
// clock. All changes must be to the same clock, in chronological order.
func ClockAt(changes []ClockChange, at int64) ClockChange {
	current := ClockChange{Rate: 1}
	for _, t := range changes {
		if t.T <= at {
			current = t
		}
	}
	return current
}

// ElapsedOnClock returns how much time passed between an event and a later instant, according to
// the clock that the client read for the event.
func (f *Facts) ElapsedOnClock(since *history.Event, until int64) int64 {
	at, reading, drift := since.T, since.Local, int64(0)
	if reading == 0 {
		return until - since.T
	}
	for i := range f.Events {
		switch e := &f.Events[i]; {
		case e.T > until:
			return reading - since.Local + clockAdvance(until-at, drift)
		case e.Op != history.OpClock || e.Node != since.Process || e.WallClock != since.WallClock:
		case e.T <= since.T:
			drift = e.Drift
		default:
			at, reading, drift = e.T, e.Local, e.Drift
		}
	}
	return reading - since.Local + clockAdvance(until-at, drift)
}

// clockAdvance returns how far a clock that runs fast by drift (in parts per 10⁹) advances in a
// span of true time.
func clockAdvance(span, drift int64) int64 { return span + int64(float64(span)*(float64(drift)/1e9)) }

// maxReadError is the maximum error in reading a correct clock.
const maxReadError = int64(time.Millisecond) / 2

// IsWrong reports whether the clock is off or runs at the wrong rate.
func (t ClockChange) IsWrong() bool {
	return t.Offset >= maxReadError || t.Offset <= -maxReadError || t.Rate != 1
}

// OffsetAt returns how far the clock is ahead at a time after the change, provided that it is not
// changed again in the meantime.
func (t ClockChange) OffsetAt(at int64) int64 {
	gainedTime := float64(at-t.T) * (t.Rate - 1)
	return int64(min(max(float64(t.Offset)+gainedTime, math.MinInt64/2), math.MaxInt64/2))
}
