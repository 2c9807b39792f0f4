package junit

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"lockpick/reports/words"
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
	Name     string    `xml:"name,attr"`
	Tests    int       `xml:"tests,attr"`
	Failures int       `xml:"failures,attr"`
	Errors   int       `xml:"errors,attr"`
	Skipped  int       `xml:"skipped,attr"`
	Time     string    `xml:"time,attr,omitempty"`
	Cases    []xmlCase `xml:"testcase"`
}

// xmlCase has its parts in the order that the schema asks for.
type xmlCase struct {
	Name     string      `xml:"name,attr"`
	Class    string      `xml:"classname,attr"`
	Time     string      `xml:"time,attr,omitempty"`
	Skipped  *xmlText    `xml:"skipped"`
	Errors   []xmlReason `xml:"error"`
	Failures []xmlReason `xml:"failure"`
	Out      *xmlText    `xml:"system-out"`
}

type xmlReason struct {
	Type    string `xml:"type,attr"`
	Message string `xml:"message,attr"`
	Text    string `xml:",cdata"`
}

type xmlText struct {
	Text string `xml:",cdata"`
}

// Write writes all that was added. Runs without a time, such as those of which one
// run's own file is made while it is still going on, have none in the file.
func (r *Report) Write(w io.Writer) error {
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

func (s *suite) xml() xmlSuite {
	x := xmlSuite{Name: name(s.backend), Time: span(s.seconds)}
	for _, g := range s.groups {
		for i, e := range g.cases {
			c := e.xml(g)
			if i == 0 { // so that the sum of the cases is the time of the suite
				c.Time = span(g.seconds)
			}
			notes := e.notes()
			if i == 0 { // where those on the scenario's runs stand
				notes = append(notes, g.notes...)
			}
			if len(notes) > 0 {
				c.Out = &xmlText{clean(strings.Join(notes, "\n"))}
			}
			x.count(c)
		}
	}
	return x
}

// count adds a case. One that has both is a failure.
func (x *xmlSuite) count(c xmlCase) {
	x.Tests++
	switch {
	case len(c.Failures) > 0:
		x.Failures++
	case len(c.Errors) > 0:
		x.Errors++
	case c.Skipped != nil:
		x.Skipped++
	}
	x.Cases = append(x.Cases, c)
}

func (e *entry) xml(g *group) xmlCase {
	c := xmlCase{Name: name(e.name), Class: name(g.scenario)}
	for _, d := range e.details {
		reason := xmlReason{Type: d.kind, Message: clean(words.Clip(d.message, mostMessage)), Text: clean(words.Clip(d.text, mostText))}
		if d.errored {
			c.Errors = append(c.Errors, reason)
		} else {
			c.Failures = append(c.Failures, reason)
		}
	}
	why := e.skipped
	if why == "" {
		why = e.waits
	}
	if e.idle > 0 && e.idle == e.runs {
		why = e.idly
	}
	if why != "" && len(e.details) == 0 {
		c.Skipped = &xmlText{clean(words.Clip(why, mostMessage))}
	}
	return c
}

// notes says how many of several runs did not pass.
// A violation that was expected is named.
func (e *entry) notes() []string {
	var notes []string
	if e.harm != "" {
		notes = append(notes, words.Clip(e.harm, mostMessage))
	}
	if e.runs < 2 {
		return notes
	}
	text := fmt.Sprintf("%d runs: %d as expected", e.runs, e.runs-e.failed-e.errors-e.idle)
	if e.failed > 0 {
		text += fmt.Sprintf(", %d unexpected", e.failed)
	}
	if e.errors > 0 {
		text += fmt.Sprintf(", %d undecided or failed", e.errors)
	}
	if e.idle > 0 {
		text += fmt.Sprintf(", %d that did not exercise it", e.idle)
	}
	if shown := len(e.details); shown < e.failed+e.errors {
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
	mostName    = 256
	mostMessage = 4 << 10
	mostDrawing = 48 << 10
	mostText    = 64 << 10
)

func name(s string) string { return clean(words.Clip(s, mostName)) }

// clean writes what XML 1.0 can't hold, and what is not UTF-8, as an escape
// (https://www.w3.org/TR/xml/#charsets). It differs from words.Visible, for what reads
// the file is a program, and its texts have lines.
func clean(s string) string {
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b.WriteString(words.Escape(rune(s[i])))
		case r == '\n' || r == '\t' || r >= ' ' && r < 0x7f || r > 0x9f && r < 0xfffe || r > 0xffff:
			b.WriteRune(r)
		default:
			b.WriteString(words.Escape(r))
		}
	}
	return b.String()
}
