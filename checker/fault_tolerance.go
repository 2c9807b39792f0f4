package checker

import (
	"fmt"
	"iter"
	"slices"

	"lockpick/harness/history"
)

// faultTolerance asks whether a lock can be had while a majority of nodes is up.
// It is put to the test wherever nobody holds a lock or may hold it (tenures.go),
// and some client that is trying to acquire goes on and reaches a majority
// (availability.go), be it another one after a while. Then somebody, though not that
// client, must acquire within
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
	case r.Params.Rounds == 0:
		return Result{Outcome: Undecided, Because: "the history has no number of rounds to wait, so there is no bound"}
	case len(r.Params.Nodes) == 0:
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
	case occasions == 0 && len(r.stalls()) > 0:
		return Result{Outcome: Undecided, Because: "the machine stood still, and at no other time did anybody want a free lock while a majority was available to them"}
	case occasions == 0:
		return Result{Outcome: Holds, Because: "nobody wanted a free lock while a majority was available to them"}
	}
	return Result{Outcome: Holds, Occasions: occasions, Because: fmt.Sprintf(
		"whenever a lock was free and a majority available to somebody who wanted it, somebody acquired within %s, in %s",
		seconds(r.rounds()), plural(occasions, "span"))}
}

// rounds is how long a lock that is free and available may go without a grant.
func (r *record) rounds() int64 {
	return int64(r.Params.Rounds)*int64(r.Params.NodeTimeout+r.Params.RetryMax) + int64(r.Params.Slack)
}

// gap is a span in which nobody held a lock or may have held it. An acquire that is under
// way, with whatever keys, ends none.
type gap struct {
	interval
	before *session // who held it last, nil at the begin
	next   *session // who held it next, or may have, nil at the end
	asked  int64    // next's first key was set then, or later than the begin
}

// gaps is in the order of time.
func (r *record) gaps(c *contest) iter.Seq[gap] {
	return func(yield func(gap) bool) {
		g := gap{interval: interval{ever, never}}
		for _, t := range r.tenancies(c) {
			if t.from >= t.to {
				continue // its keys had lapsed before its acquire was over
			}
			if g.from < t.from {
				g.to, g.next, g.asked = t.from, t.session, min(max(t.set, g.from+1), t.from)
				if !yield(g) {
					return
				}
			}
			if t.to > g.from {
				g.from, g.before = t.to, t.session
			}
		}
		g.to, g.next = never, nil
		if g.from < never {
			yield(g)
		}
	}
}

// drought is a span in which one client could have had a free lock all the
// time, or where none could, always one of several, and nobody got it.
type drought struct {
	interval
	contest *contest
	clients []string
	gap     gap
}

// droughts finds a lock's droughts that were too long, at most one for each gap,
// and how many gaps were judged: those that were too long, and those that ended in
// a grant to somebody who was available.
func (r *record) droughts(c *contest) (judged int, long []drought) {
	for g := range r.gaps(c) {
		d, ok := r.drought(c, g)
		switch {
		case ok:
			judged++
			long = append(long, d)
		case g.next != nil && g.next.Granted() && meets(r.available(c, g.next.Client()), interval{g.asked - 1, g.asked}):
			judged++
		}
	}
	return judged, long
}

// drought finds the longest in a gap that was too long.
func (r *record) drought(c *contest, g gap) (d drought, found bool) {
	if g.length() <= r.rounds() {
		return d, false
	}
	w := r.callers(c)
	var all []interval // of whomever
	var waiting []string
	for _, client := range w.clients(g.to, w.until, g.from) {
		could := common(common(r.waits(c, client, g.interval), r.available(c, client)), []interval{g.interval})
		for _, s := range could {
			if s.length() > r.rounds() && s.length() > d.length() {
				d, found = drought{interval: s, contest: c, clients: []string{client}, gap: g}, true
			}
		}
		if len(could) > 0 {
			all, waiting = append(all, could...), append(waiting, client)
		}
	}
	if found {
		return d, true
	}
	for _, s := range union(all) {
		if s.length() > r.rounds() && s.length() > d.length() {
			d, found = drought{interval: s, contest: c, clients: waiting, gap: g}, true
		}
	}
	return d, found
}

// starved tells of a drought: who waited, since when the lock was free.
func (r *record) starved(d drought) Result {
	w := &Witness{Key: d.contest.name, From: d.from, To: d.to}
	var events []*history.Event
	since := "it had never been held"
	if s := d.gap.before; s != nil {
		since = fmt.Sprintf("the last hold of %s had ended by %s", s.Client(), seconds(d.gap.from))
		w.Sessions = append(w.Sessions, s.Name())
		events = append(events, r.ending(d.contest, s)...)
	}
	waiters := 0
	for _, client := range d.contest.names {
		later := outliving(r.of(d.contest)[client], d.from)
		if len(later) == 0 || later[0].Acquire.Call.T >= d.to {
			continue
		}
		s := later[0] // one of each client is enough
		if slices.Contains(d.clients, client) && len(w.Sessions) < 2 {
			w.Sessions = append(w.Sessions, s.Name())
		}
		events = append(events, s.Acquire.Call)
		waiters++
	}
	w.Events = numbered(events)
	cause, why := r.whyDry(d.contest, d.interval)
	return Result{
		Outcome: Violated, Witness: w, Cause: cause,
		Because: fmt.Sprintf("%s could have had %s from %s to %s (%s), a majority being available, and %s tried, but nobody acquired it within %s: %s; %s",
			list(d.clients), lockName(d.contest.name), seconds(d.from), seconds(d.to), seconds(d.to-d.from),
			plural(waiters, "client"), seconds(r.rounds()), since, why),
	}
}

// ending is the events that show how a session's hold ended: the release, and
// the last key that was set where that was what ended it.
func (r *record) ending(c *contest, s *session) []*history.Event {
	t := r.tenureOf(s, c.wire)
	events := []*history.Event{s.Acquire.Call, s.Acquire.Return}
	for x := range s.Releases() {
		if x.Return != nil && x.Return.T == t.to {
			return append(events, x.Return)
		}
		if t.to < t.lapse { // the nodes say so
			return append(events, x.Call)
		}
	}
	return append(events, t.last)
}
