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

// Card is what came of one lock.
type Card struct {
	Lock     string        `json:"lock"` // KIND or KIND:OPTION=VALUE,…
	Doc      string        `json:"doc,omitempty"`
	Backend  string        `json:"backend"`
	Beside   string        `json:"beside,omitempty"` // another, which has columns of its own; "": none
	Seed     uint64        `json:"seed"`
	Tried    string        `json:"triedOn,omitempty"` // the backend on which what was found was tried again; "": none
	Runs     int           `json:"runs"`              // of the catalogue
	There    int           `json:"runsBeside,omitempty"`
	Columns  []string      `json:"columns"` // sorts of failures, and the same on the other backend (On)
	Rows     []CardRow     `json:"rows"`
	Measured []*Measure    `json:"measured"`
	Dice     *Dice         `json:"dice,omitempty"` // nil: no seeds were asked for
	Findings []CardFinding `json:"findings"`       // what it must keep and doesn't first
	Open     []doubt       `json:"open,omitempty"` // what had to hold, and wasn't decided
	Skipped  []*cardSkip   `json:"skipped,omitempty"`
	Errors   []string      `json:"errors,omitempty"`

	kind  lock.Kind
	cases []*cardCase
	lacks map[string]string // why scenarios of a column were not run
}

// CardRow is what came of a property.
type CardRow struct {
	Property string `json:"property"`
	// Claim is what the lock's documentation promises of it; "": nothing.
	Claim string     `json:"claim,omitempty"`
	Cells []CardCell `json:"cells"` // one for each column
}

// CardCell counts what came of a property under one sort of failure.
type CardCell struct {
	Mark        Mark   `json:"mark"`
	Kept        int    `json:"kept,omitempty"`        // it held, as it must
	Failed      int    `json:"failed,omitempty"`      // it was violated, and must hold
	Unconfirmed int    `json:"unconfirmed,omitempty"` // of these, those that real servers didn't show
	Alone       int    `json:"alone,omitempty"`       // it was violated where nobody promised it, and holds with the scenario's own lock
	Alike       int    `json:"alike,omitempty"`       // it was violated, as with the scenario's own lock
	Free        int    `json:"free,omitempty"`        // it held, though nobody promised it
	Open        int    `json:"open,omitempty"`        // it had to hold, and is undecided or was not exercised
	Why         string `json:"why,omitempty"`         // the lock or the backend can't
}

// Measure is what was measured under one sort of failure, and with the scenarios' own locks.
type Measure struct {
	Column string      `json:"column"`
	Lock   CardNumbers `json:"lock"`
	Own    CardNumbers `json:"own"`
}

// CardNumbers are those of one run, or of several: sums, and the longest time.
type CardNumbers struct {
	Grants  float64 `json:"grants"`
	Longest float64 `json:"longest"` // time without a grant while somebody tried, seconds
	Orphans float64 `json:"orphans"` // keys that were left behind
}

func numbers(from map[string]float64) CardNumbers {
	return CardNumbers{from[verdict.Grants], from[verdict.UnavailableMax], from[verdict.OrphanKeys]}
}

func (n *CardNumbers) add(o CardNumbers) {
	n.Grants, n.Orphans, n.Longest = n.Grants+o.Grants, n.Orphans+o.Orphans, max(n.Longest, o.Longest)
}

// doubt is a property that had to hold and was not decided.
type doubt struct {
	Scenario string `json:"scenario"`
	Property string `json:"property"`
	Column   string `json:"column"`
	Because  string `json:"because"`
}

// cardSkip is why scenarios were not run.
type cardSkip struct {
	Why       string   `json:"why"`
	Scenarios []string `json:"scenarios"`
}

// Columns besides the sorts of failures.
const (
	NoFailure = "none"
	otherSort = "other"   // a fault that is no sort of failure by itself
	Several   = "several" // more than one
	drawn     = "random"  // of a Finding: a plan drawn by a seed
)

// CardColumn is the sort of failures that a scenario is about.
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

// On is a column on a backend.
func (c *Card) On(sort, backend string) string {
	if backend == c.Backend {
		return sort
	}
	return sort + on + backend
}

const on = " on "

// SortOfColumn is the sort of failures that a column is about, and whether it is on the other backend.
func SortOfColumn(column string) (sort string, beside bool) {
	sort, _, beside = strings.Cut(column, on)
	return sort, beside
}

// NewCard is an empty card of a lock, which is of that kind; claims is what its documentation
// promises of a property.
func NewCard(name string, kind lock.Kind, claims map[string]string, backend string, seed uint64) *Card {
	c := &Card{Lock: name, Doc: kind.Doc, Backend: backend, Seed: seed, kind: kind, lacks: map[string]string{}, Findings: []CardFinding{}}
	for _, p := range checker.Properties() {
		c.Rows = append(c.Rows, CardRow{Property: p, Claim: claims[p]})
	}
	return c
}

// CardEntry is a run of a lock, with what it takes to have it again.
type CardEntry struct {
	Scenario scenario.Scenario
	Outcome  Outcome
	Draw     *Draw // of dice; nil: the scenario's plan
	// Run is whatever its maker knows it by.
	Run int
}

// Add takes a run of the catalogue.
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
		m.Own.add(numbers(o.Numbers)) // it is the scenario's own
	}
	for _, j := range o.Judgements {
		if j.Number == nil {
			c.judge(column, j, e)
		}
	}
}

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

// cardCase is one way in which a property was violated under one sort of failure, with the runs
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
func promised(j Judgement) bool { return j.Expected == string(verdict.Holds) }

// lacking is why a lock can't be held to a property; "": it can.
func (c *Card) lacking(property string) string {
	switch {
	case property == verdict.BoundedHold && !c.kind.Can.Limit:
		return "the lock has no limit of extensions"
	case property == verdict.FencingOrder && !c.kind.Can.Fence:
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

// Dice is what came of plans that seeds drew: of all faults, of each sort of failure alone, and
// of all the others without it.
type Dice struct {
	Scenario string    `json:"scenario"`
	Seeds    int       `json:"seeds"` // of each draw
	Draws    []Draw    `json:"draws"`
	Rows     []DiceRow `json:"rows"`
}

// Draw is what dice may draw.
type Draw struct {
	Sort   string   `json:"sort,omitempty"`  // of failures; "": all
	Alone  bool     `json:"alone,omitempty"` // it alone; otherwise all but it
	Faults []string `json:"faults"`          // words of nemesis.Choices
}

// DiceRow is what came of a property.
type DiceRow struct {
	Property string  `json:"property"`
	Held     bool    `json:"held"`   // it had to hold
	Shares   []Share `json:"shares"` // one for each draw
}

// Share is in how many runs a property was violated, with the 95 % interval.
type Share struct {
	Runs     int     `json:"runs"` // that decided it
	Violated int     `json:"violated"`
	Idle     int     `json:"notExercised,omitempty"`
	Own      int     `json:"own"` // runs in which the scenario's own lock violated it
	Low      float64 `json:"low"`
	High     float64 `json:"high"`
}

// Draws are what is drawn of a scenario's dice: all, each sort alone, and all but each.
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

// Throw takes a run of dice; e.Draw is one of draws.
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

// Blame is which sorts of failures bring the violation of a property about: those that have
// done so alone; and those without which it comes more seldom than with all, by intervals that
// don't meet.
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

// CardFinding is a run that shows violations, each the shortest of its property, sort of failure
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
	Control  verdict.Outcome `json:"control,omitempty"` // what came of it with the scenario's own lock
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

// FindingState is how a try came out.
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
