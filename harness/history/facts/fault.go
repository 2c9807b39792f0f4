package facts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/harness/history"
)

// Kinds of fault that say more than that something was disturbed.
const (
	Kill      = "kill"       // a client stops without warning and for good, a node until it starts again
	Pause     = "pause"      // a process stops for a time
	Shutdown  = "shutdown"   // a node ends in good order
	PowerLoss = "power-loss" // a node stops, and forgets what it had not synced
	Failover  = "failover"   // a replica takes a node's place
	Cut       = "cut"        // a link carries nothing
	ClockJump = "clock-jump"
)

// Fault is one fault on one target. A fault that is planned for every occurrence of its
// trigger has one entry for each.
type Fault struct {
	Kind, Target string
	Step         int
	Invoke       *history.Event
	Begin        *history.Event // nil: it was not seen to be in force
	End          *history.Event // nil: it was in force until the end
	Fail         *history.Event // it could not be injected, seen or healed
}

// faultKey is what the events of one fault have in common.
type faultKey struct {
	kind, target string
	step         int
}

// pendingFaults are the faults of one key to which another event may belong. It belongs to the last
// in the list that may still have it.
type pendingFaults struct {
	tried []*Fault // may begin
	whole []*Fault // may fail
	begun []*Fault // may end
}

// fault books an event of the nemesis.
func (in *reading) fault(e *history.Event) {
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
		f = last(&p.tried, func(f *Fault) bool { return f.Begin == nil && f.End == nil && f.Fail == nil })
	case history.Fail:
		f = last(&p.whole, func(f *Fault) bool { return f.End == nil && f.Fail == nil })
	case history.End:
		f = last(&p.begun, func(f *Fault) bool { return f.End == nil })
	default:
		return
	}
	if f == nil {
		f = &Fault{Kind: e.Op, Target: e.Node, Step: e.Step}
		in.Faults = append(in.Faults, f)
		p.tried, p.whole = append(p.tried, f), append(p.whole, f)
	}
	switch e.Type {
	case history.Invoke:
		f.Invoke = e
	case history.Begin:
		f.Begin = e
		p.begun = append(p.begun, f)
	case history.Fail:
		f.Fail = e
	case history.End:
		f.End = e
	}
}

// last returns the last fault that may have an event, or nil. It drops those after it, which never
// may again, so that each is passed over once.
func last(list *[]*Fault, may func(*Fault) bool) *Fault {
	for n := len(*list); n > 0; n-- {
		if f := (*list)[n-1]; may(f) {
			*list = (*list)[:n]
			return f
		}
	}
	*list = nil
	return nil
}

// First is the earliest event of the fault: it can't have been in force before.
func (f *Fault) First() *history.Event {
	for _, e := range []*history.Event{f.Invoke, f.Begin, f.Fail} {
		if e != nil {
			return e
		}
	}
	return f.End
}

// From is when the fault was seen to be in force, or else when it was tried.
func (f *Fault) From() int64 {
	if f.Begin != nil {
		return f.Begin.T
	}
	return f.First().T
}

// To is when its end was seen, or Never. What somebody else did to a process, but for ending it,
// is known of one instant only.
func (f *Fault) To() int64 {
	switch {
	case f.End != nil:
		return f.End.T
	case f.Step == history.Unplanned && f.Kind != Kill:
		return f.From()
	}
	return Never
}

// TurnsClock reports whether the fault turns a clock.
func (f *Fault) TurnsClock() bool { return strings.HasPrefix(f.Kind, "clock-") }

// Hits reports whether the fault is of a client, or of a link of it.
func (f *Fault) Hits(client string) bool {
	return f.Target == client || client != "" && strings.HasPrefix(f.Target, client+"-")
}

// Events are those of the fault that there are.
func (f *Fault) Events() []*history.Event {
	all := []*history.Event{f.Invoke, f.Begin, f.End, f.Fail}
	return slices.DeleteFunc(all, func(e *history.Event) bool { return e == nil })
}

// departure is the event by which a client was gone, if a fault took it; or nil.
func (f *Facts) departure(client string) *history.Event {
	if f.departed == nil {
		f.departed = map[string]*history.Event{}
		for _, x := range f.Faults {
			if at, ok := f.Gone[x.Target]; ok && x.Kind == Kill && x.First().T == at && f.departed[x.Target] == nil {
				f.departed[x.Target] = x.First()
			}
		}
	}
	return f.departed[client]
}

// malformed says why the history can't be a record of clients that do one thing
// after the other, under the faults that it tells of, or "". Where time runs
// backwards the order of events means nothing, so that goes first.
func (in *reading) malformed() string {
	return cmp.Or(extreme(&in.Params), in.backwards, in.misuse, in.unfaithful())
}

// look looks out for what a client can't have done.
func (in *reading) look(c *client, e *history.Event) {
	in.order(c, e)
	if in.misuse == "" {
		in.misuse = cmp.Or(c.outlive(e), in.use(c, e), c.pair(e))
	}
}

func (in *reading) misused(format string, args ...any) {
	if in.misuse == "" {
		in.misuse = fmt.Sprintf(format, args...)
	}
}

// order finds time that runs backwards. Events are sorted by time, and one
// client's arrive in the order in which they happened, so it shows in the numbers.
func (in *reading) order(c *client, e *history.Event) {
	if c.last != nil && 0 < e.N && e.N < c.last.N && in.backwards == "" {
		in.backwards = fmt.Sprintf("time runs backwards in %s: event %d is stamped %s, and the later event %d is stamped %s",
			e.Process, e.N, Seconds(e.T), c.last.N, Seconds(c.last.T))
	}
	if e.N > 0 {
		c.last = e
	}
	if in.First < 0 {
		in.First = e.T
	}
	in.Last = e.T
}

// outlive finds what a client does after its end, or after it was seen to be killed.
func (c *client) outlive(e *history.Event) string {
	switch {
	case c.dead == nil:
		return ""
	case c.dead.Process == history.Nemesis: // which is another process: at one instant neither was first
		if e.T == c.dead.T {
			return ""
		}
		return fmt.Sprintf("%s does something (event %d: %s) after it was seen to be killed (event %d)", e.Process, e.N, e.Op, c.dead.N)
	}
	return fmt.Sprintf("%s does something (event %d: %s) after its end (event %d)", e.Process, e.N, e.Op, c.dead.N)
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
	if s == nil || s.Name() != e.Session {
		s = nil
		if !calls || in.named != nil || serialOf(e) <= c.serial {
			s = in.Named(e.Session)
		}
	}
	switch {
	case s != nil && s.Client() != e.Process:
		return fmt.Sprintf("session %s of %s is used by %s (event %d)", e.Session, s.Client(), e.Process, e.N)
	case s != nil && calls:
		return fmt.Sprintf("session %s is acquired twice (event %d)", e.Session, e.N)
	case s == nil && !calls:
		return fmt.Sprintf("session %s is used before its acquire is called (event %d)", e.Session, e.N)
	case s != nil && e.Key != "" && e.Key != s.Key():
		return fmt.Sprintf("session %s is of %s, and event %d says that it is of %s", e.Session, s.Key(), e.N, e.Key)
	}
	return ""
}

// pair finds two operations at once, and returns without a call.
func (c *client) pair(e *history.Event) string {
	if !IsOperation(e.Op) {
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
		if open.Key != "" && e.Key != "" && open.Key != e.Key {
			return fmt.Sprintf("%s calls %s for %s (event %d) and returns for %s (event %d)", e.Process, e.Op, open.Key, open.N, e.Key, e.N)
		}
		c.called = nil
	}
	return ""
}

// unfaithful says where a history contradicts itself about time: a wire command
// whose stamps are in no order of cause and effect, or a client that does
// something while it was stopped or after it was killed. Then the fault was not
// what the record says, or the stamps are wrong, and neither can be judged by.
//
// The record gives each fault the span in which it was certainly in force: from
// when it was seen to be, until its end was about to begin.
func (in *reading) unfaithful() string {
	stops := stopsIn(in.Faults)
	if len(stops) == 0 && !in.wired {
		return ""
	}
	for i := range in.Events {
		e := &in.Events[i]
		if e.Process == history.Nemesis || e.Op == history.OpLife { // a node that is back tells what it has before its end is stamped
			continue
		}
		if f := stops[e.Process].at(e.T); f != nil {
			return fmt.Sprintf("%s does something at %s (event %d: %s), and had been stopped since %s (event %d: %s)",
				e.Process, Seconds(e.T), e.N, e.Op, Seconds(f.Begin.T), f.Begin.N, f.Kind)
		}
		if e.Applied > 0 && e.Sent > e.Applied || e.Answered > 0 && max(e.Sent, e.Applied) > e.Answered {
			return fmt.Sprintf("event %d on %s was sent at %s, applied at %s and answered at %s",
				e.N, e.Process, Seconds(e.Sent), Seconds(e.Applied), Seconds(e.Answered))
		}
	}
	return ""
}

// stops is the pauses and kills of a process that were surely in force for a time, in the order in
// which they were tried, and when each was over.
type stops struct {
	faults []*Fault
	to     history.Peaks
}

// stopsIn is the stops of each process that the faults ever stopped.
func stopsIn(faults []*Fault) map[string]*stops {
	all := map[string]*stops{}
	for _, f := range faults {
		if f.Begin == nil || f.Kind != Pause && f.Kind != Kill || f.To() <= f.Begin.T {
			continue
		}
		if all[f.Target] == nil {
			all[f.Target] = &stops{}
		}
		all[f.Target].faults = append(all[f.Target].faults, f)
	}
	for _, s := range all {
		var to []int64
		for _, f := range s.faults {
			to = append(to, f.To())
		}
		s.to = history.PeaksOf(to)
	}
	return all
}

// at is the first fault that was in force at an instant, or nil. At the instants of its begin and its
// end it may not have been.
func (s *stops) at(t int64) *Fault {
	if s == nil {
		return nil
	}
	for i := s.to.From(0, t+1); i < len(s.faults) && s.faults[i].First().T < t; i = s.to.From(i+1, t+1) {
		if s.faults[i].Begin.T < t {
			return s.faults[i]
		}
	}
	return nil
}
