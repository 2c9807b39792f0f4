// Package liveness checks that clients can acquire a lock whenever the injected faults allow it,
// and measures how evenly they share it.
//
// A Run holds a record with its locks and the losses of holders. The files are:
//
//	outages.go          what each kind of fault disables, when a client could reach a majority, when keys lapse
//	lock_state.go       who wants a lock, how long a session may have held it, leftover keys, lost holders
//	fault_tolerance.go  when a free lock could not be acquired, and why
//	liveness.go         whether a lost holder's lock was free in time, hung calls, fairness
//
// Other packages deal with conflicts between two holders.
package liveness

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sort"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Numbers measures the availability and fairness of the locks. If a number needs an explanation,
// reasons contains it under the number's name.
func (r *Run) Numbers(n map[string]float64) (reasons map[string]string) {
	reasons = map[string]string{}
	measureFairness(r, n)
	measureAvailability(r, n, reasons)
	return reasons
}

// Run is a record together with the effects of its faults and the state of its locks.
type Run struct {
	*conditions
	beliefs *spans.Beliefs
	locks   []*lockState
	losses  []loss
}

// Read prepares a record for this package's checks.
func Read(r *facts.Facts, beliefs *spans.Beliefs) *Run {
	c := newConditions(r)
	locks := newLockStates(c)
	return &Run{conditions: c, beliefs: beliefs, locks: locks, losses: findLosses(c, locks)}
}

// DeadlockFreedom checks that a lock is free again in time if its holder is lost (findLosses) while
// another client is trying to acquire it. Any client, including the lost one, must acquire the lock
// by
//
//	last key set for the lost holder + TTL·(1+ρ)  the lock is free (or the waiter's call, if later)
//	+ each step back of a node's clock            for the node with the largest sum
//	+ RetryMax + 2·NodeTimeout, for each waiter   a round of attempts, and the cost of a split vote
//	+ Slack
//
// If nobody acquired the lock by then because faults kept the waiter from reaching a majority,
// nothing was guaranteed, and the loss is skipped. Host stalls extend the bound
// (lockState.stallDelay). If they may explain a delay, the property is undecided.
func (r *Run) DeadlockFreedom() (f verdict.Finding) {
	if missing := missingParam(&r.Params); missing != "" {
		return verdict.Finding{Undecided: "the history contains no " + missing + ", so there is no bound"}
	}
	lossCounts, numSkipped := map[string]int{}, 0
	for _, d := range r.losses {
		finding, disturbed := d.judgeHandover()
		if disturbed {
			numSkipped++
		}
		lossCounts[d.fault.Kind] += finding.Occasions
		f.Occasions += finding.Occasions
		f.Incidents = append(f.Incidents, finding.Incidents...)
		f.Undecided = cmp.Or(f.Undecided, finding.Undecided)
	}
	f.Because = handoverSummary(lossCounts, numSkipped)
	return f
}

func handoverSummary(lossCounts map[string]int, numSkipped int) string {
	var losses []string
	for _, kind := range lossKinds {
		if n := lossCounts[kind]; n > 0 {
			losses = append(losses, verdict.Plural(n, lossWords[kind].noun))
		}
	}
	text := "no client was killed, or cut off or paused past its lease, while it held or may have held a lock that another client wanted"
	switch {
	case len(losses) > 0:
		text = fmt.Sprintf("the lock was free again in time after %s", verdict.JoinNames(losses))
	case numSkipped > 0:
		text = "no loss of a holder could be judged"
	}
	if numSkipped > 0 {
		text += fmt.Sprintf("; skipped because of other faults: %d", numSkipped)
	}
	return text
}

// judgeHandover judges one loss. The loss does not count as an occasion if other faults interfered
// or nobody waited long enough.
func (d loss) judgeHandover() (f verdict.Finding, disturbed bool) {
	success := verdict.Finding{Occasions: 1}
	next := d.lock.grantAfter(d.at, d.session)
	round := int64(d.lock.Params.RetryMax + 2*d.lock.Params.NodeTimeout)
	if !d.hasWaiters(next) {
		return f, false
	}
	if next != nil && next.Acquire.Return.T <= d.keysGoneTime+round+int64(d.lock.Params.Slack) {
		return success, false // regardless of the waiters
	}
	waiters, numClients := d.waiters(next)
	maxWait := round*int64(numClients) + int64(d.lock.Params.Slack)
	for _, w := range waiters {
		bound := max(d.keysGoneTime, w.Acquire.Call.T) + maxWait
		goneAt, isGone := d.lock.GoneAt[w.Client()]
		switch {
		case next != nil && next.Acquire.Return.T <= bound:
			return success, false // regardless of the faults
		case d.majorityBlocked(w, next, bound):
			disturbed = true
		case w.Acquire.ReturnedAt() <= bound, isGone && goneAt <= bound:
			continue // the waiter gave up
		case d.lock.End < bound:
			f = verdict.Finding{Occasions: 1, Undecided: d.undecidedMessage("; the lock had to be free again by %s, but the record ends at %s", facts.Seconds(bound), facts.Seconds(d.lock.End))}
		case d.hostMayExplain(w, next, bound):
			f = verdict.Finding{Occasions: 1, Undecided: d.undecidedMessage(", and %s could not acquire the lock by %s; the host stalled or was slow, which may be why", w.Client(), facts.Seconds(bound))}
		default:
			incident := verdict.Incident{From: d.at, Describe: func() verdict.Result { return d.lateResult(w, next, bound) }}
			return verdict.Finding{Occasions: 1, Incidents: []verdict.Incident{incident}}, false
		}
	}
	return f, disturbed && f.Occasions == 0
}

// hostMayExplain reports whether the bound may have been exceeded because the host stalled, or was
// so slow that keys stayed.
func (d loss) hostMayExplain(w, next *facts.Session, bound int64) bool {
	to := d.lock.End
	if next != nil {
		to = next.Acquire.Return.T
	}
	waitSpan := spans.New(max(d.at, w.Acquire.Call.T), to)
	if delay := d.lock.stallDelay([]string{w.Client()}, waitSpan); delay > 0 && to-bound <= delay {
		return true
	}
	return len(d.lock.keptByHost) > 0 && !spans.Covers(d.lock.certainMajority(w.Client()), spans.New(max(d.keysGoneTime, w.Acquire.Call.T), bound))
}

// undecidedMessage says that a loss may have been an incident, and why that is uncertain.
func (d loss) undecidedMessage(reason string, args ...any) string {
	return fmt.Sprintf("%s %s at %s while it may have held %s", d.session.Client(), lossWords[d.fault.Kind].verb, facts.Seconds(d.at), verdict.LockName(d.session.Key())) +
		fmt.Sprintf(reason, args...)
}

// hasWaiters reports whether waiters returns any session, without examining each one.
func (d loss) hasWaiters(next *facts.Session) bool {
	until := int64(facts.Never)
	if next != nil {
		until = next.Acquire.Return.T
	}
	fromLostClient := d.lock.byClient()[d.session.Client()]
	allCallers := d.lock.callers()
	return allCallers.countCalledBy(until)-countCalledBy(fromLostClient, until) > allCallers.countEndedBy(d.at)-(len(fromLostClient)-len(endingAfter(fromLostClient, d.at)))
}

// waiters returns other clients' sessions that called acquire before the next grant and were still
// waiting at the loss. It also counts their clients.
func (d loss) waiters(next *facts.Session) (waiters []*facts.Session, clients int) {
	until := int64(facts.Never)
	if next != nil {
		until = next.Acquire.Return.T
	}
	byClient, w := d.lock.byClient(), d.lock.callers()
	for _, client := range w.clientsAfter(until, w.acquireEnds, d.at) {
		numBefore := len(waiters)
		if client != d.session.Client() {
			for _, s := range endingAfter(byClient[client], d.at) {
				if s.Acquire.Call.T > until {
					break
				}
				waiters = append(waiters, s)
			}
		}
		if len(waiters) > numBefore {
			clients++
		}
	}
	return waiters, clients
}

// majorityBlocked reports whether faults kept a waiter from reaching a majority between the loss
// and the time until, or the next grant's first key if that is earlier. Keys left behind by faults
// don't count before the lost holder's own keys are gone.
func (d loss) majorityBlocked(w, next *facts.Session, until int64) bool {
	if next != nil {
		nextHold := d.lock.hold(next)
		until = min(until, nextHold.From)
	}
	at := w.Acquire.Call.T
	return !spans.Covers(d.lock.outages.majority(w.Client()), spans.New(max(d.at, at), until)) ||
		!spans.Covers(d.lock.majority(w.Client()), spans.New(max(d.keysGoneTime, at), until))
}

func (d loss) lateResult(w, next *facts.Session, bound int64) verdict.Result {
	to := d.lock.End
	text := fmt.Sprintf("had not been granted again when the record ended at %s", facts.Seconds(d.lock.End))
	events := []*history.Event{d.session.Acquire.Call, d.session.Acquire.Return, d.lastSet, d.fault.Begin, w.Acquire.Call, w.Acquire.Return}
	if next != nil {
		to = next.Acquire.Return.T
		text = fmt.Sprintf("was not granted again until %s, to %s", facts.Seconds(to), next.Client())
		events = append(events, next.Acquire.Return)
	}
	cause, reason := explainUnavailability(d.lock, spans.New(d.keysGoneTime, min(to, max(d.keysGoneTime+1, spans.Wait(d.lock.Facts, w).To))))
	return verdict.Result{
		Outcome: verdict.Violated, Cause: cause, Bound: bound - d.at,
		Because: fmt.Sprintf("%s %s at %s while it may have held %s, and %s was waiting; the lock had to be free again by %s, but %s; %s",
			d.session.Client(), lossWords[d.fault.Kind].verb, facts.Seconds(d.at), verdict.LockName(d.session.Key()), w.Client(), facts.Seconds(bound), text, reason),
		Witness: &verdict.Witness{
			Events: verdict.EventNumbers(events), Sessions: []string{d.session.Name(), w.Name()},
			Key: d.session.Key(), From: d.at, To: to,
		},
	}
}

// measureFairness measures how evenly clients share the locks.
func measureFairness(r *Run, n map[string]float64) {
	numSplit, numWon, streak := 0, 0, 0
	for _, c := range r.locks {
		if c.attempts != nil {
			s, w, longest := countSplitVotes(c)
			numSplit, numWon, streak = numSplit+s, numWon+w, max(streak, longest)
		}
	}
	if numSplit+numWon > 0 {
		n["split-vote-rate"] = float64(numSplit) / float64(numSplit+numWon)
		n["losing-streak"] = float64(streak)
	}
	if jain, ok := jainIndex(r.GrantsByClient); ok {
		n["jain-index"] = jain
	}
}

// countSplitVotes counts attempts that failed because of a split vote: nobody held the lock or was
// about to, so a majority was free to vote yes, but overlapping attempts divided the votes. An
// attempt without an overlap fails because of leftover keys, so it does not count.
func countSplitVotes(c *lockState) (numSplit, numWon, longest int) {
	quorum := quorumSize(&c.Params)
	holds, blocks := heldSpans(c.holders()), c.blockedSpans()
	streak := 0
	overlaps := rivalOverlaps(c.attempts)
	for i, a := range c.attempts.Attempts {
		s := spans.New(a.From, a.To)
		switch {
		case a.Won:
			numWon++
			streak = 0
		case a.YesVotes >= quorum, a.YesVotes+a.NoVotes < quorum, !overlaps[i], spans.Meets(holds, s), spans.Meets(blocks, s):
		default:
			numSplit++
			streak++
			longest = max(longest, streak)
		}
	}
	return numSplit, numWon, longest
}

// rivalOverlaps reports which attempts overlapped another client's attempt: neither of the two
// began after all keys of the other had been deleted. A client may begin its next attempt before
// the keys of its last one are deleted.
func rivalOverlaps(w *facts.LockAttempts) []bool {
	overlaps := make([]bool, len(w.Attempts))
	client := func(i int) string { return w.Attempts[i].Session.Client() }
	type attemptReach struct {
		client string
		until  int64
	}
	var latest, latestOther attemptReach // the attempt so far that ends last, and another client's attempt that ends last
	for i, a := range w.Attempts {
		rival, current := latest, attemptReach{client(i), lastCommandTime(a)}
		if latest.client == current.client {
			rival = latestOther
		}
		overlaps[i] = rival.client != "" && rival.until >= a.From
		switch {
		case latest.client == current.client:
			latest.until = max(latest.until, current.until)
		case latest.client == "" || current.until >= latest.until:
			latest, latestOther = current, latest
		case current.until >= latestOther.until:
			latestOther = current
		}
	}
	next, nextOther := -1, -1 // the following attempt, and the next attempt by a different client
	for i := len(w.Attempts) - 1; i >= 0; i-- {
		rival := next
		if next >= 0 && client(next) == client(i) {
			rival = nextOther
		} else {
			nextOther = next
		}
		if rival >= 0 && w.Attempts[rival].From <= lastCommandTime(w.Attempts[i]) {
			overlaps[i] = true
		}
		next = i
	}
	return overlaps
}

// lastCommandTime returns when an attempt's last command was completed.
func lastCommandTime(a *facts.Attempt) int64 {
	at := a.To
	for _, d := range a.Releases {
		at = max(at, d.T)
	}
	return at
}

// countOrphanKeys counts keys that made a node refuse a set although they should have been gone:
// nobody had set or extended them for longer than a key can live.
func countOrphanKeys(r *conditions, n map[string]float64) {
	type nodeKey struct{ node, key string }
	type keyState struct {
		lapse   int64 // when it must have lapsed
		counted bool
	}
	keys := map[nodeKey]*keyState{}
	count := 0
	// Sort by the time when the node applied the command, because slow answers are recorded later.
	commands := slices.SortedStableFunc(slices.Values(r.LockCommands), func(a, b *history.Event) int { return cmp.Compare(facts.AppliedAt(a), facts.AppliedAt(b)) })
	for _, e := range commands {
		if e.Op == history.OpRelease {
			continue
		}
		k, known := keys[nodeKey{e.Node, e.Key}]
		if !known { // the node may have had a key from the start
			k = &keyState{lapse: r.lapses.maxLife}
			keys[nodeKey{e.Node, e.Key}] = k
		}
		switch {
		case e.Type != history.Fail:
			lapse := spans.Add(facts.AppliedAt(e), r.lapses.lifetime(facts.Sender(e)))
			if known && e.Type != history.OK { // the command may not have been applied
				lapse = max(lapse, k.lapse)
			}
			*k = keyState{lapse: lapse}
		case e.Op == history.OpSet && e.Cause == "" && !k.counted && e.SentAt > spans.Add(k.lapse, int64(r.Params.Slack)):
			k.counted = true
			count++
		}
	}
	if len(keys) > 0 && r.Params.TTL > 0 {
		n[verdict.OrphanKeys] = float64(count)
	}
}

// jainIndex returns (Σx)²/(n·Σx²), the fairness index of Jain, Chiu and Hawe (1984).
func jainIndex(grants []int) (float64, bool) {
	sum, squares := 0.0, 0.0
	for _, x := range grants {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	if len(grants) < 2 || sum == 0 {
		return 0, false
	}
	return sum * sum / (float64(len(grants)) * squares), true
}

// callers lists a lock's sessions by call time. It finds the sessions that are waiting during a
// span without examining every client.
type callers struct {
	sessions    []*facts.Session
	clientOrder map[string]int  // position of each client
	acquireEnds history.MaxTree // when each acquire ended
	waitEnds    history.MaxTree // when each session's client stopped trying
	sortedEnds  []int64         // acquireEnds, sorted
}

func newCallers(r *facts.Facts, sessions iter.Seq[*facts.Session], names []string) *callers {
	w := &callers{clientOrder: map[string]int{}}
	var waitEnds []int64
	for s := range sessions {
		w.sessions = append(w.sessions, s)
		w.sortedEnds, waitEnds = append(w.sortedEnds, s.Acquire.ReturnedAt()), append(waitEnds, spans.Wait(r, s).To)
	}
	for i, name := range names {
		w.clientOrder[name] = i
	}
	w.acquireEnds, w.waitEnds = history.NewMaxTree(w.sortedEnds), history.NewMaxTree(waitEnds)
	w.sortedEnds = slices.Sorted(slices.Values(w.sortedEnds))
	return w
}

// countCalledBy counts the acquires called by the given time.
func (w *callers) countCalledBy(at int64) int { return countCalledBy(w.sessions, at) }

// countEndedBy counts the acquires that had ended by the given time.
func (w *callers) countEndedBy(at int64) int { return spans.CountUpTo(w.sortedEnds, at) }

// runningAfter yields the sessions that called acquire no later than calledBy and lasted beyond
// after. ends holds the end of each session.
func (w *callers) runningAfter(calledBy int64, ends history.MaxTree, after int64) iter.Seq[*facts.Session] {
	return func(yield func(*facts.Session) bool) {
		n := countCalledBy(w.sessions, calledBy)
		for i := ends.Next(0, after+1); i < n; i = ends.Next(i+1, after+1) {
			if !yield(w.sessions[i]) {
				return
			}
		}
	}
}

// clientsAfter returns the clients of the sessions that runningAfter yields, ordered by first call.
func (w *callers) clientsAfter(calledBy int64, ends history.MaxTree, after int64) []string {
	seen := map[string]bool{}
	var names []string
	for s := range w.runningAfter(calledBy, ends, after) {
		if name := s.Client(); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(w.clientOrder[a], w.clientOrder[b]) })
	return names
}

// endingAfter returns the sessions whose acquire had not returned by the given time. They must
// belong to one client.
func endingAfter(sessions []*facts.Session, at int64) []*facts.Session {
	return sessions[searchSessions(sessions, func(s *facts.Session) bool { return s.Acquire.ReturnedAt() > at }):]
}

// countCalledBy counts the sessions called by the given time. They must be sorted by call time.
func countCalledBy(sessions []*facts.Session, at int64) int {
	return searchSessions(sessions, func(s *facts.Session) bool { return s.Acquire.Call.T > at })
}

// searchSessions returns the index of the first session for which a predicate holds. The predicate
// must hold for all later sessions, too.
func searchSessions(sessions []*facts.Session, predicate func(*facts.Session) bool) int {
	return sort.Search(len(sessions), func(i int) bool { return predicate(sessions[i]) })
}

// stuckCall is a call that took longer than all rounds plus the lifetime of its keys, although its
// client kept running and could reach a majority for that long. It is an extension, a release, or an
// acquire that never returned and stopped contacting nodes while the lock was free. An acquire that
// returns late counts as unavailability instead (explainUnavailability).
type stuckCall struct {
	lock    *lockState
	session *facts.Session
	call    facts.Operation
	spans.Span
	lastRequest int64 // when an acquire last sent a command to a node; 0 for other calls
	bound       int64 // maximum duration
}

// findStuckCalls finds a lock's stuck calls in session order. It skips acquires that overlap
// reported spans. undecided describes the first call that may have been delayed by host stalls.
func findStuckCalls(c *lockState, reported []unavailability) (all []verdict.Incident, undecided string) {
	rounds := roundsBound(&c.Params)
	judge := func(d stuckCall, available []spans.Span, maxDuration int64) {
		if t, gone := c.GoneAt[d.session.Client()]; gone {
			d.To = min(d.To, t)
		}
		if d.Length() <= maxDuration {
			return
		}
		d.bound = maxDuration + c.stallDelay([]string{d.session.Client()}, d.Span)
		switch share := spans.Share(available, d.Span); {
		case share > d.bound:
			all = append(all, verdict.Incident{From: d.From, Describe: d.describe})
		case share > maxDuration && undecided == "":
			undecided = fmt.Sprintf("%s's %s of %s, called at %s, had not returned within %s; %s", d.session.Client(), d.call.Call.Op,
				verdict.LockName(c.name), facts.Seconds(d.call.Call.T), facts.Seconds(maxDuration), c.stallMessage(d.Span))
		}
	}
	for s := range c.sessions {
		for x := range s.Actions() {
			if x.Call.Op == history.OpRelease || x.Call.Op == history.OpExtend {
				d := stuckCall{lock: c, session: s, call: x, Span: spans.New(x.Call.T, min(x.ReturnedAt(), c.End))}
				judge(d, c.outages.trimRecovery(c.outages.majority(s.Client())), rounds+int64(c.Params.TTLOf(s.Client()).TTL))
			}
		}
	}
	if c.attempts == nil { // the record does not show which session contacted a node
		return all, undecided
	}
	lastRequests := c.lastRequests(c.End + 1)
	for s := range c.sessions {
		idleSince := max(s.CalledAt, lastRequests[s])
		d := stuckCall{lock: c, session: s, call: s.Acquire, Span: spans.New(idleSince, c.End), lastRequest: idleSince}
		overlaps := func(u unavailability) bool { return u.From < d.To && d.From < u.To }
		if c.PendingAtStop(s.Acquire) && !slices.ContainsFunc(reported, overlaps) {
			judge(d, spans.Intersect(c.outages.trimRecovery(c.lenientOutages.majority(s.Client())), c.freeSpans()), rounds+int64(c.Params.MaxTTL())+c.maxLinkDelay)
		}
	}
	return all, undecided
}

// freeSpans returns the spans during which nobody can have held the lock and no leftover keys
// blocked it.
func (c *lockState) freeSpans() []spans.Span {
	return spans.Intersect(spans.Complement(heldSpans(c.holders())), spans.Complement(c.blockedSpans()))
}

func (d stuckCall) describe() verdict.Result {
	outcome := fmt.Sprintf("had not returned when the record ended at %s", facts.Seconds(d.lock.End))
	events := []*history.Event{d.session.Acquire.Call, d.session.Acquire.Return, d.call.Call}
	if d.call.Return != nil {
		outcome = fmt.Sprintf("returned at %s", facts.Seconds(d.call.Return.T))
		events = append(events, d.call.Return)
	}
	reason := fmt.Sprintf("%s called %s on %s at %s with a majority available, but the call %s",
		d.session.Client(), d.call.Call.Op, verdict.LockName(d.lock.name), facts.Seconds(d.call.Call.T), outcome)
	cause := verdict.WaitedLong
	if d.lastRequest == 0 && d.lock.PendingAtStop(d.call) || isHung(d.lock, d.call, d.Span) {
		cause = verdict.Hung
	}
	if d.lastRequest > 0 {
		reason += fmt.Sprintf("; it contacted no node after %s, though the lock was free", facts.Seconds(d.lastRequest))
	}
	return verdict.Result{
		Outcome: verdict.Violated, Cause: cause, Because: reason, Bound: d.bound,
		Witness: &verdict.Witness{Key: d.lock.name, From: d.From, To: d.To, Sessions: []string{d.session.Name()}, Events: verdict.EventNumbers(events)},
	}
}
