package checker

import (
	"cmp"
	"iter"
	"slices"

	"lockpick/harness/history"
)

// window is a span of true time in which a client surely believed, by its own
// clock, that it held a lock:
//
//	acquire call   return            call of the first release, or
//	     |-----------|=================| deadline, or death
//	                 from              to
//
// It begins when acquire has returned, for until then the client believes
// nothing. It ends at the earliest of its deadline, the call of its first
// release (whatever comes of that), the instant before its kill and a definite
// "not held" in answer to an extension. A pause does not end it: the clock runs
// on, and validity is what the lock promised. An extension that comes back late
// opens another window. An acquire of unknown outcome opens none.
type window struct {
	from, to int64
	session  *session
}

// believed is a window with the events that prove it.
type believed struct {
	window
	opens  *history.Event // the return that opened it
	closes *history.Event // the event that fixed its end; nil: the record's end, or a death
}

// belief is the windows of one session, disjoint and in the order of time.
func (r *record) belief(s *session) iter.Seq[believed] {
	return func(yield func(believed) bool) {
		if !s.granted() {
			return
		}
		end, release := r.lastMoment(s)
		held := func(w believed) bool {
			if w.to > end {
				w.to, w.closes = end, release
			}
			return w.from >= w.to || yield(w)
		}
		last := opened(s, s.acquire.ret)
		for x := range s.extends() {
			switch x.outcome() {
			case history.OK:
				d := max(x.call.T, deadline(x.ret, last.to))
				if d < x.ret.T { // it shortened the lease, perhaps from its call on
					if d < last.to {
						last.to, last.closes = d, x.ret
					}
					continue
				}
				if x.ret.T > last.to {
					if !held(last) {
						return
					}
					last = opened(s, x.ret)
				}
				last.to, last.closes = d, x.ret
			case history.Fail:
				if x.ret.T < last.to {
					last.to, last.closes = x.ret.T, x.ret
				}
			}
		}
		held(last)
	}
}

func opened(s *session, ret *history.Event) believed {
	return believed{window: window{from: ret.T, to: deadline(ret, never), session: s}, opens: ret, closes: ret}
}

// deadline is the instant at which the client stops believing, as an acquire or
// an extension returned it. A lock without one is believed in until it is given back.
func deadline(ret *history.Event, otherwise int64) int64 {
	if ret.ValidUntil == 0 {
		return otherwise
	}
	return ret.ValidUntil
}

// lastMoment is the instant after which a session can't be believed in whatever
// its deadline, and the release that says so, if one does.
func (r *record) lastMoment(s *session) (int64, *history.Event) {
	end := r.end
	if t, ok := r.gone[s.client()]; ok && t < end {
		end = t
	}
	if call := s.firstRelease(); call != nil && call.T <= end {
		return call.T, call
	}
	return end, nil
}

// departure is the event by which a client was gone, if there is one.
func (r *record) departure(client string) *history.Event {
	at, ok := r.gone[client]
	if !ok {
		return nil
	}
	for _, f := range r.faults {
		if f.kind == killed && f.target == client && f.first().T == at {
			return f.first()
		}
	}
	return nil
}

// windowsOf is the belief windows of a lock's sessions in the order of their
// begin, each shrunk at both ends by the error of the stamps, so that only what is
// certain is left. They are good until the next call.
func (r *record) windowsOf(l *lock) []window {
	if r.windowed == l {
		return r.windows
	}
	r.windowed = l
	ε := int64(r.params.StampError)
	ws := slices.Grow(r.windows[:0], r.grants)
	for s := range l.sessions() {
		for b := range r.belief(s) {
			if w := b.window; w.from+ε < w.to-ε {
				ws = append(ws, window{from: w.from + ε, to: w.to - ε, session: s})
			}
		}
	}
	r.windows = ws
	inOrder(ws)
	return ws
}

// inOrder puts windows in the order of their begin, and of equals by their end and
// then by their acquire's call. Mostly they are already.
func inOrder(ws []window) {
	order := func(a, b window) int {
		if a.from != b.from {
			return cmp.Compare(a.from, b.from)
		}
		return cmp.Or(cmp.Compare(a.to, b.to), byTime(a.session.acquire.call, b.session.acquire.call))
	}
	if !slices.IsSortedFunc(ws, order) {
		slices.SortFunc(ws, order)
	}
}

// overlaps is what the belief windows of all keys have in common.
type overlaps struct {
	a, b       window // the pair that overlaps longest; of equals the earliest. a begins first
	from, to   int64  // that overlap
	incidents  int    // connected components of overlapping pairs
	doubleHold int64  // true time in which a lock was believed in twice or more
}

// overlapping finds the overlaps of a run, once. O(n log n).
func (r *record) overlapping() overlaps {
	if r.found == nil {
		r.found = &overlaps{}
		for _, l := range r.keys {
			r.found.sweep(r.windowsOf(l))
		}
	}
	return *r.found
}

// sweep takes one key's windows in the order of their begin. The one that
// reaches furthest so far is the one that overlaps the next longest, so one
// look at each window is enough. A session's own windows are disjoint and never
// meet here.
func (o *overlaps) sweep(ws []window) {
	counted := int64(-never) // double hold is counted up to here
	cluster := false         // the furthest window's component is counted already
	furthest := 0
	for i := 1; i < len(ws); i++ {
		far, w := ws[furthest], ws[i]
		from, to := w.from, min(w.to, far.to)
		if from < to {
			if !cluster {
				o.incidents++
				cluster = true
			}
			if longest := o.to - o.from; to-from > longest || to-from == longest && from < o.from {
				o.a, o.b, o.from, o.to = far, w, from, to
			}
			o.doubleHold += max(0, to-max(from, counted))
			counted = max(counted, to)
		} else {
			cluster = false
		}
		if w.to > far.to {
			furthest = i
		}
	}
}
