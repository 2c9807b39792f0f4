// Package sentinel judges mutual exclusion while a run goes on.
//
// A Sentinel takes one event after the other and raises an Alarm. What it knows of a
// session is a handle, and of a belief window a span, before its client's end and its
// release are counted in.
//
// Deliberately missing: everything else that package checker judges, whose verdict counts.
package sentinel

import (
	"fmt"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Sentinel judges mutual exclusion while a run goes on, an event at a time. It
// keeps for each key the belief windows that are open, which is one at most
// until there is something to tell, and so is O(1) an event.
//
// It alarms at the first event by which Check of the record so far finds mutual
// exclusion violated: not when the second holder's acquire returns, but once
// time has passed in which both certainly believed, the stamps' error counted in. Of a lock that
// tells its holder nothing (Params.Untold) Check may put such an overlap down to holder-told.
//
// Real backends hand events over in the order of arrival, which is not quite that
// of time. A client's own arrive in order, so what is known of its belief is what
// Check makes of the same events, and the record's end is the latest stamp: an
// alarm is true of the record so far in any order. But what arrives late is not
// held against a window that was over by then, so such an overlap may be missed,
// and Check finds it afterwards. Nor is the record so far the whole record: a
// release that arrives after an event which it preceded ends belief in the past. The
// verdict is Check's.
type Sentinel struct {
	ε       int64
	now     int64 // the latest stamp
	clients map[string]*watched
	named   map[string]*handle
	open    map[string][]*span // by key: windows that may still be open
	doubts  []doubt
	turns   []history.Event // of clients' clocks
}

// Alarm is a violation of mutual exclusion that a Sentinel found.
type Alarm struct {
	N        int64  // the event by which it is certain
	Key      string // the lock
	Sessions [2]string
	From     int64  // since when both believed, true time in nanoseconds
	Because  string // in words
}

type watched struct {
	gone    int64   // when it ended or was about to be killed
	session *handle // the last
	of      *handle // whose operation is under way; nil: nobody's that matters
	op      string  // that operation
}

// handle is a session as far as its belief windows need it.
type handle struct {
	name, key string
	client    *watched
	released  int64 // the call of the first release
	last      *span // nil: it has not been believed in
}

// span is a belief window before its client's end and release are counted in.
type span struct {
	session  *handle
	from, to int64
	claim    history.Event // what fixed to, if it was a deadline
}

// doubt is two windows that overlap if both last until after due.
type doubt struct {
	a, b *span
	due  int64
}

// New returns a sentinel for a run with these parameters. It takes the
// record to be well-formed, as that of a run is.
func New(p history.Params) *Sentinel {
	s := &Sentinel{ε: int64(p.StampError), clients: map[string]*watched{}, named: map[string]*handle{}, open: map[string][]*span{}}
	for _, c := range p.Clients {
		s.clients[c] = &watched{gone: facts.Never}
	}
	return s
}

// Event takes the next event and reports whether mutual exclusion is violated by
// it. It does not keep e. After an alarm it goes on, and finds the next one.
func (s *Sentinel) Event(e *history.Event) (Alarm, bool) {
	s.now = max(s.now, e.T)
	switch c := s.clients[e.Process]; {
	case c != nil:
		s.client(c, e)
	case e.Process == history.Nemesis && e.Op == facts.Kill && e.Type != history.Info && e.Type != history.OK:
		if c := s.clients[e.Node]; c != nil {
			c.gone = min(c.gone, e.T)
		}
	case e.Op == history.OpClock:
		s.turned(e)
	}
	if len(s.doubts) == 0 {
		return Alarm{}, false
	}
	return s.settle(e.N)
}

// Due is the earliest instant whose passing decides something, 0 if nothing is
// undecided: an event that is stamped later may alarm.
func (s *Sentinel) Due() int64 {
	due := int64(0)
	for _, d := range s.doubts {
		if due == 0 || d.due < due {
			due = d.due
		}
	}
	return due
}

// client follows the reading of package facts, to the letter.
func (s *Sentinel) client(c *watched, e *history.Event) {
	switch {
	case e.Op == history.OpClient:
		if e.Type == history.End {
			c.gone = min(c.gone, e.T)
		}
	case e.Op == history.OpLost:
		if b := s.of(c, e); b != nil && b.last != nil {
			b.last.to, b.last.claim = min(b.last.to, e.T), history.Event{}
		}
	case e.Type == history.Invoke && e.Op == history.OpAcquire:
		c.session = &handle{name: e.Session, key: e.Key, client: c, released: facts.Never}
		c.of, c.op = c.session, e.Op
		s.named[e.Session] = c.session
	case e.Type == history.Invoke:
		c.of = nil
		if b := s.of(c, e); b != nil && facts.IsOperation(e.Op) {
			c.of, c.op = b, e.Op
			if e.Op == history.OpRelease {
				s.release(b, e.T)
			}
		}
	case c.of != nil && e.Op == c.op:
		b := c.of
		c.of = nil
		s.returned(b, e)
	}
}

// of is the session that an event belongs to. One that is over has no name any more.
func (s *Sentinel) of(c *watched, e *history.Event) *handle {
	if e.Session == "" {
		return c.session
	}
	return s.named[e.Session]
}

// release ends a session's belief: no later extension brings it back.
func (s *Sentinel) release(b *handle, at int64) {
	b.released = min(b.released, at)
	s.forget(b)
}

func (s *Sentinel) forget(b *handle) {
	if s.named[b.name] == b {
		delete(s.named, b.name)
	}
}

// returned follows facts.Windows.
func (s *Sentinel) returned(b *handle, ret *history.Event) {
	last := b.last
	switch {
	case ret.Op == history.OpAcquire && ret.Type == history.OK:
		s.begin(b, ret, s.renewed(ret, facts.Nothing))
	case ret.Op != history.OpExtend || ret.Type == history.Info:
	case last == nil && ret.Type == history.OK:
		s.begin(b, ret, s.renewed(ret, facts.Nothing))
	case last == nil:
	case ret.Type == history.Fail:
		last.to, last.claim = min(last.to, ret.T), history.Event{}
	default:
		to := s.renewed(ret, last.to)
		switch {
		case to > ret.T && ret.T > last.to:
			s.begin(b, ret, to)
		case to > ret.T && ret.ValidUntil != 0:
			last.to, last.claim = to, *ret
		case to < last.to:
			last.to, last.claim = to, history.Event{}
		}
	}
}

// begin opens a window, drops those that are over and doubts those that aren't.
func (s *Sentinel) begin(b *handle, ret *history.Event, to int64) {
	from := ret.T
	w := &span{session: b, from: from, to: to, claim: *ret}
	b.last = w
	open := s.open[b.key]
	kept := open[:0]
	for _, o := range open {
		if o.end() < from {
			continue
		}
		kept = append(kept, o) // it isn't b's own, whose last was over before this one began
		s.doubts = append(s.doubts, doubt{o, w, max(o.from, from) + 2*s.ε})
	}
	s.open[b.key] = append(kept, w)
}

// renewed is facts.Renewed of a deadline as it came true so far.
func (s *Sentinel) renewed(ret *history.Event, until int64) int64 {
	e := *ret
	e.ValidUntil = ret.Reached(s.turns)
	if ret.Op == history.OpAcquire {
		return facts.Deadline(&e)
	}
	return facts.Renewed(&e, until)
}

// turned moves the ends of the windows that are open, for the client whose clock was
// turned sees another deadline.
func (s *Sentinel) turned(e *history.Event) {
	s.turns = append(s.turns, *e)
	for _, open := range s.open {
		for _, w := range open {
			if w.claim.Process == e.Node && w.claim.ValidUntil != 0 {
				w.to = w.claim.Reached(s.turns)
			}
		}
	}
}

// end is when a window ends, for all that is known.
func (w *span) end() int64 { return min(w.to, w.session.released, w.session.client.gone) }

// settle decides doubts whose time has come.
func (s *Sentinel) settle(n int64) (alarm Alarm, found bool) {
	kept := s.doubts[:0]
	for _, d := range s.doubts {
		switch {
		case s.now <= d.due:
			kept = append(kept, d)
		case min(d.a.end(), d.b.end()) > d.due && !found:
			a, b := d.a.session, d.b.session
			from := d.due - s.ε
			alarm, found = Alarm{N: n, Key: a.key, Sessions: [2]string{a.name, b.name}, From: from,
				Because: fmt.Sprintf("sessions %s and %s both believe they hold %s since %s", a.name, b.name, verdict.LockName(a.key), facts.Seconds(from))}, true
		}
	}
	s.doubts = kept
	return alarm, found
}
