package sequence

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/display"
)

// row is a fact in a text drawing: the arrows of one operation or a mark on a lane.
type row struct {
	at     int64
	n      int64 // number of the first event, to order facts with the same time
	arrows []arrow
	part   part
	lane   int
	mark   symbol
	label  string
	bad    bool
}

// part is the part of a message shown by a row.
type part int

const (
	wholeMessage part = iota
	departure         // without the arrival, because other facts come in between
	arrival
)

// newRows returns the rows for all facts, in chronological order. A slow message has two rows.
func newRows(d Diagram) []row {
	var rows []row
	for _, g := range groupByFact(d) {
		rows = append(rows, arrowRows(g)...)
	}
	for _, n := range d.Notes {
		rows = append(rows, row{at: n.At, n: firstEvent(n.Events), lane: n.Lane, mark: n.Mark, label: n.Label, bad: n.Bad})
	}
	for _, b := range d.Bands {
		rows = append(rows, row{at: b.From, n: firstEvent(b.Events) + 1<<40, lane: -1, label: b.Label, bad: true})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) })
	return rows
}

func firstEvent(events []int64) int64 {
	if len(events) == 0 {
		return 0
	}
	return events[0]
}

// groupByFact groups arrows by fact. It ignores arrows without two valid lanes.
func groupByFact(d Diagram) [][]arrow {
	arrows := slices.DeleteFunc(slices.Clone(d.Arrows), func(a arrow) bool {
		return a.From == a.To || min(a.From, a.To) < 0 || max(a.From, a.To) >= len(d.Lanes)
	})
	return groupBy(arrows, func(a arrow) int { return a.Fact })
}

// arrowRows returns the rows for a fact: for a request, when it was sent; for a reply, when it arrived;
// for a slow message, both.
func arrowRows(arrows []arrow) []row {
	slow := slices.DeleteFunc(slices.Clone(arrows), func(a arrow) bool { return !a.Slow })
	quick := slices.DeleteFunc(arrows, func(a arrow) bool { return a.Slow })
	var rows []row
	if len(quick) > 0 {
		rows = append(rows, arrowRow(quick, wholeMessage))
	}
	if len(slow) > 0 {
		rows = append(rows, arrowRow(slow, departure), arrowRow(slow, arrival))
	}
	return rows
}

func arrowRow(arrows []arrow, p part) row {
	r := row{at: arrows[0].Sent, n: firstEvent(arrows[0].Events), arrows: arrows, part: p, lane: -1}
	for _, a := range arrows {
		r.at = min(r.at, a.Sent)
		r.bad = r.bad || a.Bad && p != departure
	}
	if p == arrival || p == wholeMessage && arrows[0].Answer {
		r.at = max(r.at, latestArrival(arrows))
	}
	return r
}

func latestArrival(arrows []arrow) int64 {
	return slices.MaxFunc(arrows, func(a, b arrow) int { return cmp.Compare(a.Arrived, b.Arrived) }).Arrived
}

// drawAcquire draws how a session got the lock: the failed attempts as one note, and the winning round
// as a request and its replies.
func (b *builder) drawAcquire(s *session) {
	me, ok := b.lanes.laneOf(s.Client())
	if !ok {
		return
	}
	if w := b.f.failedAttempts(s, b.layout.from); w.rounds > 0 && (len(w.reasons) > 0 || s.Granted() || len(failuresOf(b.layout, s)) == 0) {
		b.drawFailedAttempts(w, me, !s.Granted())
	}
	if !s.Granted() {
		b.drawFailures(s.Client(), failuresOf(b.layout, s))
		return
	}
	b.drawWinningRound(s)
}

// drawWinningRound draws the winning round of a session.
func (b *builder) drawWinningRound(s *session) {
	me, ok := b.lanes.laneOf(s.Client())
	if !ok || !s.Granted() {
		return
	}
	won := s.winningRound
	if won == nil {
		won = b.f.requestToEveryNode(s.Acquire.Call, max(s.Acquire.Call.T, b.layout.from))
	}
	for _, group := range splitAtPauses(won, b.f.slowThreshold()) {
		b.sheet.numFacts++
		for _, g := range b.lanes.groupByLane(group) {
			a := arrow{From: me, To: g.lane, Label: "acquire", Sent: g.firstSendTime(), Arrived: g.lastApplyTime(), Events: eventNumbers(g.events...)}
			a.Lost = a.Arrived == 0
			b.sheet.addArrow(a)
		}
	}
	b.drawGrant(me, b.layout.grantOf(s, won))
}

// drawFailedAttempts draws failed attempts as one note. It adds them to the caption if inCaption is
// set.
func (b *builder) drawFailedAttempts(w *failedAttempts, me int, inCaption bool) {
	label := fmt.Sprintf("%s tries %s", shorten(w.client), display.Times(w.rounds))
	if w.to > w.from {
		label += ", until " + display.Seconds(w.to)
	}
	if len(w.reasons) > 0 {
		label += ", " + w.voteClause() + w.reasonClause(false)
	}
	b.sheet.addNote(note{Lane: me, At: w.from, Mark: dotSymbol, Label: label, Events: eventNumbers(w.events...)})
	if inCaption {
		b.addFailedAttemptsToCaption(w)
	}
}

func (b *builder) addFailedAttemptsToCaption(w *failedAttempts) {
	words := fmt.Sprintf("tried %s without success %s", display.Times(w.rounds), display.Interval(w.from, w.to))
	if len(w.reasons) > 0 {
		words += ", " + w.voteClause() + w.quorumClause() + w.reasonClause(true)
	}
	if from, to := w.longestSpan[0], w.longestSpan[1]; from < to {
		words += fmt.Sprintf("; the longest attempt began at %s and had ended by %s", display.Seconds(from), display.Seconds(to))
	}
	b.caption.add(w.from, shorten(w.client), words)
}

func (b *builder) drawGrant(me int, g grant) {
	ok := g.s.Acquire.Return
	label := "ok"
	if len(g.votingNodes) > 0 {
		label = fmt.Sprintf("ok %d/%d", len(g.votingNodes), g.numNodes)
	}
	detail, bad := g.detail()
	lanes := b.drawWait(me, g, b.lanes.groupByLane(g.winningRound))
	if len(lanes) == 0 { // all replies are drawn already
		b.sheet.addNote(note{Lane: me, At: ok.T, Mark: dotSymbol, Label: detail, Bad: bad, Events: eventNumbers(ok)})
	}
	b.sheet.numFacts++
	for _, l := range lanes {
		granting := slices.DeleteFunc(slices.Clone(l.events), func(e *event) bool { return len(g.votingNodes) > 0 && !slices.Contains(g.votingNodes, e.Node) })
		if len(granting) == 0 {
			continue
		}
		l.events = granting
		a := arrow{From: l.lane, To: me, Answer: true, Label: label, Detail: detail, Bad: bad,
			Sent: min(l.lastApplyTime(), ok.T), Arrived: ok.T, Events: eventNumbers(append(granting, ok)...)}
		if len(g.votingNodes) == 0 { // the time of the replies is unknown
			a.Sent = ok.T
		}
		b.sheet.addArrow(a)
	}
	b.caption.add(ok.T, shorten(g.s.Client()), g.captionText())
	b.drawExpiry(g)
}

// drawExpiry adds notes about keys that are due to expire before the holder stops believing that it
// holds the lock. A key that was removed for another reason is drawn when it was removed.
func (b *builder) drawExpiry(g grant) {
	for _, l := range b.lanes.groupByLane(g.winningRound) {
		var dueKeys []*event
		longEnough := false // whether any key in the lane lives long enough
		for _, e := range l.events {
			switch at := b.f.expiresAt(e); {
			case !slices.Contains(g.votingNodes, e.Node), e.TTL <= 0, e.AppliedAt <= 0:
				longEnough = true
			case at == noTime, namesEarlyEnd(b.layout, g.s, e.Node):
			case at < g.s.beliefEnd:
				dueKeys = append(dueKeys, e)
			default:
				longEnough = true
			}
		}
		if longEnough || len(dueKeys) == 0 {
			continue
		}
		for _, e := range dueKeys {
			b.expiryDrawn[[2]string{g.s.Name(), e.Node}] = true
		}
		at, last := slices.Max(collect(dueKeys, b.f.expiresAt)), ""
		if len(dueKeys) > 1 {
			last = "the last "
		}
		b.sheet.addNote(note{Lane: l.lane, At: at, Mark: crossSymbol, Bad: true, Events: eventNumbers(dueKeys...),
			Label: fmt.Sprintf("%s's key is due to expire on %s, %s%s of true time before the client stops believing in it", shorten(g.s.Client()), nodeList(nodesOf(dueKeys)), last, display.Duration(saturatingSub(g.s.beliefEnd, at)))})
	}
}

// namesEarlyEnd reports whether the verdict names an event that removed the session's key before
// its expiry, on this node or, if the verdict does not mention this node, on any node.
func namesEarlyEnd(sc *layout, s *session, node string) (early bool) {
	if sc.result == nil {
		return false
	}
	for _, l := range sc.result.Losses {
		if l.First != s.Name() {
			continue
		}
		ended := sc.keyEnd(l) != nil
		if l.Node == node {
			return ended
		}
		early = early || ended
	}
	return early
}

// grant describes how a session got the lock.
type grant struct {
	s            *session
	winningRound []*event
	validity     int64    // validity reported by the lock, by the client's clock; noTime if it reported no deadline
	votingNodes  []string // nodes whose votes counted; empty if the commands were not recorded
	numNodes     int      // number of nodes
	quorum       int      // number of required votes; 0 if unknown
	doubleVotes  string   // clause naming nodes that had voted for another client, which still believes that it holds the lock
}

// grantOf returns the grant for a session with the given winning round.
func (sc *layout) grantOf(s *session, won []*event) grant {
	voters := votersUntil(won, s.Acquire.Return.T)
	g := grant{s: s, winningRound: won, validity: sc.f.validity(s.Acquire.Return), votingNodes: voters, numNodes: max(len(sc.f.nodes()), len(voters)), quorum: sc.f.Params.Quorum}
	for _, o := range sc.focus {
		first := o.winningRound
		if o == s || first == nil || o.Key() != s.Key() || !o.believesAt(s.beliefStart) {
			continue
		}
		var both []string
		for _, n := range votersUntil(first, o.beliefStart) {
			if slices.Contains(voters, n) && commandTo(first, n).AppliedAt < commandTo(won, n).AppliedAt {
				both = append(both, n)
			}
		}
		if len(both) > 0 {
			g.doubleVotes = fmt.Sprintf("%s had voted for %s", nodeList(both), shorten(o.Client()))
			break
		}
	}
	return g
}

// hasMinority reports whether there were fewer votes than a quorum.
func (g grant) hasMinority() bool { return len(g.votingNodes) > 0 && len(g.votingNodes) < g.quorum }

func (g grant) quorumName() string { return quorumName(g.quorum, g.numNodes) }

func quorumName(votes, nodes int) string {
	if votes == nodes/2+1 {
		return "a majority"
	}
	return "a quorum"
}

// detail describes the grant for its arrows. bad reports whether the session had no quorum or a node
// had voted twice.
func (g grant) detail() (detail string, bad bool) {
	s := g.s
	detail = fmt.Sprintf("%s holds %s", shorten(s.Client()), shorten(s.Key()))
	switch until := s.firstDeadline; {
	case until == noTime:
		detail += ", no deadline"
	case until <= s.beliefStart:
		detail += ", already past its deadline"
	default:
		detail += fmt.Sprintf(" until %s", display.Seconds(until))
	}
	if fence := s.Acquire.Return.Fence; fence != 0 {
		detail += fmt.Sprintf(", fence %d", fence)
	}
	if g.hasMinority() {
		detail += fmt.Sprintf("; %s is %d", g.quorumName(), g.quorum)
	}
	if g.doubleVotes != "" {
		detail += "; " + g.doubleVotes
	}
	return detail, g.hasMinority() || g.doubleVotes != ""
}

func (g grant) captionText() string {
	ok := g.s.Acquire.Return
	text := fmt.Sprintf("acquired %s at %s", shorten(g.s.Key()), display.Seconds(ok.T))
	if g.validity != noTime {
		text += fmt.Sprintf(" with %s left", display.Duration(max(0, g.validity)))
	}
	if n := len(g.votingNodes); n > 0 {
		text += fmt.Sprintf(", by %d of %d votes", n, g.numNodes)
	}
	if g.hasMinority() {
		text += fmt.Sprintf(" (%d are %s)", g.quorum, g.quorumName())
	}
	if g.doubleVotes != "" {
		text += "; " + g.doubleVotes
	}
	return text
}

// drawLease draws when a session's client believed that it held the lock and, if the last belief ended
// at a deadline or with a notification, its end.
func (b *builder) drawLease(s *session) {
	lane, ok := b.lanes.laneOf(s.Client())
	if !ok || !s.Granted() {
		return
	}
	for _, w := range s.windows {
		b.sheet.addBar(lane, stateBelieving, w.From, w.To, w.OpenEvent)
	}
	if s.ending == facts.Lost && b.layout.isShown(s.beliefEnd) {
		e, who := b.f.Loss(s.Session), shorten(s.Client())
		b.sheet.addNote(note{Lane: lane, At: s.beliefEnd, Mark: barSymbol, Label: who + " is notified that it has lost " + shorten(s.Key()), Events: eventNumbers(e)})
		b.caption.add(s.beliefEnd, who, "was notified at "+display.Seconds(s.beliefEnd)+" that it had lost the lock")
	}
	if s.ending != facts.Expired || !b.layout.isShown(s.beliefEnd) || s.beliefEnd == s.beliefStart {
		return
	}
	b.sheet.addNote(note{Lane: lane, At: s.beliefEnd, Mark: barSymbol, Label: shorten(s.Client()) + "'s lease ends", Events: eventNumbers(s.Acquire.Return)})
	if s.lastActionTime() > s.beliefEnd {
		b.caption.addPossessive(s.beliefEnd, shorten(s.Client()), "lease ended at "+display.Seconds(s.beliefEnd))
	}
}

// drawDeletions draws the releases that deleted a holder's keys.
func (b *builder) drawDeletions() {
	done := map[*event]bool{}
	for _, d := range b.layout.deletions {
		if done[d.release] || !b.layout.isShown(d.release.AppliedAt) {
			continue
		}
		client := facts.Sender(d.release)
		var releases []*event
		for _, o := range b.layout.deletions {
			if facts.Sender(o.release) == client && o.victim == d.victim && !done[o.release] &&
				saturatingSub(o.release.AppliedAt, d.release.AppliedAt) <= b.f.slowThreshold() {
				releases = append(releases, o.release)
				done[o.release] = true
			}
		}
		b.drawDeletion(d.victim, client, releases)
	}
}

func (b *builder) drawDeletion(victim *session, client string, releases []*event) {
	me, ok := b.lanes.laneOf(client)
	if !ok {
		return
	}
	nodes := nodeList(nodesOf(releases))
	sent, applied := collect(releases, func(e *event) int64 { return e.SentAt }), collect(releases, func(e *event) int64 { return e.AppliedAt })
	whose := shorten(victim.Client()) + "'s"
	b.sheet.numFacts++
	arrows := [][]*event{releases}
	if display.Seconds(slices.Min(applied)) != display.Seconds(slices.Max(applied)) {
		arrows = slices.Collect(slices.Chunk(releases, 1)) // draw each at its own time
	}
	for _, together := range arrows {
		detail := fmt.Sprintf("a release by %s DELETES %s key on %s", shorten(client), whose, nodeList(nodesOf(together)))
		for _, l := range b.lanes.groupByLane(together) {
			b.sheet.addArrow(arrow{From: me, To: l.lane, Label: "release", Mark: crossSymbol, Bad: true, Sent: l.firstSendTime(), Arrived: l.lastApplyTime(), Detail: detail, Events: eventNumbers(l.events...)})
		}
	}
	b.caption.add(slices.Max(applied), "a release by "+shorten(client), fmt.Sprintf("that was sent %s reached %s %s and deleted %s key there",
		formatInstants("at", sent), nodes, formatInstants("at", applied), whose))
}

// drawOverlap marks the time during which two clients both believed they held the lock. It draws
// nothing without a violation, because then the overlap is within the timestamps' error.
func (b *builder) drawOverlap() {
	if len(b.layout.focus) < 2 || !b.layout.isViolated() {
		return
	}
	x, y := b.layout.focus[0], b.layout.focus[1]
	w := b.layout.result.Witness
	from, to := longestOverlap(x, y)
	if x.Key() != y.Key() {
		return
	}
	if from >= to {
		if b.layout.result.Cause == verdict.Overlap && w != nil {
			b.caption.add(w.From, "both", fmt.Sprintf("must have held %s %s, according to the replies they received, although they never believed so at the same time",
				shorten(x.Key()), display.Interval(w.From, min(w.To, b.f.end))))
		}
		return
	}
	if b.layout.result.Property == verdict.MutualExclusion && w != nil && from <= w.From && w.From < w.To && w.To <= to {
		from, to = w.From, w.To // the verdict allows for timestamp uncertainty
	}
	label := fmt.Sprintf("BOTH %s and %s believe that they hold %s", shorten(x.Client()), shorten(y.Client()), shorten(x.Key()))
	if to == noTime {
		to = b.f.end
	} else {
		if display.Seconds(from) == display.Seconds(to) {
			label += " for " + display.Duration(saturatingSub(to, from))
		} else {
			label += " until " + display.Seconds(to)
		}
	}
	b.sheet.addBand(from, to, "two clients believe that they hold the lock", label, eventNumbers(x.Acquire.Return, y.Acquire.Return))
	b.caption.add(from, "both", fmt.Sprintf("believed that they held %s %s", shorten(x.Key()), display.Interval(from, to)))
}

// drawLosses draws how nodes lost the first session's keys, using the events named by the verdict,
// except releases, which drawDeletions draws.
func (b *builder) drawLosses() {
	if b.layout.result == nil {
		return
	}
	type lost struct {
		lane  int
		first string
		what  history.Change
		at    string // as printed, because a sentence states a single time
	}
	lossOf := map[*event]lost{}
	var ends []*event
	for _, l := range b.layout.result.Losses {
		e := b.layout.keyEnd(l)
		lane, ok := b.lanes.laneOf(l.Node)
		if e == nil || !ok || isDrawnAsRelease(b.layout, e) || !b.layout.isShown(e.T) {
			continue
		}
		lossOf[e], ends = lost{lane, l.First, e.Life.Kind, display.Seconds(e.T)}, append(ends, e)
	}
	b.drawExpiredKeys()
	for _, g := range groupBy(ends, func(e *event) lost { return lossOf[e] }) {
		what, at := lossOf[g[0]], g[0].T
		s := b.f.byName[what.first]
		if s == nil {
			continue
		}
		var names []string
		for _, e := range g {
			names = append(names, e.Process)
		}
		text := display.DescribeKeyLoss(what.what, shorten(s.Client())+"'s key", shorten(facts.LinkClient(g[0].Life.Sender)))
		b.sheet.addNote(note{Lane: what.lane, At: at, Mark: crossSymbol, Label: nodeList(names) + " " + text, Bad: true, Events: eventNumbers(g...)})
		b.caption.add(at, nodeList(names), text+" at "+display.Seconds(at))
	}
}

// drawExpiredKeys marks keys that expired while their holder still believed that it held the lock. It
// skips those that drawExpiry has already drawn. drawExpiry can't handle locks whose commands contain
// no TTL; for these, only the nodes report when a key expires.
func (b *builder) drawExpiredKeys() {
	for _, l := range b.layout.result.Losses {
		s := b.f.byName[l.First]
		lane, ok := b.lanes.laneOf(l.Node)
		if s == nil || !ok || b.expiryDrawn[[2]string{l.First, l.Node}] || b.layout.keyEnd(l) != nil {
			continue
		}
		for _, x := range b.f.Lives().Intervals(l.Node, s.Key()) {
			expired := x.End == nil || x.End.Life.Kind == history.KeyExpired
			at := x.ExpiredAt(b.f.ClockChangesOf(x.Node))
			if x.End != nil {
				at = min(at, x.End.T)
			}
			if s.owns(x) && expired && at < s.beliefEnd && b.layout.isShown(at) {
				key := "key on " + shorten(l.Node)
				b.sheet.addNote(note{Lane: lane, At: at, Mark: crossSymbol, Bad: true, Label: possessive(s.Client()) + " " + key + " reaches its expiry", Events: eventNumbers(x.Start, x.ExpiryEvent, x.End)})
				b.caption.addPossessive(at, shorten(s.Client()), key+" reached its expiry at "+display.Seconds(at))
			}
		}
	}
}

// isDrawnAsRelease reports whether a key event is drawn as the release that caused it.
func isDrawnAsRelease(sc *layout, e *event) bool {
	release := sc.f.ReleaseOf(e)
	return release != nil && slices.ContainsFunc(sc.deletions, func(d deletion) bool { return d.release == release })
}

// keyEnd returns the event that removed the first session's key before its expiry, or nil. If the
// verdict names no such event because the key would have expired in time anyway, keyEnd returns the
// event that removed the key while the holder believed that it held the lock.
func (sc *layout) keyEnd(l verdict.Loss) *event {
	first := sc.f.byName[l.First]
	for _, x := range sc.f.Lives().Intervals(l.Node, sc.result.Witness.Key) {
		switch {
		case x.End == nil:
		case l.Fact != 0:
			if x.End.N == l.Fact {
				return x.End
			}
		case first != nil && first.owns(x) && x.End.T < first.beliefEnd && endedByOther(sc.f, x):
			return x.End
		}
	}
	return nil
}

// drawOperations draws a session's resource operations, extensions and release.
func (b *builder) drawOperations(s *session) {
	me, ok := b.lanes.laneOf(s.Client())
	if !ok {
		return
	}
	for _, c := range s.calls {
		if !b.layout.isShown(c.Call.T) {
			continue
		}
		switch {
		case c.Call.Op == history.OpCheck:
			b.drawCheck(s, c, me)
		case c.Call.Op == history.OpRelease:
			b.drawRelease(s, c, me)
		case c.Call.Op == history.OpExtend:
			b.drawExtend(s, c, me)
		case b.lanes.storage < 0:
		case c.Call.Op == history.OpRead:
			b.drawRead(s, c, me)
		case c.Call.Op == history.OpWrite:
			b.drawWrite(s, c, me)
		}
	}
}

// drawCheck adds a note about the client's check of its deadline if the check stopped the client, or
// if a fault hit the client, because then the outcome depends on the check.
func (b *builder) drawCheck(s *session, c facts.Operation, me int) {
	n := note{Lane: me, At: c.Call.T, Mark: dotSymbol, Events: eventNumbers(c.Call)}
	if c.Outcome() != history.OK {
		n.Label = fmt.Sprintf("%s checks: its lease has ended, so it does not write", shorten(s.Client()))
		b.sheet.addNote(n)
		b.caption.add(n.At, shorten(s.Client()), fmt.Sprintf("found at %s that its lease had ended, and did not write", display.Seconds(n.At)))
		return
	}
	hit := slices.ContainsFunc(b.layout.faults, func(ft *facts.Fault) bool { return ft.Hits(s.Client()) })
	if !hit {
		return
	}
	n.Label = fmt.Sprintf("%s checks its lease: valid", shorten(s.Client()))
	if left := b.f.validityAt(s, c.Call); left != noTime && left > 0 {
		n.Label += fmt.Sprintf(", %s left", display.Duration(left))
	}
	b.sheet.addNote(n)
}

// drawRead draws the reply to a read. It draws the request only if there was no successful reply.
func (b *builder) drawRead(s *session, c facts.Operation, me int) {
	b.sheet.numFacts++
	who := shorten(s.Client())
	if c.Outcome() == history.OK && b.layout.isShown(c.Return.T) {
		b.sheet.addArrow(arrow{From: b.lanes.storage, To: me, Answer: true, Sent: max(c.Call.T, saturatingSub(c.Return.T, b.f.slowThreshold())), Arrived: c.Return.T,
			Label: fmt.Sprintf("version %d", c.Return.Version), Detail: who + " reads", Events: eventNumbers(c.Call, c.Return)})
		return
	}
	a := arrow{From: me, To: b.lanes.storage, Sent: c.Call.T, Arrived: c.Call.T, Label: "read", Detail: "no reply", Lost: true, Events: eventNumbers(c.Call, c.Return)}
	if c.Outcome() == history.OK {
		a.Detail = "no reply until " + display.Seconds(c.Return.T)
	}
	if c.Outcome() == history.Fail {
		a.Lost, a.Mark, a.Detail = false, crossSymbol, "refused"
		b.caption.add(c.Return.T, shorten(s.Client()), fmt.Sprintf("tried to read at %s and was refused", display.Seconds(c.Call.T)))
	}
	b.sheet.addArrow(a)
}

// drawWrite draws a write and its outcome at the resource.
func (b *builder) drawWrite(s *session, c facts.Operation, me int) {
	at := b.f.appliedAt(c.Call.Value)
	if at == 0 && c.Outcome() != history.Info {
		at = c.Return.T
	}
	wire := b.f.writeCommand(c.Call.Value)
	a := arrow{From: me, To: b.lanes.storage, Sent: c.Call.T, Arrived: at, Label: "write", Events: eventNumbers(c.Call, c.Return, wire)}
	if wire != nil && wire.SentAt != 0 {
		a.Sent = wire.SentAt
	}
	entry := b.f.appliedWrites[c.Call.Value]
	w := s.describeWrite(c, entry, at, b.f.Params.Fence)
	a.Mark, a.Detail, a.Bad, a.Lost = w.mark, w.label, w.bad, at == 0
	if entry != nil {
		a.Events = eventNumbers(c.Call, c.Return, wire, entry.Event)
	}
	b.sheet.numFacts++
	b.sheet.addArrow(a)
	captionAt := a.Arrived
	if a.Lost {
		captionAt = c.Call.T // the time stated in the sentence
	}
	b.caption.add(captionAt, shorten(s.Client()), w.caption)
}

// drawRelease draws a release request and describes its outcome.
func (b *builder) drawRelease(s *session, c facts.Operation, me int) {
	detail := shorten(s.Client()) + " releases the lock"
	switch c.Outcome() {
	case history.Fail:
		detail = shorten(s.Client()) + " releases a lock that it no longer holds"
	case history.Info:
		detail = shorten(s.Client()) + " releases, outcome unknown"
	}
	var requests []*event
	for _, e := range commandsSentBy(b.f.commands, s.Client(), c.Call.T, min(c.ReturnedAt(), b.f.end)) {
		deletes := slices.ContainsFunc(b.layout.deletions, func(d deletion) bool { return d.release == e })
		if e.Op == history.OpRelease && e.Key == s.Key() && !deletes {
			requests = append(requests, e)
		}
	}
	b.sheet.numFacts++
	groups := b.lanes.groupByLane(requests)
	if len(requests) == 0 {
		groups = b.lanes.groupByLane(b.f.requestToEveryNode(c.Call, c.Call.T))
	}
	for _, g := range groups {
		a := arrow{From: me, To: g.lane, Label: "release", Detail: detail, Sent: g.firstSendTime(), Arrived: g.lastApplyTime(),
			Events: eventNumbers(append(g.events, c.Call, c.Return)...)}
		a.Lost = a.Arrived == 0
		if !a.Lost && a.Arrived > b.layout.to {
			a.Arrived = a.Sent // still in flight when the drawing ends
		}
		b.sheet.addArrow(a)
	}
}

// drawExtend adds a note about an extension. Consecutive extensions with the same outcome share the
// first one's note.
func (b *builder) drawExtend(s *session, c facts.Operation, me int) {
	run := s.consecutiveExtends(c)
	if run == nil {
		return
	}
	last := run[len(run)-1]
	n := note{Lane: me, At: c.Call.T, Mark: dotSymbol, Events: eventNumbers(c.Call, c.Return, last.Call, last.Return)}
	who, what, did, try := shorten(s.Client()), "extends", "extended it", "extend it"
	switch c.Call.Value {
	case history.OpAcquire:
		what, did, try = "acquires the lock again", "acquired it again", "acquire it again"
	case history.OpRelease:
		what, did, try = "releases one of its acquisitions", "released one of its acquisitions", "release one of its acquisitions"
	}
	if len(run) > 1 {
		what += " " + display.Plural(len(run), "time")
	}
	switch c.Outcome() {
	case history.OK:
		if c.Call.Value == history.OpCheck {
			n.Label = who + " checks its lock after the deadline: reported as held"
			b.caption.add(n.At, who, fmt.Sprintf("checked its lock at %s, after the deadline, and the lock reported that it was still held", display.Seconds(n.At)))
			break
		}
		until := b.f.deadlineOf(last.Return)
		n.Label = fmt.Sprintf("%s %s, the last until %s", who, what, display.Seconds(until))
		if len(run) == 1 {
			n.Label = fmt.Sprintf("%s %s until %s", who, what, display.Seconds(until))
		}
		b.caption.add(n.At, who, fmt.Sprintf("%s %s, until %s", did, display.Times(len(run)), display.Seconds(until)))
	case history.Fail:
		n.Label = fmt.Sprintf("%s %s: the lock is lost", who, what)
		b.caption.add(n.At, who, fmt.Sprintf("found at %s that its lock was lost", display.Seconds(n.At)))
	default:
		n.Label = fmt.Sprintf("%s %s without success", who, what)
		b.caption.add(n.At, who, fmt.Sprintf("tried to %s %s from %s on, without success", try, display.Times(len(run)), display.Seconds(n.At)))
	}
	b.sheet.addNote(n)
}

// consecutiveExtends returns the run of extensions of the same kind and with the same outcome that
// starts with c, or nil if c is not the first of its run.
func (s *session) consecutiveExtends(c facts.Operation) []facts.Operation {
	all := slices.DeleteFunc(slices.Clone(s.calls), func(x facts.Operation) bool { return x.Call.Op != history.OpExtend })
	from := slices.Index(all, c)
	same := func(x facts.Operation) bool { return x.Outcome() == c.Outcome() && x.Call.Value == c.Call.Value }
	if from > 0 && same(all[from-1]) {
		return nil
	}
	to := from
	for to < len(all) && same(all[to]) {
		to++
	}
	return all[from:to]
}

// expiresAt returns when the key set by a command is due to expire. It uses the node's own report or,
// without one, the set command and the extensions that the node accepted. It returns noTime if
// something else ended the key before that.
func (f *trace) expiresAt(set *event) int64 {
	for _, x := range f.Lives().Intervals(set.Node, set.Key) {
		if x.Setter() == set.Process && x.Start.SentAt == set.SentAt && set.SentAt != 0 && x.ExpiresAt() != noTime {
			if endedByOther(f, x) {
				return noTime
			}
			return x.ExpiredAt(f.ClockChangesOf(x.Node))
		}
	}
	at := saturatingAdd(set.AppliedAt, set.TTL)
	for _, e := range commandsSentBy(f.commands, facts.Sender(set), set.SentAt, f.end) {
		if e.Op == history.OpExtend && e.Type == history.OK && e.Node == set.Node && e.Key == set.Key && e.Token == set.Token && e.AppliedAt > 0 {
			at = max(at, saturatingAdd(e.AppliedAt, cmp.Or(e.TTL, set.TTL)))
		}
	}
	return at
}

// endedByOther reports whether a key ended before its expiry and not through an action of its own
// client.
func endedByOther(f *trace, x *facts.KeyInterval) bool {
	return x.End != nil && x.End.Life.Kind != history.KeyExpired && x.End.T < x.ExpiredAt(f.ClockChangesOf(x.Node)) && (x.End.Life.Sender == "" || facts.LinkClient(x.End.Life.Sender) != facts.LinkClient(x.Setter()))
}

// drawFaults draws the faults. If a step hits several targets at about the same time, they share a
// row. The caption ends with the number of pauses that had no effect.
func (b *builder) drawFaults() {
	groups := b.layout.faultGroups()
	for i := len(groups) - 1; i >= 0 && len(groups) > maxFaults; i-- {
		if !(narrator{b.layout}).isBlamed(groups[i]) {
			groups, b.layout.omittedFaults = slices.Delete(groups, i, i+1), b.layout.omittedFaults+1
		}
	}
	for _, g := range groupBy(b.layout.idlePauses, func(ft *facts.Fault) string { return ft.Target }) {
		more := display.Times(len(g))
		if slices.ContainsFunc(slices.Concat(groups...), func(ft *facts.Fault) bool {
			return ft.Target == g[0].Target && nemesis.WordingOf(ft.Kind).State == nemesis.StateStopped
		}) {
			if more = "once more"; len(g) > 1 {
				more = display.Plural(len(g), "more time")
			}
		}
		b.caption.add(noTime, shorten(g[0].Target), "was paused "+more+", without effect")
	}
	for _, g := range groups {
		lane := b.faultLane(g)
		w := wordingFor(g, b.layout.faultTargets(g), b.f.heldMessage(g[0]))
		beginTimes := collect(g, (*facts.Fault).From)
		from := slices.Min(beginTimes)
		var begins, ends []*event
		for _, ft := range g {
			begins, ends = append(begins, ft.Begin), append(ends, ft.End)
		}
		b.sheet.addNote(note{Lane: lane, At: from, Mark: w.beginMark, Label: w.BeginText + rangeSuffix("last", beginTimes, slices.Max(beginTimes)), Bad: true, Events: eventNumbers(begins...)})
		hasEnded := g[0].End != nil
		endTimes := collect(g, (*facts.Fault).To)
		if hasEnded {
			label := w.EndText
			if back := commonReadBack(g); w.beginMark == crossSymbol && back != "" {
				label += ": " + back // the node's current keys matter
			}
			b.sheet.addNote(note{Lane: lane, At: slices.Max(endTimes), Mark: w.endMark, Label: label + rangeSuffix("first", endTimes, slices.Min(endTimes)), Events: eventNumbers(ends...)})
		}
		switch {
		case g[0].Step == history.UnplannedStep:
		case hasEnded:
			b.caption.add(from, w.Subject, w.pastSentence(beginTimes, endTimes, commonReadBack(g)))
		default:
			b.caption.add(from, w.Subject, w.PastPredicate+" "+formatInstants("at", beginTimes))
		}
		for _, ft := range g {
			b.drawFaultBar(ft)
		}
	}
}

// rangeSuffix states when the first or last of several events happened, for a note at the time of just
// one of them.
func rangeSuffix(which string, instants []int64, at int64) string {
	if display.Seconds(slices.Min(instants)) == display.Seconds(slices.Max(instants)) {
		return ""
	}
	return ", the " + which + " at " + display.Seconds(at)
}

// commonReadBack returns the read-back at the end of the faults if all have the same.
func commonReadBack(g []*facts.Fault) string {
	for _, ft := range g {
		if ft.End == nil || ft.End.Cause != g[0].End.Cause {
			return ""
		}
	}
	return g[0].End.Cause
}

func (b *builder) drawFaultBar(ft *facts.Fault) {
	state := map[nemesis.State]state{nemesis.StateStopped: statePaused, nemesis.StateDown: stateDead}[nemesis.WordingOf(ft.Kind).State]
	lane, ok := b.lanes.laneOf(ft.Target)
	if !ok || state == "" || len(b.lanes.all[lane].Members) > 1 {
		return
	}
	b.sheet.addBar(lane, state, ft.From(), ft.To(), ft.Begin, ft.End)
}
