package liveness

import (
	"fmt"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// DeadlockFreedom asks whether a lock whose holder was lost was free again in
// time (lost_holders.go), while another client was trying to acquire it. That
// one must have the lock, or somebody else must, or the lost one anew, by
//
//	last key set for the lost + TTL·(1+ρ)        the lock is free (or when the other called, if later)
//	+ each step back of a node's clock           where that is the most of any node
//	+ RetryMax + 2·NodeTimeout, for each waiter  a round of attempts, and what a split vote may cost
//	+ Slack
//
// A loss after which nobody had the lock by then is left out if faults kept a majority from
// the one that waits meanwhile: then nothing was promised. Where the host stalled the bound is
// longer (stalls.go), and a lock that was late by no more leaves the property undecided.
func (r *Run) DeadlockFreedom() verdict.Result {
	if missing := missingFigure(&r.Params); missing != "" {
		return verdict.Result{Outcome: verdict.Undecided, Because: "the history has no " + missing + ", so there is no bound"}
	}
	judged, leftOut := map[string]int{}, 0
	var violated, open func() verdict.Result
	occasions, incidents := 0, 0
	for _, d := range r.losses {
		res, tell, disturbed := d.handover()
		if disturbed {
			leftOut++
		}
		if res == "" {
			continue
		}
		judged[d.fault.Kind]++
		occasions++
		switch {
		case res == verdict.Violated:
			incidents++
			if violated == nil {
				violated = tell
			}
		case res == verdict.Undecided && open == nil:
			open = tell
		}
	}
	switch {
	case violated != nil:
		res := violated()
		res.Occasions, res.Incidents = occasions, incidents
		return res
	case open != nil:
		res := open()
		res.Occasions = occasions
		return res
	}
	return verdict.Result{Outcome: verdict.Holds, Occasions: occasions, Because: inTime(judged, leftOut)}
}

// LateHandovers is each loss of a holder after which the lock was not free in time.
func (r *Run) LateHandovers() (all []verdict.Incident) {
	for _, d := range r.losses {
		if res, tell, _ := d.handover(); res == verdict.Violated {
			all = append(all, verdict.Incident{From: d.at, Tell: tell})
		}
	}
	return all
}

func inTime(judged map[string]int, leftOut int) string {
	var losses []string
	for _, kind := range lossKinds {
		if n := judged[kind]; n > 0 {
			losses = append(losses, verdict.Plural(n, ways[kind].noun))
		}
	}
	text := "no client died while it held, or might hold, a lock that another wanted, nor was cut off or paused until its lease was over"
	switch {
	case len(losses) > 0:
		text = fmt.Sprintf("the lock was free again in time, in %s of a holder", verdict.List(losses))
	case leftOut > 0:
		text = "no loss of a holder could be judged"
	}
	if leftOut > 0 {
		text += fmt.Sprintf("; left out for other faults in force: %d", leftOut)
	}
	return text
}

// handover judges one loss. There is no outcome if it was no test: other
// faults disturbed it, or nobody waited long enough. What didn't hold tell tells.
func (d loss) handover() (res verdict.Outcome, tell func() verdict.Result, disturbed bool) {
	next := d.lock.grantAfter(d.at, d.session)
	round := int64(d.lock.Params.RetryMax + 2*d.lock.Params.NodeTimeout)
	if !d.awaited(next) {
		return "", nil, false
	}
	if next != nil && next.Acquire.Return.T <= d.free+round+int64(d.lock.Params.Slack) {
		return verdict.Holds, nil, false // in time for whoever waits, and however many
	}
	waiters, rivals := d.waiters(next)
	patience := round*int64(rivals) + int64(d.lock.Params.Slack)
	for _, w := range waiters {
		bound := max(d.free, w.Acquire.Call.T) + patience
		left, gone := d.lock.Gone[w.Client()]
		switch {
		case next != nil && next.Acquire.Return.T <= bound:
			return verdict.Holds, nil, false // whatever the faults
		case d.disturbed(w, next, bound):
			disturbed = true
		case w.Acquire.Ended() <= bound, gone && left <= bound:
			continue // it gave up
		case d.lock.End < bound:
			res, tell = verdict.Undecided, func() verdict.Result { return d.soon(bound) }
		case d.excused(w, next, bound):
			res, tell = verdict.Undecided, func() verdict.Result { return d.stalled(w, bound) }
		default:
			return verdict.Violated, func() verdict.Result { return d.late(w, next, bound) }, false
		}
	}
	return res, tell, disturbed && res == ""
}

// excused reports whether stalls of the host, or keys that stayed because it was slow, may be why
// nobody had the lock by the bound.
func (d loss) excused(w, next *facts.Session, bound int64) bool {
	to := d.lock.End
	if next != nil {
		to = next.Acquire.Return.T
	}
	waited := spans.Of(max(d.at, w.Acquire.Call.T), to)
	if late := d.lock.delayed([]string{w.Client()}, waited); late > 0 && to-bound <= late {
		return true
	}
	return len(d.lock.slow) > 0 && !spans.Covering(d.lock.surelyMajority(w.Client()), spans.Of(max(d.free, w.Acquire.Call.T), bound))
}

// stalled tells of a loss for which the host may be to blame.
func (d loss) stalled(w *facts.Session, bound int64) verdict.Result {
	return verdict.Result{Outcome: verdict.Undecided, Because: fmt.Sprintf(
		"%s %s at %s while it may have held %s, and the lock was not free again for %s by %s; the host stalled or was slow, which may be why",
		d.session.Client(), ways[d.fault.Kind].verb, facts.Seconds(d.at), verdict.LockName(d.session.Key()), w.Client(), facts.Seconds(bound))}
}

// soon tells of a bound that lies behind the record's end.
func (d loss) soon(bound int64) verdict.Result {
	return verdict.Result{Outcome: verdict.Undecided, Because: fmt.Sprintf(
		"%s %s at %s while it may have held %s; the lock must be free again by %s, and the record ends at %s",
		d.session.Client(), ways[d.fault.Kind].verb, facts.Seconds(d.at), verdict.LockName(d.session.Key()), facts.Seconds(bound), facts.Seconds(d.lock.End))}
}

// awaited reports whether there are waiters, without a look at each.
func (d loss) awaited(next *facts.Session) bool {
	until := int64(facts.Never)
	if next != nil {
		until = next.Acquire.Return.T
	}
	own := d.lock.byClient()[d.session.Client()]
	all := d.lock.callers()
	return all.calledBy(until)-calledBy(own, until) > all.endedBy(d.at)-(len(own)-len(outliving(own, d.at)))
}

// waiters is other clients' acquires that outlived a loss and were called before
// the next grant, and of how many clients.
func (d loss) waiters(next *facts.Session) (waiters []*facts.Session, clients int) {
	until := int64(facts.Never)
	if next != nil {
		until = next.Acquire.Return.T
	}
	of, w := d.lock.byClient(), d.lock.callers()
	for _, client := range w.clients(until, w.ended, d.at) {
		before := len(waiters)
		if client != d.session.Client() {
			for _, s := range outliving(of[client], d.at) {
				if s.Acquire.Call.T > until {
					break
				}
				waiters = append(waiters, s)
			}
		}
		if len(waiters) > before {
			clients++
		}
	}
	return waiters, clients
}

// disturbed reports whether faults kept a majority from one that waits, between
// a loss and an instant, or the first key of the next grant. Keys that faults left behind count from
// when the lost one's own are gone.
func (d loss) disturbed(w, next *facts.Session, until int64) bool {
	if next != nil {
		got := d.lock.hold(next)
		until = min(until, got.From)
	}
	at := w.Acquire.Call.T
	return !spans.Covering(d.lock.down.majority(w.Client()), spans.Of(max(d.at, at), until)) ||
		!spans.Covering(d.lock.majority(w.Client()), spans.Of(max(d.free, at), until))
}

func (d loss) late(w, next *facts.Session, bound int64) verdict.Result {
	to := d.lock.End
	text := fmt.Sprintf("had not been granted again by %s, when the record ends", facts.Seconds(d.lock.End))
	events := []*history.Event{d.session.Acquire.Call, d.session.Acquire.Return, d.lastSet, d.fault.Begin, w.Acquire.Call, w.Acquire.Return}
	if next != nil {
		to = next.Acquire.Return.T
		text = fmt.Sprintf("was granted again only at %s, to %s", facts.Seconds(to), next.Client())
		events = append(events, next.Acquire.Return)
	}
	cause, why := whyNobody(d.lock, spans.Of(d.free, to))
	return verdict.Result{
		Outcome: verdict.Violated, Cause: cause,
		Because: fmt.Sprintf("%s %s at %s while it may have held %s, and %s was waiting; the lock must be free again by %s, and %s; %s",
			d.session.Client(), ways[d.fault.Kind].verb, facts.Seconds(d.at), verdict.LockName(d.session.Key()), w.Client(), facts.Seconds(bound), text, why),
		Witness: &verdict.Witness{
			Events: verdict.Numbered(events), Sessions: []string{d.session.Name(), w.Name()},
			Key: d.session.Key(), From: d.at, To: to,
		},
	}
}
