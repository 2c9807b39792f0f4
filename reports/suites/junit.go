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

	"lockpick/checker/verdict"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// WriteJUnit writes a tally: a suite for each backend, and in it a case for each property of a scenario.
// drawn is the sequence diagram of a run as text, "" if there is none; it is asked only about runs
// whose diagram is shown, and may be nil. Runs without a time, such as those of which one
// run's own file is made while it is still going on, have none in the file.
func WriteJUnit(w io.Writer, t *outcome.Tally, drawn func(outcome.Outcome) string) error {
	all := xmlSuites{Name: "lockpick"}
	total, seconds := 0.0, map[string]float64{}
	var backends []*xmlSuite
	for _, r := range t.Rows {
		x := outcome.Entry(&backends, func(x *xmlSuite) bool { return x.backend == r.Backend }, xmlSuite{Name: short(r.Backend), backend: r.Backend})
		total, seconds[r.Backend] = total+r.Seconds, seconds[r.Backend]+r.Seconds
		for i, property := range r.Reported {
			e := junitCase(r, property, drawn)
			if i == 0 { // so that the sum of the cases is the time of the suite; notes on the scenario's runs stand there, too
				e.Time, e.notes = span(r.Seconds), append(e.notes, junitNotes(r)...)
			}
			x.count(e)
		}
	}
	for _, x := range backends {
		x.Time = span(seconds[x.backend])
		all.Tests, all.Failures, all.Errors = all.Tests+x.Tests, all.Failures+x.Failures, all.Errors+x.Errors
		all.Suites = append(all.Suites, x)
	}
	all.Time = span(total)
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("write junit file: %w", err)
	}
	if _, err := fmt.Fprintf(w, "%s%s\n", xml.Header, text); err != nil {
		return fmt.Errorf("write junit file: %w", err)
	}
	return nil
}

// junitNotes are the tries that did not count, and runs that were stopped.
func junitNotes(r *outcome.Row) (notes []string) {
	for _, o := range r.Quoted {
		for _, why := range o.Retried {
			notes = append(notes, fmt.Sprintf("seed %d: %s", o.Seed, display.Clip("tried again: "+why, mostMessage)))
		}
		if o.Stopped != "" {
			notes = append(notes, fmt.Sprintf("seed %d: %s", o.Seed, display.Clip(o.Stopped, mostMessage)))
		}
	}
	if len(notes) > mostNotes {
		notes = append(notes[:mostNotes], "… and more")
	}
	return notes
}

// junitCase is what came of a property in all runs of a scenario, or of the runs as a whole.
func junitCase(r *outcome.Row, property string, drawn func(outcome.Outcome) string) *junitEntry {
	e := &junitEntry{Name: short(property), Class: short(r.Scenario)}
	c := r.Cell(property)
	if c == nil {
		e.whole(r)
		return e
	}
	idle := func(w outcome.Way) bool { return w.Got == verdict.NotExercised && !w.Missed }
	other := func(w outcome.Way) bool { return !idle(w) && !w.AsExpected && !w.Waiting }
	e.runs, e.idle = c.Count(all), c.Count(idle)
	e.errors = c.Count(func(w outcome.Way) bool { return other(w) && w.Open() })
	e.failed = c.Count(other) - e.errors
	for _, o := range r.Quoted {
		if j := o.Of(property); j != nil {
			e.quote(o, *j, drawn)
		}
	}
	switch {
	case len(e.Errors)+len(e.Failures) > 0:
	case e.idle > 0 && e.idle == e.runs:
		e.skip(fmt.Sprintf("%s: %s", verdict.NotExercised, c.NoAnswer))
	case c.Shown.Number != nil:
		e.skip(c.NoAnswer)
	}
	e.sum(outcome.Rate(c.Violated, c.Decided))
	return e
}

// quote shows what came of a property in a run, if it is one of the first that was not as expected, or the
// first violation that was.
func (e *junitEntry) quote(o outcome.Outcome, j outcome.Judgement, drawn func(outcome.Outcome) string) {
	switch {
	case j.Got == verdict.NotExercised && !j.Missed, j.Waits():
	case j.AsExpected:
		if j.Got == verdict.Violated && j.Number == nil && len(e.notes) == 0 {
			text := fmt.Sprintf("%s: %s", j, j.Because)
			if e.free = j.Free(); e.free {
				text += "\n" + again(o)
			}
			e.notes = append(e.notes, display.Clip(text, mostMessage))
		}
	case j.Open():
		e.fail(&e.Errors, string(verdict.Undecided), fmt.Sprintf("%s: %s", j, j.Because), again(o))
	default:
		text := ""
		if drawn != nil && e.shown() < mostDetails {
			text = display.Clip(strings.Trim(drawn(o), "\n"), maxJUnitDrawing)
		}
		e.fail(&e.Failures, string(j.Got), fmt.Sprintf("%s: %s", j, j.Because), display.Join("\n\n", text, again(o)))
	}
}

// whole shows the runs that could not be done or judged, or whose scenario names a property that they did
// not put to the test: its case is skipped, and the run is undecided all the same.
func (e *junitEntry) whole(r *outcome.Row) {
	e.runs, e.errors = r.Whole, r.WholeFailed
	for _, o := range r.Quoted {
		switch {
		case o.Code == outcome.ExitOK:
			continue
		case o.Skipped != "":
			e.fail(&e.Errors, "required", "not run: "+o.Skipped, "")
			continue
		}
		if j := o.Unmet(); j != nil {
			e.fail(&e.Errors, outcome.Undecided, fmt.Sprintf("%s: %s", j, j.Because), again(o))
		}
		if !o.Unexplained() {
			continue
		}
		kind := outcome.Failed
		switch o.Code {
		case outcome.ExitUndecided, outcome.ExitInterrupt:
			kind = o.State()
		case outcome.ExitBug:
			kind = "bug"
		}
		first, rest, _ := strings.Cut(strings.TrimSpace(o.Error), "\n")
		e.fail(&e.Errors, kind, cmp.Or(first, fmt.Sprintf("exit code %d", o.Code)), display.Join("\n\n", rest, again(o)))
	}
	if e.shown() == 0 {
		e.skip(r.Skipped)
	}
	e.sum("")
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
	XMLName  xml.Name    `xml:"testsuites"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Time     string      `xml:"time,attr,omitempty"`
	Suites   []*xmlSuite `xml:"testsuite"`
}

type xmlSuite struct {
	Name     string        `xml:"name,attr"`
	Tests    int           `xml:"tests,attr"`
	Failures int           `xml:"failures,attr"`
	Errors   int           `xml:"errors,attr"`
	Skipped  int           `xml:"skipped,attr"`
	Time     string        `xml:"time,attr,omitempty"`
	Cases    []*junitEntry `xml:"testcase"`

	backend string
}

// junitEntry is a case, with all its runs. It has its parts in the order that the schema asks for.
type junitEntry struct {
	Name     string      `xml:"name,attr"`
	Class    string      `xml:"classname,attr"`
	Time     string      `xml:"time,attr,omitempty"`
	Skipped  *xmlText    `xml:"skipped"`
	Errors   []xmlReason `xml:"error"`
	Failures []xmlReason `xml:"failure"`
	Out      *xmlText    `xml:"system-out"`

	runs, failed, errors int
	idle                 int      // runs that gave no occasion to violate it
	free                 bool     // nothing is expected of it, and it was violated
	notes                []string // a violation that was expected, and how many runs did not pass
}

type xmlReason struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",cdata"`
}

type xmlText struct {
	Text string `xml:",cdata"`
}

// count adds a case. One that has both is a failure.
func (x *xmlSuite) count(e *junitEntry) {
	if len(e.notes) > 0 {
		e.Out = &xmlText{clean(strings.Join(e.notes, "\n"))}
	}
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

// shown is how many of the runs that did not pass the case has.
func (e *junitEntry) shown() int { return len(e.Errors) + len(e.Failures) }

// fail shows a run that did not pass, as an error or a failure, if it is one of the first few.
func (e *junitEntry) fail(to *[]xmlReason, kind, message, text string) {
	if e.shown() < mostDetails {
		*to = append(*to, xmlReason{Type: kind, Message: display.Visible(display.Clip(message, mostMessage), mostMessage), Text: clean(display.Clip(text, maxJUnitText))})
	}
}

// skip says why a case has no answer; "": it has one.
func (e *junitEntry) skip(why string) {
	if why != "" {
		e.Skipped = &xmlText{clean(display.Clip(why, mostMessage))}
	}
}

// sum says how many of several runs did not pass.
func (e *junitEntry) sum(rate string) {
	if e.runs < 2 {
		return
	}
	text := fmt.Sprintf("%d runs: %d as expected", e.runs, e.runs-e.failed-e.errors-e.idle)
	if e.free {
		text = "nothing expected: violated in " + rate
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
	if e.shown() < e.failed+e.errors {
		text += fmt.Sprintf("; the first %d are shown", e.shown())
	}
	e.notes = append(e.notes, text)
}

func span(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return strconv.FormatFloat(seconds, 'f', 3, 64)
}

// What is written at most of one text, in bytes.
const (
	mostName        = 256
	mostMessage     = 4 << 10
	maxJUnitDrawing = 48 << 10
	maxJUnitText    = 64 << 10
)

func short(s string) string { return display.Visible(display.Clip(s, mostName), mostName) }

// clean writes what XML 1.0 can't hold, and what is not UTF-8, as an escape
// (https://www.w3.org/TR/xml/#charsets). It differs from display.Visible, for what reads
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

// Limits of what is shown of a case, and of the notes on a scenario.
const (
	mostDetails = 3
	mostNotes   = outcome.MostRetries
)
