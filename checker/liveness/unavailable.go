package liveness

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Causes of a window of unavailability besides the lease of a lost holder.
const (
	stoodStill   = "the host stalled"
	majorityDown = "a majority was down or out of reach"
	noAnswer     = "lease of a holder whose release got no answer"
	neverKnew    = "keys of a client that never got an answer"
	leftBehind   = "keys that a fault left behind"
	rivalry      = "contention"
)

// availability measures when a lock was to be had, and says why it was not for longest.
func availability(r *Run, n map[string]float64, words map[string]string) {
	sum := int64(0)
	var longest spans.Span
	var of *lockState
	for _, c := range r.locks {
		for w := range unavailable(c, r.beliefs.Of(c.lock)) {
			sum += w.Length()
			if w.Length() > longest.Length() {
				longest, of = w, c
			}
		}
	}
	if elapsed := r.Last - r.First; elapsed > 0 && len(r.Locks) > 0 {
		n[verdict.UnavailableSeconds] = history.Seconds(sum)
		n[verdict.UnavailableShare] = float64(sum) / float64(elapsed) / float64(len(r.Locks))
	}
	if of != nil {
		n[verdict.UnavailableMax] = history.Seconds(longest.Length())
		words[verdict.UnavailableMax] = whyUnavailable(of, r.losses, longest)
	}
	if slowest := deathToGrant(r.losses); slowest > 0 {
		n[verdict.DeathToGrant] = history.Seconds(slowest)
	}
	orphans(r.conditions, n)
}

// unavailable is where nobody believed to hold a lock that somebody was trying to
// acquire, in the order of time.
func unavailable(c *lockState, belief []spans.Window) iter.Seq[spans.Span] {
	return func(yield func(spans.Span) bool) {
		belief := belief
		until := int64(spans.Ever) // of the windows so far
		without := func(want spans.Span) bool {
			at := max(want.From, until)
			for len(belief) > 0 && belief[0].From < want.To {
				if at < belief[0].From && !yield(spans.Of(at, belief[0].From)) {
					return false
				}
				until = max(until, belief[0].To)
				at = max(at, until)
				belief = belief[1:]
			}
			return at >= want.To || yield(spans.Of(at, want.To))
		}
		var want spans.Span
		for s := range c.called {
			w := spans.Wait(c.Facts, s)
			if w.From > want.To {
				if !without(want) {
					return
				}
				want = w
			}
			want.To = max(want.To, w.To)
		}
		without(want)
	}
}

// whyUnavailable is what filled most of a window in which nobody held a lock that
// somebody wanted. The lease of a lost holder comes first, then a majority that is
// down, and then all else. What nothing else explains is contention: somebody
// acquires, votes are split, or keys of failed attempts were left behind.
func whyUnavailable(c *lockState, losses []loss, w spans.Span) string {
	lost := map[*facts.Session]string{}
	for _, d := range losses {
		lost[d.session] = "lease of a " + ways[d.fault.Kind].holder
	}
	near := near(c, w)
	up := spans.Common(reached(c.conditions, near, w), spans.Outside(c.stalls))
	all, reachable := spans.Measure([]spans.Span{w}), spans.Measure(up)
	filled := map[string]int64{}
	var held, taken []spans.Span
	for _, s := range near {
		t, ok := holdOf(c.Facts, c.keys, s, c.wire)
		if !ok || t.From >= w.To || t.To <= w.From {
			continue
		}
		held = append(held, t.Span)
		cause, where := rivalry, reachable
		switch {
		case lost[s] != "":
			cause, where = lost[s], all
			taken = append(taken, t.Span)
		case !s.Granted():
			cause = neverKnew
		case s.Released() == facts.Never:
			cause = noAnswer
		}
		filled[cause] += where.Share(t.Span)
		if s.Granted() {
			filled[cause] -= where.Share(spans.Of(s.Acquire.Return.T, t.believed))
		}
	}
	for _, down := range spans.Common(spans.Common([]spans.Span{w}, spans.Outside(up)), spans.Outside(spans.Union(taken))) {
		still := spans.Share(c.stalls, down)
		filled[stoodStill] += still
		filled[majorityDown] += down.Length() - still
	}
	blocked := c.blocked()
	for _, free := range spans.Common(up, spans.Outside(spans.Union(held))) {
		left := spans.Share(blocked, free)
		filled[leftBehind] += left
		filled[rivalry] += free.Length() - left
	}
	return slices.MinFunc(slices.Collect(maps.Keys(filled)), func(a, b string) int {
		return cmp.Or(cmp.Compare(filled[b], filled[a]), cmp.Compare(a, b))
	})
}

// near is the sessions that can have to do with a window: those called before its
// end whose acquire returned three lives of a key before its begin, or later. A
// lease that was extended for longer before it got stuck isn't found.
func near(c *lockState, w spans.Span) []*facts.Session {
	var near []*facts.Session
	life := c.keys.longest()
	for s := range c.called {
		if s.Acquire.Call.T >= w.To {
			break
		}
		if life > facts.Never/4 || s.Acquire.Ended() >= w.From-3*life {
			near = append(near, s)
		}
	}
	return near
}

// reached is where, in a window, somebody who was trying to acquire a lock reached a majority.
func reached(r *conditions, near []*facts.Session, w spans.Span) []spans.Span {
	waits := map[string][]spans.Span{}
	for _, s := range near {
		if wait := spans.Wait(r.Facts, s); wait.From < w.To && wait.To > w.From {
			waits[s.Client()] = append(waits[s.Client()], wait)
		}
	}
	var all []spans.Span
	for client, list := range waits {
		all = append(all, spans.Common(spans.Joined(list, int64(r.Params.RetryMax)), r.down.majority(client))...)
	}
	return spans.Common([]spans.Span{w}, spans.Union(all))
}

// deathToGrant is the longest time from a holder's death to the next grant.
func deathToGrant(losses []loss) int64 {
	slowest := int64(0)
	for _, d := range losses {
		if next := d.lock.grantAfter(d.at, d.session); next != nil && d.fault.Kind == facts.Kill {
			slowest = max(slowest, next.Acquire.Return.T-d.at)
		}
	}
	return slowest
}

// orphans counts keys that a node refused a set for, though none had been set or
// extended there for longer than a key may live.
func orphans(r *conditions, n map[string]float64) {
	type spot struct{ node, key string }
	type age struct {
		set     int64
		counted bool
	}
	keys := map[spot]*age{}
	count := 0
	limit := spans.Plus(r.keys.life, int64(r.Params.Slack))
	// In the order of the nodes' doing: an answer that took longer is recorded later.
	links := slices.SortedStableFunc(slices.Values(r.Links), func(a, b *history.Event) int { return cmp.Compare(facts.Applied(a), facts.Applied(b)) })
	for _, e := range links {
		if e.Op == history.OpRelease {
			continue
		}
		k := keys[spot{e.Node, e.Key}]
		if k == nil {
			k = &age{}
			keys[spot{e.Node, e.Key}] = k
		}
		switch {
		case e.Type != history.Fail:
			*k = age{set: max(k.set, facts.Applied(e))}
		case e.Op == history.OpSet && e.Cause == "" && !k.counted && e.Sent > spans.Plus(k.set, limit):
			k.counted = true
			count++
		}
	}
	if len(keys) > 0 && r.Params.TTL > 0 {
		n[verdict.OrphanKeys] = float64(count)
	}
}
