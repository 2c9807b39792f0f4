package checker

import (
	"cmp"
	"slices"

	"lockpick/harness/history"
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
	majorityDown = "a majority was down or out of reach"
	noAnswer     = "lease of a holder whose release got no answer"
	neverKnew    = "keys of a client that never got an answer"
	leftBehind   = "keys that a fault left behind"
	contention   = "contention"
)

func (r *record) availability(n map[string]float64, words map[string]string) {
	sum, locks := int64(0), 0
	var longest span
	var of *contest
	for _, c := range r.contests() {
		locks++
		windows := both(c.wanted(r), outside(c.believed()))
		sum += total(windows)
		for _, w := range windows {
			if w.length() > longest.length() {
				longest, of = w, c
			}
		}
	}
	if elapsed := r.elapsed(); locks > 0 && elapsed > 0 {
		n[UnavailableSeconds] = history.Seconds(sum)
		n[UnavailableShare] = float64(sum) / float64(elapsed) / float64(locks)
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

// wanted is where somebody was trying to acquire a lock.
func (c *contest) wanted(r *record) []span {
	spans := make([]span, 0, len(c.sessions))
	for _, s := range c.sessions {
		spans = append(spans, r.wait(s))
	}
	return joined(spans, 0)
}

// believed is where somebody believed to hold a lock.
func (c *contest) believed() []span {
	spans := make([]span, 0, len(c.grants))
	for _, t := range c.tenures {
		if t.session.granted() {
			spans = append(spans, span{t.session.acquire.ret.T, t.believed})
		}
	}
	return union(spans)
}

// whyUnavailable is what filled most of a window in which nobody held a lock that
// somebody wanted. What nothing else explains is contention: somebody acquires,
// or split votes.
func (r *record) whyUnavailable(c *contest, w span) string {
	down := r.outages()
	var reached []span
	for client, waits := range r.waits(c) {
		reached = append(reached, both(waits, down.majority(client, nil))...)
	}
	lost := map[*session]string{}
	for _, d := range r.losses() {
		lost[d.session] = "lease of a " + ways[d.fault.kind].holder
	}
	up := both([]span{w}, union(reached))
	filled := map[string]int64{majorityDown: w.length() - total(up)}
	for _, t := range c.tenures {
		rest := span{max(t.believed, t.from), t.to}
		if rest.from >= w.to || rest.to <= w.from || rest.from >= rest.to {
			continue
		}
		cause := cmp.Or(lost[t.session], contention)
		switch {
		case cause != contention:
		case !t.session.granted():
			cause = neverKnew
		case t.session.released() == never:
			cause = noAnswer
		}
		filled[cause] += within(up, rest)
	}
	for _, s := range both(up, outside(c.held)) {
		left := within(r.blocked(c), s)
		filled[leftBehind] += left
		filled[contention] += s.length() - left
	}
	causes := []string{}
	for cause := range filled {
		causes = append(causes, cause)
	}
	return slices.MinFunc(causes, func(a, b string) int {
		return cmp.Or(cmp.Compare(filled[b], filled[a]), cmp.Compare(a, b))
	})
}

// deathToGrant is the longest time from a holder's death to the next grant.
func (r *record) deathToGrant() int64 {
	slowest := int64(0)
	for _, d := range r.losses() {
		if next := d.contest.grantAfter(d.at, d.session.client); next != nil && d.fault.kind == killed {
			slowest = max(slowest, next.acquire.ret.T-d.at)
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
	count, any := 0, false
	limit := plus(r.life(), int64(r.params.Slack))
	for i := range r.events {
		e := &r.events[i]
		sets := e.Op == history.OpSet || e.Op == history.OpExtend
		if !sets || !isWire(e) {
			continue
		}
		any = true
		k := keys[spot{e.Node, e.Key}]
		if k == nil {
			k = &age{}
			keys[spot{e.Node, e.Key}] = k
		}
		switch {
		case e.Type != history.Fail:
			*k = age{set: max(k.set, applied(e))}
		case e.Op == history.OpSet && e.Cause == "" && !k.counted && e.Sent > plus(k.set, limit):
			k.counted = true
			count++
		}
	}
	if any && r.params.TTL > 0 {
		n[OrphanKeys] = float64(count)
	}
}
