package reports

import (
	"fmt"
	"slices"

	"lockpick/checker"
	"lockpick/nemesis"
)

// drawFaults draws what the nemesis did. One step that hits many targets within a
// moment is one fact.
func (b *builder) drawFaults() {
	for _, g := range b.faultGroups() {
		lane := b.faultLane(g)
		targets := b.faultTargets(g)
		w := wordsFor(g, targets)
		from := g[0].from()
		b.note(Note{Lane: lane, At: from, Mark: w.mark, Label: w.began, Bad: true, Events: numbers(beginnings(g)...)})
		if end := endOf(g); end != nil {
			label := w.ended
			if g[0].kind == "kill" && end.Cause != "" {
				label += ": " + end.Cause // what the node has now is what matters
			}
			b.note(Note{Lane: lane, At: end.T, Mark: w.over, Label: label, Events: numbers(endings(g)...)})
			b.tell(from, w.subject, w.whole(seconds(from), seconds(end.T), end.Cause))
		} else {
			b.tell(from, w.subject, fmt.Sprintf("%s at %s", w.was, seconds(from)))
		}
		for _, ft := range g {
			b.faultBar(ft)
		}
	}
}

func (b *builder) faultBar(ft *fault) {
	state := map[string]State{"pause": Paused, "kill": Dead}[ft.kind]
	lane, ok := b.lane(ft.target)
	if !ok || state == "" || len(b.d.Lanes[lane].Members) > 1 {
		return
	}
	b.bar(lane, state, ft.from(), ft.to(), ft.begin, ft.end)
}

// faultGroups folds faults of one step and kind that begin within a moment.
func (b *builder) faultGroups() [][]*fault {
	var out [][]*fault
	for _, ft := range b.faults {
		i := slices.IndexFunc(out, func(g []*fault) bool {
			return g[0].step == ft.step && g[0].kind == ft.kind && minus(ft.from(), g[0].from()) <= b.slow() &&
				b.sameClient(g[0].target, ft.target)
		})
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], ft)
	}
	return out
}

func (b *builder) sameClient(a, c string) bool {
	return b.linkOwner(a) == b.linkOwner(c)
}

// linkOwner is the client whose link a target is, "" if it is no link.
func (b *builder) linkOwner(target string) string {
	for _, s := range b.f.sessions {
		if onLinkOf(target, s.client) {
			return s.client
		}
	}
	return ""
}

// faultLane is the lane of the target, or for a link that of its client.
func (b *builder) faultLane(g []*fault) int {
	if lane, ok := b.lane(g[0].target); ok {
		return lane
	}
	if lane, ok := b.lane(b.linkOwner(g[0].target)); ok {
		return lane
	}
	return -1
}

// faultTargets names what a group of faults hits.
func (b *builder) faultTargets(g []*fault) string {
	owner := b.linkOwner(g[0].target)
	var names []string
	for _, ft := range g {
		if owner == "" {
			names = append(names, ft.target)
			continue
		}
		_, node, _ := nemesis.SplitLink(ft.target[len(owner):])
		names = append(names, node)
	}
	return nodeRange(unique(names))
}

// faultWords is how a fault is told.
type faultWords struct {
	subject    string
	began      string
	ended      string
	was        string // for the caption, before "from A to B"
	mark, over Mark
}

// whole tells of a fault that ended. What a killed node came back with matters.
func (w faultWords) whole(from, to, back string) string {
	if w.mark != Cross {
		return fmt.Sprintf("%s from %s to %s", w.was, from, to)
	}
	if back != "" {
		back = " (" + clip(back, 60) + ")"
	}
	return fmt.Sprintf("was killed at %s and started again at %s%s", from, to, back)
}

func wordsFor(g []*fault, targets string) faultWords {
	client, _, _ := nemesis.SplitLink(g[0].target)
	client = short(client)
	switch kind := g[0].kind; kind {
	case "pause":
		return faultWords{targets, targets + " is paused", targets + " resumes", "was paused", Down, Up}
	case "kill":
		return faultWords{targets, targets + " is killed", targets + " starts again", "was killed", Cross, Ring}
	case "cut":
		link := "the link " + client + "–" + targets
		return faultWords{link, link + " is cut", link + " works again", "was cut", Down, Up}
	case "hold":
		message := "a message between " + client + " and " + targets
		return faultWords{message, "the network holds " + message, "the network lets pass what it held on " + client + "–" + targets,
			"was held by the network", Down, Up}
	default:
		return faultWords{targets, kind + " of " + targets + " begins", kind + " of " + targets + " ends", "was hit by " + short(kind), Down, Up}
	}
}

func endOf(g []*fault) *event {
	var last *event
	for _, ft := range g {
		if ft.end == nil {
			return nil
		}
		if last == nil || ft.end.T > last.T {
			last = ft.end
		}
	}
	return last
}

func beginnings(g []*fault) (out []*event) {
	for _, ft := range g {
		out = append(out, ft.begin)
	}
	return out
}

func endings(g []*fault) (out []*event) {
	for _, ft := range g {
		out = append(out, ft.end)
	}
	return out
}

// drawLease draws a session's belief, and its end where a deadline ended it.
func (b *builder) drawLease(s *session) {
	lane, ok := b.lane(s.client)
	if !ok || !s.granted() {
		return
	}
	b.bar(lane, Believes, s.begin, s.until, s.acquire().ret)
	if s.ended != byDeadline || !b.shown(s.until) || s.until == s.begin {
		return
	}
	b.note(Note{Lane: lane, At: s.until, Mark: Stop, Label: short(s.client) + "'s lease ends", Events: numbers(s.acquire().ret)})
	if s.last() > s.until {
		b.tellOf(s.until, s.client, "lease ended at "+seconds(s.until))
	}
}

// drawDeletions draws the releases that took a lock away from its holder.
func (b *builder) drawDeletions() {
	done := map[*event]bool{}
	for _, d := range b.deletions {
		if done[d.release] || !b.shown(d.release.Applied) {
			continue
		}
		client := linkClient(d.release)
		var same []*event
		for _, o := range b.deletions {
			if linkClient(o.release) == client && o.victim == d.victim && !done[o.release] &&
				minus(o.release.Applied, d.release.Applied) <= b.slow() {
				same = append(same, o.release)
				done[o.release] = true
			}
		}
		b.drawDeletion(d.victim, client, same)
	}
}

func (b *builder) drawDeletion(victim *session, client string, releases []*event) {
	me, ok := b.lane(client)
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
	whose := short(victim.client) + "'s"
	b.facts++
	for _, l := range b.byLane(releases) {
		b.message(Arrow{From: me, To: l.lane, Label: "release", Mark: Cross, Bad: true, Sent: l.first(sentAt), Arrived: l.last(appliedAt),
			Detail: fmt.Sprintf("a release of %s DELETES %s key on %s", short(client), whose, nodes), Events: numbers(l.events...)})
	}
	b.tell(g.last(appliedAt), "a release of "+short(client), fmt.Sprintf("that was sent at %s reached %s at %s and deleted %s key there",
		seconds(g.first(sentAt)), nodes, seconds(g.last(appliedAt)), whose))
}

// drawOverlap marks the span in which two clients believed in the same lock.
func (b *builder) drawOverlap() {
	if len(b.focus) < 2 || b.result != nil && b.result.Property != checker.MutualExclusion && b.result.Cause == checker.Overrun {
		return
	}
	x, y := b.focus[0], b.focus[1]
	from, to := max(x.begin, y.begin), min(x.until, y.until)
	if !x.granted() || !y.granted() || x.key != y.key || from >= to {
		return
	}
	label := fmt.Sprintf("BOTH %s and %s believe that they hold %s", short(x.client), short(y.client), short(x.key))
	if to == never {
		to = b.f.last
	} else {
		label += " until " + seconds(to)
	}
	events := numbers(x.acquire().ret, y.acquire().ret)
	b.d.Bands = append(b.d.Bands, Band{From: from, To: min(to, plus(b.to, 1)), Label: label, Events: events})
	b.tell(from, "both", fmt.Sprintf("believed that they held %s from %s to %s", short(x.key), seconds(from), seconds(to)))
}
