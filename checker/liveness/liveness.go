// Package liveness checks that clients can acquire a lock whenever the injected faults allow it,
// and measures how evenly they share it.
//
// A Run holds a record with its locks and the holders that were lost. The files are:
//
//	outages.go          what each kind of fault disables, when a client reached a majority, when keys lapse
//	lock_state.go       who wants a lock, how long a session may have held it, leftover keys, lost holders
//	fault_tolerance.go  when a free lock could not be acquired, and why
//	liveness.go         whether a lost holder's lock was free in time, hung calls, fairness
//
// Conflicts between two holders are deliberately left to other packages.
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

// Numbers measures the availability and fairness of the locks. Where a number needs an
// explanation, words has it under the same name.
func (r *Run) Numbers(n map[string]float64) (words map[string]string) {
	words = map[string]string{}
	fairness(r, n)
	availability(r, n, words)
	return words
}

// Run is a record together with the effects of its faults and the state of its locks.
type Run struct {
	*conditions
	beliefs *spans.Beliefs
	locks   []*lockState
	losses  []loss
}

// Read prepares a record for the checks of this package.
func Read(r *facts.Facts, beliefs *spans.Beliefs) *Run {
	c := conditionsOf(r)
	locks := locksOf(c)
	return &Run{conditions: c, beliefs: beliefs, locks: locks, losses: lossesOf(c, locks)}
}

// DeadlockFreedom checks that a lock whose holder was lost (findLosses) was free again in time
// while another client was trying to acquire it. The waiting client, a third one, or the lost
// client itself must acquire the lock by
//
//	last key set for the lost holder + TTL·(1+ρ)  the lock is free (or the waiter's call, if later)
//	+ each step back of a node's clock            for the node with the largest sum
//	+ RetryMax + 2·NodeTimeout, for each waiter   a round of attempts, and the cost of a split vote
//	+ Slack
//
// If nobody acquired the lock by then, but faults kept the waiter from reaching a majority
// meanwhile, the loss is skipped, because nothing was guaranteed. Stalls of the host extend the
// bound (lockState.delayed). A delay that they may explain leaves the property undecided.
func (r *Run) DeadlockFreedom() (f verdict.Finding) {
	if missing := missingFigure(&r.Params); missing != "" {
		return verdict.Finding{Undecided: "the history has no " + missing + ", so there is no bound"}
	}
	judged, leftOut := map[string]int{}, 0
	for _, d := range r.losses {
		one, disturbed := d.handover()
		if disturbed {
			leftOut++
		}
		judged[d.fault.Kind] += one.Occasions
		f.Occasions += one.Occasions
		f.Incidents = append(f.Incidents, one.Incidents...)
		f.Undecided = cmp.Or(f.Undecided, one.Undecided)
	}
	f.Because = inTime(judged, leftOut)
	return f
}

func inTime(judged map[string]int, leftOut int) string {
	var losses []string
	for _, kind := range lossKinds {
		if n := judged[kind]; n > 0 {
			losses = append(losses, verdict.Plural(n, ways[kind].noun))
		}
	}
	text := "no client was killed, or cut off or paused past its lease, while it held or may have held a lock that another client wanted"
	switch {
	case len(losses) > 0:
		text = fmt.Sprintf("the lock was free again in time after %s", verdict.List(losses))
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
func (d loss) handover() (f verdict.Finding, disturbed bool) {
	kept := verdict.Finding{Occasions: 1}
	next := d.lock.grantAfter(d.at, d.session)
	round := int64(d.lock.Params.RetryMax + 2*d.lock.Params.NodeTimeout)
	if !d.awaited(next) {
		return f, false
	}
	if next != nil && next.Acquire.Return.T <= d.free+round+int64(d.lock.Params.Slack) {
		return kept, false // whoever waits, and however many
	}
	waiters, rivals := d.waiters(next)
	patience := round*int64(rivals) + int64(d.lock.Params.Slack)
	for _, w := range waiters {
		bound := max(d.free, w.Acquire.Call.T) + patience
		left, gone := d.lock.Gone[w.Client()]
		switch {
		case next != nil && next.Acquire.Return.T <= bound:
			return kept, false // whatever the faults
		case d.disturbed(w, next, bound):
			disturbed = true
		case w.Acquire.Ended() <= bound, gone && left <= bound:
			continue // it gave up
		case d.lock.End < bound:
			f = verdict.Finding{Occasions: 1, Undecided: d.undecided("; the lock had to be free again by %s, but the record ends at %s", facts.Seconds(bound), facts.Seconds(d.lock.End))}
		case d.excused(w, next, bound):
			f = verdict.Finding{Occasions: 1, Undecided: d.undecided(", and %s could not acquire the lock by %s; the host stalled or was slow, which may be why", w.Client(), facts.Seconds(bound))}
		default:
			late := verdict.Incident{From: d.at, Tell: func() verdict.Result { return d.late(w, next, bound) }}
			return verdict.Finding{Occasions: 1, Incidents: []verdict.Incident{late}}, false
		}
	}
	return f, disturbed && f.Occasions == 0
}

// hostMayExplain reports whether host stalls, or keys that stayed because the host was slow, may
// explain why nobody had the lock by the bound.
func (d loss) excused(w, next *facts.Session, bound int64) bool {
	to := d.lock.End
	if next != nil {
		to = next.Acquire.Return.T
	}
	waited := spans.Of(max(d.at, w.Acquire.Call.T), to)
	if late := d.lock.delayed([]string{w.Client()}, waited); late > 0 && to-bound <= late {
		return true
	}
	return len(d.lock.slow) > 0 && !spans.Covering(d.lock.surelyMajority(w.Client()), spans.Of(max(d.free, w.Acquire.Call.T), bound))
}

// undecidedMessage says that a loss may have been an incident, and why that is inconclusive.
func (d loss) undecided(why string, args ...any) string {
	return fmt.Sprintf("%s %s at %s while it may have held %s", d.session.Client(), ways[d.fault.Kind].verb, facts.Seconds(d.at), verdict.LockName(d.session.Key())) +
		fmt.Sprintf(why, args...)
}

// hasWaiters reports whether there are waiters, without looking at each session.
func (d loss) awaited(next *facts.Session) bool {
	until := int64(facts.Never)
	if next != nil {
		until = next.Acquire.Return.T
	}
	own := d.lock.byClient()[d.session.Client()]
	all := d.lock.callers()
	return all.calledBy(until)-calledBy(own, until) > all.endedBy(d.at)-(len(own)-len(outliving(own, d.at)))
}

// waiters returns other clients' sessions whose acquire was called before the next grant and
// ended after the loss, and the number of these clients.
func (d loss) waiters(next *facts.Session) (waiters []*facts.Session, clients int) {
	until := int64(facts.Never)
	if next != nil {
		until = next.Acquire.Return.T
	}
	of, w := d.lock.byClient(), d.lock.callers()
	for _, client := range w.clients(until, w.ended, d.at) {
		before := len(waiters)
		if client != d.session.Client() {
			for _, s := range outliving(of[client], d.at) {
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

// majorityBlocked reports whether faults kept a waiter from reaching a majority between the loss and
// an instant, or the first key of the next grant if that is earlier. Keys left behind by faults
// count only once the lost holder's own keys are gone.
func (d loss) disturbed(w, next *facts.Session, until int64) bool {
	if next != nil {
		got := d.lock.hold(next)
		until = min(until, got.From)
	}
	at := w.Acquire.Call.T
	return !spans.Covering(d.lock.down.majority(w.Client()), spans.Of(max(d.at, at), until)) ||
		!spans.Covering(d.lock.majority(w.Client()), spans.Of(max(d.free, at), until))
}

func (d loss) late(w, next *facts.Session, bound int64) verdict.Result {
	to := d.lock.End
	text := fmt.Sprintf("had not been granted again when the record ended at %s", facts.Seconds(d.lock.End))
	events := []*history.Event{d.session.Acquire.Call, d.session.Acquire.Return, d.lastSet, d.fault.Begin, w.Acquire.Call, w.Acquire.Return}
	if next != nil {
		to = next.Acquire.Return.T
		text = fmt.Sprintf("was granted again only at %s, to %s", facts.Seconds(to), next.Client())
		events = append(events, next.Acquire.Return)
	}
	cause, why := whyNobody(d.lock, spans.Of(d.free, min(to, max(d.free+1, spans.Wait(d.lock.Facts, w).To))))
	return verdict.Result{
		Outcome: verdict.Violated, Cause: cause, Bound: bound - d.at,
		Because: fmt.Sprintf("%s %s at %s while it may have held %s, and %s was waiting; the lock had to be free again by %s, but %s; %s",
			d.session.Client(), ways[d.fault.Kind].verb, facts.Seconds(d.at), verdict.LockName(d.session.Key()), w.Client(), facts.Seconds(bound), text, why),
		Witness: &verdict.Witness{
			Events: verdict.Numbered(events), Sessions: []string{d.session.Name(), w.Name()},
			Key: d.session.Key(), From: d.at, To: to,
		},
	}
}

// measureFairness measures how evenly clients share a lock.
func fairness(r *Run, n map[string]float64) {
	split, won, streak := 0, 0, 0
	for _, c := range r.locks {
		if c.wire != nil {
			s, w, longest := splitVotes(c)
			split, won, streak = split+s, won+w, max(streak, longest)
		}
	}
	if split+won > 0 {
		n["split-vote-rate"] = float64(split) / float64(split+won)
		n["losing-streak"] = float64(streak)
	}
	if jain, ok := jainIndex(r.Shares); ok {
		n["jain-index"] = jain
	}
}

// countSplitVotes counts the attempts that failed because of a split vote: nobody held the lock or
// was about to, so a majority was free to vote yes, but overlapping attempts divided the votes.
// An attempt without an overlap fails because of leftover keys and does not count.
func splitVotes(c *lockState) (split, won, longest int) {
	quorum := quorumOf(&c.Params)
	held, blocked := heldBy(c.holders()), c.blocked()
	streak := 0
	met := metRival(c.wire)
	for i, a := range c.wire.Attempts {
		s := spans.Of(a.From, a.To)
		switch {
		case a.Won:
			won++
			streak = 0
		case a.Yes >= quorum, a.Yes+a.No < quorum, !met[i], spans.Meets(held, s), spans.Meets(blocked, s):
		default:
			split++
			streak++
			longest = max(longest, streak)
		}
	}
	return split, won, longest
}

// overlapsRival reports for each attempt whether it overlapped another client's attempt, which
// means that neither began after all keys of the other had been deleted. A client may begin its
// next attempt before the keys of its last one are deleted.
func metRival(w *facts.Wire) []bool {
	met := make([]bool, len(w.Attempts))
	client := func(i int) string { return w.Attempts[i].Session.Client() }
	type reach struct {
		client string
		until  int64
	}
	var far, other reach // the attempt so far that ends last, and the last-ending one of a different client
	for i, a := range w.Attempts {
		rival, own := far, reach{client(i), goneBy(a)}
		if far.client == own.client {
			rival = other
		}
		met[i] = rival.client != "" && rival.until >= a.From
		switch {
		case far.client == own.client:
			far.until = max(far.until, own.until)
		case far.client == "" || own.until >= far.until:
			far, other = own, far
		case own.until >= other.until:
			other = own
		}
	}
	next, beyond := -1, -1 // the following attempt, and the one after it by a different client
	for i := len(w.Attempts) - 1; i >= 0; i-- {
		rival := next
		if next >= 0 && client(next) == client(i) {
			rival = beyond
		} else {
			beyond = next
		}
		if rival >= 0 && w.Attempts[rival].From <= goneBy(w.Attempts[i]) {
			met[i] = true
		}
		next = i
	}
	return met
}

// lastCommandDone returns when the last command of an attempt was done.
func goneBy(a *facts.Attempt) int64 {
	at := a.To
	for _, d := range a.Deletes {
		at = max(at, d.T)
	}
	return at
}

// countOrphanKeys counts keys for which a node refused a set although no key had been set or
// extended there for longer than the maximum lifetime of a key.
func orphans(r *conditions, n map[string]float64) {
	type spot struct{ node, key string }
	type age struct {
		set     int64
		counted bool
	}
	keys := map[spot]*age{}
	count := 0
	limit := spans.Plus(r.keys.life, int64(r.Params.Slack))
	// Sort by the time the node applied the command, because slow answers are recorded later.
	links := slices.SortedStableFunc(slices.Values(r.Links), func(a, b *history.Event) int { return cmp.Compare(facts.Applied(a), facts.Applied(b)) })
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

// callers lists a lock's sessions by call time, so that the sessions waiting in a span can be
// found without looking at every client.
type callers struct {
	sessions []*facts.Session
	place    map[string]int // client name → position
	ended    history.Peaks  // end of each acquire
	until    history.Peaks  // until when the client of each session was trying
	ends     []int64        // ends of acquires, sorted
}

func callersOf(r *facts.Facts, called iter.Seq[*facts.Session], names []string) *callers {
	w := &callers{place: map[string]int{}}
	var until []int64
	for s := range called {
		w.sessions = append(w.sessions, s)
		w.ends, until = append(w.ends, s.Acquire.Ended()), append(until, spans.Wait(r, s).To)
	}
	for i, name := range names {
		w.place[name] = i
	}
	w.ended, w.until = history.PeaksOf(w.ends), history.PeaksOf(until)
	w.ends = slices.Sorted(slices.Values(w.ends))
	return w
}

// countCalledBy and countEndedBy count the acquires called or ended by an instant.
func (w *callers) calledBy(at int64) int { return calledBy(w.sessions, at) }
func (w *callers) endedBy(at int64) int  { return spans.UpTo(w.ends, at) }

// runningAfter yields the sessions whose acquire was called by one instant and lasted beyond another.
func (w *callers) lasting(called int64, lasted history.Peaks, beyond int64) iter.Seq[*facts.Session] {
	return func(yield func(*facts.Session) bool) {
		n := calledBy(w.sessions, called)
		for i := lasted.From(0, beyond+1); i < n; i = lasted.From(i+1, beyond+1) {
			if !yield(w.sessions[i]) {
				return
			}
		}
	}
}

// clientsAfter lists the clients of the sessions that runningAfter yields, by first call.
func (w *callers) clients(called int64, lasted history.Peaks, beyond int64) []string {
	seen := map[string]bool{}
	var names []string
	for s := range w.lasting(called, lasted, beyond) {
		if name := s.Client(); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(w.place[a], w.place[b]) })
	return names
}

// endingAfter returns one client's sessions whose acquire had not returned at an instant.
func outliving(sessions []*facts.Session, at int64) []*facts.Session {
	return sessions[firstOf(sessions, func(s *facts.Session) bool { return s.Acquire.Ended() > at }):]
}

// countCalledBy counts the sessions called by an instant. They must be sorted by call time.
func calledBy(sessions []*facts.Session, at int64) int {
	return firstOf(sessions, func(s *facts.Session) bool { return s.Acquire.Call.T > at })
}

// searchSessions returns the index of the first session for which a predicate holds. It must hold
// for all later sessions, too.
func firstOf(sessions []*facts.Session, holds func(*facts.Session) bool) int {
	return sort.Search(len(sessions), func(i int) bool { return holds(sessions[i]) })
}

// stuckCall is a call that had not returned after its keys must have lapsed and all rounds were
// over, although its client kept running and reached a majority for that long. It is an extension,
// a release, or an acquire that never returned and stopped contacting nodes while the lock was
// free. An acquire that returns late is reported as unavailability (explainUnavailability).
type stuck struct {
	lock    *lockState
	session *facts.Session
	of      facts.Operation
	spans.Span
	asked int64 // when an acquire last sent a command to a node; 0 for other calls
	bound int64 // maximum duration
}

// findStuckCalls finds the stuck calls of a lock, in session order, except acquires within spans
// that are already reported. open describes the first call that host stalls may have delayed.
func stuckIn(c *lockState, reported []unavailability) (all []verdict.Incident, open string) {
	patience := rounds(&c.Params) + int64(c.Params.TTL)
	judge := func(d stuck, could []spans.Span, patience int64) {
		if t, gone := c.Gone[d.session.Client()]; gone {
			d.To = min(d.To, t)
		}
		if d.Length() <= patience {
			return
		}
		d.bound = patience + c.delayed([]string{d.session.Client()}, d.Span)
		switch share := spans.Share(could, d.Span); {
		case share > d.bound:
			all = append(all, verdict.Incident{From: d.From, Tell: d.tell})
		case share > patience && open == "":
			open = fmt.Sprintf("%s's %s of %s, called at %s, had not returned within %s; %s", d.session.Client(), d.of.Call.Op,
				verdict.LockName(c.name), facts.Seconds(d.of.Call.T), facts.Seconds(patience), c.stalledFor(d.Span))
		}
	}
	for s := range c.called {
		for x := range s.Actions() {
			if x.Call.Op == history.OpRelease || x.Call.Op == history.OpExtend {
				d := stuck{lock: c, session: s, of: x, Span: spans.Of(x.Call.T, min(x.Ended(), c.End))}
				judge(d, c.down.settled(c.down.majority(s.Client())), patience)
			}
		}
	}
	if c.wire == nil { // it is unknown which session contacted a node
		return all, open
	}
	asked := c.asked(c.End + 1)
	for s := range c.called {
		since := max(s.Called, asked[s])
		d := stuck{lock: c, session: s, of: s.Acquire, Span: spans.Of(since, c.End), asked: since}
		met := func(u unavailability) bool { return u.From < d.To && d.From < u.To }
		if c.Unreturned(s.Acquire) && !slices.ContainsFunc(reported, met) {
			judge(d, spans.Common(c.down.settled(c.carried.majority(s.Client())), c.free()), patience+c.slowest)
		}
	}
	return all, open
}

// freeSpans returns the spans in which nobody can have held the lock and no leftover keys blocked it.
func (c *lockState) free() []spans.Span {
	return spans.Common(spans.Outside(heldBy(c.holders())), spans.Outside(c.blocked()))
}

func (d stuck) tell() verdict.Result {
	came := fmt.Sprintf("had not returned when the record ended at %s", facts.Seconds(d.lock.End))
	events := []*history.Event{d.session.Acquire.Call, d.session.Acquire.Return, d.of.Call}
	if d.of.Return != nil {
		came = fmt.Sprintf("returned at %s", facts.Seconds(d.of.Return.T))
		events = append(events, d.of.Return)
	}
	because := fmt.Sprintf("%s called %s on %s at %s with a majority available, but the call %s",
		d.session.Client(), d.of.Call.Op, verdict.LockName(d.lock.name), facts.Seconds(d.of.Call.T), came)
	cause := verdict.WaitedLong
	if d.asked == 0 && d.lock.Unreturned(d.of) || hangs(d.lock, d.of, d.Span) {
		cause = verdict.Hung
	}
	if d.asked > 0 {
		because += fmt.Sprintf("; it contacted no node after %s, though the lock was free", facts.Seconds(d.asked))
	}
	return verdict.Result{
		Outcome: verdict.Violated, Cause: cause, Because: because, Bound: d.bound,
		Witness: &verdict.Witness{Key: d.lock.name, From: d.From, To: d.To, Sessions: []string{d.session.Name()}, Events: verdict.Numbered(events)},
	}
}
