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

// never is the instant of an event that does not happen.
const never = facts.Never

// trace holds the facts of a run up to the point where it was stopped, and what a drawing derives
// from them. It accepts any history, including one that no run could have produced.
type course struct {
	*facts.Facts
	sessions []*session // ordered by the call of their acquire
	named    map[string]*session
	of       map[*facts.Session]*session
	wires    []*event // commands on the links, ordered by when they were sent
	applies  map[string]*apply
	faults   []*facts.Fault // faults with a read-back, ordered by its time
	record   *history.History
	promises map[int64]promise // cache of lease, by event number
	last     int64             // last instant of the run itself
}

func newCourse(h *history.History) *course {
	f := &course{Facts: facts.ReadUpToStop(h), record: h, named: map[string]*session{}, of: map[*facts.Session]*session{}, applies: map[string]*apply{}}
	for s := range f.Sessions() {
		f.session(s)
	}
	f.wires = f.Sent()
	for _, x := range f.Faults {
		if x.Begin != nil {
			f.faults = append(f.faults, lasting(x, f.Faults))
		}
	}
	slices.SortStableFunc(f.faults, func(a, b *facts.Fault) int {
		return cmp.Or(cmp.Compare(a.Begin.T, b.Begin.T), cmp.Compare(a.Begin.N, b.Begin.N))
	})
	for i := range f.Events {
		if e := &f.Events[i]; e.Op != history.OpLog { // log entries have the time of the read-back
			f.last = max(f.last, e.T)
		}
	}
	f.readLog()
	f.readAttempts()
	return f
}

// staysInForce is the read-back at the end of a step whose fault continues because another step has
// the same one.
const staysInForce = "it stays in force for another step"

// withActualEnd returns a fault with its actual end. If the end of its step ended nothing, the
// fault lasts until the end of the other step that had the same fault.
func lasting(ft *facts.Fault, all []*facts.Fault) *facts.Fault {
	if ft.End == nil || ft.End.Cause != staysInForce {
		return ft
	}
	whole := *ft
	whole.End = nil
	for _, x := range all {
		if x.Kind == ft.Kind && x.Target == ft.Target && x.End != nil && x.End.Cause != staysInForce && x.End.T >= ft.End.T && (whole.End == nil || x.End.T < whole.End.T) {
			whole.End = x.End
		}
	}
	return &whole
}

// lease is the deadline that came with a lock or an extension.
type promise struct {
	left  int64 // remaining at that moment, by the client's clock
	until int64 // in true time, computed from the clocks; ignores later loss notifications
}

// lease returns the deadline that a return named, or false if it named none.
func (f *course) promise(ret *event) (promise, bool) {
	if f.promises == nil {
		f.promises = map[int64]promise{}
		if f.record != nil {
			reckoned := history.Reckoned(f.record.Events)
			for i, e := range f.record.Events {
				if e.Type == history.OK && e.ValidUntil != 0 {
					f.promises[e.N] = promise{minus(e.ValidUntil, e.T), reckoned[i].ValidUntil}
				}
			}
		}
	}
	p, ok := f.promises[ret.N]
	return p, ok
}

// remaining returns how long a lock said that it would last when it was granted, or never if it
// named no deadline.
func (f *course) left(ret *event) int64 {
	if p, ok := f.promise(ret); ok {
		return p.left
	}
	return never
}

// deadlineOf returns the deadline that a return named, or never if it named none.
func (f *course) promised(ret *event) int64 {
	if p, ok := f.promise(ret); ok {
		return p.until
	}
	return never
}

// remainingAt returns how long a session's lock still lasts at a check, by the client's clock. It
// returns never if the lock has no deadline or the rest is unknown.
func (f *course) leftAt(s *session, check *event) int64 {
	left := int64(never)
	for _, c := range s.calls {
		if c.Outcome() != history.OK || c.Return.T > check.T || c.Call.Op != history.OpAcquire && c.Call.Op != history.OpExtend {
			continue
		}
		switch p, ok := f.promise(c.Return); {
		case !ok:
		case c.Return.Local != 0 && check.Local != 0 && c.Return.Wall == check.Wall:
			left = minus(p.left, minus(check.Local, c.Return.Local))
		case len(f.TurnsOf(s.Client())) == 0:
			left = minus(p.left, minus(check.T, c.Return.T))
		}
	}
	return left
}

// nodes lists the lock nodes, from the params or else from the recorded commands.
func (f *course) nodes() []string {
	if len(f.Params.Nodes) > 0 {
		return f.Params.Nodes
	}
	var out []string
	for _, e := range f.wires {
		if e.Op == history.OpSet && !slices.Contains(out, e.Node) && len(out) < 100 {
			out = append(out, e.Node)
		}
	}
	slices.Sort(out)
	return out
}

// slowThreshold returns the shortest time in flight for which a message is drawn as slow.
func (f *course) slow() int64 {
	return int64(cmp.Or(max(f.Params.NodeTimeout, 0), 50*time.Millisecond))
}

// sentBy returns the commands that a client sent in an interval.
func sent(wires []*event, client string, from, to int64) []*event {
	i, _ := slices.BinarySearchFunc(wires, from, func(e *event, t int64) int { return cmp.Compare(e.Sent, t) })
	var out []*event
	for _, e := range wires[i:] {
		if e.Sent > to {
			break
		}
		if facts.Sender(e) == client {
			out = append(out, e)
		}
	}
	return out
}

// eventNumbers returns the distinct numbers of events in order.
func numbers(events ...*event) []int64 {
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
	windows []facts.Window    // spans in which the client believes that it holds the lock

	begin, until int64 // span of all windows; without windows, both are the acquire's return
	deadline     int64 // end of the belief if nothing else ends it; never: no deadline
	ended        facts.Ending
	promised     int64 // deadline named by the acquire; never: none

	tried [][]*event // failed rounds, ordered by when they were sent
	won   []*event   // winning round; nil if its commands were not recorded
}

// addSession adds a session with its windows and the end of its belief.
func (f *course) session(x *facts.Session) {
	s := &session{Session: x, calls: slices.AppendSeq([]facts.Operation{x.Acquire}, x.Actions())}
	f.sessions, f.of[x] = append(f.sessions, s), s
	if s.Name() != "" && f.named[s.Name()] == nil {
		f.named[s.Name()] = s
	}
	s.windows = slices.Collect(f.Windows(x))
	switch {
	case s.Granted():
		s.begin, s.deadline, s.promised = x.Ended, x.Until, f.Promised(x)
	case len(s.windows) > 0: // opened by an extension
		s.begin, s.deadline = s.windows[0].From, facts.Nothing
	default:
		return
	}
	for e := range x.Calls(history.OpExtend) {
		if e.Outcome() == history.OK {
			s.deadline = facts.Renewed(e.Return, s.deadline)
		}
	}
	s.until, s.ended = s.begin, facts.Expired
	if n := len(s.windows); n > 0 {
		f.end(s, &s.windows[n-1])
	}
}

// endLastWindow determines what ended a session's last window. If nothing in the record ends it, it
// lasts until the session's deadline.
func (f *course) end(s *session, w *facts.Window) {
	_, s.ended = f.Closing(*w)
	at, gone := f.Gone[s.Client()]
	switch {
	case s.ended != facts.Still:
	case gone && at == w.To:
		s.ended = facts.Died
	default:
		w.To = max(w.To, s.deadline)
		if s.deadline != never {
			s.ended = facts.Expired
		}
	}
	s.until = w.To
}

// owns reports whether the session set a key. The key has the session's token, or, for a lock that
// reports no token, its winning round set the key.
func (s *session) put(x *facts.Stay) bool {
	return x.Of(s.Session) || slices.ContainsFunc(s.won, func(e *event) bool {
		return e.Process == x.By() && e.Sent != 0 && e.Sent == x.Put.Sent
	})
}

// lastAction returns the time of the session's last recorded action.
func (s *session) last() int64 {
	t := s.Acquire.Call.T
	for _, c := range s.calls {
		t = max(t, c.Call.T)
		if c.Return != nil {
			t = max(t, c.Return.T)
		}
	}
	return t
}

// hasPendingCall reports whether a call never returned, for example because its client was killed.
func (s *session) pending() bool {
	return slices.ContainsFunc(s.calls, func(c facts.Operation) bool { return c.Return == nil })
}

// believesAt reports whether the client believed at an instant that it held the lock.
func (s *session) believes(at int64) bool {
	return slices.ContainsFunc(s.windows, func(w facts.Window) bool { return w.From <= at && at < w.To })
}

// longestOverlap returns the longest span in which both clients believed that they held the lock.
func together(a, b *session) (from, to int64) {
	for _, v := range a.windows {
		for _, w := range b.windows {
			if f, t := max(v.From, w.From), min(v.To, w.To); minus(t, f) > minus(to, from) {
				from, to = f, t
			}
		}
	}
	return from, to
}

// appliedWrite is the outcome of one write at the resource.
type apply struct {
	facts.Write
	lost []lostWrite // updates that it overwrote, ordered by version
}

// lostWrite is an update that a later write overwrote.
type lostWrite struct {
	client  string
	version int64
}

// readLog finds the updates that each write overwrote. A write that is based on an older version
// than the current one overwrites the versions in between.
func (f *course) readLog() {
	type version struct {
		key  string
		made int64
	}
	writers := map[version]string{}
	for _, w := range f.Writes() {
		a := &apply{Write: w}
		if _, ok := f.applies[w.Value]; !ok {
			f.applies[w.Value] = a
		}
		if w.Type != history.OK {
			continue
		}
		// A real run loses only a few versions; the bound is for invalid histories.
		for v := w.Met; v > w.Version && minus(w.Met, v) < 100; v-- {
			if who := writers[version{w.Key, v}]; who != "" {
				a.lost = append(a.lost, lostWrite{who, v})
			}
		}
		slices.Reverse(a.lost)
		writers[version{w.Key, w.Made}] = f.writer(w.Event)
	}
}

func (f *course) writer(e *event) string {
	if s := f.named[e.Session]; s != nil {
		return s.Client()
	}
	return e.Session
}

// appliedAt returns when the resource applied or refused a write, or 0 if that is unknown.
func (f *course) appliedAt(value string) int64 {
	if a := f.applies[value]; a != nil && a.Applied != 0 {
		return a.Applied
	}
	if w := f.wireWrite(value); w != nil {
		return w.Applied
	}
	return 0
}

// sentAt returns when a write was sent, or 0 if that is unknown.
func sentAt(f *course, value string) int64 {
	if w := f.wireWrite(value); w != nil {
		return w.Sent
	}
	return 0
}

// writeCommand returns the write as its link recorded it, or nil.
func (f *course) wireWrite(value string) *event {
	i := slices.IndexFunc(f.wires, func(w *event) bool { return w.Op == history.OpWrite && w.Value == value && value != "" })
	if i < 0 {
		return nil
	}
	return f.wires[i]
}

// A round consists of the commands of a facts.Attempt that were sent before its acquire returned.

// votersBy lists the nodes of a round whose positive reply had arrived by an instant.
func votes(round []*event, by int64) []string {
	var out []string
	for _, e := range round {
		if e.Type == history.OK && e.Answered != 0 && e.Answered <= by {
			out = append(out, e.Node)
		}
	}
	return unique(out)
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
func (f *course) readAttempts() {
	for _, w := range f.Wires() {
		for _, a := range w.Attempts {
			s := f.of[a.Session]
			until := min(s.Ended, f.last)
			asked := slices.DeleteFunc(slices.Clone(a.Asked), func(e *event) bool { return e.Sent > until })
			n := len(s.tried) - 1
			switch {
			case len(asked) == 0:
			case n >= 0 && s.tried[n][0].Token == a.Token && oneRound(s.tried[n], asked[0], int64(f.Params.NodeTimeout)) && !slices.ContainsFunc(asked, func(e *event) bool { return commandTo(s.tried[n], e.Node) != nil }):
				s.tried[n] = append(s.tried[n], asked...) // sent late; a round has at most one command per node
			default:
				s.tried = append(s.tried, asked)
			}
		}
	}
	for _, s := range f.sessions {
		if n := len(s.tried) - 1; n >= 0 && s.Granted() {
			s.tried, s.won = s.tried[:n], s.tried[n]
		}
	}
}

// sameRound reports whether a command can belong to a round, judging by when it was sent. A round
// may contact one node after another, each for a node time-out, plus the time to connect. Times are
// the only evidence, because a lock may use one token for all of its rounds.
func oneRound(round []*event, next *event, nodeTimeout int64) bool {
	last := int64(0)
	for _, e := range round {
		last = max(last, e.Sent)
	}
	return nodeTimeout == 0 || minus(next.Sent, last) < plus(nodeTimeout, nodeTimeout)
}

// splitAtPauses splits a round at each pause longer than the given one.
func bursts(round []*event, pause int64) (all [][]*event) {
	for i, e := range round {
		if i == 0 || minus(e.Sent, round[i-1].Sent) > pause {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], e)
	}
	return all
}

// start returns when the session's winning round began.
func (s *session) start() int64 {
	if s.won != nil {
		return s.won[0].Sent
	}
	return s.Acquire.Call.T
}

// requestToEveryNode makes up commands for a request that no link recorded: one to each node, all
// sent at the same time.
func (f *course) everyNode(e *event, at int64) []*event {
	var out []*event
	for _, n := range append(f.nodes(), "")[:max(len(f.nodes()), 1)] {
		c := *e
		c.Node, c.Sent, c.Applied, c.Type = n, at, at, history.Info
		out = append(out, &c)
	}
	return out
}

// failedAttempts summarizes the attempts of one client that did not get the lock.
type futile struct {
	f        *course
	client   string
	rounds   int
	from, to int64       // start of the first and of the last attempt
	votes    int         // highest number of votes
	longest  [2]int64    // start and end of the longest attempt, if its duration is the cause
	why      []*withheld // reasons for missing votes
	events   []*event
}

// missingVotes is one reason why nodes gave no vote, with the affected rounds.
type withheld struct {
	why    string           // "refused by NODES because of c1's key"
	rounds map[string][]int // affected rounds by node
}

func newFutile(f *course, client string) *futile { return &futile{f: f, client: client, from: never} }

// failedAttempts returns the failed attempts of the session's client since an instant, up to the
// session's own winning round. They include those of earlier sessions that failed.
func (f *course) futile(s *session, from int64) *futile {
	w := newFutile(f, s.Client())
	for _, prev := range f.sessions {
		if prev.Client() != s.Client() || prev.Key() != s.Key() || prev.Granted() && prev != s {
			continue
		}
		if prev.Acquire.Call.T > s.Acquire.Call.T || prev.Acquire.Ended() < from {
			continue
		}
		if len(prev.tried) == 0 && !prev.Granted() { // it sent no command, or none was recorded
			w.add(max(prev.Acquire.Call.T, from), nil)
			w.events = append(w.events, prev.Acquire.Call)
		}
		for _, a := range prev.tried {
			if a[0].Sent >= from {
				w.add(a[0].Sent, a)
			}
		}
	}
	return w
}

// add counts an attempt by its start and its requests.
func (w *futile) add(at int64, asked []*event) {
	w.rounds++
	w.from, w.to = min(w.from, at), max(w.to, at)
	if len(asked) == 0 {
		return
	}
	w.events = append(w.events, asked[0])
	votes := 0
	for _, node := range w.f.nodes() {
		if why := w.refused(node, at, asked); why == "" {
			votes++
		} else {
			w.count(why, node)
		}
	}
	w.votes = max(w.votes, votes)
}

func (w *futile) count(why, node string) {
	i := slices.IndexFunc(w.why, func(r *withheld) bool { return r.why == why })
	if i < 0 {
		i, w.why = len(w.why), append(w.why, &withheld{why, map[string][]int{}})
	}
	w.why[i].rounds[node] = append(w.why[i].rounds[node], w.rounds)
}

// missingVoteReason explains why a node gave an attempt no vote. It returns "" if the node voted
// for it.
func (w *futile) refused(node string, from int64, asked []*event) (why string) {
	why = "nothing sent to NODES"
	for _, e := range asked {
		switch {
		case e.Node != node:
		case e.Answered != 0 && w.late(e):
			why = "a late reply from NODES"
		case e.Type == history.OK && e.Answered != 0:
			return ""
		case e.Type == history.Fail && e.Cause == "" && (e.Answered != 0 || e.Applied == 0): // or a link without timestamps
			why = "refused by NODES" + w.forKey(e, from)
		case e.Type == history.Fail && e.Cause != "":
			why = "an error from NODES"
		default:
			why = "no reply from NODES"
		}
	}
	return why
}

// isLate reports whether a reply came after the node time-out.
func (w *futile) late(e *event) bool {
	timeout := int64(w.f.Params.NodeTimeout)
	return timeout > 0 && e.Answered-e.Sent > timeout
}

// blockingKeyClause names the key that made a node refuse a request of an attempt.
func (w *futile) forKey(e *event, from int64) string {
	if !w.f.Params.Life {
		return ""
	}
	switch s := w.f.keyThere(e, from); {
	case s == nil:
		return " with no key set"
	case facts.Doer(s.Put) == w.client:
		return " because of its own key"
	default:
		return fmt.Sprintf(" because of %s key", possessive(facts.Doer(s.Put)))
	}
}

// blockingKey returns the key that made a node refuse a request of an attempt that began at
// an instant, or nil. It never returns a key of the attempt itself.
func (f *course) keyThere(e *event, from int64) (there *facts.Stay) {
	if e.Type != history.Fail || e.Cause != "" {
		return nil
	}
	for _, s := range f.Lives().During(e.Node, e.Key, e.Sent, max(e.Applied, e.T)) {
		err := facts.Error(s.Put)
		own := s.Holds(e.Token) && cmp.Or(s.Put.Sent, s.From()) >= from
		if !own && minus(s.From(), err) <= e.Applied && plus(s.To(), err) >= e.Applied {
			there = s
		}
	}
	return there
}

// reasonClause lists the reasons for missing votes, the most frequent first, as the end of a
// clause. A reason that does not apply to every attempt gets its number of occurrences; unless all
// is true, a reason that applies to less than nine in ten attempts is omitted. Nodes with the same
// reason in every attempt are listed together, and so are the remaining ones.
func (w *futile) because(all bool) string {
	type reason struct {
		rounds int
		text   string
	}
	var reasons []reason
	for _, r := range w.why {
		nodes := slices.Sorted(maps.Keys(r.rounds))
		for _, g := range grouped(nodes, func(n string) bool { return len(r.rounds[n]) == w.rounds }) {
			came := map[int]bool{}
			for _, n := range g {
				for _, round := range r.rounds[n] {
					came[round] = true
				}
			}
			x := reason{len(came), strings.Replace(r.why, "NODES", nodeList(g), 1)}
			if len(r.rounds[g[0]]) < w.rounds {
				x.text += fmt.Sprintf(" (%s)", display.Times(len(came)))
			}
			if all || 10*len(came) >= 9*w.rounds {
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

// voteClause returns the highest number of votes of an attempt.
func (w *futile) atMost() string {
	most := "at most "
	if w.rounds == 1 {
		most = ""
	}
	return fmt.Sprintf("with %s%d of %d votes", most, w.votes, len(w.f.nodes()))
}

// quorumClause returns the number of votes that the lock needs, as the end of a clause.
func (w *futile) needed() string {
	if q := w.f.Params.Quorum; q > 0 {
		return fmt.Sprintf(" (%d are %s)", q, quorumWord(q, len(w.f.nodes())))
	}
	return ""
}

// deletion is a release that deleted a key in which another session's client still believed.
type deletion struct {
	release *event
	victim  *session
	named   bool // the verdict names it as a cause
}

// deletions finds the keys of the sessions that releases deleted while the session's client still
// believed that it held the lock, ordered by time.
func (f *course) deletions(sessions []*session) []deletion {
	if f.Params.Life {
		return f.toldDeletions(sessions)
	}
	type owner struct {
		s     *session
		since int64
	}
	set := map[*event]*session{}
	for _, s := range sessions {
		for _, e := range s.won {
			set[e] = s
		}
	}
	applied := slices.Clone(f.wires)
	slices.SortStableFunc(applied, func(a, b *event) int { return cmp.Compare(a.Applied, b.Applied) })
	owners := map[[2]string]owner{}
	var out []deletion
	for _, e := range applied {
		if e.Type != history.OK || e.Applied == 0 {
			continue
		}
		at := [2]string{e.Node, e.Key}
		switch e.Op {
		case history.OpSet:
			owners[at] = owner{set[e], e.Applied}
		case history.OpRelease:
			if o := owners[at]; o.s != nil && e.Applied < o.s.until {
				out = append(out, deletion{release: e, victim: o.s})
			}
			delete(owners, at)
		}
	}
	return out
}

// reportedDeletions does the same as deletions, from the nodes' own reports.
func (f *course) toldDeletions(sessions []*session) []deletion {
	var out []deletion
	for _, s := range sessions {
		for _, node := range f.Params.Nodes {
			for _, stay := range f.Lives().Stays(node, s.Key()) {
				e := stay.End
				if e == nil || e.Life.What != history.KeyDeleted || !s.put(stay) || e.T < s.begin || e.T >= s.until {
					continue
				}
				if release := f.ReleaseOf(e); release != nil {
					out = append(out, deletion{release: release, victim: s})
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b deletion) int { return cmp.Compare(a.release.Applied, b.release.Applied) })
	return out
}

// clients returns the clients of the sessions and those whose releases mattered.
func (sc *scene) clients() []string {
	if sc.cast == nil {
		sc.cast = sc.chooseClients()
	}
	return sc.cast
}

func (sc *scene) chooseClients() []string {
	if sc.out != nil {
		return sc.out.clients()
	}
	var out []string
	for _, s := range sc.focus {
		out = append(out, s.Client())
	}
	out = unique(append(out, sc.actors()...))
	most := max(mostClients, min(len(out), mostClients+1)) // there is always room for a client that the verdict names
	for _, d := range sc.deletions {
		if len(out) < mostClients {
			out = unique(append(out, facts.Sender(d.release)))
		}
	}
	return out[:min(most, len(out))]
}

// causingClients returns the clients whose actions are the verdict's cause.
func (sc *scene) actors() (names []string) {
	if sc.result == nil {
		return nil
	}
	for _, l := range sc.result.Losses {
		e := sc.ending(l)
		if e == nil || l.Cause != sc.result.Cause {
			continue
		}
		if release := sc.f.ReleaseOf(e); release != nil {
			names = append(names, facts.Sender(release))
		} else if doer := facts.Doer(e); slices.Contains(sc.f.Params.Clients, doer) {
			names = append(names, doer)
		}
	}
	return unique(names)
}

// maxClients is how many clients a reader can follow.
const mostClients = 3

// resource returns the name of the storage, or "" if the sessions did not use it.
func (sc *scene) resource() string {
	used := slices.ContainsFunc(sc.focus, func(s *session) bool {
		return slices.ContainsFunc(s.calls, func(c facts.Operation) bool { return c.Call.Op == history.OpRead || c.Call.Op == history.OpWrite })
	})
	switch {
	case !used || sc.out != nil:
		return ""
	case sc.f.Params.Resource != "":
		return sc.f.Params.Resource
	}
	return "storage"
}

// nodeGroups groups the lock nodes into at most room lanes. Nodes that behaved alike share a lane.
// If single nodes do not matter, all nodes share one.
func (sc *scene) nodeGroups(room int) [][]string {
	nodes := sc.f.nodes()
	if len(nodes) == 0 {
		return [][]string{nil}
	}
	for _, sign := range []func(string) string{sc.fullSignature, sc.faultSignature, sc.blamed} {
		if groups := grouped(nodes, sign); sc.aboutNodes() && len(groups) <= room {
			return groups
		}
	}
	return [][]string{nodes}
}

// nodesMatter reports whether single nodes matter to the story.
func (sc *scene) aboutNodes() bool {
	if sc.out != nil || sc.result != nil && (sc.result.Property == verdict.MutualExclusion || sc.result.Node != "") {
		return true
	}
	return slices.ContainsFunc(sc.f.nodes(), func(n string) bool { return sc.faultSignature(n) != sc.faultSignature("") })
}

// blamedSignature distinguishes the node that the verdict names.
func (sc *scene) blamed(node string) string {
	return fmt.Sprint(sc.result != nil && sc.result.Node == node && node != "")
}

// faultSignature lists the faults that hit the node or one of its links to the clients shown.
func (sc *scene) faultSignature(node string) string {
	s := ""
	for _, ft := range sc.faults {
		if ft.Target == node {
			s += " " + ft.Kind
		}
		if client, ok := strings.CutSuffix(ft.Target, "-"+node); ok && slices.Contains(sc.clients(), client) {
			s += " " + ft.Kind + " " + client
		}
	}
	return strings.Join(unique(strings.Fields(s)), " ")
}

// fullSignature also includes the sessions that the node voted for and lost keys of.
func (sc *scene) fullSignature(node string) string {
	s := sc.faultSignature(node)
	if sc.out != nil {
		return s + " " + sc.out.signature(node)
	}
	if slices.ContainsFunc(sc.deletions, func(d deletion) bool { return d.release.Node == node }) {
		s += " deleted"
	}
	for i, fs := range sc.focus {
		if e := commandTo(fs.won, node); e != nil {
			s += fmt.Sprintf(" %d %s", i, e.Type)
		}
	}
	return s
}

// chooseFocus selects the sessions that the diagram is about, the earlier first: those of the
// witness, else those that the first fault hit, else the first two.
func (f *course) focus(r *verdict.Result) []*session {
	if r != nil && r.Witness != nil {
		var out []*session
		for _, name := range r.Witness.Sessions {
			if s := f.named[name]; s != nil && !slices.Contains(out, s) && len(out) < 2 {
				out = append(out, s)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	if f.Grants == 0 {
		return f.lastOfEach()
	}
	for _, ft := range f.faults {
		if s := f.touched(ft); s != nil {
			return f.withNext(s)
		}
	}
	for _, s := range f.sessions {
		if s.Granted() {
			return f.withNext(s)
		}
	}
	return nil
}

// lastSessions returns the last session of each of the first clients, for a run in which nobody got
// the lock.
func (f *course) lastOfEach() (all []*session) {
	for _, s := range f.sessions {
		i := slices.IndexFunc(all, func(o *session) bool { return o.Client() == s.Client() })
		if i >= 0 && all[i].Key() == s.Key() {
			all[i] = s
		} else if i < 0 && len(all) < mostClients {
			all = append(all, s)
		}
	}
	return all
}

// sessionHitBy returns the session that a fault hit, or nil.
func (f *course) touched(ft *facts.Fault) *session {
	at := ft.First().T // a belief that it ended lasted until then
	var holder, first *session
	for _, s := range f.sessions {
		if !s.pending() && s.last() < at && s.until < at {
			continue
		}
		busy := s.Acquire.Call.T <= at && (s.pending() || at <= max(s.last(), s.until))
		if ft.Hits(s.Client()) {
			if busy {
				return s
			}
			continue
		}
		if holder == nil && s.believes(at) {
			holder = s
		}
		if first == nil && s.Granted() {
			first = s
		}
	}
	if slices.Contains(f.Params.Clients, ft.Target) {
		return nil // its client was idle
	}
	return cmp.Or(holder, first)
}

// withNext returns the session and the next session of another client that got the same lock. If
// there is none, it adds the first session that tried to.
func (f *course) withNext(s *session) []*session {
	var next, tried *session
	for _, o := range f.sessions {
		if o.Client() == s.Client() || o.Key() != s.Key() || o.last() < s.Acquire.Call.T {
			continue
		}
		if o.Granted() && o.begin >= s.begin && (next == nil || o.begin < next.begin) {
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
