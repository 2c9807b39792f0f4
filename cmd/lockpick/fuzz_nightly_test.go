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
	c := simRunnerOf(campaign.Pool{Command: []string{build(t), workerVerb}, Size: runtime.NumCPU(), Timeout: defaultTimeout, StackFolder: t.TempDir()})
	t.Cleanup(c.Stop)
	return c
}

// TestMinimizedForms minimizes each scenario in the catalog that expects a violation, and compares
// the result with testdata/shrunk.txt. With -update, it rewrites the lines of the scenarios that
// -run selects.
func TestMinimizedForms(t *testing.T) {
	c := testSimRunner(t)
	forms := readMinimizedForms(t)
	all := minimizables(t)
	for _, s := range all {
		t.Run(s.ID(), func(t *testing.T) {
			form := minimizedForm(t, c, s)
			if *update {
				forms[s.ID()] = form
			}
			if had := forms[s.ID()]; had != form {
				t.Errorf("minimized to\n%s, but %s has\n%s", form, minimizedForms, had)
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
func minimizedForm(t *testing.T, c simRunner, s minimizable) string {
	const seed = 1
	bug, err := violation(c.Run(t.Context(), s.Scenario, seed), s.Scenario, seed, s.bug.Property)
	if err != nil { // the violation does not occur with seed 1
		return notShownForm(s.bug)
	}
	begin := time.Now()
	r, err := c.Minimizer(0).Minimize(t.Context(), s.Scenario, seed, bug)
	if err != nil {
		return err.Error()
	}
	t.Logf("%s, %.1f s", r.Summary(), time.Since(begin).Seconds())
	if r.After.Steps > r.Before.Steps || r.After.Clients > r.Before.Clients || r.After.Nodes > r.Before.Nodes || !r.Complete {
		t.Error(r.Summary())
	}
	if _, err := r.Write("small", knownNames()); err != nil {
		t.Error(err)
	}
	form := fmt.Sprintf("%s, %s, %s", r.Bug, display.Plural(r.After.Clients, "client"), display.Plural(r.After.Nodes, "node"))
	for _, st := range r.Scenario.Plan {
		form += "; " + campaign.DescribeStep(st)
	}
	return form
}

// TestMinimizedScenariosReplay minimizes 100 random plans. Running the resulting file must show the
// same violation in at least 95 cases.
func TestMinimizedScenariosReplay(t *testing.T) {
	c := testSimRunner(t)
	chosen, err := choice{names: []string{"random-faults"}}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	const all = 100
	tried, replayed := 0, 0
	var runs, steps []int
	var seconds []float64
	for seed := uint64(1); tried < all; seed++ {
		p := chosen[int(seed)%len(chosen)]
		bug, err := violation(c.Run(t.Context(), p.Scenario, seed), p.Scenario, seed, "")
		if err != nil {
			continue
		}
		tried++
		begin := time.Now()
		r, err := c.Minimizer(0).Minimize(t.Context(), p.Scenario, seed, bug)
		if err != nil {
			t.Logf("%s, seed %d, %s: %v", p.ID(), seed, bug, err)
			continue
		}
		runs, steps, seconds = append(runs, r.Runs), append(steps, r.After.Steps), append(seconds, time.Since(begin).Seconds())
		text, err := r.Write("small", knownNames())
		if err != nil {
			t.Errorf("%s, seed %d: %v", p.ID(), seed, err)
			continue
		}
		written, err := scenario.Parse("small.yaml", text, knownNames())
		if err == nil && c.Run(t.Context(), written[0], r.Seed).Code == outcome.ExitOK {
			replayed++
		} else {
			t.Logf("%s, seed %d: %s does not occur: %v\n%s", p.ID(), seed, bug, err, text)
		}
	}
	t.Logf("%d of %d show the violation again; median %d runs, %d steps, %.1f s; maximum %d runs, %d steps, %.1f s", replayed, tried,
		median(runs), median(steps), median(seconds), slices.Max(runs), slices.Max(steps), slices.Max(seconds))
	if replayed < 95 {
		t.Errorf("%d of %d show the violation again, want at least 95", replayed, tried)
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
	lockpick := build(t)
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "mistake\tproperty\tcause\truns\tseconds\tminimizing\tminimized")
	var took []float64
	for _, m := range broken.Mistakes() {
		t.Run(m.Name, func(t *testing.T) {
			h := fuzzMistake(t, lockpick, m.Name)
			i := slices.IndexFunc(h.Findings, func(f *campaign.FuzzFinding) bool { return f.Required })
			why, unhunted := broken.NotFoundByFuzzing[m.Name]
			if i < 0 {
				if !unhunted {
					t.Errorf("nothing found in %d runs", h.Runs)
				}
				fmt.Fprintf(table, "%s\t\t\t%d\t\t\tit shows only %s\n", m.Name, h.Runs, why)
				return
			}
			f := h.Findings[i]
			if unhunted {
				t.Errorf("found by %s, so it should not be in broken.NotFoundByFuzzing", f.First.Command)
			}
			if f.Minimized == nil {
				t.Fatalf("%s was not minimized: %s", f.Bug, f.NotMinimized)
			}
			if z := f.Minimized.After; z.Steps > 3 || z.Clients > 2 {
				t.Errorf("%s is not small: %s", f.Bug, f.Minimized.Caption())
			}
			took = append(took, f.MinimizeSeconds)
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%.1f\t%.1f\t%s\n", m.Name, f.Property, f.Cause, f.RunsBefore, f.Seconds, f.MinimizeSeconds, f.Minimized.Summary())
		})
	}
	table.Flush()
	t.Logf("\n%s", &text)
	if len(took) > 0 {
		t.Logf("%d found; minimizing one took %.1f s in the median, %.1f s at most", len(took), median(took), slices.Max(took))
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
