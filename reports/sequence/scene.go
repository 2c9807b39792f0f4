package sequence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/display"
)

// scene is the part of a course that a diagram shows.
type scene struct {
	f         *course
	result    *checker.Result // nil: nothing is violated
	focus     []*session
	deletions []deletion
	extra     []*session     // whose releases deleted a key of the focus
	faults    []*facts.Fault // those that touch what is shown, and may have changed it
	idle      []*facts.Fault // pauses of clients that changed nothing
	from, to  int64          // the span that is shown
	folded    int            // faults that are not drawn
}

// mostTargets is how many single targets the faults of a scene may have.
const mostTargets = 60

func newScene(f *course, r *checker.Result) *scene {
	sc := &scene{f: f, result: r, focus: f.focus(r)}
	sc.deletions = f.deletions(sc.focus)
	sc.extra = sc.deleters()
	sc.settle()
	return sc
}

func (sc *scene) violated() bool { return sc.result != nil && sc.result.Outcome == checker.Violated }

// shown reports whether an instant lies in the span that is drawn.
func (sc *scene) shown(t int64) bool { return sc.from <= t && t <= sc.to }

func (sc *scene) settle() {
	sc.from, sc.to = never, 0
	for _, s := range sc.focus {
		sc.from = min(sc.from, sc.f.start(s))
		sc.to = max(sc.to, sc.end(s))
	}
	for _, d := range sc.deletions {
		sc.from = min(sc.from, d.release.Sent)
	}
	for _, s := range sc.extra {
		sc.from = min(sc.from, sc.f.start(s))
	}
	if sc.result != nil && sc.result.Witness != nil {
		sc.to = max(sc.to, min(sc.result.Witness.To, sc.f.last))
	}
	sc.from = min(sc.from, sc.to)
	from := sc.from
	for _, ft := range sc.f.faults {
		if !sc.touches(ft) || ft.From() > sc.to || ft.To() < from {
			continue
		}
		if sc.changesNothing(ft) {
			sc.idle = append(sc.idle, ft)
			continue
		}
		if len(sc.faults) == mostTargets {
			sc.folded++
			continue
		}
		sc.faults = append(sc.faults, ft)
		sc.from = min(sc.from, ft.From())
	}
}

// changesNothing reports whether a violation would be told the same without a fault: a
// pause of a client while it neither asked for the lock, nor was on its way to the storage,
// nor outlived its lease. A reader follows one of them; it takes more to be counted.
func (sc *scene) changesNothing(ft *facts.Fault) bool {
	if !sc.violated() || nemesis.ToldOf(ft.Kind).State != nemesis.Stopped || !slices.Contains(sc.f.Params.Clients, ft.Target) {
		return false
	}
	for _, s := range slices.Concat(sc.focus, sc.extra) {
		if s.Client() != ft.Target {
			continue
		}
		if ft.From() <= s.until && s.until <= ft.To() || ft.From() <= s.begin && sc.f.start(s) <= ft.To() {
			return false
		}
		for _, c := range s.calls[1:] {
			if ft.From() <= c.Ended() && c.Call.T <= ft.To() {
				return false
			}
		}
	}
	return !slices.ContainsFunc(sc.result.Losses, func(l checker.Loss) bool { return slices.Contains(l.Steps, ft.Step) })
}

// deleters are the sessions beside the focus whose clients' releases took a key away.
func (sc *scene) deleters() []*session {
	var out []*session
	for _, d := range sc.deletions {
		client := facts.Sender(d.release)
		if slices.ContainsFunc(slices.Concat(sc.focus, out), func(s *session) bool { return s.Client() == client }) {
			continue
		}
		for _, s := range slices.Backward(sc.f.sessions) {
			if s.Client() == client && s.Granted() && s.begin <= d.release.Sent {
				out = append(out, s)
				break
			}
		}
	}
	return out
}

// end is when a session's part of the story is over: where there was harm, once
// its writes were applied; else when it had done all it did.
func (sc *scene) end(s *session) int64 {
	if !sc.violated() {
		return s.last()
	}
	t := min(s.Acquire.Ended(), sc.f.last)
	for _, c := range s.calls {
		if c.Call.Op == history.OpWrite {
			t = max(t, c.Call.T, min(sc.f.appliedAt(c.Call.Value), sc.f.last))
		}
	}
	return t
}

// touches reports whether a fault has to do with what is shown: a client of it, a
// link of such a client, or a node.
func (sc *scene) touches(ft *facts.Fault) bool {
	if slices.ContainsFunc(sc.focus, func(s *session) bool { return hits(ft, s.Client()) }) ||
		slices.ContainsFunc(sc.deletions, func(d deletion) bool { return hits(ft, facts.Sender(d.release)) }) {
		return true
	}
	return slices.Contains(sc.f.Params.Nodes, ft.Target) || ft.Target == sc.f.Params.Resource && ft.Target != ""
}

// nothingShown ends the title of a diagram that is about no violation.
const nothingShown = "no violation shown"

func (sc *scene) headline() string {
	p := sc.f.Params
	name := cmp.Or(p.Scenario, "run")
	if p.Variant != "" {
		name += "/" + p.Variant
	}
	if p.Backend != "" {
		name += fmt.Sprintf(" on %s, seed %d", p.Backend, p.Seed)
	}
	if !sc.violated() {
		return name + ": " + nothingShown
	}
	what := sc.result.Property + " violated"
	if cause := sc.result.Cause; cause != "" {
		if sc.result.Node != "" {
			cause += ", " + sc.result.Node
		}
		what += " (" + cause + ")"
	}
	return name + ": " + what
}

// omitted says what happened in the span and is not drawn.
func (sc *scene) omitted() string {
	var clients []string
	n := 0
	for _, s := range sc.f.sessions {
		if s.Granted() && !slices.Contains(sc.focus, s) && !slices.Contains(sc.extra, s) && s.begin <= sc.to && s.last() >= sc.from {
			n++
			clients = append(clients, s.Client())
		}
	}
	var parts []string
	if n > 0 {
		slices.Sort(clients)
		clients = unique(clients)
		if len(clients) > 5 {
			clients = append(clients[:4], fmt.Sprintf("%d others", len(clients)-4))
		}
		parts = append(parts, fmt.Sprintf("%s of %s", display.Plural(n, "other session"), list(clients)))
	}
	if sc.folded > 0 {
		parts = append(parts, display.Plural(sc.folded, "other fault"))
	}
	if len(parts) == 0 {
		return ""
	}
	return "Not shown: " + strings.Join(parts, ", ") + "."
}
