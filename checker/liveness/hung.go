package liveness

import (
	"fmt"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// stuck is a call that had not returned when its keys must have lapsed and all rounds were over,
// though its client went on and reached a majority for so long: an extension or a release, or an
// acquire that never returned and asked no node any more though the lock was free. An acquire that
// returns late is seen where nobody gets the lock: see why.go.
type stuck struct {
	lock    *lockState
	session *facts.Session
	of      facts.Operation
	spans.Span
	asked int64 // an acquire's last message to a node was sent then; 0: it is another call
}

// stuckIn finds those of a lock, in the order of their sessions, but for acquires in spans that are
// reported already. It tells of the first for which stalls of the host may be to blame.
func stuckIn(c *lockState, reported []unavailability) (all []stuck, open string) {
	patience := rounds(&c.Params) + int64(c.Params.TTL)
	judge := func(d stuck, could []spans.Span, patience int64) {
		if t, gone := c.Gone[d.session.Client()]; gone {
			d.To = min(d.To, t)
		}
		if d.Length() <= patience {
			return
		}
		switch share := spans.Share(could, d.Span); {
		case share > patience+c.delayed([]string{d.session.Client()}, d.Span):
			all = append(all, d)
		case share > patience && open == "":
			open = fmt.Sprintf("%s had not returned within %s; %s", d.call(), facts.Seconds(patience), c.stalledFor(d.Span))
		}
	}
	for s := range c.called {
		for x := range s.Actions() {
			if x.Call.Op == history.OpRelease || x.Call.Op == history.OpExtend {
				d := stuck{lock: c, session: s, of: x, Span: spans.Of(x.Call.T, min(x.Ended(), c.End))}
				judge(d, c.down.settled(c.down.majority(s.Client())), patience)
			}
		}
	}
	for _, d := range silentAcquires(c) {
		met := false
		for _, u := range reported {
			met = met || u.From < d.To && d.From < u.To
		}
		if !met {
			judge(d, spans.Common(c.down.settled(c.carried.majority(d.session.Client())), c.free()), patience+c.slowest)
		}
	}
	return all, open
}

// silentAcquires is the acquires that never returned, from when they last asked a node. There are
// none where the links saw nothing of the lock.
func silentAcquires(c *lockState) (all []stuck) {
	if c.wire == nil {
		return nil
	}
	asked := c.asked(c.End + 1)
	for s := range c.called {
		if s.Acquire.Return == nil {
			since := max(s.Called, asked[s])
			all = append(all, stuck{lock: c, session: s, of: s.Acquire, Span: spans.Of(since, c.End), asked: since})
		}
	}
	return all
}

// free returns the spans in which nobody can have held the lock and no leftover keys blocked it.
func (c *lockState) free() []spans.Span {
	return spans.Common(spans.Outside(heldBy(c.holders())), spans.Outside(c.blocked()))
}

func (d stuck) call() string {
	return fmt.Sprintf("%s's %s of %s, called at %s,", d.session.Client(), d.of.Call.Op, verdict.LockName(d.lock.name), facts.Seconds(d.of.Call.T))
}

// tell tells of it.
func (d stuck) tell() verdict.Result {
	came := fmt.Sprintf("had not returned at the end of the record, at %s", facts.Seconds(d.lock.End))
	events := []*history.Event{d.session.Acquire.Call, d.session.Acquire.Return, d.of.Call}
	if d.of.Return != nil {
		came = fmt.Sprintf("returned at %s", facts.Seconds(d.of.Return.T))
		events = append(events, d.of.Return)
	}
	because := fmt.Sprintf("%s called %s of %s at %s, a majority being available, and the call %s",
		d.session.Client(), d.of.Call.Op, verdict.LockName(d.lock.name), facts.Seconds(d.of.Call.T), came)
	if d.asked > 0 {
		because += fmt.Sprintf("; it asked no node after %s, though the lock was free", facts.Seconds(d.asked))
	}
	return verdict.Result{
		Outcome: verdict.Violated, Cause: verdict.Hung, Because: because,
		Witness: &verdict.Witness{Key: d.lock.name, From: d.From, To: d.To, Sessions: []string{d.session.Name()}, Events: verdict.Numbered(events)},
	}
}
