package main

import (
	"fmt"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/scenarios/outcome"
)

// tally counts what came of each property in all runs, for a summary on one screen.
type tally map[string]map[string]int

// numbersRow is the row of all measured numbers that have a bound.
const numbersRow = "measured numbers"

// Columns of a tally.
const (
	colHolds     = "holds"
	colViolated  = "violated as expected"
	colFree      = "violated, nothing expected"
	colAlone     = "violated, the control not"
	colIdle      = "not exercised"
	colUndecided = "undecided"
	colOther     = "unexpected"
)

func (t tally) add(o outcome.Outcome) {
	for _, j := range o.Judgements {
		if !j.Tells() {
			continue
		}
		row, col := j.Property, colHolds
		if j.Number != nil {
			row = numbersRow
		}
		switch {
		case !j.AsExpected && j.Open():
			col = colUndecided
		case !j.AsExpected:
			col = colOther
		case j.Number != nil:
		case j.Free() && j.Alone():
			col = colAlone
		case j.Free():
			col = colFree
		case j.Got == checker.Violated:
			col = colViolated
		case j.Got == checker.NotExercised:
			col = colIdle
		case j.Got == checker.Undecided:
			col = colUndecided
		}
		if t[row] == nil {
			t[row] = map[string]int{}
		}
		t[row][col]++
	}
}

// table is the tally without rows and columns in which there is nothing.
func (t tally) table() table {
	head := []string{"property"}
	for _, col := range []string{colHolds, colViolated, colFree, colAlone, colIdle, colUndecided, colOther} {
		for _, counts := range t {
			if counts[col] > 0 && !slices.Contains(head, col) {
				head = append(head, col)
			}
		}
	}
	out := table{head}
	for _, row := range append(checker.Properties(), numbersRow) {
		if t[row] == nil {
			continue
		}
		cells := []string{row}
		for _, col := range head[1:] {
			cells = append(cells, fmt.Sprint(t[row][col]))
		}
		out = append(out, cells)
	}
	return out
}

// printSkipped prints what was skipped: each run where runs are listed, else how many for each
// reason.
func (r *report) printSkipped() {
	if len(r.skipped) == 0 {
		return
	}
	fmt.Fprintln(r.out)
	if r.printer().detailed() {
		for _, o := range r.skipped {
			fmt.Fprintf(r.out, "%-43s skipped: %s\n", oneLine(o.Scenario), oneLine(o.Skipped))
		}
		return
	}
	var reasons []string
	count := map[string]int{}
	for _, o := range r.skipped {
		if count[o.Skipped]++; count[o.Skipped] == 1 {
			reasons = append(reasons, o.Skipped)
		}
	}
	for _, why := range reasons {
		fmt.Fprintln(r.out, r.printer().broken(4, fmt.Sprintf("skipped %d: %s", count[why], oneLine(why))))
	}
}

// together are judgements of one run that have the same reason.
type together struct {
	because string
	js      []outcome.Judgement
}

// folded puts judgements with the same reason together: one that is true of the whole run is
// said once.
func folded(js []outcome.Judgement) []together {
	var out []together
	for _, j := range js {
		j = printable(j)
		if n := len(out); n > 0 && out[n-1].because == j.Because {
			out[n-1].js = append(out[n-1].js, j)
			continue
		}
		out = append(out, together{j.Because, []outcome.Judgement{j}})
	}
	return out
}

// names are those of the properties.
func (t together) names() string {
	if len(t.js) >= len(checker.Properties())-1 { // holder-told is of few locks
		return fmt.Sprintf("all %d properties", len(t.js))
	}
	var out []string
	for _, j := range t.js {
		out = append(out, j.Property)
	}
	return strings.Join(out, ", ")
}
