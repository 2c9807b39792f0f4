package sequence

import (
	"fmt"
	"slices"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/words"
)

// drawWork draws what a session did with the resource and how it gave the lock back.
func (b *builder) drawWork(s *session) {
	me, ok := b.lane(s.Client())
	if !ok {
		return
	}
	for _, c := range s.calls {
		if !b.shown(c.Call.T) {
			continue
		}
		switch {
		case c.Call.Op == history.OpCheck:
			b.drawCheck(s, c, me)
		case c.Call.Op == history.OpRelease:
			b.drawRelease(s, c, me)
		case c.Call.Op == history.OpExtend:
			b.drawExtend(s, c, me)
		case b.storage < 0:
		case c.Call.Op == history.OpRead:
			b.drawRead(s, c, me)
		case c.Call.Op == history.OpWrite:
			b.drawWrite(s, c, me)
		}
	}
}

// drawCheck notes the client's look at its own deadline: always if it stopped the
// client, and where it passed only if a fault hit the client, for then the
// passing is what the story turns on.
func (b *builder) drawCheck(s *session, c facts.Operation, me int) {
	n := Note{Lane: me, At: c.Call.T, Mark: Dot, Events: numbers(c.Call)}
	if c.Outcome() != history.OK {
		n.Label = fmt.Sprintf("%s checks: its lease is over, it does not write", short(s.Client()))
		b.note(n)
		b.tell(n.At, short(s.Client()), fmt.Sprintf("found its lease over at %s and did not write", words.Seconds(n.At)))
		return
	}
	hit := slices.ContainsFunc(b.faults, func(ft *facts.Fault) bool { return ft.Target == s.Client() || onLinkOf(ft.Target, s.Client()) })
	if !hit {
		return
	}
	n.Label = fmt.Sprintf("%s checks its lease: valid", short(s.Client()))
	if left := minus(s.deadline, n.At); s.deadline != never && left > 0 {
		n.Label += fmt.Sprintf(", %s left", words.Span(left))
	}
	b.note(n)
}

// drawRead draws the answer only: a read's request tells nothing more.
func (b *builder) drawRead(s *session, c facts.Operation, me int) {
	b.facts++
	who := short(s.Client())
	if c.Outcome() == history.OK && b.shown(c.Return.T) {
		b.message(Arrow{From: b.storage, To: me, Answer: true, Sent: max(c.Call.T, minus(c.Return.T, b.slow())), Arrived: c.Return.T,
			Label: fmt.Sprintf("version %d", c.Return.Version), Detail: who + " reads", Events: numbers(c.Call, c.Return)})
		return
	}
	a := Arrow{From: me, To: b.storage, Sent: c.Call.T, Arrived: c.Call.T, Label: "read", Detail: "no answer", Lost: true, Events: numbers(c.Call, c.Return)}
	if c.Outcome() == history.Fail {
		a.Lost, a.Mark, a.Detail = false, Cross, "refused"
		b.tell(c.Return.T, short(s.Client()), fmt.Sprintf("tried to read at %s and was refused", words.Seconds(c.Call.T)))
	}
	b.message(a)
}

// drawWrite draws a write and what the resource made of it.
func (b *builder) drawWrite(s *session, c facts.Operation, me int) {
	at := b.f.appliedAt(c.Call.Value)
	if at == 0 && c.Outcome() != history.Info {
		at = c.Return.T
	}
	wire := b.f.wireWrite(c.Call.Value)
	a := Arrow{From: me, To: b.storage, Sent: c.Call.T, Arrived: at, Label: "write", Events: numbers(c.Call, c.Return, wire)}
	if wire != nil && wire.Sent != 0 {
		a.Sent = wire.Sent
	}
	w := b.outcome(s, c, at)
	a.Mark, a.Detail, a.Bad, a.Lost = w.mark, w.label, w.bad, at == 0
	if entry := b.f.applies[c.Call.Value]; entry != nil {
		a.Events = numbers(c.Call, c.Return, wire, entry.Event)
	}
	b.facts++
	b.message(a)
	b.tell(a.Arrived, short(s.Client()), w.words)
}

// written is what became of a write.
type written struct {
	mark  Mark
	label string
	words string // for the caption
	bad   bool
}

func (b *builder) outcome(s *session, c facts.Operation, at int64) written {
	who, base := short(s.Client()), c.Call.Version
	p := b.f.applies[c.Call.Value]
	late := at != 0 && at >= s.until && s.Granted()
	when := words.Seconds(at)
	if late {
		when += ", after " + b.lateness(s)
	}
	applied := p != nil && p.Type == history.OK || p == nil && c.Outcome() == history.OK
	switch {
	case at == 0:
		return written{label: "no answer", words: fmt.Sprintf("sent a write at %s that is not known to have arrived", words.Seconds(c.Call.T))}
	case !applied:
		why := b.refusal(c, p)
		return written{mark: Cross, label: "refused" + why, words: fmt.Sprintf("wrote at %s, and was refused%s", when, why)}
	}
	w := written{mark: Dot, label: fmt.Sprintf("accepted: %s writes on version %d", who, base), bad: late,
		words: fmt.Sprintf("wrote at %s, based on version %d", when, base)}
	if p != nil && p.Met == base {
		w.label = fmt.Sprintf("accepted: version %d → %d", base, base+1)
		w.words = fmt.Sprintf("wrote version %d → %d at %s", base, base+1, when)
	}
	if late {
		w.label = "ACCEPTED after " + b.lateness(s)
	}
	if p != nil && p.Met > base {
		w.bad = true
		victim := fmt.Sprintf("version %d", p.Met)
		if len(p.lost) > 0 {
			victim = list(p.lost) + "'s update"
		}
		if !late {
			w.label = "ACCEPTED"
		}
		w.label += fmt.Sprintf(", based on version %d: %s is LOST", base, victim)
		w.words += ": " + victim + " was lost"
	}
	return w
}

func (b *builder) lateness(s *session) string {
	switch s.ended {
	case byRelease:
		return "its release"
	case byDeath:
		return "its death"
	}
	return "its lease ended"
}

// refusal says why the resource refused a write.
func (b *builder) refusal(c facts.Operation, p *apply) string {
	fence := c.Call.Fence
	switch {
	case b.f.Params.Fence == "check-and-set":
		return ": its claim was taken over"
	case p != nil && p.Seen > fence:
		return fmt.Sprintf(": its fence %d is below %d", fence, p.Seen)
	}
	return ""
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
		if e.Op == history.OpRelease && e.Key == s.Key() && !b.isDeletion(e) {
			asked = append(asked, e)
		}
	}
	b.facts++
	groups := b.byLane(asked)
	if len(asked) == 0 {
		groups = b.byLane(b.everyNode(c.Call))
	}
	for _, g := range groups {
		a := Arrow{From: me, To: g.lane, Label: "release", Detail: detail, Sent: g.first(sentAt), Arrived: g.last(appliedAt),
			Events: numbers(append(g.events, c.Call, c.Return)...)}
		a.Lost = a.Arrived == 0
		if !a.Lost && a.Arrived > b.to {
			a.Arrived = a.Sent // it is under way when the story ends
		}
		b.message(a)
	}
}

// everyNode stands for a request that no link recorded.
func (b *builder) everyNode(e *event) []*event {
	var out []*event
	for _, n := range append(b.nodes(), "")[:max(len(b.nodes()), 1)] {
		c := *e
		c.Node, c.Sent, c.Applied = n, e.T, e.T
		out = append(out, &c)
	}
	return out
}

func (b *builder) isDeletion(e *event) bool {
	return slices.ContainsFunc(b.deletions, func(d deletion) bool { return d.release == e })
}
