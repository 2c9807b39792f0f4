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

func detail(e *history.Event) string {
	parts := []string{}
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	add("%s", told(e))
	if e.Type != history.Invoke && e.ValidUntil != 0 {
		add("until %s (%s left)", display.Seconds(e.ValidUntil), display.Span(e.ValidUntil-e.T))
	}
	if e.Fence != 0 {
		add("fence %d", e.Fence)
	}
	if e.Op == history.OpClock {
		add("shows %s, runs %+d ppm", display.Seconds(e.Local), e.Drift/1000)
	}
	if e.TTL > 0 {
		add("TTL %s", display.Span(e.TTL))
	}
	if e.Version != 0 || e.Op == history.OpWrite && e.Type == history.Invoke {
		add("version %d", e.Version)
	}
	if e.Value != "" {
		add("value %s", name(e.Value))
	}
	if e.Token != "" && e.Node != "" {
		add("token %s", display.Visible(e.Token, 8))
	}
	if t := wire(e); t != "" {
		add("%s", t)
	}
	if e.Cause != "" && e.Op != history.OpLog {
		add("%s", display.Visible(e.Cause, longestCell))
	}
	if e.Step > 0 {
		add("step %d", e.Step)
	}
	if e.Step == history.Unplanned {
		add("nobody planned it")
	}
	return strings.TrimPrefix(strings.Join(parts, " · "), " · ")
}

// told is what was done, to what.
func told(e *history.Event) string {
	key, node := cmp.Or(name(e.Key), "the lock"), name(e.Node)
	switch {
	case e.Life != nil:
		return toldLife(e.Life, key)
	case e.Process == history.Nemesis && e.Op == history.OpClock:
		return "the clock of " + node + " is turned"
	case e.Process == history.Nemesis:
		return nemesisWords[e.Type] + " " + faultName(e.Op) + " on " + node
	case e.Op == history.OpLog:
		return fmt.Sprintf("the resource's log: %s of %s by %s %s at %s", name(e.Cause), key, name(e.Session), logWords[e.Type], display.Seconds(e.Applied))
	case node != "" && e.Op != history.OpClock:
		return answered(e, node, key)
	}
	if w := eventWords[e.Op+" "+string(e.Type)]; w != "" {
		return strings.NewReplacer("KEY", key, "NODE", node).Replace(w)
	}
	return name(e.Op) + " " + key
}

// toldLife is a fact of a key's life.
func toldLife(l *history.Life, key string) string {
	text := cmp.Or(display.KeyEvent(l.What, key), key+": "+name(string(l.What)))
	if l.Old != "" && l.Old != l.Value {
		text += ", was " + display.Visible(l.Old, 8)
	}
	if l.Value != "" {
		text += ", is " + display.Visible(l.Value, 8)
	}
	switch {
	case l.By == "":
	case l.By == history.Harness:
		text += ", by lockpick"
	default:
		text += ", by " + name(l.By)
	}
	if l.Command != "" {
		text += " (" + name(strings.ToUpper(l.Command)) + ")"
	}
	if l.Why != "" {
		text += ", after a " + name(l.Why)
	}
	return text
}

// faultName is a kind of fault as a reader calls it.
func faultName(kind string) string {
	if kind == history.OpGoOn {
		return "end of a pause"
	}
	return cmp.Or(nemesis.ToldOf(kind).Name, name(kind))
}

var nemesisWords = map[history.Type]string{
	history.Invoke: "tries", history.Begin: "in force:", history.End: "healed:", history.Fail: "failed:", history.Info: "remark on",
}

var logWords = map[history.Type]string{history.OK: "applied", history.Fail: "refused"}

// answered says what a node made of a command.
func answered(e *history.Event, node, key string) string {
	op := name(e.Op)
	switch e.Type {
	case history.OK:
		return node + " " + cmp.Or(didWords[e.Op], "agreed to "+op) + " " + key
	case history.Fail:
		return node + " refused to " + op + " " + key
	case history.Info:
		return "no known answer of " + node + " to " + op + " " + key
	}
	return "request to " + node + " to " + op + " " + key
}

var didWords = map[string]string{history.OpSet: "set", history.OpRelease: "released", history.OpExtend: "extended", history.OpRead: "read", history.OpWrite: "wrote"}

// eventWords are the events of clients and of the harness.
var eventWords = map[string]string{
	"run begin": "the run begins", "run end": "the run ends", "stop info": "the run is stopped here",
	"client begin": "the client starts", "client end": "the client ends",
	"acquire invoke": "wants KEY", "acquire ok": "holds KEY", "acquire fail": "does not get KEY", "acquire info": "may have got KEY",
	"extend invoke": "extends KEY", "extend ok": "has KEY for longer", "extend fail": "does not get KEY for longer", "extend info": "may have KEY for longer",
	"read invoke": "reads under KEY", "read ok": "read completed", "read fail": "may not read under KEY", "read info": "no answer to the read under KEY",
	"check ok": "looks at its deadline: still valid", "check fail": "looks at its deadline: over",
	"write invoke": "writes under KEY", "write ok": "its write is applied", "write fail": "its write is refused", "write info": "no answer to its write",
	"release invoke": "gives KEY back", "release ok": "KEY is given back", "release fail": "did not hold KEY", "release info": "release of KEY: outcome unknown",
	"clock info": "the clock of NODE is turned", "clock ok": "the clock of NODE is turned",
	"at invoke": "waits at a point",
}

// wire is how long a command was under way, from when it was sent.
func wire(e *history.Event) string {
	var parts []string
	if e.Sent == 0 || e.Life != nil {
		return ""
	}
	if e.Applied != 0 {
		parts = append(parts, "there after "+display.Span(e.Applied-e.Sent))
	}
	if e.Answered != 0 {
		parts = append(parts, "answered after "+display.Span(e.Answered-e.Sent))
	} else {
		parts = append(parts, "sent "+display.Seconds(e.Sent)+", no answer came")
	}
	return strings.Join(parts, ", ")
}

// faultTable is what became of each planned step.
type faultTable struct {
	Steps []faultStep
	More  int // steps that are not shown
	Long  bool
}

type faultStep struct {
	Step                              int
	What, When                        string
	Planned, Injected, Seen, Hit, Was string // counts; Was: how many were healed
	Never                             string // why nothing came of it
	Times                             []faultTime
	More                              int
	Each                              string // how many times there are, and since when
}

type faultTime struct {
	Target, From, To, Lasted, Saw, Range string
	Begin, End                           ref

	at int64
}

// How much of a long plan is shown, and at once.
const (
	mostOpen  = 8
	mostSteps = 100
	mostTimes = 12
)

func faults(r outcome.Run, rows map[int64]bool) faultTable {
	var t faultTable
	all := map[int][]*facts.Fault{} // by step, in the order in which they came; below 1 are those that nobody planned
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
				steps = append(steps, history.PlannedStep{Step: s, Fault: x.Kind, When: "nobody planned it"})
			}
		}
	}
	if len(steps) > mostSteps {
		t.More = len(steps) - mostSteps
		steps = steps[:mostSteps]
	}
	t.Long = len(steps) > mostOpen
	for _, s := range steps {
		x := faultStep{Step: max(s.Step, 0), What: what(s), When: plain(s.When)}
		came := all[s.Step]
		if !planned[s.Step] {
			came = slices.DeleteFunc(slices.Clone(came), func(x *facts.Fault) bool { return x.Kind != s.Fault })
		}
		x.count(r, came)
		x.times(came, rows)
		if len(came) == 0 {
			x.Never = "never came: its trigger was not seen"
			if s.Optional {
				x.Never = "did not come, and need not have"
			}
		}
		t.Steps = append(t.Steps, x)
	}
	return t
}

func what(s history.PlannedStep) string {
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
		text += ", late by up to " + display.Span(int64(s.Delay))
	}
	if s.By != 0 {
		text += fmt.Sprintf(", by %+g\u00a0s", s.By.Seconds())
	}
	if s.Every {
		text += ", every time"
	}
	return text
}

func (x *faultStep) count(r outcome.Run, os []*facts.Fault) {
	of := func(what string) string {
		n, ok := r.Verdict.Numbers[fmt.Sprintf("fault-%d-%s", x.Step, what)]
		if !ok {
			return "–"
		}
		return display.Grouped(int(n))
	}
	x.Planned, x.Injected, x.Seen, x.Hit = of("planned"), of("injected"), of("read-back"), of("on-held")
	healed := 0
	for _, o := range os {
		if o.End != nil {
			healed++
		}
	}
	x.Was = display.Grouped(healed)
}

func (x *faultStep) times(os []*facts.Fault, rows map[int64]bool) {
	x.More = max(len(os)-mostTimes, 0)
	if len(os) > 0 {
		x.Each = display.Plural(len(os), "time") + ", first at " + display.Seconds(os[0].First().T)
	}
	for _, o := range os[:len(os)-x.More] {
		e := o.First()
		t := faultTime{Target: name(e.Node), at: e.T, From: display.Seconds(e.T), Begin: ref{e.N, rows[e.N]}}
		switch {
		case o.Fail != nil:
			t.Saw = "failed: " + display.Visible(o.Fail.Cause, longestCell)
		case o.Begin == nil:
			t.Saw = "not seen to be in force"
		default:
			t.From, t.Begin = display.Seconds(o.Begin.T), ref{o.Begin.N, rows[o.Begin.N]}
			t.Saw = display.Visible(o.Begin.Cause, longestCell)
		}
		to := e.T
		if o.End != nil {
			to = o.End.T
			t.To, t.Lasted, t.End = display.Seconds(to), display.Span(to-e.T), ref{o.End.N, rows[o.End.N]}
			if o.End.Cause != "" {
				t.Saw = strings.TrimPrefix(t.Saw+"; at its end: "+display.Visible(o.End.Cause, longestCell), "; ")
			}
		}
		margin := max((to-e.T)/5, 500e6)
		t.Range = display.Decimal(max(e.T-margin, 0), 3) + "-" + display.Decimal(to+margin, 3)
		x.Times = append(x.Times, t)
	}
}
