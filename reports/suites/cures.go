package suites

import (
	"fmt"
	"slices"

	"lockpick/checker"
	"lockpick/reports/words"
	"lockpick/scenarios/outcome"
)

// came reports whether a property was expected to come out so, and did in all runs.
func (c *Scenario) came(property string, got checker.Outcome) bool {
	cell := c.Cell(property)
	return cell != nil && cell.Number == "" && cell.Expected != "" && cell.Expected != outcome.AnyOutcome && cell.Unexpected == 0 && cell.Got == got && cell.Decided > 0 &&
		(got == checker.Violated || cell.Violated == 0)
}

// remedies compares each variant with its base, and what is said to cure another scenario with
// that. A cure holds where the other is violated as expected; a flaw is a variant that is
// violated, as expected, where its base holds. Uncured is harm as expected that nothing here is
// free of.
func (s *Suite) remedies(has there) (cures, flaws, uncured []group) {
	cured := map[string]bool{}
	for _, base := range s.Scenarios {
		if base.Variant != "" {
			continue
		}
		for _, c := range s.Scenarios {
			name, own := c.Variant, c.Name == base.Name
			if !own {
				name = c.ID()
			}
			if c == base || !own && !slices.Contains(c.Cures, base.Name) {
				continue
			}
			var healed, broken []string
			for _, p := range checker.Properties() {
				switch {
				case p == checker.LeaseLinearizable: // it comes out as mutual exclusion does
				case base.came(p, checker.Violated) && c.came(p, checker.Holds):
					healed = append(healed, p)
				case own && base.came(p, checker.Holds) && c.came(p, checker.Violated):
					broken = append(broken, p)
				}
			}
			if len(healed) > 0 {
				cured[base.Name] = true
				cures = base.say(cures, has, base.harm(base.harms())+".", fmt.Sprintf("With %s: %s. %s", name, holding(healed), c.Claim))
			}
			if len(broken) > 0 {
				flaws = base.say(flaws, has, fmt.Sprintf("With %s: %s. %s", name, c.harm(broken), c.Claim))
			}
		}
	}
	for _, c := range s.Scenarios {
		if c.Variant == "" && c.State() != outcome.NothingExpected && !cured[c.Name] && len(c.harms()) > 0 {
			uncured = c.say(uncured, has, c.harm(c.harms())+".")
		}
	}
	return cures, flaws, uncured
}

// say adds texts to what is said of a scenario. All but the last stand once, at the beginning.
func (c *Scenario) say(all []group, has there, texts ...string) []group {
	if n := len(all); n > 0 && all[n-1].ID == c.ID() {
		all[n-1].Texts = append(all[n-1].Texts, texts[len(texts)-1])
		return all
	}
	return append(all, group{c.ID(), has.page(c.Dir, "#verdict"), texts})
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

// holding says that properties hold.
func holding(properties []string) string {
	if len(properties) == 1 {
		return properties[0] + " holds"
	}
	return words.List(properties) + " hold"
}
