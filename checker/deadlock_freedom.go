package checker

import (
	"fmt"

	"lockpick/harness/history"
)

// deadlockFreedom asks whether a lock whose holder was lost was free again in
// time (lost_holders.go), while another client was trying to acquire it. That
// one must have the lock, or somebody else must, by
//
//	last key set for the lost + TTL·(1+ρ)        the lock is free (or when the other called, if later)
//	+ each step back of a node's clock           where that is the most of any node
//	+ RetryMax + 2·NodeTimeout, for each waiter  a round of attempts, and what a split vote may cost
//	+ Slack
//
// A loss after which nobody had the lock by then is left out if faults kept a majority from
// the one that waits meanwhile, or the machine stood still: then nothing was promised. Where
// the machine ever did, and no loss is left, it is undecided.
func deadlockFreedom(r *record) Result {
	if missing := r.missingFigure(); missing != "" {
		return Result{Outcome: Undecided, Because: "the history has no " + missing + ", so there is no bound"}
	}
	judged, leftOut := map[string]int{}, 0
	var violated, open func() Result
	occasions, incidents := 0, 0
	for _, d := range r.losses() {
		res, tell, disturbed := r.handover(d)
		if disturbed {
			leftOut++
		}
		if res == "" {
			continue
		}
		judged[d.fault.Kind]++
		occasions++
		switch {
		case res == Violated:
			incidents++
			if violated == nil {
				violated = tell
			}
		case res == Undecided && open == nil:
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
	case occasions == 0 && leftOut > 0 && len(r.stalls()) > 0:
		return Result{Outcome: Undecided, Because: "the machine stood still, and " + inTime(judged, leftOut)}
	}
	return Result{Outcome: Holds, Occasions: occasions, Because: inTime(judged, leftOut)}
}

func inTime(judged map[string]int, leftOut int) string {
	var losses []string
	for _, kind := range lossKinds {
		if n := judged[kind]; n > 0 {
			losses = append(losses, plural(n, ways[kind].noun))
		}
	}
	text := "no client died while it held, or might hold, a lock that another wanted, nor was cut off or paused until its lease was over"
	switch {
	case len(losses) > 0:
		text = fmt.Sprintf("the lock was free again in time, in %s of a holder", list(losses))
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
func (r *record) handover(d loss) (res Outcome, tell func() Result, disturbed bool) {
	next := d.contest.grantAfter(d.at, d.session.Client())
	round := int64(r.Params.RetryMax + 2*r.Params.NodeTimeout)
	if !r.awaited(d, next) {
		return "", nil, false
	}
	if next != nil && next.Acquire.Return.T <= d.free+round+int64(r.Params.Slack) {
		return Holds, nil, false // in time for whoever waits, and however many
	}
	waiters, rivals := r.waiters(d, next)
	patience := round*int64(rivals) + int64(r.Params.Slack)
	for _, w := range waiters {
		bound := max(d.free, w.Acquire.Call.T) + patience
		left, gone := r.Gone[w.Client()]
		switch {
		case next != nil && next.Acquire.Return.T <= bound:
			return Holds, nil, false // whatever the faults
		case r.disturbed(d, w, next, bound):
			disturbed = true
		case w.Acquire.Ended() <= bound, gone && left <= bound:
			continue // it gave up
		case r.End < bound:
			res, tell = Undecided, func() Result { return r.soon(d, bound) }
		default:
			return Violated, func() Result { return r.late(d, w, next, bound) }, false
		}
	}
	return res, tell, disturbed && res == ""
}

// soon tells of a bound that lies behind the record's end.
func (r *record) soon(d loss, bound int64) Result {
	return Result{Outcome: Undecided, Because: fmt.Sprintf(
		"%s %s at %s while it may have held %s; the lock must be free again by %s, and the record ends at %s",
		d.session.Client(), ways[d.fault.Kind].verb, seconds(d.at), lockName(d.session.Key()), seconds(bound), seconds(r.End))}
}

// awaited reports whether there are waiters, without a look at each.
func (r *record) awaited(d loss, next *session) bool {
	until := int64(never)
	if next != nil {
		until = next.Acquire.Return.T
	}
	own := r.of(d.contest)[d.session.Client()]
	calls := firstOf(own, func(s *session) bool { return s.Acquire.Call.T > until })
	return r.asking(d.contest).called(until)-calls > r.asking(d.contest).ended(d.at)-(len(own)-len(outliving(own, d.at)))
}

// waiters is other clients' acquires that outlived a loss and were called before
// the next grant, and of how many clients.
func (r *record) waiters(d loss, next *session) (waiters []*session, clients int) {
	until := int64(never)
	if next != nil {
		until = next.Acquire.Return.T
	}
	of, w := r.of(d.contest), r.callers(d.contest)
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
func (r *record) disturbed(d loss, w, next *session, until int64) bool {
	if next != nil {
		got := r.tenureOf(next, d.contest.wire)
		until = min(until, got.from)
	}
	at := w.Acquire.Call.T
	return !covering(r.outages().majority(w.Client()), interval{max(d.at, at), until}) ||
		!covering(r.majority(d.contest, w.Client()), interval{max(d.free, at), until})
}

func (r *record) late(d loss, w, next *session, bound int64) Result {
	to := r.End
	text := fmt.Sprintf("had not been granted again by %s, when the record ends", seconds(r.End))
	events := []*history.Event{d.session.Acquire.Call, d.session.Acquire.Return, d.lastSet, d.fault.Begin, w.Acquire.Call, w.Acquire.Return}
	if next != nil {
		to = next.Acquire.Return.T
		text = fmt.Sprintf("was granted again only at %s, to %s", seconds(to), next.Client())
		events = append(events, next.Acquire.Return)
	}
	cause, why := r.whyDry(d.contest, interval{d.free, to})
	return Result{
		Outcome: Violated, Cause: cause,
		Because: fmt.Sprintf("%s %s at %s while it may have held %s, and %s was waiting; the lock must be free again by %s, and %s; %s",
			d.session.Client(), ways[d.fault.Kind].verb, seconds(d.at), lockName(d.session.Key()), w.Client(), seconds(bound), text, why),
		Witness: &Witness{
			Events: numbered(events), Sessions: []string{d.session.Name(), w.Name()},
			Key: d.session.Key(), From: d.at, To: to,
		},
	}
}

// missingFigure names a figure that a bound of liveness needs and the history lacks.
func (r *record) missingFigure() string {
	switch {
	case r.Params.TTL == 0:
		return "TTL"
	case r.Params.NodeTimeout == 0:
		return "node time-out"
	case r.Params.RetryMax == 0:
		return "retry delay"
	}
	return ""
}
