package checker

import (
	"cmp"
	"slices"
)

// window is a facts.Window without the events that prove it, for there may be millions.
type window struct {
	from, to int64
	session  *session
}

// windowsOf is the belief windows of a lock's sessions in the order of their
// begin, each shrunk at both ends by the error of the stamps, so that only what is
// certain is left. They are good until the next call.
func (r *record) windowsOf(l *lock) []window {
	if r.windowed == l {
		return r.windows
	}
	r.windowed = l
	ε := int64(r.Params.StampError)
	ws := slices.Grow(r.windows[:0], r.Grants)
	for s := range l.Sessions() {
		for b := range r.Windows(s) {
			if ε == 0 && r.Open(b) { // it goes on: the instant of the last event is in it
				b.To++
			}
			if b.From+ε < b.To-ε {
				ws = append(ws, window{from: b.From + ε, to: b.To - ε, session: s})
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
		return cmp.Or(cmp.Compare(a.to, b.to), byTime(a.session.Acquire.Call, b.session.Acquire.Call))
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
	end        int64  // the record's, to which overlaps are told
}

// overlapping finds the overlaps of a run, once. O(n log n).
func (r *record) overlapping() overlaps {
	if r.found == nil {
		r.found = &overlaps{end: r.End}
		for _, l := range r.Locks {
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
			to = min(to, o.end)
			if longest := o.to - o.from; o.a.session == nil || to-from > longest || to-from == longest && from < o.from {
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
