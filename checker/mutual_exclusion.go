package checker

import (
	"fmt"
	"slices"

	"lockpick/harness/history"
)

// mutualExclusion asks whether two clients believed, each by its own clock, that
// they held one lock at one instant. Two belief windows of different sessions
// that surely overlap are a violation: there are no false positives by
// construction, and it is always the lock's fault. An acquire that could have been
// answered with what another session had is an occasion (meetings).
func mutualExclusion(r *record) Result {
	o := r.overlapping()
	met := 0
	for _, l := range r.Locks {
		met += r.meetings(l, r.windowsOf(l))
	}
	if o.incidents == 0 {
		return Result{
			Outcome: Holds, Occasions: met,
			Because: fmt.Sprintf("no two sessions were believed in at one instant, in %s; %s", plural(r.Grants, "grant"), asked(met)),
		}
	}
	a, b := o.a.session, o.b.session
	why := r.explain(a, b)
	return Result{
		Outcome: Violated, Occasions: met, Incidents: o.incidents, Cause: why.cause, Node: why.node, Losses: why.losses, Spare: why.spare,
		Because: fmt.Sprintf("%s both believed they held %s from %s to %s (%s): %s",
			r.pair(a, b), lockName(a.Key()), seconds(o.from), seconds(o.to), seconds(o.to-o.from), why.text),
		Witness: &Witness{
			Events:   numbered(slices.Concat(r.proof(o.a), r.proof(o.b), why.events)),
			Sessions: []string{a.Name(), b.Name()}, Key: a.Key(), From: o.from, To: o.to, of: []*session{a, b},
		},
	}
}

// asked says how many acquires there were that another session was in the way of.
func asked(met int) string {
	if met == 0 {
		return "nobody wanted it while another had it"
	}
	return fmt.Sprintf("%s met another's hold", plural(met, "acquire"))
}

// pair names two sessions by their clients, and by themselves where one client has both.
func (r *record) pair(a, b *session) string {
	if a.Client() == b.Client() {
		return list([]string{a.Name(), b.Name()})
	}
	return list([]string{a.Client(), b.Client()})
}

// proof is the events that prove a window.
func (r *record) proof(w window) []*history.Event {
	events := []*history.Event{w.session.Acquire.Call, w.session.Acquire.Return}
	for b := range r.Windows(w.session) {
		if b.From > w.to || b.To < w.from {
			continue
		}
		if b.Closes == nil {
			b.Closes = r.Departure(w.session.Client())
		}
		events = append(events, b.Opens, b.Closes)
	}
	return events
}
