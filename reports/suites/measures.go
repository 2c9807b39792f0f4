package suites

import (
	"fmt"
	"slices"
	"strconv"

	"lockpick/scenarios/outcome"
)

// measure is a row of numbers: those of the lock, and of the scenarios' own.
type measure struct {
	Name, unit string
	pick       func(outcome.CardNumbers) float64
}

func measures() []measure {
	return []measure{
		{"grants", "", func(n outcome.CardNumbers) float64 { return n.Grants }},
		{"longest time without a grant", " s", func(n outcome.CardNumbers) float64 { return n.Longest }},
		{"keys left behind", "", func(n outcome.CardNumbers) float64 { return n.Orphans }},
	}
}

func figure(x float64) string {
	if x == float64(int(x)) {
		return strconv.Itoa(int(x))
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

// both are a lock's number and its control's.
func (m measure) both(lock, own outcome.CardNumbers) string {
	return fmt.Sprintf("%s%s (%s)", figure(m.pick(lock)), m.unit, figure(m.pick(own)))
}

// of is the number in a column; "–": it had no runs.
func (m measure) of(c *outcome.Card, column string) string {
	i := slices.IndexFunc(c.Measured, func(x *outcome.Measure) bool { return x.Column == column })
	if i < 0 {
		return "–"
	}
	return m.both(c.Measured[i].Lock, c.Measured[i].Own)
}

// measured are the numbers of a finding.
func measured(f outcome.CardFinding) (text string) {
	for _, m := range measures() {
		if text != "" {
			text += ", "
		}
		text += m.Name + " " + m.both(f.Numbers, f.Control.Numbers)
	}
	return text
}
