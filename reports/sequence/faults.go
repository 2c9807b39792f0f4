package sequence

import (
	"cmp"
	"fmt"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/display"
	"slices"
	"strings"
)

// faultLane returns the lane of the faults' target or, if the target is a link, of the link's client.
// It returns -1 if there is no such lane.
func (b *builder) faultLane(g []*facts.Fault) int {
	if lane, ok := b.lanes.laneOf(g[0].Target); ok {
		return lane
	}
	if lane, ok := b.lanes.laneOf(b.layout.linkOwner(g[0].Target)); ok {
		return lane
	}
	return -1
}

// maxFaults limits the number of faults to what a reader can follow.
const maxFaults = 12

// faultGroups groups faults of the same kind that began at about the same time: the faults of one
// step, or held or lost messages of one type.
func (sc *layout) faultGroups() [][]*facts.Fault {
	var out [][]*facts.Fault
	for _, ft := range sc.faults {
		i := slices.IndexFunc(out, func(g []*facts.Fault) bool {
			kind, _ := nemesis.KindOf(ft.Kind)
			same := g[0].Step == ft.Step || (kind.HoldsMessage || kind.LosesMessage) && sc.f.heldMessage(ft) == sc.f.heldMessage(g[0])
			return same && (g[0].End == nil) == (ft.End == nil) && g[0].Kind == ft.Kind && saturatingSub(ft.From(), g[0].From()) <= sc.f.slowThreshold() && sc.linkOwner(g[0].Target) == sc.linkOwner(ft.Target)
		})
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], ft)
	}
	return out
}

// faultTargets names the targets of a group of faults. For links, it names their nodes.
func (sc *layout) faultTargets(g []*facts.Fault) string {
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

// linkOwner returns the client of a link, or "" if target is not a link of a drawn client.
func (sc *layout) linkOwner(target string) string {
	for _, c := range sc.clients() {
		if c != "" && strings.HasPrefix(target, c+"-") {
			return c
		}
	}
	return ""
}

// heldMessage describes the message that a fault held or lost: the message that triggered the fault
// or, without a trigger, a message that was in flight on the link for at least half of the fault's
// duration. If there are several, it is the message sent closest to the fault's start.
func (f *trace) heldMessage(ft *facts.Fault) string {
	for _, p := range f.Params.Steps {
		if trigger := strings.Fields(p.Trigger); p.Step == ft.Step && len(trigger) > 1 {
			switch trigger[1] {
			case "request":
				return trigger[0]
			case "reply":
				return "reply to " + trigger[0]
			}
		}
	}
	half := saturatingSub(min(ft.To(), f.end), ft.From()) / 2
	what, nearest := "message", int64(noTime)
	consider := func(name string, from, to int64) {
		distance := max(saturatingSub(from, ft.From()), saturatingSub(ft.From(), from))
		if from != 0 && (to == 0 || saturatingSub(to, from) >= half) && distance < nearest {
			what, nearest = name, distance
		}
	}
	for _, e := range f.commands {
		if e.Process == ft.Target {
			consider(e.Op, e.SentAt, e.AppliedAt)
			consider("reply to "+e.Op, e.AppliedAt, e.AnsweredAt)
		}
	}
	return what
}

// maxReadBack limits the length of a read-back or an error message in a sentence, in characters.
const maxReadBack = 200

type faultWording struct {
	nemesis.Wording
	beginMark, endMark symbol
}

// pastSentence describes faults in the past tense. For a node that restarted, it includes the
// read-back.
func (w faultWording) pastSentence(beginTimes, endTimes []int64, readBack string) string {
	from, to := formatInstants("at", beginTimes), formatInstants("at", endTimes)
	switch {
	case w.ReturnText != "":
		return fmt.Sprintf("%s %s, and %s %s", w.PastPredicate, from, w.ReturnText, to)
	case w.State != nemesis.StateDown && strings.HasPrefix(from, "at") && strings.HasPrefix(to, "at"):
		return w.PastPredicate + " " + display.Interval(beginTimes[0], endTimes[0])
	case w.State != nemesis.StateDown:
		return fmt.Sprintf("%s, beginning %s and ending %s", w.PastPredicate, from, to)
	case readBack != "":
		readBack = " (" + display.Truncate(readBack, maxReadBack) + ")"
	}
	return fmt.Sprintf("%s %s and started again %s%s", w.PastPredicate, from, to, readBack)
}

// wordingFor returns the wording for a group of faults on targets. If the faults affect single
// messages, held is the type of message.
func wordingFor(g []*facts.Fault, targets, held string) faultWording {
	client, _, _ := nemesis.SplitLink(g[0].Target)
	client = shorten(client)
	readBack := ""
	if first := g[0].Begin; first != nil && first.Cause != "" && !slices.ContainsFunc(g, func(ft *facts.Fault) bool { return ft.Begin == nil || ft.Begin.Cause != first.Cause }) {
		readBack = " (" + display.Truncate(first.Cause, maxReadBack) + ")"
	}
	w := faultWording{Wording: wordingOf(g[0].Kind), beginMark: downSymbol, endMark: upSymbol}
	kind, _ := nemesis.KindOf(g[0].Kind)
	switch {
	case w.State == nemesis.StateDown:
		w.beginMark, w.endMark = crossSymbol, ringSymbol
	case kind.LosesMessage:
		w.beginMark = crossSymbol
	case w.ReturnText != "":
		w.endMark = ringSymbol
	}
	replacer := strings.NewReplacer("{targets}", targets, "{client}", client, "{kind}", shorten(g[0].Kind), "{message}", messageText(held, client, targets, len(g), len(g) > countTargets(g)), "{saw}", readBack)
	w.Subject = cmp.Or(w.Subject, "{targets}")
	if w.Subject == "{targets}" && countTargets(g) > 1 || w.Subject == "{message}" && len(g) > 1 {
		w.PastPredicate = pluralVerb(w.PastPredicate)
		for _, text := range []*string{&w.BeginText, &w.EndText} {
			if verb, ok := strings.CutPrefix(*text, "{targets} "); ok {
				*text = "{targets} " + pluralVerb(verb)
			}
		}
	}
	w.Subject = replacer.Replace(w.Subject)
	w.BeginText, w.EndText, w.PastPredicate = replacer.Replace(w.BeginText), replacer.Replace(w.EndText), replacer.Replace(w.PastPredicate)
	return w
}

// wordingOf returns the wording for a fault kind. It knows one more kind than plans may contain.
func wordingOf(kind string) nemesis.Wording {
	if kind == history.OpContinue {
		return nemesis.Wording{BeginText: "{targets} resumes by itself"}
	}
	return nemesis.WordingOf(kind)
}

// pluralVerb changes the verb at the start of words from singular to plural.
func pluralVerb(words string) string {
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

// countTargets counts the distinct targets of a group of faults.
func countTargets(g []*facts.Fault) int {
	return len(uniqueNames(collect(g, func(ft *facts.Fault) string { return ft.Target })))
}

// messageText describes count messages of one type. repeated means that several of them went to the
// same target.
func messageText(held, client, targets string, count int, repeated bool) string {
	s, replies := "", "reply"
	if count > 1 {
		s, replies = "s", "replies"
	}
	if sort, ok := strings.CutPrefix(held, "reply to "); ok {
		of := shorten(sort)
		if repeated {
			of += "s"
		}
		return fmt.Sprintf("the %s from %s to %s's %s", replies, targets, client, of)
	}
	return fmt.Sprintf("the %s%s from %s to %s", shorten(held), s, client, targets)
}
