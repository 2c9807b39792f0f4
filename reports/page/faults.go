package page

import (
	"fmt"
	"slices"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

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

// occurrences are the faults of each step, in the order in which they came. Steps
// below 1 have those that nobody planned.
func occurrences(f *facts.Facts) map[int][]*facts.Fault {
	out := map[int][]*facts.Fault{}
	for _, x := range f.Faults {
		out[x.Step] = append(out[x.Step], x)
	}
	return out
}

func faults(r outcome.Run, rows map[int64]bool) faultTable {
	var t faultTable
	all := occurrences(facts.Read(r.History))
	steps := slices.Clone(r.History.Params.Steps)
	planned := map[int]bool{}
	for _, s := range steps {
		planned[s.Step] = true
	}
	var others []int
	for s := range all {
		if !planned[s] {
			others = append(others, s)
		}
	}
	slices.Sort(others)
	for _, s := range others {
		var kinds []string
		for _, x := range all[s] {
			if !slices.Contains(kinds, x.Kind) {
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
