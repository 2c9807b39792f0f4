package checker

import (
	"fmt"
	"slices"

	"lockpick/checker/cause"
	"lockpick/checker/verdict"
	"lockpick/checker/windows"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// mutualExclusion asks whether two clients believed, each by its own clock, that
// they held one lock at one instant. Two belief windows of different sessions
// that surely overlap are a violation: there are no false positives by
// construction, and it is always the lock's fault. An acquire that could have been
// answered with what another session had is an occasion (windows.Meetings).
func mutualExclusion(r *record) Result {
	o := r.beliefs.Overlaps()
	met := 0
	for _, l := range r.Locks {
		met += windows.Meetings(r.Facts, l, r.beliefs.Of(l))
	}
	if o.Incidents == 0 {
		return Result{
			Outcome: Holds, Occasions: met,
			Because: fmt.Sprintf("no two clients held the lock at once (%s); %s", verdict.Plural(r.Grants, "grant"), asked(met)),
		}
	}
	a, b := o.A.Session, o.B.Session
	why := cause.Explain(r.Facts, a, b)
	return Result{
		Outcome: Violated, Occasions: met, Incidents: o.Incidents, Cause: why.Cause, Node: why.Node, Losses: why.Losses, Spare: why.Spare,
		Because: fmt.Sprintf("%s both believed they held %s %s: %s",
			verdict.Pair(a, b), verdict.LockName(a.Key()), facts.FromTo(o.From, o.To), why.Text),
		Witness: &Witness{
			Events:   verdict.Numbered(slices.Concat(proof(r.Facts, o.A), proof(r.Facts, o.B), why.Events)),
			Sessions: []string{a.Name(), b.Name()}, Key: a.Key(), From: o.From, To: o.To, Of: []*facts.Session{a, b},
		},
	}
}

// asked says how many acquires there were that another session was in the way of.
func asked(met int) string {
	if met == 0 {
		return "nobody wanted it while another had it"
	}
	return fmt.Sprintf("%s met another's hold", verdict.Plural(met, "acquire"))
}

// proof is the events that prove a window.
func proof(r *facts.Facts, w windows.Window) []*history.Event {
	events := []*history.Event{w.Session.Acquire.Call, w.Session.Acquire.Return}
	for b := range r.Windows(w.Session) {
		if b.From > w.To || b.To < w.From {
			continue
		}
		if b.Closes == nil {
			b.Closes = r.Departure(w.Session.Client())
		}
		events = append(events, b.Opens, b.Closes)
	}
	return events
}
