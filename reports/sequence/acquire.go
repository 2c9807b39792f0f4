package sequence

import (
	"fmt"
	"slices"

	"lockpick/reports/display"
)

// drawAcquire draws how a session got the lock: what was tried in vain in one
// note, the winning round as a request and its answers.
func (b *builder) drawAcquire(s *session) {
	me, ok := b.lanes.of(s.Client())
	if !ok {
		return
	}
	b.drawFutile(s, me)
	if !s.Granted() {
		return
	}
	won := b.f.winning(s)
	if won == nil {
		won = b.f.everyNode(s.Acquire.Call, max(s.Acquire.Call.T, b.scene.from))
	}
	b.sheet.facts++
	for _, g := range b.lanes.byLane(won) {
		a := arrow{From: me, To: g.lane, Label: "acquire", Sent: g.sent(), Arrived: g.applied(), Events: numbers(g.events...)}
		a.Lost = a.Arrived == 0
		b.sheet.message(a)
	}
	b.drawGrant(me, b.scene.grantOf(s, won))
}

// drawFutile folds the rounds that came to nothing.
func (b *builder) drawFutile(s *session, me int) {
	w := b.f.futile(s, b.scene.from)
	if w.rounds == 0 {
		return
	}
	tries := display.Times(w.rounds)
	label := fmt.Sprintf("%s tries %s: %s", short(s.Client()), tries, w.because())
	if w.to > w.from {
		label += ", until " + display.Seconds(w.to)
	}
	b.sheet.note(note{Lane: me, At: max(w.from, b.scene.from), Mark: dot, Label: label, Events: numbers(w.events...)})
	if !s.Granted() {
		b.caption.tell(max(w.from, b.scene.from), short(s.Client()), fmt.Sprintf("tried %s in vain %s (%s)", tries, display.FromTo(w.from, w.to), w.because()))
	}
}

func (b *builder) drawGrant(me int, g grant) {
	ok := g.s.Acquire.Return
	label := "ok"
	if len(g.votes) > 0 {
		label = fmt.Sprintf("ok %d/%d", len(g.votes), g.voters)
	}
	detail, bad := g.detail()
	b.sheet.facts++
	for _, l := range b.lanes.byLane(g.won) {
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

// drawExpiry notes that keys end before their holder stops believing in them.
func (b *builder) drawExpiry(g grant) {
	for _, l := range b.lanes.byLane(g.won) {
		var at int64
		for _, e := range l.events {
			if slices.Contains(g.votes, e.Node) && e.TTL > 0 && e.Applied > 0 {
				at = max(at, b.f.expiry(e))
			}
		}
		if at != 0 && at < g.s.until {
			b.sheet.note(note{Lane: l.lane, At: at, Mark: cross, Bad: true, Events: numbers(l.events...),
				Label: fmt.Sprintf("%s's key is due to expire on %s, %s before its belief ends", short(g.s.Client()), b.lanes.all[l.lane].Name, display.Span(minus(g.s.until, at)))})
		}
	}
}
