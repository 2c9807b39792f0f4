package junit

import (
	"fmt"
	"io"
	"strings"

	"lockpick/checker"
	"lockpick/reports/words"
	"lockpick/scenarios/outcome"
)

// Write writes the outcomes of runs. drawn is the sequence diagram of a run as text,
// "" if there is none; it is asked only about runs whose diagram is shown, and may be
// nil.
func Write(w io.Writer, outcomes []outcome.Outcome, drawn func(outcome.Outcome) string) error {
	r := Report{Drawn: drawn}
	for _, o := range outcomes {
		r.Add(o)
	}
	return r.Write(w)
}

// Report gathers outcomes. Its zero value is ready.
type Report struct {
	Drawn func(outcome.Outcome) string // as Write's

	suites []*suite
}

// suite is the cases of a backend, in the order in which they came.
type suite struct {
	backend string
	seconds float64
	groups  []*group
}

// group is the cases of a scenario.
type group struct {
	scenario string
	seconds  float64
	cases    []*entry
	notes    []string // retries and the like
}

// entry is a case, with all its runs.
type entry struct {
	name    string
	runs    int
	failed  int
	errors  int
	idle    int    // runs that gave no occasion to violate it
	idly    string // why
	waits   string
	harm    string // a violation that was expected: a case that passes, and no pass
	skipped string
	details []detail
}

// detail is why one run did not pass.
type detail struct {
	errored bool // an error, not a failure
	kind    string
	message string
	text    string
}

// What is told at most of the runs of one case, and of one scenario.
const (
	mostDetails = 3
	mostNotes   = 20
)

// runCase is the name of the case that stands for the run as a whole.
const runCase = "run"

// Add adds the outcome of one run.
func (r *Report) Add(o outcome.Outcome) {
	g := r.group(o)
	g.seconds += o.Seconds
	for _, why := range o.Retried {
		g.note(o, "tried again: "+why)
	}
	if o.Stopped != "" {
		g.note(o, o.Stopped)
	}
	if o.Skipped != "" {
		g.skip(o)
		return
	}
	for _, j := range o.Judgements {
		if j.Tells() {
			r.judged(g, o, j)
		}
	}
	if idle := unmet(o); idle != "" {
		g.entry(runCase).runs++
		g.entry(runCase).add(detail{true, outcome.Undecided, idle, again(o)})
	}
	if o.Error != "" || len(g.cases) == 0 || o.Code != outcome.ExitOK && outcome.CodeOf(o.Judgements) == outcome.ExitOK {
		r.failed(g, o)
	}
}

func (r *Report) group(o outcome.Outcome) *group {
	s := outcome.Entry(&r.suites, func(s *suite) bool { return s.backend == o.Backend }, suite{backend: o.Backend})
	s.seconds += o.Seconds
	return outcome.Entry(&s.groups, func(g *group) bool { return g.scenario == o.Scenario }, group{scenario: o.Scenario})
}

func (g *group) note(o outcome.Outcome, text string) {
	switch {
	case len(g.notes) < mostNotes:
		g.notes = append(g.notes, fmt.Sprintf("seed %d: %s", o.Seed, words.Clip(text, mostMessage)))
	case len(g.notes) == mostNotes:
		g.notes = append(g.notes, "… and more")
	}
}

func (g *group) entry(name string) *entry {
	return outcome.Entry(&g.cases, func(e *entry) bool { return e.name == name }, entry{name: name})
}

// skip books a run that was not done. One that had to be done is an error.
func (g *group) skip(o outcome.Outcome) {
	e := g.entry(runCase)
	e.runs++
	if o.Code == outcome.ExitOK {
		e.skipped = o.Skipped
		return
	}
	e.add(detail{true, "required", "skipped, and it is required: " + o.Skipped, ""})
}

// failed books a run that could not be done or judged.
func (r *Report) failed(g *group, o outcome.Outcome) {
	e := g.entry(runCase)
	e.runs++
	if o.Code == outcome.ExitOK {
		return
	}
	kind := outcome.Failed
	switch o.Code {
	case outcome.ExitUndecided:
		kind = outcome.Undecided
	case outcome.ExitBug:
		kind = "bug"
	}
	first, rest, _ := strings.Cut(strings.TrimSpace(o.Error), "\n")
	if first == "" {
		first = fmt.Sprintf("exit code %d", o.Code)
	}
	e.add(detail{true, kind, first, joined(rest, again(o))})
}

// judged books one judgement.
func (r *Report) judged(g *group, o outcome.Outcome, j outcome.Judgement) {
	e := g.entry(j.Property)
	e.runs++
	switch {
	case j.Got == checker.NotExercised && !j.Missed:
		e.idle++
		e.idly = fmt.Sprintf("%s: %s", checker.NotExercised, j.Because)
	case j.AsExpected:
		if j.Got == checker.Violated && j.Number == nil && e.harm == "" {
			e.harm = fmt.Sprintf("%s: %s", j, j.Because)
		}
	case j.Waits():
		e.waits = j.Because
	case j.Open() || j.Missed && o.Code == outcome.ExitUndecided:
		e.add(detail{true, string(checker.Undecided), fmt.Sprintf("%s: %s", j, j.Because), again(o)})
	default:
		d := detail{kind: string(j.Got), message: fmt.Sprintf("%s: %s", j, j.Because)}
		if e.failed < mostDetails {
			d.text = joined(r.drawing(o), again(o))
		}
		e.add(d)
	}
}

// unmet says which property a run was to put to the test and didn't, "" if there is none.
// Its case is skipped, and the run is undecided all the same.
func unmet(o outcome.Outcome) string {
	for _, j := range o.Judgements {
		if j.Got == checker.NotExercised && j.Open() {
			return fmt.Sprintf("%s: %s", j, j.Because)
		}
	}
	return ""
}

func (r *Report) drawing(o outcome.Outcome) string {
	if r.Drawn == nil {
		return ""
	}
	return words.Clip(strings.Trim(r.Drawn(o), "\n"), mostDrawing)
}

// add counts a run that did not pass, and keeps the first few.
func (e *entry) add(d detail) {
	if d.errored {
		e.errors++
	} else {
		e.failed++
	}
	if len(e.details) < mostDetails {
		e.details = append(e.details, d)
	}
}

// again is where the record of a run is and how to run it again.
func again(o outcome.Outcome) string {
	text := "run again: " + o.Command
	if o.Dir != "" {
		text = "record:    " + o.Dir + "\n" + text
	}
	return text
}

// joined puts texts below each other, those that are there.
func joined(texts ...string) string { return words.Join("\n\n", texts...) }
