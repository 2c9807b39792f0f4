package resource

import (
	"fmt"
	"slices"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// harm is one harm to the resource, by at most two sessions.
type harm struct {
	kind     string
	class    string
	text     string
	at       *history.Event // what did the harm
	from     int64          // when it became possible
	key      string
	sessions []string // the one that was there first, first
	events   []*history.Event
}

// severity orders classes by who is to blame: first what accuses the lock. Those
// of fencing-order follow, what befell the resource first.
var severity = []string{verdict.LockBroken, verdict.FenceBroken, verdict.Overrun, verdict.Unexplained, verdict.StaleAccepted, verdict.HolderRefused, verdict.FreshRefused, verdict.TokenOrder, verdict.TokenTwice}

// harmed shows the worst harm, and of equals the first.
func harmed(r *facts.Facts, harms []harm) verdict.Result {
	worst := slices.MinFunc(harms, func(x, y harm) int {
		if d := slices.Index(severity, x.class) - slices.Index(severity, y.class); d != 0 {
			return d
		}
		return verdict.ByTime(x.at, y.at)
	})
	res := told(r, worst)
	res.Incidents = len(harms)
	return res
}

func told(r *facts.Facts, h harm) verdict.Result {
	events := h.events
	for _, name := range h.sessions {
		if s := r.Named(name); s != nil {
			events = append(events, s.Acquire.Return)
			events = append(events, writesOf(s, h.events)...)
		}
	}
	return verdict.Result{
		Outcome: verdict.Violated, Cause: h.class, Because: fmt.Sprintf("%s: %s", h.kind, h.text),
		Witness: &verdict.Witness{Events: verdict.Numbered(events), Sessions: h.sessions, Key: h.key, From: h.from, To: instant(h.at)},
	}
}

func each(r *facts.Facts, harms []harm) (all []verdict.Incident) {
	for _, h := range harms {
		all = append(all, verdict.Incident{From: h.from, Tell: func() verdict.Result { return told(r, h) }})
	}
	return all
}

// writesOf is the session's own calls and returns of the writes in a harm.
func writesOf(s *facts.Session, harm []*history.Event) []*history.Event {
	var events []*history.Event
	for w := range s.Writes() {
		if w.Call.Value != "" && slices.ContainsFunc(harm, func(e *history.Event) bool { return e != nil && e.Value == w.Call.Value }) {
			events = append(events, w.Call, w.Return)
		}
	}
	return events
}

// eachOnce keeps one harm for each thing that did it: a write that overwrites
// another in the midst of a section is one harm, not two.
func eachOnce(harms []harm) []harm {
	seen := map[*history.Event]bool{}
	return slices.DeleteFunc(harms, func(h harm) bool {
		twice := seen[h.at]
		seen[h.at] = true
		return twice
	})
}

func later(a, b *history.Event) *history.Event {
	if verdict.ByTime(a, b) > 0 {
		return a
	}
	return b
}

// who names a session in a sentence.
func who(r *facts.Facts, session string) string {
	if s := r.Named(session); s != nil {
		return s.Client()
	}
	return "session " + session
}

// instant is when a log entry was applied; for other events when they happened.
func instant(e *history.Event) int64 {
	if e.Op == history.OpLog && e.Applied > 0 {
		return e.Applied
	}
	return e.T
}

// ordered is two sessions' names, the one that acquired first first.
func ordered(r *facts.Facts, a, b string) []string {
	x, y := r.Named(a), r.Named(b)
	if x != nil && y != nil && y.Acquire.Call.T < x.Acquire.Call.T {
		return []string{b, a}
	}
	return []string{a, b}
}
