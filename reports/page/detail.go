package page

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/nemesis"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

func eventDetail(e *history.Event) string {
	parts := []string{}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	add("%s", describeEvent(e))
	if e.Type != history.Invoke && e.ValidUntil != 0 {
		add("until %s (%s left)", display.Seconds(e.ValidUntil), display.Duration(e.ValidUntil-e.T))
	}
	if e.Fence != 0 {
		add("fence %d", e.Fence)
	}
	if e.Op == history.OpClock {
		add("shows %s, runs %+d ppm", display.Seconds(e.Local), e.Drift/1000)
	}
	if e.TTL > 0 {
		add("TTL %s", display.Duration(e.TTL))
	}
	if e.Version != 0 || e.Op == history.OpWrite && e.Type == history.Invoke {
		add("version %d", e.Version)
	}
	if e.Value != "" {
		add("value %s", name(e.Value))
	}
	if e.Token != "" && e.Node != "" {
		add("token %s", display.Sanitize(e.Token, 8))
	}
	if t := deliveryTimes(e); t != "" {
		add("%s", t)
	}
	if e.Cause != "" && e.Op != history.OpLog {
		add("%s", display.Sanitize(e.Cause, maxCellLen))
	}
	if e.Step > 0 {
		add("step %d", e.Step)
	}
	if e.Step == history.UnplannedStep {
		add("unplanned")
	}
	return strings.TrimPrefix(strings.Join(parts, " · "), " · ")
}

// describeEvent describes the operation of an event and the key or node it applies to.
func describeEvent(e *history.Event) string {
	key, node := cmp.Or(name(e.Key), "the lock"), name(e.Node)
	switch {
	case e.Life != nil:
		return describeLife(e.Life, key)
	case e.Process == history.Nemesis && e.Op == history.OpClock:
		return "the clock of " + node + " is changed"
	case e.Process == history.Nemesis:
		return nemesisTexts[e.Type] + " " + faultName(e.Op) + " on " + node
	case e.Op == history.OpLog:
		return fmt.Sprintf("resource log: %s of %s by %s %s at %s", name(e.Cause), key, name(e.Session), logTexts[e.Type], display.Seconds(e.AppliedAt))
	case node != "" && e.Op != history.OpClock:
		return describeReply(e, node, key)
	}
	if w := eventTexts[e.Op+" "+string(e.Type)]; w != "" {
		return strings.NewReplacer("KEY", key, "NODE", node).Replace(w)
	}
	return name(e.Op) + " " + key
}

// describeLife describes a change to a key on a node.
func describeLife(l *history.Life, key string) string {
	text := cmp.Or(display.DescribeKeyChange(l.Kind, key), key+": "+name(string(l.Kind)))
	if l.OldValue != "" && l.OldValue != l.Value {
		text += ", was " + display.Sanitize(l.OldValue, 8)
	}
	if l.Value != "" {
		text += ", is " + display.Sanitize(l.Value, 8)
	}
	switch {
	case l.Sender == "":
	case l.Sender == history.Harness:
		text += ", by lockpick"
	default:
		text += ", by " + name(l.Sender)
	}
	if l.Command != "" {
		text += " (" + name(strings.ToUpper(l.Command)) + ")"
	}
	if l.Replacement != "" {
		text += ", after a " + name(l.Replacement)
	}
	return text
}

// faultName returns the display name of a fault kind.
func faultName(kind string) string {
	if kind == history.OpContinue {
		return "end of a pause"
	}
	return cmp.Or(nemesis.WordingOf(kind).Name, name(kind))
}

var nemesisTexts = map[history.Type]string{
	history.Invoke: "injecting:", history.Begin: "active:", history.End: "healed:", history.Fail: "failed:", history.Info: "note:",
}

var logTexts = map[history.Type]string{history.OK: "applied", history.Fail: "refused"}

// describeReply describes a command to a node and the node's reply.
func describeReply(e *history.Event, node, key string) string {
	op := name(e.Op)
	switch e.Type {
	case history.OK:
		return node + " " + cmp.Or(pastVerbs[e.Op], "agreed to "+op) + " " + key
	case history.Fail:
		return node + " refused to " + op + " " + key
	case history.Info:
		return "no known reply from " + node + " to " + op + " " + key
	}
	return "request to " + node + " to " + op + " " + key
}

var pastVerbs = map[string]string{history.OpSet: "set", history.OpRelease: "released", history.OpExtend: "extended", history.OpRead: "read", history.OpWrite: "wrote"}

// eventTexts describes the events of clients and the harness.
var eventTexts = map[string]string{
	"run begin": "the run begins", "run end": "the run ends", "stop info": "the run is stopped here",
	"client begin": "the client starts", "client end": "the client ends",
	"acquire invoke": "tries to acquire KEY", "acquire ok": "holds KEY", "acquire fail": "fails to acquire KEY", "acquire info": "may have acquired KEY",
	"extend invoke": "extends KEY", "extend ok": "has extended KEY", "extend fail": "fails to extend KEY", "extend info": "may have extended KEY",
	"read invoke": "reads under KEY", "read ok": "read completed", "read fail": "its read under KEY is refused", "read info": "no reply to the read under KEY",
	"check ok": "checks its deadline: not reached yet", "check fail": "checks its deadline: passed",
	"write invoke": "writes under KEY", "write ok": "its write is applied", "write fail": "its write is refused", "write info": "no reply to its write",
	"release invoke": "releases KEY", "release ok": "KEY is released", "release fail": "no longer held KEY", "release info": "release of KEY: outcome unknown",
	"clock info": "the clock of NODE is changed", "clock ok": "the clock of NODE is changed",
	"at invoke": "waits at a synchronization point",
}

// deliveryTimes describes how long it took to deliver a command and to receive its reply.
func deliveryTimes(e *history.Event) string {
	var parts []string
	if e.SentAt == 0 || e.Life != nil {
		return ""
	}
	if e.AppliedAt != 0 {
		parts = append(parts, "delivered after "+display.Duration(e.AppliedAt-e.SentAt))
	}
	if e.AnsweredAt != 0 {
		parts = append(parts, "answered after "+display.Duration(e.AnsweredAt-e.SentAt))
	} else {
		parts = append(parts, "sent "+display.Seconds(e.SentAt)+", no reply")
	}
	return strings.Join(parts, ", ")
}

// faultTable lists the planned steps and what they did.
type faultTable struct {
	Steps      []faultStep
	NumOmitted int // number of omitted steps
	IsLong     bool
}

type faultStep struct {
	Step                                                            int
	What, When                                                      string
	NumPlanned, NumInjected, NumReadBack, NumHitHeldLock, NumHealed string
	NotInjected                                                     string // why the step was not injected
	Times                                                           []faultTime
	NumOmitted                                                      int    // number of omitted times
	Summary                                                         string // how often the fault was injected, and when for the first time
}

type faultTime struct {
	Target, From, To, Lasted, ReadBack, Range string
	Begin, End                                ref

	at int64
}

// With more than maxUnfoldedSteps steps, each step's list of times is folded. maxSteps limits the number of
// steps shown, and maxTimes the times shown for each step.
const (
	maxUnfoldedSteps = 8
	maxSteps         = 100
	maxTimes         = 12
)

func newFaultTable(r outcome.Run, rows map[int64]bool) faultTable {
	var t faultTable
	all := map[int][]*facts.Fault{} // by step, in order of injection; unplanned faults have step numbers below 1
	for _, x := range facts.Read(r.History).Faults {
		all[x.Step] = append(all[x.Step], x)
	}
	steps := slices.Clone(r.History.Params.Steps)
	planned := map[int]bool{}
	for _, s := range steps {
		planned[s.Step] = true
	}
	for _, s := range slices.Sorted(maps.Keys(all)) {
		var kinds []string
		for _, x := range all[s] {
			if !planned[s] && !slices.Contains(kinds, x.Kind) {
				kinds = append(kinds, x.Kind)
				steps = append(steps, history.PlannedStep{Step: s, Fault: x.Kind, Trigger: "unplanned"})
			}
		}
	}
	if len(steps) > maxSteps {
		t.NumOmitted = len(steps) - maxSteps
		steps = steps[:maxSteps]
	}
	t.IsLong = len(steps) > maxUnfoldedSteps
	for _, s := range steps {
		x := faultStep{Step: max(s.Step, 0), What: describeStep(s), When: plainText(s.Trigger)}
		occurrences := all[s.Step]
		if !planned[s.Step] {
			occurrences = slices.DeleteFunc(slices.Clone(occurrences), func(x *facts.Fault) bool { return x.Kind != s.Fault })
		}
		x.setCounts(r, occurrences)
		x.addTimes(occurrences, rows)
		if len(occurrences) == 0 {
			x.NotInjected = "not injected: its trigger did not occur"
			if s.Optional {
				x.NotInjected = "not injected (optional)"
			}
		}
		t.Steps = append(t.Steps, x)
	}
	return t
}

func describeStep(s history.PlannedStep) string {
	text := faultName(s.Fault)
	var targets []string
	for _, t := range s.Targets[:min(len(s.Targets), 8)] {
		targets = append(targets, name(t))
	}
	if n := len(s.Targets) - len(targets); n > 0 {
		targets = append(targets, display.Plural(n, "other"))
	}
	if len(targets) > 0 {
		text += ": " + display.List(targets)
	}
	if s.Delay > 0 {
		text += ", delayed by up to " + display.Duration(int64(s.Delay))
	}
	if s.Offset != 0 {
		text += fmt.Sprintf(", by %+g\u00a0s", s.Offset.Seconds())
	}
	if s.Repeats {
		text += ", every time"
	}
	return text
}

func (x *faultStep) setCounts(r outcome.Run, occurrences []*facts.Fault) {
	number := func(what string) string {
		n, ok := r.Verdict.Numbers[fmt.Sprintf("fault-%d-%s", x.Step, what)]
		if !ok {
			return "–"
		}
		return display.GroupDigits(int(n))
	}
	x.NumPlanned, x.NumInjected, x.NumReadBack, x.NumHitHeldLock = number("planned"), number("injected"), number("read-back"), number("on-held")
	numHealed := 0
	for _, o := range occurrences {
		if o.End != nil {
			numHealed++
		}
	}
	x.NumHealed = display.GroupDigits(numHealed)
}

func (x *faultStep) addTimes(occurrences []*facts.Fault, rows map[int64]bool) {
	x.NumOmitted = max(len(occurrences)-maxTimes, 0)
	if len(occurrences) > 0 {
		x.Summary = display.Plural(len(occurrences), "time") + ", first at " + display.Seconds(occurrences[0].FirstEvent().T)
	}
	for _, o := range occurrences[:len(occurrences)-x.NumOmitted] {
		e := o.FirstEvent()
		t := faultTime{Target: name(e.Node), at: e.T, From: display.Seconds(e.T), Begin: ref{e.N, rows[e.N]}}
		switch {
		case o.Fail != nil:
			t.ReadBack = "failed: " + display.Sanitize(o.Fail.Cause, maxCellLen)
		case o.Begin == nil:
			t.ReadBack = "not read back"
		default:
			t.From, t.Begin = display.Seconds(o.Begin.T), ref{o.Begin.N, rows[o.Begin.N]}
			t.ReadBack = display.Sanitize(o.Begin.Cause, maxCellLen)
		}
		to := e.T
		if o.End != nil {
			to = o.End.T
			t.To, t.Lasted, t.End = display.Seconds(to), display.Duration(to-e.T), ref{o.End.N, rows[o.End.N]}
			if o.End.Cause != "" {
				t.ReadBack = strings.TrimPrefix(t.ReadBack+"; at the end: "+display.Sanitize(o.End.Cause, maxCellLen), "; ")
			}
		}
		margin := max((to-e.T)/5, 500e6)
		t.Range = display.Decimal(max(e.T-margin, 0), 3) + "-" + display.Decimal(to+margin, 3)
		x.Times = append(x.Times, t)
	}
}
