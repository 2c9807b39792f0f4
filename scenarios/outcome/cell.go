package outcome

import (
	"cmp"
	"slices"

	"lockpick/checker"
	"lockpick/harness/scenario"
)

// Mark is a cell in one sign.
type Mark string

// Marks, the gravest first.
const (
	MarkFailed  Mark = "✗"
	Unconfirmed Mark = "◇"
	Alone       Mark = "▲"
	KeptAlike   Mark = "✓ ○"
	Kept        Mark = "✓"
	Alike       Mark = "○"
	Open        Mark = "?"
	free        Mark = "·"
	Cannot      Mark = "∅"
	Idle        Mark = "–"
)

// Marks lists them with what they say.
func Marks() [][2]string {
	return [][2]string{
		{string(MarkFailed), "violated, and must hold"},
		{string(Unconfirmed), "violated, and not when it was tried again on real servers"},
		{string(Alone), "violated where nobody promised it, and the scenario's own lock keeps it"},
		{string(Kept), "holds, as it must"},
		{string(Alike), "violated, as with the scenario's own lock"},
		{string(Open), "undecided, or no occasion"},
		{string(free), "holds, though nobody promised it"},
		{string(Cannot), "the lock or the backend can't"},
		{string(Idle), "not exercised"},
	}
}

// row is that of a property.
func (c *Card) row(property string) *CardRow {
	i := slices.IndexFunc(c.Rows, func(r CardRow) bool { return r.Property == property })
	return &c.Rows[i]
}

// column makes room for one more column, at its place.
func (c *Card) column(name string) int {
	if i := slices.Index(c.Columns, name); i >= 0 {
		return i
	}
	rank := func(column string) int { return slices.Index([]string{NoFailure, "", otherSort, Several}, column) }
	i, _ := slices.BinarySearchFunc(c.Columns, name, func(a, b string) int {
		in := func(s string) int {
			s, _ = SortOfColumn(s)
			if r := rank(s); r >= 0 {
				return r
			}
			return 1 // a sort of failures, by the alphabet
		}
		return cmp.Or(cmp.Compare(in(a), in(b)), cmp.Compare(a, b))
	})
	c.Columns = slices.Insert(c.Columns, i, name)
	for r := range c.Rows {
		c.Rows[r].Cells = slices.Insert(c.Rows[r].Cells, i, CardCell{})
	}
	return i
}

// Case is one way in which a property was violated under one sort of failure, with the runs
// that show it, the shortest first.
type cardCase struct {
	Property, Column, Cause string
	Held                    bool // it had to hold
	Shown                   []Shown
	tried                   *Try
}

// Shown is a run that shows a case.
type Shown struct {
	CardEntry
	Judgement Judgement
}

// promised says whether a property had to hold.
func promised(j Judgement) bool { return j.Expected == string(checker.Holds) }

// lacking is why a lock can't be held to a property; "": it can.
func (c *Card) lacking(property string) string {
	switch {
	case property == checker.BoundedHold && !c.kind.Can.Limit:
		return "the lock has no limit of extensions"
	case property == checker.FencingOrder && !c.kind.Can.Fence:
		return "the lock gives no fencing tokens"
	}
	return ""
}

// judge counts what came of a property in a run.
func (c *Card) judge(column string, j Judgement, e CardEntry) {
	if c.lacking(j.Property) != "" {
		return
	}
	x := &c.row(j.Property).Cells[c.column(column)]
	held := promised(j)
	switch {
	case j.Got == checker.Violated && held:
		x.Failed++
		c.found(column, j, e, true)
	case j.Alone():
		x.Alone++
		c.found(column, j, e, false)
	case j.Got == checker.Violated:
		x.Alike++
	case j.Got == checker.Holds && held:
		x.Kept++
	case j.Got == checker.Holds:
		x.Free++
	case held && (j.Got == checker.Undecided || !j.AsExpected):
		x.Open++
		c.Open = append(c.Open, doubt{e.Outcome.Scenario, j.Property, column, j.Because})
	}
}

// found takes a violation.
func (c *Card) found(column string, j Judgement, e CardEntry, held bool) {
	x := Entry(&c.cases, func(x *cardCase) bool {
		return x.Property == j.Property && x.Column == column && x.Cause == j.Cause && x.Held == held
	}, cardCase{Property: j.Property, Column: column, Cause: j.Cause, Held: held})
	x.Shown = append(x.Shown, Shown{e, j})
	slices.SortStableFunc(x.Shown, func(a, b Shown) int {
		return cmp.Or(cmp.Compare(a.Judgement.Length, b.Judgement.Length), cmp.Compare(a.Outcome.Seed, b.Outcome.Seed))
	})
}

// Skip takes a scenario that was not run on a backend. A skip for the lock's sake says so in its cells.
func (c *Card) Skip(s scenario.Scenario, backend, why string) {
	x := Entry(&c.Skipped, func(x *cardSkip) bool { return x.Why == why }, cardSkip{Why: why})
	if !slices.Contains(x.Scenarios, s.ID()) {
		x.Scenarios = append(x.Scenarios, s.ID())
	}
	if s.Lock.Mistake == "" {
		column := c.On(CardColumn(s), backend)
		c.column(column)
		if c.lacks[column] == "" {
			c.lacks[column] = why
		}
	}
}

// mark sets the marks of all cells.
func (c *Card) mark() {
	ran := map[string]bool{}
	for _, m := range c.Measured {
		ran[m.Column] = true
	}
	for i := range c.Rows {
		for k := range c.Rows[i].Cells {
			x := &c.Rows[i].Cells[k]
			x.Mark = x.sign()
			if x.Mark != Idle {
				continue
			}
			if x.Why = c.lacking(c.Rows[i].Property); x.Why == "" && !ran[c.Columns[k]] {
				x.Why = c.lacks[c.Columns[k]]
			}
			if x.Why != "" {
				x.Mark = Cannot
			}
		}
	}
}

func (x CardCell) sign() Mark {
	switch {
	case x.Failed > x.Unconfirmed:
		return MarkFailed
	case x.Unconfirmed > 0:
		return Unconfirmed
	case x.Alone > 0:
		return Alone
	case x.Kept > 0 && x.Alike > 0:
		return KeptAlike
	case x.Kept > 0:
		return Kept
	case x.Alike > 0:
		return Alike
	case x.Open > 0:
		return Open
	case x.Free > 0:
		return free
	}
	return Idle
}
