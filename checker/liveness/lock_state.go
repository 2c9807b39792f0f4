package liveness

import (
	"cmp"
	"iter"
	"slices"
	"sort"
	"sync"

	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// lockState is the state of one lock and of the sessions that want it. There may be millions of
// sessions, so lists of them are built on first use.
type lockState struct {
	*conditions
	lock        *facts.Lock
	name        string
	attempts    *facts.LockAttempts     // nil if the links recorded no command for this lock
	keptByFault map[string][]spans.Span // by node: spans during which a fault kept a key there
	keptByHost  map[string][]spans.Span // by node: spans during which a key may have stayed because the host was slow

	sessions            iter.Seq[*facts.Session]      // the lock's sessions, ordered by call time
	callersMemo         *callers                      // cached result of callers
	grantsMemo          []*facts.Session              // cached result of grants
	nextGrantMemo       []int                         // cached result of grantAfter: for each grant, the index of the next different grant
	byClientMemo        map[string][]*facts.Session   // cached result of byClient
	clientNames         []string                      // the clients, ordered by first call
	holdersMemo         []holder                      // cached result of holders
	holdMemo            map[*facts.Session]cachedHold // cached result of hold
	majorityMemo        map[string][]spans.Span       // cached result of majority, by client
	availableMemo       map[string][]spans.Span       // cached result of availableSpans, by client
	certainMajorityMemo map[string][]spans.Span       // cached result of certainMajority, by client
	keylessMemo         map[string][]spans.Span       // cached result of keylessSpans, by client

	longestPause func() int64 // cached result of longestPause

	lostRoundsMemo map[string][]spans.Span        // cached result of lostRounds
	delaySpansMemo map[string]spans.MeasuredSpans // cached result of delaySpans
}

// memoize returns the value stored for a key, or computes and stores it.
func memoize[K comparable, V any](memo map[K]V, key K, make func() V) V {
	value, ok := memo[key]
	if !ok {
		value = make()
		memo[key] = value
	}
	return value
}

// newLockStates returns the states of a record's locks in the order in which the locks were first
// used.
func newLockStates(r *conditions) []*lockState {
	var locks []*lockState
	attemptsByLock := r.AttemptsByLock()
	for _, l := range r.Locks {
		c := &lockState{
			conditions: r, lock: l, name: l.Name, attempts: attemptsByLock[l.Name], sessions: r.Sessions(),
			holdMemo: map[*facts.Session]cachedHold{}, majorityMemo: map[string][]spans.Span{}, availableMemo: map[string][]spans.Span{},
			certainMajorityMemo: map[string][]spans.Span{}, keylessMemo: map[string][]spans.Span{}, delaySpansMemo: map[string]spans.MeasuredSpans{},
		}
		c.longestPause = sync.OnceValue(func() int64 { return longestPause(c) })
		c.keptByFault, c.keptByHost = findKeptKeys(r, c.attempts)
		locks = append(locks, c)
	}
	if len(locks) < 2 {
		return locks
	}
	sessionsByLock := map[string]*[]*facts.Session{}
	for _, c := range locks {
		sessionsByLock[c.name] = &[]*facts.Session{}
	}
	key, currentSessions := locks[0].name, sessionsByLock[locks[0].name]
	for s := range r.Sessions() {
		if s.Key() != key {
			key, currentSessions = s.Key(), sessionsByLock[s.Key()]
		}
		*currentSessions = append(*currentSessions, s)
	}
	for _, c := range locks {
		c.sessions = slices.Values(*sessionsByLock[c.name])
	}
	return locks
}

// callers returns the sessions ordered by call time.
func (c *lockState) callers() *callers {
	if c.callersMemo == nil {
		c.byClient()
		c.callersMemo = newCallers(c.Facts, c.sessions, c.clientNames)
	}
	return c.callersMemo
}

// grants returns the sessions that acquired the lock, in the order in which their acquires
// returned.
func (c *lockState) grants() []*facts.Session {
	if c.grantsMemo == nil {
		for s := range c.lock.Sessions() {
			if s.Granted() {
				c.grantsMemo = append(c.grantsMemo, s)
			}
		}
	}
	return c.grantsMemo
}

// grantAfter returns the first grant after an instant, or nil. It skips grants to the given session
// or to its client with the same token, because these do not show that the lock was free.
func (c *lockState) grantAfter(at int64, excluded *facts.Session) *facts.Session {
	grants := c.grants()
	if c.nextGrantMemo == nil {
		c.nextGrantMemo = make([]int, len(grants))
		for i := len(grants) - 1; i >= 0; i-- {
			c.nextGrantMemo[i] = i + 1
			if i+1 < len(grants) && sameGrant(grants[i+1], grants[i]) {
				c.nextGrantMemo[i] = c.nextGrantMemo[i+1]
			}
		}
	}
	i := searchSessions(grants, func(s *facts.Session) bool { return s.Acquire.Return.T > at })
	if i < len(grants) && sameGrant(grants[i], excluded) {
		i = c.nextGrantMemo[i]
	}
	if i == len(grants) {
		return nil
	}
	return grants[i]
}

// sameGrant reports whether a grant gave a client what it already had from another grant.
func sameGrant(grant, other *facts.Session) bool {
	return grant.Client() == other.Client() && (grant == other || grant.Token() == other.Token())
}

// byClient returns each client's sessions, ordered by call time.
func (c *lockState) byClient() map[string][]*facts.Session {
	if c.byClientMemo == nil {
		c.byClientMemo = map[string][]*facts.Session{}
		for s := range c.sessions {
			if _, ok := c.byClientMemo[s.Client()]; !ok {
				c.clientNames = append(c.clientNames, s.Client())
			}
			c.byClientMemo[s.Client()] = append(c.byClientMemo[s.Client()], s)
		}
	}
	return c.byClientMemo
}

// waitingSpans returns the spans during which a client was trying to acquire the lock, if they
// overlap a given span.
func (c *lockState) waitingSpans(client string, span spans.Span) []spans.Span {
	var list []spans.Span
	for _, s := range endingAfter(c.byClient()[client], span.From) {
		if s.Acquire.Call.T >= span.To {
			break
		}
		wait := spans.Wait(c.Facts, s)
		wait.To = max(wait.To, wait.From+1) // count an acquire that fails at once as an attempt
		list = append(list, wait)
	}
	return list
}

// couldAcquire returns the parts of a span in which a client was trying to acquire the lock and
// reached enough nodes. A client that retries within a retry delay after a failure is still trying.
func (c *lockState) couldAcquire(waitSpans []spans.Span, span spans.Span, reachable []spans.Span) []spans.Span {
	return spans.Intersect(spans.Intersect(spans.Join(waitSpans, int64(c.Params.RetryMax)), reachable), []spans.Span{span})
}

// cachedHold is a session's hold as stored in holdMemo.
type cachedHold struct {
	hold
	ok         bool  // the session held or may have held the lock
	certainEnd int64 // from then on the session certainly held nothing
}

// hold returns a session's hold. Some callers need it often, so it is cached.
func (c *lockState) hold(s *facts.Session) cachedHold {
	return memoize(c.holdMemo, s, func() (h cachedHold) {
		h.hold, h.ok = findHold(c.Facts, c.lapses, s, c.attempts)
		h.certainEnd = certainEnd(c.Facts, s, c.attempts, h.lapseTime)
		return h
	})
}

// holders returns all holds of the lock, in the order in which their acquires ended.
func (c *lockState) holders() []holder {
	if c.holdersMemo == nil {
		c.holdersMemo = findHolders(c.Facts, c.lapses, c.sessions, c.attempts)
	}
	return c.holdersMemo
}

// majority returns the spans during which a client is running and reaches a majority of nodes that
// can grant it this lock, because no fault prevents them. Keys of the current holder do not matter.
func (c *lockState) majority(client string) []spans.Span {
	return memoize(c.majorityMemo, client, func() []spans.Span { return c.outages.majorityWithout(client, c.keptByFault) })
}

// availableSpans returns the parts of majority in which the client has had time to notice the end
// of the last outage.
func (c *lockState) availableSpans(client string) []spans.Span {
	return memoize(c.availableMemo, client, func() []spans.Span {
		return spans.Intersect(c.outages.trimRecovery(c.outages.majority(client)), c.majority(client))
	})
}

// certainMajority is like majority, but excludes nodes while they have a key that stayed because
// the host was slow.
func (c *lockState) certainMajority(client string) []spans.Span {
	if len(c.keptByHost) == 0 {
		return c.majority(client)
	}
	return memoize(c.certainMajorityMemo, client, func() []spans.Span { return c.outages.majorityWithout(client, c.leftoverSpans()) })
}

// certainlyAvailableSpans returns the parts of certainMajority in which the client has had time to
// notice the end of the last outage.
func (c *lockState) certainlyAvailableSpans(client string) []spans.Span {
	return spans.Intersect(c.availableSpans(client), c.certainMajority(client))
}

// keylessSpans returns the spans during which a client could reach a majority of nodes without a key of
// this lock.
func keylessSpans(c *lockState, client string) []spans.Span {
	return memoize(c.keylessMemo, client, func() []spans.Span {
		keySpans := map[string][]spans.Span{}
		for _, n := range c.Params.Nodes {
			for _, s := range c.Lives().Intervals(n, c.name) {
				keySpans[n] = append(keySpans[n], spans.New(s.From(), s.To()))
			}
		}
		uniteAll(keySpans)
		return c.outages.majorityWithout(client, keySpans)
	})
}

// leftoverSpans returns, by node, the spans during which a key stayed because of a fault or a slow
// host.
func (c *lockState) leftoverSpans() map[string][]spans.Span {
	leftovers := map[string][]spans.Span{}
	for _, n := range c.Params.Nodes {
		if list := slices.Concat(c.keptByFault[n], c.keptByHost[n]); len(list) > 0 {
			leftovers[n] = spans.Union(list)
		}
	}
	return leftovers
}

// blockedSpans returns the spans during which keys left behind by faults or a slow host kept every
// client from reaching a majority.
func (c *lockState) blockedSpans() []spans.Span {
	leftovers := c.leftoverSpans()
	if len(leftovers) == 0 {
		return nil
	}
	var lists [][]spans.Span
	for _, n := range c.Params.Nodes {
		lists = append(lists, leftovers[n])
	}
	return spans.AtLeast(len(lists)-quorumSize(&c.Params)+1, lists...)
}

// findKeptKeys returns, by node, the spans during which an attempt's key may have stayed for
// reasons beyond the lock's control, so that no other client could get the node's vote. Such a span
// lasts until the key is known to have been deleted or has lapsed. A fault kept the key if
//
//   - the client, the node or the link was down before the attempt was over,
//   - or a fault delayed the set or the release for longer than a client waits, or forever.
//
// A slow host may have kept the key if there was no fault, but the set, the release or the answer
// to the set took longer than a client waits, or the release never arrived and the host stalled
// when it was due. In virtual time the host is never slow.
//
// The lock is responsible for any other key that a failed attempt leaves behind. The same is true
// of a key that remains after its holder's release, because a fault that was over before explains
// nothing, and of a key that was sent after its attempt had been given up.
func findKeptKeys(r *conditions, w *facts.LockAttempts) (byFault, byHost map[string][]spans.Span) {
	byFault, byHost = map[string][]spans.Span{}, map[string][]spans.Span{}
	if w == nil {
		return byFault, byHost
	}
	for _, a := range w.Attempts {
		for _, e := range a.Sets {
			if neverApplied(r, a, e) {
				continue
			}
			k := keptAfterAttempt(r, w, a, e)
			if len(k.byFault) > 0 {
				byFault[e.Node] = append(byFault[e.Node], k.byFault...)
			}
			if len(k.byHost) > 0 {
				byHost[e.Node] = append(byHost[e.Node], k.byHost...)
			}
		}
	}
	uniteAll(byFault)
	uniteAll(byHost)
	return byFault, byHost
}

// neverApplied reports whether a node's own data shows that it never applied a set whose outcome is
// unknown to the link, for example because the set was lost.
func neverApplied(r *conditions, a *facts.Attempt, set *history.Event) bool {
	until := r.lapses.latestLapse(a.Session.Client(), facts.AppliedAt(set))
	if set.Type == history.OK || !r.Params.ReportsKeys || r.Lives().Gap(set.Node, set.SentAt, until) != nil {
		return false
	}
	return !slices.ContainsFunc(r.Lives().IntervalsBetween(set.Node, set.Key, set.SentAt, until), func(s *facts.KeyInterval) bool { return s.HasToken(a.Token) })
}

// keptSpans holds the spans during which an attempt's key stayed on its node, by what kept it
// there.
type keptSpans struct{ byFault, byHost []spans.Span }

// add records a span for which a message was late or lost. If no fault can have caused that and the
// run was in real time, the host was slow.
func (k *keptSpans) add(r *conditions, span spans.Span, fault bool) {
	if fault || !r.isRealTime() {
		k.byFault = append(k.byFault, span)
	} else {
		k.byHost = append(k.byHost, span)
	}
}

func keptAfterAttempt(r *conditions, w *facts.LockAttempts, a *facts.Attempt, e *history.Event) (k keptSpans) {
	if a.SentAfterGivingUp(e, int64(r.Params.NodeTimeout)) {
		return k
	}
	if a.Won {
		if release, called := releaseSpan(r.Facts, a.Session); called {
			return keptAfterHold(r, w, a, e, release)
		}
	}
	timeout := int64(r.Params.NodeTimeout)
	at, lastExtension := facts.AppliedAt(e), int64(0)
	if a.Won {
		lastExtension = w.LastExtension[a.Session]
	}
	deletionTime, releaseSent := a.Deletion(e)
	requestSpan := spans.New(e.SentAt, spans.Add(a.End, timeout))
	isDown, isTouched := spans.Meets(r.outages.linkDown(a.Session.Client(), e.Node), requestSpan), spans.Meets(r.outages.messageSpans[e.Process], requestSpan)
	span := spans.New(at, min(deletionTime, r.lapses.latestLapse(a.Session.Client(), max(at, lastExtension))))
	switch {
	case isDown || at-e.SentAt > timeout || releaseSent != 0 && deletionTime-releaseSent > timeout || e.AnsweredAt == 0 && !isTouched:
		k.add(r, span, isDown || isTouched)
	case r.isRealTime() && e.AnsweredAt-e.SentAt > timeout && !isTouched, releaseSent == 0 && spans.Meets(r.stalls, spans.New(a.To, spans.Add(a.To, timeout))):
		k.add(r, span, false)
	}
	return k
}

// keptAfterHold is like keptAfterAttempt, for a lock that was held and has been released or is
// being released:
//
//	set           acquire returned           release called      over
//	 |~~~~~~~~~~~~~~~~~~|---------------------------|~~~~~~~~~~~~~~|
//
// A fault explains the key if it was active before the client held the lock, because no other
// client could get the lock then, or if it kept the release from reaching the node. A restart of
// the node explains the key unless the node has answered the client since, because a restart breaks
// the client's connection. A cut explains it unless the lock has reported a successful release.
func keptAfterHold(r *conditions, w *facts.LockAttempts, a *facts.Attempt, e *history.Event, release spans.Span) (k keptSpans) {
	timeout := int64(r.Params.NodeTimeout)
	linkDown, messageFaults := r.outages.linkDown(a.Session.Client(), e.Node), r.outages.messageSpans[e.Process]
	at, acquireEnd := facts.AppliedAt(e), a.Session.Acquire.ReturnedAt()
	deletionTime, releaseSent := a.Deletion(e)
	goneTime := min(deletionTime, r.lapses.latestLapse(a.Session.Client(), max(at, w.LastExtension[a.Session])))
	if requestSpan := (spans.New(e.SentAt, acquireEnd)); spans.Meets(linkDown, requestSpan) {
		k.add(r, spans.New(at, min(goneTime, acquireEnd)), true)
	}
	requestSpan, returnSpan := spans.New(e.SentAt, spans.Add(acquireEnd, timeout)), spans.New(release.From, spans.Add(release.To, timeout))
	span := spans.New(max(at, release.From), goneTime)
	isDown := spans.Meets(linkDown, returnSpan) || releaseSent == 0 && wasDisconnected(r.Facts, a.Session, e, release.From)
	isTouched := spans.Meets(messageFaults, requestSpan) || spans.Meets(messageFaults, returnSpan)
	unanswered := e.AnsweredAt == 0 && !spans.Meets(messageFaults, requestSpan) && !spans.Meets(linkDown, requestSpan)
	switch {
	case isDown || at-e.SentAt > timeout && at > release.From || releaseSent != 0 && deletionTime-releaseSent > timeout || unanswered:
		k.add(r, span, isDown || isTouched)
	case releaseSent == 0 && spans.Meets(r.stalls, spans.New(release.From, spans.Add(release.From, timeout))):
		k.add(r, span, false)
	}
	return k
}

// wasDisconnected reports whether a node was down or cut off from the client after a key was set on
// it, and then did not answer the client before the time until.
func wasDisconnected(r *facts.Facts, s *facts.Session, set *history.Event, until int64) bool {
	lastOutage, reportedRelease := int64(spans.DistantPast), false
	for x := range s.Calls(history.OpRelease) {
		reportedRelease = reportedRelease || x.Return != nil && x.Return.Type == history.OK
	}
	for _, f := range r.Faults {
		terminates := f.Kind == facts.Kill || f.Kind == facts.Shutdown || f.Kind == facts.PowerLoss || f.Kind == facts.Failover
		if terminates && f.Target == set.Node || !reportedRelease && f.Kind == facts.Cut && f.Target == set.Process {
			if s := faultSpan(r, f); s.From >= set.SentAt && s.From < until {
				lastOutage = max(lastOutage, s.From)
			}
		}
	}
	return lastOutage != spans.DistantPast && !slices.ContainsFunc(r.LockCommands, func(e *history.Event) bool {
		return e.Process == set.Process && e.SentAt > lastOutage && e.SentAt < until && e.AnsweredAt != 0
	})
}

// loss records that a client held or may have held a lock and was then killed, paused, or cut off
// from a majority, so that it could not release the lock before its lease ended.
type loss struct {
	fault        *facts.Fault
	lock         *lockState
	session      *facts.Session
	at           int64 // when the client was certainly lost
	keysGoneTime int64 // when its keys must be gone at the latest
	lastSet      *history.Event
}

// lossKinds lists the kinds of fault that cause losses, in the order used in reports.
var lossKinds = []string{facts.Kill, facts.Cut, facts.Pause}

// lossWords contains the words for a loss by kind of fault.
var lossWords = map[string]struct{ verb, noun, holder string }{
	facts.Kill:  {"was killed", "holder death", "dead holder"},
	facts.Cut:   {"was cut off", "holder cut-off", "cut-off holder"},
	facts.Pause: {"was paused", "holder pause", "paused holder"},
}

// findLosses returns the losses in a record, in the order of the faults.
func findLosses(r *conditions, locks []*lockState) []loss {
	var all []loss
	sessionsOf := sync.OnceValue(func() map[string]*clientSessions { return sessionsByClient(locks) })
	add := func(f *facts.Fault, client string, at, until int64) {
		for _, d := range sessionsOf()[client].locksHeldAt(at, f.FirstEvent().T) {
			if d.fault = f; d.keysGoneTime <= until {
				all = append(all, d)
			}
		}
	}
	clients := map[string]bool{}
	for _, c := range r.Params.Clients {
		clients[c] = true
	}
	for _, f := range r.Faults {
		if stopsClient := f.Kind == facts.Kill || f.Kind == facts.Pause; stopsClient && f.Begin != nil && clients[f.Target] {
			add(f, f.Target, f.Begin.T, f.To())
		}
	}
	for client, cuts := range cutsByClient(r.Facts) {
		faultByStart := map[int64]*facts.Fault{}
		for _, f := range slices.Backward(cuts) {
			faultByStart[f.Begin.T] = f
		}
		for _, s := range isolatedSpans(r.outages, client, cuts) {
			add(faultByStart[s.From], client, s.From, s.To)
		}
	}
	slices.SortStableFunc(all, func(a, b loss) int { return verdict.ByTime(a.fault.Begin, b.fault.Begin) })
	return all
}

// cutsByClient returns the confirmed cuts of each client's links.
func cutsByClient(r *facts.Facts) map[string][]*facts.Fault {
	cuts := map[string][]*facts.Fault{}
	for _, f := range r.Faults {
		if client := facts.LinkClient(f.Target); f.Kind == facts.Cut && f.Begin != nil {
			cuts[client] = append(cuts[client], f)
		}
	}
	return cuts
}

// isolatedSpans returns the spans during which cuts certainly left a client without a majority. A
// client that can never reach a majority is not isolated.
func isolatedSpans(faultOutages *outages, client string, cuts []*facts.Fault) []spans.Span {
	cutSpans := map[string][]spans.Span{} // spans by link
	for _, f := range cuts {
		cutSpans[f.Target] = append(cutSpans[f.Target], spans.New(f.Begin.T, f.To()))
	}
	var lists [][]spans.Span
	for _, n := range faultOutages.nodes {
		list := cutSpans[client+"-"+n]
		if faultOutages.neverReaches(client, n) {
			list = append(list, spans.New(spans.DistantPast, facts.Never))
		}
		lists = append(lists, spans.Union(list))
	}
	n := len(faultOutages.nodes)
	found := spans.AtLeast(n-faultOutages.quorum+1, lists...)
	return slices.DeleteFunc(found, func(s spans.Span) bool { return s.From == spans.DistantPast })
}

type lockSession struct {
	session *facts.Session
	lock    *lockState
}

// clientSessions lists a client's sessions of all locks, ordered by call time and then by lock.
type clientSessions struct {
	all    []lockSession
	lapses []int64 // for each session, when the last known key of this or an earlier session has lapsed
}

// locksHeldAt returns the locks that a client held or may have held at an instant. For each lock it
// returns the session whose keys disappear last, unless they disappear before after. Before the
// client's last session, only recorded keys count. If none is recorded for the last session, a key
// is assumed to have been set at that instant.
func (w *clientSessions) locksHeldAt(at, after int64) (all []loss) {
	if w == nil {
		return nil
	}
	last := sort.Search(len(w.all), func(i int) bool { return w.all[i].session.Acquire.Call.T > at }) - 1
	for i := last; i >= 0 && (i == last || w.lapses[i] > after); i-- {
		current := w.all[i]
		h := current.lock.hold(current.session)
		d := loss{lock: current.lock, session: current.session, at: at, lastSet: h.lastSet, keysGoneTime: h.lapseTime}
		if h.lastSet == nil {
			d.keysGoneTime = current.lock.lapses.latestLapse(current.session.Client(), at)
		}
		if !h.ok || h.certainEnd <= at || d.keysGoneTime <= after || h.lastSet == nil && i < last {
			continue
		}
		index := slices.IndexFunc(all, func(o loss) bool { return o.lock == d.lock })
		switch {
		case index < 0:
			all = append(all, d)
		case d.keysGoneTime > all[index].keysGoneTime:
			all[index] = d
		}
	}
	return all
}

func sessionsByClient(locks []*lockState) map[string]*clientSessions {
	all := map[string]*clientSessions{}
	for _, c := range locks {
		for s := range c.sessions {
			list := all[s.Client()]
			if list == nil {
				list = new(clientSessions)
				all[s.Client()] = list
			}
			list.all = append(list.all, lockSession{s, c})
		}
	}
	for _, list := range all {
		slices.SortStableFunc(list.all, func(a, b lockSession) int { return cmp.Compare(a.session.Acquire.Call.T, b.session.Acquire.Call.T) })
		lapse := int64(spans.DistantPast)
		for _, x := range list.all {
			if h := x.lock.hold(x.session); h.ok && h.lastSet != nil {
				lapse = max(lapse, h.lapseTime)
			}
			list.lapses = append(list.lapses, lapse)
		}
	}
	return all
}

// majorityFreeTime returns when, after a session called release, a majority of nodes no longer had its
// key. It matters if the release returned late or never, because the nodes may have deleted the
// keys without the client's knowledge. It returns Never if release was not called or the record
// does not show the deletion.
//
//	call             n1    n2       n3                      the client gives up
//	  |---------------x-----x--------x-------------------------------?
//	                        two of three are free
func majorityFreeTime(r *facts.Facts, s *facts.Session, w *facts.LockAttempts, lapse int64) int64 {
	call := s.FirstRelease()
	if call == nil || w == nil || len(r.Params.Nodes) == 0 || w.LastAttempt[s] == nil || s.ReleasedAt() <= spans.Add(call.T, int64(r.Params.NodeTimeout)) {
		return facts.Never
	}
	var freeTimes []int64 // when each node that had a key at the call was free
	for _, n := range r.Params.Nodes {
		if until := nodeFreeTime(r, n, s, w, lapse); until > call.T {
			freeTimes = append(freeTimes, until)
		}
	}
	slices.Sort(freeTimes)
	numSpare := len(r.Params.Nodes) - quorumSize(&r.Params)
	if len(freeTimes) <= numSpare {
		return call.T
	}
	return freeTimes[len(freeTimes)-1-numSpare]
}

// nodeFreeTime returns the latest time at which a node still had a session's key, according to the
// node's own data or its answers on the links. That may be before the session called release.
func nodeFreeTime(r *facts.Facts, node string, s *facts.Session, w *facts.LockAttempts, lapse int64) int64 {
	a, call := w.LastAttempt[s], s.FirstRelease()
	at := int64(spans.DistantPast)
	for _, e := range a.Sets {
		if e.Node == node {
			deleted, _ := a.Deletion(e)
			at = max(at, min(deleted, lapse))
		}
	}
	if !r.Params.ReportsKeys || r.Lives().Gap(node, a.From, lapse) != nil {
		if at == spans.DistantPast && w.LastExtension[s] != 0 {
			return lapse // an extension may have set the key
		}
		return at
	}
	until := int64(spans.DistantPast)
	intervals := r.Lives().Intervals(node, s.Key())
	i := sort.Search(len(intervals), func(i int) bool { return intervals[i].To() > a.From })
	for _, y := range intervals[i:] {
		if y.From() > max(call.T, lastSetTime(a)) {
			break
		}
		if y.HasToken(a.Token) {
			until = max(until, min(y.To(), lapse))
		}
	}
	return until
}

func lastSetTime(a *facts.Attempt) int64 {
	at := int64(spans.DistantPast)
	for _, e := range a.Sets {
		at = max(at, facts.AppliedAt(e))
	}
	return at
}

// releaseSpan returns the span from a session's first call of release until its last release ended or
// its client disappeared. It reports false if the session never called release.
func releaseSpan(r *facts.Facts, s *facts.Session) (spans.Span, bool) {
	var span spans.Span
	called := false
	for x := range s.Calls(history.OpRelease) {
		if !called {
			span.From, called = x.Call.T, true
		}
		span.To = max(span.To, x.ReturnedAt())
	}
	if t, ok := r.GoneAt[s.Client()]; ok {
		span.To = min(span.To, t)
	}
	return span, called
}

// startSentTime returns when the command that set a value was sent or, if unknown, when the value first
// existed.
func startSentTime(s *facts.KeyInterval) int64 { return cmp.Or(s.Start.SentAt, s.From()) }

// hold is the span during which a session held or may have held a lock:
//
//	first key set      acquire returned      belief ends       release done, or the last key has lapsed
//	     |----------------------|=================|=====================|
//	    From                acquireEnd        beliefEnd                To
//
// While an acquire is in progress its client holds nothing, however long that takes: a client that
// has set keys and is still contacting nodes does not have the lock, and neither does any other
// client.
//
// If a release is in progress or got no definite answer, the hold ends when a majority of nodes has
// deleted the key (majorityFreeTime). Otherwise the lock may be held until the last key that was set
// or extended for it has lapsed, TTL·(1+ρ) later. The same is true if the client died or never got
// an answer. A failed attempt holds nothing, whatever keys it leaves behind.
type hold struct {
	spans.Span
	acquireEnd int64          // when the acquire returned or its client disappeared
	beliefEnd  int64          // when the client's own belief ended, or From if it never began
	lastSet    *history.Event // the last key set for the hold, or nil if unknown
	lapseTime  int64          // when the last of its keys must have lapsed
}

// holder is a session's hold, starting when its acquire ended. There may be millions of holders.
type holder struct {
	spans.Span
	holdStart int64 // when the hold itself began
	session   *facts.Session
}

// findHold returns a session's hold. It reports false if the session cannot have held the lock.
func findHold(r *facts.Facts, keys lapses, s *facts.Session, w *facts.LockAttempts) (hold, bool) {
	t := hold{acquireEnd: spans.Wait(r, s).To}
	t.beliefEnd = spans.DistantPast
	for b := range r.Windows(s) {
		t.beliefEnd = b.To
	}
	switch outcome := s.Acquire.Outcome(); {
	case outcome == history.Fail && t.beliefEnd == spans.DistantPast: // an extension may still have been granted
		return t, false
	case outcome == history.Info:
		t.From = s.Acquire.Call.T
	default:
		t.From = s.Acquire.Return.T
	}
	t.beliefEnd = max(t.beliefEnd, t.From)
	at := t.From
	if w != nil {
		a := w.LastAttempt[s]
		if a == nil && !s.Granted() {
			return t, false // the client died before it contacted a node
		}
		at = t.addKeys(s, a, w.LastExtension[s])
	} else if !s.Granted() {
		at = facts.Never
	}
	t.lapseTime = keys.latestLapse(s.Client(), at)
	t.To = max(t.beliefEnd, min(t.lapseTime, s.ReleasedAt(), majorityFreeTime(r, s, w, t.lapseTime)))
	return t, t.From < t.To
}

// addKeys adds the keys set in a session's last attempt, and returns when the last key was set or
// extended.
func (t *hold) addKeys(s *facts.Session, a *facts.Attempt, lastExtension int64) int64 {
	if a == nil {
		return cmp.Or(lastExtension, t.From)
	}
	at := max(lastExtension, a.From)
	if !s.Granted() {
		t.From = a.From
	}
	for _, e := range a.Sets {
		t.From = min(t.From, facts.AppliedAt(e))
		at = max(at, facts.AppliedAt(e))
		if t.lastSet == nil || facts.AppliedAt(e) > facts.AppliedAt(t.lastSet) {
			t.lastSet = e
		}
	}
	return at
}

// certainEnd returns the time after which a session certainly held nothing, according to its client
// or the nodes.
func certainEnd(r *facts.Facts, s *facts.Session, w *facts.LockAttempts, lapse int64) int64 {
	if s.Acquire.Outcome() == history.Fail {
		return spans.DistantPast
	}
	at := majorityFreeTime(r, s, w, lapse)
	for x := range s.Calls(history.OpRelease) {
		at = min(at, x.OutcomeAt())
	}
	return at
}

// findHolders returns all holds of a lock, in the order in which their acquires ended.
func findHolders(r *facts.Facts, keys lapses, sessions iter.Seq[*facts.Session], w *facts.LockAttempts) []holder {
	all := []holder{}
	for s := range sessions {
		if t, ok := findHold(r, keys, s, w); ok {
			all = append(all, holder{spans.New(max(t.From, t.acquireEnd), t.To), t.From, s})
		}
	}
	compareStart := func(a, b holder) int { return cmp.Compare(a.From, b.From) }
	if !slices.IsSortedFunc(all, compareStart) {
		slices.SortStableFunc(all, compareStart)
	}
	return all
}

// heldSpans returns the spans during which a client held or may have held a lock, or was acquiring
// it.
func heldSpans(holders []holder) []spans.Span {
	var list []spans.Span
	for _, t := range holders {
		list = append(list, spans.New(t.holdStart, t.To))
	}
	return spans.Union(list)
}
