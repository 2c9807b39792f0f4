package sequence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
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
	wires    []*event // commands on the wire, in the order in which they were sent
	applies  map[string]*apply
	faults   []*facts.Fault // that were seen to be in force, in that order
	last     int64          // the last instant of the run's own time
}

func newCourse(h *history.History) *course {
	f := &course{Facts: facts.ReadUpToStop(h), named: map[string]*session{}, applies: map[string]*apply{}}
	for s := range f.Sessions() {
		f.session(s)
	}
	f.wires = f.Sent()
	for _, x := range f.Faults {
		if x.Begin != nil {
			f.faults = append(f.faults, x)
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
	f.sessions = append(f.sessions, s)
	if s.Name() != "" && f.named[s.Name()] == nil {
		f.named[s.Name()] = s
	}
	s.windows = slices.Collect(f.Windows(x))
	switch {
	case s.Granted():
		s.begin, s.deadline, s.promised = x.Ended, x.Until, x.Until
		if e := f.Lost(x); e != nil && e.T == x.Until { // nobody knew that beforehand
			s.promised = never
		}
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
	of := map[*facts.Session]*session{}
	for _, s := range f.sessions {
		of[s.Session] = s
	}
	for _, w := range f.Wires() {
		for _, a := range w.Attempts {
			s := of[a.Session]
			until := min(s.Ended, f.last)
			asked := slices.DeleteFunc(slices.Clone(a.Asked), func(e *event) bool { return e.Sent > until })
			n := len(s.tried) - 1
			switch {
			case len(asked) == 0:
			case n >= 0 && s.tried[n][0].Token == a.Token && !slices.ContainsFunc(asked, func(e *event) bool { return commandTo(s.tried[n], e.Node) != nil }):
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

// futile is what one client tried in vain before a session.
type futile struct {
	rounds      int
	from, to    int64
	taken, mute bool // some node said no; no node answered at all
	events      []*event
}

// futile counts what the session's client tried from an instant on until the
// session's own winning round, in this session and in those before it that failed.
func (f *course) futile(s *session, from int64) futile {
	w := futile{from: never, mute: true}
	for _, prev := range f.sessions {
		if prev.Client() != s.Client() || prev.Key() != s.Key() || prev.Granted() && prev != s {
			continue
		}
		if prev.Acquire.Call.T > s.Acquire.Call.T || prev.Acquire.Ended() < from {
			continue
		}
		if len(prev.tried) == 0 && prev != s { // its wire was not recorded
			w.add(max(prev.Acquire.Call.T, from), prev.Acquire.Call)
			w.taken, w.mute = true, false
		}
		for _, a := range prev.tried {
			if a[0].Sent < from {
				continue
			}
			w.add(a[0].Sent, a[0])
			w.taken = w.taken || slices.ContainsFunc(a, func(e *event) bool { return e.Type == history.Fail })
			w.mute = w.mute && !slices.ContainsFunc(a, func(e *event) bool { return e.Answered != 0 })
		}
	}
	return w
}

func (w *futile) add(at int64, e *event) {
	w.rounds++
	w.from, w.to = min(w.from, at), max(w.to, at)
	w.events = append(w.events, e)
}

func (w *futile) because() string {
	switch {
	case w.taken:
		return "taken"
	case w.mute:
		return "no answer"
	}
	return "no majority"
}

// deletion is a key that one session's client believed in and a release took away.
type deletion struct {
	release *event
	victim  *session
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
				out = append(out, deletion{e, o.s})
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
				if e == nil || e.Life.What != history.KeyDeleted || !stay.Of(s.Session) || e.T < s.begin || e.T >= s.until {
					continue
				}
				if release := f.ReleaseOf(e); release != nil {
					out = append(out, deletion{release, s})
				}
			}
		}
	}
	slices.SortStableFunc(out, func(a, b deletion) int { return cmp.Compare(a.release.Applied, b.release.Applied) })
	return out
}

// clients are the clients of the sessions, and one whose release mattered.
func (sc *scene) clients() []string {
	var out []string
	for _, s := range sc.focus {
		out = append(out, s.Client())
	}
	for _, d := range sc.deletions {
		out = append(out, facts.Sender(d.release))
	}
	out = unique(out)
	return out[:min(3, len(out))]
}

// resource is the name of the storage, "" if nobody used one.
func (sc *scene) resource() string {
	used := slices.ContainsFunc(sc.focus, func(s *session) bool {
		return slices.ContainsFunc(s.calls, func(c facts.Operation) bool { return c.Call.Op == history.OpRead || c.Call.Op == history.OpWrite })
	})
	switch {
	case !used:
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
	if sc.result != nil && (sc.result.Property == verdict.MutualExclusion || sc.result.Node != "") {
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
	return f.sessions[:min(2, len(f.sessions))]
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
