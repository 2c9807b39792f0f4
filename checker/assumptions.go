package checker

import (
	"fmt"
	"slices"
	"strings"

	"lockpick/harness/history"
)

// malformed says why a history can't be a record of clients that do one thing
// after the other, under the faults that it tells of, or "".
func malformed(h *history.History) string {
	w := wellFormed{
		open: map[string]*history.Event{}, last: map[string]*history.Event{},
		owner: map[string]string{}, acquired: map[string]bool{},
	}
	// Where time runs backwards the order of events means nothing, so that goes first.
	for _, look := range []func(*history.Event) string{w.order, w.use} {
		for i := range h.Events {
			e := &h.Events[i]
			if !slices.Contains(h.Params.Clients, e.Process) {
				if e.Op == history.OpAcquire {
					return fmt.Sprintf("%s acquires (event %d), but is not among the clients", e.Process, e.N)
				}
				continue
			}
			if why := look(e); why != "" {
				return why
			}
		}
	}
	return unfaithful(h)
}

// wellFormed is what must be remembered of a history to see whether it is.
type wellFormed struct {
	open     map[string]*history.Event // client: the call that has not returned
	last     map[string]*history.Event // client: its last event
	owner    map[string]string         // session: client
	acquired map[string]bool           // session: its acquire was called
}

// order finds time that runs backwards. Events are sorted by time, and one
// client's arrive in the order in which they happened, so it shows in the numbers.
func (w *wellFormed) order(e *history.Event) string {
	last := w.last[e.Process]
	w.last[e.Process] = e
	if last != nil && e.N < last.N {
		return fmt.Sprintf("time runs backwards in %s: event %d is stamped %s, and the later event %d is stamped %s",
			e.Process, e.N, seconds(e.T), last.N, seconds(last.T))
	}
	return ""
}

// use finds sessions that change hands, and operations that overlap.
func (w *wellFormed) use(e *history.Event) string {
	if why := w.session(e); why != "" {
		return why
	}
	return w.pair(e)
}

func (w *wellFormed) session(e *history.Event) string {
	calls := e.Op == history.OpAcquire && e.Type == history.Invoke
	if e.Session == "" {
		if calls {
			return fmt.Sprintf("%s calls acquire without a session (event %d)", e.Process, e.N)
		}
		return ""
	}
	switch owner := w.owner[e.Session]; owner {
	case e.Process:
	case "":
		w.owner[e.Session] = e.Process
	default:
		return fmt.Sprintf("session %s of %s is used by %s (event %d)", e.Session, owner, e.Process, e.N)
	}
	switch {
	case calls && w.acquired[e.Session]:
		return fmt.Sprintf("session %s is acquired twice (event %d)", e.Session, e.N)
	case calls:
		w.acquired[e.Session] = true
	case !w.acquired[e.Session]:
		return fmt.Sprintf("session %s is used before its acquire is called (event %d)", e.Session, e.N)
	}
	return ""
}

// pair finds two operations at once, and returns without a call.
func (w *wellFormed) pair(e *history.Event) string {
	if !isOperation(e.Op) {
		return ""
	}
	open := w.open[e.Process]
	switch e.Type {
	case history.Invoke:
		if open != nil {
			return fmt.Sprintf("%s calls %s (event %d) while its %s (event %d) has not returned", e.Process, e.Op, e.N, open.Op, open.N)
		}
		w.open[e.Process] = e
	case history.OK, history.Fail, history.Info:
		if open == nil || open.Op != e.Op {
			return fmt.Sprintf("%s returns from %s (event %d), which it had not called", e.Process, e.Op, e.N)
		}
		if open.Session != "" && e.Session != "" && open.Session != e.Session {
			return fmt.Sprintf("%s calls %s for session %s (event %d) and returns for %s (event %d)",
				e.Process, e.Op, open.Session, open.N, e.Session, e.N)
		}
		delete(w.open, e.Process)
	}
	return ""
}

// isOperation reports whether what a client did has a call and a return. Its
// look at its own deadline has not, nor has a remark.
func isOperation(op string) bool {
	switch op {
	case history.OpAcquire, history.OpExtend, history.OpRead, history.OpWrite, history.OpRelease:
		return true
	}
	return false
}

// vacuity says what was to happen in the run and didn't, or "". A run that
// shows nothing must not pass.
func vacuity(r *record) string {
	for _, c := range r.params.Clients {
		if !r.began[c] {
			return c + " never began"
		}
	}
	for _, s := range r.params.Steps {
		if why := r.missed(s); why != "" {
			return fmt.Sprintf("step %d (%s) %s", s.Step, describe(s), why)
		}
	}
	if !r.params.MayBeIdle && !slices.ContainsFunc(r.sessions, (*session).granted) {
		return "nobody acquired a lock"
	}
	return ""
}

// missed says how a planned step did not come into force on all its targets, or "".
func (r *record) missed(s history.PlannedStep) string {
	var begun []string
	tried := false
	for _, f := range r.faults {
		if f.step != s.Step {
			continue
		}
		tried = true
		if f.fail != nil {
			return fmt.Sprintf("failed on %s: %s", f.target, f.fail.Cause)
		}
		if f.begin != nil {
			begun = append(begun, f.target)
		}
	}
	switch {
	case !tried:
		return "never came: its trigger was not seen"
	case len(begun) == 0:
		return "was not seen to be in force"
	}
	for _, t := range s.Targets {
		if !slices.ContainsFunc(begun, func(hit string) bool { return covers(t, hit) }) {
			return "was not seen to be in force on " + t
		}
	}
	return ""
}

// covers reports whether what was hit is the planned target, or one of its
// links. A target that only the run can name, such as the holder, is anybody.
func covers(target, hit string) bool {
	return target == hit || target == "holder" || strings.HasPrefix(hit, target+"-") || strings.HasSuffix(hit, "-"+target)
}

func describe(s history.PlannedStep) string {
	text := s.Fault
	if len(s.Targets) > 0 {
		text += " " + strings.Join(s.Targets, ", ")
	}
	if s.When != "" {
		text += ", when: " + s.When
	}
	return text
}
