package sequence

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
)

type event = history.Event

// noTime stands for the time of an event that never happens.
const noTime = facts.Never

// trace holds the facts about a run, up to where the run was stopped, and data derived from them. It
// accepts any history, including one that no run could produce.
type trace struct {
	*facts.Facts
	sessions      []*session // in the order of their acquire calls
	byName        map[string]*session
	bySession     map[*facts.Session]*session
	commands      []*event // commands on the links, ordered by send time
	appliedWrites map[string]*appliedWrite
	faults        []*facts.Fault // faults confirmed by a read-back, ordered by its time
	history       *history.History
	leases        map[int64]lease // cached results of lease, by event number
	end           int64           // time of the last event that is not a log entry
}

func newTrace(h *history.History) *trace {
	f := &trace{Facts: facts.ReadUpToStop(h), history: h, byName: map[string]*session{}, bySession: map[*facts.Session]*session{}, appliedWrites: map[string]*appliedWrite{}}
	for s := range f.Sessions() {
		f.addSession(s)
	}
	f.commands = f.SentCommands()
	for _, x := range f.Faults {
		if x.Begin != nil {
			f.faults = append(f.faults, withActualEnd(x, f.Faults))
		}
	}
	slices.SortStableFunc(f.faults, func(a, b *facts.Fault) int {
		return cmp.Or(cmp.Compare(a.Begin.T, b.Begin.T), cmp.Compare(a.Begin.N, b.Begin.N))
	})
	for i := range f.Events {
		if e := &f.Events[i]; e.Op != history.OpLog { // log entries carry the time they were read back
			f.end = max(f.end, e.T)
		}
	}
	f.readLog()
	f.readAttempts()
	return f
}

// stillActiveReadBack is the read-back recorded at the end of a step if its fault remains active for
// another step.
const stillActiveReadBack = "it stays in force for another step"

// withActualEnd returns ft with the time it really ended. If the fault remained active for another
// step, it ended with that step.
func withActualEnd(ft *facts.Fault, all []*facts.Fault) *facts.Fault {
	if ft.End == nil || ft.End.Cause != stillActiveReadBack {
		return ft
	}
	extended := *ft
	extended.End = nil
	for _, x := range all {
		if x.Kind == ft.Kind && x.Target == ft.Target && x.End != nil && x.End.Cause != stillActiveReadBack && x.End.T >= ft.End.T && (extended.End == nil || x.End.T < extended.End.T) {
			extended.End = x.End
		}
	}
	return &extended
}

// lease is the lease that a lock reported when it was acquired or extended.
type lease struct {
	validity int64 // reported validity, by the client's clock
	deadline int64 // deadline in true time, computed from the clocks; ignores later loss notifications
}

// lease returns the lease reported by an acquire or an extension, or false if its return event has no
// deadline.
func (f *trace) lease(ret *event) (lease, bool) {
	if f.leases == nil {
		f.leases = map[int64]lease{}
		if f.history != nil {
			byClock := history.WithClockDeadlines(f.history.Events)
			for i, e := range f.history.Events {
				if e.Type == history.OK && e.ValidUntil != 0 {
					f.leases[e.N] = lease{saturatingSub(e.ValidUntil, e.T), byClock[i].ValidUntil}
				}
			}
		}
	}
	p, ok := f.leases[ret.N]
	return p, ok
}

// validity returns the validity that a lock reported when it was granted, or noTime if it reported no
// deadline.
func (f *trace) validity(ret *event) int64 {
	if p, ok := f.lease(ret); ok {
		return p.validity
	}
	return noTime
}

// deadlineOf returns the deadline in a return event, in true time, or noTime if there is none.
func (f *trace) deadlineOf(ret *event) int64 {
	if p, ok := f.lease(ret); ok {
		return p.deadline
	}
	return noTime
}

// validityAt returns how long the lock of a session remains valid at a check, by the client's clock.
// It returns noTime if the lock has no deadline or the time left is unknown.
func (f *trace) validityAt(s *session, check *event) int64 {
	validity := int64(noTime)
	for _, c := range s.calls {
		if c.Outcome() != history.OK || c.Return.T > check.T || c.Call.Op != history.OpAcquire && c.Call.Op != history.OpExtend {
			continue
		}
		switch p, ok := f.lease(c.Return); {
		case !ok:
		case c.Return.Local != 0 && check.Local != 0 && c.Return.WallClock == check.WallClock:
			validity = saturatingSub(p.validity, saturatingSub(check.Local, c.Return.Local))
		case len(f.ClockChangesOf(s.Client())) == 0:
			validity = saturatingSub(p.validity, saturatingSub(check.T, c.Return.T))
		}
	}
	return validity
}

// nodes lists the lock nodes named in the run's parameters or, if there are none, in the recorded
// commands.
func (f *trace) nodes() []string {
	if len(f.Params.Nodes) > 0 {
		return f.Params.Nodes
	}
	var out []string
	for _, e := range f.commands {
		if e.Op == history.OpSet && !slices.Contains(out, e.Node) && len(out) < 100 {
			out = append(out, e.Node)
		}
	}
	slices.Sort(out)
	return out
}

// slowThreshold returns how long a message must be in flight to be drawn as slow.
func (f *trace) slowThreshold() int64 {
	return int64(cmp.Or(max(f.Params.NodeTimeout, 0), 50*time.Millisecond))
}

// commandsSentBy returns the commands that a client sent between from and to, inclusive.
func commandsSentBy(commands []*event, client string, from, to int64) []*event {
	i, _ := slices.BinarySearchFunc(commands, from, func(e *event, t int64) int { return cmp.Compare(e.SentAt, t) })
	var out []*event
	for _, e := range commands[i:] {
		if e.SentAt > to {
			break
		}
		if facts.Sender(e) == client {
			out = append(out, e)
		}
	}
	return out
}

// eventNumbers returns the events' numbers, sorted and without duplicates. It ignores nil.
func eventNumbers(events ...*event) []int64 {
	var out []int64
	for _, e := range events {
		if e != nil {
			out = append(out, e.N)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

type session struct {
	*facts.Session
	calls   []facts.Operation // the first is the acquire
	windows []facts.Window    // when the client believes that it holds the lock

	beliefStart, beliefEnd int64 // start and end of the windows; without windows, both are when the acquire returned
	deadline               int64 // when the belief ends unless something else ends it; noTime if there is no deadline
	ending                 facts.Ending
	firstDeadline          int64 // deadline that the acquire returned; noTime if none

	failedRounds [][]*event // ordered by send time
	winningRound []*event   // nil if its commands were not recorded
}

// addSession adds a session with its windows and the reason why the last window ended.
func (f *trace) addSession(x *facts.Session) {
	s := &session{Session: x, calls: slices.AppendSeq([]facts.Operation{x.Acquire}, x.Actions())}
	f.sessions, f.bySession[x] = append(f.sessions, s), s
	if s.Name() != "" && f.byName[s.Name()] == nil {
		f.byName[s.Name()] = s
	}
	s.windows = slices.Collect(f.Windows(x))
	switch {
	case s.Granted():
		s.beliefStart, s.deadline, s.firstDeadline = x.EndedAt, x.Deadline, f.PromisedDeadline(x)
	case len(s.windows) > 0: // opened by an extension
		s.beliefStart, s.deadline = s.windows[0].From, facts.NotGranted
	default:
		return
	}
	for e := range x.Calls(history.OpExtend) {
		if e.Outcome() == history.OK {
			s.deadline = facts.ExtendedDeadline(e.Return, s.deadline)
		}
	}
	s.beliefEnd, s.ending = s.beliefStart, facts.Expired
	if n := len(s.windows); n > 0 {
		f.endLastWindow(s, &s.windows[n-1])
	}
}

// endLastWindow determines what ended a session's last window. If nothing did, the window lasts until
// the session's deadline.
func (f *trace) endLastWindow(s *session, w *facts.Window) {
	_, s.ending = f.WindowEnd(*w)
	at, gone := f.GoneAt[s.Client()]
	switch {
	case s.ending != facts.StillBelieved:
	case gone && at == w.To:
		s.ending = facts.Died
	default:
		w.To = max(w.To, s.deadline)
		if s.deadline != noTime {
			s.ending = facts.Expired
		}
	}
	s.beliefEnd = w.To
}

// owns reports whether the session set a key. The key either has the session's token or, if the lock
// reports no token, was set by the session's winning round.
func (s *session) owns(x *facts.KeyInterval) bool {
	return x.IsSetBy(s.Session) || slices.ContainsFunc(s.winningRound, func(e *event) bool {
		return e.Process == x.Setter() && e.SentAt != 0 && e.SentAt == x.Start.SentAt
	})
}

// lastActionTime returns the time of the session's last recorded action.
func (s *session) lastActionTime() int64 {
	t := s.Acquire.Call.T
	for _, c := range s.calls {
		t = max(t, c.Call.T)
		if c.Return != nil {
			t = max(t, c.Return.T)
		}
	}
	return t
}

// hasPendingCall reports whether one of the calls never returned, for example because the client was
// killed.
func (s *session) hasPendingCall() bool {
	return slices.ContainsFunc(s.calls, func(c facts.Operation) bool { return c.Return == nil })
}

// believesAt reports whether the client believed at the given time that it held the lock.
func (s *session) believesAt(at int64) bool {
	return slices.ContainsFunc(s.windows, func(w facts.Window) bool { return w.From <= at && at < w.To })
}

// longestOverlap returns the longest time during which both clients believed they held the lock.
func longestOverlap(a, b *session) (from, to int64) {
	for _, v := range a.windows {
		for _, w := range b.windows {
			if f, t := max(v.From, w.From), min(v.To, w.To); saturatingSub(t, f) > saturatingSub(to, from) {
				from, to = f, t
			}
		}
	}
	return from, to
}

// appliedWrite is a write as recorded by the resource, with the updates it overwrote.
type appliedWrite struct {
	facts.Write
	lostUpdates []lostUpdate // ordered by version
}

// lostUpdate is an update overwritten by a later write.
type lostUpdate struct {
	client  string
	version int64
}

// readLog finds the updates each write overwrote. A write based on an outdated version overwrites all
// later versions.
func (f *trace) readLog() {
	type version struct {
		key     string
		version int64
	}
	writers := map[version]string{}
	for _, w := range f.Writes() {
		a := &appliedWrite{Write: w}
		if _, ok := f.appliedWrites[w.Value]; !ok {
			f.appliedWrites[w.Value] = a
		}
		if w.Type != history.OK {
			continue
		}
		// The limit is for invalid histories. A real run loses few versions.
		for v := w.VersionBefore; v > w.Version && saturatingSub(w.VersionBefore, v) < 100; v-- {
			if who := writers[version{w.Key, v}]; who != "" {
				a.lostUpdates = append(a.lostUpdates, lostUpdate{who, v})
			}
		}
		slices.Reverse(a.lostUpdates)
		writers[version{w.Key, w.VersionAfter}] = f.writer(w.Event)
	}
}

func (f *trace) writer(e *event) string {
	if s := f.byName[e.Session]; s != nil {
		return s.Client()
	}
	return e.Session
}

// appliedAt returns when the resource applied or refused a write, or 0 if unknown.
func (f *trace) appliedAt(value string) int64 {
	if a := f.appliedWrites[value]; a != nil && a.AppliedAt != 0 {
		return a.AppliedAt
	}
	if w := f.writeCommand(value); w != nil {
		return w.AppliedAt
	}
	return 0
}

// sentAt returns when a write was sent, or 0 if unknown.
func sentAt(f *trace, value string) int64 {
	if w := f.writeCommand(value); w != nil {
		return w.SentAt
	}
	return 0
}

// writeCommand returns a write as recorded by its link, or nil if there is no such record.
func (f *trace) writeCommand(value string) *event {
	i := slices.IndexFunc(f.commands, func(w *event) bool { return w.Op == history.OpWrite && w.Value == value && value != "" })
	if i < 0 {
		return nil
	}
	return f.commands[i]
}

// A round is the part of a facts.Attempt that was sent before the acquire returned.

// votersUntil lists the nodes whose positive replies to a round had arrived by the given time.
func votersUntil(round []*event, by int64) []string {
	var out []string
	for _, e := range round {
		if e.Type == history.OK && e.AnsweredAt != 0 && e.AnsweredAt <= by {
			out = append(out, e.Node)
		}
	}
	return uniqueNames(out)
}

// commandTo returns the round's command to a node, or nil.
func commandTo(round []*event, node string) *event {
	if i := slices.IndexFunc(round, func(e *event) bool { return e.Node == node }); i >= 0 {
		return round[i]
	}
	return nil
}

// readAttempts collects the rounds of each acquire. It ignores commands sent after the acquire
// returned.
func (f *trace) readAttempts() {
	for _, w := range f.AttemptsByLock() {
		for _, a := range w.Attempts {
			s := f.bySession[a.Session]
			until := min(s.EndedAt, f.end)
			commands := slices.DeleteFunc(slices.Clone(a.AllSets), func(e *event) bool { return e.SentAt > until })
			n := len(s.failedRounds) - 1
			switch {
			case len(commands) == 0:
			case n >= 0 && s.failedRounds[n][0].Token == a.Token && sameRound(s.failedRounds[n], commands[0], int64(f.Params.NodeTimeout)) && !slices.ContainsFunc(commands, func(e *event) bool { return commandTo(s.failedRounds[n], e.Node) != nil }):
				s.failedRounds[n] = append(s.failedRounds[n], commands...) // sent late, since a round has at most one command per node
			default:
				s.failedRounds = append(s.failedRounds, commands)
			}
		}
	}
	for _, s := range f.sessions {
		if n := len(s.failedRounds) - 1; n >= 0 && s.Granted() {
			s.failedRounds, s.winningRound = s.failedRounds[:n], s.failedRounds[n]
		}
	}
}

// sameRound reports whether next can belong to a round, given when it was sent. A round may contact
// one node after another and spend a node timeout plus the time to connect on each. Send times are
// the only evidence, because a lock may use the same token for all rounds.
func sameRound(round []*event, next *event, nodeTimeout int64) bool {
	last := int64(0)
	for _, e := range round {
		last = max(last, e.SentAt)
	}
	return nodeTimeout == 0 || saturatingSub(next.SentAt, last) < saturatingAdd(nodeTimeout, nodeTimeout)
}

// splitAtPauses splits a round wherever two consecutive commands were sent more than pause apart.
func splitAtPauses(round []*event, pause int64) (all [][]*event) {
	for i, e := range round {
		if i == 0 || saturatingSub(e.SentAt, round[i-1].SentAt) > pause {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], e)
	}
	return all
}

// start returns when the winning round began.
func (s *session) start() int64 {
	if s.winningRound != nil {
		return s.winningRound[0].SentAt
	}
	return s.Acquire.Call.T
}

// requestToEveryNode makes up commands for a request that no link recorded: one to each node, all
// sent at the same time.
func (f *trace) requestToEveryNode(e *event, at int64) []*event {
	var out []*event
	for _, n := range append(f.nodes(), "")[:max(len(f.nodes()), 1)] {
		c := *e
		c.Node, c.SentAt, c.AppliedAt, c.Type = n, at, at, history.Info
		out = append(out, &c)
	}
	return out
}

// failedAttempts summarizes a client's failed attempts to get the lock.
type failedAttempts struct {
	f           *trace
	client      string
	rounds      int
	from, to    int64           // when the first and the last attempt started
	maxVotes    int             // most votes that an attempt got
	longestSpan [2]int64        // start and end of the longest attempt, if its duration is the cause
	reasons     []*missingVotes // why votes are missing
	events      []*event
}

// missingVotes is a reason why nodes did not vote for an attempt, with the affected rounds.
type missingVotes struct {
	reason string           // for example "refused by NODES because of c1's key"
	rounds map[string][]int // affected rounds by node
}

func newFailedAttempts(f *trace, client string) *failedAttempts {
	return &failedAttempts{f: f, client: client, from: noTime}
}

// failedAttempts returns the failed attempts of a session's client to get the session's lock between from
// and the session's winning round. It includes the attempts of earlier failed sessions.
func (f *trace) failedAttempts(s *session, from int64) *failedAttempts {
	w := newFailedAttempts(f, s.Client())
	for _, prev := range f.sessions {
		if prev.Client() != s.Client() || prev.Key() != s.Key() || prev.Granted() && prev != s {
			continue
		}
		if prev.Acquire.Call.T > s.Acquire.Call.T || prev.Acquire.ReturnedAt() < from {
			continue
		}
		if len(prev.failedRounds) == 0 && !prev.Granted() { // it sent no command, or none was recorded
			w.add(max(prev.Acquire.Call.T, from), nil)
			w.events = append(w.events, prev.Acquire.Call)
		}
		for _, a := range prev.failedRounds {
			if a[0].SentAt >= from {
				w.add(a[0].SentAt, a)
			}
		}
	}
	return w
}

// add adds an attempt that started at the given time, and counts its votes.
func (w *failedAttempts) add(at int64, requests []*event) {
	w.rounds++
	w.from, w.to = min(w.from, at), max(w.to, at)
	if len(requests) == 0 {
		return
	}
	w.events = append(w.events, requests[0])
	votes := 0
	for _, node := range w.f.nodes() {
		if why := w.missingVoteReason(node, at, requests); why == "" {
			votes++
		} else {
			w.count(why, node)
		}
	}
	w.maxVotes = max(w.maxVotes, votes)
}

func (w *failedAttempts) count(why, node string) {
	i := slices.IndexFunc(w.reasons, func(r *missingVotes) bool { return r.reason == why })
	if i < 0 {
		i, w.reasons = len(w.reasons), append(w.reasons, &missingVotes{why, map[string][]int{}})
	}
	w.reasons[i].rounds[node] = append(w.reasons[i].rounds[node], w.rounds)
}

// missingVoteReason explains why a node did not vote for an attempt. It returns "" if the node voted
// for it.
func (w *failedAttempts) missingVoteReason(node string, from int64, requests []*event) (why string) {
	why = "nothing sent to NODES"
	for _, e := range requests {
		switch {
		case e.Node != node:
		case e.AnsweredAt != 0 && w.isLate(e):
			why = "a late reply from NODES"
		case e.Type == history.OK && e.AnsweredAt != 0:
			return ""
		case e.Type == history.Fail && e.Cause == "" && (e.AnsweredAt != 0 || e.AppliedAt == 0): // a link without timestamps sets neither
			why = "refused by NODES" + w.blockingKeyClause(e, from)
		case e.Type == history.Fail && e.Cause != "":
			why = "an error from NODES"
		default:
			why = "no reply from NODES"
		}
	}
	return why
}

// isLate reports whether a reply arrived after the node timeout.
func (w *failedAttempts) isLate(e *event) bool {
	timeout := int64(w.f.Params.NodeTimeout)
	return timeout > 0 && e.AnsweredAt-e.SentAt > timeout
}

// blockingKeyClause names the key that made a node refuse a request.
func (w *failedAttempts) blockingKeyClause(e *event, from int64) string {
	if !w.f.Params.ReportsKeys {
		return ""
	}
	switch s := w.f.blockingKey(e, from); {
	case s == nil:
		return " with no key set"
	case facts.Issuer(s.Start) == w.client:
		return " because of its own key"
	default:
		return fmt.Sprintf(" because of %s key", possessive(facts.Issuer(s.Start)))
	}
}

// blockingKey returns the key that made a node refuse a request, or nil. It ignores keys set by the
// request's own attempt, which started at from.
func (f *trace) blockingKey(e *event, from int64) (blocking *facts.KeyInterval) {
	if e.Type != history.Fail || e.Cause != "" {
		return nil
	}
	for _, s := range f.Lives().IntervalsBetween(e.Node, e.Key, e.SentAt, max(e.AppliedAt, e.T)) {
		err := facts.TimestampError(s.Start)
		setBySameAttempt := s.HasToken(e.Token) && cmp.Or(s.Start.SentAt, s.From()) >= from
		if !setBySameAttempt && saturatingSub(s.From(), err) <= e.AppliedAt && saturatingAdd(s.To(), err) >= e.AppliedAt {
			blocking = s
		}
	}
	return blocking
}

// reasonClause lists the reasons for missing votes, the most frequent first, as the end of a clause.
// If a reason did not apply to every attempt, it is followed by the number of attempts it applied to.
// Unless all is set, reasonClause omits reasons that applied to fewer than nine in ten attempts. It
// separates nodes where the reason applied in every attempt from the other nodes.
func (w *failedAttempts) reasonClause(all bool) string {
	type reason struct {
		rounds int
		text   string
	}
	var reasons []reason
	for _, r := range w.reasons {
		nodes := slices.Sorted(maps.Keys(r.rounds))
		for _, g := range groupBy(nodes, func(n string) bool { return len(r.rounds[n]) == w.rounds }) {
			affected := map[int]bool{}
			for _, n := range g {
				for _, round := range r.rounds[n] {
					affected[round] = true
				}
			}
			x := reason{len(affected), strings.Replace(r.reason, "NODES", nodeList(g), 1)}
			if len(r.rounds[g[0]]) < w.rounds {
				x.text += fmt.Sprintf(" (%s)", display.Times(len(affected)))
			}
			if all || 10*len(affected) >= 9*w.rounds {
				reasons = append(reasons, x)
			}
		}
	}
	slices.SortStableFunc(reasons, func(a, b reason) int { return cmp.Compare(b.rounds, a.rounds) })
	var parts []string
	for _, r := range reasons {
		parts = append(parts, r.text)
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

// voteClause states how many votes the most successful attempt got.
func (w *failedAttempts) voteClause() string {
	prefix := "at most "
	if w.rounds == 1 {
		prefix = ""
	}
	return fmt.Sprintf("with %s%d of %d votes", prefix, w.maxVotes, len(w.f.nodes()))
}

// quorumClause states how many votes the lock needs, as the end of a clause.
func (w *failedAttempts) quorumClause() string {
	if q := w.f.Params.Quorum; q > 0 {
		return fmt.Sprintf(" (%d are %s)", q, quorumName(q, len(w.f.nodes())))
	}
	return ""
}

// deletion is a release that deleted another session's key while the victim's client still believed
// that it held the lock.
type deletion struct {
	release *event
	victim  *session
	isCause bool // named as a cause by the verdict
}

// deletions returns the releases that deleted a key of one of the sessions while its client still
// believed that it held the lock, ordered by time.
func (f *trace) deletions(sessions []*session) []deletion {
	if f.Params.ReportsKeys {
		return f.reportedDeletions(sessions)
	}
	type owner struct {
		s     *session
		since int64
	}
	set := map[*event]*session{}
	for _, s := range sessions {
		for _, e := range s.winningRound {
			set[e] = s
		}
	}
	applied := slices.Clone(f.commands)
	slices.SortStableFunc(applied, func(a, b *event) int { return cmp.Compare(a.AppliedAt, b.AppliedAt) })
	owners := map[[2]string]owner{}
	var out []deletion
	for _, e := range applied {
		if e.Type != history.OK || e.AppliedAt == 0 {
			continue
		}
		at := [2]string{e.Node, e.Key}
		switch e.Op {
		case history.OpSet:
			owners[at] = owner{set[e], e.AppliedAt}
		case history.OpRelease:
			if o := owners[at]; o.s != nil && e.AppliedAt < o.s.beliefEnd {
				out = append(out, deletion{release: e, victim: o.s})
			}
			delete(owners, at)
		}
	}
	return out
}

// reportedDeletions is deletions for runs whose nodes report key changes.
func (f *trace) reportedDeletions(sessions []*session) []deletion {
	var out []deletion
	for _, s := range sessions {
		for _, node := range f.Params.Nodes {
			for _, interval := range f.Lives().Intervals(node, s.Key()) {
				e := interval.End
				if e == nil || e.Life.Kind != history.KeyDeleted || !s.owns(interval) || e.T < s.beliefStart || e.T >= s.beliefEnd {
					continue
				}
				if release := f.ReleaseOf(e); release != nil {
					out = append(out, deletion{release: release, victim: s})
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b deletion) int { return cmp.Compare(a.release.AppliedAt, b.release.AppliedAt) })
	return out
}

// clients returns the clients to draw: the clients of the sessions in focus, the clients that caused
// the violation, and clients that deleted a key.
func (sc *layout) clients() []string {
	if sc.clientCache == nil {
		sc.clientCache = sc.chooseClients()
	}
	return sc.clientCache
}

func (sc *layout) chooseClients() []string {
	if sc.outage != nil {
		return sc.outage.clients()
	}
	var out []string
	for _, s := range sc.focus {
		out = append(out, s.Client())
	}
	out = uniqueNames(append(out, sc.causingClients()...))
	limit := max(maxClients, min(len(out), maxClients+1)) // a client that the verdict names always gets a lane
	for _, d := range sc.deletions {
		if len(out) < maxClients {
			out = uniqueNames(append(out, facts.Sender(d.release)))
		}
	}
	return out[:min(limit, len(out))]
}

// causingClients returns the clients whose actions are the cause according to the verdict.
func (sc *layout) causingClients() (names []string) {
	if sc.result == nil {
		return nil
	}
	for _, l := range sc.result.Losses {
		e := sc.keyEnd(l)
		if e == nil || l.Cause != sc.result.Cause {
			continue
		}
		if release := sc.f.ReleaseOf(e); release != nil {
			names = append(names, facts.Sender(release))
		} else if issuer := facts.Issuer(e); slices.Contains(sc.f.Params.Clients, issuer) {
			names = append(names, issuer)
		}
	}
	return uniqueNames(names)
}

// maxClients limits the number of clients to what a reader can follow.
const maxClients = 3

// resource returns the name of the storage, or "" if no session in focus uses it.
func (sc *layout) resource() string {
	used := slices.ContainsFunc(sc.focus, func(s *session) bool {
		return slices.ContainsFunc(s.calls, func(c facts.Operation) bool { return c.Call.Op == history.OpRead || c.Call.Op == history.OpWrite })
	})
	switch {
	case !used || sc.outage != nil:
		return ""
	case sc.f.Params.Resource != "":
		return sc.f.Params.Resource
	}
	return "storage"
}

// nodeGroups distributes the lock nodes over at most room lanes. Nodes that behaved alike share a
// lane. If it doesn't matter which node did what, all nodes share one lane.
func (sc *layout) nodeGroups(room int) [][]string {
	nodes := sc.f.nodes()
	if len(nodes) == 0 {
		return [][]string{nil}
	}
	for _, signature := range []func(string) string{sc.fullSignature, sc.faultSignature, sc.blamedSignature} {
		if groups := groupBy(nodes, signature); sc.distinguishesNodes() && len(groups) <= room {
			return groups
		}
	}
	return [][]string{nodes}
}

// distinguishesNodes reports whether it matters which node did what.
func (sc *layout) distinguishesNodes() bool {
	if sc.outage != nil || sc.result != nil && (sc.result.Property == verdict.MutualExclusion || sc.result.Node != "") {
		return true
	}
	return slices.ContainsFunc(sc.f.nodes(), func(n string) bool { return sc.faultSignature(n) != sc.faultSignature("") })
}

// blamedSignature distinguishes the node that the verdict names from all others.
func (sc *layout) blamedSignature(node string) string {
	return fmt.Sprint(sc.result != nil && sc.result.Node == node && node != "")
}

// faultSignature lists the faults that hit a node or one of its links to a client in the drawing.
func (sc *layout) faultSignature(node string) string {
	s := ""
	for _, ft := range sc.faults {
		if ft.Target == node {
			s += " " + ft.Kind
		}
		if client, ok := strings.CutSuffix(ft.Target, "-"+node); ok && slices.Contains(sc.clients(), client) {
			s += " " + ft.Kind + " " + client
		}
	}
	return strings.Join(uniqueNames(strings.Fields(s)), " ")
}

// fullSignature extends faultSignature by the node's votes and whether a release deleted a key on the
// node.
func (sc *layout) fullSignature(node string) string {
	s := sc.faultSignature(node)
	if sc.outage != nil {
		return s + " " + sc.outage.signature(node)
	}
	if slices.ContainsFunc(sc.deletions, func(d deletion) bool { return d.release.Node == node }) {
		s += " deleted"
	}
	for i, fs := range sc.focus {
		if e := commandTo(fs.winningRound, node); e != nil {
			s += fmt.Sprintf(" %d %s", i, e.Type)
		}
	}
	return s
}

// chooseFocus selects the sessions that the diagram is about. It prefers the witness's sessions, then
// the session hit by the first fault, then the first session that got the lock; in the latter two
// cases it adds the next session of another client. If nobody got the lock, it selects each client's
// last session.
func (f *trace) chooseFocus(r *verdict.Result) []*session {
	if r != nil && r.Witness != nil {
		var out []*session
		for _, name := range r.Witness.Sessions {
			if s := f.byName[name]; s != nil && !slices.Contains(out, s) && len(out) < 2 {
				out = append(out, s)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	if f.Grants == 0 {
		return f.lastSessions()
	}
	for _, ft := range f.faults {
		if s := f.sessionHitBy(ft); s != nil {
			return f.withNextSession(s)
		}
	}
	for _, s := range f.sessions {
		if s.Granted() {
			return f.withNextSession(s)
		}
	}
	return nil
}

// lastSessions returns the last session of each of the first maxClients clients.
func (f *trace) lastSessions() (all []*session) {
	for _, s := range f.sessions {
		i := slices.IndexFunc(all, func(o *session) bool { return o.Client() == s.Client() })
		if i >= 0 && all[i].Key() == s.Key() {
			all[i] = s
		} else if i < 0 && len(all) < maxClients {
			all = append(all, s)
		}
	}
	return all
}

// sessionHitBy returns the session hit by a fault, or nil.
func (f *trace) sessionHitBy(ft *facts.Fault) *session {
	at := ft.FirstEvent().T // if the fault ended a belief, it did so at this time
	var holder, first *session
	for _, s := range f.sessions {
		if !s.hasPendingCall() && s.lastActionTime() < at && s.beliefEnd < at {
			continue
		}
		busy := s.Acquire.Call.T <= at && (s.hasPendingCall() || at <= max(s.lastActionTime(), s.beliefEnd))
		if ft.Hits(s.Client()) {
			if busy {
				return s
			}
			continue
		}
		if holder == nil && s.believesAt(at) {
			holder = s
		}
		if first == nil && s.Granted() {
			first = s
		}
	}
	if slices.Contains(f.Params.Clients, ft.Target) {
		return nil // the client was idle
	}
	return cmp.Or(holder, first)
}

// withNextSession returns s and the next session of another client that got the same lock or, if none
// did, the first session that failed to get it.
func (f *trace) withNextSession(s *session) []*session {
	var next, tried *session
	for _, o := range f.sessions {
		if o.Client() == s.Client() || o.Key() != s.Key() || o.lastActionTime() < s.Acquire.Call.T {
			continue
		}
		if o.Granted() && o.beliefStart >= s.beliefStart && (next == nil || o.beliefStart < next.beliefStart) {
			next = o
		}
		if !o.Granted() && tried == nil {
			tried = o
		}
	}
	if next = cmp.Or(next, tried); next == nil {
		return []*session{s}
	}
	return []*session{s, next}
}
