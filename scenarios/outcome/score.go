// Package score says what a lock keeps under which failures.
//
// A Card is one lock's: a Row for each property with a Cell for each sort of failure,
// Dice for the plans that seeds draw, with each sort alone and left out, and a Finding for
// each violation, the shortest of its property, sort of failure and cause. An Entry is what
// one run adds to it.
//
//	runs ──► Add, Throw ──► Settle ──► Findings ──► Confirm, where real servers are asked ──► Code
//
// Deliberately missing: running (cmd/lockpick), judging (package suite), and drawing
// (reports/suites).
package outcome

import (
	"strings"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
)

// Schema is the version of a card's JSON.
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

// Row is what came of a property.
type CardRow struct {
	Property string `json:"property"`
	// Claim is what the lock's documentation promises of it; "": nothing.
	Claim string     `json:"claim,omitempty"`
	Cells []CardCell `json:"cells"` // one for each column
}

// Cell counts what came of a property under one sort of failure.
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

// Numbers are those of one run, or of several: sums, and the longest time.
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

// Skip is why scenarios were not run.
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

// Column is the sort of failures that a scenario is about.
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

// SortOf is the sort of failures that a column is about, and whether it is on the other backend.
func SortOfColumn(column string) (sort string, beside bool) {
	sort, _, beside = strings.Cut(column, on)
	return sort, beside
}

// New is an empty card of a lock, which is of that kind; claims is what its documentation
// promises of a property.
func NewCard(name string, kind lock.Kind, claims map[string]string, backend string, seed uint64) *Card {
	c := &Card{Lock: name, Doc: kind.Doc, Backend: backend, Seed: seed, kind: kind, lacks: map[string]string{}, Findings: []CardFinding{}}
	for _, p := range checker.Properties() {
		c.Rows = append(c.Rows, CardRow{Property: p, Claim: claims[p]})
	}
	return c
}

// Entry is a run of a lock, with what it takes to have it again.
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
