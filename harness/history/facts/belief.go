package facts

import (
	"iter"
	"math"

	"lockpick/harness/history"
)

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
		for x := range s.Extends() {
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

// Belief is a Window with its end in a word, for those who draw or translate it.
type Belief struct {
	Session, Client, Key string
	From, To             int64
	Opens                int64 // number of the return that began it
	Closes               int64 // number of the event that fixed its end; 0: the record's end
	End                  Ending
}

// Beliefs is the beliefs of all sessions: by session in the order of their acquires'
// calls, and those of one in the order of time.
func (f *Facts) Beliefs() []Belief {
	var all []Belief
	for s := range f.Sessions() {
		for w := range f.Windows(s) {
			b := Belief{Session: s.Name(), Client: s.Client(), Key: s.Key(), From: w.From, To: w.To, Opens: w.Opens.N}
			by, how := f.Closing(w)
			if b.End = how; by != nil {
				b.Closes = by.N
			}
			all = append(all, b)
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
		if d := f.Departure(w.Session.Client()); d != nil && d.T == w.To {
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
