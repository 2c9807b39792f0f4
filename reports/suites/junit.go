package suites

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockpick/checker"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// WriteJUnit writes the outcomes of runs. drawn is the sequence diagram of a run as text,
// "" if there is none; it is asked only about runs whose diagram is shown, and may be
// nil.
func WriteJUnit(w io.Writer, outcomes []outcome.Outcome, drawn func(outcome.Outcome) string) error {
	r := JUnit{Drawn: drawn}
	for _, o := range outcomes {
		r.Add(o)
	}
	return r.Write(w)
}

// JUnit gathers outcomes. Its zero value is ready.
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

type xmlSuites struct {
	XMLName  xml.Name   `xml:"testsuites"`
	Name     string     `xml:"name,attr"`
	Tests    int        `xml:"tests,attr"`
	Failures int        `xml:"failures,attr"`
	Errors   int        `xml:"errors,attr"`
	Time     string     `xml:"time,attr,omitempty"`
	Suites   []xmlSuite `xml:"testsuite"`
}

type xmlSuite struct {
	Name     string        `xml:"name,attr"`
	Tests    int           `xml:"tests,attr"`
	Failures int           `xml:"failures,attr"`
	Errors   int           `xml:"errors,attr"`
	Skipped  int           `xml:"skipped,attr"`
	Time     string        `xml:"time,attr,omitempty"`
	Cases    []*junitEntry `xml:"testcase"`
}

// entry is a case, with all its runs. It has its parts in the order that the schema asks for.
type junitEntry struct {
	Name     string      `xml:"name,attr"`
	Class    string      `xml:"classname,attr"`
	Time     string      `xml:"time,attr,omitempty"`
	Skipped  *xmlText    `xml:"skipped"`
	Errors   []xmlReason `xml:"error"`
	Failures []xmlReason `xml:"failure"`
	Out      *xmlText    `xml:"system-out"`

	property             string
	runs, failed, errors int
	idle                 int    // runs that gave no occasion to violate it
	idly                 string // why
	waits                string
	violated, decided    int
	free                 bool   // nothing is expected of it, and it was violated
	harm                 string // a violation that was expected: a case that passes, and no pass
	skipped              string
}

type xmlReason struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",cdata"`
}

type xmlText struct {
	Text string `xml:",cdata"`
}

// suite is the cases of a backend, in the order in which they came.
type suite struct {
	backend string
	seconds float64
	groups  []*junitGroup
}

type junitGroup struct {
	scenario string
	seconds  float64
	cases    []*junitEntry
	notes    []string // retries and the like
}

func (s *suite) xml() xmlSuite {
	x := xmlSuite{Name: short(s.backend), Time: span(s.seconds)}
	for _, g := range s.groups {
		for i, e := range g.cases {
			notes := e.notes()
			if i == 0 { // so that the sum of the cases is the time of the suite; notes on the scenario's runs stand there, too
				e.Time, notes = span(g.seconds), append(notes, g.notes...)
			}
			if len(notes) > 0 {
				e.Out = &xmlText{clean(strings.Join(notes, "\n"))}
			}
			e.Skipped = e.skip()
			x.count(e)
		}
	}
	return x
}

// count adds a case. One that has both is a failure.
func (x *xmlSuite) count(e *junitEntry) {
	x.Tests++
	switch {
	case len(e.Failures) > 0:
		x.Failures++
	case len(e.Errors) > 0:
		x.Errors++
	case e.Skipped != nil:
		x.Skipped++
	}
	x.Cases = append(x.Cases, e)
}

// fail counts a run that did not pass, as an error or a failure, and keeps the first few.
func (e *junitEntry) fail(errored bool, kind, message, text string) {
	to, n := &e.Failures, &e.failed
	if errored {
		to, n = &e.Errors, &e.errors
	}
	if *n++; len(e.Errors)+len(e.Failures) < mostDetails {
		*to = append(*to, xmlReason{Type: kind, Message: display.Visible(display.Clip(message, mostMessage), mostMessage), Text: clean(display.Clip(text, junitMostText))})
	}
}

// skip is why a case has no answer; nil: it has one.
func (e *junitEntry) skip() *xmlText {
	why := cmp.Or(e.skipped, e.waits)
	if e.idle > 0 && e.idle == e.runs {
		why = e.idly
	}
	if why == "" || len(e.Errors)+len(e.Failures) > 0 {
		return nil
	}
	return &xmlText{clean(display.Clip(why, mostMessage))}
}

// notes says how many of several runs did not pass.
// A violation that was expected is named.
func (e *junitEntry) notes() []string {
	var notes []string
	if e.harm != "" {
		notes = append(notes, display.Clip(e.harm, mostMessage))
	}
	if e.runs < 2 {
		return notes
	}
	text := fmt.Sprintf("%d runs: %d as expected", e.runs, e.runs-e.failed-e.errors-e.idle)
	if e.free {
		text = fmt.Sprintf("%d runs, nothing expected: violated in %s", e.runs, outcome.Rate(e.violated, e.decided))
	}
	if e.failed > 0 {
		text += fmt.Sprintf(", %d unexpected", e.failed)
	}
	if e.errors > 0 {
		text += fmt.Sprintf(", %d undecided or failed", e.errors)
	}
	if e.idle > 0 {
		text += fmt.Sprintf(", %d that did not exercise it", e.idle)
	}
	if shown := len(e.Errors) + len(e.Failures); shown < e.failed+e.errors {
		text += fmt.Sprintf("; the first %d are shown", shown)
	}
	return append(notes, text)
}

func span(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return strconv.FormatFloat(seconds, 'f', 3, 64)
}

// What is written at most of one text, in bytes.
const (
	mostName         = 256
	mostMessage      = 4 << 10
	junitMostDrawing = 48 << 10
	junitMostText    = 64 << 10
)

func short(s string) string { return display.Visible(display.Clip(s, mostName), mostName) }

// clean writes what XML 1.0 can't hold, and what is not UTF-8, as an escape
// (https://www.w3.org/TR/xml/#charsets). It differs from words.Visible, for what reads
// the file is a program, and its texts have lines.
func clean(s string) string {
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(display.Escape(rune(s[i])))
		case r == '\n' || r == '\t' || r >= ' ' && r < 0x7f || r > 0x9f && r < 0xfffe && !unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp) || r > 0xffff:
			b.WriteRune(r)
		default:
			b.WriteString(display.Escape(r))
		}
	}
	return b.String()
}

// What is told at most of the runs of one case, and of one scenario.
const (
	mostDetails = 3
	mostNotes   = 20
)
