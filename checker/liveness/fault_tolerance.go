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
	numJudged := 0 // number of gaps that ended in a grant to a client that could reach a majority
	longest := int64(0)
	var allStuckCalls []verdict.Incident
	for _, c := range r.locks {
		var unavailabilities []unavailability // at most one per gap, after allowing for the host
		for g := range gaps(c) {
			d, found := longestUnavailability(c, g, c.certainlyAvailableSpans, func(clients []string, s spans.Span) int64 { return roundsBound(&c.Params) + c.stallDelay(clients, s) })
			if found {
				unavailabilities = append(unavailabilities, d)
				f.Incidents = append(f.Incidents, verdict.Incident{From: d.From, Describe: func() verdict.Result { return describeUnavailability(d) }})
				if d.Length() > longest {
					longest, f.DescribeWorst = d.Length(), f.Incidents[len(f.Incidents)-1].Describe
				}
				continue
			}
			if c.isRealTime() {
				d, found = longestUnavailability(c, g, c.availableSpans, func([]string, spans.Span) int64 { return roundsBound(&c.Params) })
			}
			switch {
			case found: // the host may explain it
				f.Undecided = cmp.Or(f.Undecided, d.undecidedMessage())
			case g.nextHolder != nil && g.nextHolder.Granted() && spans.Meets(c.availableSpans(g.nextHolder.Client()), spans.New(g.firstSetTime-1, g.firstSetTime)):
				numJudged++
			}
		}
		stuckCalls, undecided := findStuckCalls(c, unavailabilities)
		allStuckCalls, f.Undecided = append(allStuckCalls, stuckCalls...), cmp.Or(f.Undecided, undecided)
	}
	f.Incidents = append(f.Incidents, allStuckCalls...)
	f.Occasions = numJudged + len(f.Incidents)
	f.Because = "no client wanted a free lock while it could reach a majority"
	if numJudged > 0 {
		f.Because = fmt.Sprintf("whenever a lock was free and a client that wanted it could reach a majority, some client acquired it within the limit of %s (%s)",
			facts.Seconds(roundsBound(&r.Params)), verdict.Plural(numJudged, "interval"))
	}
	return f
}

// gap is a span during which nobody held or may have held a lock. An acquire in progress does not
// end a gap, even if it has set keys.
type gap struct {
	spans.Span
	lastHolder   *facts.Session // the last holder before the gap, or nil at the start of the record
	nextHolder   *facts.Session // the next holder or possible holder, or nil at the end of the record
	firstSetTime int64          // when the next holder's first key was set, but later than From
}

// gaps yields a lock's gaps in chronological order.
func gaps(c *lockState) iter.Seq[gap] {
	return func(yield func(gap) bool) {
		g := gap{Span: spans.New(spans.DistantPast, facts.Never)}
		for _, t := range c.holders() {
			if t.From >= t.To {
				continue // the keys had lapsed before the acquire ended
			}
			if g.From < t.From {
				g.To, g.nextHolder, g.firstSetTime = t.From, t.session, min(max(t.holdStart, g.From+1), t.From)
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
	var waitingClients []string
	w := c.callers()
	for _, client := range w.clientsAfter(g.To, w.waitEnds, g.From) {
		acquirable := c.couldAcquire(c.waitingSpans(client, g.Span), g.Span, available(client))
		longest(acquirable, []string{client})
		if len(acquirable) > 0 {
			all, waitingClients = append(all, acquirable...), append(waitingClients, client)
		}
	}
	if !found {
		longest(spans.Union(all), waitingClients)
	}
	return d, found
}

// undecidedMessage describes an unavailability that the host may have caused.
func (d unavailability) undecidedMessage() string {
	reason := "the host was slow, which may be why keys stayed on nodes"
	if len(d.lock.stalls) > 0 {
		reason = d.lock.stallMessage(d.Span)
	}
	return fmt.Sprintf("nobody acquired %s %s, though %s could have within %s; %s", verdict.LockName(d.lock.name),
		facts.FromTo(d.From, d.To), verdict.JoinNames(d.clients), facts.Seconds(roundsBound(&d.lock.Params)), reason)
}

// describeUnavailability says who waited, and since when the lock was free.
func describeUnavailability(d unavailability) verdict.Result {
	w := &verdict.Witness{Key: d.lock.name, From: d.From, To: d.To}
	var events []*history.Event
	sinceText := "it had never been held"
	if s := d.gap.lastHolder; s != nil {
		sinceText = fmt.Sprintf("its last holder, %s, no longer held it at %s", s.Client(), facts.Seconds(d.gap.From))
		w.Sessions = append(w.Sessions, s.Name())
		events = append(events, holdEndEvents(d.lock, s)...)
	}
	waiters := 0
	for _, client := range d.lock.clientNames {
		sessions := endingAfter(d.lock.byClient()[client], d.From)
		if len(sessions) == 0 || sessions[0].Acquire.Call.T >= d.To {
			continue
		}
		s := sessions[0] // one session per client is enough
		if slices.Contains(d.clients, client) && len(w.Sessions) < 2 {
			w.Sessions = append(w.Sessions, s.Name())
		}
		events = append(events, s.Acquire.Call)
		waiters++
	}
	w.Events = verdict.EventNumbers(events)
	cause, reason := explainUnavailability(d.lock, d.Span)
	boundText := facts.Seconds(roundsBound(&d.lock.Params))
	delay := d.lock.stallDelay(d.clients, d.Span)
	if delay > 0 {
		boundText += fmt.Sprintf(" plus %s for host stalls", facts.Seconds(delay))
	}
	return verdict.Result{
		Outcome: verdict.Violated, Witness: w, Cause: cause, Bound: roundsBound(&d.lock.Params) + delay,
		Because: fmt.Sprintf("%s could have acquired %s %s because a majority was available, and %s tried, but nobody acquired it within %s: %s; %s",
			verdict.JoinNames(d.clients), verdict.LockName(d.lock.name), facts.FromTo(d.From, d.To),
			verdict.Plural(waiters, "client"), boundText, sinceText, reason),
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
		if t.To < t.lapseTime { // the nodes' own data shows that the release ended the hold
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
func measureAvailability(r *Run, n map[string]float64, reasons map[string]string) {
	sum := int64(0)
	var longest spans.Span
	var longestLock *lockState
	for _, c := range r.locks {
		for w := range unavailableSpans(c, r.beliefs.Windows(c.lock)) {
			sum += w.Length()
			if w.Length() > longest.Length() {
				longest, longestLock = w, c
			}
		}
	}
	if elapsed := r.LastClientTime - r.FirstClientTime; elapsed > 0 && len(r.Locks) > 0 {
		n["unavailable-seconds"] = history.Seconds(sum)
		n["unavailable-share"] = float64(sum) / float64(elapsed) / float64(len(r.Locks))
	}
	if longestLock != nil {
		n[verdict.UnavailableMax] = history.Seconds(longest.Length())
		reasons[verdict.UnavailableMax] = explainWindow(longestLock, r.losses, longest)
	}
	if maxHandover := maxDeathToGrant(r.losses); maxHandover > 0 {
		n["death-to-grant-max"] = history.Seconds(maxHandover)
	}
	countOrphanKeys(r.conditions, n)
}

// unavailableSpans yields, in chronological order, the spans during which a client was trying to acquire a lock
// and no client believed it held the lock.
func unavailableSpans(c *lockState, belief []spans.Window) iter.Seq[spans.Span] {
	return func(yield func(spans.Span) bool) {
		belief := belief
		until := int64(spans.DistantPast) // when the last of the windows so far ends
		yieldUncovered := func(wantSpan spans.Span) bool {
			at := max(wantSpan.From, until)
			for len(belief) > 0 && belief[0].From < wantSpan.To {
				if at < belief[0].From && !yield(spans.New(at, belief[0].From)) {
					return false
				}
				until = max(until, belief[0].To)
				at = max(at, until)
				belief = belief[1:]
			}
			return at >= wantSpan.To || yield(spans.New(at, wantSpan.To))
		}
		var wantSpan spans.Span
		for s := range c.sessions {
			w := spans.Wait(c.Facts, s)
			if w.From > wantSpan.To {
				if !yieldUncovered(wantSpan) {
					return
				}
				wantSpan = w
			}
			wantSpan.To = max(wantSpan.To, w.To)
		}
		yieldUncovered(wantSpan)
	}
}

// explainWindow returns what accounts for most of a window in which nobody held a lock that
// somebody wanted. The lease of a lost holder takes precedence, then a majority that is down, then
// all other causes. Time without any of these counts as contention: an acquire in progress, split
// votes, or leftover keys of failed attempts.
func explainWindow(c *lockState, losses []loss, w spans.Span) string {
	lossCauses := map[*facts.Session]string{}
	for _, d := range losses {
		lossCauses[d.session] = "lease of a " + lossWords[d.fault.Kind].holder
	}
	sessions := sessionsNear(c, w)
	waitSpans := map[string][]spans.Span{} // by client
	for _, s := range sessions {
		if wait := spans.Wait(c.Facts, s); wait.From < w.To && wait.To > w.From {
			waitSpans[s.Client()] = append(waitSpans[s.Client()], wait)
		}
	}
	var reachableSpans []spans.Span // when some client could reach a majority
	for client, list := range waitSpans {
		reachableSpans = append(reachableSpans, c.couldAcquire(list, w, c.outages.majority(client))...)
	}
	upSpans := spans.Intersect(spans.Union(reachableSpans), spans.Complement(c.stalls))
	wholeWindow, reachableTime := spans.Measure([]spans.Span{w}), spans.Measure(upSpans)
	timeByCause := map[string]int64{}
	var holds, lostLeases []spans.Span
	for _, s := range sessions {
		t, ok := findHold(c.Facts, c.lapses, s, c.attempts)
		if !ok || t.From >= w.To || t.To <= w.From {
			continue
		}
		holds = append(holds, t.Span)
		cause, measured := contention, reachableTime
		switch {
		case lossCauses[s] != "":
			cause, measured = lossCauses[s], wholeWindow
			lostLeases = append(lostLeases, t.Span)
		case !s.Granted():
			cause = acquireUnanswered
		case s.ReleasedAt() == facts.Never:
			cause = releaseUnanswered
		}
		timeByCause[cause] += measured.Share(t.Span)
		if s.Granted() {
			timeByCause[cause] -= measured.Share(spans.New(s.Acquire.Return.T, t.beliefEnd))
		}
	}
	for _, downSpan := range spans.Intersect(spans.Intersect([]spans.Span{w}, spans.Complement(upSpans)), spans.Complement(spans.Union(lostLeases))) {
		stallTime := spans.Share(c.stalls, downSpan)
		timeByCause[hostStalled] += stallTime
		timeByCause[majorityDown] += downSpan.Length() - stallTime
	}
	blockedSpans := c.blockedSpans()
	for _, freeSpan := range spans.Intersect(upSpans, spans.Complement(spans.Union(holds))) {
		blockedTime := spans.Share(blockedSpans, freeSpan)
		timeByCause[keysLeftByFault] += blockedTime
		timeByCause[contention] += freeSpan.Length() - blockedTime
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
	var sessions []*facts.Session
	lifetime := c.lapses.maxLifetime()
	for s := range c.sessions {
		if s.Acquire.Call.T >= w.To {
			break
		}
		if lifetime > facts.Never/4 || s.Acquire.ReturnedAt() >= w.From-3*lifetime {
			sessions = append(sessions, s)
		}
	}
	return sessions
}

func maxDeathToGrant(losses []loss) int64 {
	longest := int64(0)
	for _, d := range losses {
		if next := d.lock.grantAfter(d.at, d.session); next != nil && d.fault.Kind == facts.Kill {
			longest = max(longest, next.Acquire.Return.T-d.at)
		}
	}
	return longest
}

// unavailabilityCauses is the order in which heaviestCause breaks ties.
var unavailabilityCauses = []string{verdict.LeftKeys, verdict.OutlivedTTL, verdict.NoMajority, verdict.WaitedLong, verdict.SplitVote, verdict.TurnedAway, verdict.TooFewVotes, verdict.GaveUp}

// explainUnavailability returns the most frequent cause of the failed attempts in a span during
// which nobody acquired a lock, and describes the first attempt with this cause. The nodes' own
// data shows what blocked an attempt.
//
//	a call did not return, and contacted no node for ten rounds       hung
//	the same, but the call returned, or the lock had paused that long waited-long, if no client tried in most of the span
//	most attempts                                                     see voteTally.cause
//	no attempt, and a client paused for longer than a round           waited-long
func explainUnavailability(c *lockState, span spans.Span) (cause, text string) {
	if !c.Params.ReportsKeys {
		return verdict.Unexplained, "the record contains no information about the nodes"
	}
	if c.attempts == nil {
		if n, firstTexts := countGiveUps(c, span); n > 0 {
			return verdict.GaveUp, firstTexts
		}
		return verdict.Unexplained, "no attempt was recorded on the links"
	}
	idleCall := findIdleAcquire(c, span, roundsBound(&c.Params))
	if idleCall.hung {
		return verdict.Hung, idleCall.text
	}
	attempts := attemptsBefore(c.attempts, span.To)
	counts, firstTexts := countCauses(c, attempts, span)
	if idleCall.session != nil && counts[verdict.WaitedLong] == 0 && span.To-max(span.From, lastFailedStart(attempts)) > span.Length()/2 {
		return verdict.WaitedLong, idleCall.text
	}
	if len(counts) == 0 {
		for _, a := range attempts {
			if a.Won && c.tookTooLong(a, span) {
				return verdict.Unexplained, fmt.Sprintf("%s's attempt at %s took %s, and then acquired the lock", a.Session.Client(), facts.Seconds(a.From), facts.Seconds(c.attemptEnd(a)-a.From))
			}
		}
		round := int64(c.Params.RetryMax + 2*c.Params.NodeTimeout + c.Params.Slack)
		switch idleCall = findIdleAcquire(c, spans.New(spans.DistantPast, span.To), round); {
		case idleCall.hung:
			return verdict.Hung, idleCall.text
		case idleCall.session != nil:
			return verdict.WaitedLong, idleCall.text
		}
		return verdict.Unexplained, "no attempt began during that time"
	}
	cause = heaviestCause(counts)
	return cause, firstTexts[cause]
}

// countCauses counts the attempts in a span by the cause of their failure, and describes the first
// attempt for each cause. If an attempt lost to another one with a quorum, it skips the loser and
// counts the other.
func countCauses(c *lockState, attempts []*facts.Attempt, span spans.Span) (counts map[string]int64, firstTexts map[string]string) {
	counts, firstTexts = map[string]int64{}, map[string]string{}
	add := func(cause, text string) {
		if counts[cause]++; counts[cause] == 1 {
			firstTexts[cause] = text
		}
	}
	if n, text := countGiveUps(c, span); n > 0 {
		counts[verdict.GaveUp], firstTexts[verdict.GaveUp] = n, text
	}
	attemptsByToken := map[string][]*facts.Attempt{} // attempts by token
	for _, a := range attempts {
		attemptsByToken[a.Token] = append(attemptsByToken[a.Token], a)
	}
	for _, a := range attempts {
		if nodes := c.awaitedNodes(a, span); len(nodes) > 0 {
			add(verdict.WaitedLong, fmt.Sprintf("%s's attempt at %s took %s, and %s", a.Session.Client(), facts.Seconds(a.From), facts.Seconds(c.attemptEnd(a)-a.From), explainLongAttempt(c, a, nodes)))
			continue
		}
		if a.From < span.From || a.Won {
			continue
		}
		m := tallyVotes(c.conditions, c.name, a, attemptsByToken)
		if cause, text := m.cause(&c.Params); cause != "" {
			add(cause, fmt.Sprintf("%s's attempt at %s %s", a.Session.Client(), facts.Seconds(a.From), text))
		}
	}
	return counts, firstTexts
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
func countGiveUps(c *lockState, span spans.Span) (n int64, firstText string) {
	sendTimesByClient := map[string][]int64{} // by client: when it sent commands
	for _, e := range c.SentCommands() {
		sendTimesByClient[facts.Sender(e)] = append(sendTimesByClient[facts.Sender(e)], e.SentAt)
	}
	for s := range c.sessions {
		if s.Acquire.Call.T >= span.To {
			break
		}
		if s.Granted() || c.PendingAtStop(s.Acquire) || s.EndedAt < span.From {
			continue
		}
		sendTimes := sendTimesByClient[s.Client()]
		if i, _ := slices.BinarySearch(sendTimes, s.CalledAt); i < len(sendTimes) && sendTimes[i] <= s.EndedAt || !spans.Covers(c.outages.majority(s.Client()), spans.New(s.CalledAt, s.EndedAt)) {
			continue
		}
		if n++; n == 1 {
			firstText = fmt.Sprintf("%s's acquire at %s returned an error at %s and contacted no node", s.Client(), facts.Seconds(s.CalledAt), facts.Seconds(s.EndedAt))
		}
	}
	return n, firstText
}

// idleAcquire is an acquire in progress that contacts no node.
type idleAcquire struct {
	session *facts.Session // nil if there is no such acquire
	hung    bool           // see isHung
	text    string
}

// findIdleAcquire returns the first acquire that was in progress at the end of a span and contacted
// no node for longer than maxPause, although its client could reach a majority of nodes that had no
// key. A hung acquire takes precedence.
func findIdleAcquire(c *lockState, span spans.Span, maxPause int64) (found idleAcquire) {
	lastRequests := c.lastRequests(span.To)
	callers := c.callers()
	for s := range callers.runningAfter(span.To-1, callers.waitEnds, span.To-1) {
		idleSince := max(s.CalledAt, lastRequests[s])
		pause := spans.New(max(idleSince, span.From), span.To)
		hung := isHung(c, s.Acquire, spans.New(idleSince, span.To))
		if found.session != nil && !hung || spans.Share(spans.Intersect(c.availableSpans(s.Client()), keylessSpans(c, s.Client())), pause) <= maxPause {
			continue
		}
		found = idleAcquire{s, hung, fmt.Sprintf("%s's acquire, called at %s, contacted no node after %s", s.Client(), facts.Seconds(s.CalledAt), facts.Seconds(idleSince))}
		if hung {
			break
		}
		found.text = fmt.Sprintf("%s's acquire, called at %s, contacted no node from %s to %s, but the longest retry delay is %s",
			s.Client(), facts.Seconds(s.CalledAt), facts.Seconds(idleSince), facts.Seconds(span.To), facts.Seconds(int64(c.Params.RetryMax)))
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
	lastSent := map[*facts.Session]int64{}
	for _, a := range c.attempts.Attempts {
		if at, ok := lastSent[a.Session]; ok {
			longest = max(longest, a.From-at)
		}
		lastSent[a.Session] = max(lastSent[a.Session], lastSetSent(a))
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

// lastSetSent returns when an attempt's last SET was sent.
func lastSetSent(a *facts.Attempt) int64 {
	at := a.From
	for _, e := range a.Sets {
		at = max(at, e.SentAt)
	}
	return at
}

// awaitedNodes returns the nodes whose missing or late answers may have delayed an attempt, if the
// attempt took too long and overlaps a span.
func (c *lockState) awaitedNodes(a *facts.Attempt, span spans.Span) (nodes []string) {
	if !c.tookTooLong(a, span) {
		return nil
	}
	attemptSpan := spans.New(a.From, c.attemptEnd(a))
	for _, n := range c.Params.Nodes {
		unanswered := func(e *history.Event) bool { return e.Node == n && c.timedOut(e) }
		link := c.outages.linkDown(a.Session.Client(), n)
		answered := func(e *history.Event) bool {
			return e.Node == n && !c.timedOut(e) && !spans.Meets(link, spans.New(a.From, e.SentAt+1))
		}
		isDown := spans.Meets(link, attemptSpan) && !slices.ContainsFunc(a.AllSets, answered)
		if isDown || slices.ContainsFunc(a.Sets, unanswered) || slices.ContainsFunc(a.Releases, unanswered) {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// explainLongAttempt says what an attempt that took too long was waiting for: nodes that gave no
// answer, a pause after the last answer, or late answers. lateNodes are the nodes whose answers
// were late or missing.
func explainLongAttempt(c *lockState, a *facts.Attempt, lateNodes []string) string {
	end, lastAnswer := c.attemptEnd(a), a.From
	lastCommands := map[string]*history.Event{} // by node: a command that was never answered, or the command answered last
	answered := func(e *history.Event) int64 { return cmp.Or(e.AnsweredAt, facts.Never) }
	for _, e := range slices.Concat(a.AllSets, a.Releases) {
		if e.SentAt < a.From || e.SentAt >= end {
			continue
		}
		if l := lastCommands[e.Node]; l == nil || answered(e) > answered(l) {
			lastCommands[e.Node] = e
		}
		if answered(e) <= end {
			lastAnswer = max(lastAnswer, e.AnsweredAt)
		}
	}
	var unansweredNodes, slowTexts []string
	for _, n := range lateNodes {
		switch e := lastCommands[n]; {
		case e == nil || e.AnsweredAt == 0:
			unansweredNodes = append(unansweredNodes, n)
		case e.AnsweredAt > end:
			slowTexts = append(slowTexts, fmt.Sprintf("%s had not answered by %s", n, facts.Seconds(end)))
		case e.Op == history.OpRelease:
			slowTexts = append(slowTexts, fmt.Sprintf("%s did not answer the release until %s", n, facts.Seconds(e.AnsweredAt)))
		default:
			slowTexts = append(slowTexts, fmt.Sprintf("%s did not answer until %s", n, facts.Seconds(e.AnsweredAt)))
		}
	}
	switch {
	case len(unansweredNodes) > 0:
		return verdict.JoinNames(unansweredNodes) + " gave no answer"
	case len(slowTexts) == 0 || end-lastAnswer > int64(c.Params.NodeTimeout+c.Params.RetryMax):
		return fmt.Sprintf("contacted no node for the lock from %s to %s", facts.Seconds(lastAnswer), facts.Seconds(end))
	}
	return verdict.JoinNames(slowTexts)
}

// tookTooLong reports whether an attempt took longer than contacting every node in turn, once for
// keys and once for fencing tokens, takes if no node answers.
func (c *lockState) tookTooLong(a *facts.Attempt, span spans.Span) bool {
	to, limit := c.attemptEnd(a), 2*int64(len(c.Params.Nodes))*int64(c.Params.NodeTimeout)+int64(c.Params.Slack)
	return a.From < span.To && to > span.From && to-a.From > limit
}

// timedOut reports whether a node's answer did not arrive within the node timeout.
func (c *lockState) timedOut(e *history.Event) bool {
	return e.AnsweredAt == 0 || e.AnsweredAt-e.SentAt > int64(c.Params.NodeTimeout)
}

// attemptEnd returns when an attempt acquired the lock or was undone, judging by the nodes'
// answers. Without any sign that the attempt was undone, it returns the start of the attempt or, if
// an answer is missing, one maximum retry delay before Attempt.End.
func (c *lockState) attemptEnd(a *facts.Attempt) int64 {
	if a.Won {
		return a.Session.Acquire.ReturnedAt()
	}
	undoTime := int64(facts.Never)
	for _, d := range a.Releases {
		if d.SentAt >= a.From && c.timedOut(d) {
			return a.End
		}
		undoTime = min(undoTime, max(d.SentAt, a.From))
	}
	switch {
	case undoTime < facts.Never:
	case slices.ContainsFunc(a.Sets, c.timedOut):
		return max(a.From, a.End-int64(c.Params.RetryMax))
	default:
		return a.From
	}
	return undoTime
}

// voteTally groups the nodes by their response to an attempt. Each node is in at most one list.
type voteTally struct {
	leftoverNodes    []string        // nodes with a key of an attempt that was over
	leftoverSources  []string        // for each node in leftoverNodes, what left the key there: "c1's attempts", "c1's release at 3 s"
	leftByRelease    bool            // a release left at least one of these keys
	outlivedNodes    []string        // nodes with a key that existed after its TTL
	expiries         []string        // for each node in outlivedNodes, the key's expiry: "c1 gave them 20 s to live"
	nonRefusing      map[string]bool // the nodes in leftoverNodes or outlivedNodes that did not refuse the attempt; true if unreachable
	rivalNodes       []string        // nodes that refused because of another client's current attempt
	rivalCounts      map[string]int  // number of nodes with keys of each other client's current attempts
	unreachableNodes []string        // nodes that were down or unreachable
	keylessRefusers  []string        // nodes that refused without having a key
	ownKeyNodes      []string        // nodes that were asked twice and refused because of the attempt's own key
	errorNodes       []string        // nodes that answered with an error
	unansweredNodes  []string        // nodes that had not answered by the node timeout or the end of the round
	votingNodes      []string        // nodes that voted for the attempt
	contactedNodes   map[string]bool // nodes that were sent a set
	roundEnd         int64           // end of the round
}

// tallyVotes determines how each node answered, whether it had a key of another attempt, and
// whether it was reachable.
func tallyVotes(c *conditions, key string, a *facts.Attempt, attemptsByToken map[string][]*facts.Attempt) voteTally {
	m := voteTally{rivalCounts: map[string]int{}, nonRefusing: map[string]bool{}, contactedNodes: map[string]bool{}, roundEnd: min(roundEnd(a), c.End)}
	for _, e := range a.AllSets {
		m.contactedNodes[e.Node] = true
	}
	for _, n := range c.Params.Nodes {
		answer := a.Answer(n, int64(c.Params.NodeTimeout))
		inTime := answer != nil && answer.AnsweredAt <= m.roundEnd
		isDown := spans.Meets(c.outages.linkDown(a.Session.Client(), n), spans.New(a.From, a.To+1))
		blocker := blockingKey(c.Lives(), n, key, a, answer)
		var blockerAttempt *facts.Attempt
		if blocker != nil {
			blockerAttempt = ownerAttempt(attemptsByToken[blocker.Value], blocker)
		}
		switch {
		case inTime && answer.Type == history.OK:
			m.votingNodes = append(m.votingNodes, n)
			continue
		case answer != nil && answer.Type == history.OK: // the answer arrived too late
		case blocker != nil && (hasExpired(c, a, blocker) || blockerAttempt == nil || keysDueTime(c.Facts, blockerAttempt) <= a.From):
			m.addLeftover(c, a, blocker, blockerAttempt)
			if !inTime || answer.Cause != "" {
				m.nonRefusing[n] = isDown
			}
			continue
		case blocker != nil && blockerAttempt.Session.Client() == a.Session.Client():
			continue
		case blocker != nil:
			m.rivalCounts[blockerAttempt.Session.Client()]++
			if inTime && answer.Cause == "" {
				m.rivalNodes = append(m.rivalNodes, n)
				continue
			}
		case answer != nil && answer.Cause == "" && c.Lives().IntervalAt(n, key, facts.AppliedAt(answer)) != nil:
			m.ownKeyNodes = append(m.ownKeyNodes, n)
			continue
		case answer != nil && answer.Cause == "":
			m.keylessRefusers = append(m.keylessRefusers, n)
			continue
		}
		switch {
		case isDown:
			m.unreachableNodes = append(m.unreachableNodes, n)
		case inTime:
			m.errorNodes = append(m.errorNodes, n)
		case m.contactedNodes[n]:
			m.unansweredNodes = append(m.unansweredNodes, n)
		}
	}
	m.reclassifyLeftovers()
	return m
}

// roundEnd returns when the client of an attempt stopped waiting for votes because it undid the
// vote of a node that had answered, made another attempt, or returned.
func roundEnd(a *facts.Attempt) int64 {
	end := a.End
	if end <= a.From {
		end = a.To
	}
	for _, d := range a.Releases {
		answered := func(e *history.Event) bool { return e.Node == d.Node && e.AnsweredAt != 0 && e.AnsweredAt <= d.SentAt }
		if d.SentAt >= a.From && slices.ContainsFunc(a.AllSets, answered) {
			end = min(end, d.SentAt)
		}
	}
	return end
}

// hasExpired reports whether a key's TTL was over when an attempt began.
func hasExpired(c *conditions, a *facts.Attempt, s *facts.KeyInterval) bool {
	return a.From > c.lapses.latestLapse(facts.LinkClient(s.Setter()), s.OwnerExpiryEvent.T+facts.TimestampUncertainty(s.OwnerExpiryEvent))
}

// addLeftover records a key that should have been gone. origin is the attempt that set the key, or nil.
func (m *voteTally) addLeftover(c *conditions, a *facts.Attempt, s *facts.KeyInterval, origin *facts.Attempt) {
	client := facts.LinkClient(s.Setter())
	if hasExpired(c, a, s) {
		m.outlivedNodes, m.expiries = append(m.outlivedNodes, s.Node), append(m.expiries, describeExpiry(client, s))
		return
	}
	source := client + "'s attempts"
	if origin != nil && origin.Won && origin.Session.FirstRelease() != nil {
		m.leftByRelease = true
		source = fmt.Sprintf("%s's release at %s", client, facts.Seconds(origin.Session.FirstRelease().T))
	}
	m.leftoverNodes, m.leftoverSources = append(m.leftoverNodes, s.Node), append(m.leftoverSources, source)
}

// reclassifyLeftovers moves the nodes with leftover keys to the unreachable or unanswered ones if
// none of them refused the attempt.
func (m *voteTally) reclassifyLeftovers() {
	if len(m.nonRefusing) < len(m.leftoverNodes)+len(m.outlivedNodes) {
		return
	}
	for _, n := range slices.Concat(m.leftoverNodes, m.outlivedNodes) {
		switch {
		case m.nonRefusing[n]:
			m.unreachableNodes = append(m.unreachableNodes, n)
		case m.contactedNodes[n]:
			m.unansweredNodes = append(m.unansweredNodes, n)
		}
	}
	m.leftoverNodes, m.leftoverSources, m.leftByRelease, m.outlivedNodes, m.expiries, m.nonRefusing = nil, nil, false, nil, nil, nil
}

// describeExpiry says what expiry a client gave a key, or who else extended the key.
func describeExpiry(client string, s *facts.KeyInterval) string {
	if s.ExpiryEvent != s.OwnerExpiryEvent {
		return fmt.Sprintf("%s's were extended by %s", client, facts.Issuer(s.ExpiryEvent))
	}
	if lifetime := s.Lifetime(); lifetime != facts.Never {
		return client + " gave them " + facts.Seconds(lifetime) + " to live"
	}
	return client + " gave them no expiry"
}

// ownerAttempt returns the last of a token's attempts that can have set a value on a node, or nil.
func ownerAttempt(attempts []*facts.Attempt, s *facts.KeyInterval) *facts.Attempt {
	for _, a := range slices.Backward(attempts) {
		if a.From <= startSentTime(s) {
			return a
		}
	}
	return nil
}

// keysDueTime returns when an attempt's keys should have been gone: at the end of the attempt or,
// if its holder called release, at most a node timeout after that call.
func keysDueTime(r *facts.Facts, a *facts.Attempt) int64 {
	if call := a.Session.FirstRelease(); a.Won && call != nil {
		return min(a.End, spans.Add(call.T, int64(r.Params.NodeTimeout)))
	}
	return a.End
}

// blockingKey returns another attempt's key that a node had when it refused this attempt or, if the
// node did not answer, while this attempt was in progress. It returns nil if there is none.
func blockingKey(lives *facts.Lives, node, key string, a *facts.Attempt, answer *history.Event) *facts.KeyInterval {
	isOwn := func(s *facts.KeyInterval) bool { return s.HasToken(a.Token) && startSentTime(s) >= a.From }
	if answer != nil && answer.Type == history.Fail && answer.Cause == "" {
		if s := lives.IntervalAt(node, key, facts.AppliedAt(answer)); s != nil && !isOwn(s) {
			return s
		}
	}
	for _, s := range lives.IntervalsBetween(node, key, a.From, a.To) {
		if !isOwn(s) && s.From() <= a.To && s.To() > a.From {
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
	numLeftover := len(m.leftoverNodes) + len(m.outlivedNodes)
	numFree := nodes - numLeftover - len(m.unreachableNodes) - len(m.rivalNodes) - len(m.keylessRefusers) - len(m.ownKeyNodes) - len(m.errorNodes) - len(m.unansweredNodes)
	needed := func(names []string) bool { return len(names) > 0 && numFree < quorum && numFree+len(names) >= quorum }
	for client := range m.rivalCounts {
		if m.rivalCounts[client] >= quorum {
			return "", ""
		}
	}
	switch numReachable := nodes - len(m.unreachableNodes); {
	case nodes-len(m.leftoverNodes) < quorum && m.describeLeftovers() != "":
		return verdict.LeftKeys, m.withUnanswered(m.describeLeftovers())
	case numReachable >= quorum && numReachable-len(m.outlivedNodes) < quorum && m.describeOutlived(p) != "":
		return verdict.OutlivedTTL, m.withUnanswered(m.describeOutlived(p))
	case m.leftByRelease && numReachable >= quorum && numReachable-len(m.leftoverNodes) < quorum && m.describeLeftovers() != "":
		return verdict.LeftKeys, m.withUnanswered(m.describeLeftovers())
	case numReachable >= quorum && numReachable-numLeftover < quorum && len(m.outlivedNodes) >= len(m.leftoverNodes) && m.describeOutlived(p) != "":
		return verdict.OutlivedTTL, m.withUnanswered(m.describeOutlived(p))
	case nodes-numLeftover < quorum && m.describeLeftovers() != "":
		return verdict.LeftKeys, m.withUnanswered(m.describeLeftovers())
	case len(m.unreachableNodes) > 0 && nodes-numLeftover-len(m.unreachableNodes) < quorum:
		return verdict.NoMajority, m.withUnanswered(m.describeLeftovers())
	case needed(m.rivalNodes):
		return verdict.SplitVote, fmt.Sprintf("found keys of other clients' attempts on %s", verdict.JoinNames(m.rivalNodes))
	case needed(m.keylessRefusers):
		return verdict.TurnedAway, fmt.Sprintf("was refused by %s that had no key", verdict.Plural(len(m.keylessRefusers), "node"))
	}
	return verdict.TooFewVotes, m.describeVotes(p)
}

// withUnanswered prefixes text with the nodes that could not be contacted, and with the nodes
// that were contacted but neither voted nor refused in time, while they had a leftover key or a
// fault was active.
func (m voteTally) withUnanswered(text string) string {
	var uncontacted, unanswered []string
	for _, n := range slices.Sorted(slices.Values(slices.Concat(m.unreachableNodes, m.leftoverNodes, m.outlivedNodes))) {
		isDown, noRefusal := m.nonRefusing[n]
		switch isUnreachable := isDown || slices.Contains(m.unreachableNodes, n); {
		case isUnreachable && !m.contactedNodes[n]:
			uncontacted = append(uncontacted, n)
		case isUnreachable, noRefusal:
			unanswered = append(unanswered, n)
		}
	}
	var parts []string
	if len(uncontacted) > 0 {
		parts = append(parts, "could not contact "+verdict.JoinNames(uncontacted))
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
	if len(m.votingNodes) >= quorum {
		return fmt.Sprintf("had the votes of %s, which are a quorum, but did not take the lock", verdict.JoinNames(m.votingNodes))
	}
	isContacted := func(n string) bool { return m.contactedNodes[n] }
	isNotContacted := func(n string) bool { return !m.contactedNodes[n] }
	text := fmt.Sprintf("had %d of the %d votes it needed", len(m.votingNodes), quorum)
	for _, group := range []struct {
		nodes []string
		did   string
	}{
		{m.votingNodes, "%s voted for it"},
		{m.ownKeyNodes, "%s refused it because of its own key"},
		{slices.Concat(m.leftoverNodes, m.outlivedNodes), "%s had keys that should have been gone"},
		{m.rivalNodes, "%s refused it because of keys of other clients' attempts"},
		{m.keylessRefusers, "%s refused it without having a key"},
		{m.errorNodes, "%s answered with an error"},
		{slices.Concat(m.unansweredNodes, slices.DeleteFunc(slices.Clone(m.unreachableNodes), isNotContacted)), "%s had not answered in time, and the attempt was over by " + facts.Seconds(m.roundEnd)},
		{slices.DeleteFunc(slices.Clone(m.unreachableNodes), isContacted), "%s could not be contacted"},
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
		if !m.contactedNodes[n] && !slices.Contains(slices.Concat(m.unreachableNodes, m.leftoverNodes, m.outlivedNodes), n) {
			names = append(names, n)
		}
	}
	return names
}

// describeOutlived says which nodes refused because of keys that existed after their TTL. It
// returns "" if there are none.
func (m voteTally) describeOutlived(p *history.Params) string {
	var nodes, expiries, ttls []string
	for i, n := range m.outlivedNodes {
		if _, noRefusal := m.nonRefusing[n]; noRefusal {
			continue
		}
		nodes = append(nodes, n)
		client, _, _ := strings.Cut(m.expiries[i], " ")
		if !slices.ContainsFunc(expiries, func(s string) bool { return strings.HasPrefix(s, client+" ") }) {
			expiries = append(expiries, m.expiries[i])
			if ttl := facts.Seconds(int64(p.TTLOf(strings.TrimSuffix(client, "'s")).TTL)); !slices.Contains(ttls, ttl) {
				ttls = append(ttls, ttl)
			}
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	return fmt.Sprintf("found keys on %s that existed after their TTL of %s: %s", verdict.JoinNames(nodes), strings.Join(ttls, " or "), verdict.JoinNames(expiries))
}

// describeLeftovers says which nodes refused because of leftover keys, grouped by what left the
// keys there. It returns "" if there are none.
func (m voteTally) describeLeftovers() string {
	var sources, parts []string
	nodes := map[string][]string{}
	for i, source := range m.leftoverSources {
		if _, noRefusal := m.nonRefusing[m.leftoverNodes[i]]; noRefusal {
			continue
		}
		if !slices.Contains(sources, source) {
			sources = append(sources, source)
		}
		nodes[source] = append(nodes[source], m.leftoverNodes[i])
	}
	for _, source := range sources {
		parts = append(parts, fmt.Sprintf("on %s that %s had left there", verdict.JoinNames(nodes[source]), source))
	}
	if len(parts) == 0 {
		return ""
	}
	return "found keys " + verdict.JoinNames(parts)
}
