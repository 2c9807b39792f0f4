package suites

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/scenarios/outcome"
)

// informationalRun returns the outcome of a run without expectations. Unless cause is "", the run
// violates mutual exclusion.
func informationalRun(id string, seed uint64, length int, cause string) outcome.Outcome {
	j := judgement(verdict.MutualExclusion, "any", verdict.Holds, "", true)
	if cause != "" {
		j.Got, j.Cause, j.Length = verdict.Violated, cause, length
	}
	return outcome.Outcome{Schema: 1, Scenario: id, Backend: "sim", Seed: seed, Informational: true, Judgements: []outcome.Judgement{j},
		Command: fmt.Sprintf("lockpick run %s/ --seed %d", id, seed)}
}

// The headline of an informational suite is neutral and states how often each property was violated.
// Each cause is listed with its first and its shortest seed, regardless of the order of the runs. Only
// seeds that show the violation are linked.
func TestCausesOfInformationalSuite(t *testing.T) {
	store := t.TempDir()
	const kept = "20260102T030405.000Z-sim-9"
	write(t, filepath.Join(store, "dice", kept, runPage), "<!doctype html>")
	for _, step := range []uint64{1, 39} { // forward and backward through 40 seeds
		s := newSuite(store)
		s.Seeds = 40
		for i := range uint64(40) {
			seed := 1 + i*step%40
			cause := map[uint64]string{9: verdict.ExpiredEarly, 12: verdict.ExpiredEarly, 31: verdict.ExpiredEarly, 20: verdict.NeverSet}[seed]
			o := informationalRun("dice", seed, 500-10*int(seed), cause)
			if seed == 20 { // stored immediately, as on other backends
				o.Dir = filepath.Join(store, "dice", kept)
			}
			s.Add(o)
		}
		s.SetRunDir(outcome.Outcome{Scenario: "dice", Seed: 9, Dir: filepath.Join(store, "dice", kept)})
		if got := fmt.Sprint(s.Scenarios[0].Examples()); got != "[31]" {
			t.Errorf("examples are %s, want [31]", got)
		}
		dir, err := Write(s)
		if err != nil {
			t.Fatal(err)
		}
		text, page := read(t, filepath.Join(dir, TextFile)), read(t, filepath.Join(dir, PageFile))
		for _, want := range []string{
			"40 runs on sim, seeds 1 to 40: 40 informational. Violated: mutual-exclusion in 4 of 40 (10%, 95%: 4–23.1%).",
			"| dice | mutual-exclusion | expired-early | 3 | [9](../../dice/" + kept + "/report.html#p-mutual-exclusion) | 31 (190 events) | `lockpick run dice/ --seed 31` |",
			"| dice | mutual-exclusion | never-set | 1 | [20](../../dice/" + kept + "/report.html#p-mutual-exclusion) | [20 (300 events)](../../dice/" + kept + "/report.html#p-mutual-exclusion) | `lockpick run dice/ --seed 20` |",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s does not contain %q:\n%s", TextFile, want, text)
			}
		}
		for _, want := range []string{`class="headline calm"`, `<a href="../../dice/` + kept + `/report.html#verdict" data-at="8" aria-label="seed 9: violated, as expected or informational, report">`,
			`data-command="lockpick run dice/ --seed N"`} {
			if !strings.Contains(page, want) {
				t.Errorf("the page does not contain %q", want)
			}
		}
		for _, file := range []string{text, page} {
			if strings.Contains(file, "no violation found") || strings.Contains(file, "headline good") {
				t.Error("the report claims that no violation was found")
			}
		}
		reopened, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		c := reopened.Scenarios[0]
		if cell := c.Cells[0]; cell.Got != verdict.Violated || cell.Seed != 9 || cell.Command != "lockpick run dice/ --seed 9" || c.Command != cell.Command {
			t.Errorf("the cell or the command is for another seed: %+v, %s", cell, c.Command)
		}
		if reopened.Headline() != s.Headline() || readHeader(dir).state() != outcome.StateInformational {
			t.Errorf("after Open, the headline differs, or the state is %q", readHeader(dir).state())
		}
	}
}

// The image for ten thousand seeds is small, and names are escaped.
func TestGridSizeLimit(t *testing.T) {
	s := newSuite(t.TempDir())
	s.Seeds = 20_000
	c := &Scenario{Name: "<script>", Row: outcome.Row{Command: "lockpick run x --seed 7"}, States: strings.Repeat(".v", maxCells/2)}
	s.Scenarios = []*Scenario{c}
	g := s.newGrid(c)
	svg := string(g.svg(func(uint64) string { return "" }, true))
	if len(svg) > 300_000 || strings.Contains(svg, "<script>") || g.Note != "The first 10000 of 20000 seeds." {
		t.Errorf("image has %d bytes or is not escaped; note is %q", len(svg), g.Note)
	}
	s.Add(informationalRun("<script>", 15_000, 1, ""))
	if len(c.States) != maxCells {
		t.Errorf("%d states, want %d", len(c.States), maxCells)
	}
}
