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

// never is the instant of what does not happen.
const never = facts.Never

// course is the facts of a run up to where it was stopped, and what follows from them for
// a drawing. It takes any history, also one that no run could have made.
type course struct {
	*facts.Facts
	sessions []*session // in the order in which their acquire was called
	named    map[string]*session
	of       map[*facts.Session]*session
	wires    []*event // commands on the wire, in the order in which they were sent
	applies  map[string]*apply
	faults   []*facts.Fault // that were seen to be in force, in that order
	record   *history.History
	promises map[int64]promise // memo of promise: by event
	last     int64             // the last instant of the run's own time
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
		if e := &f.Events[i]; e.Op != history.OpLog { // it is stamped when it was read back
			f.last = max(f.last, e.T)
		}
	}
	f.readLog()
	f.readAttempts()
	return f
}

// staysInForce is what is read back when a step ends whose fault another step has, too.
const staysInForce = "it stays in force for another step"

// lasting returns a fault as long as it was in force: where its step's end ended nothing, until the end of the step
// that did.
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

// promise is the deadline that came with a lock or an extension.
type promise struct {
	left  int64 // by the client's clock, when it came
	until int64 // in true time, as the clocks let it come true, whatever was said of a loss later
}

// promise is what a return promised; false: it named no deadline.
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

// left is how long a lock said that it lasts, when it came; never: it named no deadline.
func (f *course) left(ret *event) int64 {
	if p, ok := f.promise(ret); ok {
		return p.left
	}
	return never
}

// promised is the deadline that came with a return; never: none did.
func (f *course) promised(ret *event) int64 {
	if p, ok := f.promise(ret); ok {
		return p.until
	}
	return never
}

// leftAt is how long a session's lock lasts at a check, by the client's clock; never: it has no deadline, or nobody knows.
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

// nodes lists the lock nodes, from the params or else from the wire.
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

// slow is how long a message is in flight if it is worth telling.
func (f *course) slow() int64 {
	return int64(cmp.Or(max(f.Params.NodeTimeout, 0), 50*time.Millisecond))
}

// sent returns the wire commands that a client sent from one instant to another.
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

// numbers lists the numbers of events, each once, in order.
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
	windows []facts.Window    // in which the client believes that it holds the lock

	begin, until int64 // of all windows; of one that had none, both are the acquire's return
	deadline     int64 // when it stops believing if nothing else ends it; never: no deadline
	ended        facts.Ending
	promised     int64 // the deadline that it was granted with; never: none

	tried [][]*event // rounds that came to nothing, in the order in which they were sent
	won   []*event   // the round that got the lock, nil if the wire was not recorded
}

// session adds one.
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
	case len(s.windows) > 0: // by an extension
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

// end says what ended a session's last window. What nothing in the record ends lasts
// until its deadline.
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

// put reports whether a key is the session's: it has its token, or the round that won set it, for a lock that tells
// no token.
func (s *session) put(x *facts.Stay) bool {
	return x.Of(s.Session) || slices.ContainsFunc(s.won, func(e *event) bool {
		return e.Process == x.By() && e.Sent != 0 && e.Sent == x.Put.Sent
	})
}

// last is the instant of the last thing that the session is seen to do.
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

// pending reports whether a call never returned, as when its client was killed.
func (s *session) pending() bool {
	return slices.ContainsFunc(s.calls, func(c facts.Operation) bool { return c.Return == nil })
}

// believes reports whether the client believed at an instant that it held the lock.
func (s *session) believes(at int64) bool {
	return slices.ContainsFunc(s.windows, func(w facts.Window) bool { return w.From <= at && at < w.To })
}

// together is the longest span in which both believed that they held the lock.
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

// apply is what became of one write at the resource.
type apply struct {
	facts.Write
	lost []lostWrite // what it did away with, in the order of versions
}

// lostWrite is an update that a later write did away with.
type lostWrite struct {
	client  string
	version int64
}

// readLog says of each write whose updates it did away with: one that is based on an
// older version than it meets does so with what came between.
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
		// Far more than a few lost versions is no history of ours.
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

// appliedAt is when the resource had applied or refused a write, 0 if nobody knows.
func (f *course) appliedAt(value string) int64 {
	if a := f.applies[value]; a != nil && a.Applied != 0 {
		return a.Applied
	}
	if w := f.wireWrite(value); w != nil {
		return w.Applied
	}
	return 0
}

// sentAt is when a write was sent, 0 if nobody knows.
func sentAt(f *course, value string) int64 {
	if w := f.wireWrite(value); w != nil {
		return w.Sent
	}
	return 0
}

// wireWrite is the write as its link saw it.
func (f *course) wireWrite(value string) *event {
	i := slices.IndexFunc(f.wires, func(w *event) bool { return w.Op == history.OpWrite && w.Value == value && value != "" })
	if i < 0 {
		return nil
	}
	return f.wires[i]
}

// A round is the commands of a facts.Attempt that were sent before its acquire returned.

// votes lists the nodes whose yes in a round had come back by an instant.
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

// readAttempts takes the rounds of each acquire, as far as they were sent before it returned.
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
				s.tried[n] = append(s.tried[n], asked...) // sent late: nobody is asked twice in one round
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

// oneRound reports whether a command can be one of a round, by when it was sent: a node time-out after another, and what
// it takes to connect. A lock may use one token for all of its rounds.
func oneRound(round []*event, next *event, nodeTimeout int64) bool {
	last := int64(0)
	for _, e := range round {
		last = max(last, e.Sent)
	}
	return nodeTimeout == 0 || minus(next.Sent, last) < plus(nodeTimeout, nodeTimeout)
}

// bursts splits a round where its client sent nothing for longer than a pause.
func bursts(round []*event, pause int64) (all [][]*event) {
	for i, e := range round {
		if i == 0 || minus(e.Sent, round[i-1].Sent) > pause {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], e)
	}
	return all
}

// start is when the winning round of a session began.
func (s *session) start() int64 {
	if s.won != nil {
		return s.won[0].Sent
	}
	return s.Acquire.Call.T
}

// everyNode stands for a request that no link recorded: all nodes, at once.
func (f *course) everyNode(e *event, at int64) []*event {
	var out []*event
	for _, n := range append(f.nodes(), "")[:max(len(f.nodes()), 1)] {
		c := *e
		c.Node, c.Sent, c.Applied, c.Type = n, at, at, history.Info
		out = append(out, &c)
	}
	return out
}

// futile is the attempts of one client that got no lock.
type futile struct {
	f        *course
	client   string
	rounds   int
	from, to int64       // when the first and the last began
	votes    int         // most that one had
	longest  [2]int64    // attempt, where that is the cause
	why      []*withheld // of votes
	events   []*event
}

// withheld is one reason for which nodes gave no vote.
type withheld struct {
	why    string           // "refused by NODES for c1's key"
	rounds map[string][]int // in which it came, by node
}

func newFutile(f *course, client string) *futile { return &futile{f: f, client: client, from: never} }

// futile is what the session's client tried from an instant on until the session's own
// winning round, in this session and in those before it that failed.
func (f *course) futile(s *session, from int64) *futile {
	w := newFutile(f, s.Client())
	for _, prev := range f.sessions {
		if prev.Client() != s.Client() || prev.Key() != s.Key() || prev.Granted() && prev != s {
			continue
		}
		if prev.Acquire.Call.T > s.Acquire.Call.T || prev.Acquire.Ended() < from {
			continue
		}
		if len(prev.tried) == 0 && !prev.Granted() { // it asked no node, or its wire was not recorded
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

// add counts an attempt that began at an instant, by its requests.
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

// refused says why a node gave an attempt no vote; "": it did.
func (w *futile) refused(node string, from int64, asked []*event) (why string) {
	why = "nothing sent to NODES"
	for _, e := range asked {
		switch {
		case e.Node != node:
		case e.Answered != 0 && w.late(e):
			why = "a late answer from NODES"
		case e.Type == history.OK && e.Answered != 0:
			return ""
		case e.Type == history.Fail && e.Cause == "" && (e.Answered != 0 || e.Applied == 0): // a link that stamps nothing
			why = "refused by NODES" + w.forKey(e, from)
		case e.Type == history.Fail && e.Cause != "":
			why = "an error from NODES"
		default:
			why = "no answer from NODES"
		}
	}
	return why
}

// late reports whether an answer came after the node time-out.
func (w *futile) late(e *event) bool {
	timeout := int64(w.f.Params.NodeTimeout)
	return timeout > 0 && e.Answered-e.Sent > timeout
}

// forKey says for which key a node refused a request of an attempt.
func (w *futile) forKey(e *event, from int64) string {
	if !w.f.Params.Life {
		return ""
	}
	switch s := w.f.keyThere(e, from); {
	case s == nil:
		return " without a key"
	case facts.Doer(s.Put) == w.client:
		return " for a key of its own"
	default:
		return fmt.Sprintf(" for %s key", possessive(facts.Doer(s.Put)))
	}
}

// keyThere is the key for which a node refused a request of an attempt that began at an instant, or nil. It is
// not the attempt's own.
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

// because lists why nodes gave no votes, the most frequent reason first, as the end of a clause. Of those that
// didn't come in every attempt it says how often they came; those of less than nine in ten may be left out. Nodes
// of which that is so are told of together.
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

// atMost is how many votes an attempt had at most.
func (w *futile) atMost() string {
	most := "at most "
	if w.rounds == 1 {
		most = ""
	}
	return fmt.Sprintf("with %s%d of %d votes", most, w.votes, len(w.f.nodes()))
}

// needed is how many votes the lock needs, as the end of a clause.
func (w *futile) needed() string {
	if q := w.f.Params.Quorum; q > 0 {
		return fmt.Sprintf(" where %d are %s", q, quorumWord(q, len(w.f.nodes())))
	}
	return ""
}

// deletion is a key that one session's client believed in and a release took away.
type deletion struct {
	release *event
	victim  *session
	named   bool // the verdict names it as the cause
}

// deletions finds the keys of the sessions that releases deleted while the
// session's client still believed that it held the lock, in the order of time.
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

// toldDeletions finds the same as deletions by what the nodes told.
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

// clients are the clients of the sessions, and one whose release mattered.
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
	most := max(mostClients, min(len(out), mostClients+1)) // who is named by the verdict is never left out for want of room
	for _, d := range sc.deletions {
		if len(out) < mostClients {
			out = unique(append(out, facts.Sender(d.release)))
		}
	}
	return out[:min(most, len(out))]
}

// actors are the clients that did what the verdict's cause is.
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

// mostClients is how many clients a reader can follow.
const mostClients = 3

// resource is the name of the storage, "" if nobody used one.
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

// nodeGroups folds the lock nodes into at most room lanes. Nodes that behaved
// alike share one; where the story is not about single nodes, all do.
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

// aboutNodes reports whether single nodes matter to the story.
func (sc *scene) aboutNodes() bool {
	if sc.out != nil || sc.result != nil && (sc.result.Property == verdict.MutualExclusion || sc.result.Node != "") {
		return true
	}
	return slices.ContainsFunc(sc.f.nodes(), func(n string) bool { return sc.faultSignature(n) != sc.faultSignature("") })
}

// blamed sets a node apart that the verdict names.
func (sc *scene) blamed(node string) string {
	return fmt.Sprint(sc.result != nil && sc.result.Node == node && node != "")
}

// faultSignature is which faults hit the node or one of its links to a client shown.
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

// fullSignature adds which sessions the node granted the lock, and lost again.
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

// focus chooses the sessions that the diagram is about, the earlier first: those of
// the witness, else those that the first fault touched, else the first two.
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

// lastOfEach is the last sessions of the first clients, of a run in which nobody got the lock.
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

// touched is the session that a fault hit, or nil.
func (f *course) touched(ft *facts.Fault) *session {
	at := ft.First().T // whom it ended was believed in until then
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
		return nil // the client was idle
	}
	return cmp.Or(holder, first)
}

// withNext adds the next session of another client that got the same lock, or,
// where nobody did, the first that tried to.
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
