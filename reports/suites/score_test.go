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

// cardOf has one row for each property, with these marks of mutual exclusion, and a finding
// for each of them that is a failure.
func cardOf(name string, marks ...outcome.Mark) *outcome.Card {
	c := &outcome.Card{Lock: name, Doc: hostileText, Backend: "sim", Tried: "process", Columns: []string{"none", "networks", "pauses"}[:len(marks)]}
	for _, p := range checker.Properties() {
		r := outcome.CardRow{Property: p, Cells: make([]outcome.CardCell, len(marks))}
		for k := range marks {
			r.Cells[k].Mark = outcome.Idle
			if p == verdict.MutualExclusion {
				r.Claim, r.Cells[k].Mark = "“"+hostileText+"”", marks[k]
			}
		}
		c.Rows = append(c.Rows, r)
	}
	for k, m := range marks {
		state := map[outcome.Mark]outcome.FindingState{outcome.MarkFailed: outcome.StateConfirmed, outcome.Unconfirmed: outcome.NotConfirmed}[m]
		if state == "" {
			continue
		}
		try := &outcome.Try{Backend: "process", State: state, Runs: 6}
		c.Findings = append(c.Findings, outcome.CardFinding{Scenario: hostileText, Column: c.Columns[k], Seed: 7, Command: "lockpick run " + hostileText, Held: true,
			Run: fmt.Sprintf("runs/1-%d-x", k), Control: &outcome.ControlNumbers{Lock: "redlock"},
			Harms: []outcome.Harm{{Property: verdict.MutualExclusion, Because: hostileText, Held: true, Control: verdict.Holds, Try: try},
				{Property: verdict.ResourceSafety, Because: hostileText, Held: true, Control: verdict.Holds, Try: try}}})
	}
	return c
}

func written(t *testing.T, b *Scorecards) (page, text string) {
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

// codes are pieces of code in Markdown, in which nothing is a tag.
var codes = regexp.MustCompile("`[^`\n]*`")

// What anybody may have written stays text.
func TestHostile(t *testing.T) {
	page, text := written(t, &Scorecards{Command: hostileText, Cards: []*outcome.Card{cardOf(hostileText, outcome.MarkFailed, outcome.Kept), cardOf("b", outcome.Kept, outcome.Kept)}})
	for _, s := range []string{page, text} {
		if strings.Contains(codes.ReplaceAllString(s, ""), "<script>") || strings.Contains(s, "\u202e") {
			t.Errorf("it is not escaped:\n%s", s)
		}
	}
}

// Each mark of a failure leads to its counterexample; what real servers don't show stands
// under a heading of its own, and whether the property is promised stands beside it.
func TestFindings(t *testing.T) {
	page, text := written(t, &Scorecards{Cards: []*outcome.Card{cardOf("mine", outcome.MarkFailed, outcome.Unconfirmed, outcome.Kept)}})
	for _, m := range regexp.MustCompile(`href="#(runs-[^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `id="`+m[1]+`"`) {
			t.Errorf("nothing has the id %s", m[1])
		}
	}
	if n := strings.Count(page, `href="#runs-`); n != 4 {
		t.Errorf("%d marks lead to a counterexample, want 4", n)
	}
	for _, s := range []string{page, text} {
		held, simulated := strings.Index(s, "Violated, and must hold"), strings.Index(s, "Seen in the simulation only")
		if first, second := strings.Index(s, "confirmed on process"), strings.Index(s, "not confirmed on process, tried 6 times"); held < 0 || first < held || simulated < first || second < simulated {
			t.Errorf("confirmed at %d below %d, not confirmed at %d below %d", first, held, second, simulated)
		}
	}
	for _, want := range []string{"Its documentation: ", "Its documentation does not promise it", "redlock under the same: mutual-exclusion holds"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is not on the page", want)
		}
	}
}

func TestHeadlines(t *testing.T) {
	for want, marks := range map[string][]outcome.Mark{
		"x keeps all that it is held to in these runs.":                                                                                             {outcome.Kept},
		"x violates mutual-exclusion and resource-safety, which it is held to.":                                                                     {outcome.MarkFailed},
		"x keeps what it is held to, as far as process shows. Violations of mutual-exclusion and resource-safety were seen in the simulation only.": {outcome.Unconfirmed},
		"x violates mutual-exclusion and resource-safety, which it is held to. Violations of fault-tolerance were seen in the simulation only.":     nil,
	} {
		c := cardOf("x", marks...)
		if marks == nil {
			c = cardOf("x", outcome.MarkFailed)
			c.Findings = append(c.Findings, outcome.CardFinding{Held: true, Harms: []outcome.Harm{{Property: verdict.FaultTolerance, Held: true, Try: &outcome.Try{State: outcome.CannotRun}}}})
		}
		if got := CardHeadline(c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
