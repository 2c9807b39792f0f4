package liveness

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// FaultTolerance checks that a lock can be acquired while a majority of nodes is up. It applies
// wherever no client holds or may hold the lock (hold) and, at each instant, at least one client
// that is trying to acquire it is running and reaches a majority (outages). After a fault, the
// time counts from when clients can have noticed its end: slack after the end (faultSpan), and
// then a node timeout, the longest retry delay and slack (settled). Some client, not necessarily
// one of those, must acquire the lock within
//
//	k·(NodeTimeout + RetryMax) + Slack
//
// which is k rounds of maximum length. One lost split vote is no violation, but a lock is not
// available if k rounds fail for every client. The same bound applies after a release: with two or
// more waiters, a split vote may cost the first round, so one retry delay is not guaranteed. A
// single call may not take longer than this bound plus a TTL (stuckCall).
//
// Host stalls extend the bound (lockState.delayed). A span that exceeds the bound leaves the
// property undecided if only stalls or a slow host may explain it.
func (r *Run) FaultTolerance() (f verdict.Finding) {
	if missing := missingFigure(&r.Params); missing != "" {
		return verdict.Finding{Undecided: "the history has no " + missing + ", so there is no bound"}
	}
	switch {
	case r.Params.Rounds == 0:
		return verdict.Finding{Undecided: "the history has no number of rounds to wait, so there is no bound"}
	case len(r.Params.Nodes) == 0:
		return verdict.Finding{Undecided: "the history has no nodes, so there is no majority"}
	}
	judged := 0 // gaps that ended in a grant to a client that reached a majority
	longest := int64(0)
	var hung []verdict.Incident
	for _, c := range r.locks {
		var long []unavailability // too long even allowing for the host; at most one per gap
		for g := range gaps(c) {
			d, found := longestIn(c, g, c.surelyAvailable, func(clients []string, s spans.Span) int64 { return rounds(&c.Params) + c.delayed(clients, s) })
			if found {
				long = append(long, d)
				f.Incidents = append(f.Incidents, verdict.Incident{From: d.From, Tell: func() verdict.Result { return starved(d) }})
				if d.Length() > longest {
					longest, f.Worst = d.Length(), f.Incidents[len(f.Incidents)-1].Tell
				}
				continue
			}
			if c.real() {
				d, found = longestIn(c, g, c.available, func([]string, spans.Span) int64 { return rounds(&c.Params) })
			}
			switch {
			case found: // the host may explain it
				f.Undecided = cmp.Or(f.Undecided, d.excuse())
			case g.next != nil && g.next.Granted() && spans.Meets(c.available(g.next.Client()), spans.Of(g.asked-1, g.asked)):
				judged++
			}
		}
		calls, open := stuckIn(c, long)
		hung, f.Undecided = append(hung, calls...), cmp.Or(f.Undecided, open)
	}
	f.Incidents = append(f.Incidents, hung...)
	f.Occasions = judged + len(f.Incidents)
	f.Because = "no client wanted a free lock while it could reach a majority"
	if judged > 0 {
		f.Because = fmt.Sprintf("whenever a lock was free and a client that wanted it could reach a majority, some client acquired it within %s (%s)",
			facts.Seconds(rounds(&r.Params)), verdict.Plural(judged, "span"))
	}
	return f
}

// gap is a span in which nobody held or may have held a lock. An acquire in progress does not
// end a gap, even if it has set keys.
type gap struct {
	spans.Span
	before *facts.Session // last holder before the gap; nil at the beginning of the record
	next   *facts.Session // next holder or possible holder; nil at the end of the record
	asked  int64          // when next's first key was set, but later than From
}

// gaps yields the gaps of a lock by time.
func gaps(c *lockState) iter.Seq[gap] {
	return func(yield func(gap) bool) {
		g := gap{Span: spans.Of(spans.Ever, facts.Never)}
		for _, t := range c.holders() {
			if t.From >= t.To {
				continue // the keys had lapsed before the acquire ended
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

// unavailability is a span in which a lock was free and nobody acquired it, although one client
// could have at any time or, failing that, at least one of several clients could have.
type unavailability struct {
	spans.Span
	lock    *lockState
	clients []string
	gap     gap
}

// longestUnavailability finds the longest unavailability in a gap that exceeds a bound.
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
	var all []spans.Span // of all clients
	var waiting []string
	w := c.callers()
	for _, client := range w.clients(g.To, w.until, g.From) {
		could := c.couldAcquire(c.waits(client, g.Span), g.Span, available(client))
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

// undecidedMessage describes an unavailability that the host may have caused.
func (d unavailability) excuse() string {
	why := "the host was slow, which may be why keys stayed on nodes"
	if len(d.lock.stalls) > 0 {
		why = d.lock.stalledFor(d.Span)
	}
	return fmt.Sprintf("nobody acquired %s %s, though %s could have within %s; %s", verdict.LockName(d.lock.name),
		facts.FromTo(d.From, d.To), verdict.List(d.clients), facts.Seconds(rounds(&d.lock.Params)), why)
}

// describeUnavailability says who waited and since when the lock was free.
func starved(d unavailability) verdict.Result {
	w := &verdict.Witness{Key: d.lock.name, From: d.From, To: d.To}
	var events []*history.Event
	since := "it had never been held"
	if s := d.gap.before; s != nil {
		since = fmt.Sprintf("its last hold, by %s, had ended by %s", s.Client(), facts.Seconds(d.gap.From))
		w.Sessions = append(w.Sessions, s.Name())
		events = append(events, ending(d.lock, s)...)
	}
	waiters := 0
	for _, client := range d.lock.names {
		later := outliving(d.lock.byClient()[client], d.From)
		if len(later) == 0 || later[0].Acquire.Call.T >= d.To {
			continue
		}
		s := later[0] // one session per client is enough
		if slices.Contains(d.clients, client) && len(w.Sessions) < 2 {
			w.Sessions = append(w.Sessions, s.Name())
		}
		events = append(events, s.Acquire.Call)
		waiters++
	}
	w.Events = verdict.Numbered(events)
	cause, why := whyNobody(d.lock, d.Span)
	within := facts.Seconds(rounds(&d.lock.Params))
	late := d.lock.delayed(d.clients, d.Span)
	if late > 0 {
		within += fmt.Sprintf(" plus %s for host stalls", facts.Seconds(late))
	}
	return verdict.Result{
		Outcome: verdict.Violated, Witness: w, Cause: cause, Bound: rounds(&d.lock.Params) + late,
		Because: fmt.Sprintf("%s could have acquired %s %s because a majority was available, and %s tried, but nobody acquired it within %s: %s; %s",
			verdict.List(d.clients), verdict.LockName(d.lock.name), facts.FromTo(d.From, d.To),
			verdict.Plural(waiters, "client"), within, since, why),
	}
}

// holdEndEvents returns the events that show how a session's hold ended: the release or, if its
// keys lapsed, the last key that was set.
func ending(c *lockState, s *facts.Session) []*history.Event {
	t := c.hold(s)
	events := []*history.Event{s.Acquire.Call, s.Acquire.Return}
	for x := range s.Calls(history.OpRelease) {
		if x.Return != nil && x.Return.T == t.To {
			return append(events, x.Return)
		}
		if t.To < t.lapse { // the nodes' own data shows that the release ended it
			return append(events, x.Call)
		}
	}
	return append(events, t.last)
}

// Causes of a window of unavailability other than the lease of a lost holder.
const (
	stoodStill   = "the host stalled"
	majorityDown = "a majority was down or unreachable"
	noAnswer     = "lease of a holder whose release got no answer"
	neverKnew    = "keys of a client that never got an answer"
	leftBehind   = "keys left behind by a fault"
	rivalry      = "contention"
)

// measureAvailability measures how long locks were unavailable, and explains the longest window.
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
		n["unavailable-seconds"] = history.Seconds(sum)
		n["unavailable-share"] = float64(sum) / float64(elapsed) / float64(len(r.Locks))
	}
	if of != nil {
		n[verdict.UnavailableMax] = history.Seconds(longest.Length())
		words[verdict.UnavailableMax] = whyUnavailable(of, r.losses, longest)
	}
	if slowest := deathToGrant(r.losses); slowest > 0 {
		n["death-to-grant-max"] = history.Seconds(slowest)
	}
	orphans(r.conditions, n)
}

// unavailableSpans yields the spans in which a client was trying to acquire a lock and no client
// believed that it held the lock, by time.
func unavailable(c *lockState, belief []spans.Window) iter.Seq[spans.Span] {
	return func(yield func(spans.Span) bool) {
		belief := belief
		until := int64(spans.Ever) // latest end of the windows so far
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

// explainWindow returns what filled most of a window in which nobody held a lock that somebody
// wanted. The lease of a lost holder takes precedence, then a majority that is down, then all other
// causes. Time without any of these counts as contention: an acquire in progress, split votes, or
// leftover keys of failed attempts.
func whyUnavailable(c *lockState, losses []loss, w spans.Span) string {
	lost := map[*facts.Session]string{}
	for _, d := range losses {
		lost[d.session] = "lease of a " + ways[d.fault.Kind].holder
	}
	near := near(c, w)
	waits := map[string][]spans.Span{} // client name → spans
	for _, s := range near {
		if wait := spans.Wait(c.Facts, s); wait.From < w.To && wait.To > w.From {
			waits[s.Client()] = append(waits[s.Client()], wait)
		}
	}
	var reached []spans.Span // where some client reached a majority
	for client, list := range waits {
		reached = append(reached, c.couldAcquire(list, w, c.down.majority(client))...)
	}
	up := spans.Common(spans.Union(reached), spans.Outside(c.stalls))
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
	return heaviest(filled)
}

// heaviestCause returns the cause with the greatest weight. Ties are broken by the order of
// unavailabilityCauses, then alphabetically.
func heaviest(weights map[string]int64) string {
	return slices.MinFunc(slices.Collect(maps.Keys(weights)), func(a, b string) int {
		return cmp.Or(cmp.Compare(weights[b], weights[a]),
			cmp.Compare(slices.Index(unavailabilityCauses, a), slices.Index(unavailabilityCauses, b)), cmp.Compare(a, b))
	})
}

// sessionsNear returns the sessions that may affect a window: those called before its end whose
// acquire ended at most three key lifetimes before its start. It misses a lease that was extended
// for longer than that before it got stuck.
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

// maxDeathToGrant returns the longest time from a holder's death to the next grant.
func deathToGrant(losses []loss) int64 {
	slowest := int64(0)
	for _, d := range losses {
		if next := d.lock.grantAfter(d.at, d.session); next != nil && d.fault.Kind == facts.Kill {
			slowest = max(slowest, next.Acquire.Return.T-d.at)
		}
	}
	return slowest
}

// unavailabilityCauses defines how heaviestCause breaks ties.
var unavailabilityCauses = []string{verdict.LeftKeys, verdict.OutlivedTTL, verdict.NoMajority, verdict.WaitedLong, verdict.SplitVote, verdict.TurnedAway, verdict.TooFewVotes, verdict.GaveUp}

// explainUnavailability returns the most frequent cause of the failed attempts in a span in which
// nobody acquired a lock, and describes the first attempt with this cause. What blocked an attempt
// is read from the nodes' own data.
//
//	a call did not return, and contacted no node for all rounds       hung
//	the same, but it returned, or had paused for that long before     waited-long, if no client tried in most of the span
//	most attempts                                                     see voteTally.cause
//	no attempt, and a client paused for longer than a round           waited-long
func whyNobody(c *lockState, in spans.Span) (cause, text string) {
	if !c.Params.Life {
		return verdict.Unexplained, "the record has no facts of the nodes"
	}
	if c.wire == nil {
		if n, first := gaveUp(c, in); n > 0 {
			return verdict.GaveUp, first
		}
		return verdict.Unexplained, "no attempt was recorded on the links"
	}
	quiet := silent(c, in, rounds(&c.Params))
	if quiet.hangs {
		return verdict.Hung, quiet.text
	}
	attempts := attemptsBefore(c.wire, in.To)
	count, first := met(c, attempts, in)
	if quiet.session != nil && count[verdict.WaitedLong] == 0 && in.To-max(in.From, lastLost(attempts)) > in.Length()/2 {
		return verdict.WaitedLong, quiet.text
	}
	if len(count) == 0 {
		for _, a := range attempts {
			if a.Won && c.tooLong(a, in) {
				return verdict.Unexplained, fmt.Sprintf("%s's attempt at %s took %s, and then acquired the lock", a.Session.Client(), facts.Seconds(a.From), facts.Seconds(c.ended(a)-a.From))
			}
		}
		round := int64(c.Params.RetryMax + 2*c.Params.NodeTimeout + c.Params.Slack)
		switch quiet = silent(c, spans.Of(spans.Ever, in.To), round); {
		case quiet.hangs:
			return verdict.Hung, quiet.text
		case quiet.session != nil:
			return verdict.WaitedLong, quiet.text
		}
		return verdict.Unexplained, "no attempt began in that time"
	}
	cause = heaviest(count)
	return cause, first[cause]
}

// countCauses counts the attempts of a span by the cause of their failure, and describes the first
// attempt of each cause. It skips attempts that lost to one with a quorum, because the cause is
// what happened to that one.
func met(c *lockState, attempts []*facts.Attempt, in spans.Span) (count map[string]int64, first map[string]string) {
	count, first = map[string]int64{}, map[string]string{}
	add := func(cause, text string) {
		if count[cause]++; count[cause] == 1 {
			first[cause] = text
		}
	}
	if n, text := gaveUp(c, in); n > 0 {
		count[verdict.GaveUp], first[verdict.GaveUp] = n, text
	}
	owners := map[string][]*facts.Attempt{} // token → attempts
	for _, a := range attempts {
		owners[a.Token] = append(owners[a.Token], a)
	}
	for _, a := range attempts {
		if silent := c.waitedFor(a, in); len(silent) > 0 {
			add(verdict.WaitedLong, fmt.Sprintf("%s's attempt at %s took %s, and %s", a.Session.Client(), facts.Seconds(a.From), facts.Seconds(c.ended(a)-a.From), lasted(c, a, silent)))
			continue
		}
		if a.From < in.From || a.Won {
			continue
		}
		m := encounters(c.conditions, c.name, a, owners)
		if cause, text := m.cause(&c.Params); cause != "" {
			add(cause, fmt.Sprintf("%s's attempt at %s %s", a.Session.Client(), facts.Seconds(a.From), text))
		}
	}
	return count, first
}

// lastFailedStart returns when the last failed attempt began.
func lastLost(attempts []*facts.Attempt) int64 {
	for _, a := range slices.Backward(attempts) {
		if !a.Won {
			return a.From
		}
	}
	return spans.Ever
}

// countGaveUp counts the acquires in a span that returned without the lock on their own and without
// contacting any node, and describes the first.
func gaveUp(c *lockState, in spans.Span) (n int64, first string) {
	asked := map[string][]int64{} // client name → times at which it sent a command
	for _, e := range c.Sent() {
		asked[facts.Sender(e)] = append(asked[facts.Sender(e)], e.Sent)
	}
	for s := range c.called {
		if s.Acquire.Call.T >= in.To {
			break
		}
		if s.Granted() || c.Unreturned(s.Acquire) || s.Ended < in.From {
			continue
		}
		of := asked[s.Client()]
		if i, _ := slices.BinarySearch(of, s.Called); i < len(of) && of[i] <= s.Ended || !spans.Covering(c.down.majority(s.Client()), spans.Of(s.Called, s.Ended)) {
			continue
		}
		if n++; n == 1 {
			first = fmt.Sprintf("%s's acquire at %s returned an error at %s and contacted no node", s.Client(), facts.Seconds(s.Called), facts.Seconds(s.Ended))
		}
	}
	return n, first
}

// idleAcquire is an acquire in progress that contacted no node.
type quiet struct {
	session *facts.Session // nil if there is no such acquire
	hangs   bool           // it had not returned by the limit, and no attempt on this lock followed such a long pause
	text    string
}

// findIdleAcquire returns the first acquire that was in progress until the end of a span and
// contacted no node for longer than patience, although it reached a majority of nodes without a
// key. A hung acquire takes precedence.
func silent(c *lockState, in spans.Span, patience int64) (found quiet) {
	asked := c.asked(in.To)
	callers := c.callers()
	for s := range callers.lasting(in.To-1, callers.until, in.To-1) {
		since := max(s.Called, asked[s])
		pause := spans.Of(max(since, in.From), in.To)
		hangs := hangs(c, s.Acquire, spans.Of(since, in.To))
		if found.session != nil && !hangs || spans.Share(spans.Common(c.available(s.Client()), keyless(c, s.Client())), pause) <= patience {
			continue
		}
		found = quiet{s, hangs, fmt.Sprintf("%s's acquire, called at %s, contacted no node after %s", s.Client(), facts.Seconds(s.Called), facts.Seconds(since))}
		if hangs {
			break
		}
		found.text = fmt.Sprintf("%s's acquire, called at %s, contacted no node from %s to %s, but the longest retry delay is %s",
			s.Client(), facts.Seconds(s.Called), facts.Seconds(since), facts.Seconds(in.To), facts.Seconds(int64(c.Params.RetryMax)))
	}
	return found
}

// isHung reports whether an idle call is hung: it had not returned by the limit, and this lock never
// retried after a pause half as long.
func hangs(c *lockState, call facts.Operation, pause spans.Span) bool {
	return c.Unreturned(call) && pause.Length() > 2*c.longestPause()
}

// longestPause finds the longest time between two attempts of one acquire.
func longestPause(c *lockState) (longest int64) {
	if c.wire == nil {
		return 0
	}
	last := map[*facts.Session]int64{}
	for _, a := range c.wire.Attempts {
		if at, ok := last[a.Session]; ok {
			longest = max(longest, a.From-at)
		}
		last[a.Session] = max(last[a.Session], lastSent(a))
	}
	return longest
}

// attemptsBefore lists the attempts that began before an instant.
func attemptsBefore(w *facts.Wire, until int64) []*facts.Attempt {
	n, _ := slices.BinarySearchFunc(w.Attempts, until, func(a *facts.Attempt, at int64) int { return cmp.Compare(a.From, at) })
	return w.Attempts[:n]
}

// lastRequests returns when each session without the lock last sent a command to a node, in
// attempts that began before an instant.
func (c *lockState) asked(until int64) map[*facts.Session]int64 {
	asked := map[*facts.Session]int64{}
	for _, a := range attemptsBefore(c.wire, until) {
		if a.Won { // the acquire ended with it
			continue
		}
		asked[a.Session] = max(asked[a.Session], lastSent(a))
	}
	return asked
}

// lastSetSent returns when the last set of an attempt was sent.
func lastSent(a *facts.Attempt) int64 {
	at := a.From
	for _, e := range a.Sets {
		at = max(at, e.Sent)
	}
	return at
}

// awaitedNodes returns the nodes whose missing or late answers may have delayed an attempt that took
// too long and overlaps a span.
func (c *lockState) waitedFor(a *facts.Attempt, in spans.Span) (silent []string) {
	if !c.tooLong(a, in) {
		return nil
	}
	asking := spans.Of(a.From, c.ended(a))
	for _, n := range c.Params.Nodes {
		missing := func(e *history.Event) bool { return e.Node == n && c.missing(e) }
		link := c.down.link(a.Session.Client(), n)
		answered := func(e *history.Event) bool {
			return e.Node == n && !c.missing(e) && !spans.Meets(link, spans.Of(a.From, e.Sent+1))
		}
		away := spans.Meets(link, asking) && !slices.ContainsFunc(a.Asked, answered)
		if away || slices.ContainsFunc(a.Sets, missing) || slices.ContainsFunc(a.Deletes, missing) {
			silent = append(silent, n)
		}
	}
	return silent
}

// explainLongAttempt says what an attempt that took too long was waiting for, given the nodes whose
// answers were late or missing: nodes that gave no answer, a pause after the last answer, or the
// late answers.
func lasted(c *lockState, a *facts.Attempt, late []string) string {
	ended, last := c.ended(a), a.From
	latest := map[string]*history.Event{} // node → the command answered last, or one never answered
	answered := func(e *history.Event) int64 { return cmp.Or(e.Answered, facts.Never) }
	for _, e := range slices.Concat(a.Asked, a.Deletes) {
		if e.Sent < a.From || e.Sent >= ended {
			continue
		}
		if l := latest[e.Node]; l == nil || answered(e) > answered(l) {
			latest[e.Node] = e
		}
		if answered(e) <= ended {
			last = max(last, e.Answered)
		}
	}
	var silent, slow []string
	for _, n := range late {
		switch e := latest[n]; {
		case e == nil || e.Answered == 0:
			silent = append(silent, n)
		case e.Answered > ended:
			slow = append(slow, fmt.Sprintf("%s had not answered by %s", n, facts.Seconds(ended)))
		case e.Op == history.OpRelease:
			slow = append(slow, fmt.Sprintf("%s did not answer the release until %s", n, facts.Seconds(e.Answered)))
		default:
			slow = append(slow, fmt.Sprintf("%s did not answer until %s", n, facts.Seconds(e.Answered)))
		}
	}
	switch {
	case len(silent) > 0:
		return verdict.List(silent) + " gave no answer"
	case len(slow) == 0 || ended-last > int64(c.Params.NodeTimeout+c.Params.RetryMax):
		return fmt.Sprintf("contacted no node for the lock from %s to %s", facts.Seconds(last), facts.Seconds(ended))
	}
	return verdict.List(slow)
}

// tookTooLong reports whether an attempt took longer than it takes to contact each node twice, one
// after the other, for keys and for fencing tokens, if none of them answers.
func (c *lockState) tooLong(a *facts.Attempt, in spans.Span) bool {
	to, patience := c.ended(a), 2*int64(len(c.Params.Nodes))*int64(c.Params.NodeTimeout)+int64(c.Params.Slack)
	return a.From < in.To && to > in.From && to-a.From > patience
}

// timedOut reports whether a node's answer did not arrive within the node timeout.
func (c *lockState) missing(e *history.Event) bool {
	return e.Answered == 0 || e.Answered-e.Sent > int64(c.Params.NodeTimeout)
}

// attemptEnd returns when an attempt acquired the lock or was undone, as far as the nodes' answers
// show. Without any sign that it was undone, that is the start of the attempt or, if an answer is
// missing, one maximum retry delay before Attempt.End.
func (c *lockState) ended(a *facts.Attempt) int64 {
	if a.Won {
		return a.Session.Acquire.Ended()
	}
	undone := int64(facts.Never)
	for _, d := range a.Deletes {
		if d.Sent >= a.From && c.missing(d) {
			return a.Over
		}
		undone = min(undone, max(d.Sent, a.From))
	}
	switch {
	case undone < facts.Never:
	case slices.ContainsFunc(a.Sets, c.missing):
		return max(a.From, a.Over-int64(c.Params.RetryMax))
	default:
		return a.From
	}
	return undone
}

// voteTally groups the nodes by their response to an attempt. Each node is in at most one list.
type encounter struct {
	left     []string        // nodes with a key of an attempt that was over
	by       []string        // for each node in leftKeys, what left the key: "c1's attempts", "c1's release at 3 s"
	kept     bool            // a release left at least one of these keys
	outlived []string        // nodes with a key that existed after its TTL
	gave     []string        // for each node in outlivedTTL, the expiry of the key: "c1 gave them 20 s to live"
	unheard  map[string]bool // nodes in leftKeys or outlivedTTL that did not refuse the attempt; true if unreachable
	rival    []string        // nodes that refused because of a key of another client's current attempt
	of       map[string]int  // for each other client, the number of nodes with a key of its current attempts
	away     []string        // nodes that were down or unreachable
	refused  []string        // nodes that refused without having a key
	own      []string        // nodes that refused because of the attempt's own key, if asked twice
	failed   []string        // nodes that answered with an error
	silent   []string        // nodes that had not answered by the node timeout or the end of the round
	yes      []string        // nodes that voted for the attempt
	asked    map[string]bool // nodes that were sent a set
	end      int64           // end of the round
}

// tallyVotes checks for each node how it answered, whether it had a key of another attempt, and
// whether it was reachable.
func encounters(c *conditions, key string, a *facts.Attempt, owners map[string][]*facts.Attempt) encounter {
	m := encounter{of: map[string]int{}, unheard: map[string]bool{}, asked: map[string]bool{}, end: min(roundEnd(a), c.End)}
	for _, e := range a.Asked {
		m.asked[e.Node] = true
	}
	for _, n := range c.Params.Nodes {
		answer := a.Answer(n, int64(c.Params.NodeTimeout))
		inTime := answer != nil && answer.Answered <= m.end
		away := spans.Meets(c.down.link(a.Session.Client(), n), spans.Of(a.From, a.To+1))
		other := inTheWay(c.Lives(), n, key, a, answer)
		var by *facts.Attempt
		if other != nil {
			by = owner(owners[other.Value], other)
		}
		switch {
		case inTime && answer.Type == history.OK:
			m.yes = append(m.yes, n)
			continue
		case answer != nil && answer.Type == history.OK: // the answer arrived too late
		case other != nil && (overdue(c, a, other) || by == nil || goneBack(c.Facts, by) <= a.From):
			m.leftover(c, a, other, by)
			if !inTime || answer.Cause != "" {
				m.unheard[n] = away
			}
			continue
		case other != nil && by.Session.Client() == a.Session.Client():
			continue
		case other != nil:
			m.of[by.Session.Client()]++
			if inTime && answer.Cause == "" {
				m.rival = append(m.rival, n)
				continue
			}
		case answer != nil && answer.Cause == "" && c.Lives().At(n, key, facts.Applied(answer)) != nil:
			m.own = append(m.own, n)
			continue
		case answer != nil && answer.Cause == "":
			m.refused = append(m.refused, n)
			continue
		}
		switch {
		case away:
			m.away = append(m.away, n)
		case inTime:
			m.failed = append(m.failed, n)
		case m.asked[n]:
			m.silent = append(m.silent, n)
		}
	}
	m.forgetUnmet()
	return m
}

// roundEnd returns when the client of an attempt stopped waiting for votes: when it undid the vote
// of a node that had answered, made another attempt, or returned.
func roundEnd(a *facts.Attempt) int64 {
	end := a.Over
	if end <= a.From {
		end = a.To
	}
	for _, d := range a.Deletes {
		answered := func(e *history.Event) bool { return e.Node == d.Node && e.Answered != 0 && e.Answered <= d.Sent }
		if d.Sent >= a.From && slices.ContainsFunc(a.Asked, answered) {
			end = min(end, d.Sent)
		}
	}
	return end
}

// expired reports whether a key's TTL was over when an attempt began.
func overdue(c *conditions, a *facts.Attempt, s *facts.Stay) bool {
	return a.From > c.keys.of(s.Renewed.T+facts.Error(s.Renewed))
}

// addLeftover records a key that should have been gone. by is the attempt that set it, or nil.
func (m *encounter) leftover(c *conditions, a *facts.Attempt, s *facts.Stay, by *facts.Attempt) {
	client := facts.LinkClient(s.By())
	if overdue(c, a, s) {
		m.outlived, m.gave = append(m.outlived, s.Node), append(m.gave, gave(client, s))
		return
	}
	culprit := client + "'s attempts"
	if by != nil && by.Won && by.Session.FirstRelease() != nil {
		m.kept = true
		culprit = fmt.Sprintf("%s's release at %s", client, facts.Seconds(by.Session.FirstRelease().T))
	}
	m.left, m.by = append(m.left, s.Node), append(m.by, culprit)
}

// dropUnmetLeftovers reclassifies the nodes with leftover keys as unreachable or unanswered if none of
// them refused the attempt.
func (m *encounter) forgetUnmet() {
	if len(m.unheard) < len(m.left)+len(m.outlived) {
		return
	}
	for _, n := range slices.Concat(m.left, m.outlived) {
		switch {
		case m.unheard[n]:
			m.away = append(m.away, n)
		case m.asked[n]:
			m.silent = append(m.silent, n)
		}
	}
	m.left, m.by, m.kept, m.outlived, m.gave, m.unheard = nil, nil, false, nil, nil, nil
}

// describeExpiry says what expiry a client gave a key, or who else extended the key.
func gave(client string, s *facts.Stay) string {
	if s.Given != s.Renewed {
		return fmt.Sprintf("%s's were extended by %s", client, facts.Doer(s.Given))
	}
	if life := s.Lifetime(); life != facts.Never {
		return client + " gave them " + facts.Seconds(life) + " to live"
	}
	return client + " gave them no expiry"
}

// owner returns the last of a token's attempts that can have set a value on a node, or nil.
func owner(attempts []*facts.Attempt, s *facts.Stay) *facts.Attempt {
	for _, a := range slices.Backward(attempts) {
		if a.From <= put(s) {
			return a
		}
	}
	return nil
}

// keysDueGone returns when an attempt's keys should have been gone: at the end of the attempt or,
// for a holder that called release, at most a node timeout after that call.
func goneBack(r *facts.Facts, a *facts.Attempt) int64 {
	if call := a.Session.FirstRelease(); a.Won && call != nil {
		return min(a.Over, spans.Plus(call.T, int64(r.Params.NodeTimeout)))
	}
	return a.Over
}

// blockingKey returns a key of another attempt that a node had when it refused this one, or while
// this one was in progress if the node gave no answer. It returns nil if there is none.
func inTheWay(lives *facts.Lives, node, key string, a *facts.Attempt, answer *history.Event) *facts.Stay {
	own := func(s *facts.Stay) bool { return s.Holds(a.Token) && put(s) >= a.From }
	if answer != nil && answer.Type == history.Fail && answer.Cause == "" {
		if s := lives.At(node, key, facts.Applied(answer)); s != nil && !own(s) {
			return s
		}
	}
	for _, s := range lives.During(node, key, a.From, a.To) {
		if !own(s) && s.From() <= a.To && s.To() > a.From {
			return s
		}
	}
	return nil
}

// cause returns what kept an attempt from a quorum, or "" if it lost to an attempt that had a
// quorum. An obstacle is the cause if, all else being equal, there would have been a quorum without it.
func (m encounter) cause(p *history.Params) (cause, text string) {
	nodes, quorum := len(p.Nodes), quorumOf(p)
	keys := len(m.left) + len(m.outlived)
	open := nodes - keys - len(m.away) - len(m.rival) - len(m.refused) - len(m.own) - len(m.failed) - len(m.silent)
	needed := func(these []string) bool { return len(these) > 0 && open < quorum && open+len(these) >= quorum }
	for client := range m.of {
		if m.of[client] >= quorum {
			return "", ""
		}
	}
	switch reach := nodes - len(m.away); {
	case nodes-len(m.left) < quorum && m.remains() != "":
		return verdict.LeftKeys, m.beside(m.remains())
	case reach >= quorum && reach-len(m.outlived) < quorum && m.overdue(p) != "":
		return verdict.OutlivedTTL, m.beside(m.overdue(p))
	case m.kept && reach >= quorum && reach-len(m.left) < quorum && m.remains() != "":
		return verdict.LeftKeys, m.beside(m.remains())
	case reach >= quorum && reach-keys < quorum && len(m.outlived) >= len(m.left) && m.overdue(p) != "":
		return verdict.OutlivedTTL, m.beside(m.overdue(p))
	case nodes-keys < quorum && m.remains() != "":
		return verdict.LeftKeys, m.beside(m.remains())
	case len(m.away) > 0 && nodes-keys-len(m.away) < quorum:
		return verdict.NoMajority, m.beside(m.remains())
	case needed(m.rival):
		return verdict.SplitVote, fmt.Sprintf("found keys of other clients' attempts on %s", verdict.List(m.rival))
	case needed(m.refused):
		return verdict.TurnedAway, fmt.Sprintf("was refused by %s that had no key", verdict.Plural(len(m.refused), "node"))
	}
	return verdict.TooFewVotes, m.tooFew(p)
}

// withUnanswered prefixes a text with the nodes that could not be contacted, and with those that
// were contacted but neither refused in time nor voted, while they had a leftover key or a fault
// was in force.
func (m encounter) beside(text string) string {
	var unasked, silent []string
	for _, n := range slices.Sorted(slices.Values(slices.Concat(m.away, m.left, m.outlived))) {
		down, unheard := m.unheard[n]
		switch away := down || slices.Contains(m.away, n); {
		case away && !m.asked[n]:
			unasked = append(unasked, n)
		case away, unheard:
			silent = append(silent, n)
		}
	}
	var parts []string
	if len(unasked) > 0 {
		parts = append(parts, "could not contact "+verdict.List(unasked))
	}
	if len(silent) > 0 {
		parts = append(parts, "got neither a vote nor a refusal in time from "+verdict.List(silent))
	}
	if text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, ", and ")
}

// describeVotes lists how each node responded to an attempt that got too few votes although nothing
// kept it from a quorum.
func (m encounter) tooFew(p *history.Params) string {
	quorum := quorumOf(p)
	if len(m.yes) >= quorum {
		return fmt.Sprintf("had the votes of %s, which are a quorum, but did not take the lock", verdict.List(m.yes))
	}
	asked := func(n string) bool { return m.asked[n] }
	notAsked := func(n string) bool { return !m.asked[n] }
	text := fmt.Sprintf("had %d of the %d votes it needed", len(m.yes), quorum)
	for _, group := range []struct {
		nodes []string
		did   string
	}{
		{m.yes, "%s voted for it"},
		{m.own, "%s refused it because of its own key"},
		{slices.Concat(m.left, m.outlived), "%s had keys that should have been gone"},
		{m.rival, "%s refused it because of keys of other clients' attempts"},
		{m.refused, "%s refused it without having a key"},
		{m.failed, "%s answered with an error"},
		{slices.Concat(m.silent, slices.DeleteFunc(slices.Clone(m.away), notAsked)), "%s had not answered in time, and the attempt was over by " + facts.Seconds(m.end)},
		{slices.DeleteFunc(slices.Clone(m.away), asked), "%s could not be contacted"},
		{m.notAsked(p), "it did not contact %s"},
	} {
		if len(group.nodes) > 0 {
			text += "; " + fmt.Sprintf(group.did, verdict.List(group.nodes))
		}
	}
	return text
}

// notContacted lists the reachable nodes without leftover keys that were not sent a set.
func (m encounter) notAsked(p *history.Params) (names []string) {
	for _, n := range p.Nodes {
		if !m.asked[n] && !slices.Contains(slices.Concat(m.away, m.left, m.outlived), n) {
			names = append(names, n)
		}
	}
	return names
}

// describeOutlived says which nodes refused because of keys that existed after their TTL, or returns
// "" if none did.
func (m encounter) overdue(p *history.Params) string {
	var nodes, told []string
	for i, n := range m.outlived {
		if _, unheard := m.unheard[n]; unheard {
			continue
		}
		nodes = append(nodes, n)
		client, _, _ := strings.Cut(m.gave[i], " ")
		if !slices.ContainsFunc(told, func(s string) bool { return strings.HasPrefix(s, client+" ") }) {
			told = append(told, m.gave[i])
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	return fmt.Sprintf("found keys on %s that existed after their TTL of %s: %s", verdict.List(nodes), facts.Seconds(int64(p.TTL)), verdict.List(told))
}

// describeLeftovers says which nodes refused because of leftover keys, grouped by what left the keys
// there, or returns "" if none did.
func (m encounter) remains() string {
	var order, parts []string
	nodes := map[string][]string{}
	for i, by := range m.by {
		if _, unheard := m.unheard[m.left[i]]; unheard {
			continue
		}
		if !slices.Contains(order, by) {
			order = append(order, by)
		}
		nodes[by] = append(nodes[by], m.left[i])
	}
	for _, by := range order {
		parts = append(parts, fmt.Sprintf("on %s that %s had left there", verdict.List(nodes[by]), by))
	}
	if len(parts) == 0 {
		return ""
	}
	return "found keys " + verdict.List(parts)
}
