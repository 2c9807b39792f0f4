//go:build nightly && !windows

package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"lockpick/harness/lock/broken"
	"lockpick/harness/scenario"
	"lockpick/reports/display"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

func testSimRunner(t *testing.T) simRunner {
	c := newSimRunnerWith(campaign.Pool{Command: []string{build(t), workerVerb}, Size: runtime.NumCPU(), Timeout: defaultTimeout, StackFolder: t.TempDir()})
	t.Cleanup(c.Stop)
	return c
}

// TestMinimizedForms minimizes each scenario in the catalog that expects a violation, and compares
// the result with testdata/shrunk.txt. With -update, it rewrites the lines of the scenarios that
// -run selects.
func TestMinimizedForms(t *testing.T) {
	c := testSimRunner(t)
	forms := readMinimizedForms(t)
	all := violatingScenarios(t)
	for _, s := range all {
		t.Run(s.ID(), func(t *testing.T) {
			form := minimizedForm(t, c, s)
			if *update {
				forms[s.ID()] = form
			}
			if storedForm := forms[s.ID()]; storedForm != form {
				t.Errorf("minimized to\n%s, but %s has\n%s", form, minimizedForms, storedForm)
			}
		})
	}
	if !*update {
		return
	}
	var text strings.Builder
	for _, s := range all {
		if form, ok := forms[s.ID()]; ok {
			fmt.Fprintf(&text, "%s: %s\n", s.ID(), form)
		}
	}
	if err := os.WriteFile(minimizedForms, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// minimizedForm minimizes a scenario with seed 1 and returns a line that describes the result.
func minimizedForm(t *testing.T, c simRunner, s violatingScenario) string {
	const seed = 1
	bug, err := findViolation(c.Run(t.Context(), s.Scenario, seed), s.Scenario, seed, s.bug.Property)
	if err != nil { // the violation does not occur with seed 1
		return noViolationForm(s.bug)
	}
	start := time.Now()
	r, err := c.Minimizer(0).Minimize(t.Context(), s.Scenario, seed, bug)
	if err != nil {
		return err.Error()
	}
	t.Logf("%s, %.1f s", r.Summary(), time.Since(start).Seconds())
	if r.SizeAfter.Steps > r.SizeBefore.Steps || r.SizeAfter.Clients > r.SizeBefore.Clients || r.SizeAfter.Nodes > r.SizeBefore.Nodes || !r.Complete {
		t.Error(r.Summary())
	}
	if _, err := r.Write("small", knownNames()); err != nil {
		t.Error(err)
	}
	form := fmt.Sprintf("%s, %s, %s", r.Bug, display.Plural(r.SizeAfter.Clients, "client"), display.Plural(r.SizeAfter.Nodes, "node"))
	for _, step := range r.Scenario.Plan {
		form += "; " + campaign.DescribeStep(step)
	}
	return form
}

// TestMinimizedScenariosReplay minimizes 100 random plans. Running the resulting file must show the
// same violation in at least 95 cases.
func TestMinimizedScenariosReplay(t *testing.T) {
	c := testSimRunner(t)
	picks, err := choice{names: []string{"random-faults"}}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	const all = 100
	numTried, numReplayed := 0, 0
	var runs, steps []int
	var seconds []float64
	for seed := uint64(1); numTried < all; seed++ {
		p := picks[int(seed)%len(picks)]
		bug, err := findViolation(c.Run(t.Context(), p.Scenario, seed), p.Scenario, seed, "")
		if err != nil {
			continue
		}
		numTried++
		start := time.Now()
		r, err := c.Minimizer(0).Minimize(t.Context(), p.Scenario, seed, bug)
		if err != nil {
			t.Logf("%s, seed %d, %s: %v", p.ID(), seed, bug, err)
			continue
		}
		runs, steps, seconds = append(runs, r.Runs), append(steps, r.SizeAfter.Steps), append(seconds, time.Since(start).Seconds())
		text, err := r.Write("small", knownNames())
		if err != nil {
			t.Errorf("%s, seed %d: %v", p.ID(), seed, err)
			continue
		}
		parsedScenarios, err := scenario.Parse("small.yaml", text, knownNames())
		if err == nil && c.Run(t.Context(), parsedScenarios[0], r.Seed).Code == outcome.ExitOK {
			numReplayed++
		} else {
			t.Logf("%s, seed %d: %s does not occur: %v\n%s", p.ID(), seed, bug, err, text)
		}
	}
	t.Logf("%d of %d show the violation again; median %d runs, %d steps, %.1f s; maximum %d runs, %d steps, %.1f s", numReplayed, numTried,
		median(runs), median(steps), median(seconds), slices.Max(runs), slices.Max(steps), slices.Max(seconds))
	if numReplayed < 95 {
		t.Errorf("%d of %d show the violation again, want at least 95", numReplayed, numTried)
	}
}

func median[T cmp.Ordered](all []T) T {
	slices.Sort(all)
	return all[len(all)/2]
}

// fuzzSeeds is the number of seeds per scenario. For most broken locks, a few seeds suffice.
const fuzzSeeds = 200

// TestFuzzFindsBrokenLocks fuzzes each broken lock until a required property is violated, and
// checks that the minimized scenario is small. Fuzzing must not detect the locks in
// broken.NotFoundByFuzzing.
func TestFuzzFindsBrokenLocks(t *testing.T) {
	binary := build(t)
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "mistake\tproperty\tcause\truns\tseconds\tminimizing\tminimized")
	var durations []float64
	for _, m := range broken.Mistakes() {
		t.Run(m.Name, func(t *testing.T) {
			h := fuzzMistake(t, binary, m.Name)
			i := slices.IndexFunc(h.Findings, func(f *campaign.FuzzFinding) bool { return f.Required })
			reason, exempt := broken.NotFoundByFuzzing[m.Name]
			if i < 0 {
				if !exempt {
					t.Errorf("nothing found in %d runs", h.Runs)
				}
				fmt.Fprintf(table, "%s\t\t\t%d\t\t\tit shows only %s\n", m.Name, h.Runs, reason)
				return
			}
			f := h.Findings[i]
			if exempt {
				t.Errorf("found by %s, so it should not be in broken.NotFoundByFuzzing", f.FirstRun.Command)
			}
			if f.Minimized == nil {
				t.Fatalf("%s was not minimized: %s", f.Bug, f.NotMinimized)
			}
			if z := f.Minimized.SizeAfter; z.Steps > 3 || z.Clients > 2 {
				t.Errorf("%s is not small: %s", f.Bug, f.Minimized.Caption())
			}
			durations = append(durations, f.MinimizeSeconds)
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%.1f\t%.1f\t%s\n", m.Name, f.Property, f.Cause, f.RunsBefore, f.Seconds, f.MinimizeSeconds, f.Minimized.Summary())
		})
	}
	table.Flush()
	t.Logf("\n%s", &text)
	if len(durations) > 0 {
		t.Logf("%d found; minimizing one took %.1f s in the median, %.1f s at most", len(durations), median(durations), slices.Max(durations))
	}
	if len(broken.NotFoundByFuzzing) > 5 {
		t.Errorf("fuzzing did not find %d broken locks", len(broken.NotFoundByFuzzing))
	}
}

func fuzzMistake(t *testing.T, lockpick, mistake string) campaign.FuzzState {
	t.Helper()
	store := t.TempDir()
	out, err := exec.CommandContext(t.Context(), lockpick, "fuzz", "--lock", "broken", "--set", "lock.mistake="+mistake,
		"--seeds", fmt.Sprint(fuzzSeeds), "--fail-fast", "--json", "--store", store, "--corpus", filepath.Join(store, "corpus")).Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var h campaign.FuzzState
	if err := json.Unmarshal(out, &h); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return h
}
