package sequence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/display"
)

// drawFaults draws what the nemesis did. One step that hits many targets within a
// moment is one fact. What changed nothing is counted at the story's end.
func (b *builder) drawFaults() {
	for _, g := range grouped(b.scene.idle, func(ft *facts.Fault) string { return ft.Target }) {
		more := display.Times(len(g))
		if slices.ContainsFunc(b.scene.faults, func(ft *facts.Fault) bool {
			return ft.Target == g[0].Target && nemesis.ToldOf(ft.Kind).State == nemesis.Stopped
		}) {
			if more = "once more"; len(g) > 1 {
				more = display.Plural(len(g), "more time")
			}
		}
		b.caption.tell(never, short(g[0].Target), "was paused "+more+", without effect")
	}
	for _, g := range b.scene.faultGroups() {
		lane := b.faultLane(g)
		targets := b.scene.faultTargets(g)
		w := wordsFor(g, targets, b.f.held(g[0]))
		from := g[0].From()
		var begins, ends []*event
		for _, ft := range g {
			begins, ends = append(begins, ft.Begin), append(ends, ft.End)
		}
		b.sheet.note(note{Lane: lane, At: from, Mark: w.mark, Label: w.Began, Bad: true, Events: numbers(begins...)})
		end := endOf(g)
		if end != nil {
			label := w.Ended
			if w.mark == cross && end.Cause != "" {
				label += ": " + end.Cause // what the node has now is what matters
			}
			b.sheet.note(note{Lane: lane, At: end.T, Mark: w.over, Label: label, Events: numbers(ends...)})
		}
		switch {
		case g[0].Step == history.Unplanned: // the verdict names it
		case end != nil:
			b.caption.tell(from, w.Whom, w.whole(from, end.T, end.Cause))
		default:
			b.caption.tell(from, w.Whom, fmt.Sprintf("%s at %s", w.Was, display.Seconds(from)))
		}
		for _, ft := range g {
			b.faultBar(ft)
		}
	}
}

func (b *builder) faultBar(ft *facts.Fault) {
	state := map[nemesis.State]state{nemesis.Stopped: Paused, nemesis.Down: dead}[nemesis.ToldOf(ft.Kind).State]
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
			same := g[0].Step == ft.Step || kind.Keeps && sc.f.held(ft) == sc.f.held(g[0])
			return same && g[0].Kind == ft.Kind && minus(ft.From(), g[0].From()) <= sc.f.slow() && sc.linkOwner(g[0].Target) == sc.linkOwner(ft.Target)
		})
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], ft)
	}
	more := max(0, len(out)-mostFaults)
	sc.folded += more
	return out[:len(out)-more]
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
	return nodeRange(unique(names))
}

// linkOwner is the client whose link a target is, "" if it is no link.
func (sc *scene) linkOwner(target string) string {
	for _, c := range sc.clients() {
		if onLinkOf(target, c) {
			return c
		}
	}
	return ""
}

// held says what a hold holds: of the messages on its link that were under way for
// at least half of it, the one that set out nearest to its beginning.
func (f *course) held(ft *facts.Fault) string {
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

// longestSaw is how much is told of what was seen of a fault.
const longestSaw = 200

type faultWords struct {
	nemesis.Told
	mark, over Mark
}

// whole tells of a fault that ended. What a node came back with matters.
func (w faultWords) whole(begin, end int64, back string) string {
	from, to := display.Seconds(begin), display.Seconds(end)
	switch {
	case w.Back != "":
		return fmt.Sprintf("%s at %s, and %s at %s", w.Was, from, w.Back, to)
	case w.State != nemesis.Down:
		return w.Was + " " + display.FromTo(begin, end)
	case back != "":
		back = " (" + display.Fit(back, longestSaw) + ")"
	}
	return fmt.Sprintf("%s at %s and started again at %s%s", w.Was, from, to, back)
}

// wordsFor tells a group of faults on targets. Held is the message that a fault of
// one message is about.
func wordsFor(g []*facts.Fault, targets, held string) faultWords {
	client, _, _ := nemesis.SplitLink(g[0].Target)
	client = short(client)
	saw := ""
	if g[0].Begin != nil && g[0].Begin.Cause != "" {
		saw = " (" + display.Fit(g[0].Begin.Cause, longestSaw) + ")"
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
	in := strings.NewReplacer("{targets}", targets, "{client}", client, "{kind}", short(g[0].Kind), "{message}", message(held, client, targets), "{saw}", saw)
	w.Whom = in.Replace(cmp.Or(w.Whom, "{targets}"))
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

func message(held, client, targets string) string {
	if sort, ok := strings.CutPrefix(held, "answer to "); ok {
		return fmt.Sprintf("the answer of %s to %s's %s", targets, client, short(sort))
	}
	return fmt.Sprintf("the %s of %s to %s", short(held), client, targets)
}
