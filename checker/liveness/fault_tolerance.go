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
// whenever no client holds or may hold the lock (hold) and, at each instant, at least one client is
// running, trying to acquire the lock and able to reach a majority (outages). After a fault, time
// does not count until clients can have noticed its end: slack after the end (faultSpan), and then
// a node timeout, the longest retry delay and slack (trimRecovery). Some client, not necessarily
// one of those, must acquire the lock within
//
//	k·(NodeTimeout + RetryMax) + Slack
//
// which is k rounds of maximum length. One lost split vote is no violation, but a lock is
// unavailable if k rounds fail for every client. The same bound applies after a release: with two
// or more waiters, a split vote may cost the first round, so a single retry delay may not be
// enough. A single call may take this bound plus a TTL (stuckCall).
//
// Host stalls extend the bound (lockState.stallDelay). If a span exceeds the bound, but stalls or a
// slow host may explain that, the property is undecided.
func (r *Run) FaultTolerance() (f verdict.Finding) {
	if missing := missingParam(&r.Params); missing != "" {
		return verdict.Finding{Undecided: "the history contains no " + missing + ", so there is no bound"}
	}
	switch {
	case r.Params.Rounds == 0:
		return verdict.Finding{Undecided: "the history does not say how many rounds to wait, so there is no bound"}
	case len(r.Params.Nodes) == 0:
		return verdict.Finding{Undecided: "the history names no nodes, so there is no majority"}
	}
	judged := 0 // number of gaps that ended in a grant to a client that reached a majority
	longest := int64(0)
	var hung []verdict.Incident
	for _, c := range r.locks {
		var long []unavailability // at most one per gap, after allowing for the host
		for g := range gaps(c) {
			d, found := longestUnavailability(c, g, c.certainlyAvailableSpans, func(clients []string, s spans.Span) int64 { return roundsBound(&c.Params) + c.stallDelay(clients, s) })
			if found {
				long = append(long, d)
				f.Incidents = append(f.Incidents, verdict.Incident{From: d.From, Describe: func() verdict.Result { return describeUnavailability(d) }})
				if d.Length() > longest {
					longest, f.Worst = d.Length(), f.Incidents[len(f.Incidents)-1].Describe
				}
				continue
			}
			if c.isRealTime() {
				d, found = longestUnavailability(c, g, c.availableSpans, func([]string, spans.Span) int64 { return roundsBound(&c.Params) })
			}
			switch {
			case found: // the host may explain it
				f.Undecided = cmp.Or(f.Undecided, d.undecidedMessage())
			case g.nextHolder != nil && g.nextHolder.Granted() && spans.Meets(c.availableSpans(g.nextHolder.Client()), spans.Of(g.firstSet-1, g.firstSet)):
				judged++
			}
		}
		calls, open := findStuckCalls(c, long)
		hung, f.Undecided = append(hung, calls...), cmp.Or(f.Undecided, open)
	}
	f.Incidents = append(f.Incidents, hung...)
	f.Occasions = judged + len(f.Incidents)
	f.Because = "no client wanted a free lock while it could reach a majority"
	if judged > 0 {
		f.Because = fmt.Sprintf("whenever a lock was free and a client that wanted it could reach a majority, some client acquired it within %s (%s)",
			facts.Seconds(roundsBound(&r.Params)), verdict.Plural(judged, "span"))
	}
	return f
}

// gap is a span during which nobody held or may have held a lock. An acquire in progress does not
// end a gap, even if it has set keys.
type gap struct {
	spans.Span
	lastHolder *facts.Session // the last holder before the gap, or nil at the start of the record
	nextHolder *facts.Session // the next holder or possible holder, or nil at the end of the record
	firstSet   int64          // when the next holder's first key was set, but later than From
}

// gaps yields a lock's gaps by time.
func gaps(c *lockState) iter.Seq[gap] {
	return func(yield func(gap) bool) {
		g := gap{Span: spans.Of(spans.DistantPast, facts.Never)}
		for _, t := range c.holders() {
			if t.From >= t.To {
				continue // the keys had lapsed before the acquire ended
			}
			if g.From < t.From {
				g.To, g.nextHolder, g.firstSet = t.From, t.session, min(max(t.holdStart, g.From+1), t.From)
				if !yield(g) {
					return
				}
			}
			if t.To > g.From {
				g.From, g.lastHolder = t.To, t.session
			}
		}
		g.To, g.nextHolder = facts.Never, nil
		if g.From < facts.Never {
			yield(g)
		}
	}
}

// unavailability is a span during which a lock was free and nobody acquired it, although the same
// client could have done so throughout. If no client could, it is a span throughout which at least
// one of several clients could have.
type unavailability struct {
	spans.Span
	lock    *lockState
	clients []string
	gap     gap
}

// longestUnavailability finds the longest unavailability in a gap that exceeds a bound.
func longestUnavailability(c *lockState, g gap, available func(client string) []spans.Span, bound func(clients []string, s spans.Span) int64) (d unavailability, found bool) {
	if g.Length() <= roundsBound(&c.Params) {
		return d, false
	}
	longest := func(list []spans.Span, clients []string) {
		for _, s := range list {
			if s.Length() > roundsBound(&c.Params) && s.Length() > d.Length() && s.Length() > bound(clients, s) {
				d, found = unavailability{Span: s, lock: c, clients: clients, gap: g}, true
			}
		}
	}
	var all []spans.Span // when any client could have acquired the lock
	var waiting []string
	w := c.callers()
	for _, client := range w.clientsAfter(g.To, w.waitEnds, g.From) {
		could := c.couldAcquire(c.waitingSpans(client, g.Span), g.Span, available(client))
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
func (d unavailability) undecidedMessage() string {
	why := "the host was slow, which may be why keys stayed on nodes"
	if len(d.lock.stalls) > 0 {
		why = d.lock.stallMessage(d.Span)
	}
	return fmt.Sprintf("nobody acquired %s %s, though %s could have within %s; %s", verdict.LockName(d.lock.name),
		facts.FromTo(d.From, d.To), verdict.JoinNames(d.clients), facts.Seconds(roundsBound(&d.lock.Params)), why)
}

// describeUnavailability says who waited, and since when the lock was free.
func describeUnavailability(d unavailability) verdict.Result {
	w := &verdict.Witness{Key: d.lock.name, From: d.From, To: d.To}
	var events []*history.Event
	since := "it had never been held"
	if s := d.gap.lastHolder; s != nil {
		since = fmt.Sprintf("its last hold, by %s, had ended by %s", s.Client(), facts.Seconds(d.gap.From))
		w.Sessions = append(w.Sessions, s.Name())
		events = append(events, holdEndEvents(d.lock, s)...)
	}
	waiters := 0
	for _, client := range d.lock.clientNames {
		later := endingAfter(d.lock.byClient()[client], d.From)
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
	w.Events = verdict.EventNumbers(events)
	cause, why := explainUnavailability(d.lock, d.Span)
	within := facts.Seconds(roundsBound(&d.lock.Params))
	late := d.lock.stallDelay(d.clients, d.Span)
	if late > 0 {
		within += fmt.Sprintf(" plus %s for host stalls", facts.Seconds(late))
	}
	return verdict.Result{
		Outcome: verdict.Violated, Witness: w, Cause: cause, Bound: roundsBound(&d.lock.Params) + late,
		Because: fmt.Sprintf("%s could have acquired %s %s because a majority was available, and %s tried, but nobody acquired it within %s: %s; %s",
			verdict.JoinNames(d.clients), verdict.LockName(d.lock.name), facts.FromTo(d.From, d.To),
			verdict.Plural(waiters, "client"), within, since, why),
	}
}

// holdEndEvents returns the events that show how a session's hold ended: the release or, if its
// keys lapsed, the last key that was set.
func holdEndEvents(c *lockState, s *facts.Session) []*history.Event {
	t := c.hold(s)
	events := []*history.Event{s.Acquire.Call, s.Acquire.Return}
	for x := range s.Calls(history.OpRelease) {
		if x.Return != nil && x.Return.T == t.To {
			return append(events, x.Return)
		}
		if t.To < t.lapse { // the nodes' own data shows that the release ended the hold
			return append(events, x.Call)
		}
	}
	return append(events, t.lastSet)
}

// Causes of unavailability, besides the lease of a lost holder.
const (
	hostStalled       = "the host stalled"
	majorityDown      = "a majority was down or unreachable"
	releaseUnanswered = "lease of a holder whose release got no answer"
	acquireUnanswered = "keys of a client that never got an answer"
	keysLeftByFault   = "keys left behind by a fault"
	contention        = "contention"
)

// measureAvailability measures how long locks were unavailable, and explains the longest such
// window.
func measureAvailability(r *Run, n map[string]float64, words map[string]string) {
	sum := int64(0)
	var longest spans.Span
	var of *lockState
	for _, c := range r.locks {
		for w := range unavailableSpans(c, r.beliefs.Of(c.lock)) {
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
		words[verdict.UnavailableMax] = explainWindow(of, r.losses, longest)
	}
	if slowest := maxDeathToGrant(r.losses); slowest > 0 {
		n["death-to-grant-max"] = history.Seconds(slowest)
	}
	countOrphanKeys(r.conditions, n)
}

// unavailableSpans yields, by time, the spans during which a client was trying to acquire a lock
// and no client believed it held the lock.
func unavailableSpans(c *lockState, belief []spans.Window) iter.Seq[spans.Span] {
	return func(yield func(spans.Span) bool) {
		belief := belief
		until := int64(spans.DistantPast) // when the last of the windows so far ends
		yieldUncovered := func(want spans.Span) bool {
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
		for s := range c.sessions {
			w := spans.Wait(c.Facts, s)
			if w.From > want.To {
				if !yieldUncovered(want) {
					return
				}
				want = w
			}
			want.To = max(want.To, w.To)
		}
		yieldUncovered(want)
	}
}

// explainWindow returns what accounts for most of a window in which nobody held a lock that
// somebody wanted. The lease of a lost holder takes precedence, then a majority that is down, then
// all other causes. Time without any of these counts as contention: an acquire in progress, split
// votes, or leftover keys of failed attempts.
func explainWindow(c *lockState, losses []loss, w spans.Span) string {
	lost := map[*facts.Session]string{}
	for _, d := range losses {
		lost[d.session] = "lease of a " + lossWords[d.fault.Kind].holder
	}
	near := sessionsNear(c, w)
	waits := map[string][]spans.Span{} // by client
	for _, s := range near {
		if wait := spans.Wait(c.Facts, s); wait.From < w.To && wait.To > w.From {
			waits[s.Client()] = append(waits[s.Client()], wait)
		}
	}
	var reached []spans.Span // when some client reached a majority
	for client, list := range waits {
		reached = append(reached, c.couldAcquire(list, w, c.down.majority(client))...)
	}
	up := spans.Intersect(spans.Union(reached), spans.Complement(c.stalls))
	all, reachable := spans.Measure([]spans.Span{w}), spans.Measure(up)
	timeByCause := map[string]int64{}
	var held, lostLeases []spans.Span
	for _, s := range near {
		t, ok := findHold(c.Facts, c.keys, s, c.attempts)
		if !ok || t.From >= w.To || t.To <= w.From {
			continue
		}
		held = append(held, t.Span)
		cause, within := contention, reachable
		switch {
		case lost[s] != "":
			cause, within = lost[s], all
			lostLeases = append(lostLeases, t.Span)
		case !s.Granted():
			cause = acquireUnanswered
		case s.ReleasedAt() == facts.Never:
			cause = releaseUnanswered
		}
		timeByCause[cause] += within.Share(t.Span)
		if s.Granted() {
			timeByCause[cause] -= within.Share(spans.Of(s.Acquire.Return.T, t.beliefEnd))
		}
	}
	for _, down := range spans.Intersect(spans.Intersect([]spans.Span{w}, spans.Complement(up)), spans.Complement(spans.Union(lostLeases))) {
		still := spans.Share(c.stalls, down)
		timeByCause[hostStalled] += still
		timeByCause[majorityDown] += down.Length() - still
	}
	blocked := c.blockedSpans()
	for _, free := range spans.Intersect(up, spans.Complement(spans.Union(held))) {
		left := spans.Share(blocked, free)
		timeByCause[keysLeftByFault] += left
		timeByCause[contention] += free.Length() - left
	}
	return heaviestCause(timeByCause)
}

// heaviestCause returns the cause with the greatest weight. The order of unavailabilityCauses
// breaks ties, then the alphabet.
func heaviestCause(weights map[string]int64) string {
	return slices.MinFunc(slices.Collect(maps.Keys(weights)), func(a, b string) int {
		return cmp.Or(cmp.Compare(weights[b], weights[a]),
			cmp.Compare(slices.Index(unavailabilityCauses, a), slices.Index(unavailabilityCauses, b)), cmp.Compare(a, b))
	})
}

// sessionsNear returns the sessions that may affect a window: sessions called before its end whose
// acquire ended at most three key lifetimes before its start. It misses a session if its holder
// extended the lease for longer than that and then got stuck.
func sessionsNear(c *lockState, w spans.Span) []*facts.Session {
	var near []*facts.Session
	life := c.keys.maxLifetime()
	for s := range c.sessions {
		if s.Acquire.Call.T >= w.To {
			break
		}
		if life > facts.Never/4 || s.Acquire.ReturnedAt() >= w.From-3*life {
			near = append(near, s)
		}
	}
	return near
}

func maxDeathToGrant(losses []loss) int64 {
	slowest := int64(0)
	for _, d := range losses {
		if next := d.lock.grantAfter(d.at, d.session); next != nil && d.fault.Kind == facts.Kill {
			slowest = max(slowest, next.Acquire.Return.T-d.at)
		}
	}
	return slowest
}

// unavailabilityCauses is the order in which heaviestCause breaks ties.
var unavailabilityCauses = []string{verdict.LeftKeys, verdict.OutlivedTTL, verdict.NoMajority, verdict.WaitedLong, verdict.SplitVote, verdict.TurnedAway, verdict.TooFewVotes, verdict.GaveUp}

// explainUnavailability returns the most frequent cause of the failed attempts in a span during
// which nobody acquired a lock, and describes the first attempt with this cause. The nodes' own
// data shows what blocked an attempt.
//
//	a call did not return, and contacted no node for all rounds       hung
//	the same, but the call returned, or the lock had paused as long   waited-long, if no client tried in most of the span
//	most attempts                                                     see voteTally.cause
//	no attempt, and a client paused for longer than a round           waited-long
func explainUnavailability(c *lockState, in spans.Span) (cause, text string) {
	if !c.Params.Life {
		return verdict.Unexplained, "the record contains no information about the nodes"
	}
	if c.attempts == nil {
		if n, first := countGaveUp(c, in); n > 0 {
			return verdict.GaveUp, first
		}
		return verdict.Unexplained, "no attempt was recorded on the links"
	}
	idle := findIdleAcquire(c, in, roundsBound(&c.Params))
	if idle.hung {
		return verdict.Hung, idle.text
	}
	attempts := attemptsBefore(c.attempts, in.To)
	count, first := countCauses(c, attempts, in)
	if idle.session != nil && count[verdict.WaitedLong] == 0 && in.To-max(in.From, lastFailedStart(attempts)) > in.Length()/2 {
		return verdict.WaitedLong, idle.text
	}
	if len(count) == 0 {
		for _, a := range attempts {
			if a.Won && c.tookTooLong(a, in) {
				return verdict.Unexplained, fmt.Sprintf("%s's attempt at %s took %s, and then acquired the lock", a.Session.Client(), facts.Seconds(a.From), facts.Seconds(c.attemptEnd(a)-a.From))
			}
		}
		round := int64(c.Params.RetryMax + 2*c.Params.NodeTimeout + c.Params.Slack)
		switch idle = findIdleAcquire(c, spans.Of(spans.DistantPast, in.To), round); {
		case idle.hung:
			return verdict.Hung, idle.text
		case idle.session != nil:
			return verdict.WaitedLong, idle.text
		}
		return verdict.Unexplained, "no attempt began during that time"
	}
	cause = heaviestCause(count)
	return cause, first[cause]
}

// countCauses counts the attempts in a span by the cause of their failure, and describes the first
// attempt for each cause. If an attempt lost to another one with a quorum, it skips the loser and
// counts the other.
func countCauses(c *lockState, attempts []*facts.Attempt, in spans.Span) (count map[string]int64, first map[string]string) {
	count, first = map[string]int64{}, map[string]string{}
	add := func(cause, text string) {
		if count[cause]++; count[cause] == 1 {
			first[cause] = text
		}
	}
	if n, text := countGaveUp(c, in); n > 0 {
		count[verdict.GaveUp], first[verdict.GaveUp] = n, text
	}
	owners := map[string][]*facts.Attempt{} // attempts by token
	for _, a := range attempts {
		owners[a.Token] = append(owners[a.Token], a)
	}
	for _, a := range attempts {
		if awaited := c.awaitedNodes(a, in); len(awaited) > 0 {
			add(verdict.WaitedLong, fmt.Sprintf("%s's attempt at %s took %s, and %s", a.Session.Client(), facts.Seconds(a.From), facts.Seconds(c.attemptEnd(a)-a.From), explainLongAttempt(c, a, awaited)))
			continue
		}
		if a.From < in.From || a.Won {
			continue
		}
		m := tallyVotes(c.conditions, c.name, a, owners)
		if cause, text := m.cause(&c.Params); cause != "" {
			add(cause, fmt.Sprintf("%s's attempt at %s %s", a.Session.Client(), facts.Seconds(a.From), text))
		}
	}
	return count, first
}

func lastFailedStart(attempts []*facts.Attempt) int64 {
	for _, a := range slices.Backward(attempts) {
		if !a.Won {
			return a.From
		}
	}
	return spans.DistantPast
}

// countGiveUps counts the acquires in a span that gave up without having contacted any node, and
// describes the first.
func countGaveUp(c *lockState, in spans.Span) (n int64, first string) {
	sentTimes := map[string][]int64{} // by client: when it sent commands
	for _, e := range c.SentCommands() {
		sentTimes[facts.Sender(e)] = append(sentTimes[facts.Sender(e)], e.Sent)
	}
	for s := range c.sessions {
		if s.Acquire.Call.T >= in.To {
			break
		}
		if s.Granted() || c.PendingAtStop(s.Acquire) || s.EndedAt < in.From {
			continue
		}
		sent := sentTimes[s.Client()]
		if i, _ := slices.BinarySearch(sent, s.CalledAt); i < len(sent) && sent[i] <= s.EndedAt || !spans.Covers(c.down.majority(s.Client()), spans.Of(s.CalledAt, s.EndedAt)) {
			continue
		}
		if n++; n == 1 {
			first = fmt.Sprintf("%s's acquire at %s returned an error at %s and contacted no node", s.Client(), facts.Seconds(s.CalledAt), facts.Seconds(s.EndedAt))
		}
	}
	return n, first
}

// idleAcquire is an acquire in progress that contacts no node.
type idleAcquire struct {
	session *facts.Session // nil if there is no such acquire
	hung    bool           // see isHung
	text    string
}

// findIdleAcquire returns the first acquire that was in progress at the end of a span and contacted
// no node for longer than maxPause, although its client reached a majority of nodes that had no
// key. A hung acquire takes precedence.
func findIdleAcquire(c *lockState, in spans.Span, patience int64) (found idleAcquire) {
	asked := c.lastRequests(in.To)
	callers := c.callers()
	for s := range callers.runningAfter(in.To-1, callers.waitEnds, in.To-1) {
		since := max(s.CalledAt, asked[s])
		pause := spans.Of(max(since, in.From), in.To)
		hung := isHung(c, s.Acquire, spans.Of(since, in.To))
		if found.session != nil && !hung || spans.Share(spans.Intersect(c.availableSpans(s.Client()), keylessSpans(c, s.Client())), pause) <= patience {
			continue
		}
		found = idleAcquire{s, hung, fmt.Sprintf("%s's acquire, called at %s, contacted no node after %s", s.Client(), facts.Seconds(s.CalledAt), facts.Seconds(since))}
		if hung {
			break
		}
		found.text = fmt.Sprintf("%s's acquire, called at %s, contacted no node from %s to %s, but the longest retry delay is %s",
			s.Client(), facts.Seconds(s.CalledAt), facts.Seconds(since), facts.Seconds(in.To), facts.Seconds(int64(c.Params.RetryMax)))
	}
	return found
}

// isHung reports whether an idle call hangs: it had not returned by the scenario's time limit, and
// the lock never retried after a pause even half as long.
func isHung(c *lockState, call facts.Operation, pause spans.Span) bool {
	return c.PendingAtStop(call) && pause.Length() > 2*c.longestPause()
}

// longestPause finds the longest time between two attempts of one acquire.
func longestPause(c *lockState) (longest int64) {
	if c.attempts == nil {
		return 0
	}
	last := map[*facts.Session]int64{}
	for _, a := range c.attempts.Attempts {
		if at, ok := last[a.Session]; ok {
			longest = max(longest, a.From-at)
		}
		last[a.Session] = max(last[a.Session], lastSetSent(a))
	}
	return longest
}

// attemptsBefore returns the attempts that began before an instant.
func attemptsBefore(w *facts.LockAttempts, until int64) []*facts.Attempt {
	n, _ := slices.BinarySearchFunc(w.Attempts, until, func(a *facts.Attempt, at int64) int { return cmp.Compare(a.From, at) })
	return w.Attempts[:n]
}

// lastRequests returns when each session without the lock last sent a command to a node. It ignores
// attempts that began at or after an instant.
func (c *lockState) lastRequests(until int64) map[*facts.Session]int64 {
	lastSent := map[*facts.Session]int64{}
	for _, a := range attemptsBefore(c.attempts, until) {
		if a.Won { // this attempt ended the acquire
			continue
		}
		lastSent[a.Session] = max(lastSent[a.Session], lastSetSent(a))
	}
	return lastSent
}

// lastSetSent returns when an attempt's last set was sent.
func lastSetSent(a *facts.Attempt) int64 {
	at := a.From
	for _, e := range a.Sets {
		at = max(at, e.Sent)
	}
	return at
}

// awaitedNodes returns the nodes whose missing or late answers may have delayed an attempt, if the
// attempt took too long and overlaps a span.
func (c *lockState) awaitedNodes(a *facts.Attempt, in spans.Span) (nodes []string) {
	if !c.tookTooLong(a, in) {
		return nil
	}
	asking := spans.Of(a.From, c.attemptEnd(a))
	for _, n := range c.Params.Nodes {
		unanswered := func(e *history.Event) bool { return e.Node == n && c.timedOut(e) }
		link := c.down.linkDown(a.Session.Client(), n)
		answered := func(e *history.Event) bool {
			return e.Node == n && !c.timedOut(e) && !spans.Meets(link, spans.Of(a.From, e.Sent+1))
		}
		away := spans.Meets(link, asking) && !slices.ContainsFunc(a.AllSets, answered)
		if away || slices.ContainsFunc(a.Sets, unanswered) || slices.ContainsFunc(a.Deletes, unanswered) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// explainLongAttempt says what an attempt that took too long was waiting for: nodes that gave no
// answer, a pause after the last answer, or late answers. lateNodes are the nodes whose answers
// were late or missing.
func explainLongAttempt(c *lockState, a *facts.Attempt, late []string) string {
	ended, last := c.attemptEnd(a), a.From
	latest := map[string]*history.Event{} // by node: a command that was never answered, or the command answered last
	answered := func(e *history.Event) int64 { return cmp.Or(e.Answered, facts.Never) }
	for _, e := range slices.Concat(a.AllSets, a.Deletes) {
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
	var unanswered, slow []string
	for _, n := range late {
		switch e := latest[n]; {
		case e == nil || e.Answered == 0:
			unanswered = append(unanswered, n)
		case e.Answered > ended:
			slow = append(slow, fmt.Sprintf("%s had not answered by %s", n, facts.Seconds(ended)))
		case e.Op == history.OpRelease:
			slow = append(slow, fmt.Sprintf("%s did not answer the release until %s", n, facts.Seconds(e.Answered)))
		default:
			slow = append(slow, fmt.Sprintf("%s did not answer until %s", n, facts.Seconds(e.Answered)))
		}
	}
	switch {
	case len(unanswered) > 0:
		return verdict.JoinNames(unanswered) + " gave no answer"
	case len(slow) == 0 || ended-last > int64(c.Params.NodeTimeout+c.Params.RetryMax):
		return fmt.Sprintf("contacted no node for the lock from %s to %s", facts.Seconds(last), facts.Seconds(ended))
	}
	return verdict.JoinNames(slow)
}

// tookTooLong reports whether an attempt took longer than contacting every node twice, one after
// the other, for keys and for fencing tokens, when no node answers.
func (c *lockState) tookTooLong(a *facts.Attempt, in spans.Span) bool {
	to, patience := c.attemptEnd(a), 2*int64(len(c.Params.Nodes))*int64(c.Params.NodeTimeout)+int64(c.Params.Slack)
	return a.From < in.To && to > in.From && to-a.From > patience
}

// timedOut reports whether a node's answer did not arrive within the node timeout.
func (c *lockState) timedOut(e *history.Event) bool {
	return e.Answered == 0 || e.Answered-e.Sent > int64(c.Params.NodeTimeout)
}

// attemptEnd returns when an attempt acquired the lock or was undone, judging by the nodes'
// answers. Without any sign that the attempt was undone, it returns the start of the attempt or, if
// an answer is missing, one maximum retry delay before Attempt.End.
func (c *lockState) attemptEnd(a *facts.Attempt) int64 {
	if a.Won {
		return a.Session.Acquire.ReturnedAt()
	}
	undone := int64(facts.Never)
	for _, d := range a.Deletes {
		if d.Sent >= a.From && c.timedOut(d) {
			return a.End
		}
		undone = min(undone, max(d.Sent, a.From))
	}
	switch {
	case undone < facts.Never:
	case slices.ContainsFunc(a.Sets, c.timedOut):
		return max(a.From, a.End-int64(c.Params.RetryMax))
	default:
		return a.From
	}
	return undone
}

// voteTally groups the nodes by their response to an attempt. Each node is in at most one list.
type voteTally struct {
	leftKeys          []string        // nodes with a key of an attempt that was over
	leftBy            []string        // for each node in leftoverNodes, what left the key there: "c1's attempts", "c1's release at 3 s"
	leftByRelease     bool            // a release left at least one of these keys
	outlivedTTL       []string        // nodes with a key that existed after its TTL
	expiries          []string        // for each node in outlivedNodes, the key's expiry: "c1 gave them 20 s to live"
	noRefusal         map[string]bool // the nodes in leftoverNodes or outlivedNodes that did not refuse the attempt; true if unreachable
	rivalKeys         []string        // nodes that refused because of another client's current attempt
	rivalCounts       map[string]int  // number of nodes with keys of each other client's current attempts
	unreachable       []string        // nodes that were down or unreachable
	refusedWithoutKey []string        // nodes that refused without having a key
	ownKeys           []string        // nodes that were asked twice and refused because of the attempt's own key
	errorReplies      []string        // nodes that answered with an error
	unanswered        []string        // nodes that had not answered by the node timeout or the end of the round
	votes             []string        // nodes that voted for the attempt
	contacted         map[string]bool // nodes that were sent a set
	roundEnd          int64           // end of the round
}

// tallyVotes determines how each node answered, whether it had a key of another attempt, and
// whether it was reachable.
func tallyVotes(c *conditions, key string, a *facts.Attempt, owners map[string][]*facts.Attempt) voteTally {
	m := voteTally{rivalCounts: map[string]int{}, noRefusal: map[string]bool{}, contacted: map[string]bool{}, roundEnd: min(roundEnd(a), c.End)}
	for _, e := range a.AllSets {
		m.contacted[e.Node] = true
	}
	for _, n := range c.Params.Nodes {
		answer := a.Answer(n, int64(c.Params.NodeTimeout))
		inTime := answer != nil && answer.Answered <= m.roundEnd
		away := spans.Meets(c.down.linkDown(a.Session.Client(), n), spans.Of(a.From, a.To+1))
		other := blockingKey(c.Lives(), n, key, a, answer)
		var by *facts.Attempt
		if other != nil {
			by = owner(owners[other.Value], other)
		}
		switch {
		case inTime && answer.Type == history.OK:
			m.votes = append(m.votes, n)
			continue
		case answer != nil && answer.Type == history.OK: // the answer arrived too late
		case other != nil && (hasExpired(c, a, other) || by == nil || keysDueGone(c.Facts, by) <= a.From):
			m.addLeftover(c, a, other, by)
			if !inTime || answer.Cause != "" {
				m.noRefusal[n] = away
			}
			continue
		case other != nil && by.Session.Client() == a.Session.Client():
			continue
		case other != nil:
			m.rivalCounts[by.Session.Client()]++
			if inTime && answer.Cause == "" {
				m.rivalKeys = append(m.rivalKeys, n)
				continue
			}
		case answer != nil && answer.Cause == "" && c.Lives().At(n, key, facts.Applied(answer)) != nil:
			m.ownKeys = append(m.ownKeys, n)
			continue
		case answer != nil && answer.Cause == "":
			m.refusedWithoutKey = append(m.refusedWithoutKey, n)
			continue
		}
		switch {
		case away:
			m.unreachable = append(m.unreachable, n)
		case inTime:
			m.errorReplies = append(m.errorReplies, n)
		case m.contacted[n]:
			m.unanswered = append(m.unanswered, n)
		}
	}
	m.dropUnmetLeftovers()
	return m
}

// roundEnd returns when the client of an attempt stopped waiting for votes because it undid the
// vote of a node that had answered, made another attempt, or returned.
func roundEnd(a *facts.Attempt) int64 {
	end := a.End
	if end <= a.From {
		end = a.To
	}
	for _, d := range a.Deletes {
		answered := func(e *history.Event) bool { return e.Node == d.Node && e.Answered != 0 && e.Answered <= d.Sent }
		if d.Sent >= a.From && slices.ContainsFunc(a.AllSets, answered) {
			end = min(end, d.Sent)
		}
	}
	return end
}

// hasExpired reports whether a key's TTL was over when an attempt began.
func hasExpired(c *conditions, a *facts.Attempt, s *facts.KeyInterval) bool {
	return a.From > c.keys.latestLapse(s.RenewedByOwner.T+facts.TimestampError(s.RenewedByOwner))
}

// addLeftover records a key that should have been gone. origin is the attempt that set the key, or nil.
func (m *voteTally) addLeftover(c *conditions, a *facts.Attempt, s *facts.KeyInterval, by *facts.Attempt) {
	client := facts.LinkClient(s.By())
	if hasExpired(c, a, s) {
		m.outlivedTTL, m.expiries = append(m.outlivedTTL, s.Node), append(m.expiries, describeExpiry(client, s))
		return
	}
	culprit := client + "'s attempts"
	if by != nil && by.Won && by.Session.FirstRelease() != nil {
		m.leftByRelease = true
		culprit = fmt.Sprintf("%s's release at %s", client, facts.Seconds(by.Session.FirstRelease().T))
	}
	m.leftKeys, m.leftBy = append(m.leftKeys, s.Node), append(m.leftBy, culprit)
}

// reclassifyLeftovers moves the nodes with leftover keys to the unreachable or unanswered ones if
// none of them refused the attempt.
func (m *voteTally) dropUnmetLeftovers() {
	if len(m.noRefusal) < len(m.leftKeys)+len(m.outlivedTTL) {
		return
	}
	for _, n := range slices.Concat(m.leftKeys, m.outlivedTTL) {
		switch {
		case m.noRefusal[n]:
			m.unreachable = append(m.unreachable, n)
		case m.contacted[n]:
			m.unanswered = append(m.unanswered, n)
		}
	}
	m.leftKeys, m.leftBy, m.leftByRelease, m.outlivedTTL, m.expiries, m.noRefusal = nil, nil, false, nil, nil, nil
}

// describeExpiry says what expiry a client gave a key, or who else extended the key.
func describeExpiry(client string, s *facts.KeyInterval) string {
	if s.ExpirySet != s.RenewedByOwner {
		return fmt.Sprintf("%s's were extended by %s", client, facts.Issuer(s.ExpirySet))
	}
	if life := s.Lifetime(); life != facts.Never {
		return client + " gave them " + facts.Seconds(life) + " to live"
	}
	return client + " gave them no expiry"
}

// ownerAttempt returns the last of a token's attempts that can have set a value on a node, or nil.
func owner(attempts []*facts.Attempt, s *facts.KeyInterval) *facts.Attempt {
	for _, a := range slices.Backward(attempts) {
		if a.From <= startSent(s) {
			return a
		}
	}
	return nil
}

// keysDueTime returns when an attempt's keys should have been gone: at the end of the attempt or,
// if its holder called release, at most a node timeout after that call.
func keysDueGone(r *facts.Facts, a *facts.Attempt) int64 {
	if call := a.Session.FirstRelease(); a.Won && call != nil {
		return min(a.End, spans.Plus(call.T, int64(r.Params.NodeTimeout)))
	}
	return a.End
}

// blockingKey returns another attempt's key that a node had when it refused this attempt or, if the
// node did not answer, while this attempt was in progress. It returns nil if there is none.
func blockingKey(lives *facts.Lives, node, key string, a *facts.Attempt, answer *history.Event) *facts.KeyInterval {
	own := func(s *facts.KeyInterval) bool { return s.Holds(a.Token) && startSent(s) >= a.From }
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

// cause returns what kept an attempt from getting a quorum, or "" if it lost to an attempt with a
// quorum. An obstacle is the cause if, all else being equal, there would have been a quorum without
// it.
func (m voteTally) cause(p *history.Params) (cause, text string) {
	nodes, quorum := len(p.Nodes), quorumSize(p)
	keys := len(m.leftKeys) + len(m.outlivedTTL)
	open := nodes - keys - len(m.unreachable) - len(m.rivalKeys) - len(m.refusedWithoutKey) - len(m.ownKeys) - len(m.errorReplies) - len(m.unanswered)
	needed := func(these []string) bool { return len(these) > 0 && open < quorum && open+len(these) >= quorum }
	for client := range m.rivalCounts {
		if m.rivalCounts[client] >= quorum {
			return "", ""
		}
	}
	switch reach := nodes - len(m.unreachable); {
	case nodes-len(m.leftKeys) < quorum && m.describeLeftovers() != "":
		return verdict.LeftKeys, m.withUnanswered(m.describeLeftovers())
	case reach >= quorum && reach-len(m.outlivedTTL) < quorum && m.describeOutlived(p) != "":
		return verdict.OutlivedTTL, m.withUnanswered(m.describeOutlived(p))
	case m.leftByRelease && reach >= quorum && reach-len(m.leftKeys) < quorum && m.describeLeftovers() != "":
		return verdict.LeftKeys, m.withUnanswered(m.describeLeftovers())
	case reach >= quorum && reach-keys < quorum && len(m.outlivedTTL) >= len(m.leftKeys) && m.describeOutlived(p) != "":
		return verdict.OutlivedTTL, m.withUnanswered(m.describeOutlived(p))
	case nodes-keys < quorum && m.describeLeftovers() != "":
		return verdict.LeftKeys, m.withUnanswered(m.describeLeftovers())
	case len(m.unreachable) > 0 && nodes-keys-len(m.unreachable) < quorum:
		return verdict.NoMajority, m.withUnanswered(m.describeLeftovers())
	case needed(m.rivalKeys):
		return verdict.SplitVote, fmt.Sprintf("found keys of other clients' attempts on %s", verdict.JoinNames(m.rivalKeys))
	case needed(m.refusedWithoutKey):
		return verdict.TurnedAway, fmt.Sprintf("was refused by %s that had no key", verdict.Plural(len(m.refusedWithoutKey), "node"))
	}
	return verdict.TooFewVotes, m.describeVotes(p)
}

// withUnanswered prefixes a text with the nodes that could not be contacted, and with the nodes
// that were contacted but neither voted nor refused in time, while they had a leftover key or a
// fault was active.
func (m voteTally) withUnanswered(text string) string {
	var notContacted, unanswered []string
	for _, n := range slices.Sorted(slices.Values(slices.Concat(m.unreachable, m.leftKeys, m.outlivedTTL))) {
		down, noRefusal := m.noRefusal[n]
		switch away := down || slices.Contains(m.unreachable, n); {
		case away && !m.contacted[n]:
			notContacted = append(notContacted, n)
		case away, noRefusal:
			unanswered = append(unanswered, n)
		}
	}
	var parts []string
	if len(notContacted) > 0 {
		parts = append(parts, "could not contact "+verdict.JoinNames(notContacted))
	}
	if len(unanswered) > 0 {
		parts = append(parts, "got neither a vote nor a refusal in time from "+verdict.JoinNames(unanswered))
	}
	if text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, ", and ")
}

// describeVotes says how each node responded to an attempt that got too few votes although nothing
// kept it from getting a quorum.
func (m voteTally) describeVotes(p *history.Params) string {
	quorum := quorumSize(p)
	if len(m.votes) >= quorum {
		return fmt.Sprintf("had the votes of %s, which are a quorum, but did not take the lock", verdict.JoinNames(m.votes))
	}
	asked := func(n string) bool { return m.contacted[n] }
	notAsked := func(n string) bool { return !m.contacted[n] }
	text := fmt.Sprintf("had %d of the %d votes it needed", len(m.votes), quorum)
	for _, group := range []struct {
		nodes []string
		did   string
	}{
		{m.votes, "%s voted for it"},
		{m.ownKeys, "%s refused it because of its own key"},
		{slices.Concat(m.leftKeys, m.outlivedTTL), "%s had keys that should have been gone"},
		{m.rivalKeys, "%s refused it because of keys of other clients' attempts"},
		{m.refusedWithoutKey, "%s refused it without having a key"},
		{m.errorReplies, "%s answered with an error"},
		{slices.Concat(m.unanswered, slices.DeleteFunc(slices.Clone(m.unreachable), notAsked)), "%s had not answered in time, and the attempt was over by " + facts.Seconds(m.roundEnd)},
		{slices.DeleteFunc(slices.Clone(m.unreachable), asked), "%s could not be contacted"},
		{m.uncontactedNodes(p), "it did not contact %s"},
	} {
		if len(group.nodes) > 0 {
			text += "; " + fmt.Sprintf(group.did, verdict.JoinNames(group.nodes))
		}
	}
	return text
}

// uncontactedNodes returns the reachable nodes that have no leftover keys and were not sent a set.
func (m voteTally) uncontactedNodes(p *history.Params) (names []string) {
	for _, n := range p.Nodes {
		if !m.contacted[n] && !slices.Contains(slices.Concat(m.unreachable, m.leftKeys, m.outlivedTTL), n) {
			names = append(names, n)
		}
	}
	return names
}

// describeOutlived says which nodes refused because of keys that existed after their TTL. It
// returns "" if there are none.
func (m voteTally) describeOutlived(p *history.Params) string {
	var nodes, expiries []string
	for i, n := range m.outlivedTTL {
		if _, noRefusal := m.noRefusal[n]; noRefusal {
			continue
		}
		nodes = append(nodes, n)
		client, _, _ := strings.Cut(m.expiries[i], " ")
		if !slices.ContainsFunc(expiries, func(s string) bool { return strings.HasPrefix(s, client+" ") }) {
			expiries = append(expiries, m.expiries[i])
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	return fmt.Sprintf("found keys on %s that existed after their TTL of %s: %s", verdict.JoinNames(nodes), facts.Seconds(int64(p.TTL)), verdict.JoinNames(expiries))
}

// describeLeftovers says which nodes refused because of leftover keys, grouped by what left the
// keys there. It returns "" if there are none.
func (m voteTally) describeLeftovers() string {
	var order, parts []string
	nodes := map[string][]string{}
	for i, by := range m.leftBy {
		if _, noRefusal := m.noRefusal[m.leftKeys[i]]; noRefusal {
			continue
		}
		if !slices.Contains(order, by) {
			order = append(order, by)
		}
		nodes[by] = append(nodes[by], m.leftKeys[i])
	}
	for _, by := range order {
		parts = append(parts, fmt.Sprintf("on %s that %s had left there", verdict.JoinNames(nodes[by]), by))
	}
	if len(parts) == 0 {
		return ""
	}
	return "found keys " + verdict.JoinNames(parts)
}
