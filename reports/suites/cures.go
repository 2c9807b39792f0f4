package suites

import (
	"fmt"

	"lockpick/checker"
)

// expects reports whether a property was expected to come out so, and did in all runs.
func (c *Scenario) came(property string, got checker.Outcome) bool {
	cell := c.Cell(property)
	return cell != nil && cell.Number == "" && cell.Expected != "" && cell.Unexpected == 0 && cell.Got == got && cell.Decided > 0 &&
		(got == checker.Violated || cell.Violated == 0)
}

// pair is a scenario and one of its variants, of which one is harmed in a property
// and the other is not.
type remedy struct {
	base, variant *Scenario
	property      string
}

// remedies compares each variant with its base. A cure holds where the base is
// violated as expected; a flaw is violated, as expected, where the base holds.
func (s *Suite) remedies() (cures, flaws []remedy) {
	bases := map[string]*Scenario{}
	for _, c := range s.Scenarios {
		if c.Variant == "" {
			bases[c.Name] = c
		}
	}
	for _, c := range s.Scenarios {
		base := bases[c.Name]
		if c.Variant == "" || base == nil {
			continue
		}
		for _, p := range checker.Properties() {
			if p == checker.LeaseLinearizable { // it comes out as mutual exclusion does
				continue
			}
			r := remedy{base, c, p}
			switch {
			case base.came(p, checker.Violated) && c.came(p, checker.Holds):
				cures = append(cures, r)
			case base.came(p, checker.Holds) && c.came(p, checker.Violated):
				flaws = append(flaws, r)
			}
		}
	}
	return cures, flaws
}

// cureText says what cured what.
func (r remedy) cureText() string {
	return fmt.Sprintf("%s was violated%s, and held in the variant %s.", r.property, blame(*r.base.Cell(r.property)), r.variant.Variant)
}

// flawText says what broke what.
func (r remedy) flawText() string {
	return fmt.Sprintf("%s held, and was violated%s in the variant %s.", r.property, blame(*r.variant.Cell(r.property)), r.variant.Variant)
}

// uncured are the scenarios with harm as expected that no variant here is free of.
func (s *Suite) uncured(cures []remedy) []*Scenario {
	cured := map[string]bool{}
	for _, r := range cures {
		cured[r.base.Name] = true
	}
	var out []*Scenario
	for _, c := range s.Scenarios {
		if c.Variant == "" && !cured[c.Name] && c.harmed() {
			out = append(out, c)
		}
	}
	return out
}

func (c *Scenario) harmed() bool {
	for _, p := range checker.Properties() {
		if c.came(p, checker.Violated) {
			return true
		}
	}
	return false
}
