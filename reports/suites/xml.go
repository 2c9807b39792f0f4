package suites

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

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
