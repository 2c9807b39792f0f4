package sequence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/display"
)

// line is a line of text with a fixed width.
type line []rune

func newLine(width int) line { return []rune(strings.Repeat(" ", width)) }

// put writes s starting at column x. Anything outside the line is cut off.
func (l line) put(x int, s string) {
	for _, r := range s {
		if x >= 0 && x < len(l) {
			l[x] = r
		}
		x++
	}
}

func (l line) at(x int) rune {
	if x < 0 || x >= len(l) {
		return ' '
	}
	return l[x]
}

// text returns the line without trailing blanks.
func (l line) text() string { return strings.TrimRight(string(l), " ") + "\n" }

// page lays out a drawing in columns.
type page struct {
	d            Diagram
	width        int
	places       map[int64]int // decimal places of each instant
	wholeDigits  int           // characters before the decimal point
	maxPlaces    int           // maximum number of decimal places
	firstColumn  int           // column of the first lane
	laneDistance int           // distance between lanes
	labelColumn  int           // column of the labels
	longGap      int64         // shortest gap that gets a row of its own
	used         map[state]bool
}

const (
	maxLaneWidth = 17
	minLaneWidth = 7
	goodLabel    = 42 // label width at which most labels fit on two lines
)

func newPage(d Diagram, rows []row, width int) *page {
	p := &page{d: d, width: width, maxPlaces: 3, used: map[state]bool{}}
	p.places = decimalPlaces(rows)
	for _, r := range rows {
		p.maxPlaces = max(p.maxPlaces, p.places[r.at])
		p.wholeDigits = max(p.wholeDigits, strings.IndexByte(display.Decimal(r.at, 3), '.'))
	}
	p.wholeDigits = max(p.wholeDigits, len("seconds")-1-p.maxPlaces)
	p.firstColumn = p.wholeDigits + 1 + p.maxPlaces + 3 // a space, the gutter, a space
	p.longGap = saturatingSub(rows[len(rows)-1].at, rows[0].at) / 10
	between := len(d.Lanes) - 1
	if between > 0 {
		p.laneDistance = min(max((width-p.firstColumn-3-goodLabel)/between, minLaneWidth), maxLaneWidth)
		p.laneDistance = max(min(p.laneDistance, (width-p.firstColumn-3-12)/between), 3)
	}
	p.labelColumn = p.firstColumn + between*p.laneDistance + 4
	return p
}

func (p *page) x(lane int) int { return p.firstColumn + lane*p.laneDistance }

// decimalPlaces returns the number of decimal places for each instant, chosen so that consecutive
// instants that differ are also printed differently.
func decimalPlaces(rows []row) map[int64]int {
	out := map[int64]int{}
	for i := 1; i < len(rows); i++ {
		a, b := rows[i-1].at, rows[i].at
		n := 3
		for n < 9 && a != b && display.Decimal(a, n) == display.Decimal(b, n) {
			n += 3
		}
		out[a], out[b] = max(out[a], n), max(out[b], n)
	}
	if len(rows) == 1 {
		out[rows[0].at] = 3
	}
	return out
}

// drawLanes draws the state of all lanes at an instant, and marks the gutter if something is wrong
// at that time.
func (p *page) drawLanes(l line, at int64) {
	for i := range p.d.Lanes {
		r, isPaused := '│', false
		for _, b := range p.d.Bars {
			if b.Lane != i || at < b.From || at >= b.To {
				continue
			}
			p.used[b.State] = true
			switch b.State {
			case believes:
				r = '┃'
			case dead:
				r = ' '
			case hasLeftoverKey:
				r = '║'
			case paused:
				isPaused = true
			}
		}
		l.put(p.x(i), string(r))
		if isPaused {
			l.put(p.x(i)+1, "░")
		}
	}
	for _, b := range p.d.Bands {
		if b.From <= at && at < b.To {
			l.put(p.firstColumn-2, "!")
		}
	}
}

// drawArrows draws the arrows of one fact, the longest first, and returns the label beside them.
func (p *page) drawArrows(l line, r row) string {
	for far := len(p.d.Lanes); far > 0; far-- {
		for _, a := range r.arrows {
			if max(a.From-a.To, a.To-a.From) == far {
				p.drawShaft(l, a, r.part)
			}
		}
	}
	a := r.arrows[0]
	text := a.Detail
	if r.part == departure {
		text = "under way until " + display.Seconds(latestArrival(r.arrows))
	}
	if !p.drawLabel(l, a, r.part) {
		text = strings.TrimSuffix(a.Label+": "+text, ": ")
	}
	return text
}

// drawShaft draws an arrow from one lane to another, across the lanes in between.
func (p *page) drawShaft(l line, a arrow, part part) {
	from, to := p.x(a.From), p.x(a.To)
	step, leaves, head := 1, "├", ">"
	if to < from {
		step, leaves, head = -1, "┤", "<"
	}
	shaft := "─"
	if part != wholeMessage {
		shaft = "╌"
	}
	for x := from + step; x != to; x += step {
		mark := shaft
		switch l.at(x) {
		case '│', '┃', '║', '┼':
			mark = "┼"
		case '├', '┤', '┴':
			mark = string(l.at(x)) // another arrow of this fact ends here
		}
		l.put(x, mark)
	}
	if part != arrival {
		if r := l.at(from); r == '┼' {
			leaves = "┴"
		}
		l.put(from, leaves)
	}
	switch {
	case a.Lost || part == departure:
		p.drawEnd(l, a, to, step)
	default:
		l.put(to-step, head)
		if l.at(to) == '┼' { // another arrow continues from here
			l.put(to, leaves)
		}
		if a.Mark != "" {
			l.put(to, string(a.Mark))
		}
	}
}

// drawEnd ends a shaft before its lane, for a message that was lost or is still under way.
func (p *page) drawEnd(l line, a arrow, to, step int) {
	if l.at(to) == '┼' {
		return // another arrow continues from here
	}
	l.put(to-step, " ")
	end := "×"
	if !a.Lost {
		end = "╌"
	}
	l.put(to-2*step, end)
}

// drawLabel writes the arrow's label on its shaft, near the client's end, where the reader looks
// first. It reports whether the label fit.
func (p *page) drawLabel(l line, a arrow, part part) bool {
	text := " " + escape(a.Label) + " "
	n := utf8.RuneCountInString(text)
	room := p.laneDistance - 3 // without a dash and the arrowhead
	if a.Lost || part == departure {
		room -= 2
	}
	if a.Label == "" || n > room {
		return a.Label == ""
	}
	left := a.From
	if a.To < a.From {
		left = a.From - 1
	}
	if a.Answer {
		left = a.To
		if a.To > a.From {
			left = a.To - 1
		}
	}
	l.put(p.x(left)+1+(p.laneDistance-1-n)/2, text)
	return true
}

// layout is the part of a trace that a diagram shows.
type layout struct {
	f               *trace
	result          *verdict.Result // nil means no violation
	focus           []*session
	deletions       []deletion
	deleterSessions []*session     // sessions whose releases deleted a key of the focus
	faults          []*facts.Fault // faults that may have influenced what is shown
	idlePauses      []*facts.Fault // client pauses that had no effect
	from, to        int64          // span that is shown
	omittedFaults   int            // number of faults that are not drawn
	outage          *outage        // nil means the diagram is not about an outage
	omittedAttempts int            // in an outage, the number of attempts by clients without a lane
	clientCache     []string       // cached result of clients
}

// maxTargets limits the number of fault targets in a layout.
const maxTargets = 60

func newLayout(f *trace, r *verdict.Result) *layout {
	sc := &layout{f: f, result: r, outage: outageOf(f, r)}
	if sc.outage != nil {
		sc.focus = sc.outage.sessions()
		sc.computeSpan()
		return sc
	}
	sc.focus = f.chooseFocus(r)
	sc.deletions = f.deletions(sc.focus)
	sc.markDeletions()
	sc.deleterSessions = sc.findDeleters()
	sc.computeSpan()
	return sc
}

// markDeletions marks the deletions that the verdict names as a cause. It adds deletions that are
// still missing: a release may delete a key before the acquire that set the key has returned.
func (sc *layout) markDeletions() {
	if sc.result == nil {
		return
	}
	for _, l := range sc.result.Losses {
		e, victim := sc.keyEnd(l), sc.f.byName[l.First]
		if l.Cause != verdict.DeletedByOther || e == nil || victim == nil {
			continue
		}
		release := sc.f.ReleaseOf(e)
		if release == nil {
			continue
		}
		i := slices.IndexFunc(sc.deletions, func(d deletion) bool { return d.release == release })
		if i < 0 {
			i, sc.deletions = len(sc.deletions), append(sc.deletions, deletion{release: release, victim: victim})
		}
		sc.deletions[i].isCause = sc.deletions[i].isCause || l.Cause == sc.result.Cause
	}
	slices.SortStableFunc(sc.deletions, func(a, b deletion) int { return cmp.Compare(a.release.Applied, b.release.Applied) })
}

func (sc *layout) isViolated() bool { return sc.result != nil && sc.result.Outcome == verdict.Violated }

// isShown reports whether an instant is within the drawn span.
func (sc *layout) isShown(t int64) bool { return sc.from <= t && t <= sc.to }

// computeSpan determines the drawn span and the faults in it.
func (sc *layout) computeSpan() {
	sc.from, sc.to = never, 0
	if sc.outage != nil {
		sc.from = sc.outage.start()
	}
	for _, s := range sc.focus {
		if sc.outage != nil {
			continue
		}
		sc.from = min(sc.from, s.start())
		sc.to = max(sc.to, sc.endOf(s))
	}
	if sc.outage == nil && sc.f.Grants == 0 { // all attempts count
		for _, s := range sc.f.sessions {
			if slices.Contains(sc.clients(), s.Client()) {
				sc.from = min(sc.from, s.Acquire.Call.T)
			}
		}
	}
	for _, d := range sc.deletions {
		sc.from = min(sc.from, d.release.Sent)
		if d.isCause {
			sc.to = max(sc.to, d.release.Applied)
		}
	}
	for _, s := range sc.deleterSessions {
		sc.from = min(sc.from, s.start())
	}
	if sc.result != nil && sc.result.Witness != nil {
		sc.to = max(sc.to, min(sc.result.Witness.To, sc.f.end))
	}
	sc.from = min(sc.from, sc.to)
	from := sc.from
	for _, ft := range sc.f.faults {
		kind, _ := nemesis.KindOf(ft.Kind)
		if !sc.isRelevant(ft) || ft.From() > sc.to || ft.To() < from || kind.Instant && ft.From() < from {
			continue
		}
		if sc.hasNoEffect(ft) {
			sc.idlePauses = append(sc.idlePauses, ft)
			continue
		}
		if len(sc.faults) == maxTargets {
			sc.omittedFaults++
			continue
		}
		sc.faults = append(sc.faults, ft)
		sc.from = min(sc.from, ft.From())
	}
}

// hasNoEffect reports whether the story of a violation would be the same without a fault. This is
// so if the fault paused a client that had no request to the lock or to the storage in flight, and
// whose lease did not end during the pause. Such pauses are only counted: a reader can follow one
// of them, but not many.
func (sc *layout) hasNoEffect(ft *facts.Fault) bool {
	if sc.outage != nil || !sc.isViolated() || nemesis.WordingOf(ft.Kind).State != nemesis.Stopped || !slices.Contains(sc.f.Params.Clients, ft.Target) {
		return false
	}
	for _, s := range slices.Concat(sc.focus, sc.deleterSessions) {
		if s.Client() != ft.Target {
			continue
		}
		if ft.From() <= s.until && s.until <= ft.To() || ft.From() <= s.begin && s.start() <= ft.To() {
			return false
		}
		if sc.f.keyExpiredDuring(s, ft) {
			return false
		}
		for _, c := range s.calls[1:] {
			if ft.From() <= c.ReturnedAt() && c.Call.T <= ft.To() {
				return false
			}
		}
	}
	return !slices.ContainsFunc(sc.result.Losses, func(l verdict.Loss) bool { return slices.Contains(l.Steps, ft.Step) })
}

// keyExpiredDuring reports whether a key of a session reached its expiry, while the session's
// client still believed that it held the lock, during a fault or up to a node timeout later. A
// paused client renews nothing.
func (f *trace) keyExpiredDuring(s *session, ft *facts.Fault) bool {
	for _, node := range f.nodes() {
		for _, x := range f.Lives().Intervals(node, s.Key()) {
			expired := x.End == nil || x.End.Life.What == history.KeyExpired
			in := ft.From() <= x.To() && x.To() <= saturatingAdd(ft.To(), int64(f.Params.NodeTimeout))
			if expired && in && x.To() >= x.ExpiresAt() && x.To() < s.until && s.owns(x) {
				return true
			}
		}
	}
	return false
}

// findDeleters returns the sessions outside the focus whose clients sent releases that deleted a
// key.
func (sc *layout) findDeleters() []*session {
	var out []*session
	for _, d := range sc.deletions {
		client := facts.Sender(d.release)
		if slices.ContainsFunc(slices.Concat(sc.focus, out), func(s *session) bool { return s.Client() == client }) {
			continue
		}
		for _, s := range slices.Backward(sc.f.sessions) {
			sameToken := s.Token() == "" || d.release.Token == "" || s.Token() == d.release.Token
			if s.Client() == client && s.Granted() && s.begin <= d.release.Sent && sameToken {
				out = append(out, s)
				break
			}
		}
	}
	return out
}

// endOf returns when a session's part of the story ends: for a violation, when its writes were
// applied; otherwise, after its last action.
func (sc *layout) endOf(s *session) int64 {
	if !sc.isViolated() {
		return s.lastAction()
	}
	t := min(s.Acquire.ReturnedAt(), sc.f.end)
	for _, c := range s.calls {
		if c.Call.Op == history.OpWrite {
			t = max(t, c.Call.T, min(sc.f.appliedAt(c.Call.Value), sc.f.end))
		}
	}
	return t
}

// isRelevant reports whether a fault may concern the diagram: it hit a client that is shown, a link
// of such a client, or a node.
func (sc *layout) isRelevant(ft *facts.Fault) bool {
	if slices.ContainsFunc(sc.clients(), ft.Hits) ||
		slices.ContainsFunc(sc.deletions, func(d deletion) bool { return ft.Hits(facts.Sender(d.release)) }) {
		return true
	}
	return slices.Contains(sc.f.Params.Nodes, ft.Target) || ft.Target == sc.f.Params.Resource && ft.Target != ""
}

// noViolationShown ends the title of a diagram without a violation.
const noViolationShown = "no violation shown"

func (sc *layout) headline() string {
	p := sc.f.Params
	name := cmp.Or(p.Scenario, "run")
	if p.Variant != "" {
		name += "/" + p.Variant
	}
	if p.Backend != "" {
		name += fmt.Sprintf(" on %s, seed %d", p.Backend, p.Seed)
	}
	if !sc.isViolated() {
		return name + ": " + noViolationShown
	}
	what := sc.result.Property + " violated"
	if cause := sc.result.Cause; cause != "" {
		if sc.result.Node != "" {
			cause += ", " + sc.result.Node
		}
		what += " (" + cause + ")"
	}
	return name + ": " + what
}

// omissions lists what happened in the drawn span but is not drawn.
func (sc *layout) omissions() string {
	var clients []string
	n := 0
	for _, s := range sc.f.sessions {
		if s.Granted() && !slices.Contains(sc.focus, s) && !slices.Contains(sc.deleterSessions, s) && s.begin <= sc.to && s.lastAction() >= sc.from {
			n++
			clients = append(clients, s.Client())
		}
	}
	var parts []string
	if n > 0 {
		slices.Sort(clients)
		clients = slices.Compact(clients)
		if len(clients) > 5 {
			clients = append(clients[:4], fmt.Sprintf("%d others", len(clients)-4))
		}
		parts = append(parts, fmt.Sprintf("%s of %s", display.Plural(n, "other session"), joinNames(clients)))
	}
	if sc.omittedAttempts > 0 {
		parts = append(parts, display.Plural(sc.omittedAttempts, "attempt")+" by other clients")
	}
	if sc.omittedFaults > 0 {
		parts = append(parts, display.Plural(sc.omittedFaults, "other fault"))
	}
	if len(parts) == 0 {
		return ""
	}
	return "Not shown: " + strings.Join(parts, ", ") + "."
}

// maxLanes limits the lanes to what a reader can follow and a terminal can show.
const maxLanes = 6

// lanes holds the lanes of a diagram, from left to right.
type lanes struct {
	all     []lane
	at      map[string]int // lane of each process
	names   []string       // names of all processes
	storage int            // lane of the storage; -1: no storage
}

// lanesOf orders the lanes as in Kleppmann's figures: the first client, the lock, the other
// clients, the storage.
func lanesOf(sc *layout) *lanes {
	ls := &lanes{at: map[string]int{}, storage: -1, names: slices.Concat(sc.f.Params.Clients, sc.f.Params.Nodes)}
	clients := sc.clients()
	room := maxLanes - len(clients) - 1
	if len(clients) > 0 {
		ls.add(lane{Name: clients[0], Role: client, Members: clients[:1]})
	}
	for _, group := range sc.nodeGroups(room) {
		name := nodeRange(group)
		if len(group) == 0 {
			name = "locks"
		}
		ls.add(lane{Name: name, Role: locks, Members: group})
	}
	for _, c := range clients[min(1, len(clients)):] {
		ls.add(lane{Name: c, Role: client, Members: []string{c}})
	}
	if r := sc.resource(); r != "" {
		ls.storage = ls.add(lane{Name: r, Role: storage, Members: []string{r}})
	}
	return ls
}

func (ls *lanes) add(l lane) int {
	i := len(ls.all)
	ls.all = append(ls.all, l)
	for _, m := range l.Members {
		if _, ok := ls.at[m]; !ok {
			ls.at[m] = i
		}
	}
	return i
}

// laneOf returns the lane of a process, or false if it has none.
func (ls *lanes) laneOf(process string) (int, bool) {
	i, ok := ls.at[process]
	return i, ok
}

// isProcessName reports whether a subject is the name of a process or begins with one. Such a
// subject is not capitalized at the start of a sentence.
func (ls *lanes) isProcessName(subject string) bool {
	subject, _, _ = strings.Cut(subject, " ")
	subject = strings.TrimSuffix(subject, ",")
	if slices.ContainsFunc(ls.names, func(n string) bool { return shorten(n) == subject }) {
		return true
	}
	return slices.ContainsFunc(ls.all, func(l lane) bool {
		return shorten(l.Name) == subject || slices.ContainsFunc(l.Members, func(m string) bool { return shorten(m) == subject })
	})
}

// laneEvents holds the commands to the nodes of one lane.
type laneEvents struct {
	lane   int
	events []*event
}

// byLane groups commands by the lanes of their nodes, from left to right.
func (ls *lanes) byLane(events []*event) []laneEvents {
	lock := slices.IndexFunc(ls.all, func(l lane) bool { return l.Role == locks })
	laneOf := func(e *event) int {
		if lane, ok := ls.laneOf(e.Node); ok {
			return lane
		}
		return lock
	}
	var out []laneEvents
	for _, g := range groupBy(events, laneOf) {
		if lane := laneOf(g[0]); lane >= 0 {
			out = append(out, laneEvents{lane, g})
		}
	}
	slices.SortFunc(out, func(a, c laneEvents) int { return cmp.Compare(a.lane, c.lane) })
	return out
}

// firstSent returns when the first of the commands was sent, or 0 if that is unknown.
func (g laneEvents) firstSent() int64 {
	t := int64(never)
	for _, e := range g.events {
		if e.Sent != 0 {
			t = min(t, e.Sent)
		}
	}
	if t == never {
		return 0
	}
	return t
}

// lastApplied returns when the last of the commands was applied.
func (g laneEvents) lastApplied() (t int64) {
	for _, e := range g.events {
		t = max(t, e.Applied)
	}
	return t
}
