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

// line is a line of text of fixed width.
type line []rune

func newLine(width int) line { return []rune(strings.Repeat(" ", width)) }

// put writes s at column x. It drops anything outside the line.
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

// text returns the line without trailing blanks but with a newline.
func (l line) text() string { return strings.TrimRight(string(l), " ") + "\n" }

// page is the column layout of a text drawing.
type page struct {
	d            Diagram
	width        int
	decimals     map[int64]int // number of decimal places, by time
	wholeDigits  int           // maximum number of characters before the decimal point
	maxDecimals  int           // maximum number of decimal places
	firstColumn  int           // column of the first lane
	laneDistance int           // columns from one lane to the next
	labelColumn  int           // first column of the labels
	longGap      int64         // longer gaps between facts get their own row
	usedStates   map[state]bool
}

const (
	maxLaneWidth = 17
	minLaneWidth = 7
	goodLabel    = 42 // label width that fits most labels on two lines
)

func newPage(d Diagram, rows []row, width int) *page {
	p := &page{d: d, width: width, maxDecimals: 3, usedStates: map[state]bool{}}
	p.decimals = decimalPlaces(rows)
	for _, r := range rows {
		p.maxDecimals = max(p.maxDecimals, p.decimals[r.at])
		p.wholeDigits = max(p.wholeDigits, strings.IndexByte(display.Decimal(r.at, 3), '.'))
	}
	p.wholeDigits = max(p.wholeDigits, len("seconds")-1-p.maxDecimals)
	p.firstColumn = p.wholeDigits + 1 + p.maxDecimals + 3 // the gutter between two spaces
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

// decimalPlaces returns the number of decimal places to print for each time. Different consecutive
// times look different.
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

// drawLanes draws the state of all lanes at the given time, and marks the gutter if something was
// wrong then.
func (p *page) drawLanes(l line, at int64) {
	for i := range p.d.Lanes {
		r, isPaused := '│', false
		for _, b := range p.d.Bars {
			if b.Lane != i || at < b.From || at >= b.To {
				continue
			}
			p.usedStates[b.State] = true
			switch b.State {
			case stateBelieving:
				r = '┃'
			case stateDead:
				r = ' '
			case stateLeftoverKey:
				r = '║'
			case statePaused:
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

// drawArrows draws the arrows of one fact, the longest first, and returns the label to print next to
// them.
func (p *page) drawArrows(l line, r row) string {
	for distance := len(p.d.Lanes); distance > 0; distance-- {
		for _, a := range r.arrows {
			if max(a.From-a.To, a.To-a.From) == distance {
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

// drawShaft draws an arrow from lane to lane, across any lanes in between.
func (p *page) drawShaft(l line, a arrow, part part) {
	from, to := p.x(a.From), p.x(a.To)
	step, tail, head := 1, "├", ">"
	if to < from {
		step, tail, head = -1, "┤", "<"
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
			mark = string(l.at(x)) // the end of another arrow of this fact
		}
		l.put(x, mark)
	}
	if part != arrival {
		if r := l.at(from); r == '┼' {
			tail = "┴"
		}
		l.put(from, tail)
	}
	switch {
	case a.Lost || part == departure:
		p.drawEnd(l, a, to, step)
	default:
		l.put(to-step, head)
		if l.at(to) == '┼' { // another arrow continues from here
			l.put(to, tail)
		}
		if a.Mark != "" {
			l.put(to, string(a.Mark))
		}
	}
}

// drawEnd draws the end of a shaft short of its lane, for a message that was lost or is still in
// flight.
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

// drawLabel writes an arrow's label on the shaft, near the client, where readers look first. It
// reports whether the label fits.
func (p *page) drawLabel(l line, a arrow, part part) bool {
	text := " " + escape(a.Label) + " "
	n := utf8.RuneCountInString(text)
	room := p.laneDistance - 3 // leaves room for a dash and the arrowhead
	if a.Lost || part == departure {
		room -= 2
	}
	if a.Label == "" || n > room {
		return a.Label == ""
	}
	leftLane := a.From
	if a.To < a.From {
		leftLane = a.From - 1
	}
	if a.Answer {
		leftLane = a.To
		if a.To > a.From {
			leftLane = a.To - 1
		}
	}
	l.put(p.x(leftLane)+1+(p.laneDistance-1-n)/2, text)
	return true
}

// layout is the part of a trace to draw.
type layout struct {
	f               *trace
	result          *verdict.Result // nil without a violation
	focus           []*session
	deletions       []deletion
	deleterSessions []*session     // sessions outside the focus whose releases deleted a key
	faults          []*facts.Fault // faults that may have affected what is drawn
	idlePauses      []*facts.Fault // client pauses that had no effect
	from, to        int64          // time span to draw
	omittedFaults   int            // number of faults not drawn
	outage          *outage        // nil if the diagram is not about an outage
	omittedAttempts int            // number of attempts by clients without a lane, in an outage
	clientCache     []string       // cached result of clients
}

// maxTargets limits the number of faults in a layout, counted per target.
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

// markDeletions marks the deletions that the verdict names as a cause. It adds missing deletions: if the
// key was deleted before the acquire that set it returned, the method deletions does not find it.
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
	slices.SortStableFunc(sc.deletions, func(a, b deletion) int { return cmp.Compare(a.release.AppliedAt, b.release.AppliedAt) })
}

func (sc *layout) isViolated() bool { return sc.result != nil && sc.result.Outcome == verdict.Violated }

// isShown reports whether a time is in the drawn span.
func (sc *layout) isShown(t int64) bool { return sc.from <= t && t <= sc.to }

// computeSpan determines the time span to draw and the faults in it.
func (sc *layout) computeSpan() {
	sc.from, sc.to = noTime, 0
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
	if sc.outage == nil && sc.f.Grants == 0 { // show all attempts
		for _, s := range sc.f.sessions {
			if slices.Contains(sc.clients(), s.Client()) {
				sc.from = min(sc.from, s.Acquire.Call.T)
			}
		}
	}
	for _, d := range sc.deletions {
		sc.from = min(sc.from, d.release.SentAt)
		if d.isCause {
			sc.to = max(sc.to, d.release.AppliedAt)
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
		if !sc.isRelevant(ft) || ft.From() > sc.to || ft.To() < from || kind.IsInstant && ft.From() < from {
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

// hasNoEffect reports whether a fault did not contribute to a violation because it paused a client
// that had no request in flight to the lock or the storage and whose lease did not end during the
// pause. Such pauses are counted rather than drawn, because a reader cannot follow many of them.
func (sc *layout) hasNoEffect(ft *facts.Fault) bool {
	if sc.outage != nil || !sc.isViolated() || nemesis.WordingOf(ft.Kind).State != nemesis.StateStopped || !slices.Contains(sc.f.Params.Clients, ft.Target) {
		return false
	}
	for _, s := range slices.Concat(sc.focus, sc.deleterSessions) {
		if s.Client() != ft.Target {
			continue
		}
		if ft.From() <= s.beliefEnd && s.beliefEnd <= ft.To() || ft.From() <= s.beliefStart && s.start() <= ft.To() {
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

// keyExpiredDuring reports whether one of the session's keys reached its expiry during a fault or up
// to a node timeout later, while the client still believed that it held the lock. A paused client
// renews no keys.
func (f *trace) keyExpiredDuring(s *session, ft *facts.Fault) bool {
	for _, node := range f.nodes() {
		for _, x := range f.Lives().Intervals(node, s.Key()) {
			expired := x.End == nil || x.End.Life.Kind == history.KeyExpired
			in := ft.From() <= x.To() && x.To() <= saturatingAdd(ft.To(), int64(f.Params.NodeTimeout))
			if expired && in && x.To() >= x.ExpiresAt() && x.To() < s.beliefEnd && s.owns(x) {
				return true
			}
		}
	}
	return false
}

// findDeleters returns the sessions outside the focus whose releases deleted a key.
func (sc *layout) findDeleters() []*session {
	var out []*session
	for _, d := range sc.deletions {
		client := facts.Sender(d.release)
		if slices.ContainsFunc(slices.Concat(sc.focus, out), func(s *session) bool { return s.Client() == client }) {
			continue
		}
		for _, s := range slices.Backward(sc.f.sessions) {
			sameToken := s.Token() == "" || d.release.Token == "" || s.Token() == d.release.Token
			if s.Client() == client && s.Granted() && s.beliefStart <= d.release.SentAt && sameToken {
				out = append(out, s)
				break
			}
		}
	}
	return out
}

// endOf returns when the drawing of a session ends: for a violation, when its writes have been
// applied; otherwise, after its last action.
func (sc *layout) endOf(s *session) int64 {
	if !sc.isViolated() {
		return s.lastActionTime()
	}
	t := min(s.Acquire.ReturnedAt(), sc.f.end)
	for _, c := range s.calls {
		if c.Call.Op == history.OpWrite {
			t = max(t, c.Call.T, min(sc.f.appliedAt(c.Call.Value), sc.f.end))
		}
	}
	return t
}

// isRelevant reports whether a fault hit a client in the drawing, a link of such a client, a node or
// the resource.
func (sc *layout) isRelevant(ft *facts.Fault) bool {
	if slices.ContainsFunc(sc.clients(), ft.Hits) ||
		slices.ContainsFunc(sc.deletions, func(d deletion) bool { return ft.Hits(facts.Sender(d.release)) }) {
		return true
	}
	return slices.Contains(sc.f.Params.Nodes, ft.Target) || ft.Target == sc.f.Params.Resource && ft.Target != ""
}

// noViolationShown is the end of the title if the diagram shows no violation.
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

// omissions states what happened in the drawn span but is not drawn.
func (sc *layout) omissions() string {
	var clients []string
	n := 0
	for _, s := range sc.f.sessions {
		if s.Granted() && !slices.Contains(sc.focus, s) && !slices.Contains(sc.deleterSessions, s) && s.beliefStart <= sc.to && s.lastActionTime() >= sc.from {
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

// maxLanes limits the number of lanes to what a reader can follow and a terminal can show.
const maxLanes = 6

// lanes is the list of a diagram's lanes, from left to right.
type lanes struct {
	all     []lane
	indexOf map[string]int // index in all, by process
	names   []string       // of all clients and nodes
	storage int            // index of the storage's lane, or -1
}

// newLanes orders the lanes as in Kleppmann's figures: the first client, the lock, the other clients,
// the storage.
func newLanes(sc *layout) *lanes {
	ls := &lanes{indexOf: map[string]int{}, storage: -1, names: slices.Concat(sc.f.Params.Clients, sc.f.Params.Nodes)}
	clients := sc.clients()
	room := maxLanes - len(clients) - 1
	if len(clients) > 0 {
		ls.add(lane{Name: clients[0], Role: clientRole, Members: clients[:1]})
	}
	for _, group := range sc.nodeGroups(room) {
		name := nodeRange(group)
		if len(group) == 0 {
			name = "locks"
		}
		ls.add(lane{Name: name, Role: lockRole, Members: group})
	}
	for _, c := range clients[min(1, len(clients)):] {
		ls.add(lane{Name: c, Role: clientRole, Members: []string{c}})
	}
	if r := sc.resource(); r != "" {
		ls.storage = ls.add(lane{Name: r, Role: storageRole, Members: []string{r}})
	}
	return ls
}

func (ls *lanes) add(l lane) int {
	i := len(ls.all)
	ls.all = append(ls.all, l)
	for _, m := range l.Members {
		if _, ok := ls.indexOf[m]; !ok {
			ls.indexOf[m] = i
		}
	}
	return i
}

// laneOf returns the lane of a process, or false if the process has none.
func (ls *lanes) laneOf(process string) (int, bool) {
	i, ok := ls.indexOf[process]
	return i, ok
}

// isProcessName reports whether a subject is or begins with the name of a process, which must not be
// capitalized.
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

// laneEvents is a list of commands to the nodes in one lane.
type laneEvents struct {
	lane   int
	events []*event
}

// groupByLane groups commands by their node's lane, from left to right.
func (ls *lanes) groupByLane(events []*event) []laneEvents {
	lock := slices.IndexFunc(ls.all, func(l lane) bool { return l.Role == lockRole })
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

// firstSendTime returns when the first command was sent, or 0 if unknown.
func (g laneEvents) firstSendTime() int64 {
	t := int64(noTime)
	for _, e := range g.events {
		if e.SentAt != 0 {
			t = min(t, e.SentAt)
		}
	}
	if t == noTime {
		return 0
	}
	return t
}

// lastApplyTime returns when the last command was applied.
func (g laneEvents) lastApplyTime() (t int64) {
	for _, e := range g.events {
		t = max(t, e.AppliedAt)
	}
	return t
}
