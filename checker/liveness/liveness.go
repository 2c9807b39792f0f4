// Package liveness judges whether a lock can be had where the faults allow it, and measures
// how it is shared out.
//
// A Run is a record with its locks and who of their holders were lost. outages.go says what each
// kind of fault takes away, who reached a majority when, and when a key has lapsed; lock_state.go
// who wants a lock, how long a session may have held it, which keys faults left behind, and which
// holders were lost; fault_tolerance.go where a free lock could not be had, and why; and this file
// whether a lost holder's lock was free in time, which calls hung, and how a lock is shared out.
//
// Deliberately missing: what two holders did to each other.
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

// Numbers measures when the locks were to be had, and by whom. What a number can't say its
// words do.
func (r *Run) Numbers(n map[string]float64) (words map[string]string) {
	words = map[string]string{}
	fairness(r, n)
	availability(r, n, words)
	return words
}

// Run is a record with what its faults did and with its locks.
type Run struct {
	*conditions
	beliefs *spans.Beliefs
	locks   []*lockState
	losses  []loss
}

// Read puts a record in order.
func Read(r *facts.Facts, beliefs *spans.Beliefs) *Run {
	c := conditionsOf(r)
	locks := locksOf(c)
	return &Run{conditions: c, beliefs: beliefs, locks: locks, losses: lossesOf(c, locks)}
}

// DeadlockFreedom asks whether a lock whose holder was lost was free again in
// time (lossesOf), while another client was trying to acquire it. That
// one must have the lock, or somebody else must, or the lost one anew, by
//
//	last key set for the lost + TTL·(1+ρ)        the lock is free (or when the other called, if later)
//	+ each step back of a node's clock           where that is the most of any node
//	+ RetryMax + 2·NodeTimeout, for each waiter  a round of attempts, and what a split vote may cost
//	+ Slack
//
// A loss after which nobody had the lock by then is left out if faults kept a majority from
// the one that waits meanwhile: then nothing was promised. Where the host stalled the bound is
// longer (lockState.delayed), and a lock that was late by no more leaves the property undecided.
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
	text := "no client died while it held, or might hold, a lock that another wanted, nor was cut off or paused until its lease was over"
	switch {
	case len(losses) > 0:
		text = fmt.Sprintf("the lock was free again in time, in %s of a holder", verdict.List(losses))
	case leftOut > 0:
		text = "no loss of a holder could be judged"
	}
	if leftOut > 0 {
		text += fmt.Sprintf("; left out for other faults in force: %d", leftOut)
	}
	return text
}

// handover judges one loss. It is no occasion if other faults disturbed it, or nobody waited long enough.
func (d loss) handover() (f verdict.Finding, disturbed bool) {
	kept := verdict.Finding{Occasions: 1} // the promise
	next := d.lock.grantAfter(d.at, d.session)
	round := int64(d.lock.Params.RetryMax + 2*d.lock.Params.NodeTimeout)
	if !d.awaited(next) {
		return f, false
	}
	if next != nil && next.Acquire.Return.T <= d.free+round+int64(d.lock.Params.Slack) {
		return kept, false // for whoever waits, and however many
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
			f = verdict.Finding{Occasions: 1, Undecided: d.undecided("; the lock must be free again by %s, and the record ends at %s", facts.Seconds(bound), facts.Seconds(d.lock.End))}
		case d.excused(w, next, bound):
			f = verdict.Finding{Occasions: 1, Undecided: d.undecided(", and the lock was not free again for %s by %s; the host stalled or was slow, which may be why", w.Client(), facts.Seconds(bound))}
		default:
			late := verdict.Incident{From: d.at, Tell: func() verdict.Result { return d.late(w, next, bound) }}
			return verdict.Finding{Occasions: 1, Incidents: []verdict.Incident{late}}, false
		}
	}
	return f, disturbed && f.Occasions == 0
}

// excused reports whether stalls of the host, or keys that stayed because it was slow, may be why
// nobody had the lock by the bound.
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

// undecided says that a loss may have been an incident, and why nobody can tell.
func (d loss) undecided(why string, args ...any) string {
	return fmt.Sprintf("%s %s at %s while it may have held %s", d.session.Client(), ways[d.fault.Kind].verb, facts.Seconds(d.at), verdict.LockName(d.session.Key())) +
		fmt.Sprintf(why, args...)
}

// awaited reports whether there are waiters, without a look at each.
func (d loss) awaited(next *facts.Session) bool {
	until := int64(facts.Never)
	if next != nil {
		until = next.Acquire.Return.T
	}
	own := d.lock.byClient()[d.session.Client()]
	all := d.lock.callers()
	return all.calledBy(until)-calledBy(own, until) > all.endedBy(d.at)-(len(own)-len(outliving(own, d.at)))
}

// waiters is other clients' acquires that outlived a loss and were called before
// the next grant, and of how many clients.
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

// disturbed reports whether faults kept a majority from one that waits, between
// a loss and an instant, or the first key of the next grant. Keys that faults left behind count from
// when the lost one's own are gone.
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
	text := fmt.Sprintf("had not been granted again by %s, when the record ends", facts.Seconds(d.lock.End))
	events := []*history.Event{d.session.Acquire.Call, d.session.Acquire.Return, d.lastSet, d.fault.Begin, w.Acquire.Call, w.Acquire.Return}
	if next != nil {
		to = next.Acquire.Return.T
		text = fmt.Sprintf("was granted again only at %s, to %s", facts.Seconds(to), next.Client())
		events = append(events, next.Acquire.Return)
	}
	cause, why := whyNobody(d.lock, spans.Of(d.free, min(to, max(d.free+1, spans.Wait(d.lock.Facts, w).To))))
	return verdict.Result{
		Outcome: verdict.Violated, Cause: cause, Bound: bound - d.at,
		Because: fmt.Sprintf("%s %s at %s while it may have held %s, and %s was waiting; the lock must be free again by %s, and %s; %s",
			d.session.Client(), ways[d.fault.Kind].verb, facts.Seconds(d.at), verdict.LockName(d.session.Key()), w.Client(), facts.Seconds(bound), text, why),
		Witness: &verdict.Witness{
			Events: verdict.Numbered(events), Sessions: []string{d.session.Name(), w.Name()},
			Key: d.session.Key(), From: d.at, To: to,
		},
	}
}

// fairness measures how a lock is shared out.
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

// splitVotes counts the attempts on a lock that were split: a majority could have said yes,
// for nobody had the lock or was getting it, and yet no client had a majority, for attempts
// met. One that meets nobody's loses to keys that were left behind.
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

// metRival reports for each attempt whether it overlapped one of another client: neither began after the other's
// keys were all deleted. A client may begin its next attempt before the keys of the last one are.
func metRival(w *facts.Wire) []bool {
	met := make([]bool, len(w.Attempts))
	client := func(i int) string { return w.Attempts[i].Session.Client() }
	type reach struct {
		client string
		until  int64
	}
	var far, other reach // of the attempts so far: the one that lasts longest, and the longest of another client
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
	next, beyond := -1, -1 // the attempt that begins next, and the next one of another client than that
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

// goneBy is when the last of an attempt's commands was done.
func goneBy(a *facts.Attempt) int64 {
	at := a.To
	for _, d := range a.Deletes {
		at = max(at, d.T)
	}
	return at
}

// orphans counts keys that a node refused a set for, though none had been set or
// extended there for longer than a key may live.
func orphans(r *conditions, n map[string]float64) {
	type spot struct{ node, key string }
	type age struct {
		set     int64
		counted bool
	}
	keys := map[spot]*age{}
	count := 0
	limit := spans.Plus(r.keys.life, int64(r.Params.Slack))
	// In the order of the nodes' doing: an answer that took longer is recorded later.
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

// jainIndex is (Σx)²/(n·Σx²), Jain, Chiu and Hawe 1984.
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

// callers lists a lock's sessions by call time, so that finding those that were waiting in a span
// needs no look at every client.
type callers struct {
	sessions []*facts.Session
	place    map[string]int // of a client among all
	ended    history.Peaks  // when each acquire had ended
	until    history.Peaks  // until when its client was trying
	ends     []int64        // when acquires ended, in the order of time
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

// calledBy and endedBy are how many acquires were by an instant.
func (w *callers) calledBy(at int64) int { return calledBy(w.sessions, at) }
func (w *callers) endedBy(at int64) int  { return spans.UpTo(w.ends, at) }

// lasting yields the sessions whose acquire was called by one instant and lasted beyond another.
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

// clients lists the clients of those sessions, in the order of their first call.
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

// outliving is one client's sessions whose acquire had not returned at an instant.
func outliving(sessions []*facts.Session, at int64) []*facts.Session {
	return sessions[firstOf(sessions, func(s *facts.Session) bool { return s.Acquire.Ended() > at }):]
}

// calledBy is how many of some sessions, in the order of their calls, were called by an instant.
func calledBy(sessions []*facts.Session, at int64) int {
	return firstOf(sessions, func(s *facts.Session) bool { return s.Acquire.Call.T > at })
}

// firstOf is the place of the first session of which something holds that holds of
// all behind it.
func firstOf(sessions []*facts.Session, holds func(*facts.Session) bool) int {
	return sort.Search(len(sessions), func(i int) bool { return holds(sessions[i]) })
}

// stuck is a call that had not returned when its keys must have lapsed and all rounds were over,
// though its client went on and reached a majority for so long: an extension or a release, or an
// acquire that never returned and asked no node any more though the lock was free. An acquire that
// returns late is seen where nobody gets the lock: see whyNobody.
type stuck struct {
	lock    *lockState
	session *facts.Session
	of      facts.Operation
	spans.Span
	asked int64 // an acquire's last message to a node was sent then; 0: it is another call
	bound int64 // how long it may take
}

// stuckIn finds those of a lock, in the order of their sessions, but for acquires in spans that are
// reported already. It tells of the first for which stalls of the host may be to blame.
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
	if c.wire == nil { // nobody knows who asked a node
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

// free returns the spans in which nobody can have held the lock and no leftover keys blocked it.
func (c *lockState) free() []spans.Span {
	return spans.Common(spans.Outside(heldBy(c.holders())), spans.Outside(c.blocked()))
}

// tell tells of it.
func (d stuck) tell() verdict.Result {
	came := fmt.Sprintf("had not returned at the end of the record, at %s", facts.Seconds(d.lock.End))
	events := []*history.Event{d.session.Acquire.Call, d.session.Acquire.Return, d.of.Call}
	if d.of.Return != nil {
		came = fmt.Sprintf("returned at %s", facts.Seconds(d.of.Return.T))
		events = append(events, d.of.Return)
	}
	because := fmt.Sprintf("%s called %s of %s at %s, a majority being available, and the call %s",
		d.session.Client(), d.of.Call.Op, verdict.LockName(d.lock.name), facts.Seconds(d.of.Call.T), came)
	cause := verdict.WaitedLong
	if d.asked == 0 && d.lock.Unreturned(d.of) || hangs(d.lock, d.of, d.Span) {
		cause = verdict.Hung
	}
	if d.asked > 0 {
		because += fmt.Sprintf("; it asked no node after %s, though the lock was free", facts.Seconds(d.asked))
	}
	return verdict.Result{
		Outcome: verdict.Violated, Cause: cause, Because: because, Bound: d.bound,
		Witness: &verdict.Witness{Key: d.lock.name, From: d.From, To: d.To, Sessions: []string{d.session.Name()}, Events: verdict.Numbered(events)},
	}
}
