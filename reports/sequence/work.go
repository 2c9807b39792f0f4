package sequence

import (
	"cmp"
	"fmt"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
)

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
	hit := slices.ContainsFunc(b.scene.faults, func(ft *facts.Fault) bool { return hits(ft, s.Client()) })
	if !hit {
		return
	}
	n.Label = fmt.Sprintf("%s checks its lease: valid", short(s.Client()))
	if left := minus(s.deadline, n.At); s.deadline != never && s.ended != facts.Lost && left > 0 {
		n.Label += fmt.Sprintf(", %s left", display.Span(max(left/1e6*1e6, 1e6)))
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
	b.caption.tell(a.Arrived, short(s.Client()), w.words)
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
		until := facts.Deadline(last.Return)
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

// expiry is when a key that was set is due to expire, by the extensions that its
// node agreed to.
func (f *course) expiry(set *event) int64 {
	at := plus(set.Applied, set.TTL)
	for _, e := range sent(f.wires, facts.Sender(set), set.Sent, f.last) {
		if e.Op == history.OpExtend && e.Type == history.OK && e.Node == set.Node && e.Key == set.Key && e.Token == set.Token && e.Applied > 0 {
			at = max(at, plus(e.Applied, cmp.Or(e.TTL, set.TTL)))
		}
	}
	return at
}
