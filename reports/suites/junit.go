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

// WriteJUnit writes a tally as JUnit XML, with a test suite for each backend and a test case for each
// property of a scenario. diagram returns a run's sequence diagram as text, or "" if there is none.
// WriteJUnit calls diagram only to show the diagram. diagram may be nil. The file states no time for
// runs without a duration, for example if the file is written while the run is in progress.
func WriteJUnit(w io.Writer, t *outcome.Tally, diagram func(outcome.Outcome) string) error {
	all := xmlSuites{Name: "lockpick"}
	total, seconds := 0.0, map[string]float64{}
	var backends []*xmlSuite
	for _, r := range t.Rows {
		x := outcome.GetOrAdd(&backends, func(x *xmlSuite) bool { return x.backend == r.Backend }, xmlSuite{Name: shortName(r.Backend), backend: r.Backend})
		total, seconds[r.Backend] = total+r.Seconds, seconds[r.Backend]+r.Seconds
		for i, property := range r.ReportedProperties {
			e := junitCase(r, property, diagram)
			if i == 0 { // one case has the scenario's time, because case times must add up to the suite's, and its notes
				e.Time, e.notes = formatSeconds(r.Seconds), append(e.notes, junitNotes(r)...)
			}
			x.addCase(e)
		}
	}
	for _, x := range backends {
		x.Time = formatSeconds(seconds[x.backend])
		all.Tests, all.Failures, all.Errors = all.Tests+x.Tests, all.Failures+x.Failures, all.Errors+x.Errors
		all.Suites = append(all.Suites, x)
	}
	all.Time = formatSeconds(total)
	text, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("write junit file: %w", err)
	}
	if _, err := fmt.Fprintf(w, "%s%s\n", xml.Header, text); err != nil {
		return fmt.Errorf("write junit file: %w", err)
	}
	return nil
}

// junitNotes lists discarded attempts and stopped runs.
func junitNotes(r *outcome.Row) (notes []string) {
	for _, o := range r.QuotedRuns {
		for _, why := range o.RetryReasons {
			notes = append(notes, fmt.Sprintf("seed %d: %s", o.Seed, display.TruncateBytes("retried: "+why, maxMessageLen)))
		}
		if o.StopReason != "" {
			notes = append(notes, fmt.Sprintf("seed %d: %s", o.Seed, display.TruncateBytes(o.StopReason, maxMessageLen)))
		}
	}
	if len(notes) > maxNotes {
		notes = append(notes[:maxNotes], "… and more")
	}
	return notes
}

// junitCase returns the test case for a property of a scenario. If no run has a result for the property,
// the test case is about the runs as a whole.
func junitCase(r *outcome.Row, property string, diagram func(outcome.Outcome) string) *junitEntry {
	e := &junitEntry{Name: shortName(property), Class: shortName(r.Scenario)}
	c := r.Cell(property)
	if c == nil {
		e.addRunErrors(r)
		return e
	}
	isNotExercised := func(w outcome.ResultKey) bool { return w.Got == verdict.NotExercised && !w.Missed }
	didNotPass := func(w outcome.ResultKey) bool { return !isNotExercised(w) && !w.AsExpected && !w.Waiting }
	e.numRuns, e.numNotExercised = c.Count(anyResult), c.Count(isNotExercised)
	e.numErrors = c.Count(func(w outcome.ResultKey) bool { return didNotPass(w) && w.Unresolved() })
	e.numFailed = c.Count(didNotPass) - e.numErrors
	for _, o := range r.QuotedRuns {
		if j := o.JudgementOf(property); j != nil {
			e.addQuoted(o, *j, diagram)
		}
	}
	switch {
	case len(e.Errors)+len(e.Failures) > 0:
	case e.numNotExercised > 0 && e.numNotExercised == e.numRuns:
		e.skip(fmt.Sprintf("%s: %s", verdict.NotExercised, c.UndecidedReason))
	case c.ShownJudgement.Number != nil:
		e.skip(c.UndecidedReason)
	}
	e.addSummary(outcome.Rate(c.NumViolated, c.NumDecided))
	return e
}

// addQuoted adds a result if it is one of the first that were not as expected, or the first expected
// violation.
func (e *junitEntry) addQuoted(o outcome.Outcome, j outcome.Judgement, diagram func(outcome.Outcome) string) {
	switch {
	case j.Got == verdict.NotExercised && !j.Missed, j.Pending():
	case j.AsExpected:
		if j.Got == verdict.Violated && j.Number == nil && len(e.notes) == 0 {
			text := fmt.Sprintf("%s: %s", j, j.Because)
			if e.informational = j.Informational(); e.informational {
				text += "\n" + rerunText(o)
			}
			e.notes = append(e.notes, display.TruncateBytes(text, maxMessageLen))
		}
	case j.Unresolved():
		e.fail(&e.Errors, verdict.Undecided.String(), fmt.Sprintf("%s: %s", j, j.Because), rerunText(o))
	default:
		text := ""
		if diagram != nil && e.numShown() < maxDetails {
			text = display.TruncateBytes(strings.Trim(diagram(o), "\n"), maxJUnitDrawing)
		}
		e.fail(&e.Failures, string(j.Got), fmt.Sprintf("%s: %s", j, j.Because), display.Join("\n\n", text, rerunText(o)))
	}
}

// addRunErrors adds an error for each run that could not be executed or judged, or that did not exercise
// a property named by its scenario. The test case for such a property is skipped, but the run is
// inconclusive.
func (e *junitEntry) addRunErrors(r *outcome.Row) {
	e.numRuns, e.numErrors = r.WholeRuns, r.WholeRunsFailed
	for _, o := range r.QuotedRuns {
		switch {
		case o.Code == outcome.ExitOK:
			continue
		case o.Skipped != "":
			e.fail(&e.Errors, "required", "not run: "+o.Skipped, "")
			continue
		}
		if j := o.Unexercised(); j != nil {
			e.fail(&e.Errors, outcome.StateText(outcome.StateUndecided), fmt.Sprintf("%s: %s", j, j.Because), rerunText(o))
		}
		if !o.Unexplained() {
			continue
		}
		kind := outcome.StateFailed
		switch o.Code {
		case outcome.ExitUndecided, outcome.ExitInterrupt:
			kind = outcome.StateText(o.State())
		case outcome.ExitBug:
			kind = "bug"
		}
		first, rest, _ := strings.Cut(strings.TrimSpace(o.Error), "\n")
		e.fail(&e.Errors, kind, cmp.Or(first, fmt.Sprintf("exit code %d", o.Code)), display.Join("\n\n", rest, rerunText(o)))
	}
	if e.numShown() == 0 {
		e.skip(r.Skipped)
	}
	e.addSummary("")
}

// rerunText states a run's directory and the command to rerun it.
func rerunText(o outcome.Outcome) string {
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

// junitEntry is a test case with the results of all runs. The fields are in the order that the schema
// requires.
type junitEntry struct {
	Name     string      `xml:"name,attr"`
	Class    string      `xml:"classname,attr"`
	Time     string      `xml:"time,attr,omitempty"`
	Skipped  *xmlText    `xml:"skipped"`
	Errors   []xmlReason `xml:"error"`
	Failures []xmlReason `xml:"failure"`
	Out      *xmlText    `xml:"system-out"`

	numRuns, numFailed, numErrors int
	numNotExercised               int      // number of runs without an occasion to violate the property
	informational                 bool     // violated without an expectation
	notes                         []string // first expected violation, and the number of runs that did not pass
}

type xmlReason struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",cdata"`
}

type xmlText struct {
	Text string `xml:",cdata"`
}

// addCase adds a test case. If it has both failures and errors, it counts as a failure.
func (x *xmlSuite) addCase(e *junitEntry) {
	if len(e.notes) > 0 {
		e.Out = &xmlText{escapeXML(strings.Join(e.notes, "\n"))}
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

// numShown returns the number of errors and failures in the case.
func (e *junitEntry) numShown() int { return len(e.Errors) + len(e.Failures) }

// fail adds an error or failure, unless there are already maxDetails.
func (e *junitEntry) fail(to *[]xmlReason, kind, message, text string) {
	if e.numShown() < maxDetails {
		*to = append(*to, xmlReason{Type: kind, Message: display.Sanitize(display.TruncateBytes(message, maxMessageLen), maxMessageLen), Text: escapeXML(display.TruncateBytes(text, maxJUnitText))})
	}
}

// skip marks the case as skipped unless the reason is "".
func (e *junitEntry) skip(why string) {
	if why != "" {
		e.Skipped = &xmlText{escapeXML(display.TruncateBytes(why, maxMessageLen))}
	}
}

// addSummary adds a note on how many runs did not pass, if there are several runs.
func (e *junitEntry) addSummary(rate string) {
	if e.numRuns < 2 {
		return
	}
	text := fmt.Sprintf("%d runs: %d as expected", e.numRuns, e.numRuns-e.numFailed-e.numErrors-e.numNotExercised)
	if e.informational {
		text = "informational: violated in " + rate
	}
	if e.numFailed > 0 {
		text += fmt.Sprintf(", %d unexpected", e.numFailed)
	}
	if e.numErrors > 0 {
		text += fmt.Sprintf(", %d inconclusive or failed", e.numErrors)
	}
	if e.numNotExercised > 0 {
		text += fmt.Sprintf(", %d did not exercise it", e.numNotExercised)
	}
	if e.numShown() < e.numFailed+e.numErrors {
		text += fmt.Sprintf("; showing the first %d", e.numShown())
	}
	e.notes = append(e.notes, text)
}

func formatSeconds(seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return strconv.FormatFloat(seconds, 'f', 3, 64)
}

// Limits for a single text, in bytes.
const (
	maxNameLen      = 256
	maxMessageLen   = 4 << 10
	maxJUnitDrawing = 48 << 10
	maxJUnitText    = 64 << 10
)

func shortName(s string) string {
	return display.Sanitize(display.TruncateBytes(s, maxNameLen), maxNameLen)
}

// escapeXML escapes invalid UTF-8 and characters that XML 1.0 does not allow
// (https://www.w3.org/TR/xml/#charsets). Unlike display.Sanitize, it preserves line breaks and changes
// as little as possible, because programs read the file.
func escapeXML(s string) string {
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

// Limits for the number of details in a case and of notes on a scenario.
const (
	maxDetails = 3
	maxNotes   = outcome.MaxRetries
)
