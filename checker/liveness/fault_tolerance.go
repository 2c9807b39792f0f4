package liveness

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// FaultTolerance asks whether a lock can be had while a majority of nodes is up.
// It is put to the test wherever nobody holds a lock or may hold it (hold.go),
// and some client that is trying to acquire goes on and reaches a majority
// (outages.go), be it another one after a while. Then somebody, though not that
// client, must acquire within
//
//	k·(NodeTimeout + RetryMax) + Slack
//
// which is k rounds of the slowest kind. One lost split vote is no violation;
// a lock by which k rounds of everybody come to nothing is not available. The
// same bound is used after a release: with two waiters or more the first round
// may be lost to a split vote there, too, so one retry delay can't be promised. Nor may a
// call take that and a TTL (hung.go).
//
// Where the host stalled the bound is longer (stalls.go). A span that is too long and for which only
// stalls or a slow host may be to blame leaves the property undecided.
func (r *Run) FaultTolerance() verdict.Result {
	if missing := missingFigure(&r.Params); missing != "" {
		return verdict.Result{Outcome: verdict.Undecided, Because: "the history has no " + missing + ", so there is no bound"}
	}
	switch {
	case r.Params.Rounds == 0:
		return verdict.Result{Outcome: verdict.Undecided, Because: "the history has no number of rounds to wait, so there is no bound"}
	case len(r.Params.Nodes) == 0:
		return verdict.Result{Outcome: verdict.Undecided, Because: "the history has no nodes, so there is no majority"}
	}
	f := r.tolerated()
	res := verdict.Result{Outcome: verdict.Holds, Because: "nobody wanted a free lock while a majority was available to them"}
	switch {
	case len(f.long) > 0:
		res = starved(slices.MaxFunc(f.long, func(a, b unavailability) int { return cmp.Compare(a.Length(), b.Length()) }))
	case len(f.hung) > 0:
		res = f.hung[0].tell()
	case f.open != "":
		res = verdict.Result{Outcome: verdict.Undecided, Because: f.open}
	case f.judged > 0:
		res.Because = fmt.Sprintf("whenever a lock was free and a majority available to somebody who wanted it, somebody acquired within %s, in %s",
			facts.Seconds(rounds(&r.Params)), verdict.Plural(f.judged, "span"))
	}
	res.Incidents = len(f.long) + len(f.hung)
	res.Occasions = f.judged + res.Incidents
	return res
}

// Unavailabilities is each span in which nobody acquired a lock that was to be had, and each
// call that hung.
func (r *Run) Unavailabilities() (all []verdict.Incident) {
	f := r.tolerated()
	for _, d := range f.long {
		all = append(all, verdict.Incident{From: d.From, Tell: func() verdict.Result { return starved(d) }})
	}
	for _, d := range f.hung {
		all = append(all, verdict.Incident{From: d.From, Tell: d.tell})
	}
	return all
}

// tolerance sums up the gaps and the hung calls of all locks.
type tolerance struct {
	judged int              // gaps that ended in a grant to somebody who was available
	long   []unavailability // too long, whatever the host did; at most one for each gap
	hung   []stuck          // likewise
	open   string           // tells of the first that was too long and for which the host may be to blame
}

func (r *Run) tolerated() (f tolerance) {
	for _, c := range r.locks {
		begun := len(f.long)
		for g := range gaps(c) {
			d, found := longestIn(c, g, c.surelyAvailable, func(clients []string, s spans.Span) int64 { return rounds(&c.Params) + c.delayed(clients, s) })
			if found {
				f.long = append(f.long, d)
				continue
			}
			if c.real() {
				d, found = longestIn(c, g, c.available, func([]string, spans.Span) int64 { return rounds(&c.Params) })
			}
			switch {
			case found:
				f.open = cmp.Or(f.open, d.excuse())
			case g.next != nil && g.next.Granted() && spans.Meets(c.available(g.next.Client()), spans.Of(g.asked-1, g.asked)):
				f.judged++
			}
		}
		hung, open := stuckIn(c, f.long[begun:])
		f.hung, f.open = append(f.hung, hung...), cmp.Or(f.open, open)
	}
	return f
}

// gap is a span in which nobody held a lock or may have held it. An acquire that is under
// way, with whatever keys, ends none.
type gap struct {
	spans.Span
	before *facts.Session // who held it last, nil at the begin
	next   *facts.Session // who held it next, or may have, nil at the end
	asked  int64          // next's first key was set then, or later than the begin
}

// gaps is in the order of time.
func gaps(c *lockState) iter.Seq[gap] {
	return func(yield func(gap) bool) {
		g := gap{Span: spans.Of(spans.Ever, facts.Never)}
		for _, t := range c.holders() {
			if t.From >= t.To {
				continue // its keys had lapsed before its acquire was over
			}
			if g.From < t.From {
				g.To, g.next, g.asked = t.From, t.session, min(max(t.set, g.From+1), t.From)
				if !yield(g) {
					return
				}
			}
			if t.To > g.From {
				g.From, g.before = t.To, t.session
			}
		}
		g.To, g.next = facts.Never, nil
		if g.From < facts.Never {
			yield(g)
		}
	}
}

// unavailability is a span in which one client could have had a free lock all the
// time, or where none could, always one of several, and nobody got it.
type unavailability struct {
	spans.Span
	lock    *lockState
	clients []string
	gap     gap
}

// longestIn finds the longest in a gap that was longer than a bound.
func longestIn(c *lockState, g gap, available func(client string) []spans.Span, bound func(clients []string, s spans.Span) int64) (d unavailability, found bool) {
	if g.Length() <= rounds(&c.Params) {
		return d, false
	}
	longest := func(list []spans.Span, clients []string) {
		for _, s := range list {
			if s.Length() > rounds(&c.Params) && s.Length() > d.Length() && s.Length() > bound(clients, s) {
				d, found = unavailability{Span: s, lock: c, clients: clients, gap: g}, true
			}
		}
	}
	w := c.callers()
	var all []spans.Span // of whomever
	var waiting []string
	for _, client := range w.clients(g.To, w.until, g.From) {
		could := spans.Common(spans.Common(c.waits(client, g.Span), available(client)), []spans.Span{g.Span})
		longest(could, []string{client})
		if len(could) > 0 {
			all, waiting = append(all, could...), append(waiting, client)
		}
	}
	if !found {
		longest(spans.Union(all), waiting)
	}
	return d, found
}

// excuse tells of an unavailability that the host may have brought about.
func (d unavailability) excuse() string {
	why := "the host was slow, which may be why keys stayed on nodes"
	if len(d.lock.stalls) > 0 {
		why = d.lock.stalledFor(d.Span)
	}
	return fmt.Sprintf("nobody acquired %s %s, though %s could have within %s; %s", verdict.LockName(d.lock.name),
		facts.FromTo(d.From, d.To), verdict.List(d.clients), facts.Seconds(rounds(&d.lock.Params)), why)
}

// starved tells of an unavailability: who waited, since when the lock was free.
func starved(d unavailability) verdict.Result {
	w := &verdict.Witness{Key: d.lock.name, From: d.From, To: d.To}
	var events []*history.Event
	since := "it had never been held"
	if s := d.gap.before; s != nil {
		since = fmt.Sprintf("the last hold of %s had ended by %s", s.Client(), facts.Seconds(d.gap.From))
		w.Sessions = append(w.Sessions, s.Name())
		events = append(events, ending(d.lock, s)...)
	}
	waiters := 0
	for _, client := range d.lock.names {
		later := outliving(d.lock.byClient()[client], d.From)
		if len(later) == 0 || later[0].Acquire.Call.T >= d.To {
			continue
		}
		s := later[0] // one of each client is enough
		if slices.Contains(d.clients, client) && len(w.Sessions) < 2 {
			w.Sessions = append(w.Sessions, s.Name())
		}
		events = append(events, s.Acquire.Call)
		waiters++
	}
	w.Events = verdict.Numbered(events)
	cause, why := whyNobody(d.lock, d.Span)
	within := facts.Seconds(rounds(&d.lock.Params))
	if late := d.lock.delayed(d.clients, d.Span); late > 0 {
		within += fmt.Sprintf(", even if stalls of the host delayed it by %s", facts.Seconds(late))
	}
	return verdict.Result{
		Outcome: verdict.Violated, Witness: w, Cause: cause,
		Because: fmt.Sprintf("%s could have had %s %s, a majority being available, and %s tried, but nobody acquired it within %s: %s; %s",
			verdict.List(d.clients), verdict.LockName(d.lock.name), facts.FromTo(d.From, d.To),
			verdict.Plural(waiters, "client"), within, since, why),
	}
}

// ending is the events that show how a session's hold ended: the release, and
// the last key that was set where that was what ended it.
func ending(c *lockState, s *facts.Session) []*history.Event {
	t := c.hold(s)
	events := []*history.Event{s.Acquire.Call, s.Acquire.Return}
	for x := range s.Releases() {
		if x.Return != nil && x.Return.T == t.To {
			return append(events, x.Return)
		}
		if t.To < t.lapse { // the nodes say so
			return append(events, x.Call)
		}
	}
	return append(events, t.last)
}
