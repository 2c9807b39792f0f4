package sequence

import (
	"fmt"
	"slices"

	"lockpick/nemesis"
	"lockpick/reports/words"
)

// drawFaults draws what the nemesis did. One step that hits many targets within a
// moment is one fact.
func (b *builder) drawFaults() {
	for _, g := range b.faultGroups() {
		lane := b.faultLane(g)
		targets := b.faultTargets(g)
		w := wordsFor(g, targets, b.held(g[0]))
		from := g[0].from()
		b.note(Note{Lane: lane, At: from, Mark: w.mark, Label: w.began, Bad: true, Events: numbers(beginnings(g)...)})
		if end := endOf(g); end != nil {
			label := w.ended
			if w.mark == Cross && end.Cause != "" {
				label += ": " + end.Cause // what the node has now is what matters
			}
			b.note(Note{Lane: lane, At: end.T, Mark: w.over, Label: label, Events: numbers(endings(g)...)})
			b.tell(from, w.subject, w.whole(words.Seconds(from), words.Seconds(end.T), end.Cause))
		} else {
			b.tell(from, w.subject, fmt.Sprintf("%s at %s", w.was, words.Seconds(from)))
		}
		for _, ft := range g {
			b.faultBar(ft)
		}
	}
}

func (b *builder) faultBar(ft *fault) {
	state := map[string]State{"pause": Paused, "kill": Dead, "shutdown": Dead, "power-loss": Dead}[ft.kind]
	lane, ok := b.lane(ft.target)
	if !ok || state == "" || len(b.d.Lanes[lane].Members) > 1 {
		return
	}
	b.bar(lane, state, ft.from(), ft.to(), ft.begin, ft.end)
}

// faultGroups folds faults of one kind that begin within a moment: those of one
// step, and messages of one sort that are held.
func (b *builder) faultGroups() [][]*fault {
	var out [][]*fault
	for _, ft := range b.faults {
		i := slices.IndexFunc(out, func(g []*fault) bool {
			same := g[0].step == ft.step || ft.kind == "hold" && b.held(ft) == b.held(g[0])
			return same && g[0].kind == ft.kind && minus(ft.from(), g[0].from()) <= b.slow() && b.sameClient(g[0].target, ft.target)
		})
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], ft)
	}
	more := max(0, len(out)-mostFaults)
	b.folded += more
	return out[:len(out)-more]
}

// held says what a hold holds: of the messages on its link that were under way for
// at least half of it, the one that set out nearest to its beginning.
func (b *builder) held(ft *fault) string {
	half := minus(min(ft.to(), b.f.last), ft.from()) / 2
	what, nearest := "message", int64(never)
	consider := func(name string, from, to int64) {
		distance := max(minus(from, ft.from()), minus(ft.from(), from))
		if from != 0 && (to == 0 || minus(to, from) >= half) && distance < nearest {
			what, nearest = name, distance
		}
	}
	for _, e := range b.f.wires {
		if e.Process == ft.target {
			consider(e.Op, e.Sent, e.Applied)
			consider("answer to "+e.Op, e.Applied, e.Answered)
		}
	}
	return what
}

func (b *builder) sameClient(a, c string) bool {
	return b.linkOwner(a) == b.linkOwner(c)
}

// linkOwner is the client whose link a target is, "" if it is no link.
func (b *builder) linkOwner(target string) string {
	for _, c := range b.laneClients() {
		if onLinkOf(target, c) {
			return c
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
