package liveness

import (
	"fmt"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// stuck is an extension or a release that had not returned when its keys must have lapsed
// and all rounds were over, though its client went on and reached a majority for so long. Of
// an acquire that hangs the same is seen where nobody gets the lock: see why.go.
type stuck struct {
	lock    *lockState
	session *facts.Session
	of      facts.Operation
	spans.Span
}

// stuckIn finds those of a lock, in the order of their sessions.
func stuckIn(c *lockState) (all []stuck) {
	patience := rounds(&c.Params) + int64(c.Params.TTL)
	for s := range c.called {
		for x := range s.Actions() {
			if x.Call.Op != history.OpRelease && x.Call.Op != history.OpExtend {
				continue
			}
			d := stuck{c, s, x, spans.Of(x.Call.T, min(x.Ended(), c.End))}
			if t, gone := c.Gone[s.Client()]; gone {
				d.To = min(d.To, t)
			}
			if d.Length() > patience && spans.Share(c.down.settled(c.down.majority(s.Client())), d.Span) > patience {
				all = append(all, d)
			}
		}
	}
	return all
}

// tell tells of it.
func (d stuck) tell() verdict.Result {
	came := fmt.Sprintf("had not returned at the end of the record, at %s", facts.Seconds(d.lock.End))
	events := []*history.Event{d.session.Acquire.Call, d.session.Acquire.Return, d.of.Call}
	if d.of.Return != nil {
		came = fmt.Sprintf("returned at %s", facts.Seconds(d.of.Return.T))
		events = append(events, d.of.Return)
	}
	return verdict.Result{
		Outcome: verdict.Violated, Cause: verdict.Hung,
		Because: fmt.Sprintf("%s called %s of %s at %s, a majority being available, and the call %s",
			d.session.Client(), d.of.Call.Op, verdict.LockName(d.lock.name), facts.Seconds(d.From), came),
		Witness: &verdict.Witness{Key: d.lock.name, From: d.From, To: d.To, Sessions: []string{d.session.Name()}, Events: verdict.Numbered(events)},
	}
}
