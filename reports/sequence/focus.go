package sequence

import (
	"cmp"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/harness/history/facts"
)

// focus chooses the sessions that the diagram is about, the earlier first: those of
// the witness, else those that the first fault touched, else the first two.
func (f *course) focus(r *checker.Result) []*session {
	if r != nil && r.Witness != nil {
		var out []*session
		for _, name := range r.Witness.Sessions {
			if s := f.named[name]; s != nil && !slices.Contains(out, s) && len(out) < 2 {
				out = append(out, s)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	for _, ft := range f.faults {
		if s := f.touched(ft); s != nil {
			return f.withNext(s)
		}
	}
	for _, s := range f.sessions {
		if s.Granted() {
			return f.withNext(s)
		}
	}
	return f.sessions[:min(2, len(f.sessions))]
}

// touched is the session that a fault hit, or nil.
func (f *course) touched(ft *facts.Fault) *session {
	at := ft.First().T // whom it ended was believed in until then
	var holder, first *session
	for _, s := range f.sessions {
		if !s.pending() && s.last() < at && s.until < at {
			continue
		}
		busy := s.Acquire.Call.T <= at && (s.pending() || at <= max(s.last(), s.until))
		if hits(ft, s.Client()) {
			if busy {
				return s
			}
			continue
		}
		if holder == nil && s.believes(at) {
			holder = s
		}
		if first == nil && s.Granted() {
			first = s
		}
	}
	if slices.Contains(f.Params.Clients, ft.Target) {
		return nil // the client was idle
	}
	return cmp.Or(holder, first)
}

// withNext adds the next session of another client that got the same lock, or,
// where nobody did, the first that tried to.
func (f *course) withNext(s *session) []*session {
	var next, tried *session
	for _, o := range f.sessions {
		if o.Client() == s.Client() || o.Key() != s.Key() || o.last() < s.Acquire.Call.T {
			continue
		}
		if o.Granted() && o.begin >= s.begin && (next == nil || o.begin < next.begin) {
			next = o
		}
		if !o.Granted() && tried == nil {
			tried = o
		}
	}
	if next = cmp.Or(next, tried); next == nil {
		return []*session{s}
	}
	return []*session{s, next}
}

// onLinkOf reports whether target names a link of the client.
func onLinkOf(target, client string) bool {
	return client != "" && strings.HasPrefix(target, client+"-")
}

// hits reports whether a fault is of a client or of a link of it.
func hits(ft *facts.Fault, client string) bool {
	return ft.Target == client || onLinkOf(ft.Target, client)
}
