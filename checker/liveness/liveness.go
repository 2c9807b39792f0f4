// Package liveness checks that clients can acquire a lock whenever the injected faults allow it,
// and measures how evenly they share it.
//
// A Run holds a record with its locks and the losses of holders. The files are:
//
//	outages.go          what each kind of fault disables, when a client reached a majority, when keys lapse
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
func (r *Run) Numbers(n map[string]float64) (words map[string]string) {
	words = map[string]string{}
	measureFairness(r, n)
	measureAvailability(r, n, words)
	return words
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
	judged, leftOut := map[string]int{}, 0
	for _, d := range r.losses {
		one, disturbed := d.judgeHandover()
		if disturbed {
			leftOut++
		}
		judged[d.fault.Kind] += one.Occasions
		f.Occasions += one.Occasions
		f.Incidents = append(f.Incidents, one.Incidents...)
		f.Undecided = cmp.Or(f.Undecided, one.Undecided)
	}
	f.Because = handoverSummary(judged, leftOut)
	return f
}

func handoverSummary(judged map[string]int, leftOut int) string {
	var losses []string
	for _, kind := range lossKinds {
		if n := judged[kind]; n > 0 {
			losses = append(losses, verdict.Plural(n, lossWords[kind].noun))
		}
	}
	text := "no client was killed, or cut off or paused past its lease, while it held or may have held a lock that another client wanted"
	switch {
	case len(losses) > 0:
		text = fmt.Sprintf("the lock was free again in time after %s", verdict.JoinNames(losses))
	case leftOut > 0:
		text = "no loss of a holder could be judged"
	}
	if leftOut > 0 {
		text += fmt.Sprintf("; skipped because of other faults: %d", leftOut)
	}
	return text
}

// judgeHandover judges one loss. The loss does not count as an occasion if other faults interfered
// or nobody waited long enough.
func (d loss) judgeHandover() (f verdict.Finding, disturbed bool) {
	satisfied := verdict.Finding{Occasions: 1}
	next := d.lock.grantAfter(d.at, d.session)
	round := int64(d.lock.Params.RetryMax + 2*d.lock.Params.NodeTimeout)
	if !d.hasWaiters(next) {
		return f, false
	}
	if next != nil && next.Acquire.Return.T <= d.keysGone+round+int64(d.lock.Params.Slack) {
		return satisfied, false // regardless of the waiters
	}
	waiters, rivals := d.waiters(next)
	patience := round*int64(rivals) + int64(d.lock.Params.Slack)
	for _, w := range waiters {
		bound := max(d.keysGone, w.Acquire.Call.T) + patience
		goneAt, hasGone := d.lock.GoneAt[w.Client()]
		switch {
		case next != nil && next.Acquire.Return.T <= bound:
			return satisfied, false // regardless of the faults
		case d.majorityBlocked(w, next, bound):
			disturbed = true
		case w.Acquire.ReturnedAt() <= bound, hasGone && goneAt <= bound:
			continue // the waiter gave up
		case d.lock.End < bound:
			f = verdict.Finding{Occasions: 1, Undecided: d.undecidedMessage("; the lock had to be free again by %s, but the record ends at %s", facts.Seconds(bound), facts.Seconds(d.lock.End))}
		case d.hostMayExplain(w, next, bound):
			f = verdict.Finding{Occasions: 1, Undecided: d.undecidedMessage(", and %s could not acquire the lock by %s; the host stalled or was slow, which may be why", w.Client(), facts.Seconds(bound))}
		default:
			late := verdict.Incident{From: d.at, Describe: func() verdict.Result { return d.lateResult(w, next, bound) }}
			return verdict.Finding{Occasions: 1, Incidents: []verdict.Incident{late}}, false
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
	waited := spans.Of(max(d.at, w.Acquire.Call.T), to)
	if late := d.lock.stallDelay([]string{w.Client()}, waited); late > 0 && to-bound <= late {
		return true
	}
	return len(d.lock.keptByHost) > 0 && !spans.Covers(d.lock.certainMajority(w.Client()), spans.Of(max(d.keysGone, w.Acquire.Call.T), bound))
}

// undecidedMessage says that a loss may have been an incident, and why that is uncertain.
func (d loss) undecidedMessage(why string, args ...any) string {
	return fmt.Sprintf("%s %s at %s while it may have held %s", d.session.Client(), lossWords[d.fault.Kind].verb, facts.Seconds(d.at), verdict.LockName(d.session.Key())) +
		fmt.Sprintf(why, args...)
}

// hasWaiters reports whether waiters returns any session, without examining each one.
func (d loss) hasWaiters(next *facts.Session) bool {
	until := int64(facts.Never)
	if next != nil {
		until = next.Acquire.Return.T
	}
	fromLostClient := d.lock.byClient()[d.session.Client()]
	all := d.lock.callers()
	return all.countCalledBy(until)-countCalledBy(fromLostClient, until) > all.countEndedBy(d.at)-(len(fromLostClient)-len(endingAfter(fromLostClient, d.at)))
}

// waiters returns other clients' sessions that called acquire before the next grant and were still
// waiting at the loss. It also counts their clients.
func (d loss) waiters(next *facts.Session) (waiters []*facts.Session, clients int) {
	until := int64(facts.Never)
	if next != nil {
		until = next.Acquire.Return.T
	}
	of, w := d.lock.byClient(), d.lock.callers()
	for _, client := range w.clientsAfter(until, w.acquireEnds, d.at) {
		before := len(waiters)
		if client != d.session.Client() {
			for _, s := range endingAfter(of[client], d.at) {
				if s.Acquire.Call.T > until {
					break
				}
				waiters = append(waiters, s)
			}
		}
		if len(waiters) > before {
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
		got := d.lock.hold(next)
		until = min(until, got.From)
	}
	at := w.Acquire.Call.T
	return !spans.Covers(d.lock.down.majority(w.Client()), spans.Of(max(d.at, at), until)) ||
		!spans.Covers(d.lock.majority(w.Client()), spans.Of(max(d.keysGone, at), until))
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
	cause, why := explainUnavailability(d.lock, spans.Of(d.keysGone, min(to, max(d.keysGone+1, spans.Wait(d.lock.Facts, w).To))))
	return verdict.Result{
		Outcome: verdict.Violated, Cause: cause, Bound: bound - d.at,
		Because: fmt.Sprintf("%s %s at %s while it may have held %s, and %s was waiting; the lock had to be free again by %s, but %s; %s",
			d.session.Client(), lossWords[d.fault.Kind].verb, facts.Seconds(d.at), verdict.LockName(d.session.Key()), w.Client(), facts.Seconds(bound), text, why),
		Witness: &verdict.Witness{
			Events: verdict.EventNumbers(events), Sessions: []string{d.session.Name(), w.Name()},
			Key: d.session.Key(), From: d.at, To: to,
		},
	}
}

// measureFairness measures how evenly clients share the locks.
func measureFairness(r *Run, n map[string]float64) {
	split, won, streak := 0, 0, 0
	for _, c := range r.locks {
		if c.attempts != nil {
			s, w, longest := countSplitVotes(c)
			split, won, streak = split+s, won+w, max(streak, longest)
		}
	}
	if split+won > 0 {
		n["split-vote-rate"] = float64(split) / float64(split+won)
		n["losing-streak"] = float64(streak)
	}
	if jain, ok := jainIndex(r.GrantsByClient); ok {
		n["jain-index"] = jain
	}
}

// countSplitVotes counts attempts that failed because of a split vote: nobody held the lock or was
// about to, so a majority was free to vote yes, but overlapping attempts divided the votes. An
// attempt without an overlap fails because of leftover keys, so it does not count.
func countSplitVotes(c *lockState) (split, won, longest int) {
	quorum := quorumSize(&c.Params)
	held, blocked := heldSpans(c.holders()), c.blockedSpans()
	streak := 0
	overlaps := rivalOverlaps(c.attempts)
	for i, a := range c.attempts.Attempts {
		s := spans.Of(a.From, a.To)
		switch {
		case a.Won:
			won++
			streak = 0
		case a.Yes >= quorum, a.Yes+a.No < quorum, !overlaps[i], spans.Meets(held, s), spans.Meets(blocked, s):
		default:
			split++
			streak++
			longest = max(longest, streak)
		}
	}
	return split, won, longest
}

// rivalOverlaps reports which attempts overlapped another client's attempt: neither of the two
// began after all keys of the other had been deleted. A client may begin its next attempt before
// the keys of its last one are deleted.
func rivalOverlaps(w *facts.LockAttempts) []bool {
	overlaps := make([]bool, len(w.Attempts))
	client := func(i int) string { return w.Attempts[i].Session.Client() }
	type reach struct {
		client string
		until  int64
	}
	var latest, latestOther reach // the attempt so far that ends last, and another client's attempt that ends last
	for i, a := range w.Attempts {
		rival, own := latest, reach{client(i), lastCommandDone(a)}
		if latest.client == own.client {
			rival = latestOther
		}
		overlaps[i] = rival.client != "" && rival.until >= a.From
		switch {
		case latest.client == own.client:
			latest.until = max(latest.until, own.until)
		case latest.client == "" || own.until >= latest.until:
			latest, latestOther = own, latest
		case own.until >= latestOther.until:
			latestOther = own
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
		if rival >= 0 && w.Attempts[rival].From <= lastCommandDone(w.Attempts[i]) {
			overlaps[i] = true
		}
		next = i
	}
	return overlaps
}

// lastCommandTime returns when an attempt's last command was completed.
func lastCommandDone(a *facts.Attempt) int64 {
	at := a.To
	for _, d := range a.Deletes {
		at = max(at, d.T)
	}
	return at
}

// countOrphanKeys counts keys that made a node refuse a set although they should have been gone:
// nobody had set or extended them for longer than a key can live.
func countOrphanKeys(r *conditions, n map[string]float64) {
	type spot struct{ node, key string }
	type age struct {
		set     int64
		counted bool
	}
	keys := map[spot]*age{}
	count := 0
	limit := spans.Plus(r.keys.maxLife, int64(r.Params.Slack))
	// Sort by the time when the node applied the command, because slow answers are recorded later.
	links := slices.SortedStableFunc(slices.Values(r.LockCommands), func(a, b *history.Event) int { return cmp.Compare(facts.Applied(a), facts.Applied(b)) })
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
		case e.Op == history.OpSet && e.Cause == "" && !k.counted && e.Sent > spans.Plus(k.set, limit):
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
	order       map[string]int  // position of each client
	acquireEnds history.MaxTree // when each acquire ended
	waitEnds    history.MaxTree // when each session's client stopped trying
	sortedEnds  []int64         // acquireEnds, sorted
}

func newCallers(r *facts.Facts, called iter.Seq[*facts.Session], names []string) *callers {
	w := &callers{order: map[string]int{}}
	var until []int64
	for s := range called {
		w.sessions = append(w.sessions, s)
		w.sortedEnds, until = append(w.sortedEnds, s.Acquire.ReturnedAt()), append(until, spans.Wait(r, s).To)
	}
	for i, name := range names {
		w.order[name] = i
	}
	w.acquireEnds, w.waitEnds = history.NewMaxTree(w.sortedEnds), history.NewMaxTree(until)
	w.sortedEnds = slices.Sorted(slices.Values(w.sortedEnds))
	return w
}

// countCalledBy counts the acquires called by the given time.
func (w *callers) countCalledBy(at int64) int { return countCalledBy(w.sessions, at) }

// countEndedBy counts the acquires that had ended by the given time.
func (w *callers) countEndedBy(at int64) int { return spans.CountUpTo(w.sortedEnds, at) }

// runningAfter yields the sessions that called acquire no later than calledBy and lasted beyond
// after. ends holds the end of each session.
func (w *callers) runningAfter(called int64, lasted history.MaxTree, beyond int64) iter.Seq[*facts.Session] {
	return func(yield func(*facts.Session) bool) {
		n := countCalledBy(w.sessions, called)
		for i := lasted.Next(0, beyond+1); i < n; i = lasted.Next(i+1, beyond+1) {
			if !yield(w.sessions[i]) {
				return
			}
		}
	}
}

// clientsAfter returns the clients of the sessions that runningAfter yields, ordered by first call.
func (w *callers) clientsAfter(called int64, lasted history.MaxTree, beyond int64) []string {
	seen := map[string]bool{}
	var names []string
	for s := range w.runningAfter(called, lasted, beyond) {
		if name := s.Client(); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(w.order[a], w.order[b]) })
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
func searchSessions(sessions []*facts.Session, holds func(*facts.Session) bool) int {
	return sort.Search(len(sessions), func(i int) bool { return holds(sessions[i]) })
}

// stuckCall is a call that took longer than all rounds plus the lifetime of its keys, although its
// client kept running and reached a majority for that long. It is an extension, a release, or an
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
func findStuckCalls(c *lockState, reported []unavailability) (all []verdict.Incident, open string) {
	patience := roundsBound(&c.Params) + int64(c.Params.TTL)
	judge := func(d stuckCall, could []spans.Span, patience int64) {
		if t, gone := c.GoneAt[d.session.Client()]; gone {
			d.To = min(d.To, t)
		}
		if d.Length() <= patience {
			return
		}
		d.bound = patience + c.stallDelay([]string{d.session.Client()}, d.Span)
		switch share := spans.Share(could, d.Span); {
		case share > d.bound:
			all = append(all, verdict.Incident{From: d.From, Describe: d.describe})
		case share > patience && open == "":
			open = fmt.Sprintf("%s's %s of %s, called at %s, had not returned within %s; %s", d.session.Client(), d.call.Call.Op,
				verdict.LockName(c.name), facts.Seconds(d.call.Call.T), facts.Seconds(patience), c.stallMessage(d.Span))
		}
	}
	for s := range c.sessions {
		for x := range s.Actions() {
			if x.Call.Op == history.OpRelease || x.Call.Op == history.OpExtend {
				d := stuckCall{lock: c, session: s, call: x, Span: spans.Of(x.Call.T, min(x.ReturnedAt(), c.End))}
				judge(d, c.down.trimRecovery(c.down.majority(s.Client())), patience)
			}
		}
	}
	if c.attempts == nil { // the record does not show which session contacted a node
		return all, open
	}
	asked := c.lastRequests(c.End + 1)
	for s := range c.sessions {
		since := max(s.CalledAt, asked[s])
		d := stuckCall{lock: c, session: s, call: s.Acquire, Span: spans.Of(since, c.End), lastRequest: since}
		overlaps := func(u unavailability) bool { return u.From < d.To && d.From < u.To }
		if c.PendingAtStop(s.Acquire) && !slices.ContainsFunc(reported, overlaps) {
			judge(d, spans.Intersect(c.down.trimRecovery(c.lenient.majority(s.Client())), c.freeSpans()), patience+c.maxLinkDelay)
		}
	}
	return all, open
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
	because := fmt.Sprintf("%s called %s on %s at %s with a majority available, but the call %s",
		d.session.Client(), d.call.Call.Op, verdict.LockName(d.lock.name), facts.Seconds(d.call.Call.T), outcome)
	cause := verdict.WaitedLong
	if d.lastRequest == 0 && d.lock.PendingAtStop(d.call) || isHung(d.lock, d.call, d.Span) {
		cause = verdict.Hung
	}
	if d.lastRequest > 0 {
		because += fmt.Sprintf("; it contacted no node after %s, though the lock was free", facts.Seconds(d.lastRequest))
	}
	return verdict.Result{
		Outcome: verdict.Violated, Cause: cause, Because: because, Bound: d.bound,
		Witness: &verdict.Witness{Key: d.lock.name, From: d.From, To: d.To, Sessions: []string{d.session.Name()}, Events: verdict.EventNumbers(events)},
	}
}
