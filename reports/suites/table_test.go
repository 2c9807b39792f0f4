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

// Unexpected scenarios come first, then inconclusive ones. A long table folds variants, unless one of
// them was not as expected, and has one line per skip reason.
func TestTable(t *testing.T) {
	s := newSuite(t.TempDir())
	add := func(id string, code int, got verdict.Outcome) {
		s.Add(storedRun(s.Store, id, 1, code, judgement(verdict.MutualExclusion, "holds", got, "", code == 0)))
	}
	for n := range minFolded {
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
	for _, f := range v.Wrong {
		wrong = append(wrong, f.Name)
		if f.Folded > 0 {
			t.Errorf("%s is folded", f.Name)
		}
	}
	if want := []string{"hidden", "open"}; !slices.Equal(wrong, want) {
		t.Errorf("first families are %v, want %v", wrong, want)
	}
	f := v.Fine[3]
	if f.Name != "calm3" || f.Folded != 2 || f.Behind(f.Rows[0]) || !f.Behind(f.Rows[2]) {
		t.Errorf("calm3 is not folded correctly: %+v", f)
	}
	if len(v.Skipped) != 1 || !slices.Equal(v.Skipped[0].IDs, []string{"a", "b/c"}) {
		t.Errorf("skipped scenarios are not grouped: %+v", v.Skipped)
	}
}

// The row labels of a grid do not overlap, however small its cells are.
func TestGridLabelsDoNotOverlap(t *testing.T) {
	for _, seeds := range []int{20, 500, 3000} {
		s := newSuite(t.TempDir())
		s.Seeds = seeds
		picture := string(s.grid(&Scenario{Name: "dice", States: strings.Repeat(".", seeds)}).svg(func(uint64) string { return "" }, false))
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
