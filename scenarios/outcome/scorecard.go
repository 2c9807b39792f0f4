package outcome

import (
	"cmp"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// CardSchema is the version of a card's JSON.
const CardSchema = 1

// Card is the scorecard of one lock.
type Card struct {
	Lock     string        `json:"lock"` // KIND or KIND:OPTION=VALUE,…
	Doc      string        `json:"doc,omitempty"`
	Backend  string        `json:"backend"`
	Beside   string        `json:"beside,omitempty"` // a second backend, with columns of its own; "" for none
	Seed     uint64        `json:"seed"`
	Tried    string        `json:"triedOn,omitempty"`    // the backend on which violations were retried; "" for none
	Runs     int           `json:"runs"`                 // runs of the catalogue on Backend
	There    int           `json:"runsBeside,omitempty"` // runs of the catalogue on SecondBackend
	Columns  []string      `json:"columns"`              // kinds of failures, and the same on the second backend (see ColumnOn)
	Rows     []CardRow     `json:"rows"`
	Measured []*Measure    `json:"measured"`
	Dice     *Dice         `json:"dice,omitempty"` // nil if no random plans were run
	Findings []CardFinding `json:"findings"`       // violations of required properties first
	Open     []doubt       `json:"open,omitempty"` // required properties without a decision
	Skipped  []*cardSkip   `json:"skipped,omitempty"`
	Errors   []string      `json:"errors,omitempty"`

	kind  lock.Kind
	cases []*cardCase
	lacks map[string]string // by column: why scenarios were not run
}

// CardRow holds the results for one property.
type CardRow struct {
	Property string `json:"property"`
	// Claim is what the lock's documentation promises about the property; "" for nothing.
	Claim string     `json:"claim,omitempty"`
	Cells []CardCell `json:"cells"` // one for each column
}

// CardCell counts the results for a property under one kind of failure.
type CardCell struct {
	Mark        Mark   `json:"mark"`
	Kept        int    `json:"kept,omitempty"`        // runs in which it held, as required
	Failed      int    `json:"failed,omitempty"`      // runs in which it was violated though required
	Unconfirmed int    `json:"unconfirmed,omitempty"` // those of Failed that did not recur on real servers
	Alone       int    `json:"alone,omitempty"`       // runs in which it was violated and not required, and the comparison run did not violate it
	Alike       int    `json:"alike,omitempty"`       // runs in which it was violated and not required, as in the comparison run
	Free        int    `json:"free,omitempty"`        // runs in which it held without being required
	Open        int    `json:"open,omitempty"`        // runs in which it was required, and was undecided or not exercised
	Why         string `json:"why,omitempty"`         // why the lock or the backend does not support it
}

// Measurement holds what was measured under one kind of failure, for the lock under test and for the
// scenarios' own locks.
type Measure struct {
	Column string      `json:"column"`
	Lock   CardNumbers `json:"lock"`
	Own    CardNumbers `json:"own"`
}

// CardNumbers holds the numbers of one run, or of several: sums, and the maximum of MaxUnavailable.
type CardNumbers struct {
	Grants  float64 `json:"grants"`
	Longest float64 `json:"longest"` // longest time without a grant while a client tried, in seconds
	Orphans float64 `json:"orphans"` // keys left behind
}

func numbers(from map[string]float64) CardNumbers {
	return CardNumbers{from[verdict.Grants], from[verdict.UnavailableMax], from[verdict.OrphanKeys]}
}

func (n *CardNumbers) add(o CardNumbers) {
	n.Grants, n.Orphans, n.Longest = n.Grants+o.Grants, n.Orphans+o.Orphans, max(n.Longest, o.Longest)
}

// undecidedProperty is a required property that a run did not decide.
type doubt struct {
	Scenario string `json:"scenario"`
	Property string `json:"property"`
	Column   string `json:"column"`
	Because  string `json:"because"`
}

// cardSkip lists the scenarios that were not run for one reason.
type cardSkip struct {
	Why       string   `json:"why"`
	Scenarios []string `json:"scenarios"`
}

// Columns other than a single kind of failure.
const (
	NoFailure = "none"
	otherSort = "other"   // a fault that belongs to no kind of failure
	Several   = "several" // more than one kind
	drawn     = "random"  // column of a CardFinding from a random plan
)

// CardColumn returns the column of a scenario: its kind of failure.
func CardColumn(s scenario.Scenario) string {
	switch models := s.Models(); {
	case len(models) > 1:
		return Several
	case len(models) == 1:
		return models[0]
	case len(s.Plan) > 0 || s.Random != nil:
		return otherSort
	}
	return NoFailure
}

// ColumnOn returns the name of a column on a backend.
func (c *Card) On(sort, backend string) string {
	if backend == c.Backend {
		return sort
	}
	return sort + on + backend
}

const on = " on "

// SplitColumn returns the kind of failure of a column, and whether it is on the second backend.
func SortOfColumn(column string) (sort string, beside bool) {
	sort, _, beside = strings.Cut(column, on)
	return sort, beside
}

// NewCard returns an empty card for a lock of the given kind. claims maps properties to what the lock's
// documentation promises about them.
func NewCard(name string, kind lock.Kind, claims map[string]string, backend string, seed uint64) *Card {
	c := &Card{Lock: name, Doc: kind.Doc, Backend: backend, Seed: seed, kind: kind, lacks: map[string]string{}, Findings: []CardFinding{}}
	for _, p := range checker.Properties() {
		c.Rows = append(c.Rows, CardRow{Property: p, Claim: claims[p]})
	}
	return c
}

// CardEntry is a run of a lock, with the data needed to repeat it.
type CardEntry struct {
	Scenario scenario.Scenario
	Outcome  Outcome
	Draw     *Draw // the faults of a random plan; nil for the scenario's own plan
	// RunID identifies the run for the caller; the card only copies it.
	Run int
}

// Add adds a run of the catalogue.
func (c *Card) Add(e CardEntry) {
	o := e.Outcome
	column := c.On(CardColumn(e.Scenario), o.Backend)
	if o.Backend == c.Backend {
		c.Runs++
	} else {
		c.There++
	}
	if o.Error != "" {
		first, _, _ := strings.Cut(o.Error, "\n")
		c.Errors = append(c.Errors, o.Scenario+": "+first)
	}
	c.column(column)
	m := Entry(&c.Measured, func(m *Measure) bool { return m.Column == column }, Measure{Column: column})
	m.Lock.add(numbers(o.Numbers))
	if o.Control != nil {
		m.Own.add(numbers(o.Control.Numbers))
	} else {
		m.Own.add(numbers(o.Numbers)) // the lock under test is the scenario's own
	}
	for _, j := range o.Judgements {
		if j.Number == nil {
			c.judge(column, j, e)
		}
	}
}

// Mark summarizes a cell in one symbol.
type Mark string

// Marks, the most serious first.
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

// Marks lists the marks with their meanings.
func Marks() [][2]string {
	return [][2]string{
		{string(MarkFailed), "violated, but required"},
		{string(Unconfirmed), "violated, but not confirmed on real servers"},
		{string(Alone), "violated and not required; the comparison run does not violate it"},
		{string(Kept), "holds, as required"},
		{string(Alike), "violated, as in the comparison run"},
		{string(Open), "inconclusive"},
		{string(free), "holds (not required)"},
		{string(Cannot), "not supported by the lock or the backend"},
		{string(Idle), "not exercised"},
	}
}

func (c *Card) row(property string) *CardRow {
	i := slices.IndexFunc(c.Rows, func(r CardRow) bool { return r.Property == property })
	return &c.Rows[i]
}

// ensureColumn returns the index of a column. It inserts the column in order if the card does not
// have it yet.
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
			return 1 // a kind of failure, in alphabetical order
		}
		return cmp.Or(cmp.Compare(in(a), in(b)), cmp.Compare(a, b))
	})
	c.Columns = slices.Insert(c.Columns, i, name)
	for r := range c.Rows {
		c.Rows[r].Cells = slices.Insert(c.Rows[r].Cells, i, CardCell{})
	}
	return i
}

// cardCase is a violation of a property under one kind of failure for one cause, with the runs that show
// it, the shortest first.
type cardCase struct {
	Property, Column, Cause string
	Held                    bool // whether the property was required
	Shown                   []Shown
	tried                   *Try
}

// ShownRun is a run that shows a violation.
type Shown struct {
	CardEntry
	Judgement Judgement
}

// isRequired reports whether the property was required to hold.
func promised(j Judgement) bool { return j.Expected == string(verdict.Holds) }

// unsupportedReason explains why a property cannot be required of the lock; "" if it can.
func (c *Card) lacking(property string) string {
	switch {
	case property == verdict.BoundedHold && !c.kind.Can.Limit:
		return "the lock does not limit its extensions"
	case property == verdict.FencingOrder && !c.kind.Can.Fence:
		return "the lock gives no fencing tokens"
	}
	return ""
}

// judge counts the judgement of a property in a run.
func (c *Card) judge(column string, j Judgement, e CardEntry) {
	if c.lacking(j.Property) != "" {
		return
	}
	x := &c.row(j.Property).Cells[c.column(column)]
	held := promised(j)
	switch {
	case j.Got == verdict.Violated && held:
		x.Failed++
		c.found(column, j, e, true)
	case j.Alone():
		x.Alone++
		c.found(column, j, e, false)
	case j.Got == verdict.Violated:
		x.Alike++
	case j.Got == verdict.Holds && held:
		x.Kept++
	case j.Got == verdict.Holds:
		x.Free++
	case held && (j.Got == verdict.Undecided || !j.AsExpected):
		x.Open++
		c.Open = append(c.Open, doubt{e.Outcome.Scenario, j.Property, column, j.Because})
	}
}

// addViolation adds a violation to its case.
func (c *Card) found(column string, j Judgement, e CardEntry, held bool) {
	x := Entry(&c.cases, func(x *cardCase) bool {
		return x.Property == j.Property && x.Column == column && x.Cause == j.Cause && x.Held == held
	}, cardCase{Property: j.Property, Column: column, Cause: j.Cause, Held: held})
	x.Shown = append(x.Shown, Shown{e, j})
	slices.SortStableFunc(x.Shown, func(a, b Shown) int {
		return cmp.Or(cmp.Compare(a.Judgement.Length, b.Judgement.Length), cmp.Compare(a.Outcome.Seed, b.Outcome.Seed))
	})
}

// Skip adds a scenario that was not run on a backend. The reason is shown in the cells of its column
// unless the scenario is about a broken lock.
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

// setMarks sets the marks of all cells.
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

// RandomPlans holds the results of random fault plans with all faults, with each kind of failure alone,
// and with all faults except that kind.
type Dice struct {
	Scenario string    `json:"scenario"`
	Seeds    int       `json:"seeds"` // for each set of faults
	Draws    []Draw    `json:"draws"`
	Rows     []DiceRow `json:"rows"`
}

// FaultSet is the set of faults that random plans may use.
type Draw struct {
	Sort   string   `json:"sort,omitempty"`  // kind of failure; "" for all
	Alone  bool     `json:"alone,omitempty"` // only that kind; otherwise all faults except it
	Faults []string `json:"faults"`          // names of nemesis.Choices
}

// RandomPlansRow holds the results for one property.
type DiceRow struct {
	Property string  `json:"property"`
	Held     bool    `json:"held"`   // whether the property was required
	Shares   []Share `json:"shares"` // one for each set of faults
}

// Share counts the runs that violated a property, with the 95 % interval of their rate.
type Share struct {
	Runs     int     `json:"runs"` // runs that decided the property
	Violated int     `json:"violated"`
	Idle     int     `json:"notExercised,omitempty"`
	Own      int     `json:"own"` // comparison runs that violated the property
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// FaultSets returns the sets of faults for a scenario's random plans: all faults, each kind of failure
// alone, and all faults except each kind.
func Draws(s scenario.Scenario) []Draw {
	words := func(in func(sort string) bool) (out []string) {
		for _, c := range s.Random.Choices() {
			if in(sortOf(c)) {
				out = append(out, c.Word)
			}
		}
		return out
	}
	draws := []Draw{{Faults: words(func(string) bool { return true })}}
	var sorts []string
	for _, c := range s.Random.Choices() {
		if sort := sortOf(c); !slices.Contains(sorts, sort) {
			sorts = append(sorts, sort)
		}
	}
	slices.Sort(sorts)
	for _, sort := range sorts {
		draws = append(draws,
			Draw{sort, true, words(func(w string) bool { return w == sort })},
			Draw{sort, false, words(func(w string) bool { return w != sort })})
	}
	return slices.DeleteFunc(draws, func(d Draw) bool { return len(d.Faults) == 0 })
}

func sortOf(c nemesis.Choice) string {
	if c.Kind.Model == "" {
		return otherSort
	}
	return c.Kind.Model
}

// AddRandom adds a run of a random plan. e.FaultSet is one of sets.
func (c *Card) Throw(e CardEntry, seeds int, draws []Draw) {
	if c.Dice == nil {
		c.Dice = &Dice{Scenario: e.Outcome.Scenario, Seeds: seeds, Draws: draws}
	}
	d := c.Dice
	at := slices.IndexFunc(d.Draws, func(x Draw) bool { return x.Sort == e.Draw.Sort && x.Alone == e.Draw.Alone })
	if e.Outcome.Error != "" {
		c.Errors = append(c.Errors, e.Outcome.Command+": "+e.Outcome.Error)
	}
	for _, j := range e.Outcome.Judgements {
		if j.Number != nil || c.lacking(j.Property) != "" {
			continue
		}
		i := slices.IndexFunc(d.Rows, func(r DiceRow) bool { return r.Property == j.Property })
		if i < 0 {
			i = len(d.Rows)
			d.Rows = append(d.Rows, DiceRow{Property: j.Property, Shares: make([]Share, len(d.Draws))})
		}
		d.Rows[i].Held = d.Rows[i].Held || promised(j)
		d.Rows[i].Shares[at].add(j)
		if j.Got == verdict.Violated && promised(j) {
			c.found(drawn, j, e, true)
		}
	}
}

func (s *Share) add(j Judgement) {
	switch j.Got {
	case verdict.Violated:
		s.Violated++
		s.Runs++
	case verdict.Holds:
		s.Runs++
	default:
		s.Idle++
	}
	if j.Control == verdict.Violated {
		s.Own++
	}
	s.Low, s.High = Wilson(s.Violated, s.Runs)
}

// Causes returns the kinds of failures that cause violations of a property. Kinds in alone violated it
// by themselves. Without a kind in needed, violations are rarer than with all faults: the
// intervals do not overlap.
func (d *Dice) Blame(property string) (alone, needed []string) {
	i := slices.IndexFunc(d.Rows, func(r DiceRow) bool { return r.Property == property })
	if i < 0 {
		return nil, nil
	}
	all := d.Rows[i].Shares[0]
	for k, s := range d.Rows[i].Shares {
		switch w := d.Draws[k]; {
		case w.Alone && s.Violated > 0:
			alone = append(alone, w.Sort)
		case w.Sort != "" && !w.Alone && s.High < all.Low:
			needed = append(needed, w.Sort)
		}
	}
	return alone, needed
}

// CardFinding is a run that shows violations. For each of them it is the shortest run with that property,
// kind of failure and cause.
type CardFinding struct {
	Scenario string `json:"scenario"`
	Claim    string `json:"claim"` // claim of the scenario
	Column   string `json:"column"`
	Backend  string `json:"backend"`
	Seed     uint64 `json:"seed"`
	Draw     *Draw  `json:"draw,omitempty"`
	Command  string `json:"command"`
	Events   int    `json:"events"` // up to the last event that proves the first violation
	Harms    []Harm `json:"harms"`
	// Required is set if at least one of the violated properties was required.
	Held      bool            `json:"held"`
	Numbers   CardNumbers     `json:"numbers"`
	Control   *ControlNumbers `json:"control,omitempty"`   // nil if the lock is the scenario's own
	Run       string          `json:"run,omitempty"`       // directory of the stored run, relative to the card; "" if a repetition differed
	Elsewhere string          `json:"elsewhere,omitempty"` // directory of the run on the other backend that confirmed it
	Entry     int             `json:"-"`                   // CardEntry.RunID of the run
}

// ComparisonNumbers holds the numbers of the comparison run.
type ControlNumbers struct {
	Lock    string      `json:"lock"`
	Error   string      `json:"error,omitempty"`
	Numbers CardNumbers `json:"numbers"`
}

// Violation is a property that a run violates.
type Harm struct {
	Property string          `json:"property"`
	Cause    string          `json:"cause"`
	Because  string          `json:"because"`
	Held     bool            `json:"held"`              // whether the property was required
	Control  verdict.Outcome `json:"control,omitempty"` // outcome in the comparison run
	Also     []string        `json:"also,omitempty"`    // other scenarios that show the same violation
	Try      *Try            `json:"try,omitempty"`     // nil if it was not tried on another backend
}

// Reproduction is the result of retrying a violation on another backend.
type Try struct {
	Backend string       `json:"backend"`
	State   FindingState `json:"state"`
	Runs    int          `json:"runs,omitempty"` // number of attempts
	Why     string       `json:"why,omitempty"`  // why it cannot run there, or was not decided
	Cause   string       `json:"cause,omitempty"`
	Command string       `json:"command,omitempty"`
	// RunID identifies the run that showed the violation, for the caller.
	Run int `json:"-"`
}

// ReproductionState is the result of a Reproduction.
type FindingState string

// States of a Reproduction.
const (
	StateConfirmed FindingState = "confirmed"
	NotConfirmed   FindingState = "not confirmed"
	CannotRun      FindingState = "can't be run there"
)

// Finalize computes the marks and findings of the runs added so far.
func (c *Card) Settle() {
	slices.SortStableFunc(c.cases, func(a, b *cardCase) int {
		at := func(x *cardCase) int { return slices.Index(checker.Properties(), x.Property) }
		place := func(x *cardCase) int { // random plans last
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

// Confirmed reports whether a required property was violated and the violation was either confirmed on
// the other backend or not retried there.
func (f CardFinding) Confirmed() bool {
	return slices.ContainsFunc(f.Harms, func(h Harm) bool { return h.Held && (h.Try == nil || h.Try.State == StateConfirmed) })
}

// maxReproduced bounds the runs of a case that are retried on the other backend. If the shortest run does
// not show the violation there, the next one may.
const mostTried = 3

// Reproduce retries each violation of a required property on another backend, the shortest run first, and
// moves a confirmed run to the front. Violations found on the second backend are not retried.
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

// Code returns the exit code for the card.
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
