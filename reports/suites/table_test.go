package suites

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/scenarios/outcome"
)

// Scenarios with unexpected results come first, then inconclusive scenarios. A long table folds variants
// that are all as expected. There is one line for each reason to skip.
func TestTable(t *testing.T) {
	s := newSuite(t.TempDir())
	add := func(id string, code int, got verdict.Outcome) {
		s.Add(storedRun(s.Store, id, 1, code, judgement(verdict.MutualExclusion, "holds", got, "", code == 0)))
	}
	for n := range minFoldRows {
		add(fmt.Sprint("calm", n), 0, verdict.Holds)
	}
	add("calm3/one", 0, verdict.Holds)
	add("calm3/two", 0, verdict.Holds)
	add("open", 2, verdict.Undecided)
	add("hidden", 0, verdict.Holds)
	add("hidden/bad", 1, verdict.Violated)
	for _, id := range []string{"a", "b/c"} {
		s.Scenarios = append(s.Scenarios, &Scenario{Name: id, Row: outcome.Row{Skipped: "no power"}})
	}
	v := newView(s, nil, func(string) bool { return false })
	var wrong []string
	for _, f := range v.UnexpectedFamilies {
		wrong = append(wrong, f.Name)
		if f.NumFolded > 0 {
			t.Errorf("%s is folded", f.Name)
		}
	}
	if want := []string{"hidden", "open"}; !slices.Equal(wrong, want) {
		t.Errorf("first families are %v, want %v", wrong, want)
	}
	f := v.ExpectedFamilies[3]
	if f.Name != "calm3" || f.NumFolded != 2 || f.IsFolded(f.Rows[0]) || !f.IsFolded(f.Rows[2]) {
		t.Errorf("calm3 is not folded correctly: %+v", f)
	}
	if len(v.Skipped) != 1 || !slices.Equal(v.Skipped[0].IDs, []string{"a", "b/c"}) {
		t.Errorf("skipped scenarios are not grouped: %+v", v.Skipped)
	}
}

// Row labels don't overlap, even if the cells are small.
func TestGridLabelsDoNotOverlap(t *testing.T) {
	for _, seeds := range []int{20, 500, 3000} {
		s := newSuite(t.TempDir())
		s.Seeds = seeds
		picture := string(s.newGrid(&Scenario{Name: "dice", States: strings.Repeat(".", seeds)}).svg(func(uint64) string { return "" }, false))
		last := 0
		for _, m := range regexp.MustCompile(`<text x="0" y="(\d+)"`).FindAllStringSubmatch(picture, -1) {
			y, _ := strconv.Atoi(m[1])
			if y-last < 11 {
				t.Errorf("%d seeds: label at %d, previous label at %d", seeds, y, last)
			}
			last = y
		}
		if last < 40 {
			t.Errorf("%d seeds: no row labels in %.200s", seeds, picture)
		}
	}
}

// The counters, the verdict and the cards of a suite whose results are all informational claim no
// expectation.
func TestInformationalCards(t *testing.T) {
	s := newSuite(t.TempDir())
	for _, id := range []string{"one", "two"} {
		o := storedRun(s.Store, id, 1, 0, judgement(verdict.MutualExclusion, "any", verdict.Violated, "overlap", true))
		o.Informational = true
		s.Add(o)
	}
	v := newView(s, nil, func(string) bool { return false })
	if v.Verdict != "2 of 2 scenarios violated a property, which is informational." || v.ExpectedTitle != "Informational violations: 2 scenarios" || v.ExpectedViolations[0].Label != labelInformational {
		t.Errorf("verdict %q, title %q, label %q", v.Verdict, v.ExpectedTitle, v.ExpectedViolations[0].Label)
	}
}

// Headlines have one or two short sentences, however much is unexpected. The cards name each scenario with
// its claim and each property with its reason.
func TestCards(t *testing.T) {
	s := newSuite(t.TempDir())
	const me, rs = verdict.MutualExclusion, verdict.ResourceSafety
	for n := range maxCards + 5 {
		id := fmt.Sprintf("wrong%d", n)
		s.Scenarios = append(s.Scenarios, &Scenario{Name: id, Claim: "The lock " + id + " is safe."})
		s.Add(storedRun(s.Store, id, 1, 1, judgement(rs, "violated: overrun", verdict.Holds, "", false), judgement(me, "holds", verdict.Violated, "expired-early", false)))
	}
	s.Add(storedRun(s.Store, "open", 1, 2, outcome.Judgement{Property: me, Expected: "holds", Got: verdict.Undecided, Because: "no client acquired"},
		outcome.Judgement{Property: rs, Expected: "holds", Got: verdict.Undecided, Because: "no client acquired"}))
	if want := "56 runs on sim, seed 1: 55 unexpected, 1 inconclusive. 55 unexpected violations. 55 other results are not as the scenarios expect."; s.Headline() != want {
		t.Errorf("headline is %q, want %q", s.Headline(), want)
	}
	v := newView(s, nil, func(string) bool { return false })
	if len(v.Cards) != maxCards || v.NumMoreCards != 6 {
		t.Errorf("%d cards and %d more, want %d and 6", len(v.Cards), v.NumMoreCards, maxCards)
	}
	want := card{ID: "wrong0", Claim: "The lock wrong0 is safe.", Label: labelUnexpected, Tone: "alarm", Command: "lockpick run wrong0", Results: []cardResult{
		{me, "violated (expired-early), expected holds", "Because of mutual-exclusion."}, {rs, "holds, expected violated: overrun", "Because of resource-safety."}}}
	if !reflect.DeepEqual(v.Cards[0], want) {
		t.Errorf("the first card is %+v, want %+v", v.Cards[0], want)
	}
	k := card{}
	k.fillFailure(s, s.scenario("open"))
	if want := []cardResult{{me + ", " + rs, "inconclusive, expected holds", "No client acquired."}}; !slices.Equal(k.Results, want) || k.Label != "Inconclusive" || k.Tone != "open" {
		t.Errorf("the card of an inconclusive scenario is %+v, want results %v", k, want)
	}
}
