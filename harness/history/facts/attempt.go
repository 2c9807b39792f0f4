package facts

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"lockpick/harness/history"
)

// Attempt is one round of requests to the nodes: sets with one token, by one client, during one
// acquire, at most one per node. A lock may use the same token for several rounds or acquires; see
// splitRounds.
type Attempt struct {
	Session           *Session
	Token             string
	From, To          int64            // when the first set was sent, and when the last set was answered or abandoned
	End               int64            // when the attempt was over at the latest: the next one began, acquire returned, or the holder released the lock; From if the client had given up earlier
	YesVotes, NoVotes int              // replies that reached the client
	Won               bool             // the session acquired the lock with this attempt
	AllSets           []*history.Event // in sending order
	Sets              []*history.Event // sets that a node applied or may have applied
	Releases          []*history.Event // releases that may have deleted the attempt's keys, whether or not they were applied

	firstWithToken  *Attempt // first attempt with this token; nil: this one
	previousAttempt *Attempt // the session's previous attempt with a different token
	resent          bool     // see isResent
	endWithoutNext  int64    // what End would be without a later attempt
}

// LockAttempts contains the commands for one lock, as recorded by the links and grouped into
// attempts.
type LockAttempts struct {
	Attempts      []*Attempt            // ordered by From
	LastAttempt   map[*Session]*Attempt // each session's last attempt
	LastExtension map[*Session]int64    // when a node last applied an extension for each session, excluding those after the client gave up
}

// AttemptsByLock returns all attempts, which it computes when it is first called.
func (f *Facts) AttemptsByLock() map[string]*LockAttempts {
	if f.attempts != nil {
		return f.attempts
	}
	in := attemptReader{locks: map[string]*LockAttempts{}, clients: map[clientKey]*clientAttempts{}, gaveUpTimes: map[*Session]int64{}, goneAt: f.GoneAt}
	in.nodeTimeout, in.maxKeyLife = int64(f.Params.NodeTimeout), 2*int64(f.Params.MaxTTL())
	if len(f.LockCommands) > 0 {
		for s := range f.Sessions() {
			a := in.client(s.Client(), s.Key())
			a.sessions = append(a.sessions, s)
		}
	}
	for _, g := range in.groupByToken(f.LockCommands) {
		slices.SortStableFunc(g.events, compareSendTimes)
		in.splitRounds(g)
	}
	for _, w := range in.locks {
		slices.SortStableFunc(w.Attempts, func(a, b *Attempt) int { return cmp.Compare(a.From, b.From) })
		in.finishAttempts(f, w)
	}
	in.recordExtensions()
	f.attempts = in.locks
	return f.attempts
}

type attemptReader struct {
	locks       map[string]*LockAttempts
	clients     map[clientKey]*clientAttempts
	extensions  []*history.Event // in sending order
	nodeTimeout int64
	maxKeyLife  int64              // a key has certainly expired after this time
	goneAt      map[string]int64   // see Facts.GoneAt
	gaveUpTimes map[*Session]int64 // cache of gaveUpAt
}

type clientKey struct{ client, key string }

// clientAttempts contains a client's sessions with one lock, and its sets and releases by token.
type clientAttempts struct {
	sessions  []*Session
	groups    map[string]*group
	lastGroup *group // the previous command's group, which is likely to be needed again
}

func (in *attemptReader) client(client, key string) *clientAttempts {
	a := in.clients[clientKey{client, key}]
	if a == nil {
		a = &clientAttempts{groups: map[string]*group{}}
		in.clients[clientKey{client, key}] = a
	}
	return a
}

// group contains a client's sets and releases with one token, in sending order.
type group struct {
	*clientAttempts
	lockAttempts *LockAttempts
	token        string
	events       []*history.Event
}

// groupByToken groups sets and releases by client, lock and token. The groups are in order of first
// use. Extensions are collected in in.extensions.
func (in *attemptReader) groupByToken(links []*history.Event) (all []*group) {
	for _, e := range links {
		a, w := in.client(Sender(e), e.Key), in.lockAttempts(e.Key)
		if e.Op == history.OpExtend {
			in.extensions = append(in.extensions, e)
			continue
		}
		g := a.lastGroup
		if g == nil || g.token != e.Token {
			if g = a.groups[e.Token]; g == nil {
				g = &group{clientAttempts: a, lockAttempts: w, token: e.Token}
				a.groups[e.Token], all = g, append(all, g)
			}
			a.lastGroup = g
		}
		g.events = append(g.events, e)
	}
	return all
}

func (in *attemptReader) lockAttempts(key string) *LockAttempts {
	w := in.locks[key]
	if w == nil {
		w = &LockAttempts{LastAttempt: map[*Session]*Attempt{}, LastExtension: map[*Session]int64{}}
		in.locks[key] = w
	}
	return w
}

func (a *Attempt) addSet(e *history.Event) {
	a.To = max(a.To, e.T)
	received := e.AnsweredAt > 0
	switch {
	case e.Type == history.OK && received:
		a.YesVotes++
	case e.Type == history.Fail && e.Cause == "" && received:
		a.NoVotes++
	}
	if e.Type != history.Fail {
		a.Sets = append(a.Sets, e)
	}
}

// finishAttempts determines whether each attempt on a lock won, and when it was over.
func (in *attemptReader) finishAttempts(f *Facts, w *LockAttempts) {
	for _, a := range w.Attempts {
		s := a.Session
		if a.previousAttempt = w.LastAttempt[s]; a.previousAttempt != nil && a.previousAttempt.Token == a.Token {
			a.previousAttempt = a.previousAttempt.previousAttempt
		}
		if a.resent = a.isResent(in.nodeTimeout) || a.From > s.EndedAt && a.From-in.gaveUpAt(s) > in.nodeTimeout; a.resent || a.isAfterGrant() {
			a.endWithoutNext, a.End = a.From, a.From
			continue
		}
		if last := w.LastAttempt[s]; last != nil {
			last.End = min(last.End, a.From)
			a.endWithoutNext = last.endWithoutNext
		} else {
			a.endWithoutNext = f.endOf(s)
		}
		a.End = a.endWithoutNext
		w.LastAttempt[s] = a
	}
	for s, a := range w.LastAttempt {
		a.Won = s.Granted()
	}
}

// recordExtensions determines the LastExtension of each session. An extension belongs to the
// session that set its token, or else to its client's latest session. Extensions sent after the
// client has given up are ignored, because a lock that keeps renewing its key then no longer has a
// holder.
func (in *attemptReader) recordExtensions() {
	type tokenKey struct {
		clientKey
		token string
	}
	attempts := map[tokenKey][]*Attempt{}
	if len(in.extensions) > 0 {
		for key, w := range in.locks {
			for _, a := range w.Attempts {
				of := tokenKey{clientKey{a.Session.Client(), key}, a.Token}
				attempts[of] = append(attempts[of], a)
			}
		}
	}
	for _, e := range in.extensions {
		from := clientKey{Sender(e), e.Key}
		s := lastCalledBy(in.client(from.client, from.key).sessions, e.SentAt)
		of := attempts[tokenKey{from, e.Token}]
		if i := sort.Search(len(of), func(i int) bool { return of[i].From > e.SentAt }); i > 0 {
			s = of[i-1].Session
		}
		if s == nil || e.Type == history.Fail {
			continue
		}
		if w := in.lockAttempts(e.Key); e.SentAt-in.gaveUpAt(s) <= in.nodeTimeout {
			w.LastExtension[s] = max(w.LastExtension[s], AppliedAt(e))
		}
	}
}

// gaveUpAt caches Session.gaveUpAt, which scans all calls of the session.
func (in *attemptReader) gaveUpAt(s *Session) int64 {
	at, cached := in.gaveUpTimes[s]
	if !cached {
		at = s.gaveUpAt(in.goneAt)
		in.gaveUpTimes[s] = at
	}
	return at
}

// gaveUpAt returns when the session's client gave up the lock, or Never. The client gives up when
// its last release or its failed acquire returns (with any result), unless a successful extension
// follows, and when the client itself is gone.
func (s *Session) gaveUpAt(gone map[string]int64) int64 {
	at := int64(Never)
	if !s.Granted() {
		at = s.EndedAt
	}
	for x := range s.Actions() {
		switch {
		case x.Call.Op == history.OpRelease && x.Return != nil:
			at = x.Return.T
		case x.Call.Op == history.OpExtend && x.Call.Value != history.OpRelease && x.Outcome() == history.OK:
			at = Never
		}
	}
	if t, ok := gone[s.Client()]; ok {
		at = min(at, t)
	}
	return at
}

// SentAfterGivingUp reports whether one of the attempt's sets was sent more than a node timeout
// after the client had given up the attempt, for example by a driver that retries on its own.
func (a *Attempt) SentAfterGivingUp(set *history.Event, nodeTimeout int64) bool {
	return a.resent || a.End < Never && set.SentAt-a.End > nodeTimeout
}

// isResent reports whether the attempt repeats the sets of an earlier attempt that was released,
// more than a node timeout after the client began to use a different token.
func (a *Attempt) isResent(nodeTimeout int64) bool {
	if a.firstWithToken == nil || len(a.firstWithToken.Releases) == 0 {
		return false
	}
	releaseTime := a.firstWithToken.Releases[0].SentAt
	for b := a.previousAttempt; b != nil && b.From >= releaseTime; b = b.previousAttempt {
		if b.Token != a.Token && a.From-b.From > nodeTimeout {
			return true
		}
	}
	return false
}

// isAfterGrant reports whether the attempt's sets were sent after its session had acquired the lock
// with a different token, for example by a driver that continues after its client has given up.
func (a *Attempt) isAfterGrant() bool {
	s := a.Session
	return s.Granted() && a.From > s.Acquire.OutcomeAt() && s.Token() != "" && s.Token() != a.Token
}

// endOf returns when a session was over, because its acquire had returned without the lock, its
// holder had released the lock, or its client was gone.
func (f *Facts) endOf(s *Session) int64 {
	at := s.Acquire.OutcomeAt()
	if s.Granted() {
		at = s.ReleasedAt()
	}
	if t, ok := f.GoneAt[s.Client()]; ok {
		at = min(at, t)
	}
	return at
}

// Deletion returns when the key of a set was deleted on its node by a release, or Never, and when
// that release was sent, or 0 if there was none.
func (a *Attempt) Deletion(set *history.Event) (at, sentAt int64) {
	sentAt = Never
	for _, d := range a.Releases {
		if d.Node == set.Node && d.SentAt >= set.SentAt { // an earlier release belongs to an earlier key
			sentAt = min(sentAt, d.SentAt)
		}
	}
	if sentAt == Never {
		sentAt = 0
	}
	return deletionTime(set, a.Releases), sentAt
}

// Answer returns the attempt's SET that the node answered within the node timeout, or nil. If there
// are several, it returns a successful one, or else the last one.
func (a *Attempt) Answer(node string, nodeTimeout int64) (answer *history.Event) {
	for _, e := range a.AllSets {
		if e.Node == node && e.AnsweredAt != 0 && e.AnsweredAt-e.SentAt <= nodeTimeout && (answer == nil || answer.Type != history.OK) {
			answer = e
		}
	}
	return answer
}

// isErrorReply reports whether a node replied to a release with an error and therefore deleted
// nothing.
func isErrorReply(d *history.Event) bool { return d.Type == history.Fail && d.Cause != "" }

// lastCalledBy returns the last session whose acquire had been called at the given time, or nil.
// The sessions must belong to one client and be in call order.
func lastCalledBy(sessions []*Session, at int64) *Session {
	i := sort.Search(len(sessions), func(i int) bool { return sessions[i].Acquire.Call.T > at })
	if i == 0 {
		return nil
	}
	return sessions[i-1]
}

// splitRounds splits the commands with one token into rounds. A set begins a new round if
//
//   - an earlier set of the round to the same node is over (a lock that confuses two nodes
//     sends two sets to the same node at the same time),
//   - the token has been released on a node since the round began, or
//   - the next acquire has been called. However, if the lock uses a different token for that
//     acquire, it may continue to send sets with this one for up to a node timeout.
//
// The order of replies says nothing about rounds: a lock may contact all nodes at once or one after
// the other, and replies may be late.
func (in *attemptReader) splitRounds(g *group) {
	var all []*Attempt
	var sets, releases []*history.Event // in this round so far
	var session *Session
	beginRound := func(s *Session, first []*history.Event) {
		if len(sets) > 0 {
			all = append(all, newAttempt(session, sets, releases))
		}
		sets, releases, session = first, nil, s
	}
	for _, e := range g.events {
		if e.Op == history.OpRelease {
			if len(sets) > 0 {
				releases = append(releases, e)
			}
			continue
		}
		switch s := lastCalledBy(g.sessions, e.SentAt); {
		case s == nil: // the set belongs to no session
			continue
		case len(sets) == 0, len(releases) > 0, s != session && !in.mayBelongTo(session, s, e):
			beginRound(s, nil)
		case in.repeatsNode(sets, e):
			n := in.roundStart(sets, e)
			first := sets[n:]
			sets = sets[:n:n]
			beginRound(s, first)
		}
		sets = append(sets, e)
	}
	beginRound(nil, nil)
	if len(all) > 1 {
		for _, a := range all[1:] {
			a.firstWithToken = all[0]
		}
		in.assignReleases(all)
	}
	g.lockAttempts.Attempts = append(g.lockAttempts.Attempts, all...)
}

func newAttempt(s *Session, sets, releases []*history.Event) *Attempt {
	a := &Attempt{Session: s, Token: sets[0].Token, From: sets[0].SentAt, AllSets: sets, Releases: releases}
	for _, e := range sets {
		a.addSet(e)
	}
	return a
}

// roundStart returns the index of the first set in sets that belongs to the new round begun by e.
// The new round consists of the sets that were in flight together with e, provided that the
// previous round was over before the first of these sets:
//
//	n1  |=====|                      |=====|
//	n2  |=======|                    |======|
//	n3                              |====|      n3 was down in the first round
func (in *attemptReader) roundStart(sets []*history.Event, e *history.Event) int {
	n := len(sets)
	for n > 0 && !in.isOver(sets[n-1], e.SentAt) {
		n--
	}
	for _, x := range sets[:n] {
		if n < len(sets) && !in.isOver(x, sets[n].SentAt) {
			return len(sets)
		}
	}
	return n
}

// repeatsNode reports whether an earlier set to e's node is over.
func (in *attemptReader) repeatsNode(sets []*history.Event, e *history.Event) bool {
	return slices.ContainsFunc(sets, func(x *history.Event) bool {
		return x.Node == e.Node && in.isOver(x, e.SentAt)
	})
}

// isOver reports whether a set had been answered or abandoned at the given time.
func (in *attemptReader) isOver(x *history.Event, at int64) bool {
	return x.T <= at || at-x.SentAt >= in.nodeTimeout
}

// mayBelongTo reports whether set e, sent after the next acquire was called, may belong to a round
// of the previous acquire.
func (in *attemptReader) mayBelongTo(previous, next *Session, e *history.Event) bool {
	returnedAt := previous.Acquire.ReturnedAt()
	return next.Token() != e.Token && returnedAt < Never && e.SentAt-returnedAt <= in.nodeTimeout
}

// assignReleases adds each release to all other rounds with its token whose keys it may have
// deleted: earlier rounds whose keys still existed, and rounds that began while the release was in
// flight.
func (in *attemptReader) assignReleases(all []*Attempt) {
	sentInRound := make([][]*history.Event, len(all)) // releases sent in each round
	for i, a := range all {
		sentInRound[i] = a.Releases[:len(a.Releases):len(a.Releases)]
		a.Releases = sentInRound[i]
	}
	for i, a := range all {
		for _, d := range sentInRound[i] {
			for _, b := range all[i+1:] {
				if b.From >= d.AppliedAt {
					break
				}
				b.Releases = append(b.Releases, d)
			}
		}
		for _, e := range a.Sets {
			a.Releases = append(a.Releases, in.laterReleases(e, sentInRound[i], all[i+1:], sentInRound[i+1:])...)
		}
	}
}

// laterReleases returns the releases of later rounds that may have deleted the key set by e. It
// stops at the first round before which the key was certainly gone: deleted by a release, expired,
// or set again.
func (in *attemptReader) laterReleases(e *history.Event, roundReleases []*history.Event, rounds []*Attempt, laterRoundReleases [][]*history.Event) (releases []*history.Event) {
	goneAt := deletionTime(e, roundReleases)
	for i, a := range rounds {
		if a.From >= goneAt || in.maxKeyLife > 0 && a.From-AppliedAt(e) > in.maxKeyLife {
			break
		}
		for _, s := range a.Sets {
			if s.Node == e.Node && s.Type == history.OK && AppliedAt(s) > AppliedAt(e) {
				goneAt = min(goneAt, AppliedAt(s))
			}
		}
		for _, d := range laterRoundReleases[i] {
			if d.Node == e.Node {
				releases = append(releases, d)
			}
		}
		goneAt = min(goneAt, deletionTime(e, laterRoundReleases[i]))
	}
	return releases
}

// deletionTime returns when the first release that may have deleted a set's key was applied, or
// Never.
func deletionTime(set *history.Event, releases []*history.Event) int64 {
	at := int64(Never)
	for _, d := range releases {
		if d.Node == set.Node && d.AppliedAt > AppliedAt(set) && !isErrorReply(d) {
			at = min(at, d.AppliedAt)
		}
	}
	return at
}

// isLinkCommand reports whether e is a command recorded by a link.
func isLinkCommand(e *history.Event) bool {
	return e.Node != "" && e.Process != history.Nemesis && e.Process != history.Harness
}

// SentCommands returns all commands recorded by the links, in sending order.
func (f *Facts) SentCommands() []*history.Event {
	all := slices.Concat(f.LockCommands, f.OtherCommands)
	slices.SortStableFunc(all, compareSendTimes)
	return all
}

func compareSendTimes(a, b *history.Event) int {
	return cmp.Or(cmp.Compare(a.SentAt, b.SentAt), cmp.Compare(a.N, b.N))
}

// LockCommandsByNode returns the lock commands to each node, in the order of its replies. It omits
// commands without a known reply.
func (f *Facts) LockCommandsByNode() map[string][]*history.Event {
	nodes := map[string][]*history.Event{}
	for _, e := range f.LockCommands {
		if e.AppliedAt != 0 {
			nodes[e.Node] = append(nodes[e.Node], e)
		}
	}
	for _, all := range nodes {
		slices.SortStableFunc(all, func(a, b *history.Event) int {
			return cmp.Or(cmp.Compare(a.AppliedAt, b.AppliedAt), cmp.Compare(a.N, b.N))
		})
	}
	return nodes
}

// LinkClient returns the client of a link such as "c1-n3".
func LinkClient(link string) string {
	client, _, _ := strings.Cut(link, "-")
	return client
}

// Sender returns the client that sent a command. Unlike LinkClient, it supports client names with
// dashes.
func Sender(e *history.Event) string {
	if client, ok := strings.CutSuffix(e.Process, e.Node); ok {
		return strings.TrimSuffix(client, "-")
	}
	return e.Process
}

// ReleaseOf returns the release that deleted a key according to its node, which reported end, or
// nil.
func (f *Facts) ReleaseOf(end *history.Event) *history.Event {
	for _, e := range f.LockCommands {
		if e.Op == history.OpRelease && e.Process == end.Life.Sender && e.SentAt == end.SentAt && e.Key == end.Key {
			return e
		}
	}
	return nil
}

// Write is a log entry for a write that the resource applied or refused. Versions count the writes
// applied to a key. If a read shows a different version, that version is used, because the resource
// itself counts them.
type Write struct {
	*history.Event
	Read          *history.Event // the session's previous read, which the write is based on; nil: not in the log
	VersionBefore int64          // version that the write found
	VersionAfter  int64          // version that the write produced; 0 if it was refused
	MaxFence      int64          // largest fencing token that the resource had accepted before
}

// Writes returns the writes in the resource's log, in the order in which the resource handled them.
func (f *Facts) Writes() []Write {
	type resource struct{ version, fence int64 }
	keys := map[string]*resource{}
	reads := map[string]*history.Event{}
	var all []Write
	for _, e := range f.Log {
		r := keys[e.Key]
		if r == nil {
			r = &resource{}
			keys[e.Key] = r
		}
		applied := e.Type == history.OK
		if e.Cause == history.OpWrite {
			w := Write{Event: e, Read: reads[e.Session], VersionBefore: r.version, MaxFence: r.fence}
			if applied {
				r.version++
				w.VersionAfter = r.version
			}
			all = append(all, w)
		} else if applied {
			reads[e.Session], r.version = e, e.Version
		}
		if applied {
			r.fence = max(r.fence, e.Fence)
		}
	}
	return all
}

// AppliedAt returns when the resource had applied a log entry or a node had executed a command. If
// that is unknown, it returns e.T.
func AppliedAt(e *history.Event) int64 { return cmp.Or(e.AppliedAt, e.T) }
