package suites

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/reports/sequence"
	"lockpick/scenarios/outcome"
)

const hostileText = "<script>alert(1)</script>|`\u202e"

// testCard returns a card with a row for each property. The row for mutual exclusion has the given marks.
// For each mark that means a violation there is a finding.
func testCard(name string, marks ...outcome.Mark) *outcome.Card {
	c := &outcome.Card{Lock: name, Doc: hostileText, Backend: "sim", RetryBackend: "process", Columns: []string{"none", "networks", "pauses"}[:len(marks)]}
	for _, p := range checker.Properties() {
		r := outcome.CardRow{Property: p, Cells: make([]outcome.CardCell, len(marks))}
		for k := range marks {
			r.Cells[k].Mark = outcome.MarkNotExercised
			if p == verdict.MutualExclusion {
				r.Claim, r.Cells[k].Mark = "“"+hostileText+"”", marks[k]
			}
		}
		c.Rows = append(c.Rows, r)
	}
	for k, m := range marks {
		state := map[outcome.Mark]outcome.ReproductionState{outcome.MarkFailed: outcome.ReproductionConfirmed, outcome.MarkUnconfirmed: outcome.ReproductionNotConfirmed}[m]
		if state == "" {
			continue
		}
		try := &outcome.Reproduction{Backend: "process", State: state, Runs: 6}
		c.Findings = append(c.Findings, outcome.CardFinding{Scenario: hostileText, Column: c.Columns[k], Seed: 7, Command: "lockpick run " + hostileText, Required: true,
			Run: fmt.Sprintf("runs/1-%d-x", k), Comparison: &outcome.ComparisonNumbers{Lock: "redlock"},
			Violations: []outcome.Violation{{Property: verdict.MutualExclusion, Because: hostileText, Required: true, Comparison: verdict.Holds, Reproduction: try},
				{Property: verdict.ResourceSafety, Because: hostileText, Required: true, Comparison: verdict.Holds, Reproduction: try}}})
	}
	return c
}

func render(t *testing.T, b *Scorecards) (page, text string) {
	t.Helper()
	pictures := map[string]sequence.Diagram{}
	for _, c := range b.Cards {
		for _, f := range c.Findings {
			pictures[f.Run] = sequence.Diagram{Title: hostileText, Caption: []string{hostileText}}
		}
	}
	var html, md bytes.Buffer
	if err := b.Page(&html, pictures); err != nil {
		t.Fatal(err)
	}
	if err := b.Markdown(&md); err != nil {
		t.Fatal(err)
	}
	return html.String(), md.String()
}

// codeSpans matches code spans in Markdown. Tags have no effect there.
var codeSpans = regexp.MustCompile("`[^`\n]*`")

func TestScorecardEscapesText(t *testing.T) {
	page, text := render(t, &Scorecards{Command: hostileText, Cards: []*outcome.Card{testCard(hostileText, outcome.MarkFailed, outcome.MarkHolds), testCard("b", outcome.MarkHolds, outcome.MarkHolds)}})
	for _, s := range []string{page, text} {
		if strings.Contains(codeSpans.ReplaceAllString(s, ""), "<script>") || strings.Contains(s, "\u202e") {
			t.Errorf("output is not escaped:\n%s", s)
		}
	}
}

// Each mark for a violation links to its counterexample. Violations that were not reproduced on real
// servers have their own heading. Each finding states whether the lock's documentation promises the
// property.
func TestScorecardFindings(t *testing.T) {
	page, text := render(t, &Scorecards{Cards: []*outcome.Card{testCard("mine", outcome.MarkFailed, outcome.MarkUnconfirmed, outcome.MarkHolds)}})
	for _, m := range regexp.MustCompile(`href="#(runs-[^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `id="`+m[1]+`"`) {
			t.Errorf("no element has the id %q", m[1])
		}
	}
	if n := strings.Count(page, `href="#runs-`); n != 4 {
		t.Errorf("%d marks link to a counterexample, want 4", n)
	}
	for _, s := range []string{page, text} {
		required, simulated := strings.Index(s, "Violated and required"), strings.Index(s, "Observed only in the simulation")
		if first, second := strings.Index(s, "confirmed on process"), strings.Index(s, "not confirmed on process after 6 runs"); required < 0 || first < required || simulated < first || second < simulated {
			t.Errorf("confirmed finding at %d, its heading at %d; unconfirmed finding at %d, its heading at %d", first, required, second, simulated)
		}
	}
	for _, want := range []string{"Its documentation: ", "Its documentation does not promise it", "comparison run with redlock: mutual-exclusion holds"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not contain %q", want)
		}
	}
}

func TestCardHeadline(t *testing.T) {
	for want, marks := range map[string][]outcome.Mark{
		"x satisfies everything required of it in these runs.":                      {outcome.MarkHolds},
		"x violates mutual-exclusion and resource-safety, which is required of it.": {outcome.MarkFailed},
		"x satisfies what is required of it, as far as the runs on process show. Violations of mutual-exclusion and resource-safety were observed only in the simulation.": {outcome.MarkUnconfirmed},
		"x violates mutual-exclusion and resource-safety, which is required of it. Violations of fault-tolerance were observed only in the simulation.":                    nil,
	} {
		c := testCard("x", marks...)
		if marks == nil {
			c = testCard("x", outcome.MarkFailed)
			c.Findings = append(c.Findings, outcome.CardFinding{Required: true, Violations: []outcome.Violation{{Property: verdict.FaultTolerance, Required: true, Reproduction: &outcome.Reproduction{State: outcome.ReproductionImpossible}}}})
		}
		if got := CardHeadline(c); got != want {
			t.Errorf("headline is %q, want %q", got, want)
		}
	}
}
