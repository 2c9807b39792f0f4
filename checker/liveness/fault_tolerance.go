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

// FaultTolerance asks whether a lock can be had while a majority of nodes is up.
// It is put to the test wherever nobody holds a lock or may hold it (hold),
// and some client that is trying to acquire goes on and reaches a majority
// (outages), be it another one after a while. After a fault that counts from when
// clients can have noticed that it is over: slack after its end (during), and then a
// node time-out, the longest retry delay and slack (settled). Somebody, though not
// that client, must acquire within
//
//	k·(NodeTimeout + RetryMax) + Slack
//
// which is k rounds of the slowest kind. One lost split vote is no violation;
// a lock by which k rounds of everybody come to nothing is not available. The
// same bound is used after a release: with two waiters or more the first round
// may be lost to a split vote there, too, so one retry delay can't be promised. Nor may a
// call take that and a TTL (stuck).
//
// Where the host stalled the bound is longer (lockState.delayed). A span that is too long and for which only
// stalls or a slow host may be to blame leaves the property undecided.
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
	judged := 0 // gaps that ended in a grant to somebody who was available
	longest := int64(0)
	var hung []verdict.Incident
	for _, c := range r.locks {
		var long []unavailability // too long, whatever the host did; at most one for each gap
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
			case found: // the host may be to blame
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
	f.Because = "nobody wanted a free lock while a majority was available to them"
	if judged > 0 {
		f.Because = fmt.Sprintf("whenever a lock was free and a majority available to somebody who wanted it, somebody acquired within %s, in %s",
			facts.Seconds(rounds(&r.Params)), verdict.Plural(judged, "span"))
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
	var all []spans.Span // of whomever
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
	late := d.lock.delayed(d.clients, d.Span)
	if late > 0 {
		within += fmt.Sprintf(", even if stalls of the host delayed it by %s", facts.Seconds(late))
	}
	return verdict.Result{
		Outcome: verdict.Violated, Witness: w, Cause: cause, Bound: rounds(&d.lock.Params) + late,
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
	for x := range s.Calls(history.OpRelease) {
		if x.Return != nil && x.Return.T == t.To {
			return append(events, x.Return)
		}
		if t.To < t.lapse { // the nodes say so
			return append(events, x.Call)
		}
	}
	return append(events, t.last)
}

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
	waits := map[string][]spans.Span{} // by client
	for _, s := range near {
		if wait := spans.Wait(c.Facts, s); wait.From < w.To && wait.To > w.From {
			waits[s.Client()] = append(waits[s.Client()], wait)
		}
	}
	var reached []spans.Span // a majority, by somebody
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

// heaviest is the cause with the most weight. Equals are named in the order of unavailabilityCauses,
// and others in that of the alphabet.
func heaviest(weights map[string]int64) string {
	return slices.MinFunc(slices.Collect(maps.Keys(weights)), func(a, b string) int {
		return cmp.Or(cmp.Compare(weights[b], weights[a]),
			cmp.Compare(slices.Index(unavailabilityCauses, a), slices.Index(unavailabilityCauses, b)), cmp.Compare(a, b))
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

// unavailabilityCauses is in the order in which equals are named.
var unavailabilityCauses = []string{verdict.LeftKeys, verdict.OutlivedTTL, verdict.NoMajority, verdict.WaitedLong, verdict.SplitVote, verdict.TurnedAway, verdict.TooFewVotes, verdict.GaveUp}

// whyNobody is the cause that holds for most of the attempts in a span in which nobody got a
// lock, and what the first of these met. What stood in an attempt's way the nodes tell.
//
//	a call did not return, and asked no node for all rounds         hung
//	likewise one that did return, or that paused as long before     waited-long, if nobody tried in most of the span
//	most attempts                                                   what they met, see encounter.cause
//	no attempt, and a client paused for longer than a round         waited-long
func whyNobody(c *lockState, in spans.Span) (cause, text string) {
	if !c.Params.Life {
		return verdict.Unexplained, "the record has no facts of the nodes"
	}
	if c.wire == nil {
		if n, first := gaveUp(c, in); n > 0 {
			return verdict.GaveUp, first
		}
		return verdict.Unexplained, "the links saw no attempt"
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
				return verdict.Unexplained, fmt.Sprintf("%s's attempt at %s took %s, and had the lock then", a.Session.Client(), facts.Seconds(a.From), facts.Seconds(c.ended(a)-a.From))
			}
		}
		round := int64(c.Params.RetryMax + 2*c.Params.NodeTimeout + c.Params.Slack)
		switch quiet = silent(c, spans.Of(spans.Ever, in.To), round); {
		case quiet.hangs:
			return verdict.Hung, quiet.text
		case quiet.session != nil:
			return verdict.WaitedLong, quiet.text
		}
		return verdict.Unexplained, "nobody's attempt began in that time"
	}
	cause = heaviest(count)
	return cause, first[cause]
}

// met counts the attempts of a span by the cause of their failure, and describes the first of each. It
// skips attempts that lost to one with a quorum, because the cause is what happened to that one.
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
	owners := map[string][]*facts.Attempt{} // by the value that they set
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

// lastLost is when the last of some attempts that did not get the lock began.
func lastLost(attempts []*facts.Attempt) int64 {
	for _, a := range slices.Backward(attempts) {
		if !a.Won {
			return a.From
		}
	}
	return spans.Ever
}

// gaveUp counts the acquires in a span that returned without the lock, on their own, and asked no node at
// all, and tells of the first.
func gaveUp(c *lockState, in spans.Span) (n int64, first string) {
	asked := map[string][]int64{} // by client: when it sent a command
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
			first = fmt.Sprintf("%s's acquire at %s returned an error at %s and asked no node", s.Client(), facts.Seconds(s.Called), facts.Seconds(s.Ended))
		}
	}
	return n, first
}

// quiet is an acquire that was under way and asked no node.
type quiet struct {
	session *facts.Session // nil: there is none
	hangs   bool           // it had not returned by the limit, and no attempt of this lock came after such a pause
	text    string
}

// silent is the first session whose acquire is under way to the end of a span, and asked no node in it for
// longer than a patience, though it reached a majority of nodes without a key. One that hangs goes first.
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
		found = quiet{s, hangs, fmt.Sprintf("%s's acquire, called at %s, asked no node after %s", s.Client(), facts.Seconds(s.Called), facts.Seconds(since))}
		if hangs {
			break
		}
		found.text = fmt.Sprintf("%s's acquire, called at %s, asked no node from %s to %s, and the longest retry delay is %s",
			s.Client(), facts.Seconds(s.Called), facts.Seconds(since), facts.Seconds(in.To), facts.Seconds(int64(c.Params.RetryMax)))
	}
	return found
}

// hangs reports whether a call that did nothing for a while hangs: it had not returned by the limit, and
// this lock never tried again after a pause that was half as long.
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

// asked returns when each session without the lock last asked a node, in attempts that began before
// an instant.
func (c *lockState) asked(until int64) map[*facts.Session]int64 {
	asked := map[*facts.Session]int64{}
	for _, a := range attemptsBefore(c.wire, until) {
		if a.Won { // which ended it
			continue
		}
		asked[a.Session] = max(asked[a.Session], lastSent(a))
	}
	return asked
}

// lastSent is when the last set of an attempt was sent.
func lastSent(a *facts.Attempt) int64 {
	at := a.From
	for _, e := range a.Sets {
		at = max(at, e.Sent)
	}
	return at
}

// waitedFor is the nodes that gave no answer to an attempt which had to do with a span and
// took too long, or none.
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

// lasted says what an attempt that took too long waited for, of nodes whose answers were late or missing: nodes that
// gave no answer, nothing for a while after the last answer, or the late answers.
func lasted(c *lockState, a *facts.Attempt, late []string) string {
	ended, last := c.ended(a), a.From
	latest := map[string]*history.Event{} // by node: the command that was answered last, or not at all
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
		return fmt.Sprintf("asked no node for the lock from %s to %s", facts.Seconds(last), facts.Seconds(ended))
	}
	return verdict.List(slow)
}

// tooLong reports whether an attempt went on for longer than it takes to ask each node twice,
// for keys and for fencing tokens, one after the other, and none of them answers.
func (c *lockState) tooLong(a *facts.Attempt, in spans.Span) bool {
	to, patience := c.ended(a), 2*int64(len(c.Params.Nodes))*int64(c.Params.NodeTimeout)+int64(c.Params.Slack)
	return a.From < in.To && to > in.From && to-a.From > patience
}

// missing reports whether a node's answer had not come in time.
func (c *lockState) missing(e *history.Event) bool {
	return e.Answered == 0 || e.Answered-e.Sent > int64(c.Params.NodeTimeout)
}

// ended is when an attempt had got the lock or been undone, as far as the nodes' answers tell.
// Where nobody saw it undone that is its begin, but of one without an answer it is when the
// next could have been put off no longer.
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

// encounter is what an attempt met on the nodes. Each node is in one list at most.
type encounter struct {
	left     []string        // nodes with the key of an attempt that was over
	by       []string        // what had left each of these there: "attempts of c1", "c1's release at 3 s"
	kept     bool            // a release had left one
	outlived []string        // nodes with a key that still existed when its TTL was over
	gave     []string        // what time to live each of these had been given: "c1 gave them 20 s"
	unheard  map[string]bool // of left and outlived, nodes that did not refuse the attempt; true: they could not be asked
	rival    []string        // nodes that refused for the key of another client's attempt that was not over
	of       map[string]int  // how many nodes had a key of each other client's attempts that were not over
	away     []string        // nodes that were down or out of reach
	refused  []string        // nodes that refused without a key
	own      []string        // nodes that refused for the attempt's own key: a node that it asks twice
	failed   []string        // nodes that answered with an error
	silent   []string        // nodes whose answer had not come by the node time-out or the end of the round
	yes      []string        // nodes that voted for the attempt
	asked    map[string]bool // nodes that were sent a set
	end      int64           // of the round
}

// encounters looks at each node: the key that was there, if it was not the attempt's own, or
// that nobody could ask.
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
		case answer != nil && answer.Type == history.OK: // its client was told too late
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

// roundEnd is when the client of an attempt gave up waiting for votes: when it undid the vote of a node that had
// answered, made another attempt, or returned.
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

// overdue reports whether a key's TTL was over when an attempt began.
func overdue(c *conditions, a *facts.Attempt, s *facts.Stay) bool {
	return a.From > c.keys.of(s.Renewed.T+facts.Error(s.Renewed))
}

// leftover enters a key that should have been gone, and the attempt that had put it there, or nil.
func (m *encounter) leftover(c *conditions, a *facts.Attempt, s *facts.Stay, by *facts.Attempt) {
	client := facts.LinkClient(s.By())
	if overdue(c, a, s) {
		m.outlived, m.gave = append(m.outlived, s.Node), append(m.gave, gave(client, s))
		return
	}
	culprit := "attempts of " + client
	if by != nil && by.Won && by.Session.FirstRelease() != nil {
		m.kept = true
		culprit = fmt.Sprintf("%s's release at %s", client, facts.Seconds(by.Session.FirstRelease().T))
	}
	m.left, m.by = append(m.left, s.Node), append(m.by, culprit)
}

// forgetUnmet enters the nodes with leftover keys as nodes that gave no answer, if none of them refused the attempt.
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

// gave says what time to live a client had given a key, or who else extended it.
func gave(client string, s *facts.Stay) string {
	if s.Given != s.Renewed {
		return fmt.Sprintf("%s's were extended by %s", client, facts.Doer(s.Given))
	}
	if life := s.Lifetime(); life != facts.Never {
		return client + " gave them " + facts.Seconds(life)
	}
	return client + " gave them no expiry"
}

// owner is the last of a token's attempts that can have put a value on a node, or nil.
func owner(attempts []*facts.Attempt, s *facts.Stay) *facts.Attempt {
	for _, a := range slices.Backward(attempts) {
		if a.From <= put(s) {
			return a
		}
	}
	return nil
}

// goneBack is when an attempt's keys were to be gone: when it was over, or when a holder
// that called release had had the time to ask a node.
func goneBack(r *facts.Facts, a *facts.Attempt) int64 {
	if call := a.Session.FirstRelease(); a.Won && call != nil {
		return min(a.Over, spans.Plus(call.T, int64(r.Params.NodeTimeout)))
	}
	return a.Over
}

// inTheWay is a key of another attempt's that a node had when it refused one, or, where it gave no answer,
// while that was under way; or nil.
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

// cause is what kept an attempt from a quorum; "": it lost to one that had a quorum. What stood in the way is
// the cause if, with everything else as it was, there would have been a quorum without it.
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
		return verdict.SplitVote, fmt.Sprintf("met keys of others' attempts on %s", verdict.List(m.rival))
	case needed(m.refused):
		return verdict.TurnedAway, fmt.Sprintf("was refused by %s without a key", verdict.Plural(len(m.refused), "node"))
	}
	return verdict.TooFewVotes, m.tooFew(p)
}

// beside puts before a text which nodes could not be asked, and which were asked and neither refused in time nor
// voted, though they had a leftover key or a fault was in force.
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
		parts = append(parts, "could not ask "+verdict.List(unasked))
	}
	if len(silent) > 0 {
		parts = append(parts, "had neither a yes nor a no in time from "+verdict.List(silent))
	}
	if text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, ", and ")
}

// tooFew says what each node did of an attempt that came to too few votes, though nothing kept it from a quorum.
func (m encounter) tooFew(p *history.Params) string {
	quorum := quorumOf(p)
	if len(m.yes) >= quorum {
		return fmt.Sprintf("had the votes of %s, which are a quorum, and did not take the lock", verdict.List(m.yes))
	}
	asked := func(n string) bool { return m.asked[n] }
	notAsked := func(n string) bool { return !m.asked[n] }
	text := fmt.Sprintf("had %d of the %d votes that it needed", len(m.yes), quorum)
	for _, group := range []struct {
		nodes []string
		did   string
	}{
		{m.yes, "%s voted for it"},
		{m.own, "%s refused it for its own key"},
		{slices.Concat(m.left, m.outlived), "%s had keys that should have been gone"},
		{m.rival, "%s refused it for keys of others' attempts"},
		{m.refused, "%s refused it without a key"},
		{m.failed, "%s answered with an error"},
		{slices.Concat(m.silent, slices.DeleteFunc(slices.Clone(m.away), notAsked)), "%s had not answered in time, and the attempt was over by " + facts.Seconds(m.end)},
		{slices.DeleteFunc(slices.Clone(m.away), asked), "%s could not be asked"},
		{m.notAsked(p), "it did not ask %s"},
	} {
		if len(group.nodes) > 0 {
			text += "; " + fmt.Sprintf(group.did, verdict.List(group.nodes))
		}
	}
	return text
}

// notAsked lists the nodes that could be asked, had nothing in the way, and were not asked.
func (m encounter) notAsked(p *history.Params) (names []string) {
	for _, n := range p.Nodes {
		if !m.asked[n] && !slices.Contains(slices.Concat(m.away, m.left, m.outlived), n) {
			names = append(names, n)
		}
	}
	return names
}

// overdue says which nodes refused for keys that still existed when their TTL was over; "": none did.
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
	return fmt.Sprintf("met keys on %s that existed after their TTL of %s: %s", verdict.List(nodes), facts.Seconds(int64(p.TTL)), verdict.List(told))
}

// remains says which nodes refused for keys that had been left there, and by what; "": none did. Nodes are
// listed together by what had left their keys.
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
	return "met keys " + verdict.List(parts)
}
