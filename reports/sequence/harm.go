package sequence

import (
	"fmt"
	"slices"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
)

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
	var names []string
	for _, e := range releases {
		names = append(names, e.Node)
	}
	slices.Sort(names)
	nodes := nodeRange(unique(names))
	g := laneEvents{events: releases}
	whose := short(victim.Client()) + "'s"
	b.sheet.facts++
	for _, l := range b.lanes.byLane(releases) {
		b.sheet.message(arrow{From: me, To: l.lane, Label: "release", Mark: cross, Bad: true, Sent: l.sent(), Arrived: l.applied(),
			Detail: fmt.Sprintf("a release of %s DELETES %s key on %s", short(client), whose, nodes), Events: numbers(l.events...)})
	}
	b.caption.tell(g.applied(), "a release of "+short(client), fmt.Sprintf("that was sent at %s reached %s at %s and deleted %s key there",
		display.Seconds(g.sent()), nodes, display.Seconds(g.applied()), whose))
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
	if b.scene.result.Property == checker.MutualExclusion && w != nil && from <= w.From && w.From < w.To && w.To <= to {
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
	b.sheet.band(from, to, label, numbers(x.Acquire.Return, y.Acquire.Return))
	b.caption.tell(from, "both", fmt.Sprintf("believed that they held %s %s", short(x.Key()), display.FromTo(from, to)))
}
