package suites

import (
	"fmt"

	"lockpick/checker"
	"lockpick/reports/words"
)

// came reports whether a property was expected to come out so, and did in all runs.
func (c *Scenario) came(property string, got checker.Outcome) bool {
	cell := c.Cell(property)
	return cell != nil && cell.Number == "" && cell.Expected != "" && cell.Unexpected == 0 && cell.Got == got && cell.Decided > 0 &&
		(got == checker.Violated || cell.Violated == 0)
}

// remedy is a scenario and one of its variants, of which one is harmed in some
// properties that hold in the other.
type remedy struct {
	base, variant *Scenario
	properties    []string
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
		cure, flaw := remedy{base, c, nil}, remedy{base, c, nil}
		for _, p := range checker.Properties() {
			switch {
			case p == checker.LeaseLinearizable: // it comes out as mutual exclusion does
			case base.came(p, checker.Violated) && c.came(p, checker.Holds):
				cure.properties = append(cure.properties, p)
			case base.came(p, checker.Holds) && c.came(p, checker.Violated):
				flaw.properties = append(flaw.properties, p)
			}
		}
		if len(cure.properties) > 0 {
			cures = append(cures, cure)
		}
		if len(flaw.properties) > 0 {
			flaws = append(flaws, flaw)
		}
	}
	return cures, flaws
}

// cureText says what cured what.
func (r remedy) cureText() string {
	return fmt.Sprintf("In %s, %s held. %s", r.variant.Variant, words.List(r.properties), r.variant.Claim)
}

// flawText says what broke what.
func (r remedy) flawText() string {
	return fmt.Sprintf("In %s, %s. %s", r.variant.Variant, r.variant.harm(r.properties), r.variant.Claim)
}

// harm names violated properties with their causes.
func (c *Scenario) harm(properties []string) string {
	var parts []string
	for _, p := range properties {
		parts = append(parts, p+blame(*c.Cell(p)))
	}
	verb := " was violated"
	if len(parts) > 1 {
		verb = " were violated"
	}
	return words.List(parts) + verb
}

// harms are the properties that were violated as expected.
func (c *Scenario) harms() []string {
	var out []string
	for _, p := range checker.Properties() {
		if p != checker.LeaseLinearizable && c.came(p, checker.Violated) {
			out = append(out, p)
		}
	}
	return out
}

// uncured are the scenarios with harm as expected that no variant here is free of.
func (s *Suite) uncured(cures []remedy) []*Scenario {
	cured := map[string]bool{}
	for _, r := range cures {
		cured[r.base.Name] = true
	}
	var out []*Scenario
	for _, c := range s.Scenarios {
		if c.Variant == "" && !cured[c.Name] && len(c.harms()) > 0 {
			out = append(out, c)
		}
	}
	return out
}
