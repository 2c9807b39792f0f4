package outcome

import (
	"slices"

	"lockpick/checker"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

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
		if j.Got == checker.Violated && promised(j) {
			c.found(drawn, j, e, true)
		}
	}
}

func (s *Share) add(j Judgement) {
	switch j.Got {
	case checker.Violated:
		s.Violated++
		s.Runs++
	case checker.Holds:
		s.Runs++
	default:
		s.Idle++
	}
	if j.Control == checker.Violated {
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
