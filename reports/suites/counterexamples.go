package suites

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// findingGroup is a list of causes with a common heading.
type findingGroup struct {
	View        cardView
	Card        *outcome.Card
	Title, Note string
	Confirmed   bool // whether the violations are required, and confirmed if they were retried
	Causes      []*causeGroup
}

// Parts returns a card's counterexamples for the page.
func (v cardView) Parts(c *outcome.Card) []findingGroup {
	parts := counterexamples(c, fmt.Sprintf("c%d-", slices.Index(v.Cards, c)+1))
	for i := range parts {
		parts[i].View = v
	}
	return parts
}

// counterexamples groups a card's findings by severity, the most severe first, and then by cause. prefix
// starts the HTML ids.
func counterexamples(c *outcome.Card, prefix string) (all []findingGroup) {
	for _, p := range []struct {
		required, confirmed bool
		title, note         string
	}{
		{true, true, "Violated and required", ""},
		{true, false, "Observed " + unconfirmedBasis(c), "Not confirmed: real servers did not reproduce these violations, or cannot run the scenario."},
		{false, false, "Violated but not required; holds in the comparison run", ""},
	} {
		findings := slices.DeleteFunc(slices.Clone(c.Findings), func(f outcome.CardFinding) bool {
			return f.Required != p.required || f.Confirmed() != p.confirmed
		})
		all = append(all, findingGroup{Card: c, Title: p.title, Note: p.note, Confirmed: p.confirmed, Causes: groupByCause(c, findings, fmt.Sprintf("%s%d", prefix, len(all)+1))})
	}
	return all
}

// causeGroup lists the findings whose first violations have the same property and cause.
type causeGroup struct {
	ID     string              // HTML id
	Shown  outcome.CardFinding // the shortest run
	Others []otherRun
	More   []string // violations that Shown lacks
	all    []outcome.CardFinding
}

// otherRun is a run that shows the same cause as another.
type otherRun struct {
	Scenario, Column string
	Run              string // its directory, or "" if it is not stored
	Notes            []string
}

func (o otherRun) String() string { return o.Scenario + o.Detail() }

// Detail returns the column and the notes, in parentheses.
func (o otherRun) Detail() string {
	if text := display.Join(", ", append([]string{o.Column}, o.Notes...)...); text != "" {
		return " (" + text + ")"
	}
	return ""
}

// Title names the violated properties and the cause of the first one.
func (g *causeGroup) Title() string {
	var properties []string
	for _, h := range g.Shown.Violations {
		properties = append(properties, h.Property)
	}
	return display.Join(": ", display.List(properties), g.Shown.Violations[0].Cause)
}

// Intro introduces Others.
func (g *causeGroup) Intro() string {
	return fmt.Sprintf("The same cause in %s", display.Plural(len(g.Others), "other run"))
}

// Summaries lists the other runs, and what only they show.
func (g *causeGroup) Summaries() (lines []string) {
	if len(g.Others) > 0 {
		var names []string
		for _, o := range g.Others {
			names = append(names, o.String())
		}
		lines = append(lines, g.Intro()+": "+strings.Join(names, ", "))
	}
	return append(lines, g.More...)
}

// groupByCause groups findings by their first violation. prefix starts the HTML ids.
func groupByCause(c *outcome.Card, findings []outcome.CardFinding, prefix string) (all []*causeGroup) {
	for _, f := range findings {
		if len(f.Violations) == 0 {
			continue
		}
		first := f.Violations[0]
		g := outcome.GetOrAdd(&all, func(g *causeGroup) bool {
			return g.all[0].Violations[0].Property == first.Property && g.all[0].Violations[0].Cause == first.Cause
		}, causeGroup{ID: fmt.Sprintf("%s-%d", prefix, len(all)+1)})
		g.all = append(g.all, f)
	}
	for _, g := range all {
		g.choose(c)
	}
	return all
}

// choose chooses the run to show, and lists the others. It prefers runs on the card's backend to others,
// scenarios of the catalog to random plans, and stored runs, which have a diagram.
func (g *causeGroup) choose(c *outcome.Card) {
	rank := func(f outcome.CardFinding) (n int) {
		for i, isWorse := range []bool{f.Run == "", f.FaultSet != nil, f.Backend != c.Backend} {
			if isWorse {
				n += 1 << i
			}
		}
		return n
	}
	slices.SortStableFunc(g.all, func(a, b outcome.CardFinding) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Events, b.Events))
	})
	g.Shown = g.all[0]
	for _, f := range g.all[1:] {
		o := otherRun{Scenario: f.Scenario, Column: g.otherColumn(f), Run: f.Run}
		if f.FaultSet != nil {
			o.Notes = append(o.Notes, fmt.Sprintf("seed %d", f.Seed))
		}
		for _, h := range f.Violations {
			if findViolation(g.Shown, h) == nil {
				g.More = append(g.More, fmt.Sprintf("%s %s, in %s (%s): %s", h.Property, h.Cause, f.Scenario, f.Column, display.Join("; ", h.Because, DescribeReproduction(h.Reproduction))))
			} else if f.Confirmed() && isUnconfirmed(h) {
				o.Notes = append(o.Notes, h.Property+" not confirmed")
			}
		}
		g.Others = append(g.Others, o)
	}
	g.Others = append(g.Others, g.alsoIn(g.Shown.Violations[0])...)
}

// alsoIn lists the scenarios that show a violation, apart from those listed already.
func (g *causeGroup) alsoIn(h outcome.Violation) (others []otherRun) {
	for _, f := range g.all {
		found := findViolation(f, h)
		if found == nil {
			continue
		}
		for _, name := range found.Also {
			o := otherRun{Scenario: name, Column: g.otherColumn(f)}
			isSame := func(x otherRun) bool { return x.Scenario == o.Scenario && x.Column == o.Column }
			if !isSame(otherRun{Scenario: g.Shown.Scenario}) && !slices.ContainsFunc(g.Others, isSame) {
				others = append(others, o)
			}
		}
	}
	return others
}

// AlsoIn lists the scenarios that show a violation but not the group's first one.
func (g *causeGroup) AlsoIn(h outcome.Violation) string {
	var names []string
	for _, o := range g.alsoIn(h) {
		names = append(names, o.String())
	}
	if len(names) == 0 {
		return ""
	}
	return "also in " + strings.Join(names, ", ")
}

// otherColumn returns a finding's column, or "" if it is the column of the run shown.
func (g *causeGroup) otherColumn(f outcome.CardFinding) string {
	if f.Column == g.Shown.Column {
		return ""
	}
	return f.Column
}

// findViolation returns a finding's violation of the same property for the same cause, or nil.
func findViolation(f outcome.CardFinding, h outcome.Violation) *outcome.Violation {
	if i := slices.IndexFunc(f.Violations, func(x outcome.Violation) bool { return x.Property == h.Property && x.Cause == h.Cause }); i >= 0 {
		return &f.Violations[i]
	}
	return nil
}

// failureKindsText states which kinds of failures cause a violation found by random plans, or returns ""
// if unknown.
func failureKindsText(c *outcome.Card, f outcome.CardFinding, property string) string {
	if f.FaultSet == nil || c.RandomPlans == nil {
		return ""
	}
	alone, needed := c.RandomPlans.Causes(property)
	var parts []string
	if len(alone) > 0 {
		parts = append(parts, "occurs with "+display.List(alone)+" alone")
	}
	if len(needed) > 0 {
		parts = append(parts, "rarer without "+display.List(needed))
	}
	return strings.Join(parts, ", ")
}

// DescribeReproduction describes the attempt to reproduce a violation. It returns "" if there was none.
func DescribeReproduction(t *outcome.Reproduction) string {
	if t == nil {
		return ""
	}
	switch t.State {
	case outcome.ReproductionConfirmed:
		return fmt.Sprintf("confirmed on %s (%s) after %s", t.Backend, t.Cause, display.Plural(t.Runs, "run"))
	case outcome.ReproductionImpossible:
		return fmt.Sprintf("cannot run on %s: %s", t.Backend, t.Why)
	}
	return fmt.Sprintf("not confirmed on %s after %s: %s", t.Backend, display.Plural(t.Runs, "run"), t.Why)
}

// cardClaim quotes the lock's documentation on a property or states that it does not promise the
// property.
func cardClaim(c *outcome.Card, property string) string {
	for _, r := range c.Rows {
		if r.Property == property && r.Claim != "" {
			return "Its documentation: " + r.Claim
		}
	}
	return "Its documentation does not promise it, but it is required of every lock of this tier."
}

// comparisonText describes the results of the comparison run, which uses the scenario's own lock.
func comparisonText(f outcome.CardFinding) string {
	if f.Comparison == nil {
		return ""
	}
	if f.Comparison.Error != "" {
		return fmt.Sprintf("comparison run with the scenario's own lock, %s, failed: %s", f.Comparison.Lock, display.FirstLine(f.Comparison.Error))
	}
	var parts []string
	for _, h := range f.Violations {
		parts = append(parts, fmt.Sprintf("%s %s", h.Property, h.Comparison))
	}
	return fmt.Sprintf("comparison run with %s: %s", f.Comparison.Lock, strings.Join(parts, ", "))
}

// claimOfRequired returns cardClaim's result for required properties and "" for others.
func claimOfRequired(c *outcome.Card, h outcome.Violation) string {
	if !h.Required {
		return ""
	}
	return cardClaim(c, h.Property)
}
