package checker

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/harness/history"
)

// faultTolerance asks whether a lock can be had while a majority of nodes is up.
// It is put to the test wherever nobody holds a lock or may hold it (tenures.go),
// and some client that is trying to acquire goes on and reaches a majority
// (availability.go). Then somebody, though not that client, must acquire within
//
//	k·(NodeTimeout + RetryMax) + Slack
//
// which is k rounds of the slowest kind. One lost split vote is no violation;
// a lock by which k rounds of everybody come to nothing is not available. The
// same bound is used after a release: with two waiters or more the first round
// may be lost to a split vote there, too, so one retry delay can't be promised.
func faultTolerance(r *record) Result {
	if missing := r.missingFigure(); missing != "" {
		return Result{Outcome: Undecided, Because: "the history has no " + missing + ", so there is no bound"}
	}
	switch {
	case r.params.Rounds == 0:
		return Result{Outcome: Undecided, Because: "the history has no number of rounds to wait, so there is no bound"}
	case len(r.params.Nodes) == 0:
		return Result{Outcome: Undecided, Because: "the history has no nodes, so there is no majority"}
	}
	occasions, incidents := 0, 0
	var worst *drought
	for _, c := range r.contests() {
		n, droughts := r.droughts(c)
		occasions, incidents = occasions+n, incidents+len(droughts)
		for _, d := range droughts {
			if worst == nil || d.length() > worst.length() {
				worst = &d
			}
		}
	}
	switch {
	case worst != nil:
		res := r.starved(*worst)
		res.Occasions, res.Incidents = occasions, incidents
		return res
	case occasions == 0:
		return Result{Outcome: Holds, Because: "nobody wanted a free lock while a majority was available to them"}
	}
	return Result{Outcome: Holds, Occasions: occasions, Because: fmt.Sprintf(
		"whenever a lock was free and a majority available to somebody who wanted it, somebody acquired within %s, in %s",
		seconds(r.rounds()), plural(occasions, "span"))}
}

// rounds is how long a lock that is free and available may go without a grant.
func (r *record) rounds() int64 {
	return int64(r.params.Rounds)*int64(r.params.NodeTimeout+r.params.RetryMax) + int64(r.params.Slack)
}

// drought is a span in which one client could have had a free lock all the
// time, and nobody got it.
type drought struct {
	span
	contest *contest
	client  string
	gap     int // the free span that it lies in
}

// droughts finds a lock's droughts that were too long, at most one for each span
// in which it was free, and how many of these spans were judged: those that ended
// in a grant while somebody could have had it, or were too long.
func (r *record) droughts(c *contest) (judged int, long []drought) {
	free := outside(c.held)
	seen := map[int]bool{}
	found := map[int]drought{}
	for client, waits := range r.waits(c) {
		gap := 0
		for _, s := range both(both(waits, r.available(c, client)), free) {
			for free[gap].to <= s.from {
				gap++
			}
			if s.to == free[gap].to && s.to != never {
				seen[gap] = true
			}
			if s.length() > r.rounds() {
				seen[gap] = true
				d := drought{span: s, contest: c, client: client, gap: gap}
				if old, ok := found[gap]; !ok || s.length() > old.length() || s.length() == old.length() && client < old.client {
					found[gap] = d
				}
			}
		}
	}
	for _, d := range found {
		long = append(long, d)
	}
	slices.SortFunc(long, func(a, b drought) int { return cmp.Compare(a.from, b.from) })
	return len(seen), long
}

// waits is, by client, where it was trying to acquire a lock. Who calls again
// within a retry delay of a failure has not stopped trying.
func (r *record) waits(c *contest) map[string][]span {
	waits := map[string][]span{}
	for _, s := range c.sessions {
		waits[s.client] = append(waits[s.client], r.wait(s))
	}
	for client, spans := range waits {
		waits[client] = joined(spans, int64(r.params.RetryMax))
	}
	return waits
}

// wait is where a session's client was trying to acquire.
func (r *record) wait(s *session) span {
	to := min(s.acquire.returned(), r.end)
	if t, ok := r.gone[s.client]; ok {
		to = min(to, t)
	}
	return span{s.acquire.call.T, to}
}

// starved tells of a drought: who waited, since when the lock was free.
func (r *record) starved(d drought) Result {
	w := &Witness{Key: d.contest.key, From: d.from, To: d.to}
	var events []*history.Event
	since := "it had never been held"
	if h := d.contest.holderBefore(d.from); h != nil {
		since = fmt.Sprintf("the last hold of %s had ended by %s", h.session.client, seconds(h.to))
		w.Sessions = append(w.Sessions, h.session.name)
		events = append(events, h.ending())
	}
	waiters := map[string]bool{}
	for _, s := range d.contest.sessions {
		if wait := r.wait(s); wait.from < d.to && wait.to > d.from {
			if s.client == d.client && !waiters[s.client] {
				w.Sessions = append(w.Sessions, s.name)
			}
			if !waiters[s.client] {
				events = append(events, s.acquire.call)
			}
			waiters[s.client] = true
		}
	}
	w.Events = numbered(events)
	return Result{
		Outcome: Violated, Witness: w,
		Because: fmt.Sprintf("%s could have had %s from %s to %s (%s) and tried all the time, of %s, but nobody acquired it within %s: %s",
			d.client, lockName(d.contest.key), seconds(d.from), seconds(d.to), seconds(d.to-d.from),
			plural(len(waiters), "client that tried"), seconds(r.rounds()), since),
	}
}

// holderBefore is the hold that ended last of those before an instant, or nil.
func (c *contest) holderBefore(at int64) *tenure {
	var last *tenure
	for i := range c.tenures {
		if h := &c.tenures[i]; h.to <= at && (last == nil || h.to > last.to) {
			last = h
		}
	}
	return last
}

// ending is the event that shows how a hold ended: the release, or the last key that was set.
func (h *tenure) ending() *history.Event {
	for _, x := range h.session.releases {
		if x.outcome() != history.Info && x.ret.T == h.to {
			return x.ret
		}
	}
	if h.last != nil {
		return h.last
	}
	return cmp.Or(h.session.acquire.ret, h.session.acquire.call)
}
