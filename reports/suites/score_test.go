package suites

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/reports/sequence"
	"lockpick/scenarios/outcome"
)

const hostileText = "<script>alert(1)</script>|`\u202e"

// Cells of cards.
var (
	heldCell        = outcome.CardCell{NumHolds: 12}
	failedCell      = outcome.CardCell{NumFailed: 3, NumHolds: 9}
	unconfirmedCell = outcome.CardCell{NumFailed: 1, NumUnconfirmed: 1, NumHolds: 2}
	anyLockCell     = outcome.CardCell{NumComparisonViolated: 2, NumHolds: 3}
)

// testCard returns a card with a row for each property. The row for mutual exclusion has the given cells.
// For each cell that shows a violation there is a finding.
func testCard(name string, cells ...outcome.CardCell) *outcome.Card {
	c := &outcome.Card{Lock: name, Doc: hostileText, Backend: "sim", RetryBackend: "process", Settings: []string{"lock.ttl=5s", hostileText}, Topology: hostileText, Servers: []string{hostileText}, Columns: []string{"none", "networks", "pauses"}[:len(cells)]}
	for _, p := range checker.Properties() {
		r := outcome.CardRow{Property: p, Cells: make([]outcome.CardCell, len(cells))}
		for k := range cells {
			if p == verdict.MutualExclusion {
				r.Claim, r.Cells[k] = "“"+hostileText+"”", cells[k]
			}
		}
		c.Rows = append(c.Rows, r)
	}
	for k, x := range cells {
		if x.NumFailed == 0 {
			continue
		}
		try := &outcome.Reproduction{Backend: "process", State: outcome.ReproductionConfirmed, Runs: 6}
		if x.NumUnconfirmed > 0 {
			try.State = outcome.ReproductionNotConfirmed
		}
		c.Findings = append(c.Findings, outcome.CardFinding{Scenario: hostileText, Column: c.Columns[k], Seed: 7, Command: "lockpick run " + hostileText, Required: true, Backend: "sim",
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
	page, text := render(t, &Scorecards{Command: hostileText, Cards: []*outcome.Card{testCard(hostileText, failedCell, heldCell), testCard("b", heldCell, heldCell)}})
	for _, s := range []string{page, text} {
		if strings.Contains(codeSpans.ReplaceAllString(s, ""), "<script>") || strings.Contains(s, "\u202e") {
			t.Errorf("output is not escaped:\n%s", s)
		}
	}
}

// Each cell with a violation links to its counterexample. Violations that were not reproduced on real
// servers have their own heading. Each finding states whether the lock's documentation promises the
// property.
func TestScorecardFindings(t *testing.T) {
	page, text := render(t, &Scorecards{Cards: []*outcome.Card{testCard("mine", failedCell, unconfirmedCell, heldCell)}})
	for _, m := range regexp.MustCompile(`href="#(c1-[0-9][^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !strings.Contains(page, `id="`+m[1]+`"`) {
			t.Errorf("no element has the id %q", m[1])
		}
	}
	if n := strings.Count(page, `href="#c1-1-1"`) + strings.Count(page, `href="#c1-2-1"`); n != 4 {
		t.Errorf("%d cells link to a counterexample, want 4", n)
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

// Every form of a card has its settings, topology and server, counts in its cells, and a legend with the
// states that occur, below the table. An unconfirmed violation says so in its cell.
func TestScorecardCells(t *testing.T) {
	c := testCard("mine", failedCell, unconfirmedCell, anyLockCell)
	book := &Scorecards{Cards: []*outcome.Card{c}}
	page, text := render(t, book)
	var terminal bytes.Buffer
	book.Print(&terminal)
	for form, s := range map[string]string{"page": tags.ReplaceAllString(page, ""), "Markdown": text, "terminal": terminal.String()} {
		at := -1
		for _, want := range []string{"settings", "TTL 5s", "topology", "server", "✗ 3 of 12", "✗ 1 of 3", "○ 2 of 5", "✗ k of n", "○ k of n"} {
			i := strings.Index(s, want)
			if i < at {
				t.Errorf("%s: %q at %d, before the previous text at %d", form, want, i, at)
			}
			at = i
		}
		if strings.Contains(s, "✓ n") {
			t.Errorf("%s: the legend explains a state that no cell has:\n%s", form, s)
		}
	}
	for s, want := range map[string]string{page: "<small>not confirmed</small>", text: "| ✗ 1 of 3, not confirmed |", terminal.String(): "✗ 1 of 3*"} {
		if strings.Count(s, want) != 1 {
			t.Errorf("want %q once in:\n%s", want, s)
		}
	}
	none := &outcome.Card{Backend: "sim"}
	if got := fmt.Sprint(cardSetup(none)); got != "[[settings the catalog's settings] [topology not recorded] [server not recorded]]" {
		t.Errorf("a card without settings: %s", got)
	}
}

var tags = regexp.MustCompile("<[^>]*>")

// What was not tested is listed by reason: whole rows and columns, and single cells.
func TestUntestedCells(t *testing.T) {
	no := func(why string) outcome.CardCell { return outcome.CardCell{Why: why} }
	c := &outcome.Card{Columns: []string{"none", "loads", "pauses"}, Rows: []outcome.CardRow{
		{Property: "a", Cells: []outcome.CardCell{heldCell, no("no loads"), {NumHoldsUnrequired: 2}}},
		{Property: "b", Cells: []outcome.CardCell{no("no tokens"), no("no tokens"), no("no tokens")}},
		{Property: "c", Cells: []outcome.CardCell{{}, no("no loads"), {}}},
		{Property: "d", Cells: []outcome.CardCell{{NumUndecided: 1}, no("no loads"), {}}},
	}}
	want := map[string]string{"no tokens": "b", "no loads": "everything under loads", "held, but not required": "a under pauses", "not exercised": "c; d under pauses", "inconclusive": "d under none"}
	all := untested(c)
	for _, g := range all {
		if g.where() != want[g.Why] {
			t.Errorf("%s: %q, want %q", g.Why, g.where(), want[g.Why])
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d reasons, want %d", len(all), len(want))
	}
	c.Backend, c.SecondBackend = "sim", "process"
	if got := columnNames(c, []string{"none", "none on process", "loads", "pauses on process"}); !slices.Equal(got, []string{"none", "loads on sim", "pauses on process"}) {
		t.Errorf("columns on two backends: %q", got)
	}
}

// Findings whose first violation has the same property and cause are one counterexample: the shortest run
// of the catalog on the card's backend. The others are listed with what differs.
func TestCounterexamplesGroupedByCause(t *testing.T) {
	violation := func(property, cause string, also ...string) outcome.Violation {
		return outcome.Violation{Property: property, Cause: cause, Required: true, Because: "of " + cause, Also: also}
	}
	finding := func(scenario, column, backend string, events int, all ...outcome.Violation) outcome.CardFinding {
		return outcome.CardFinding{Scenario: scenario, Column: column, Backend: backend, Events: events, Seed: 4, Required: true, Run: "runs/" + scenario, Violations: all}
	}
	me, rs := verdict.MutualExclusion, verdict.ResourceSafety
	random := finding("random", "random", "sim", 1, violation(me, "late"))
	random.FaultSet = &outcome.FaultSet{}
	unconfirmed := violation(rs, "broken")
	unconfirmed.Reproduction = &outcome.Reproduction{State: outcome.ReproductionNotConfirmed}
	c := &outcome.Card{Backend: "sim", Findings: []outcome.CardFinding{
		finding("long", "networks", "sim", 30, violation(me, "late", "b"), violation(rs, "overrun")),
		finding("short", "pauses", "sim", 20, violation(me, "late", "b", "c"), violation(rs, "broken", "c", "d")),
		finding("short", "pauses on process", "process", 10, violation(me, "late"), unconfirmed),
		finding("else", "pauses", "sim", 5, violation(me, "early")),
		random,
	}}
	groups := counterexamples(c, "")[0].Causes
	if len(groups) != 2 || groups[1].Shown.Scenario != "else" {
		t.Fatalf("%d groups", len(groups))
	}
	g := groups[0]
	want := []string{
		"The same cause in 6 other runs: long (networks), random (random, seed 4), short (pauses on process, resource-safety not confirmed), b, c, b (networks)",
		"resource-safety overrun, in long (networks): of overrun",
	}
	if g.Shown.Scenario != "short" || g.Shown.Backend != "sim" || !slices.Equal(g.Summaries(), want) {
		t.Errorf("shown: %s on %s\n%s", g.Shown.Scenario, g.Shown.Backend, strings.Join(g.Summaries(), "\n"))
	}
	if got := g.Title(); got != "mutual-exclusion and resource-safety: late" {
		t.Errorf("title %q", got)
	}
	if got := g.AlsoIn(g.Shown.Violations[1]); got != "also in d" {
		t.Errorf("the second violation: %q", got)
	}
}

// Rates of random plans need enough seeds. Properties that were never violated share a sentence.
func TestRandomPlansOnCards(t *testing.T) {
	sets := []outcome.FaultSet{{}, {Kind: "pauses", Only: true}, {Kind: "other"}}
	share := func(violated, runs int) outcome.Share { return outcome.Share{Violated: violated, Runs: runs} }
	c := &outcome.Card{RandomPlans: &outcome.RandomPlans{Seeds: 20, FaultSets: sets, Rows: []outcome.RandomPlansRow{
		{Property: "a", Required: true, Shares: []outcome.Share{share(3, 20), {}, {Violated: 1, Runs: 19, ComparisonViolated: 2}}},
		{Property: "b", Shares: []outcome.Share{share(0, 20), share(1, 20), share(0, 20)}},
		{Property: "c", Shares: []outcome.Share{share(0, 20), share(0, 20), share(0, 20)}},
		{Property: "d", Shares: []outcome.Share{share(0, 2), share(0, 0), share(0, 7)}},
		{Property: "e", Shares: make([]outcome.Share, 3)},
	}}}
	want := "[[property all faults only pauses all but other faults] [a 3 of 20 – 1 of 19 (2)] [b (not required) 0 of 20 1 of 20 0 of 20]]"
	if got := fmt.Sprint(randomPlansTable(c)); got != want {
		t.Errorf("table %s, want %s", got, want)
	}
	want = "Never violated in 20 seeds for each set of faults (0 of 20: at most 16.1%, with 95% confidence): c and d (decided in only 0 to 7 of them). Not exercised: e."
	if got := randomPlansNote(c); got != want {
		t.Errorf("note %q, want %q", got, want)
	}
	c.RandomPlans.Seeds = 19
	if table, note := randomPlansTable(c), randomPlansNote(c); table != nil || !strings.HasSuffix(note, "because 19 seeds for each set of faults say too little about them (0 of 19: at most 16.8%, with 95% confidence). Use --seeds 20 or more.") {
		t.Errorf("table %v, note %q", table, note)
	}
	c.RandomPlans = nil
	if table, note := randomPlansTable(c), randomPlansNote(c); table != nil || note != "No random plans were run." {
		t.Errorf("table %v, note %q", table, note)
	}
}

// A card that was stored before there were settings, with the marks of that time, can still be read and
// has the present marks when it is rendered.
func TestEarlierScorecardsRender(t *testing.T) {
	stored, err := os.ReadFile("testdata/scorecard-before-settings.json")
	if err != nil {
		t.Fatal(err)
	}
	var book Scorecards
	if err := json.Unmarshal(stored, &book); err != nil {
		t.Fatal(err)
	}
	page, text := render(t, &book)
	for _, want := range []string{"| mutual-exclusion | ✓ 3 | ○ 1 of 9 | ○ 4 of 13 | ○ 2 of 4 | – | ✗ 1 of 23 | ✗ 7 of 9 | ○ 4 of 14 |", "- server: not recorded", "- held, but not required: deadlock-freedom under pauses and several",
		"### mutual-exclusion and lease-linearizable: notified-late\n\nShortest run: loss-is-told, seed 1 (networks)", "- The same cause in 8 other runs: counter-after-acquire (pauses), ", "\n| mutual-exclusion | 5 of 20 |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the Markdown does not contain %q:\n%s", want, text)
		}
	}
	for _, mark := range []string{"∅", "✓ ○", "·", "▲", "◇"} {
		if strings.Contains(text, mark) || strings.Contains(page, ">"+mark+"<") {
			t.Errorf("a rendered card contains the former mark %s", mark)
		}
	}
}

func TestCardHeadline(t *testing.T) {
	for want, cells := range map[string][]outcome.CardCell{
		"x satisfies everything required of it in these runs.":                      {heldCell},
		"x violates mutual-exclusion and resource-safety, which is required of it.": {failedCell},
		"x satisfies what is required of it, as far as the runs on process show. Violations of mutual-exclusion and resource-safety were observed only in the simulation.": {unconfirmedCell},
		"x violates mutual-exclusion and resource-safety, which is required of it. Violations of fault-tolerance were observed only in the simulation.":                    nil,
	} {
		c := testCard("x", cells...)
		if cells == nil {
			c = testCard("x", failedCell)
			c.Findings = append(c.Findings, outcome.CardFinding{Required: true, Violations: []outcome.Violation{{Property: verdict.FaultTolerance, Required: true, Reproduction: &outcome.Reproduction{State: outcome.ReproductionImpossible}}}})
		}
		if got := CardHeadline(c); got != want {
			t.Errorf("headline is %q, want %q", got, want)
		}
	}
}
