package facts

import (
	"iter"

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
// release (whatever comes of that), the instant before its kill and a definite
// "not held" in answer to an extension. A pause does not end it: the clock runs
// on, and validity is what the lock promised. An extension that comes back late
// opens another window. An acquire of unknown outcome opens none.
//
// Each end may be wrong by Params.StampError.
type Window struct {
	From, To int64
	Session  *Session
	Opens    *history.Event // the return that opened it
	Closes   *history.Event // the event that fixed its end; nil: the record's end, or a death
}

// Windows of one session are disjoint and in the order of time.
func (f *Facts) Windows(s *Session) iter.Seq[Window] {
	return func(yield func(Window) bool) {
		if !s.Granted() {
			return
		}
		end, release := f.LastMoment(s)
		held := func(w Window) bool {
			if w.To > end {
				w.To, w.Closes = end, release
			}
			return w.From >= w.To || yield(w)
		}
		last := opened(s, s.Acquire.Return)
		for x := range s.Extends() {
			switch x.Outcome() {
			case history.OK:
				d := max(x.Call.T, Deadline(x.Return, last.To))
				if d < x.Return.T { // it shortened the lease, perhaps from its call on
					if d < last.To {
						last.To, last.Closes = d, x.Return
					}
					continue
				}
				if x.Return.T > last.To {
					if !held(last) {
						return
					}
					last = opened(s, x.Return)
				}
				last.To, last.Closes = d, x.Return
			case history.Fail:
				if x.Return.T < last.To {
					last.To, last.Closes = x.Return.T, x.Return
				}
			}
		}
		held(last)
	}
}

func opened(s *Session, ret *history.Event) Window {
	return Window{From: ret.T, To: Deadline(ret, Never), Session: s, Opens: ret, Closes: ret}
}

// Deadline is the instant at which the client stops believing, as an acquire or
// an extension returned it, and as it came true. A lock without one is believed in until it is given back.
func Deadline(ret *history.Event, otherwise int64) int64 {
	if ret.ValidUntil == 0 {
		return otherwise
	}
	return ret.ValidUntil
}

// LastMoment is the instant after which a session can't be believed in whatever
// its deadline, and the release that says so, if one does.
func (f *Facts) LastMoment(s *Session) (int64, *history.Event) {
	end := f.End
	if t, ok := f.Gone[s.Client()]; ok && t < end {
		end = t
	}
	if call := s.FirstRelease(); call != nil && call.T <= end {
		return call.T, call
	}
	return end, nil
}

// Ending says what ended a belief.
type Ending string

const (
	Released Ending = "released" // it called release
	Expired  Ending = "expired"  // its deadline
	NotHeld  Ending = "not-held" // an extension said that it does not hold
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
		return e, NotHeld
	case w.To == Never:
		return nil, Still
	}
	return w.Closes, Expired
}
