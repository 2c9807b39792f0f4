package checker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// validOnReturn checks whether an acquire returned a lock past its deadline by the client's own
// clock, and must have noticed. It takes O(n log n) time.
//
// A lock checks the clock when it has its quorum and before it returns. Any lock can be stopped
// between the last check and its return, and then returns an expired lock through no fault of its
// own. It must have noticed if
//
//   - the vote that completed its quorum cannot have arrived before the deadline, because the node
//     answered later or the client was stopped until later,
//   - or the client ran on past the deadline, neither stopped nor stalled with the host, for longer
//     than scheduling may take (Params.Slack).
//
// Other late returns are not occasions. If only host stalls excuse one, the property is undecided.
func validOnReturn(r *facts.Facts) (f verdict.Finding) {
	numExcused, numStalled, minRemaining := 0, 0, int64(facts.Never)
	returns := lateReturns{Facts: r, stops: map[string]clientStops{}}
	for s := range r.Sessions() {
		remaining, ok := validityLeft(r, s)
		if !ok {
			continue
		}
		x := returns.examine(s, remaining)
		if remaining <= 0 && !x.mustHaveKnown() {
			numExcused++
			if x.stalled {
				numStalled++
			}
			continue
		}
		f.Occasions++
		if remaining <= 0 {
			describe := func() verdict.Result { return returns.result(x) }
			f.Incidents = append(f.Incidents, verdict.Incident{From: x.deadline(), Describe: describe})
			if remaining < minRemaining {
				minRemaining, f.DescribeWorst = remaining, describe
			}
		}
	}
	switch {
	case numExcused > 0 && r.Params.Slack == 0:
		f.Undecided = "an acquire returned a lock past its deadline, and the history does not state how long scheduling may take (slack)"
	case numStalled > 0:
		f.Undecided = fmt.Sprintf("%s returned past the lock's deadline; the host stalled, which may be why", verdict.Plural(numStalled, "acquire"))
	case f.Occasions == 0 && numExcused == 0:
		f.Because = "no acquire returned a lock with a deadline"
	case f.Occasions > 0:
		f.Because = fmt.Sprintf("every acquire returned before the lock's deadline (%s)", verdict.Plural(f.Occasions, "grant"))
	}
	if numExcused > 0 {
		text := fmt.Sprintf("%s returned past the lock's deadline, but may have been stopped after looking at the clock", verdict.Plural(numExcused, "acquire"))
		f.Because = strings.TrimPrefix(f.Because+"; "+text, "; ")
	}
	return f
}

// validityLeft returns the validity that a granted lock had left when its acquire returned, by the
// client's own clock. A later loss does not matter.
func validityLeft(r *facts.Facts, s *facts.Session) (remaining int64, ok bool) {
	deadline := r.PromisedDeadline(s)
	if !s.Granted() || deadline == facts.Never {
		return 0, false
	}
	return deadline - s.EndedAt, true
}

// lateReturns judges late returns. It caches each client's stops.
type lateReturns struct {
	*facts.Facts
	stops map[string]clientStops
}

// clientStops holds the spans during which a client was certainly stopped, those during which it
// may have been stopped, and the union of the latter with the host's stalls. A stop is uncertain
// between its injection and its confirmation.
type clientStops struct{ certainStops, possibleStops, stopsOrStalls []spans.Span }

// lateReturn is an acquire that returned a lock past its deadline, with the evidence that it must
// have noticed: the vote or the client's running time.
type lateReturn struct {
	session     *facts.Session
	remaining   int64          // validity left at the return; 0 or negative
	vote        *history.Event // the vote that completed the quorum after the deadline, or nil
	voteArrival int64          // when the vote can have reached the client at the earliest
	runningTime int64          // how long the client certainly ran past the deadline, if longer than scheduling may take
	stalled     bool           // without host stalls, the client would have run past the deadline for longer than scheduling may take
}

func (x lateReturn) deadline() int64 { return x.session.EndedAt + x.remaining }

func (x lateReturn) mustHaveKnown() bool { return x.vote != nil || x.runningTime > 0 }

func (t *lateReturns) examine(s *facts.Session, remaining int64) lateReturn {
	x := lateReturn{session: s, remaining: remaining}
	if remaining > 0 {
		return x
	}
	stops := t.stopsOf(s.Client())
	if vote, arrivalTime := t.quorumVote(s, stops.certainStops); vote != nil && arrivalTime >= x.deadline()+int64(t.Params.StampError) {
		x.vote, x.voteArrival = vote, arrivalTime
	}
	lateSpan := spans.New(max(x.deadline(), s.CalledAt), s.EndedAt)
	slack := int64(t.Params.Slack)
	if runningTime := lateSpan.Length() - spans.Share(stops.stopsOrStalls, lateSpan); slack > 0 && runningTime > slack {
		x.runningTime = runningTime
	}
	x.stalled = slack > 0 && lateSpan.Length()-spans.Share(stops.possibleStops, lateSpan) > slack
	return x
}

func (t *lateReturns) stopsOf(client string) clientStops {
	if cached, ok := t.stops[client]; ok {
		return cached
	}
	var stops clientStops
	for _, f := range t.Faults {
		if f.Kind != facts.Pause || f.Target != client {
			continue
		}
		stops.possibleStops = append(stops.possibleStops, spans.New(f.FirstEvent().T, f.To()))
		if f.Begin != nil {
			stops.certainStops = append(stops.certainStops, spans.New(f.Begin.T, f.To()))
		}
	}
	stops.certainStops, stops.possibleStops = spans.Union(stops.certainStops), spans.Union(stops.possibleStops)
	stops.stopsOrStalls = spans.Union(append(spans.Stalls(t.Facts), stops.possibleStops...))
	t.stops[client] = stops
	return stops
}

// quorumVote returns the vote that completed a session's quorum, and the earliest instant at which
// the vote can have reached the client. It returns nil if the links do not show it.
func (t *lateReturns) quorumVote(s *facts.Session, stops []spans.Span) (*history.Event, int64) {
	w := t.AttemptsByLock()[s.Key()]
	if w == nil || w.LastAttempt[s] == nil || t.Params.Quorum < 1 {
		return nil, 0
	}
	arrival := func(e *history.Event) int64 {
		if nextStops := spans.EndingAfter(stops, e.AnsweredAt); len(nextStops) > 0 && nextStops[0].From < e.AnsweredAt {
			return nextStops[0].To
		}
		return e.AnsweredAt
	}
	var votes []*history.Event
	for _, e := range w.LastAttempt[s].Sets {
		if e.Type == history.OK && e.AnsweredAt > 0 && arrival(e) <= s.EndedAt {
			votes = append(votes, e)
		}
	}
	if len(votes) < t.Params.Quorum {
		return nil, 0
	}
	slices.SortStableFunc(votes, func(a, b *history.Event) int { return cmp.Compare(arrival(a), arrival(b)) })
	last := votes[t.Params.Quorum-1]
	return last, arrival(last)
}

func (t *lateReturns) result(x lateReturn) verdict.Result {
	s := x.session
	call, ret := s.Acquire.Call, s.Acquire.Return
	events := []*history.Event{call, x.vote, ret}
	res := verdict.Result{Outcome: verdict.Violated, Cause: verdict.ReturnedLate}
	res.Because = fmt.Sprintf("%s's acquire of %s returned at %s, but the lock's deadline had passed at %s",
		s.Client(), verdict.LockName(s.Key()), facts.Seconds(ret.T), facts.Seconds(x.deadline()))
	for _, f := range t.Faults {
		if f.Kind == facts.Pause && f.Target == s.Client() && f.Begin != nil && f.Begin.T < ret.T && (f.End == nil || f.End.T > call.T) {
			res.Because += fmt.Sprintf("; %s had been paused at %s", s.Client(), facts.Seconds(f.Begin.T))
			events = append(events, f.Begin, f.End)
			break
		}
	}
	if x.vote != nil {
		res.Because += fmt.Sprintf("; the vote of %s, which completed its quorum, cannot have arrived before %s", x.vote.Node, facts.Seconds(x.voteArrival))
	} else {
		res.Because += fmt.Sprintf("; the client ran for %s after that", facts.Seconds(x.runningTime))
	}
	res.Witness = &verdict.Witness{Events: verdict.EventNumbers(events), Sessions: []string{s.Name()}, Key: s.Key(), From: x.deadline(), To: ret.T}
	return res
}
