package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/harness/history"
)

// Kinds of fault that the packages using facts treat specially.
const (
	Kill      = "kill"       // a client or node is killed; a node may be restarted later
	Pause     = "pause"      // a process is stopped for some time
	Shutdown  = "shutdown"   // a node exits cleanly
	PowerLoss = "power-loss" // a node stops and loses all unsynced data
	Failover  = "failover"   // a replica replaces a node
	Cut       = "cut"        // a link carries nothing
	ClockJump = "clock-jump"
)

// Fault is one fault on one target. A step that is triggered by every occurrence of an event has
// one Fault per occurrence.
type Fault struct {
	Kind, Target string
	Step         int
	Invoke       *history.Event
	Begin        *history.Event // nil means the fault was not seen to be active
	End          *history.Event // nil means the fault was active until the history ended
	Fail         *history.Event // the fault could not be injected, observed or healed; may be nil
}

// faultKey identifies the events that may belong to one fault.
type faultKey struct {
	kind, target string
	step         int
}

// pendingFaults lists the faults with one faultKey that may have further events. An event belongs
// to the last fault in its list that accepts it.
type pendingFaults struct {
	notBegun  []*Fault // not begun yet
	notFailed []*Fault // not failed yet
	notEnded  []*Fault // not ended yet
}

func (in *reader) addFaultEvent(e *history.Event) {
	key := faultKey{e.Op, e.Node, e.Step}
	p := in.pending[key]
	if p == nil {
		p = &pendingFaults{}
		in.pending[key] = p
	}
	var f *Fault
	switch e.Type {
	case history.Invoke:
	case history.Begin:
		f = lastAccepting(&p.notBegun, func(f *Fault) bool { return f.Begin == nil && f.End == nil && f.Fail == nil })
	case history.Fail:
		f = lastAccepting(&p.notFailed, func(f *Fault) bool { return f.End == nil && f.Fail == nil })
	case history.End:
		f = lastAccepting(&p.notEnded, func(f *Fault) bool { return f.End == nil })
	default:
		return
	}
	if f == nil {
		f = &Fault{Kind: e.Op, Target: e.Node, Step: e.Step}
		in.Faults = append(in.Faults, f)
		p.notBegun, p.notFailed = append(p.notBegun, f), append(p.notFailed, f)
	}
	switch e.Type {
	case history.Invoke:
		f.Invoke = e
	case history.Begin:
		f.Begin = e
		p.notEnded = append(p.notEnded, f)
	case history.Fail:
		f.Fail = e
	case history.End:
		f.End = e
	}
}

// lastAccepting returns the last fault accepted by accepts, or nil. It drops the faults after that
// one from the list, because they will never accept an event again, so that each is skipped only
// once.
func lastAccepting(list *[]*Fault, accepts func(*Fault) bool) *Fault {
	for n := len(*list); n > 0; n-- {
		if f := (*list)[n-1]; accepts(f) {
			*list = (*list)[:n]
			return f
		}
	}
	*list = nil
	return nil
}

// FirstEvent returns the fault's earliest event. The fault can't have been active before that event.
func (f *Fault) FirstEvent() *history.Event {
	for _, e := range []*history.Event{f.Invoke, f.Begin, f.Fail} {
		if e != nil {
			return e
		}
	}
	return f.End
}

// From returns when the fault was seen to be active or, if it never was, the time of its first
// event.
func (f *Fault) From() int64 {
	if f.Begin != nil {
		return f.Begin.T
	}
	return f.FirstEvent().T
}

// To returns when the fault's end was recorded, or Never. The duration of an unplanned fault is
// unknown, so it ends when it begins, unless it killed the process.
func (f *Fault) To() int64 {
	switch {
	case f.End != nil:
		return f.End.T
	case f.Step == history.UnplannedStep && f.Kind != Kill:
		return f.From()
	}
	return Never
}

func (f *Fault) ChangesClock() bool { return strings.HasPrefix(f.Kind, "clock-") }

// Hits reports whether the fault's target is the client or one of its links.
func (f *Fault) Hits(client string) bool {
	return f.Target == client || client != "" && strings.HasPrefix(f.Target, client+"-")
}

func (f *Fault) Events() []*history.Event {
	all := []*history.Event{f.Invoke, f.Begin, f.End, f.Fail}
	return slices.DeleteFunc(all, func(e *history.Event) bool { return e == nil })
}

// departure returns the first event of the fault that killed a client, or nil.
func (f *Facts) departure(client string) *history.Event {
	if f.killFaults == nil {
		f.killFaults = map[string]*history.Event{}
		for _, x := range f.Faults {
			if at, ok := f.GoneAt[x.Target]; ok && x.Kind == Kill && x.FirstEvent().T == at && f.killFaults[x.Target] == nil {
				f.killFaults[x.Target] = x.FirstEvent()
			}
		}
	}
	return f.killFaults[client]
}

// findDefect returns why the history can't come from clients that do one thing at a time under the
// recorded faults, or "". If time runs backwards, it returns that, because the other checks depend
// on the order of events.
func (in *reader) findDefect() string {
	return cmp.Or(paramOutOfRange(&in.Params), in.timeReversal, in.misuse, in.contradiction())
}

// checkClient checks that a client can have produced an event.
func (in *reader) checkClient(c *client, e *history.Event) {
	in.checkOrder(c, e)
	if in.misuse == "" {
		in.misuse = cmp.Or(c.checkAlive(e), in.checkSession(c, e), c.checkPairing(e))
	}
}

func (in *reader) recordMisuse(format string, args ...any) {
	if in.misuse == "" {
		in.misuse = fmt.Sprintf(format, args...)
	}
}

// checkOrder checks that a client's time does not run backwards. The history is sorted by time, and
// a client's events are numbered in the order in which they happened, so their numbers must be
// ascending.
func (in *reader) checkOrder(c *client, e *history.Event) {
	if c.lastEvent != nil && 0 < e.N && e.N < c.lastEvent.N && in.timeReversal == "" {
		in.timeReversal = fmt.Sprintf("time runs backwards in %s: event %d is stamped %s, and the later event %d is stamped %s",
			e.Process, e.N, Seconds(e.T), c.lastEvent.N, Seconds(c.lastEvent.T))
	}
	if e.N > 0 {
		c.lastEvent = e
	}
	if in.FirstClientTime < 0 {
		in.FirstClientTime = e.T
	}
	in.LastClientTime = e.T
}

// checkAlive rejects a client's events after the client exited or was observed to be killed.
func (c *client) checkAlive(e *history.Event) string {
	switch {
	case c.death == nil:
		return ""
	case c.death.Process == history.Nemesis: // recorded by another process, so the order at the same instant is unknown
		if e.T == c.death.T {
			return ""
		}
		return fmt.Sprintf("%s does something (event %d: %s) after it was seen to be killed (event %d)", e.Process, e.N, e.Op, c.death.N)
	}
	return fmt.Sprintf("%s does something (event %d: %s) after its end (event %d)", e.Process, e.N, e.Op, c.death.N)
}

// checkSession rejects the use of a session by another client, for another lock, or out of order.
func (in *reader) checkSession(c *client, e *history.Event) string {
	isCall := e.Op == history.OpAcquire && e.Type == history.Invoke
	if e.Session == "" {
		if isCall {
			return fmt.Sprintf("%s calls acquire without a session (event %d)", e.Process, e.N)
		}
		return ""
	}
	s := c.session
	if s == nil || s.Name() != e.Session {
		s = nil
		if !isCall || in.byName != nil || serialOf(e) <= c.maxSerial {
			s = in.SessionByName(e.Session)
		}
	}
	switch {
	case s != nil && s.Client() != e.Process:
		return fmt.Sprintf("session %s of %s is used by %s (event %d)", e.Session, s.Client(), e.Process, e.N)
	case s != nil && isCall:
		return fmt.Sprintf("session %s is acquired twice (event %d)", e.Session, e.N)
	case s == nil && !isCall:
		return fmt.Sprintf("session %s is used before its acquire is called (event %d)", e.Session, e.N)
	case s != nil && e.Key != "" && e.Key != s.Key():
		return fmt.Sprintf("session %s is for %s, but event %d says that it is for %s", e.Session, s.Key(), e.N, e.Key)
	}
	return ""
}

// checkPairing rejects concurrent operations of one client and returns that don't match the pending
// call.
func (c *client) checkPairing(e *history.Event) string {
	if !IsOperation(e.Op) {
		return ""
	}
	call := c.pendingCall
	switch e.Type {
	case history.Invoke:
		if call != nil {
			return fmt.Sprintf("%s calls %s (event %d) while its %s (event %d) has not returned", e.Process, e.Op, e.N, call.Op, call.N)
		}
		c.pendingCall = e
	case history.OK, history.Fail, history.Info:
		if call == nil || call.Op != e.Op {
			return fmt.Sprintf("%s returns from %s (event %d), which it had not called", e.Process, e.Op, e.N)
		}
		if call.Session != "" && e.Session != "" && call.Session != e.Session {
			return fmt.Sprintf("%s calls %s for session %s (event %d) but returns for %s (event %d)",
				e.Process, e.Op, call.Session, call.N, e.Session, e.N)
		}
		if call.Key != "" && e.Key != "" && call.Key != e.Key {
			return fmt.Sprintf("%s calls %s for %s (event %d) but returns for %s (event %d)", e.Process, e.Op, call.Key, call.N, e.Key, e.N)
		}
		c.pendingCall = nil
	}
	return ""
}

// contradiction describes how the times in a history contradict each other. It returns "" if they
// don't. Either a command's stamps violate the order of cause and effect, or a process does
// something while it is stopped or after it was killed. Then the stamps or the recorded faults are
// wrong, so the history can't be checked.
//
// A fault was certainly active in its recorded span, which starts when the fault was seen to be
// active and ends just before its end.
func (in *reader) contradiction() string {
	stops := stopsByProcess(in.Faults)
	if len(stops) == 0 && !in.hasLinkStamps {
		return ""
	}
	for i := range in.Events {
		e := &in.Events[i]
		if e.Process == history.Nemesis || e.Op == history.OpLife { // a restarted node reports its keys before the fault's end is stamped
			continue
		}
		if f := stops[e.Process].activeAt(e.T); f != nil {
			return fmt.Sprintf("%s does something at %s (event %d: %s), but had been stopped since %s (event %d: %s)",
				e.Process, Seconds(e.T), e.N, e.Op, Seconds(f.Begin.T), f.Begin.N, f.Kind)
		}
		if e.AppliedAt > 0 && e.SentAt > e.AppliedAt || e.AnsweredAt > 0 && max(e.SentAt, e.AppliedAt) > e.AnsweredAt {
			return fmt.Sprintf("event %d on %s was sent at %s, applied at %s and answered at %s",
				e.N, e.Process, Seconds(e.SentAt), Seconds(e.AppliedAt), Seconds(e.AnsweredAt))
		}
	}
	return ""
}

// stopList holds a process's pauses and kills that were certainly active for some time, in the
// order of their first events, and when each of them was over.
type stopList struct {
	faults []*Fault
	ends   history.MaxTree
}

// stopsByProcess returns the pauses and kills of each process that has any.
func stopsByProcess(faults []*Fault) map[string]*stopList {
	all := map[string]*stopList{}
	for _, f := range faults {
		if f.Begin == nil || f.Kind != Pause && f.Kind != Kill || f.To() <= f.Begin.T {
			continue
		}
		if all[f.Target] == nil {
			all[f.Target] = &stopList{}
		}
		all[f.Target].faults = append(all[f.Target].faults, f)
	}
	for _, s := range all {
		var ends []int64
		for _, f := range s.faults {
			ends = append(ends, f.To())
		}
		s.ends = history.NewMaxTree(ends)
	}
	return all
}

// activeAt returns the first fault that was certainly active at the given time, or nil. A fault
// need not have been active at the exact instants of its start and end.
func (s *stopList) activeAt(t int64) *Fault {
	if s == nil {
		return nil
	}
	for i := s.ends.Next(0, t+1); i < len(s.faults) && s.faults[i].FirstEvent().T < t; i = s.ends.Next(i+1, t+1) {
		if s.faults[i].Begin.T < t {
			return s.faults[i]
		}
	}
	return nil
}
