package checker

import (
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
// lived its time: see holderTold.
func mutualExclusion(r *record) (f verdict.Finding) {
	for _, l := range r.Locks {
		f.Occasions += spans.Meetings(r.Facts, l, r.beliefs.Of(l))
	}
	but := ""
	if r.Params.Untold {
		f.Incidents, f.Worst = untoldOverlaps(untold(r, false))
		but = " but by a key that had lived its time, of which this lock tells nobody"
	} else if o := r.beliefs.Overlaps(); len(o.Each) > 0 {
		f.Worst = func() verdict.Result { return explained(r, o.Overlap) }
		f.Incidents = make([]verdict.Incident, len(o.Each))
		for i := range o.Each { // without the cause: to explain a thousand takes long
			x := &o.Each[i]
			f.Incidents[i] = verdict.Incident{From: x.From, Tell: func() verdict.Result { return shared(r.Facts, *x, nil) }}
		}
	}
	f.Because = fmt.Sprintf("no two clients held the lock at once%s (%s); %s", but, verdict.Plural(r.Grants, "grant"), asked(f.Occasions))
	return f
}

// explained tells an overlap with its cause.
func explained(r *record, o spans.Overlap) verdict.Result {
	why := cause.Explain(r.Facts, o.A.Session, o.B.Session)
	res := shared(r.Facts, o, why.Events)
	res.Because += ": " + why.Text
	res.Cause, res.Node, res.Losses, res.Spare = why.Cause, why.Node, why.Losses, why.Spare
	return res
}

// shared tells an overlap, with what else shows it.
func shared(r *facts.Facts, o spans.Overlap, besides []*history.Event) verdict.Result {
	a, b := o.A.Session, o.B.Session
	return verdict.Result{
		Outcome: verdict.Violated,
		Because: fmt.Sprintf("%s both believed they held %s %s", verdict.Pair(a, b), verdict.LockName(a.Key()), facts.FromTo(o.From, o.To)),
		Witness: &verdict.Witness{
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
			b.Closes, _ = r.Closing(b)
		}
		events = append(events, b.Opens, b.Closes)
	}
	return events
}

// holderTold asks of a lock that names no deadline and tells nobody of a loss, as a watchdog
// whose renewals can't be seen, whether its holders knew in time. None is told: he believes
// until he gives the lock back. Where another had it by then because the key had lived its
// time, that is no broken promise of the lock's, which made none, and yet two worked at once.
func holderTold(r *record) (f verdict.Finding) {
	if !r.Params.Untold {
		return verdict.Finding{Because: "the lock names a deadline, or tells of a loss"}
	}
	all, stalled := withoutStalled(r, untold(r, true))
	f.Incidents, f.Worst = untoldOverlaps(all)
	if len(all) == 0 && stalled != nil {
		return verdict.Finding{Undecided: "the host stalled, which may be why: " + stalled.Because}
	}
	f.Occasions = r.Grants
	f.Because = fmt.Sprintf("the lock tells its holder nothing, and no other had it meanwhile (%s)", verdict.Plural(r.Grants, "grant"))
	return f
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

// overlap is one with its cause.
type overlap struct {
	spans.Overlap
	verdict.Result
}

// untold lists, by time, overlaps of a lock that tells its holder nothing: if lived, those in which the
// first key had lived its time or the nodes don't say; otherwise the rest.
func untold(r *record, lived bool) (all []overlap) {
	for _, o := range r.beliefs.Overlaps().Each {
		res := explained(r, o)
		if (res.Cause == verdict.ToldLate || res.Cause == verdict.Unexplained && !r.Params.Life) == lived {
			all = append(all, overlap{o, res})
		}
	}
	return all
}

// untoldOverlaps lists overlaps as incidents, of which the longest is the worst.
func untoldOverlaps(all []overlap) (incidents []verdict.Incident, worst func() verdict.Result) {
	length := int64(-1)
	for _, o := range all {
		incidents = append(incidents, verdict.Incident{From: o.From, Tell: func() verdict.Result { return o.Result }})
		if o.To-o.From > length {
			length, worst = o.To-o.From, incidents[len(incidents)-1].Tell
		}
	}
	return incidents, worst
}
