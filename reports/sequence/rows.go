package sequence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/display"
)

// row is one fact of a drawing: arrows of one operation, or a mark on a lane.
type row struct {
	at     int64
	n      int64 // number of its first event: the order of facts at one instant
	arrows []arrow
	part   part
	lane   int
	mark   symbol
	label  string
	bad    bool
}

// part is how much of a message a row shows.
type part int

const (
	whole     part = iota
	departure      // it leaves, and other things happen before it arrives
	arrival
)

// makeRows puts all facts in the order of time. A slow message has two rows.
func makeRows(d Diagram) []row {
	var rows []row
	for _, g := range byFact(d) {
		rows = append(rows, arrowRows(g)...)
	}
	for _, n := range d.Notes {
		rows = append(rows, row{at: n.At, n: first(n.Events), lane: n.Lane, mark: n.Mark, label: n.Label, bad: n.Bad})
	}
	for _, b := range d.Bands {
		rows = append(rows, row{at: b.From, n: first(b.Events) + 1<<40, lane: -1, label: b.Label, bad: true})
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n)) })
	return rows
}

func first(events []int64) int64 {
	if len(events) == 0 {
		return 0
	}
	return events[0]
}

// byFact groups the arrows of one fact that can be drawn.
func byFact(d Diagram) [][]arrow {
	drawn := slices.DeleteFunc(slices.Clone(d.Arrows), func(a arrow) bool {
		return a.From == a.To || min(a.From, a.To) < 0 || max(a.From, a.To) >= len(d.Lanes)
	})
	return grouped(drawn, func(a arrow) int { return a.Fact })
}

// arrowRows makes the rows of one fact: a request stands at the instant when it
// was sent, an answer where it arrived, and what was slow at both.
func arrowRows(arrows []arrow) []row {
	slow := slices.DeleteFunc(slices.Clone(arrows), func(a arrow) bool { return !a.Slow })
	quick := slices.DeleteFunc(arrows, func(a arrow) bool { return a.Slow })
	var rows []row
	if len(quick) > 0 {
		rows = append(rows, arrowRow(quick, whole))
	}
	if len(slow) > 0 {
		rows = append(rows, arrowRow(slow, departure), arrowRow(slow, arrival))
	}
	return rows
}

func arrowRow(arrows []arrow, p part) row {
	r := row{at: arrows[0].Sent, n: first(arrows[0].Events), arrows: arrows, part: p, lane: -1}
	for _, a := range arrows {
		r.at = min(r.at, a.Sent)
		r.bad = r.bad || a.Bad && p != departure
	}
	if p == arrival || p == whole && arrows[0].Answer {
		r.at = max(r.at, latest(arrows))
	}
	return r
}

func latest(arrows []arrow) int64 {
	return slices.MaxFunc(arrows, func(a, b arrow) int { return cmp.Compare(a.Arrived, b.Arrived) }).Arrived
}

// drawAcquire draws how a session got the lock: what was tried in vain in one
// note, the winning round as a request and its answers.
func (b *builder) drawAcquire(s *session) {
	me, ok := b.lanes.of(s.Client())
	if !ok {
		return
	}
	if w := b.f.futile(s, b.scene.from); w.rounds > 0 && (len(w.why) > 0 || s.Granted() || len(failuresOf(b.scene, s)) == 0) {
		b.drawFutile(w, me, !s.Granted())
	}
	if !s.Granted() {
		b.drawFailures(s.Client(), failuresOf(b.scene, s))
		return
	}
	b.drawGranted(s)
}

// drawGranted draws the round by which a session got the lock.
func (b *builder) drawGranted(s *session) {
	me, ok := b.lanes.of(s.Client())
	if !ok || !s.Granted() {
		return
	}
	won := s.won
	if won == nil {
		won = b.f.everyNode(s.Acquire.Call, max(s.Acquire.Call.T, b.scene.from))
	}
	for _, together := range bursts(won, b.f.slow()) {
		b.sheet.facts++
		for _, g := range b.lanes.byLane(together) {
			a := arrow{From: me, To: g.lane, Label: "acquire", Sent: g.sent(), Arrived: g.applied(), Events: numbers(g.events...)}
			a.Lost = a.Arrived == 0
			b.sheet.message(a)
		}
	}
	b.drawGrant(me, b.scene.grantOf(s, won))
}

// drawFutile folds the attempts that came to nothing, and tells of them.
func (b *builder) drawFutile(w *futile, me int, tell bool) {
	label := fmt.Sprintf("%s tries %s", short(w.client), display.Times(w.rounds))
	if w.to > w.from {
		label += ", until " + display.Seconds(w.to)
	}
	if len(w.why) > 0 {
		label += ", " + w.atMost() + w.because(false)
	}
	b.sheet.note(note{Lane: me, At: w.from, Mark: dot, Label: label, Events: numbers(w.events...)})
	if tell {
		b.tellFutile(w)
	}
}

func (b *builder) tellFutile(w *futile) {
	words := fmt.Sprintf("tried %s in vain %s", display.Times(w.rounds), display.FromTo(w.from, w.to))
	if len(w.why) > 0 {
		words += ", " + w.atMost() + w.needed() + w.because(true)
	}
	if from, to := w.longest[0], w.longest[1]; from < to {
		words += fmt.Sprintf("; the longest attempt began at %s and was over by %s", display.Seconds(from), display.Seconds(to))
	}
	b.caption.tell(w.from, short(w.client), words)
}

func (b *builder) drawGrant(me int, g grant) {
	ok := g.s.Acquire.Return
	label := "ok"
	if len(g.votes) > 0 {
		label = fmt.Sprintf("ok %d/%d", len(g.votes), g.voters)
	}
	detail, bad := g.detail()
	lanes := b.drawWait(me, g, b.lanes.byLane(g.won))
	if len(lanes) == 0 { // all answers had come before
		b.sheet.note(note{Lane: me, At: ok.T, Mark: dot, Label: detail, Bad: bad, Events: numbers(ok)})
	}
	b.sheet.facts++
	for _, l := range lanes {
		yes := slices.DeleteFunc(slices.Clone(l.events), func(e *event) bool { return len(g.votes) > 0 && !slices.Contains(g.votes, e.Node) })
		if len(yes) == 0 {
			continue
		}
		l.events = yes
		a := arrow{From: l.lane, To: me, Answer: true, Label: label, Detail: detail, Bad: bad,
			Sent: min(l.applied(), ok.T), Arrived: ok.T, Events: numbers(append(yes, ok)...)}
		if len(g.votes) == 0 { // nobody saw when the nodes answered
			a.Sent = ok.T
		}
		b.sheet.message(a)
	}
	b.caption.tell(ok.T, short(g.s.Client()), g.words())
	b.drawExpiry(g)
}

// drawExpiry notes that keys expire before their holder stops believing in them. A key that something else ended is
// drawn there.
func (b *builder) drawExpiry(g grant) {
	for _, l := range b.lanes.byLane(g.won) {
		var due []*event
		enough := false // some live long enough
		for _, e := range l.events {
			switch at := b.f.expiry(e); {
			case !slices.Contains(g.votes, e.Node), e.TTL <= 0, e.Applied <= 0:
				enough = true
			case at == never, endedEarly(b.scene, g.s, e.Node):
			case at < g.s.until:
				due = append(due, e)
			default:
				enough = true
			}
		}
		if enough || len(due) == 0 {
			continue
		}
		for _, e := range due {
			b.due[[2]string{g.s.Name(), e.Node}] = true
		}
		at, last := slices.Max(stamps(due, b.f.expiry)), ""
		if len(due) > 1 {
			last = "the last "
		}
		b.sheet.note(note{Lane: l.lane, At: at, Mark: cross, Bad: true, Events: numbers(due...),
			Label: fmt.Sprintf("%s's key is due to expire on %s, %s%s of true time before its belief ends", short(g.s.Client()), nodeList(nodesOf(due)), last, display.Span(minus(g.s.until, at)))})
	}
}

// endedEarly reports whether the verdict names what ended a session's key on a node before its time; of a node that it
// does not name, whether it does so of another.
func endedEarly(sc *scene, s *session, node string) (early bool) {
	if sc.result == nil {
		return false
	}
	for _, l := range sc.result.Losses {
		if l.First != s.Name() {
			continue
		}
		ended := sc.ending(l) != nil
		if l.Node == node {
			return ended
		}
		early = early || ended
	}
	return early
}

// grant is how a session got the lock.
type grant struct {
	s      *session
	won    []*event
	left   int64    // how long the lock said it lasts, by the client's clock; never: it named no deadline
	votes  []string // the nodes whose yes counted; none: the wire was not recorded
	voters int      // how many nodes there are to vote
	quorum int      // how many votes are a majority, 0: nobody knows
	twice  string   // the nodes that had voted for somebody who still believes in it, in words
}

// grantOf is the grant of a session by its winning round.
func (sc *scene) grantOf(s *session, won []*event) grant {
	yes := votes(won, s.Acquire.Return.T)
	g := grant{s: s, won: won, left: sc.f.left(s.Acquire.Return), votes: yes, voters: max(len(sc.f.nodes()), len(yes)), quorum: sc.f.Params.Quorum}
	for _, o := range sc.focus {
		first := o.won
		if o == s || first == nil || o.Key() != s.Key() || !o.believes(s.begin) {
			continue
		}
		var both []string
		for _, n := range votes(first, o.begin) {
			if slices.Contains(yes, n) && commandTo(first, n).Applied < commandTo(won, n).Applied {
				both = append(both, n)
			}
		}
		if len(both) > 0 {
			g.twice = fmt.Sprintf("%s had voted for %s", nodeList(both), short(o.Client()))
			break
		}
	}
	return g
}

// minority reports whether the votes that are known are no majority.
func (g grant) minority() bool { return len(g.votes) > 0 && len(g.votes) < g.quorum }

// enough is what so many votes are called.
func (g grant) enough() string { return quorumWord(g.quorum, g.voters) }

func quorumWord(votes, nodes int) string {
	if votes == nodes/2+1 {
		return "a majority"
	}
	return "a quorum"
}

// detail is the grant for its arrows; it is bad if there was no majority, or if a
// node voted twice.
func (g grant) detail() (detail string, bad bool) {
	s := g.s
	detail = fmt.Sprintf("%s holds %s", short(s.Client()), short(s.Key()))
	switch until := s.promised; {
	case until == never:
		detail += ", no deadline"
	case until <= s.begin:
		detail += ", past its deadline already"
	default:
		detail += fmt.Sprintf(" until %s", display.Seconds(until))
	}
	if fence := s.Acquire.Return.Fence; fence != 0 {
		detail += fmt.Sprintf(", fence %d", fence)
	}
	if g.minority() {
		detail += fmt.Sprintf("; %s is %d", g.enough(), g.quorum)
	}
	if g.twice != "" {
		detail += "; " + g.twice
	}
	return detail, g.minority() || g.twice != ""
}

// words is the grant for the caption.
func (g grant) words() string {
	ok := g.s.Acquire.Return
	text := fmt.Sprintf("acquired %s at %s", short(g.s.Key()), display.Seconds(ok.T))
	if g.left != never {
		text += fmt.Sprintf(" with %s left", display.Span(max(0, g.left)))
	}
	if n := len(g.votes); n > 0 {
		text += fmt.Sprintf(", by %d of %d votes", n, g.voters)
	}
	if g.minority() {
		text += fmt.Sprintf(" where %d are %s", g.quorum, g.enough())
	}
	if g.twice != "" {
		text += "; " + g.twice
	}
	return text
}

// drawLease draws a session's belief, and its end where a deadline ended it.
func (b *builder) drawLease(s *session) {
	lane, ok := b.lanes.of(s.Client())
	if !ok || !s.Granted() {
		return
	}
	for _, w := range s.windows {
		b.sheet.bar(lane, believes, w.From, w.To, w.Opens)
	}
	if s.ended == facts.Lost && b.scene.shown(s.until) {
		e, who := b.f.Lost(s.Session), short(s.Client())
		b.sheet.note(note{Lane: lane, At: s.until, Mark: stop, Label: who + " is told that it has lost " + short(s.Key()), Events: numbers(e)})
		b.caption.tell(s.until, who, "was told at "+display.Seconds(s.until)+" that it had lost it")
	}
	if s.ended != facts.Expired || !b.scene.shown(s.until) || s.until == s.begin {
		return
	}
	b.sheet.note(note{Lane: lane, At: s.until, Mark: stop, Label: short(s.Client()) + "'s lease ends", Events: numbers(s.Acquire.Return)})
	if s.last() > s.until {
		b.caption.tellOf(s.until, short(s.Client()), "lease ended at "+display.Seconds(s.until))
	}
}

// drawDeletions draws the releases that took a lock away from its holder.
func (b *builder) drawDeletions() {
	done := map[*event]bool{}
	for _, d := range b.scene.deletions {
		if done[d.release] || !b.scene.shown(d.release.Applied) {
			continue
		}
		client := facts.Sender(d.release)
		var same []*event
		for _, o := range b.scene.deletions {
			if facts.Sender(o.release) == client && o.victim == d.victim && !done[o.release] &&
				minus(o.release.Applied, d.release.Applied) <= b.f.slow() {
				same = append(same, o.release)
				done[o.release] = true
			}
		}
		b.drawDeletion(d.victim, client, same)
	}
}

func (b *builder) drawDeletion(victim *session, client string, releases []*event) {
	me, ok := b.lanes.of(client)
	if !ok {
		return
	}
	nodes := nodeList(nodesOf(releases))
	sent, applied := stamps(releases, func(e *event) int64 { return e.Sent }), stamps(releases, func(e *event) int64 { return e.Applied })
	whose := short(victim.Client()) + "'s"
	b.sheet.facts++
	arrows := [][]*event{releases}
	if display.Seconds(slices.Min(applied)) != display.Seconds(slices.Max(applied)) {
		arrows = slices.Collect(slices.Chunk(releases, 1)) // each is told at its own instant
	}
	for _, together := range arrows {
		detail := fmt.Sprintf("a release of %s DELETES %s key on %s", short(client), whose, nodeList(nodesOf(together)))
		for _, l := range b.lanes.byLane(together) {
			b.sheet.message(arrow{From: me, To: l.lane, Label: "release", Mark: cross, Bad: true, Sent: l.sent(), Arrived: l.applied(), Detail: detail, Events: numbers(l.events...)})
		}
	}
	b.caption.tell(slices.Max(applied), "a release of "+short(client), fmt.Sprintf("that was sent %s reached %s %s and deleted %s key there",
		moment("at", sent), nodes, moment("at", applied), whose))
}

// drawOverlap marks the span in which two clients believed in the same lock. Where
// the verdict found no violation, the stamps are too coarse to say so.
func (b *builder) drawOverlap() {
	if len(b.scene.focus) < 2 || !b.scene.violated() {
		return
	}
	x, y := b.scene.focus[0], b.scene.focus[1]
	w := b.scene.result.Witness
	from, to := together(x, y)
	if x.Key() != y.Key() {
		return
	}
	if from >= to {
		if b.scene.result.Cause == verdict.Overlap && w != nil {
			b.caption.tell(w.From, "both", fmt.Sprintf("must have held %s %s, by the answers that they got, though they never believed so at once",
				short(x.Key()), display.FromTo(w.From, min(w.To, b.f.last))))
		}
		return
	}
	if b.scene.result.Property == verdict.MutualExclusion && w != nil && from <= w.From && w.From < w.To && w.To <= to {
		from, to = w.From, w.To // the verdict allows for the error of the stamps
	}
	label := fmt.Sprintf("BOTH %s and %s believe that they hold %s", short(x.Client()), short(y.Client()), short(x.Key()))
	if to == never {
		to = b.f.last
	} else {
		if display.Seconds(from) == display.Seconds(to) {
			label += " for " + display.Span(minus(to, from))
		} else {
			label += " until " + display.Seconds(to)
		}
	}
	b.sheet.band(from, to, "two believe that they hold it at once", label, numbers(x.Acquire.Return, y.Acquire.Return))
	b.caption.tell(from, "both", fmt.Sprintf("believed that they held %s %s", short(x.Key()), display.FromTo(from, to)))
}

// drawLosses draws where a node lost the key by which it had granted the first session, by
// the facts that the verdict names. What a release took away is drawn as that release.
func (b *builder) drawLosses() {
	if b.scene.result == nil {
		return
	}
	type lost struct {
		lane  int
		first string
		what  history.Change
		at    string // as it is written: one sentence never speaks of two instants
	}
	of := map[*event]lost{}
	var ends []*event
	for _, l := range b.scene.result.Losses {
		e := b.scene.ending(l)
		lane, ok := b.lanes.of(l.Node)
		if e == nil || !ok || released(b.scene, e) || !b.scene.shown(e.T) {
			continue
		}
		of[e], ends = lost{lane, l.First, e.Life.What, display.Seconds(e.T)}, append(ends, e)
	}
	b.drawLapses()
	for _, g := range grouped(ends, func(e *event) lost { return of[e] }) {
		what, at := of[g[0]], g[0].T
		s := b.f.named[what.first]
		if s == nil {
			continue
		}
		var names []string
		for _, e := range g {
			names = append(names, e.Process)
		}
		text := display.KeyLost(what.what, short(s.Client())+"'s key", short(facts.LinkClient(g[0].Life.By)))
		b.sheet.note(note{Lane: what.lane, At: at, Mark: cross, Label: nodeList(names) + " " + text, Bad: true, Events: numbers(g...)})
		b.caption.tell(at, nodeList(names), text+" at "+display.Seconds(at))
	}
}

// drawLapses draws when keys had lived their time whose holder still believed in them, if that is not drawn yet: of a
// lock whose commands tell no TTL only the nodes know.
func (b *builder) drawLapses() {
	for _, l := range b.scene.result.Losses {
		s := b.f.named[l.First]
		lane, ok := b.lanes.of(l.Node)
		if s == nil || !ok || b.due[[2]string{l.First, l.Node}] || b.scene.ending(l) != nil {
			continue
		}
		for _, x := range b.f.Lives().Stays(l.Node, s.Key()) {
			expired := x.End == nil || x.End.Life.What == history.KeyExpired
			at := x.Lapse(b.f.TurnsOf(x.Node))
			if x.End != nil {
				at = min(at, x.End.T)
			}
			if s.put(x) && expired && at < s.until && b.scene.shown(at) {
				key := "key on " + short(l.Node)
				b.sheet.note(note{Lane: lane, At: at, Mark: cross, Bad: true, Label: possessive(s.Client()) + " " + key + " has lived its time", Events: numbers(x.Put, x.Given, x.End)})
				b.caption.tellOf(at, short(s.Client()), key+" had lived its time at "+display.Seconds(at))
			}
		}
	}
}

// released reports whether a fact is the doing of a release that is drawn.
func released(sc *scene, e *event) bool {
	release := sc.f.ReleaseOf(e)
	return release != nil && slices.ContainsFunc(sc.deletions, func(d deletion) bool { return d.release == release })
}

// ending is the fact that ended a key of the first session before its time, or nil. Where that is not the cause, as the
// key's time would have been over all the same, it is what ended the key while its holder believed in it.
func (sc *scene) ending(l verdict.Loss) *event {
	first := sc.f.named[l.First]
	for _, x := range sc.f.Lives().Stays(l.Node, sc.result.Witness.Key) {
		switch {
		case x.End == nil:
		case l.Fact != 0:
			if x.End.N == l.Fact {
				return x.End
			}
		case first != nil && first.put(x) && x.End.T < first.until && endedBefore(sc.f, x):
			return x.End
		}
	}
	return nil
}

// drawWork draws what a session did with the resource and how it gave the lock back.
func (b *builder) drawWork(s *session) {
	me, ok := b.lanes.of(s.Client())
	if !ok {
		return
	}
	for _, c := range s.calls {
		if !b.scene.shown(c.Call.T) {
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

// drawCheck notes the client's look at its own deadline: if it stopped the client, or if a
// fault hit the client, for then the passing is what the story turns on.
func (b *builder) drawCheck(s *session, c facts.Operation, me int) {
	n := note{Lane: me, At: c.Call.T, Mark: dot, Events: numbers(c.Call)}
	if c.Outcome() != history.OK {
		n.Label = fmt.Sprintf("%s checks: its lease is over, it does not write", short(s.Client()))
		b.sheet.note(n)
		b.caption.tell(n.At, short(s.Client()), fmt.Sprintf("found its lease over at %s and did not write", display.Seconds(n.At)))
		return
	}
	hit := slices.ContainsFunc(b.scene.faults, func(ft *facts.Fault) bool { return ft.Hits(s.Client()) })
	if !hit {
		return
	}
	n.Label = fmt.Sprintf("%s checks its lease: valid", short(s.Client()))
	if left := b.f.leftAt(s, c.Call); left != never && left > 0 {
		n.Label += fmt.Sprintf(", %s left", display.Span(left))
	}
	b.sheet.note(n)
}

// drawRead draws the answer only: a read's request tells nothing more.
func (b *builder) drawRead(s *session, c facts.Operation, me int) {
	b.sheet.facts++
	who := short(s.Client())
	if c.Outcome() == history.OK && b.scene.shown(c.Return.T) {
		b.sheet.message(arrow{From: b.lanes.storage, To: me, Answer: true, Sent: max(c.Call.T, minus(c.Return.T, b.f.slow())), Arrived: c.Return.T,
			Label: fmt.Sprintf("version %d", c.Return.Version), Detail: who + " reads", Events: numbers(c.Call, c.Return)})
		return
	}
	a := arrow{From: me, To: b.lanes.storage, Sent: c.Call.T, Arrived: c.Call.T, Label: "read", Detail: "no answer", Lost: true, Events: numbers(c.Call, c.Return)}
	if c.Outcome() == history.OK {
		a.Detail = "no answer until " + display.Seconds(c.Return.T)
	}
	if c.Outcome() == history.Fail {
		a.Lost, a.Mark, a.Detail = false, cross, "refused"
		b.caption.tell(c.Return.T, short(s.Client()), fmt.Sprintf("tried to read at %s and was refused", display.Seconds(c.Call.T)))
	}
	b.sheet.message(a)
}

// drawWrite draws a write and what the resource made of it.
func (b *builder) drawWrite(s *session, c facts.Operation, me int) {
	at := b.f.appliedAt(c.Call.Value)
	if at == 0 && c.Outcome() != history.Info {
		at = c.Return.T
	}
	wire := b.f.wireWrite(c.Call.Value)
	a := arrow{From: me, To: b.lanes.storage, Sent: c.Call.T, Arrived: at, Label: "write", Events: numbers(c.Call, c.Return, wire)}
	if wire != nil && wire.Sent != 0 {
		a.Sent = wire.Sent
	}
	entry := b.f.applies[c.Call.Value]
	w := s.wrote(c, entry, at, b.f.Params.Fence)
	a.Mark, a.Detail, a.Bad, a.Lost = w.mark, w.label, w.bad, at == 0
	if entry != nil {
		a.Events = numbers(c.Call, c.Return, wire, entry.Event)
	}
	b.sheet.facts++
	b.sheet.message(a)
	told := a.Arrived
	if a.Lost {
		told = c.Call.T // the instant that the sentence names
	}
	b.caption.tell(told, short(s.Client()), w.words)
}

// drawRelease draws the request; what it came to stands in words.
func (b *builder) drawRelease(s *session, c facts.Operation, me int) {
	detail := short(s.Client()) + " gives the lock back"
	switch c.Outcome() {
	case history.Fail:
		detail = short(s.Client()) + " gives back what it no longer holds"
	case history.Info:
		detail = short(s.Client()) + " releases, outcome unknown"
	}
	var asked []*event
	for _, e := range sent(b.f.wires, s.Client(), c.Call.T, min(c.Ended(), b.f.last)) {
		deletes := slices.ContainsFunc(b.scene.deletions, func(d deletion) bool { return d.release == e })
		if e.Op == history.OpRelease && e.Key == s.Key() && !deletes {
			asked = append(asked, e)
		}
	}
	b.sheet.facts++
	groups := b.lanes.byLane(asked)
	if len(asked) == 0 {
		groups = b.lanes.byLane(b.f.everyNode(c.Call, c.Call.T))
	}
	for _, g := range groups {
		a := arrow{From: me, To: g.lane, Label: "release", Detail: detail, Sent: g.sent(), Arrived: g.applied(),
			Events: numbers(append(g.events, c.Call, c.Return)...)}
		a.Lost = a.Arrived == 0
		if !a.Lost && a.Arrived > b.scene.to {
			a.Arrived = a.Sent // it is under way when the story ends
		}
		b.sheet.message(a)
	}
}

// drawExtend notes an extension. Those that came to the same, one after the
// other, are one note at the first of them.
func (b *builder) drawExtend(s *session, c facts.Operation, me int) {
	run := s.alike(c)
	if run == nil {
		return
	}
	last := run[len(run)-1]
	n := note{Lane: me, At: c.Call.T, Mark: dot, Events: numbers(c.Call, c.Return, last.Call, last.Return)}
	who, what, did, try := short(s.Client()), "extends", "extended it", "extend it"
	switch c.Call.Value {
	case history.OpAcquire:
		what, did, try = "acquires what it holds", "acquired it again", "acquire it again"
	case history.OpRelease:
		what, did, try = "releases one of several", "released one of several", "release one of several"
	}
	if len(run) > 1 {
		what += " " + display.Plural(len(run), "time")
	}
	switch c.Outcome() {
	case history.OK:
		if c.Call.Value == history.OpCheck {
			n.Label = who + " asks its lock after the deadline: it is held"
			b.caption.tell(n.At, who, fmt.Sprintf("asked its lock at %s, after the deadline, and was told that it is held", display.Seconds(n.At)))
			break
		}
		until := b.f.promised(last.Return)
		n.Label = fmt.Sprintf("%s %s, at last until %s", who, what, display.Seconds(until))
		if len(run) == 1 {
			n.Label = fmt.Sprintf("%s %s until %s", who, what, display.Seconds(until))
		}
		b.caption.tell(n.At, who, fmt.Sprintf("%s %s, until %s", did, display.Times(len(run)), display.Seconds(until)))
	case history.Fail:
		n.Label = fmt.Sprintf("%s %s: the lock is lost", who, what)
		b.caption.tell(n.At, who, fmt.Sprintf("found at %s that its lock was lost", display.Seconds(n.At)))
	default:
		n.Label = fmt.Sprintf("%s %s in vain", who, what)
		b.caption.tell(n.At, who, fmt.Sprintf("tried to %s %s from %s on, in vain", try, display.Times(len(run)), display.Seconds(n.At)))
	}
	b.sheet.note(n)
}

// alike is the extensions from c on that were called and ended as it was, or nil if c is not
// the first of them.
func (s *session) alike(c facts.Operation) []facts.Operation {
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

// expiry is when a key that was set is due to expire: as its node tells and by that node's clock, or by the extensions
// that the node agreed to. Never: something else ended it before.
func (f *course) expiry(set *event) int64 {
	for _, x := range f.Lives().Stays(set.Node, set.Key) {
		if x.By() == set.Process && x.Put.Sent == set.Sent && set.Sent != 0 && x.Due() != never {
			if endedBefore(f, x) {
				return never
			}
			return x.Lapse(f.TurnsOf(x.Node))
		}
	}
	at := plus(set.Applied, set.TTL)
	for _, e := range sent(f.wires, facts.Sender(set), set.Sent, f.last) {
		if e.Op == history.OpExtend && e.Type == history.OK && e.Node == set.Node && e.Key == set.Key && e.Token == set.Token && e.Applied > 0 {
			at = max(at, plus(e.Applied, cmp.Or(e.TTL, set.TTL)))
		}
	}
	return at
}

// endedBefore reports whether a key was gone before its time was over, and neither expired nor was ended by its own client.
func endedBefore(f *course, x *facts.Stay) bool {
	return x.End != nil && x.End.Life.What != history.KeyExpired && x.End.T < x.Lapse(f.TurnsOf(x.Node)) && (x.End.Life.By == "" || facts.LinkClient(x.End.Life.By) != facts.LinkClient(x.By()))
}

// drawFaults draws what the nemesis did. One step that hits many targets within a
// moment is one fact. What changed nothing is counted at the story's end.
func (b *builder) drawFaults() {
	shown := b.scene.faultGroups()
	for i := len(shown) - 1; i >= 0 && len(shown) > mostFaults; i-- {
		if !(inWords{b.scene}).blames(shown[i]) {
			shown, b.scene.folded = slices.Delete(shown, i, i+1), b.scene.folded+1
		}
	}
	for _, g := range grouped(b.scene.idle, func(ft *facts.Fault) string { return ft.Target }) {
		more := display.Times(len(g))
		if slices.ContainsFunc(slices.Concat(shown...), func(ft *facts.Fault) bool {
			return ft.Target == g[0].Target && nemesis.ToldOf(ft.Kind).State == nemesis.Stopped
		}) {
			if more = "once more"; len(g) > 1 {
				more = display.Plural(len(g), "more time")
			}
		}
		b.caption.tell(never, short(g[0].Target), "was paused "+more+", without effect")
	}
	for _, g := range shown {
		lane := b.faultLane(g)
		w := wordsFor(g, b.scene.faultTargets(g), b.f.held(g[0]))
		begun := stamps(g, (*facts.Fault).From)
		from := slices.Min(begun)
		var begins, ends []*event
		for _, ft := range g {
			begins, ends = append(begins, ft.Begin), append(ends, ft.End)
		}
		b.sheet.note(note{Lane: lane, At: from, Mark: w.mark, Label: w.Began + others("last", begun, slices.Max(begun)), Bad: true, Events: numbers(begins...)})
		over := g[0].End != nil
		ended := stamps(g, (*facts.Fault).To)
		if over {
			label := w.Ended
			if back := backWith(g); w.mark == cross && back != "" {
				label += ": " + back // what the node has now is what matters
			}
			b.sheet.note(note{Lane: lane, At: slices.Max(ended), Mark: w.over, Label: label + others("first", ended, slices.Min(ended)), Events: numbers(ends...)})
		}
		switch {
		case g[0].Step == history.Unplanned: // the verdict names it
		case over:
			b.caption.tell(from, w.Whom, w.whole(begun, ended, backWith(g)))
		default:
			b.caption.tell(from, w.Whom, w.Was+" "+moment("at", begun))
		}
		for _, ft := range g {
			b.faultBar(ft)
		}
	}
}

// others says when the first or the last of several happened that are drawn at one instant.
func others(which string, instants []int64, at int64) string {
	if display.Seconds(slices.Min(instants)) == display.Seconds(slices.Max(instants)) {
		return ""
	}
	return ", the " + which + " at " + display.Seconds(at)
}

// backWith is what was read back when faults ended, if it is the same of all.
func backWith(g []*facts.Fault) string {
	for _, ft := range g {
		if ft.End == nil || ft.End.Cause != g[0].End.Cause {
			return ""
		}
	}
	return g[0].End.Cause
}

func (b *builder) faultBar(ft *facts.Fault) {
	state := map[nemesis.State]state{nemesis.Stopped: paused, nemesis.Down: dead}[nemesis.ToldOf(ft.Kind).State]
	lane, ok := b.lanes.of(ft.Target)
	if !ok || state == "" || len(b.lanes.all[lane].Members) > 1 {
		return
	}
	b.sheet.bar(lane, state, ft.From(), ft.To(), ft.Begin, ft.End)
}

// faultLane is the lane of the target, or for a link that of its client.
func (b *builder) faultLane(g []*facts.Fault) int {
	if lane, ok := b.lanes.of(g[0].Target); ok {
		return lane
	}
	if lane, ok := b.lanes.of(b.scene.linkOwner(g[0].Target)); ok {
		return lane
	}
	return -1
}

// mostFaults is how many faults a reader can follow.
const mostFaults = 12

// faultGroups folds faults of one kind that begin within a moment: those of one
// step, and messages of one sort that are held.
func (sc *scene) faultGroups() [][]*facts.Fault {
	var out [][]*facts.Fault
	for _, ft := range sc.faults {
		i := slices.IndexFunc(out, func(g []*facts.Fault) bool {
			kind, _ := nemesis.KindOf(ft.Kind)
			same := g[0].Step == ft.Step || (kind.Keeps || kind.Loses) && sc.f.held(ft) == sc.f.held(g[0])
			return same && (g[0].End == nil) == (ft.End == nil) && g[0].Kind == ft.Kind && minus(ft.From(), g[0].From()) <= sc.f.slow() && sc.linkOwner(g[0].Target) == sc.linkOwner(ft.Target)
		})
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], ft)
	}
	return out
}

// faultTargets names what a group of faults hits.
func (sc *scene) faultTargets(g []*facts.Fault) string {
	owner := sc.linkOwner(g[0].Target)
	var names []string
	for _, ft := range g {
		if owner == "" {
			names = append(names, ft.Target)
			continue
		}
		_, node, _ := nemesis.SplitLink(ft.Target[len(owner):])
		names = append(names, node)
	}
	return nodeList(names)
}

// linkOwner is the client whose link a target is, "" if it is no link.
func (sc *scene) linkOwner(target string) string {
	for _, c := range sc.clients() {
		if c != "" && strings.HasPrefix(target, c+"-") {
			return c
		}
	}
	return ""
}

// held says what a hold holds: the message that set it off, or else of the messages on its link that were
// under way for at least half of it, the one that set out nearest to its beginning.
func (f *course) held(ft *facts.Fault) string {
	for _, p := range f.Params.Steps {
		if trigger := strings.Fields(p.When); p.Step == ft.Step && len(trigger) > 1 {
			switch trigger[1] {
			case "request":
				return trigger[0]
			case "reply":
				return "answer to " + trigger[0]
			}
		}
	}
	half := minus(min(ft.To(), f.last), ft.From()) / 2
	what, nearest := "message", int64(never)
	consider := func(name string, from, to int64) {
		distance := max(minus(from, ft.From()), minus(ft.From(), from))
		if from != 0 && (to == 0 || minus(to, from) >= half) && distance < nearest {
			what, nearest = name, distance
		}
	}
	for _, e := range f.wires {
		if e.Process == ft.Target {
			consider(e.Op, e.Sent, e.Applied)
			consider("answer to "+e.Op, e.Applied, e.Answered)
		}
	}
	return what
}

// longestSaw is how much is told of what was seen of a fault.
const longestSaw = 200

type faultWords struct {
	nemesis.Told
	mark, over symbol
}

// whole tells of faults that ended. What a node came back with matters.
func (w faultWords) whole(begun, ended []int64, back string) string {
	from, to := moment("at", begun), moment("at", ended)
	switch {
	case w.Back != "":
		return fmt.Sprintf("%s %s, and %s %s", w.Was, from, w.Back, to)
	case w.State != nemesis.Down && strings.HasPrefix(from, "at") && strings.HasPrefix(to, "at"):
		return w.Was + " " + display.FromTo(begun[0], ended[0])
	case w.State != nemesis.Down:
		return fmt.Sprintf("%s, beginning %s and ending %s", w.Was, from, to)
	case back != "":
		back = " (" + display.Fit(back, longestSaw) + ")"
	}
	return fmt.Sprintf("%s %s and started again %s%s", w.Was, from, to, back)
}

// wordsFor tells a group of faults on targets. Held is the message that a fault of
// one message is about.
func wordsFor(g []*facts.Fault, targets, held string) faultWords {
	client, _, _ := nemesis.SplitLink(g[0].Target)
	client = short(client)
	saw := ""
	if first := g[0].Begin; first != nil && first.Cause != "" && !slices.ContainsFunc(g, func(ft *facts.Fault) bool { return ft.Begin == nil || ft.Begin.Cause != first.Cause }) {
		saw = " (" + display.Fit(first.Cause, longestSaw) + ")"
	}
	w := faultWords{Told: toldOf(g[0].Kind), mark: down, over: up}
	kind, _ := nemesis.KindOf(g[0].Kind)
	switch {
	case w.State == nemesis.Down:
		w.mark, w.over = cross, ring
	case kind.Loses:
		w.mark = cross
	case w.Back != "":
		w.over = ring
	}
	in := strings.NewReplacer("{targets}", targets, "{client}", client, "{kind}", short(g[0].Kind), "{message}", message(held, client, targets, len(g), len(g) > targetsOf(g)), "{saw}", saw)
	w.Whom = cmp.Or(w.Whom, "{targets}")
	if w.Whom == "{targets}" && targetsOf(g) > 1 || w.Whom == "{message}" && len(g) > 1 {
		w.Was = plural(w.Was)
		for _, text := range []*string{&w.Began, &w.Ended} {
			if verb, ok := strings.CutPrefix(*text, "{targets} "); ok {
				*text = "{targets} " + plural(verb)
			}
		}
	}
	w.Whom = in.Replace(w.Whom)
	w.Began, w.Ended, w.Was = in.Replace(w.Began), in.Replace(w.Ended), in.Replace(w.Was)
	return w
}

// toldOf is how people are told of a kind of fault, also of one that is no plan's.
func toldOf(kind string) nemesis.Told {
	if kind == history.OpGoOn {
		return nemesis.Told{Began: "{targets} goes on by itself"}
	}
	return nemesis.ToldOf(kind)
}

// plural is what several do, of the words for one.
func plural(words string) string {
	verb, rest, _ := strings.Cut(words, " ")
	switch verb {
	case "is":
		verb = "are"
	case "was":
		verb = "were"
	case "goes":
		verb = "go"
	default:
		verb = strings.TrimSuffix(verb, "s")
	}
	return verb + " " + rest
}

// targetsOf counts the targets of a group of faults.
func targetsOf(g []*facts.Fault) int {
	return len(unique(stamps(g, func(ft *facts.Fault) string { return ft.Target })))
}

// message names so many messages of one sort. If they are repeated, there are several to one target.
func message(held, client, targets string, many int, repeated bool) string {
	s := ""
	if many > 1 {
		s = "s"
	}
	if sort, ok := strings.CutPrefix(held, "answer to "); ok {
		of := short(sort)
		if repeated {
			of += "s"
		}
		return fmt.Sprintf("the answer%s of %s to %s's %s", s, targets, client, of)
	}
	return fmt.Sprintf("the %s%s of %s to %s", short(held), s, client, targets)
}
