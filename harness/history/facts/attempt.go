package facts

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"lockpick/harness/history"
)

// Attempt is one round of requests to the nodes: the sets of one token, by one client, during one
// acquire, with one set per node. A lock may use one token for several rounds or several acquires,
// see splitRounds.
type Attempt struct {
	Session  *Session
	Token    string
	From, To int64            // when the first set was sent, and when the last was answered or given up
	Over     int64            // the attempt was over by then: the next one began, acquire returned, or the holder released; From if the client had given up before
	Yes, No  int              // nodes that answered in time for the client to know
	Won      bool             // the session got the lock through this attempt
	Asked    []*history.Event // in the order in which they were sent
	Sets     []*history.Event // the sets that a node applied, or may have applied
	Deletes  []*history.Event // releases that may have deleted its keys, applied or not

	first  *Attempt // the first attempt with this token; nil: this is the first
	before *Attempt // the session's latest attempt before this one with a different token
	resent bool     // see isResent
	end    int64    // the end if no other attempt follows
}

// LockAttempts holds what the links recorded of one lock, grouped into attempts.
type Wire struct {
	Attempts []*Attempt            // in the order of their beginnings
	Last     map[*Session]*Attempt // the last attempt of each session
	Extended map[*Session]int64    // when a node last applied an extension of the session, except extensions after the client gave up
}

// AttemptsByLock groups what the links recorded of every lock, in one pass, when it is first
// needed.
func (f *Facts) Wires() map[string]*Wire {
	if f.wires != nil {
		return f.wires
	}
	in := wireReader{locks: map[string]*Wire{}, clients: map[clientKey]*clientAttempts{}, until: map[*Session]int64{}, gone: f.Gone}
	in.late, in.life = int64(f.Params.NodeTimeout), 2*int64(f.Params.TTL)
	if len(f.Links) > 0 {
		for s := range f.Sessions() {
			a := in.client(s.Client(), s.Key())
			a.sessions = append(a.sessions, s)
		}
	}
	for _, g := range in.byToken(f.Links) {
		slices.SortStableFunc(g.events, bySent)
		in.rounds(g)
	}
	for _, w := range in.locks {
		slices.SortStableFunc(w.Attempts, func(a, b *Attempt) int { return cmp.Compare(a.From, b.From) })
		in.settle(f, w)
	}
	in.extended()
	f.wires = in.locks
	return f.wires
}

type wireReader struct {
	locks   map[string]*Wire
	clients map[clientKey]*clientAttempts
	extends []*history.Event   // in the order in which they were sent
	late    int64              // how long a client waits for a node
	life    int64              // a key has certainly expired after this
	gone    map[string]int64   // Facts.Gone
	until   map[*Session]int64 // see gaveUpAt
}

type clientKey struct{ client, key string }

// clientAttempts holds what one client did with one lock: its sessions, and its sets and releases
// by token.
type clientAttempts struct {
	sessions []*Session
	groups   map[string]*group
	last     *group // the group used last
}

func (in *wireReader) client(client, key string) *clientAttempts {
	a := in.clients[clientKey{client, key}]
	if a == nil {
		a = &clientAttempts{groups: map[string]*group{}}
		in.clients[clientKey{client, key}] = a
	}
	return a
}

// group holds the sets and releases of one token by one client, in the order in which they were
// sent.
type group struct {
	*clientAttempts
	wire   *Wire
	token  string
	events []*history.Event
}

// byToken groups sets and releases, in the order in which their tokens first occur. It collects
// extensions separately.
func (in *wireReader) byToken(links []*history.Event) (all []*group) {
	for _, e := range links {
		a, w := in.client(Sender(e), e.Key), in.wire(e.Key)
		if e.Op == history.OpExtend {
			in.extends = append(in.extends, e)
			continue
		}
		g := a.last
		if g == nil || g.token != e.Token {
			if g = a.groups[e.Token]; g == nil {
				g = &group{clientAttempts: a, wire: w, token: e.Token}
				a.groups[e.Token], all = g, append(all, g)
			}
			a.last = g
		}
		g.events = append(g.events, e)
	}
	return all
}

func (in *wireReader) wire(key string) *Wire {
	w := in.locks[key]
	if w == nil {
		w = &Wire{Last: map[*Session]*Attempt{}, Extended: map[*Session]int64{}}
		in.locks[key] = w
	}
	return w
}

func (a *Attempt) set(e *history.Event) {
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

// finishAttempts determines for each attempt of a lock whether it won, and when it was over.
func (in *wireReader) settle(f *Facts, w *Wire) {
	for _, a := range w.Attempts {
		s := a.Session
		if a.before = w.Last[s]; a.before != nil && a.before.Token == a.Token {
			a.before = a.before.before
		}
		if a.resent = a.again(in.late) || a.From > s.Ended && a.From-in.givenUp(s) > in.late; a.resent || a.stray() {
			a.end, a.Over = a.From, a.From
			continue
		}
		if last := w.Last[s]; last != nil {
			last.Over = min(last.Over, a.From)
			a.end = last.end
		} else {
			a.end = f.over(s)
		}
		a.Over = a.end
		w.Last[s] = a
	}
	for s, a := range w.Last {
		a.Won = s.Granted()
	}
}

// recordExtensions enters extensions of locks. An extension belongs to the session that set its
// token, or to the one that its client called last. Extensions after the client has given up belong
// to no session: a lock that keeps renewing then keeps its key for nobody.
func (in *wireReader) extended() {
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
		s := lastCalled(in.client(from.client, from.key).sessions, e.Sent)
		of := attempts[owned{from, e.Token}]
		if i := sort.Search(len(of), func(i int) bool { return of[i].From > e.Sent }); i > 0 {
			s = of[i-1].Session
		}
		if s == nil || e.Type == history.Fail {
			continue
		}
		if w := in.wire(e.Key); e.Sent-in.givenUp(s) <= in.late {
			w.Extended[s] = max(w.Extended[s], Applied(e))
		}
	}
}

// gaveUpAt caches Session.gaveUpAt, which walks all calls of the session.
func (in *wireReader) givenUp(s *Session) int64 {
	at, known := in.until[s]
	if !known {
		at = s.givenUp(in.gone)
		in.until[s] = at
	}
	return at
}

// gaveUpAt returns when the session's client had a reply of any kind to its last release, or to an
// acquire that failed, with no later extension; or when the client was gone. Never means that it
// has not given up.
func (s *Session) givenUp(gone map[string]int64) int64 {
	at := int64(Never)
	if !s.Granted() {
		at = s.Ended
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
// the client had given up on it, as by a driver that retries on its own.
func (a *Attempt) GivenUp(set *history.Event, late int64) bool {
	return a.resent || a.Over < Never && set.Sent-a.Over > late
}

// isResent reports whether an attempt repeats the sets of an earlier attempt that had been
// released, more than a node time-out after the client began to use another token.
func (a *Attempt) again(late int64) bool {
	if a.first == nil || len(a.first.Deletes) == 0 {
		return false
	}
	back := a.first.Deletes[0].Sent
	for b := a.before; b != nil && b.From >= back; b = b.before {
		if b.Token != a.Token && a.From-b.From > late {
			return true
		}
	}
	return false
}

// afterGrant reports whether an attempt's sets were sent after its session had got the lock with
// another token, as by a driver that continues what its client has given up.
func (a *Attempt) stray() bool {
	s := a.Session
	return s.Granted() && a.From > s.Acquire.Returned() && s.Token() != "" && s.Token() != a.Token
}

// endOf returns when a session's acquire had returned without the lock, its holder had released, or
// its client was gone.
func (f *Facts) over(s *Session) int64 {
	at := s.Acquire.Returned()
	if s.Granted() {
		at = s.Released()
	}
	if t, ok := f.Gone[s.Client()]; ok {
		at = min(at, t)
	}
	return at
}

// Deletion returns when the deletion of an attempt's key on a node was applied, or Never, and when
// it was sent, or 0 if it was not.
func (a *Attempt) Deletion(set *history.Event) (at, sent int64) {
	sent = Never
	for _, d := range a.Deletes {
		if d.Node == set.Node && d.Sent >= set.Sent { // otherwise it refers to an earlier key
			sent = min(sent, d.Sent)
		}
	}
	if sent == Never {
		sent = 0
	}
	return deletedBy(set, a.Deletes), sent
}

// Answer returns the node's reply to the attempt's sets that arrived within a node time-out: a
// success if there is one, otherwise the last reply, or nil.
func (a *Attempt) Answer(node string, late int64) (answer *history.Event) {
	for _, e := range a.Asked {
		if e.Node == node && e.Answered != 0 && e.Answered-e.Sent <= late && (answer == nil || answer.Type != history.OK) {
			answer = e
		}
	}
	return answer
}

// isErrorReply reports whether a node replied to a release with an error, so it deleted nothing.
func refused(d *history.Event) bool { return d.Type == history.Fail && d.Cause != "" }

// lastCalledBy returns the last of one client's sessions, in call order, whose acquire had been
// called by an instant, or nil.
func lastCalled(sessions []*Session, at int64) *Session {
	i := sort.Search(len(sessions), func(i int) bool { return sessions[i].Acquire.Call.T > at })
	if i == 0 {
		return nil
	}
	return sessions[i-1]
}

// splitRounds separates the rounds of one token. A set begins a new round if
//
//   - its node was already sent a set in this round, and that one is over (a lock that takes
//     one node for two sends it two sets at the same time),
//   - the token was released on any node since, or
//   - the next acquire has been called. A lock that has a different token for that acquire
//     may still send sets with this one, for as long as a node time-out.
//
// A lock may contact all nodes at once or one after the other, and a reply may be late, so the
// order of replies shows nothing.
func (in *wireReader) rounds(g *group) {
	var all []*Attempt
	var sets, deletes []*history.Event // of this round so far
	var of *Session
	begin := func(s *Session, first []*history.Event) {
		if len(sets) > 0 {
			all = append(all, newAttempt(of, sets, deletes))
		}
		sets, deletes, of = first, nil, s
	}
	for _, e := range g.events {
		if e.Op == history.OpRelease {
			if len(sets) > 0 {
				deletes = append(deletes, e)
			}
			continue
		}
		switch s := lastCalled(g.sessions, e.Sent); {
		case s == nil: // of no session
			continue
		case len(sets) == 0, len(deletes) > 0, s != of && !in.still(of, s, e):
			begin(s, nil)
		case in.again(sets, e):
			n := in.before(sets, e)
			first := sets[n:]
			sets = sets[:n:n]
			begin(s, first)
		}
		sets = append(sets, e)
	}
	begin(nil, nil)
	if len(all) > 1 {
		for _, a := range all[1:] {
			a.first = all[0]
		}
		in.share(all)
	}
	g.wire.Attempts = append(g.wire.Attempts, all...)
}

func newAttempt(s *Session, sets, deletes []*history.Event) *Attempt {
	a := &Attempt{Session: s, Token: sets[0].Token, From: sets[0].Sent, Asked: sets, Deletes: deletes}
	for _, e := range sets {
		a.set(e)
	}
	return a
}

// roundStart returns how many of a round's sets come before the round that the set e begins. Sets
// that were in flight together with e belong to the new round, if their nodes had not been
// contacted before:
//
//	n1  |=====|                      |=====|
//	n2  |=======|                    |======|
//	n3                              |====|      it was down in the first round
func (in *wireReader) before(sets []*history.Event, e *history.Event) int {
	n := len(sets)
	for n > 0 && !in.over(sets[n-1], e.Sent) {
		n--
	}
	for _, x := range sets[:n] {
		if n < len(sets) && !in.over(x, sets[n].Sent) {
			return len(sets)
		}
	}
	return n
}

// repeatsNode reports whether a set contacts a node a second time.
func (in *wireReader) again(asked []*history.Event, e *history.Event) bool {
	return slices.ContainsFunc(asked, func(x *history.Event) bool {
		return x.Node == e.Node && in.over(x, e.Sent)
	})
}

// isOver reports whether a set had been answered or given up by an instant.
func (in *wireReader) over(x *history.Event, at int64) bool {
	return x.T <= at || at-x.Sent >= in.late
}

// mayBelongTo reports whether a set sent after the next acquire was called may belong to a round of
// the previous one.
func (in *wireReader) still(last, next *Session, e *history.Event) bool {
	over := last.Acquire.Ended()
	return next.Token() != e.Token && over < Never && e.Sent-over <= in.late
}

// assignReleases adds each release to all rounds of its token whose keys it may have deleted:
// earlier rounds whose key still existed, and rounds that began while the release was in flight.
func (in *wireReader) share(all []*Attempt) {
	own := make([][]*history.Event, len(all)) // the releases that were sent in each round
	for i, a := range all {
		own[i] = a.Deletes[:len(a.Deletes):len(a.Deletes)]
		a.Deletes = own[i]
	}
	for i, a := range all {
		for _, d := range own[i] {
			for _, b := range all[i+1:] {
				if b.From >= d.Applied {
					break
				}
				b.Deletes = append(b.Deletes, d)
			}
		}
		for _, e := range a.Sets {
			a.Deletes = append(a.Deletes, in.later(e, own[i], all[i+1:], own[i+1:])...)
		}
	}
}

// laterReleases returns the releases of later rounds that may have deleted a key, unless the key
// was already deleted by its own releases, or was gone when it was set again.
func (in *wireReader) later(e *history.Event, own []*history.Event, rounds []*Attempt, theirs [][]*history.Event) (deletes []*history.Event) {
	gone := deletedBy(e, own)
	for i, a := range rounds {
		if a.From >= gone || in.life > 0 && a.From-Applied(e) > in.life {
			break
		}
		for _, s := range a.Sets {
			if s.Node == e.Node && s.Type == history.OK && Applied(s) > Applied(e) {
				gone = min(gone, Applied(s))
			}
		}
		for _, d := range theirs[i] {
			if d.Node == e.Node {
				deletes = append(deletes, d)
			}
		}
		gone = min(gone, deletedBy(e, theirs[i]))
	}
	return deletes
}

// deletedBy returns when the first release that may have deleted a key did so, or Never.
func deletedBy(set *history.Event, deletes []*history.Event) int64 {
	at := int64(Never)
	for _, d := range deletes {
		if d.Node == set.Node && d.Applied > Applied(set) && !refused(d) {
			at = min(at, d.Applied)
		}
	}
	return at
}

// isLinkCommand reports whether an event is a command recorded by a link.
func onWire(e *history.Event) bool {
	return e.Node != "" && e.Process != history.Nemesis && e.Process != history.Harness
}

// SentCommands returns all commands that the links recorded, in the order in which they were sent.
func (f *Facts) Sent() []*history.Event {
	all := slices.Concat(f.Links, f.Others)
	slices.SortStableFunc(all, bySent)
	return all
}

func bySent(a, b *history.Event) int {
	return cmp.Or(cmp.Compare(a.Sent, b.Sent), cmp.Compare(a.N, b.N))
}

// LockCommandsByNode returns the lock commands of each node, in the order in which it answered. It
// omits commands for which that is unknown.
func (f *Facts) ByNode() map[string][]*history.Event {
	nodes := map[string][]*history.Event{}
	for _, e := range f.Links {
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

// Sender returns the client that sent a command. Unlike in LinkClient, its name may contain a dash.
func Sender(e *history.Event) string {
	if client, ok := strings.CutSuffix(e.Process, e.Node); ok {
		return strings.TrimSuffix(client, "-")
	}
	return e.Process
}

// ReleaseOf returns the release with which a node deleted a key, according to the node, or nil.
func (f *Facts) ReleaseOf(end *history.Event) *history.Event {
	for _, e := range f.Links {
		if e.Op == history.OpRelease && e.Process == end.Life.By && e.Sent == end.Sent && e.Key == end.Key {
			return e
		}
	}
	return nil
}

// Write is an entry of the resource's log for a write, applied or refused. A version is the number
// of writes applied to a key. If a read shows a different version, the read is right, because the
// resource does the counting.
type Write struct {
	*history.Event
	Read *history.Event // the session's last read before, on which the write is based; nil: not in the log
	Met  int64          // the version that the write found
	Made int64          // the version that it made, if it was applied
	Seen int64          // the largest fencing token that the resource had accepted by then
}

// Writes returns the writes of the resource's log, in the order of application.
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
			w := Write{Event: e, Read: reads[e.Session], Met: r.version, Seen: r.fence}
			if applied {
				r.version++
				w.Made = r.version
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

// Applied returns when a log entry was applied, or when a node had executed a command, as far as
// the record shows. For other events it returns when they happened.
func Applied(e *history.Event) int64 { return cmp.Or(e.Applied, e.T) }
