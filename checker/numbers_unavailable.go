package checker

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Numbers of when a lock was to be had.
const (
	UnavailableSeconds = "unavailable-seconds" // nobody believed to hold a lock that somebody was trying to acquire; summed over locks
	UnavailableShare   = "unavailable-share"   // of the true time from the clients' first event to their last, per lock
	UnavailableMax     = "unavailable-longest" // the longest such window, seconds; Verdict.Words has its cause
	DeathToGrant       = "death-to-grant-max"  // seconds from a holder's death to the next grant, the longest
	OrphanKeys         = "orphan-keys"         // keys that a node still had TTL·(1+ρ) + slack after they were last set or extended
)

// Causes of a window of unavailability besides the lease of a lost holder.
const (
	stoodStill   = "the machine stood still"
	majorityDown = "a majority was down or out of reach"
	noAnswer     = "lease of a holder whose release got no answer"
	neverKnew    = "keys of a client that never got an answer"
	leftBehind   = "keys that a fault left behind"
	rivalry      = "contention"
)

func (r *record) availability(n map[string]float64, words map[string]string) {
	sum := int64(0)
	var longest interval
	var of *contest
	for _, c := range r.contests() {
		for w := range r.unavailable(c) {
			sum += w.length()
			if w.length() > longest.length() {
				longest, of = w, c
			}
		}
	}
	if elapsed := r.Last - r.First; elapsed > 0 && len(r.Locks) > 0 {
		n[UnavailableSeconds] = history.Seconds(sum)
		n[UnavailableShare] = float64(sum) / float64(elapsed) / float64(len(r.Locks))
	}
	if of != nil {
		n[UnavailableMax] = history.Seconds(longest.length())
		words[UnavailableMax] = r.whyUnavailable(of, longest)
	}
	if slowest := r.deathToGrant(); slowest > 0 {
		n[DeathToGrant] = history.Seconds(slowest)
	}
	r.orphans(n)
}

// unavailable is where nobody believed to hold a lock that somebody was trying to
// acquire, in the order of time.
func (r *record) unavailable(c *contest) iter.Seq[interval] {
	return func(yield func(interval) bool) {
		belief := r.windowsOf(c.lock)
		until := int64(ever) // of the windows so far
		without := func(want interval) bool {
			at := max(want.from, until)
			for len(belief) > 0 && belief[0].from < want.to {
				if at < belief[0].from && !yield(interval{at, belief[0].from}) {
					return false
				}
				until = max(until, belief[0].to)
				at = max(at, until)
				belief = belief[1:]
			}
			return at >= want.to || yield(interval{at, want.to})
		}
		var want interval
		for s := range r.calls(c) {
			w := r.wait(s)
			if w.from > want.to {
				if !without(want) {
					return
				}
				want = w
			}
			want.to = max(want.to, w.to)
		}
		without(want)
	}
}

// whyUnavailable is what filled most of a window in which nobody held a lock that
// somebody wanted. The lease of a lost holder comes first, then a majority that is
// down, and then all else. What nothing else explains is contention: somebody
// acquires, votes are split, or keys of failed attempts were left behind.
func (r *record) whyUnavailable(c *contest, w interval) string {
	lost := map[*session]string{}
	for _, d := range r.losses() {
		lost[d.session] = "lease of a " + ways[d.fault.Kind].holder
	}
	near := r.near(c, w)
	up := r.reached(near, w)
	all, reachable := measure([]interval{w}), measure(up)
	filled := map[string]int64{}
	var held, taken []interval
	for _, s := range near {
		t, ok := r.tenure(s, c.wire)
		if !ok || t.from >= w.to || t.to <= w.from {
			continue
		}
		held = append(held, t.interval)
		cause, where := rivalry, reachable
		switch {
		case lost[s] != "":
			cause, where = lost[s], all
			taken = append(taken, t.interval)
		case !s.Granted():
			cause = neverKnew
		case s.Released() == never:
			cause = noAnswer
		}
		filled[cause] += where.share(t.interval)
		if s.Granted() {
			filled[cause] -= where.share(interval{s.Acquire.Return.T, t.believed})
		}
	}
	stalls := r.stalls()
	for _, down := range common(common([]interval{w}, outside(up)), outside(union(taken))) {
		still := share(stalls, down)
		filled[stoodStill] += still
		filled[majorityDown] += down.length() - still
	}
	blocked := r.blocked(c)
	for _, free := range common(up, outside(union(held))) {
		left := share(blocked, free)
		filled[leftBehind] += left
		filled[rivalry] += free.length() - left
	}
	return slices.MinFunc(slices.Collect(maps.Keys(filled)), func(a, b string) int {
		return cmp.Or(cmp.Compare(filled[b], filled[a]), cmp.Compare(a, b))
	})
}

// near is the sessions that can have to do with a window: those called before its
// end whose acquire returned three lives of a key before its begin, or later. A
// lease that was extended for longer before it got stuck isn't found.
func (r *record) near(c *contest, w interval) []*session {
	var near []*session
	life := plus(r.life(), r.stepsBack())
	for s := range r.calls(c) {
		if s.Acquire.Call.T >= w.to {
			break
		}
		if life > never/4 || s.Acquire.Ended() >= w.from-3*life {
			near = append(near, s)
		}
	}
	return near
}

// reached is where, in a window, somebody who was trying to acquire a lock reached a majority.
func (r *record) reached(near []*session, w interval) []interval {
	waits := map[string][]interval{}
	for _, s := range near {
		if wait := r.wait(s); wait.from < w.to && wait.to > w.from {
			waits[s.Client()] = append(waits[s.Client()], wait)
		}
	}
	var all []interval
	for client, spans := range waits {
		all = append(all, common(joined(spans, int64(r.Params.RetryMax)), r.outages().majority(client))...)
	}
	return common([]interval{w}, union(all))
}

// deathToGrant is the longest time from a holder's death to the next grant.
func (r *record) deathToGrant() int64 {
	slowest := int64(0)
	for _, d := range r.losses() {
		if next := d.contest.grantAfter(d.at, d.session.Client()); next != nil && d.fault.Kind == killed {
			slowest = max(slowest, next.Acquire.Return.T-d.at)
		}
	}
	return slowest
}

// orphans counts keys that a node refused a set for, though none had been set or
// extended there for longer than a key may live.
func (r *record) orphans(n map[string]float64) {
	type spot struct{ node, key string }
	type age struct {
		set     int64
		counted bool
	}
	keys := map[spot]*age{}
	count := 0
	limit := plus(r.life(), int64(r.Params.Slack))
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
		case e.Op == history.OpSet && e.Cause == "" && !k.counted && e.Sent > plus(k.set, limit):
			k.counted = true
			count++
		}
	}
	if len(keys) > 0 && r.Params.TTL > 0 {
		n[OrphanKeys] = float64(count)
	}
}
