package sequence

import (
	"cmp"
	"fmt"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/words"
)

// longestSaw is how much is told of what was seen of a fault.
const longestSaw = 200

// faultWords is how a fault is told.
type faultWords struct {
	nemesis.Told
	mark, over Mark
}

// whole tells of a fault that ended. What a node came back with matters.
func (w faultWords) whole(begin, end int64, back string) string {
	from, to := words.Seconds(begin), words.Seconds(end)
	switch {
	case w.Back != "":
		return fmt.Sprintf("%s at %s, and %s at %s", w.Was, from, w.Back, to)
	case w.State != nemesis.Down:
		return w.Was + " " + words.FromTo(begin, end)
	case back != "":
		back = " (" + words.Fit(back, longestSaw) + ")"
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
		saw = " (" + words.Fit(g[0].Begin.Cause, longestSaw) + ")"
	}
	w := faultWords{Told: toldOf(g[0].Kind), mark: Down, over: Up}
	kind, _ := nemesis.KindOf(g[0].Kind)
	switch {
	case w.State == nemesis.Down:
		w.mark, w.over = Cross, Ring
	case kind.Loses:
		w.mark = Cross
	case w.Back != "":
		w.over = Ring
	}
	in := strings.NewReplacer("{targets}", targets, "{client}", client, "{kind}", short(g[0].Kind), "{message}", message(held, client, targets), "{saw}", saw)
	w.Whom = in.Replace(cmp.Or(w.Whom, "{targets}"))
	w.Began, w.Ended, w.Was = in.Replace(w.Began), in.Replace(w.Ended), in.Replace(w.Was)
	return w
}

// toldOf is how people are told of a kind of fault, also of one that is no plan's.
func toldOf(kind string) nemesis.Told {
	if kind == history.OpGoOn {
		return nemesis.Told{Began: "{targets} goes on by itself", Was: "went on by itself"}
	}
	return nemesis.ToldOf(kind)
}

func message(held, client, targets string) string {
	if sort, ok := strings.CutPrefix(held, "answer to "); ok {
		return fmt.Sprintf("the answer of %s to %s's %s", targets, client, short(sort))
	}
	return fmt.Sprintf("the %s of %s to %s", short(held), client, targets)
}
