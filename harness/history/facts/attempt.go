package facts

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"lockpick/harness/history"
)

// Attempt is one round of requests to the nodes: sets with one token, by one client, during one
// acquire, at most one for each node. A lock may use the same token for several rounds or acquires,
// see splitRounds.
type Attempt struct {
	Session  *Session
	Token    string
	From, To int64            // when the first set was sent, and when the last one was answered or given up
	End      int64            // when the attempt was over at the latest: the next one began, acquire returned, or the holder released the lock; From if the client had given up before that
	Yes, No  int              // numbers of nodes whose replies reached the client
	Won      bool             // the session acquired the lock by this attempt
	AllSets  []*history.Event // in the order in which they were sent
	Sets     []*history.Event // the sets that a node applied or may have applied
	Deletes  []*history.Event // releases that may have deleted its keys, whether or not they were applied

	firstOfToken   *Attempt // the first attempt with this token; nil: this one
	previous       *Attempt // the session's latest earlier attempt with a different token
	resent         bool     // see isResent
	endWithoutNext int64    // what End would be if no other attempt followed
}

// LockAttempts holds the commands for one lock, as recorded by the links, grouped into attempts.
type LockAttempts struct {
	Attempts      []*Attempt            // ordered by From
	LastAttempt   map[*Session]*Attempt // the last attempt of each session
	LastExtension map[*Session]int64    // when a node last applied an extension for the session, not counting those after the client gave up
}

// AttemptsByLock returns the attempts for every lock. It computes them all when it is first called.
func (f *Facts) AttemptsByLock() map[string]*LockAttempts {
	if f.attempts != nil {
		return f.attempts
	}
	in := attemptReader{locks: map[string]*LockAttempts{}, clients: map[clientKey]*clientAttempts{}, until: map[*Session]int64{}, gone: f.GoneAt}
	in.nodeTimeout, in.maxLife = int64(f.Params.NodeTimeout), 2*int64(f.Params.TTL)
	if len(f.LockCommands) > 0 {
		for s := range f.Sessions() {
			a := in.client(s.Client(), s.Key())
			a.sessions = append(a.sessions, s)
		}
	}
	for _, g := range in.byToken(f.LockCommands) {
		slices.SortStableFunc(g.events, bySent)
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
	extends     []*history.Event   // in the order in which they were sent
	nodeTimeout int64              // how long a client waits for a node
	maxLife     int64              // a key has certainly expired after this
	gone        map[string]int64   // Facts.GoneAt
	until       map[*Session]int64 // cache for gaveUpAt
}

type clientKey struct{ client, key string }

// clientAttempts holds one client's sessions with one lock, and its sets and releases by token.
type clientAttempts struct {
	sessions []*Session
	groups   map[string]*group
	last     *group // the group of the previous command, which is likely to be needed again
}

func (in *attemptReader) client(client, key string) *clientAttempts {
	a := in.clients[clientKey{client, key}]
	if a == nil {
		a = &clientAttempts{groups: map[string]*group{}}
		in.clients[clientKey{client, key}] = a
	}
	return a
}

// group holds one client's sets and releases with one token, in the order in which they were sent.
type group struct {
	*clientAttempts
	lockAttempts *LockAttempts
	token        string
	events       []*history.Event
}

// byToken groups sets and releases by client, lock and token, in the order in which these first
// occur. It collects extensions in in.extends.
func (in *attemptReader) byToken(links []*history.Event) (all []*group) {
	for _, e := range links {
		a, w := in.client(Sender(e), e.Key), in.lockAttempts(e.Key)
		if e.Op == history.OpExtend {
			in.extends = append(in.extends, e)
			continue
		}
		g := a.last
		if g == nil || g.token != e.Token {
			if g = a.groups[e.Token]; g == nil {
				g = &group{clientAttempts: a, lockAttempts: w, token: e.Token}
				a.groups[e.Token], all = g, append(all, g)
			}
			a.last = g
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
	known := e.Answered > 0
	switch {
	case e.Type == history.OK && known:
		a.Yes++
	case e.Type == history.Fail && e.Cause == "" && known:
		a.No++
	}
	if e.Type != history.Fail {
		a.Sets = append(a.Sets, e)
	}
}

// finishAttempts determines for each attempt on a lock whether it won and when it was over.
func (in *attemptReader) finishAttempts(f *Facts, w *LockAttempts) {
	for _, a := range w.Attempts {
		s := a.Session
		if a.previous = w.LastAttempt[s]; a.previous != nil && a.previous.Token == a.Token {
			a.previous = a.previous.previous
		}
		if a.resent = a.isResent(in.nodeTimeout) || a.From > s.EndedAt && a.From-in.gaveUpAt(s) > in.nodeTimeout; a.resent || a.afterGrant() {
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
// session that set its token, or else to its client's latest. Extensions sent after the client has
// given up are ignored, because a lock that keeps renewing its key then has no holder any more.
func (in *attemptReader) recordExtensions() {
	type owned struct {
		clientKey
		token string
	}
	attempts := map[owned][]*Attempt{}
	if len(in.extends) > 0 {
		for key, w := range in.locks {
			for _, a := range w.Attempts {
				of := owned{clientKey{a.Session.Client(), key}, a.Token}
				attempts[of] = append(attempts[of], a)
			}
		}
	}
	for _, e := range in.extends {
		from := clientKey{Sender(e), e.Key}
		s := lastCalledBy(in.client(from.client, from.key).sessions, e.Sent)
		of := attempts[owned{from, e.Token}]
		if i := sort.Search(len(of), func(i int) bool { return of[i].From > e.Sent }); i > 0 {
			s = of[i-1].Session
		}
		if s == nil || e.Type == history.Fail {
			continue
		}
		if w := in.lockAttempts(e.Key); e.Sent-in.gaveUpAt(s) <= in.nodeTimeout {
			w.LastExtension[s] = max(w.LastExtension[s], Applied(e))
		}
	}
}

// gaveUpAt caches Session.gaveUpAt, which goes through all calls of the session.
func (in *attemptReader) gaveUpAt(s *Session) int64 {
	at, known := in.until[s]
	if !known {
		at = s.gaveUpAt(in.gone)
		in.until[s] = at
	}
	return at
}

// gaveUpAt returns when the session's client gave up the lock: when its last release, or its failed
// acquire, returned in any way and was not followed by a successful extension; or when the client
// was gone. Never means that it did not give up the lock.
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

// SentAfterGivingUp reports whether a set of the attempt was sent more than a node time-out after
// the client had given up the attempt, for example by a driver that retries on its own.
func (a *Attempt) SentAfterGivingUp(set *history.Event, nodeTimeout int64) bool {
	return a.resent || a.End < Never && set.Sent-a.End > nodeTimeout
}

// isResent reports whether an attempt repeats the sets of an earlier attempt that was released,
// more than a node time-out after the client began to use another token.
func (a *Attempt) isResent(nodeTimeout int64) bool {
	if a.firstOfToken == nil || len(a.firstOfToken.Deletes) == 0 {
		return false
	}
	back := a.firstOfToken.Deletes[0].Sent
	for b := a.previous; b != nil && b.From >= back; b = b.previous {
		if b.Token != a.Token && a.From-b.From > nodeTimeout {
			return true
		}
	}
	return false
}

// afterGrant reports whether an attempt's sets were sent after its session had acquired the lock
// with another token, for example by a driver that continues after its client has given up.
func (a *Attempt) afterGrant() bool {
	s := a.Session
	return s.Granted() && a.From > s.Acquire.OutcomeAt() && s.Token() != "" && s.Token() != a.Token
}

// endOf returns when a session was over: its acquire returned without the lock, its holder had
// released the lock, or its client was gone.
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
// that release was sent, or 0 if none was.
func (a *Attempt) Deletion(set *history.Event) (at, sent int64) {
	sent = Never
	for _, d := range a.Deletes {
		if d.Node == set.Node && d.Sent >= set.Sent { // an earlier release is for an earlier key
			sent = min(sent, d.Sent)
		}
	}
	if sent == Never {
		sent = 0
	}
	return deletedBy(set, a.Deletes), sent
}

// Answer returns the attempt's set that the node answered within a node time-out, or nil. If there
// are several, it returns the successful one, or else the last.
func (a *Attempt) Answer(node string, nodeTimeout int64) (answer *history.Event) {
	for _, e := range a.AllSets {
		if e.Node == node && e.Answered != 0 && e.Answered-e.Sent <= nodeTimeout && (answer == nil || answer.Type != history.OK) {
			answer = e
		}
	}
	return answer
}

// isErrorReply reports whether a node replied to a release with an error, so that it deleted
// nothing.
func isErrorReply(d *history.Event) bool { return d.Type == history.Fail && d.Cause != "" }

// lastCalledBy returns the last of a client's sessions, which must be in call order, whose acquire
// had been called at the given time, or nil.
func lastCalledBy(sessions []*Session, at int64) *Session {
	i := sort.Search(len(sessions), func(i int) bool { return sessions[i].Acquire.Call.T > at })
	if i == 0 {
		return nil
	}
	return sessions[i-1]
}

// splitRounds splits the commands with one token into rounds. A set begins a new round if
//
//   - another set was sent to the same node in this round and is over (a lock that mistakes
//     one node for two sends it two sets at the same time),
//   - the token has been released on any node since the round began, or
//   - the next acquire has been called. If the lock uses a different token for that acquire,
//     however, it may go on sending sets with this one for a node time-out.
//
// The order of replies says nothing about rounds: a lock may contact all nodes at once or one after
// the other, and replies may be late.
func (in *attemptReader) splitRounds(g *group) {
	var all []*Attempt
	var sets, deletes []*history.Event // in this round so far
	var session *Session
	begin := func(s *Session, first []*history.Event) {
		if len(sets) > 0 {
			all = append(all, newAttempt(session, sets, deletes))
		}
		sets, deletes, session = first, nil, s
	}
	for _, e := range g.events {
		if e.Op == history.OpRelease {
			if len(sets) > 0 {
				deletes = append(deletes, e)
			}
			continue
		}
		switch s := lastCalledBy(g.sessions, e.Sent); {
		case s == nil: // belongs to no session
			continue
		case len(sets) == 0, len(deletes) > 0, s != session && !in.mayBelongTo(session, s, e):
			begin(s, nil)
		case in.repeatsNode(sets, e):
			n := in.roundStart(sets, e)
			first := sets[n:]
			sets = sets[:n:n]
			begin(s, first)
		}
		sets = append(sets, e)
	}
	begin(nil, nil)
	if len(all) > 1 {
		for _, a := range all[1:] {
			a.firstOfToken = all[0]
		}
		in.assignReleases(all)
	}
	g.lockAttempts.Attempts = append(g.lockAttempts.Attempts, all...)
}

func newAttempt(s *Session, sets, deletes []*history.Event) *Attempt {
	a := &Attempt{Session: s, Token: sets[0].Token, From: sets[0].Sent, AllSets: sets, Deletes: deletes}
	for _, e := range sets {
		a.addSet(e)
	}
	return a
}

// roundStart returns the index of the first set in sets that belongs to the new round begun by e.
// These are the sets that were in flight together with e, provided that the previous round was over
// before the first of them:
//
//	n1  |=====|                      |=====|
//	n2  |=======|                    |======|
//	n3                              |====|      n3 was down in the first round
func (in *attemptReader) roundStart(sets []*history.Event, e *history.Event) int {
	n := len(sets)
	for n > 0 && !in.isOver(sets[n-1], e.Sent) {
		n--
	}
	for _, x := range sets[:n] {
		if n < len(sets) && !in.isOver(x, sets[n].Sent) {
			return len(sets)
		}
	}
	return n
}

// repeatsNode reports whether e was sent to a node to which an earlier set, now over, was sent.
func (in *attemptReader) repeatsNode(sets []*history.Event, e *history.Event) bool {
	return slices.ContainsFunc(sets, func(x *history.Event) bool {
		return x.Node == e.Node && in.isOver(x, e.Sent)
	})
}

// isOver reports whether a set had been answered or given up at the given time.
func (in *attemptReader) isOver(x *history.Event, at int64) bool {
	return x.T <= at || at-x.Sent >= in.nodeTimeout
}

// mayBelongTo reports whether set e, which was sent after the next acquire was called, may belong
// to a round of the last one.
func (in *attemptReader) mayBelongTo(last, next *Session, e *history.Event) bool {
	over := last.Acquire.ReturnedAt()
	return next.Token() != e.Token && over < Never && e.Sent-over <= in.nodeTimeout
}

// assignReleases adds each release to all other rounds with its token whose keys it may have
// deleted: earlier rounds whose keys still existed, and rounds that began while the release was in
// flight.
func (in *attemptReader) assignReleases(all []*Attempt) {
	sentInRound := make([][]*history.Event, len(all)) // by round: the releases sent in it
	for i, a := range all {
		sentInRound[i] = a.Deletes[:len(a.Deletes):len(a.Deletes)]
		a.Deletes = sentInRound[i]
	}
	for i, a := range all {
		for _, d := range sentInRound[i] {
			for _, b := range all[i+1:] {
				if b.From >= d.Applied {
					break
				}
				b.Deletes = append(b.Deletes, d)
			}
		}
		for _, e := range a.Sets {
			a.Deletes = append(a.Deletes, in.laterReleases(e, sentInRound[i], all[i+1:], sentInRound[i+1:])...)
		}
	}
}

// laterReleases returns the releases of later rounds that may have deleted the key set by e. It
// stops at the round in which the key was certainly gone: deleted by a release, expired, or set
// again.
func (in *attemptReader) laterReleases(e *history.Event, roundReleases []*history.Event, rounds []*Attempt, laterRoundReleases [][]*history.Event) (deletes []*history.Event) {
	gone := deletedBy(e, roundReleases)
	for i, a := range rounds {
		if a.From >= gone || in.maxLife > 0 && a.From-Applied(e) > in.maxLife {
			break
		}
		for _, s := range a.Sets {
			if s.Node == e.Node && s.Type == history.OK && Applied(s) > Applied(e) {
				gone = min(gone, Applied(s))
			}
		}
		for _, d := range laterRoundReleases[i] {
			if d.Node == e.Node {
				deletes = append(deletes, d)
			}
		}
		gone = min(gone, deletedBy(e, laterRoundReleases[i]))
	}
	return deletes
}

// deletedBy returns when the first release that may have deleted the key of a set was applied, or
// Never.
func deletedBy(set *history.Event, deletes []*history.Event) int64 {
	at := int64(Never)
	for _, d := range deletes {
		if d.Node == set.Node && d.Applied > Applied(set) && !isErrorReply(d) {
			at = min(at, d.Applied)
		}
	}
	return at
}

// isLinkCommand reports whether an event is a command recorded by a link.
func isLinkCommand(e *history.Event) bool {
	return e.Node != "" && e.Process != history.Nemesis && e.Process != history.Harness
}

// SentCommands returns all commands that the links recorded, in the order in which they were sent.
func (f *Facts) SentCommands() []*history.Event {
	all := slices.Concat(f.LockCommands, f.OtherCommands)
	slices.SortStableFunc(all, bySent)
	return all
}

func bySent(a, b *history.Event) int {
	return cmp.Or(cmp.Compare(a.Sent, b.Sent), cmp.Compare(a.N, b.N))
}

// LockCommandsByNode returns the lock commands to each node, in the order in which it replied to
// them. It omits commands without a known reply.
func (f *Facts) LockCommandsByNode() map[string][]*history.Event {
	nodes := map[string][]*history.Event{}
	for _, e := range f.LockCommands {
		if e.Applied != 0 {
			nodes[e.Node] = append(nodes[e.Node], e)
		}
	}
	for _, all := range nodes {
		slices.SortStableFunc(all, func(a, b *history.Event) int { return cmp.Or(cmp.Compare(a.Applied, b.Applied), cmp.Compare(a.N, b.N)) })
	}
	return nodes
}

// LinkClient returns the client of a link such as "c1-n3".
func LinkClient(link string) string {
	client, _, _ := strings.Cut(link, "-")
	return client
}

// Sender returns the client that sent a command. In contrast to LinkClient, it supports client
// names that contain a dash.
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
		if e.Op == history.OpRelease && e.Process == end.Life.By && e.Sent == end.Sent && e.Key == end.Key {
			return e
		}
	}
	return nil
}

// Write is an entry of the resource's log for a write, which was applied or refused. Versions count
// the writes applied to a key. If a read shows a different version, that one is used, because the
// resource itself counts them.
type Write struct {
	*history.Event
	Read          *history.Event // the session's previous read, on which the write is based; nil: not in the log
	VersionBefore int64          // the version that the write found
	VersionAfter  int64          // the version that the write produced, if it was applied
	MaxFence      int64          // the largest fencing token that the resource had accepted by then
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

// Applied returns when the resource applied a log entry, or when a node had executed a command, if
// that is known. Otherwise it returns e.T.
func Applied(e *history.Event) int64 { return cmp.Or(e.Applied, e.T) }
