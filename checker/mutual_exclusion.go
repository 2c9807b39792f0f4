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

// mutualExclusion checks whether two clients ever believed, each by its own clock, that they held
// the same lock. It reports a violation if belief windows of different sessions certainly overlap.
// There are no false positives by construction, and a violation is always the lock's fault. An
// acquire counts as an occasion if it was in progress while another session held the lock
// (spans.Meetings).
//
// If a lock never notifies its holder, overlaps after the first holder's key expired do not count;
// see holderNotified.
func mutualExclusion(r *record) (f verdict.Finding) {
	for _, l := range r.Locks {
		f.Occasions += spans.Meetings(r.Facts, l, r.beliefs.Windows(l))
	}
	exception := ""
	if r.Params.NoLossNotice {
		f.Incidents, f.DescribeWorst = overlapIncidents(overlapsByCause(r, false))
		exception = " except after a key had expired, which this lock does not report"
	} else if o := r.beliefs.Overlaps(); len(o.Incidents) > 0 {
		f.DescribeWorst = func() verdict.Result { return explainedResult(r, o.Overlap) }
		f.Incidents = make([]verdict.Incident, len(o.Incidents))
		for i := range o.Incidents { // without the cause, because explaining thousands takes too long
			x := &o.Incidents[i]
			f.Incidents[i] = verdict.Incident{From: x.From, Describe: func() verdict.Result { return overlapResult(r.Facts, *x, nil) }}
		}
	}
	f.Because = fmt.Sprintf("no two clients held the lock at once%s (%s); %s", exception, verdict.Plural(r.Grants, "grant"), describeContention(f.Occasions))
	return f
}

// explainedResult describes an overlap with its cause.
func explainedResult(r *record, o spans.Overlap) verdict.Result {
	explanation := cause.Explain(r.Facts, o.A.Session, o.B.Session)
	res := overlapResult(r.Facts, o, explanation.Events)
	res.Because += ": " + explanation.Text
	res.Cause, res.Node, res.Losses, res.SpareVotes = explanation.Cause, explanation.Node, explanation.Losses, explanation.SpareVotes
	return res
}

// overlapResult describes an overlap without its cause and adds events to its evidence.
func overlapResult(r *facts.Facts, o spans.Overlap, evidence []*history.Event) verdict.Result {
	a, b := o.A.Session, o.B.Session
	return verdict.Result{
		Outcome: verdict.Violated,
		Because: fmt.Sprintf("%s both believed they held %s %s", verdict.PairNames(a, b), verdict.LockName(a.Key()), facts.FromTo(o.From, o.To)),
		Witness: &verdict.Witness{
			Events:   verdict.EventNumbers(slices.Concat(windowEvents(r, o.A), windowEvents(r, o.B), evidence)),
			Sessions: []string{a.Name(), b.Name()}, Key: a.Key(), From: o.From, To: o.To, SessionFacts: []*facts.Session{a, b},
		},
	}
}

func describeContention(contended int) string {
	if contended == 0 {
		return "no client wanted it while another held it"
	}
	return fmt.Sprintf("%s contended for it while it was held", verdict.Plural(contended, "acquire"))
}

// windowEvents returns the events that prove a window.
func windowEvents(r *facts.Facts, w spans.Window) []*history.Event {
	events := []*history.Event{w.Session.Acquire.Call, w.Session.Acquire.Return}
	for b := range r.Windows(w.Session) {
		if b.From > w.To || b.To < w.From {
			continue
		}
		if b.CloseEvent == nil {
			b.CloseEvent, _ = r.WindowEnd(b)
		}
		events = append(events, b.OpenEvent, b.CloseEvent)
	}
	return events
}

// holderNotified checks whether holders knew in time that they had lost the lock. It applies to a
// lock that has no deadline and does not notify its holder of a loss, such as a watchdog whose
// renewals are not visible. The holder of such a lock believes that it holds the lock until it
// releases it. If the key expires before and another session acquires the lock, the lock breaks no
// promise, because it made none. Yet two clients worked at the same time.
func holderNotified(r *record) (f verdict.Finding) {
	if !r.Params.NoLossNotice {
		return verdict.Finding{Because: "the lock has a deadline or notifies its holder of a loss"}
	}
	all, excusedOverlap := excludeStalled(r, overlapsByCause(r, true))
	f.Incidents, f.DescribeWorst = overlapIncidents(all)
	if len(all) == 0 && excusedOverlap != nil {
		return verdict.Finding{Undecided: "the host stalled, which may be why: " + excusedOverlap.Because}
	}
	f.Occasions = r.Grants
	f.Because = fmt.Sprintf("the lock does not notify its holders, but no other client held it at the same time (%s)", verdict.Plural(r.Grants, "grant"))
	return f
}

// excludeStalled returns the overlaps that host stalls cannot have caused, and the first overlap
// that a stall may have caused, or nil. A stall may have caused an overlap if the host stalled for
// at least as long as the overlap lasted, during the overlap or within the first holder's TTL before it.
func excludeStalled(r *record, all []explainedOverlap) (certainOverlaps []explainedOverlap, excusedOverlap *explainedOverlap) {
	stalls := spans.Stalls(r.Facts)
	for _, o := range all {
		if o.To-o.From > spans.Share(stalls, spans.New(o.From-int64(r.Params.TTLOf(o.A.Session.Client()).TTL), o.To)) {
			certainOverlaps = append(certainOverlaps, o)
		} else if excusedOverlap == nil {
			excusedOverlap = &o
		}
	}
	return certainOverlaps, excusedOverlap
}

type explainedOverlap struct {
	spans.Overlap
	verdict.Result
}

// overlapsByCause returns a lock's overlaps in chronological order, for a lock that never notifies its
// holder. If expired is set, the first session's key had expired in each of them, or the nodes do
// not report keys. Otherwise it returns all other overlaps.
func overlapsByCause(r *record, expired bool) (all []explainedOverlap) {
	for _, o := range r.beliefs.Overlaps().Incidents {
		res := explainedResult(r, o)
		if (res.Cause == verdict.NotifiedLate || res.Cause == verdict.Unexplained && !r.Params.ReportsKeys) == expired {
			all = append(all, explainedOverlap{o, res})
		}
	}
	return all
}

// overlapIncidents turns overlaps into incidents. The longest is the worst.
func overlapIncidents(all []explainedOverlap) (incidents []verdict.Incident, worst func() verdict.Result) {
	length := int64(-1)
	for _, o := range all {
		incidents = append(incidents, verdict.Incident{From: o.From, Describe: func() verdict.Result { return o.Result }})
		if o.To-o.From > length {
			length, worst = o.To-o.From, incidents[len(incidents)-1].Describe
		}
	}
	return incidents, worst
}
