package suites

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"lockpick/checker"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// Write writes the outcomes of runs. drawn is the sequence diagram of a run as text,
// "" if there is none; it is asked only about runs whose diagram is shown, and may be
// nil.
func WriteJUnit(w io.Writer, outcomes []outcome.Outcome, drawn func(outcome.Outcome) string) error {
	r := JUnit{Drawn: drawn}
	for _, o := range outcomes {
		r.Add(o)
	}
	return r.Write(w)
}

// Report gathers outcomes. Its zero value is ready.
type JUnit struct {
	Drawn func(outcome.Outcome) string // as Write's

	suites []*suite
}

// runCase is the name of the case that stands for the run as a whole.
const runCase = "run"

// Add adds the outcome of one run.
func (r *JUnit) Add(o outcome.Outcome) {
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
		g.entry(runCase).fail(true, outcome.Undecided, idle, again(o))
	}
	if o.Error != "" || len(g.cases) == 0 || o.Code != outcome.ExitOK && outcome.CodeOf(o.Judgements) == outcome.ExitOK {
		r.failed(g, o)
	}
}

// Write writes all that was added. Runs without a time, such as those of which one
// run's own file is made while it is still going on, have none in the file.
func (r *JUnit) Write(w io.Writer) error {
	all := xmlSuites{Name: "lockpick"}
	seconds := 0.0
	for _, s := range r.suites {
		x := s.xml()
		all.Tests, all.Failures, all.Errors = all.Tests+x.Tests, all.Failures+x.Failures, all.Errors+x.Errors
		seconds += s.seconds
		all.Suites = append(all.Suites, x)
	}
	all.Time = span(seconds)
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("write junit file: %w", err)
	}
	if _, err := fmt.Fprintf(w, "%s%s\n", xml.Header, text); err != nil {
		return fmt.Errorf("write junit file: %w", err)
	}
	return nil
}

func (r *JUnit) group(o outcome.Outcome) *junitGroup {
	s := outcome.Entry(&r.suites, func(s *suite) bool { return s.backend == o.Backend }, suite{backend: o.Backend})
	s.seconds += o.Seconds
	return outcome.Entry(&s.groups, func(g *junitGroup) bool { return g.scenario == o.Scenario }, junitGroup{scenario: o.Scenario})
}

func (g *junitGroup) note(o outcome.Outcome, text string) {
	switch {
	case len(g.notes) < mostNotes:
		g.notes = append(g.notes, fmt.Sprintf("seed %d: %s", o.Seed, display.Clip(text, mostMessage)))
	case len(g.notes) == mostNotes:
		g.notes = append(g.notes, "… and more")
	}
}

func (g *junitGroup) entry(name string) *junitEntry {
	return outcome.Entry(&g.cases, func(e *junitEntry) bool { return e.property == name }, junitEntry{property: name, Name: short(name), Class: short(g.scenario)})
}

// skip notes a run that was not done. One that had to be done is an error.
func (g *junitGroup) skip(o outcome.Outcome) {
	e := g.entry(runCase)
	e.runs++
	if o.Code == outcome.ExitOK {
		e.skipped = o.Skipped
		return
	}
	e.fail(true, "required", "not run: "+o.Skipped, "")
}

// failed notes a run that could not be done or judged.
func (r *JUnit) failed(g *junitGroup, o outcome.Outcome) {
	e := g.entry(runCase)
	e.runs++
	if o.Code == outcome.ExitOK {
		return
	}
	kind := outcome.Failed
	switch o.Code {
	case outcome.ExitUndecided:
		kind = outcome.Undecided
	case outcome.ExitInterrupt:
		kind = outcome.Interrupted
	case outcome.ExitBug:
		kind = "bug"
	}
	first, rest, _ := strings.Cut(strings.TrimSpace(o.Error), "\n")
	if first == "" {
		first = fmt.Sprintf("exit code %d", o.Code)
	}
	e.fail(true, kind, first, display.Join("\n\n", rest, again(o)))
}

func (r *JUnit) judged(g *junitGroup, o outcome.Outcome, j outcome.Judgement) {
	e := g.entry(j.Property)
	e.runs++
	switch j.Got {
	case checker.Violated:
		e.violated++
		e.decided++
	case checker.Holds:
		e.decided++
	}
	switch {
	case j.Got == checker.NotExercised && !j.Missed:
		e.idle++
		e.idly = fmt.Sprintf("%s: %s", checker.NotExercised, j.Because)
	case j.AsExpected:
		if j.Got == checker.Violated && j.Number == nil && e.harm == "" {
			e.harm = fmt.Sprintf("%s: %s", j, j.Because)
			if e.free = j.Free(); e.free {
				e.harm += "\n" + again(o)
			}
		}
	case j.Waits():
		e.waits = j.Because
	case j.Open() || j.Missed && o.Code == outcome.ExitUndecided:
		e.fail(true, string(checker.Undecided), fmt.Sprintf("%s: %s", j, j.Because), again(o))
	default:
		text := ""
		if e.failed < mostDetails {
			text = display.Join("\n\n", r.drawing(o), again(o))
		}
		e.fail(false, string(j.Got), fmt.Sprintf("%s: %s", j, j.Because), text)
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

func (r *JUnit) drawing(o outcome.Outcome) string {
	if r.Drawn == nil {
		return ""
	}
	return display.Clip(strings.Trim(r.Drawn(o), "\n"), junitMostDrawing)
}

// again is where the record of a run is and how to run it again.
func again(o outcome.Outcome) string {
	text := "run again: " + o.Command
	if o.Dir != "" {
		text = "record:    " + o.Dir + "\n" + text
	}
	return text
}
