// Package belief finds the spans of true time in which clients believed, each by its
// own clock, that they held a lock, for those who write or draw histories.
//
// A Span begins when an acquire returns the lock, and ends at the earliest of its
// deadline, the call of its first release, the death of its client and a definite "not
// held" in answer to an extension. An extension that comes back late begins another.
//
// Deliberately missing: judging. The checker finds its own windows (checker/windows.go),
// shrunk by the error of the stamps, and a test holds the two against each other over
// the whole catalogue.
package belief

import (
	"cmp"
	"math"
	"slices"

	"lockpick/harness/history"
)

// Span is a client's belief that it holds a lock, from From to before To.
type Span struct {
	Session, Client, Key string
	From, To             int64  // true time, nanoseconds
	Opens                int64  // number of the event that began it
	End                  Ending // what ended it
}

// Ending says what ended a span.
type Ending string

const (
	Released Ending = "released" // it called release
	Expired  Ending = "expired"  // its deadline
	NotHeld  Ending = "not-held" // an extension said that it does not hold
	Died     Ending = "died"     // its client was killed
	Still    Ending = ""         // the record ended
)

// Spans are the beliefs of a history, in the order of their begin.
func Spans(h *history.History) []Span {
	f := finder{of: map[string]*session{}, gone: map[string]int64{}}
	f.departures(h.Events)
	for _, e := range history.CameTrue(h.Events) {
		f.event(e)
	}
	var out []Span
	for _, s := range f.order {
		out = append(out, s.ended(f.last, f.gone)...)
	}
	slices.SortStableFunc(out, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	return out
}

type finder struct {
	of    map[string]*session
	order []*session
	gone  map[string]int64 // clients that were killed, and when
	last  int64
}

type session struct {
	name, client, key string
	spans             []Span // the last is open
	release           int64  // call of the first, 0: none
	extend            int64  // call of the extension that is under way
}

// departures finds when clients were killed: as the order to do so was given, for from
// then on nobody can tell what they believe.
func (f *finder) departures(events []history.Event) {
	clients := map[string]bool{}
	for _, e := range events {
		f.last = max(f.last, e.T)
		if e.Op == history.OpClient && e.Type == history.Begin {
			clients[e.Process] = true
		}
		if _, had := f.gone[e.Node]; !had && e.Process == history.Nemesis && e.Op == "kill" && clients[e.Node] {
			f.gone[e.Node] = e.T
		}
	}
}

func (f *finder) event(e history.Event) {
	if e.Session == "" {
		return
	}
	s := f.of[e.Session]
	if s == nil {
		s = &session{name: e.Session, client: e.Process, key: e.Key}
		f.of[e.Session], f.order = s, append(f.order, s)
	}
	switch {
	case e.Op == history.OpAcquire && e.Type == history.OK && len(s.spans) == 0:
		s.open(e)
	case e.Op == history.OpRelease && e.Type == history.Invoke && s.release == 0:
		s.release = max(e.T, 1)
	case e.Op == history.OpExtend && e.Type == history.Invoke:
		s.extend = e.T
	case e.Op == history.OpExtend && len(s.spans) > 0:
		s.extended(e)
	}
}

func (s *session) open(e history.Event) {
	s.spans = append(s.spans, Span{Session: s.name, Client: s.client, Key: s.key, From: e.T, To: deadline(e, math.MaxInt64), Opens: e.N, End: Expired})
}

// extended follows the checker's rules for what comes of an extension.
func (s *session) extended(e history.Event) {
	last := &s.spans[len(s.spans)-1]
	switch e.Type {
	case history.OK:
		d := max(s.extend, deadline(e, last.To))
		switch {
		case d < e.T: // it shortened the lease, perhaps from its call on
			last.To = min(d, last.To)
		case e.T > last.To: // late: there was a time without belief
			s.open(e)
			s.spans[len(s.spans)-1].To = d
		default:
			last.To = d
		}
	case history.Fail:
		if e.T < last.To {
			last.To, last.End = e.T, NotHeld
		}
	}
}

func deadline(e history.Event, otherwise int64) int64 {
	if e.ValidUntil == 0 {
		return otherwise
	}
	return e.ValidUntil
}

// ended cuts what goes beyond the release, the client's death or the record's end.
func (s *session) ended(last int64, gone map[string]int64) []Span {
	end, how := last, Still
	if t, ok := gone[s.client]; ok && t < end {
		end, how = t, Died
	}
	if s.release != 0 && s.release <= end {
		end, how = s.release, Released
	}
	var out []Span
	for _, x := range s.spans {
		if x.To > end {
			x.To, x.End = end, how
		}
		if x.From < x.To {
			out = append(out, x)
		}
	}
	return out
}
