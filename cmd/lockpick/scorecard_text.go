package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"lockpick/reports/display"
	scorepage "lockpick/reports/suites"
	"lockpick/scenarios/outcome"
)

// printCards prints scorecards for people at a terminal.
func printCards(w io.Writer, all *scorepage.Scorecards) {
	for i, c := range all.Cards {
		if i > 0 {
			fmt.Fprintln(w)
		}
		printCard(w, c)
	}
}

// indented prints a text, broken into lines that are indented.
func indented(w io.Writer, indent, more int, text string) {
	fmt.Fprintf(w, "%*s%s\n", indent, "", within(width(w)-1, indent, more, text))
}

func printCard(w io.Writer, c *outcome.Card) {
	in := good
	if c.Code() == outcome.ExitUnexpected {
		in = alarm
	} else if c.Code() != outcome.ExitOK {
		in = doubt
	}
	fmt.Fprintln(w, painted(w, in, within(width(w)-1, 0, 0, scorepage.CardHeadline(c))))
	indented(w, 0, 0, scorepage.CardBasis(c))
	fmt.Fprintln(w)
	printMatrix(w, c, false)
	if c.Beside != "" {
		fmt.Fprintf(w, "\non %s:\n", c.Beside)
		printMatrix(w, c, true)
	}
	for _, f := range c.Findings {
		printFinding(w, c, f)
	}
	for i, d := range c.Open {
		if i == 0 {
			fmt.Fprintln(w, "\nnot decided:")
		}
		indented(w, 2, 4, fmt.Sprintf("%s: %s: %s", d.Scenario, d.Property, d.Because))
	}
	for i, s := range c.Skipped {
		if i == 0 {
			fmt.Fprintln(w, "\nnot run:")
		}
		indented(w, 2, 4, fmt.Sprintf("%d: %s", len(s.Scenarios), s.Why))
	}
	for _, e := range c.Errors {
		indented(w, 0, 2, "not judged: "+e)
	}
}

// printMatrix prints the marks of a card on one of its backends, without the rows and columns
// in which nothing was judged, which the reasons for what was not run tell of.
func printMatrix(w io.Writer, c *outcome.Card, beside bool) {
	used := map[outcome.Mark]bool{}
	t := table{{"property"}}
	var columns []int
	for k, column := range c.Columns {
		column, there := outcome.SortOfColumn(column)
		if there == beside && slices.ContainsFunc(c.Rows, func(r outcome.CardRow) bool { return ruled(r.Cells[k]) }) {
			columns, t[0] = append(columns, k), append(t[0], column)
		}
	}
	for _, r := range c.Rows {
		if !slices.ContainsFunc(columns, func(k int) bool { return ruled(r.Cells[k]) }) {
			continue
		}
		row := []string{r.Property}
		for _, k := range columns {
			row = append(row, string(r.Cells[k].Mark))
			used[r.Cells[k].Mark] = true
		}
		t = append(t, row)
	}
	if len(t) > 1 {
		printTable(w, narrow(t, width(w)))
		fmt.Fprintln(w)
		indented(w, 0, 0, scorepage.CardLegend(used))
	}
}

func ruled(x outcome.CardCell) bool { return x.Mark != outcome.Cannot && x.Mark != outcome.Idle }

// narrow cuts the heads of a table whose rows would be too long.
func narrow(t table, width int) table {
	for most := 10; most > 4; most-- {
		long := slices.ContainsFunc(t.lines("", width), func(line string) bool { return strings.Contains(line, "\n") })
		if !long && utf8.RuneCountInString(t.lines("", width)[0]) <= width {
			break
		}
		for i := range t[0] {
			t[0][i] = display.Fit(t[0][i], most)
		}
	}
	return t
}

func printFinding(w io.Writer, c *outcome.Card, f outcome.CardFinding) {
	sign, in := outcome.Alone, doubt
	switch {
	case f.Held && f.Confirmed():
		sign, in = outcome.MarkFailed, alarm
	case f.Held:
		sign = outcome.Unconfirmed
	}
	fmt.Fprintf(w, "\n%s %s, seed %d (%s)\n", painted(w, in, string(sign)), f.Scenario, f.Seed, f.Column)
	for _, h := range f.Harms {
		indented(w, 2, 4, fmt.Sprintf("%s %s: %s", h.Property, h.Cause, h.Because))
		for _, more := range []string{scorepage.CardTries(h.Try), scorepage.CardBlame(c, f, h.Property)} {
			if more != "" {
				indented(w, 4, 4, more)
			}
		}
	}
	if own := scorepage.CardBeside(f); own != "" {
		indented(w, 2, 4, own)
	}
	fmt.Fprintf(w, "  %s\n", f.Command)
}
