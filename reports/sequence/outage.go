package sequence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
)

// outage describes a liveness violation. Its drawing starts at the cause: the attempt or session that
// left keys on nodes, or the call that did not return.
//
//	c1 sets its keys      nobody acquires (per the verdict)     c2 acquires
//	      |--------------|====================================|-----|
//
// The history provides all facts: which key was on a node when the node refused an attempt, who had
// set the key, and how long the key existed.
type outage struct {
	f      *trace
	result *verdict.Result
	key    string
	to     int64 // end of the outage or of the record, whichever is earlier

	lastHolder     *session // last holder, if neither keys nor calls explain the outage; or nil
	leftKeys       []*leftKeys
	omittedKeys    []*leftKeys // groups that are not drawn
	hungCalls      []hungCall
	failedAttempts []*failedAttempts // by client, most attempts first
	nextHolder     *session          // session whose acquire ended the outage, or nil
	wait           replyWait         // nextHolder's longest wait in its winning attempt
}

// replyWait is the longest time during which a winning attempt did nothing but wait for replies.
type replyWait struct {
	nodes    []string // nodes it waited for; empty if it did not wait
	from, to int64
}

// longestWait finds a session's longest wait before it got the lock, and the nodes it waited for.
// Nodes that were never contacted, for example because connecting failed, count only if it waited for
// no other node.
func longestWait(f *trace, s *session) (w replyWait) {
	if s.winningRound == nil {
		return w
	}
	at := []int64{s.beliefStart}
	for _, e := range s.winningRound {
		at = append(at, e.SentAt)
		if e.AnsweredAt != 0 && e.AnsweredAt < s.beliefStart {
			at = append(at, e.AnsweredAt)
		}
	}
	slices.Sort(at)
	for i := range at[1:] {
		if saturatingSub(at[i+1], at[i]) > saturatingSub(w.to, w.from) {
			w.from, w.to = at[i], at[i+1]
		}
	}
	var notContacted []string
	for _, n := range f.nodes() {
		switch e := commandTo(s.winningRound, n); {
		case e == nil:
			notContacted = append(notContacted, n)
		case e.SentAt <= w.from && (e.AnsweredAt == 0 || e.AnsweredAt >= w.to):
			w.nodes = append(w.nodes, n)
		}
	}
	if len(w.nodes) == 0 {
		w.nodes = notContacted
	}
	if saturatingSub(w.to, w.from) <= f.slowThreshold() {
		return replyWait{}
	}
	return w
}

// leftKeys are keys that an attempt left on nodes when it ended, and that made the nodes refuse later
// attempts.
type leftKeys struct {
	attempt    *facts.Attempt // nil if the links recorded no such attempt
	original   *facts.Attempt // earlier attempt that this attempt repeats with the same token, or nil
	session    *session       // the attempt's session, or nil
	client     string
	intervals  []*facts.KeyInterval
	numRefused int // number of requests refused because of these keys
}

// hungCall is a call that did not return during the outage, or an acquire that sent no request for
// longer than the bound.
type hungCall struct {
	*session
	facts.Operation
	lastRequest int64          // when the acquire sent its last request before the pause, or else when it was called
	nextRequest int64          // when it sent the next request, or noTime
	lastAttempt *facts.Attempt // last attempt before the pause, or nil
}

// Limits to what a reader can follow.
const (
	maxLeftKeys  = 2
	maxHungCalls = 2
)

// outageOf returns the outage that r describes, or nil if r is not a liveness violation.
func outageOf(f *trace, r *verdict.Result) *outage {
	if r == nil || r.Witness == nil || r.Outcome != verdict.Violated || r.Property != verdict.FaultTolerance && r.Property != verdict.DeadlockFreedom {
		return nil
	}
	o := &outage{f: f, result: r, key: r.Witness.Key, to: min(r.Witness.To, f.end)}
	for _, s := range f.sessions {
		if s.Granted() && s.Key() == o.key && s.beliefStart == r.Witness.To {
			o.nextHolder = s
		}
	}
	if o.nextHolder != nil {
		o.wait = longestWait(f, o.nextHolder)
	}
	o.findHungCalls()
	o.findFailedAttempts()
	o.findHolder()
	return o
}

// findHolder finds the last holder named by the verdict.
func (o *outage) findHolder() {
	for _, name := range o.result.Witness.Sessions {
		s := o.f.byName[name]
		if s == nil || s == o.nextHolder || s.Acquire.Call.T >= o.result.Witness.From || !s.Granted() && o.result.Property != verdict.DeadlockFreedom {
			continue
		}
		if o.result.Property == verdict.DeadlockFreedom || len(o.leftKeys) == 0 && !slices.ContainsFunc(o.hungCalls, func(h hungCall) bool { return h.session == s }) {
			o.lastHolder = s
		}
		return
	}
}

// findHungCalls finds acquires that sent no request for longer than the bound, and other calls of the
// witness's sessions that did not return.
func (o *outage) findHungCalls() {
	if !slices.Contains([]string{verdict.Hung, verdict.WaitedLong, verdict.Unexplained}, o.result.Cause) {
		return
	}
	w := o.result.Witness
	for _, s := range o.f.sessions {
		if s.Key() != o.key || len(o.hungCalls) == maxHungCalls {
			continue
		}
		for _, c := range s.calls {
			if c.Call.T >= o.to || c.ReturnedAt() < w.To {
				continue
			}
			call := hungCall{session: s, Operation: c}
			switch c.Call.Op {
			case history.OpAcquire:
				o.findPause(&call)
				if saturatingSub(min(o.to, call.nextRequest), call.lastRequest) <= o.result.Bound {
					continue
				}
			case history.OpRelease, history.OpExtend:
				if !slices.Contains(w.Sessions, s.Name()) {
					continue
				}
			default:
				continue
			}
			o.hungCalls = append(o.hungCalls, call)
		}
	}
}

// findPause finds the time during which an acquire sent no request before its winning attempt or the
// end of the outage.
func (o *outage) findPause(h *hungCall) {
	h.lastRequest, h.nextRequest = h.Call.T, noTime
	for _, a := range o.attempts() {
		for _, e := range a.AllSets {
			switch {
			case a.Session != h.Session:
			case a.Won:
				h.nextRequest = min(h.nextRequest, e.SentAt)
			case e.SentAt < o.to && e.SentAt > h.lastRequest:
				h.lastAttempt, h.lastRequest = a, e.SentAt
			}
		}
	}
}

// attempts lists the attempts that started before the outage ended.
func (o *outage) attempts() []*facts.Attempt {
	w := o.f.AttemptsByLock()[o.key]
	if w == nil {
		return nil
	}
	i, _ := slices.BinarySearchFunc(w.Attempts, o.to, func(a *facts.Attempt, at int64) int { return cmp.Compare(a.From, at) })
	return w.Attempts[:i]
}

// findFailedAttempts finds the failed attempts and the keys that blocked them.
func (o *outage) findFailedAttempts() {
	var attempts []*facts.Attempt
	refused := map[*facts.KeyInterval]int{}
	for _, a := range o.attempts() {
		if a.Won || a.From < o.result.Witness.From && a.End <= o.result.Witness.From {
			continue
		}
		attempts = append(attempts, a)
		for _, e := range a.AllSets {
			if s := o.f.blockingKey(e, a.From); s != nil && a.From >= o.result.Witness.From && o.attemptEnded(s, a.From) {
				refused[s]++
			}
		}
	}
	if o.canInvolveKeys() {
		o.findLeftKeys(refused)
	}
	byClient := map[string]*failedAttempts{}
	for _, a := range attempts {
		if o.isDrawnSeparately(a) {
			continue
		}
		client := a.Session.Client()
		if byClient[client] == nil {
			byClient[client] = newFailedAttempts(o.f, client)
			o.failedAttempts = append(o.failedAttempts, byClient[client])
		}
		byClient[client].add(a.From, a.AllSets)
		if end := min(a.End, o.f.end); o.result.Cause == verdict.WaitedLong && saturatingSub(end, a.From) > max(saturatingSub(byClient[client].longestSpan[1], byClient[client].longestSpan[0]), saturatingSub(o.wait.to, o.wait.from)) {
			byClient[client].longestSpan = [2]int64{a.From, end}
		}
	}
	slices.SortStableFunc(o.failedAttempts, func(a, b *failedAttempts) int { return cmp.Compare(b.rounds, a.rounds) })
}

// canInvolveKeys reports whether leftover keys can be involved in the verdict's cause.
func (o *outage) canInvolveKeys() bool {
	return !slices.Contains([]string{verdict.WaitedLong, verdict.SplitVote, verdict.TurnedAway, verdict.TooFewVotes, verdict.GaveUp, verdict.Hung}, o.result.Cause)
}

// isDrawnSeparately reports whether an attempt gets its own drawing because it left keys or its
// acquire hung.
func (o *outage) isDrawnSeparately(a *facts.Attempt) bool {
	return slices.ContainsFunc(o.leftKeys, func(l *leftKeys) bool { return l.attempt == a || l.original == a }) ||
		slices.ContainsFunc(o.hungCalls, func(h hungCall) bool { return h.lastAttempt == a })
}

// attemptEnded reports whether the attempt that set a key had ended by the given time. A successful
// attempt ends when its client dies, or a node timeout, the time allowed to contact a node, after the
// client called release.
func (o *outage) attemptEnded(s *facts.KeyInterval, at int64) bool {
	a := o.owner(s)
	if a == nil {
		return true
	}
	end := a.End
	if call := a.Session.FirstRelease(); a.Won && call != nil {
		end = min(end, saturatingAdd(call.T, int64(o.f.Params.NodeTimeout)))
	}
	return end <= at
}

// owner returns the attempt that set a key, or nil.
func (o *outage) owner(s *facts.KeyInterval) *facts.Attempt {
	setTime := cmp.Or(s.Start.SentAt, s.From())
	for _, a := range slices.Backward(o.attempts()) {
		if a.From <= setTime && s.HasToken(a.Token) && a.Session.Client() == facts.LinkClient(s.Setter()) {
			return a
		}
	}
	return nil
}

// findLeftKeys groups the keys that blocked attempts by the attempt that left them. It selects the
// groups that blocked the most attempts for drawing.
func (o *outage) findLeftKeys(refused map[*facts.KeyInterval]int) {
	for _, node := range o.f.nodes() {
		for _, s := range o.f.Lives().Intervals(node, o.key) {
			if refused[s] == 0 {
				continue
			}
			a := o.owner(s)
			i := slices.IndexFunc(o.leftKeys, func(l *leftKeys) bool { return l.attempt == a && (a != nil || l.intervals[0].Value == s.Value) })
			if i < 0 {
				l := &leftKeys{attempt: a, client: facts.Issuer(s.Start)}
				if a != nil {
					l.session, l.original = o.f.bySession[a.Session], o.originalAttempt(a)
				}
				i, o.leftKeys = len(o.leftKeys), append(o.leftKeys, l)
			}
			o.leftKeys[i].intervals, o.leftKeys[i].numRefused = append(o.leftKeys[i].intervals, s), o.leftKeys[i].numRefused+refused[s]
		}
	}
	slices.SortStableFunc(o.leftKeys, func(a, b *leftKeys) int { return cmp.Compare(b.numRefused, a.numRefused) })
	n := min(len(o.leftKeys), maxLeftKeys)
	o.leftKeys, o.omittedKeys = o.leftKeys[:n], o.leftKeys[n:]
	slices.SortStableFunc(o.leftKeys, func(a, b *leftKeys) int { return cmp.Compare(a.intervals[0].From(), b.intervals[0].From()) })
}

// originalAttempt returns the earlier attempt that a repeats with the same token, or nil. For example,
// a driver may resend a request after its client gave up.
func (o *outage) originalAttempt(a *facts.Attempt) *facts.Attempt {
	for _, b := range o.attempts() {
		if b == a || a.End > a.From {
			return nil
		}
		if b.Token == a.Token && b.Session.Client() == a.Session.Client() {
			return b
		}
	}
	return nil
}

// start returns when the cause of the outage started.
func (o *outage) start() int64 {
	at := o.result.Witness.From
	for _, l := range o.leftKeys {
		for _, s := range l.intervals {
			at = min(at, s.From())
		}
		if l.attempt != nil {
			at = min(at, l.attempt.From)
		}
		if l.original != nil {
			at = min(at, l.original.From)
		}
	}
	if o.lastHolder != nil {
		at = min(at, o.lastHolder.start())
	}
	for _, v := range o.failedAttempts {
		at = min(at, v.from)
	}
	for _, h := range o.hungCalls {
		at = min(at, h.Call.T)
		if h.Granted() {
			at = min(at, h.start())
		}
	}
	return at
}

// sessions lists the sessions to draw: sessions that left keys or whose calls hung, the last holder,
// and the session that ended the outage.
func (o *outage) sessions() (all []*session) {
	add := func(s *session) {
		if s != nil && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	if o.result.Property == verdict.DeadlockFreedom {
		add(o.lastHolder)
	}
	for _, l := range o.leftKeys {
		add(l.session)
	}
	for _, h := range o.hungCalls {
		add(h.session)
	}
	add(o.lastHolder)
	add(o.nextHolder)
	return all
}

// clients lists the clients that get a lane: first the clients of the drawn sessions, then the
// clients with the most attempts.
func (o *outage) clients() []string {
	var out []string
	for _, s := range o.sessions() {
		out = append(out, s.Client())
	}
	for _, v := range o.failedAttempts {
		out = append(out, v.client)
	}
	for _, name := range o.result.Witness.Sessions {
		if s := o.f.byName[name]; s != nil && len(o.failedAttempts) == 0 {
			out = append(out, s.Client())
		}
	}
	out = uniqueNames(out)
	return out[:min(maxClients, len(out))]
}

// signature returns the same text for all nodes with the same leftover keys, provided that the keys
// ended the same way.
func (o *outage) signature(node string) string {
	var parts []string
	for i, l := range o.leftKeys {
		for _, s := range l.intervals {
			if s.Node == node {
				parts = append(parts, fmt.Sprint("key ", i, o.fate(l, s)))
			}
		}
	}
	return strings.Join(parts, ", ")
}

type outageDrawing struct {
	*builder
	*outage
}

// draw draws the outage's cause, the failed attempts, and the outage's end.
func (b outageDrawing) draw() {
	o := b.outage
	isDrawn := map[*session]bool{}
	if s := o.lastHolder; s != nil {
		isDrawn[s] = true
		b.drawWinningRound(s)
		b.drawLease(s)
		b.drawExtendsAndReleases(s)
	}
	for _, l := range o.leftKeys {
		if s := l.session; s != nil && l.attempt.Won && !isDrawn[s] {
			isDrawn[s] = true
			b.drawWinningRound(s)
			b.drawLease(s)
			b.drawExtendsAndReleases(s)
		} else if s != nil && !l.attempt.Won {
			if l.original != nil {
				b.drawAttempt(l.original, "")
			}
			b.drawAttempt(l.attempt, map[bool]string{true: " again"}[l.original != nil])
			isDrawn[s] = true
		}
		b.drawLeftKeys(l)
	}
	for _, h := range o.hungCalls {
		b.drawHungCall(h)
		if h.Call.Op != history.OpAcquire && !isDrawn[h.session] {
			isDrawn[h.session] = true
			b.drawWinningRound(h.session)
			b.drawLease(h.session)
			b.drawExtendsAndReleases(h.session)
		}
	}
	for _, client := range b.layout.clients() {
		b.drawFailures(client, failures(b.layout, func(s *session) bool { return s.Client() == client && s.Key() == o.key }))
	}
	for _, v := range o.failedAttempts {
		if lane, ok := b.lanes.laneOf(v.client); ok {
			b.drawFailedAttempts(v, lane, true)
		} else if len(b.layout.clients()) == maxClients && len(o.failedAttempts) <= maxClients+1 {
			b.addFailedAttemptsToCaption(v)
		} else {
			b.layout.omittedAttempts += v.rounds
		}
	}
	b.drawSpan()
	if o.nextHolder != nil && !isDrawn[o.nextHolder] {
		b.drawWinningRound(o.nextHolder)
		b.drawLease(o.nextHolder)
	}
}

// drawWait draws, for the acquire that ended an outage, which nodes it waited for and the replies
// that had already arrived. It returns the lanes with later replies, which are still to be drawn.
func (b *builder) drawWait(me int, g grant, lanes []laneEvents) (later []laneEvents) {
	o := b.layout.outage
	if o == nil || g.s != o.nextHolder || len(o.wait.nodes) == 0 {
		return lanes
	}
	who, w := shorten(g.s.Client()), o.wait
	label, verb := who+" waits", "waited"
	early := votersUntil(g.winningRound, w.from)
	if len(early) > 0 {
		had := fmt.Sprintf("%d of %d votes", len(early), g.numNodes)
		label, verb = fmt.Sprintf("%s has %s, and waits", who, had), fmt.Sprintf("had %s at %s, and waited", had, display.Seconds(w.from))
	}
	b.sheet.numFacts++
	for _, l := range lanes {
		if slices.ContainsFunc(l.events, func(e *event) bool { return slices.Contains(g.votingNodes, e.Node) && !slices.Contains(early, e.Node) }) {
			later = append(later, l)
			continue
		}
		l.events = slices.DeleteFunc(l.events, func(e *event) bool { return !slices.Contains(early, e.Node) })
		if len(l.events) > 0 {
			answered := slices.Max(collect(l.events, func(e *event) int64 { return e.AnsweredAt }))
			b.sheet.addArrow(arrow{From: l.lane, To: me, Answer: true, Label: fmt.Sprintf("ok %d/%d", len(early), g.numNodes),
				Sent: min(l.lastApplyTime(), answered), Arrived: answered, Events: eventNumbers(l.events...)})
		}
	}
	nodes := nodeList(w.nodes)
	b.sheet.addNote(note{Lane: me, At: w.from, Mark: dotSymbol, Bad: true, Label: fmt.Sprintf("%s for %s until %s", label, nodes, display.Seconds(w.to)), Events: eventNumbers(g.winningRound...)})
	b.caption.add(w.from, who, fmt.Sprintf("%s for %s %s", verb, nodes, map[bool]string{true: "until " + display.Seconds(w.to), false: display.Interval(w.from, w.to)}[len(early) > 0]))
	return later
}

// drawExtendsAndReleases draws a session's extensions and release.
func (b outageDrawing) drawExtendsAndReleases(s *session) {
	lane, ok := b.lanes.laneOf(s.Client())
	for _, c := range s.calls {
		switch {
		case !ok || !b.layout.isShown(c.Call.T):
		case c.Call.Op == history.OpRelease:
			b.drawRelease(s, c, lane)
		case c.Call.Op == history.OpExtend:
			b.drawExtend(s, c, lane)
		}
	}
}

// drawAttempt draws a failed attempt's requests and the releases of its keys.
func (b outageDrawing) drawAttempt(a *facts.Attempt, suffix string) {
	client := a.Session.Client()
	me, ok := b.lanes.laneOf(client)
	if !ok {
		return
	}
	draw := func(label, detail, words string, requests []*event) {
		requests = slices.DeleteFunc(slices.Clone(requests), func(e *event) bool { return e.SentAt == 0 || !b.layout.isShown(e.SentAt) })
		if len(requests) == 0 {
			return
		}
		b.sheet.numFacts++
		for _, g := range b.lanes.groupByLane(requests) {
			m := arrow{From: me, To: g.lane, Label: label, Detail: detail, Sent: g.firstSendTime(), Arrived: g.lastApplyTime(), Events: eventNumbers(g.events...)}
			m.Lost = m.Arrived == 0 || m.Arrived > b.layout.to
			b.sheet.addArrow(m)
		}
		nodes, sent := nodeList(nodesOf(requests)), collect(requests, func(e *event) int64 { return e.SentAt })
		b.caption.add(slices.Min(sent), shorten(client), fmt.Sprintf(words, nodes, formatInstants("at", sent)))
	}
	key := shorten(a.Session.Key())
	draw("acquire", shorten(client)+" tries to acquire "+key+suffix, "asked %s for "+key+suffix+" %s", a.AllSets)
	draw("release", shorten(client)+" deletes its keys", "sent a release of its key to %s %s", a.Releases)
}

// failure groups a client's acquires that failed in the same way.
type failure struct {
	outcome, message string // message is the lock's error message
	times            []int64
	returnEvents     []*event
}

// failures lists how the acquires of the selected sessions failed, the most frequent failure first.
func failures(sc *layout, isSelected func(*session) bool) (all []*failure) {
	for _, s := range sc.f.sessions {
		ret := s.Acquire.Return
		if ret == nil || s.Granted() || !sc.isShown(ret.T) || !isSelected(s) {
			continue
		}
		result, message := "failed", display.Truncate(strings.TrimRight(strings.ReplaceAll(ret.Cause, "\n", "; "), "."), maxReadBack)
		if ret.Type == history.Info {
			result = "ended with an unknown outcome"
		}
		i := slices.IndexFunc(all, func(f *failure) bool { return f.outcome == result && f.message == message })
		if i < 0 {
			i, all = len(all), append(all, &failure{outcome: result, message: message})
		}
		all[i].times, all[i].returnEvents = append(all[i].times, ret.T), append(all[i].returnEvents, ret)
	}
	slices.SortStableFunc(all, func(a, b *failure) int { return cmp.Compare(len(b.times), len(a.times)) })
	return all[:min(len(all), maxFailures)]
}

// maxFailures limits the number of different failures to what a reader can follow.
const maxFailures = 3

// failuresOf lists how a session's acquire failed. If nobody got the lock in the run, it covers all
// of the client's acquires.
func failuresOf(sc *layout, s *session) []*failure {
	return failures(sc, func(o *session) bool {
		return o == s || sc.f.Grants == 0 && o.Client() == s.Client() && o.Key() == s.Key()
	})
}

// drawFailures adds notes about a client's failed acquires, with the lock's error messages.
func (b *builder) drawFailures(client string, all []*failure) {
	lane, ok := b.lanes.laneOf(client)
	if !ok {
		return
	}
	for _, f := range all {
		why, first, last := "", slices.Min(f.times), slices.Max(f.times)
		if f.message != "" {
			why = ": " + f.message
		}
		presentVerb := map[string]string{"failed": "fails"}[f.outcome]
		label := fmt.Sprintf("%s's acquire %s", shorten(client), cmp.Or(presentVerb, "ends with an unknown outcome"))
		words := fmt.Sprintf("acquire %s ", f.outcome)
		if len(f.times) > 1 {
			label += " " + display.Times(len(f.times)) + ", until " + display.Seconds(last)
			words += display.Times(len(f.times)) + " "
		}
		b.sheet.addNote(note{Lane: lane, At: first, Mark: crossSymbol, Label: label + why, Events: eventNumbers(f.returnEvents...)})
		b.caption.addPossessive(first, shorten(client), words+display.Interval(first, last)+why)
	}
}

// keyFate describes what happened to a leftover key on a node, and what its client did about it.
type keyFate struct {
	endVerb     string // how the key ended, as a verb; "" or "forever" if it existed until the end of the record
	actor       string // the verb's subject
	release     string // the client's release: "none", "before the key", "in vain" or "lost"
	numRenewals int
}

// drawLeftKeys draws the keys that an attempt left. Keys in the same lane with the same fate are drawn
// together.
func (b outageDrawing) drawLeftKeys(l *leftKeys) {
	o := b.outage
	type fateInLane struct {
		lane int
		keyFate
	}
	whose := possessive(l.client) + " key"
	for _, g := range groupBy(l.intervals, func(s *facts.KeyInterval) fateInLane {
		lane, _ := b.lanes.laneOf(s.Node)
		return fateInLane{lane, o.fate(l, s)}
	}) {
		lane, _ := b.lanes.laneOf(g[0].Node)
		var events []*event
		for _, s := range g {
			events = append(events, s.Start, s.End)
		}
		setTimes, goneTimes := collect(g, (*facts.KeyInterval).From), collect(g, o.goneAt)
		from, to := slices.Max(setTimes), slices.Min(goneTimes)
		label := fmt.Sprintf("%s is on %s, and stays %s", whose, nodeList(nodesOfIntervals(g)), formatInstants("until", goneTimes))
		b.sheet.addNote(note{Lane: lane, At: from, Mark: dotSymbol, Bad: true, Label: label, Events: eventNumbers(events...)})
		if len(b.lanes.all[lane].Members) == len(g) {
			b.sheet.addBar(lane, stateLeftoverKey, from, to, events...)
		}
		if last := slices.Max(goneTimes); last < o.to {
			b.sheet.addNote(note{Lane: lane, At: last, Mark: ringSymbol, Label: fmt.Sprintf("%s is gone from %s", whose, nodeList(nodesOfIntervals(g))), Events: eventNumbers(events...)})
		}
		b.caption.add(slices.Min(setTimes), nodeList(nodesOfIntervals(g)), fmt.Sprintf("set %s %s and kept it %s%s%s", whose, formatInstants("at", setTimes), formatInstants("until", goneTimes),
			o.endClause(g), o.clientClause(l, g)))
	}
}

// goneAt returns when a key ended, or the end of the record if that is earlier.
func (o *outage) goneAt(s *facts.KeyInterval) int64 { return min(s.To(), o.f.end) }

func (o *outage) fate(l *leftKeys, s *facts.KeyInterval) keyFate {
	var f keyFate
	switch {
	case s.To() > o.f.end && s.ExpiresAt() == noTime:
		f.endVerb = "forever"
	case s.To() > o.f.end:
	case s.End == nil || s.End.Life.Kind == history.KeyExpired:
		f.endVerb = "expired"
	case s.End.Life.Kind == history.KeyDeleted:
		f.endVerb, f.actor = "deleted", facts.Issuer(s.End)
	case s.End.Life.Kind == history.KeyChanged:
		f.endVerb, f.actor = "overwrote", facts.Issuer(s.End)
	default:
		f.endVerb, f.actor = "lost", "the node"
	}
	if l.attempt == nil {
		return f
	}
	f.numRenewals = len(l.renewals(o.f, s))
	switch sent, early, late := l.releases(s, o.to); {
	case f.endVerb == "deleted" && f.actor == l.client:
	case len(sent) == 0:
		f.release = "none"
	case len(late) > 0:
		f.release = "in vain"
	case len(early) > 0:
		f.release = "before the key"
	default:
		f.release = "lost"
	}
	return f
}

// releases returns when the client sent releases of a leftover key, and when these releases arrived
// before (early) or after (late) the key was set.
func (l *leftKeys) releases(s *facts.KeyInterval, before int64) (sent, early, late []int64) {
	for _, d := range l.attempt.Releases {
		switch {
		case d.Node != s.Node || d.SentAt == 0 || d.SentAt >= before:
			continue
		case d.AppliedAt == 0 || d.AppliedAt > before:
		case d.AppliedAt < s.From():
			early = append(early, d.AppliedAt)
		default:
			late = append(late, d.AppliedAt)
		}
		sent = append(sent, d.SentAt)
	}
	return sent, early, late
}

// endClause states how keys with the same fate ended, as the end of a clause.
func (o *outage) endClause(g []*facts.KeyInterval) string {
	switch f := o.fate(&leftKeys{}, g[0]); {
	case f.endVerb == "forever":
		return ", the end of the record; it has no expiry"
	case f.endVerb == "":
		return ", the end of the record; it expires " + formatInstants("at", collect(g, (*facts.KeyInterval).ExpiresAt))
	case f.endVerb == "expired":
		return ", when it expired"
	default:
		return fmt.Sprintf(", when %s %s it", shorten(f.actor), f.endVerb)
	}
}

// clientClause states what the client did about leftover keys with the same fate, as the end of a
// sentence.
func (o *outage) clientClause(l *leftKeys, g []*facts.KeyInterval) (text string) {
	f, who := o.fate(l, g[0]), shorten(l.client)
	var renewed, sent, early, late []int64 // the last time on each node
	last := func(to *[]int64, at []int64) {
		if len(at) > 0 {
			*to = append(*to, slices.Max(at))
		}
	}
	for _, s := range g {
		if l.attempt != nil {
			a, b, c := l.releases(s, o.to)
			last(&renewed, l.renewals(o.f, s))
			last(&sent, a)
			last(&early, b)
			last(&late, c)
		}
	}
	if f.numRenewals > 0 {
		text = fmt.Sprintf("; %s renewed it %s, last %s", who, display.Times(f.numRenewals), formatInstants("at", renewed))
	}
	switch f.release {
	case "none":
		text += fmt.Sprintf("; %s sent no release of it there", who)
	case "in vain":
		text += fmt.Sprintf("; %s's release, which arrived %s, did not delete it", who, formatInstants("at", late))
	case "before the key":
		text += fmt.Sprintf("; %s's release had arrived before it, %s", who, formatInstants("at", early))
	case "lost":
		text += fmt.Sprintf("; %s's release, sent %s, never arrived", who, formatInstants("at", sent))
	}
	return text
}

// renewals returns when a node extended a leftover key for its client.
func (l *leftKeys) renewals(f *trace, s *facts.KeyInterval) (at []int64) {
	for _, e := range f.LockCommands {
		if e.Op == history.OpExtend && e.Type == history.OK && e.Node == s.Node && e.Token == l.attempt.Token && s.From() <= e.AppliedAt && e.AppliedAt <= min(s.To(), f.end) && facts.Sender(e) == l.client {
			at = append(at, e.AppliedAt)
		}
	}
	return at
}

// drawHungCall adds a note about a call that did not return.
func (b outageDrawing) drawHungCall(h hungCall) {
	o := b.outage
	lane, ok := b.lanes.laneOf(h.Client())
	if !ok {
		return
	}
	who, op := shorten(h.Client()), h.Call.Op
	text, at := " has not returned by "+display.Seconds(o.to), h.Call.T
	if op == history.OpAcquire {
		text, at = h.silenceClause(o.to, "sends", "has", "returns"), h.lastRequest
		if h.lastAttempt != nil {
			b.drawAttempt(h.lastAttempt, "")
			w := newFailedAttempts(o.f, h.Client())
			w.add(h.lastAttempt.From, h.lastAttempt.AllSets)
			b.addFailedAttemptsToCaption(w)
		}
	}
	b.sheet.addNote(note{Lane: lane, At: at, Mark: crossSymbol, Bad: true, Label: fmt.Sprintf("%s's %s%s", who, op, text), Events: eventNumbers(h.Call, h.Return)})
	pastText := " had not returned by " + display.Seconds(o.to)
	if op == history.OpAcquire {
		pastText = h.silenceClause(o.to, "sent", "had", "returned")
	}
	b.caption.addPossessive(at, who, fmt.Sprintf("%s, called at %s,%s%s", op, display.Seconds(h.Call.T), pastText, o.boundClause(o.isOnlyHungCall())))
}

// silenceClause states how long an acquire sent no request. The verbs determine the tense.
func (h hungCall) silenceClause(to int64, sendVerb, haveVerb, returnVerb string) string {
	text := fmt.Sprintf(" %s no request after %s", sendVerb, display.Seconds(h.lastRequest))
	switch {
	case h.nextRequest < to:
		return text + " until " + display.Seconds(h.nextRequest)
	case h.ReturnedAt() > to:
		return text + fmt.Sprintf(" and %s not returned by %s", haveVerb, display.Seconds(to))
	}
	return text + " and " + returnVerb + " at " + display.Seconds(h.ReturnedAt())
}

// isOnlyHungCall reports whether the violation consists of a hung call rather than of nobody getting
// the lock.
func (o *outage) isOnlyHungCall() bool {
	w := o.result.Witness
	if len(o.hungCalls) != 1 || len(w.Sessions) != 1 || w.Sessions[0] != o.hungCalls[0].Name() {
		return false
	}
	return o.hungCalls[0].Call.Op != history.OpAcquire || o.wasGranted()
}

// wasGranted reports whether a client was granted the lock during the outage.
func (o *outage) wasGranted() bool {
	return slices.ContainsFunc(o.f.sessions, func(s *session) bool {
		return s.Granted() && s.Key() == o.key && o.result.Witness.From < s.beliefStart && s.beliefStart < o.to
	})
}

// boundClause states how long the outage lasted and which bound it exceeded. It returns "" unless
// shown is set.
func (o *outage) boundClause(shown bool) string {
	if !shown {
		return ""
	}
	text := ", for " + display.Duration(saturatingSub(o.to, o.result.Witness.From))
	if o.result.Bound > 0 {
		text += "; the bound is " + display.Duration(o.result.Bound)
	}
	return text
}

// drawSpan marks the time during which nobody got the lock.
func (b outageDrawing) drawSpan() {
	o := b.outage
	w := o.result.Witness
	if o.isOnlyHungCall() {
		return
	}
	if len(o.omittedKeys) > 0 {
		b.caption.add(w.From, o.leftKeysSubject(), "blocked later attempts")
	}
	b.sheet.addBand(w.From, o.to, "nobody gets the lock", fmt.Sprintf("NOBODY %s %s until %s%s", o.verb("s"), shorten(o.key), display.Seconds(o.to), o.boundClause(true)), w.Events)
	b.caption.add(w.From, "nobody", fmt.Sprintf("%s %s %s%s", o.verb("d"), shorten(o.key), display.Interval(w.From, o.to), o.boundClause(true)))
}

// verb returns the verb for what nobody did during the outage: a form of "acquire" or, if a client
// was granted the lock, of "hold". Such a client did not hold the lock, because its keys had already
// expired.
func (o *outage) verb(ending string) string {
	if o.wasGranted() {
		return map[string]string{"s": "holds", "d": "held"}[ending]
	}
	return map[string]string{"s": "acquires", "d": "acquired"}[ending]
}

// summary describes the outage in one sentence. It returns "" if there is nothing to add to the
// verdict's own sentence.
func (o *outage) summary() string {
	var why string
	switch {
	case len(o.hungCalls) > 0 && o.hungCalls[0].Call.Op == history.OpAcquire:
		why = fmt.Sprintf("%s's acquire%s", shorten(o.hungCalls[0].Client()), o.hungCalls[0].silenceClause(o.to, "sent", "had", "returned"))
	case len(o.hungCalls) > 0:
		why = fmt.Sprintf("%s's %s had not returned by %s", shorten(o.hungCalls[0].Client()), o.hungCalls[0].Call.Op, display.Seconds(o.to))
	case len(o.leftKeys) > 0 && o.result.Cause != verdict.NoMajority:
		l := slices.MaxFunc(o.leftKeys, func(a, b *leftKeys) int { return cmp.Compare(a.numRefused, b.numRefused) })
		if len(o.omittedKeys) > 0 {
			why = o.leftKeysSubject() + " blocked later attempts"
			break
		}
		why = fmt.Sprintf("%s key stayed on %s%s", possessive(l.client), nodeList(nodesOfIntervals(l.intervals)), l.afterClause())
	case o.result.Cause == verdict.WaitedLong && len(o.wait.nodes) > 0 && !slices.ContainsFunc(o.failedAttempts, func(v *failedAttempts) bool { return v.longestSpan[0] < v.longestSpan[1] }):
		why = fmt.Sprintf("%s waited for %s %s", shorten(o.nextHolder.Client()), nodeList(o.wait.nodes), display.Interval(o.wait.from, o.wait.to))
	case len(o.failedAttempts) > 0:
		v := o.failedAttempts[0]
		why = fmt.Sprintf("%s tried %s without success, %s", shorten(v.client), display.Times(v.rounds), v.voteClause())
	default:
		return ""
	}
	if o.isOnlyHungCall() {
		return why + o.boundClause(true)
	}
	return fmt.Sprintf("%s, so nobody %s %s %s%s", why, o.verb("d"), shorten(o.key), display.Interval(o.result.Witness.From, o.to), o.boundClause(true))
}

// leftKeysSubject describes all leftover keys together, because there are too many to draw.
func (o *outage) leftKeysSubject() string {
	var clients []string
	for _, l := range slices.Concat(o.leftKeys, o.omittedKeys) {
		clients = append(clients, l.client)
	}
	slices.Sort(clients)
	return fmt.Sprintf("keys left by %s of %s", display.Plural(len(clients), "attempt"), joinNames(slices.Compact(clients)))
}

// afterClause states which event the keys outlasted, as the end of a clause.
func (l *leftKeys) afterClause() string {
	switch {
	case l.attempt == nil || l.session == nil:
		return ""
	case l.original != nil:
		return " after an abandoned attempt"
	case !l.attempt.Won:
		return " after a failed attempt"
	case l.session.FirstRelease() != nil:
		return " after its release"
	case l.session.ending == facts.Died:
		return " after its client died"
	case l.session.ending == facts.Lost:
		return " after its client was notified that it had lost the lock"
	case l.session.ending == facts.Expired:
		return " after its lease had ended"
	}
	return ""
}

// possessive returns the possessive form of a name.
func possessive(name string) string {
	switch name {
	case "", "nobody":
		return "nobody's"
	}
	return shorten(name) + "'s"
}

func nodesOf(events []*event) (names []string) {
	for _, e := range events {
		names = append(names, e.Node)
	}
	return names
}

func nodesOfIntervals(intervals []*facts.KeyInterval) (names []string) {
	for _, s := range intervals {
		names = append(names, s.Node)
	}
	return names
}

// collect applies at, which returns for example a time, to each element.
func collect[T, V any](all []T, at func(T) V) (out []V) {
	for _, x := range all {
		out = append(out, at(x))
	}
	return out
}

// formatInstants formats the times of several events: "at 1.000 s" or "between 1.000 s and 1.002 s".
func formatInstants(preposition string, instants []int64) string {
	first, last := display.Seconds(slices.Min(instants)), display.Seconds(slices.Max(instants))
	if first == last {
		return preposition + " " + first
	}
	between := "between " + first + " and " + last
	if preposition == "at" {
		return between
	}
	return preposition + " " + between
}
