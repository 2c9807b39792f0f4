package suites

import (
	"fmt"
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
