package checker

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/checker/cause"
	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// mutualExclusion asks whether two clients believed, each by its own clock, that
// they held one lock at one instant. Two belief windows of different sessions
// that surely overlap are a violation: there are no false positives by
// construction, and it is always the lock's fault. An acquire that could have been
// answered with what another session had is an occasion (spans.Meetings).
//
// A lock that tells its holder nothing is not held to what he believed when his key had
// lived its time: see holder_told.go.
func mutualExclusion(r *record) Result {
	if r.Params.Untold {
		return brokenUntold(r)
	}
	o := r.beliefs.Overlaps()
	met := 0
	for _, l := range r.Locks {
		met += spans.Meetings(r.Facts, l, r.beliefs.Of(l))
	}
	if o.Incidents == 0 {
		return Result{
			Outcome: Holds, Occasions: met,
			Because: fmt.Sprintf("no two clients held the lock at once (%s); %s", verdict.Plural(r.Grants, "grant"), asked(met)),
		}
	}
	why := cause.Explain(r.Facts, o.A.Session, o.B.Session)
	res := shared(r.Facts, o.Overlap, why.Events)
	res.Because += ": " + why.Text
	res.Occasions, res.Incidents = met, o.Incidents
	res.Cause, res.Node, res.Losses, res.Spare = why.Cause, why.Node, why.Losses, why.Spare
	return res
}

// sharedHolds is the spells in which two clients or more believed in one lock, each by the
// two that did for longest. Why is left out: to explain a thousand takes long.
func sharedHolds(r *record) (all []verdict.Incident) {
	for _, o := range r.beliefs.Each() {
		all = append(all, verdict.Incident{From: o.From, Tell: func() Result { return shared(r.Facts, o, nil) }})
	}
	return all
}

// shared tells an overlap, with what else shows it.
func shared(r *facts.Facts, o spans.Overlap, besides []*history.Event) Result {
	a, b := o.A.Session, o.B.Session
	return Result{
		Outcome: Violated,
		Because: fmt.Sprintf("%s both believed they held %s %s", verdict.Pair(a, b), verdict.LockName(a.Key()), facts.FromTo(o.From, o.To)),
		Witness: &Witness{
			Events:   verdict.Numbered(slices.Concat(proof(r, o.A), proof(r, o.B), besides)),
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
func proof(r *facts.Facts, w spans.Window) []*history.Event {
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

// holderTold asks of a lock that names no deadline and tells nobody of a loss, as a watchdog
// whose renewals can't be seen, whether its holders knew in time. None is told: he believes
// until he gives the lock back. Where another had it by then because the key had lived its
// time, that is no broken promise of the lock's, which made none, and yet two worked at once.
func holderTold(r *record) Result {
	if !r.Params.Untold {
		return Result{Outcome: Holds, Because: "the lock names a deadline, or tells of a loss"}
	}
	all, stalled := withoutStalled(r, untold(r, true))
	switch {
	case len(all) > 0:
		return worst(all, r.Grants)
	case stalled != nil:
		return Result{Outcome: Undecided, Because: "the host stalled, which may be why: " + stalled.Because}
	}
	return Result{Outcome: Holds, Occasions: r.Grants, Because: fmt.Sprintf("the lock tells its holder nothing, and no other had it meanwhile (%s)", verdict.Plural(r.Grants, "grant"))}
}

// withoutStalled leaves out the overlaps for which stalls of the host may be to blame, of which it
// returns the first, or nil: the host stalled, since the key was last renewed or later, for as long
// as the two held the lock at once.
func withoutStalled(r *record, all []overlap) (sure []overlap, stalled *overlap) {
	stalls := spans.Stalls(r.Facts)
	for _, o := range all {
		if o.To-o.From > spans.Share(stalls, spans.Of(o.From-int64(r.Params.TTL), o.To)) {
			sure = append(sure, o)
		} else if stalled == nil {
			stalled = &o
		}
	}
	return sure, stalled
}

// brokenUntold is mutualExclusion of such a lock.
func brokenUntold(r *record) Result {
	met := 0
	for _, l := range r.Locks {
		met += spans.Meetings(r.Facts, l, r.beliefs.Of(l))
	}
	if all := untold(r, false); len(all) > 0 {
		return worst(all, met)
	}
	return Result{Outcome: Holds, Occasions: met, Because: fmt.Sprintf(
		"no two clients held the lock at once but by a key that had lived its time, of which this lock tells nobody (%s); %s", verdict.Plural(r.Grants, "grant"), asked(met))}
}

// overlap is one with its cause.
type overlap struct {
	spans.Overlap
	Result
}

// untold is the overlaps of a lock that tells nothing, in the order of time: those that come
// of a key that had lived its time, or of which the nodes say nothing, or the others.
func untold(r *record, lived bool) (all []overlap) {
	for _, o := range r.beliefs.Each() {
		why := cause.Explain(r.Facts, o.A.Session, o.B.Session)
		if (why.Cause == verdict.ToldLate || why.Cause == verdict.Unexplained && !r.Params.Life) != lived {
			continue
		}
		res := shared(r.Facts, o, why.Events)
		res.Because += ": " + why.Text
		res.Cause, res.Node, res.Losses, res.Spare = why.Cause, why.Node, why.Losses, why.Spare
		all = append(all, overlap{o, res})
	}
	return all
}

// worst is the result that the longest of some overlaps shows.
func worst(all []overlap, occasions int) Result {
	res := slices.MaxFunc(all, func(a, b overlap) int { return cmp.Compare(a.To-a.From, b.To-b.From) }).Result
	res.Occasions, res.Incidents = occasions, len(all)
	return res
}

func toldOf(all []overlap) (told []verdict.Incident) {
	for _, o := range all {
		told = append(told, verdict.Incident{From: o.From, Tell: func() Result { return o.Result }})
	}
	return told
}
