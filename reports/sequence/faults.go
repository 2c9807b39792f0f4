package sequence

import (
	"fmt"
	"slices"

	"lockpick/harness/history/facts"
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
		from := g[0].From()
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

func (b *builder) faultBar(ft *facts.Fault) {
	state := map[string]State{"pause": Paused, "kill": Dead, "shutdown": Dead, "power-loss": Dead}[ft.Kind]
	lane, ok := b.lane(ft.Target)
	if !ok || state == "" || len(b.d.Lanes[lane].Members) > 1 {
		return
	}
	b.bar(lane, state, ft.From(), ft.To(), ft.Begin, ft.End)
}

// faultGroups folds faults of one kind that begin within a moment: those of one
// step, and messages of one sort that are held.
func (b *builder) faultGroups() [][]*facts.Fault {
	var out [][]*facts.Fault
	for _, ft := range b.faults {
		i := slices.IndexFunc(out, func(g []*facts.Fault) bool {
			same := g[0].Step == ft.Step || ft.Kind == "hold" && b.held(ft) == b.held(g[0])
			return same && g[0].Kind == ft.Kind && minus(ft.From(), g[0].From()) <= b.slow() && b.sameClient(g[0].Target, ft.Target)
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
func (b *builder) held(ft *facts.Fault) string {
	half := minus(min(ft.To(), b.f.last), ft.From()) / 2
	what, nearest := "message", int64(never)
	consider := func(name string, from, to int64) {
		distance := max(minus(from, ft.From()), minus(ft.From(), from))
		if from != 0 && (to == 0 || minus(to, from) >= half) && distance < nearest {
			what, nearest = name, distance
		}
	}
	for _, e := range b.f.wires {
		if e.Process == ft.Target {
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
func (b *builder) faultLane(g []*facts.Fault) int {
	if lane, ok := b.lane(g[0].Target); ok {
		return lane
	}
	if lane, ok := b.lane(b.linkOwner(g[0].Target)); ok {
		return lane
	}
	return -1
}

// faultTargets names what a group of faults hits.
func (b *builder) faultTargets(g []*facts.Fault) string {
	owner := b.linkOwner(g[0].Target)
	var names []string
	for _, ft := range g {
		if owner == "" {
			names = append(names, ft.Target)
			continue
		}
		_, node, _ := nemesis.SplitLink(ft.Target[len(owner):])
		names = append(names, node)
	}
	return nodeRange(unique(names))
}

func endOf(g []*facts.Fault) *event {
	var last *event
	for _, ft := range g {
		if ft.End == nil {
			return nil
		}
		if last == nil || ft.End.T > last.T {
			last = ft.End
		}
	}
	return last
}

func beginnings(g []*facts.Fault) (out []*event) {
	for _, ft := range g {
		out = append(out, ft.Begin)
	}
	return out
}

func endings(g []*facts.Fault) (out []*event) {
	for _, ft := range g {
		out = append(out, ft.End)
	}
	return out
}
