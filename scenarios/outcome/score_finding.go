package outcome

import (
	"cmp"
	"slices"

	"lockpick/checker"
)

// Finding is a run that shows violations, each the shortest of its property, sort of failure
// and cause.
type CardFinding struct {
	Scenario string `json:"scenario"`
	Claim    string `json:"claim"` // the scenario's
	Column   string `json:"column"`
	Backend  string `json:"backend"`
	Seed     uint64 `json:"seed"`
	Draw     *Draw  `json:"draw,omitempty"`
	Command  string `json:"command"`
	Events   int    `json:"events"` // up to the last that proves the first of the harms
	Harms    []Harm `json:"harms"`
	// Held: a property is among them that had to hold.
	Held      bool            `json:"held"`
	Numbers   CardNumbers     `json:"numbers"`
	Control   *ControlNumbers `json:"control,omitempty"`   // nil: the lock is the scenario's own
	Run       string          `json:"run,omitempty"`       // where it is kept, beside the card; "": made again, it was not the same
	Elsewhere string          `json:"elsewhere,omitempty"` // likewise of the run that confirmed it
	Entry     int             `json:"-"`                   // what its maker knows the run by
}

// ControlNumbers is what came of the scenario's own lock.
type ControlNumbers struct {
	Lock    string      `json:"lock"`
	Error   string      `json:"error,omitempty"`
	Numbers CardNumbers `json:"numbers"`
}

// Harm is a property that a run violates.
type Harm struct {
	Property string          `json:"property"`
	Cause    string          `json:"cause"`
	Because  string          `json:"because"`
	Held     bool            `json:"held"`              // it had to hold
	Control  checker.Outcome `json:"control,omitempty"` // what came of it with the scenario's own lock
	Also     []string        `json:"also,omitempty"`    // other runs that show the same
	Try      *Try            `json:"try,omitempty"`     // nil: it was not tried elsewhere
}

// Try is what came of a violation on another backend.
type Try struct {
	Backend string       `json:"backend"`
	State   FindingState `json:"state"`
	Runs    int          `json:"runs,omitempty"` // that were made
	Why     string       `json:"why,omitempty"`  // it can't be run there, or was not decided
	Cause   string       `json:"cause,omitempty"`
	Command string       `json:"command,omitempty"`
	// Run is whatever its maker knows the run by that showed it.
	Run int `json:"-"`
}

// State is how a try came out.
type FindingState string

// States of a Try.
const (
	StateConfirmed FindingState = "confirmed"
	NotConfirmed   FindingState = "not confirmed"
	CannotRun      FindingState = "can't be run there"
)

// Settle makes the marks and findings of what was added.
func (c *Card) Settle() {
	slices.SortStableFunc(c.cases, func(a, b *cardCase) int {
		at := func(x *cardCase) int { return slices.Index(checker.Properties(), x.Property) }
		place := func(x *cardCase) int { // of dice last
			if x.Column == drawn {
				return len(c.Columns)
			}
			return slices.Index(c.Columns, x.Column)
		}
		held := func(x *cardCase) int {
			if x.Held {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(held(a), held(b)), cmp.Compare(place(a), place(b)),
			cmp.Compare(at(a), at(b)), cmp.Compare(a.Cause, b.Cause))
	})
	c.Findings = []CardFinding{}
	for i := range c.Rows {
		for k := range c.Rows[i].Cells {
			c.Rows[i].Cells[k].Unconfirmed = 0
		}
	}
	for _, x := range c.cases {
		first := x.Shown[0]
		i := slices.IndexFunc(c.Findings, func(f CardFinding) bool { return f.Entry == first.Run })
		if i < 0 {
			i = len(c.Findings)
			c.Findings = append(c.Findings, finding(x.Column, first))
		}
		f := &c.Findings[i]
		f.Held = f.Held || x.Held
		h := Harm{Property: x.Property, Cause: first.Judgement.Cause, Because: first.Judgement.Because, Held: x.Held, Control: first.Judgement.Control, Try: x.tried}
		for _, s := range x.Shown[1:] {
			if x.Column != drawn && !slices.Contains(h.Also, s.Outcome.Scenario) {
				h.Also = append(h.Also, s.Outcome.Scenario)
			}
		}
		f.Harms = append(f.Harms, h)
		if x.Held && x.tried != nil && x.tried.State != StateConfirmed && x.Column != drawn {
			c.row(x.Property).Cells[c.column(x.Column)].Unconfirmed += len(x.Shown)
		}
	}
	c.mark()
}

func finding(column string, s Shown) CardFinding {
	o := s.Outcome
	f := CardFinding{Scenario: o.Scenario, Claim: s.Scenario.Claim, Column: column, Backend: o.Backend, Seed: o.Seed, Draw: s.Draw, Command: o.Command,
		Events: s.Judgement.Length, Numbers: numbers(o.Numbers), Entry: s.Run}
	if own := o.Control; own != nil {
		f.Control = &ControlNumbers{Lock: own.Lock, Error: own.Error, Numbers: numbers(own.Numbers)}
	}
	return f
}

// Confirmed says whether a finding counts: what had to hold was not tried elsewhere, or was
// seen to be violated there.
func (f CardFinding) Confirmed() bool {
	return slices.ContainsFunc(f.Harms, func(h Harm) bool { return h.Held && (h.Try == nil || h.Try.State == StateConfirmed) })
}

// mostTried bounds the runs of a case that are tried elsewhere: where the shortest does not
// show it, the next may.
const mostTried = 3

// Confirm has each case that had to hold tried elsewhere, the shortest run first, and puts the run
// that is confirmed before the others. What came on the other backend needs none.
func (c *Card) Confirm(try func(Shown) Try) {
	for _, x := range c.cases {
		if _, beside := SortOfColumn(x.Column); !x.Held || beside {
			continue
		}
		runs := 0
		for i, s := range x.Shown[:min(len(x.Shown), mostTried)] {
			t := try(s)
			runs += t.Runs
			if x.tried == nil || t.State == StateConfirmed || x.tried.State == CannotRun {
				x.tried = &t
			}
			if t.State == StateConfirmed {
				x.Shown[0], x.Shown[i] = x.Shown[i], x.Shown[0]
				break
			}
		}
		x.tried.Runs = runs
	}
	c.Settle()
}

// Code is the exit code that a card calls for.
func (c *Card) Code() int {
	code := ExitOK
	if len(c.Open) > 0 {
		code = ExitUndecided
	}
	if len(c.Errors) > 0 {
		code = Worse(code, ExitBackend)
	}
	for _, f := range c.Findings {
		switch {
		case !f.Held:
		case f.Confirmed():
			code = Worse(code, ExitUnexpected)
		default:
			code = Worse(code, ExitUndecided)
		}
	}
	return code
}
