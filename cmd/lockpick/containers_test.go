//go:build containers && !windows

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/reports/suites"
	"lockpick/scenarios/outcome"
)

// TestCatalogOnDocker runs the catalog in containers. Regular runs cover only the scenarios that no
// other backend supports, because TestBackendsAgree covers the other types of faults.
func TestCatalogOnDocker(t *testing.T) {
	needEngine(t)
	start := time.Now()
	args, skipped := []string{"run", "--backend", "docker", "--jobs", "2"}, simulatedScenarios
	if !night {
		args, skipped = append(args, slices.Sorted(maps.Keys(containerScenarios))...), nil
	}
	code, all := outcomes(t, build(t), args...)
	t.Logf("%d runs in %v", len(all), time.Since(start).Round(time.Second))
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	all = notSkipped(t, all, skipped)
	checkOutcomes(t, all)
	logRetries(t, all)
	if night {
		checkSameCauses(t, build(t), all)
	}
	checkEngineIsClean(t)
}

// TestReadmeBuildOnDocker checks that a binary built as in the README, which is dynamically linked
// if there is a C compiler, can run containers from any folder, without its source or the go tool.
func TestReadmeBuildOnDocker(t *testing.T) {
	needEngine(t)
	dir := t.TempDir()
	binary := filepath.Join(dir, "lockpick")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	server, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(binary, "run", "holder-crashes/", "clock-jump/", "--backend", "docker", "--store", filepath.Join(dir, "store"))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+filepath.Dir(server))
	if _, err := os.Stat(filepath.Join(filepath.Dir(server), "go")); err == nil {
		t.Skipf("go is in the folder of %s", server)
	}
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "building lockpick") {
		t.Errorf("%v\n%s", err, out)
	}
	checkEngineIsClean(t)
}

// checkEngineIsClean checks that lockpick left neither containers nor networks behind.
func checkEngineIsClean(t *testing.T) {
	t.Helper()
	for _, list := range [][]string{{"ps", "--all"}, {"network", "ls"}} {
		out, err := exec.Command("docker", append(list, "--quiet", "--filter", "label=lockpick")...).CombinedOutput()
		if err != nil || len(out) > 0 {
			t.Errorf("docker %v: %v\n%s", list, err, out)
		}
	}
}

// TestInterruptedOnDocker interrupts a run. It must exit with 130, keep the history, and leave
// nothing on the container engine.
func TestInterruptedOnDocker(t *testing.T) {
	needEngine(t)
	store := filepath.Join(t.TempDir(), "store")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, build(t), "run", "baseline/", "--backend", "docker", "--scale", "1", "--store", store)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for ctx.Err() == nil { // wait until something has been recorded
		if paths, _ := filepath.Glob(filepath.Join(store, "baseline", "*", "history.jsonl")); len(paths) > 0 && fileSize(paths[0]) > 10_000 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	cmd.Process.Signal(syscall.SIGINT)
	cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	paths, err := filepath.Glob(filepath.Join(store, "baseline", "*", "outcome.json"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no outcome was stored: %v", err)
	}
	var o outcome.Outcome
	if text, err := os.ReadFile(paths[0]); err != nil || json.Unmarshal(text, &o) != nil || o.Error == "" {
		t.Errorf("%s: %v\n%s", paths[0], err, text)
	}
	checkEngineIsClean(t)
}

// backendScenarios lists the scenarios in the table in harness/README.md.
var backendScenarios = []string{"gc-pause-after-acquire", "clock-jump", "restart-forgets", "power-loss-everysec", "disjoint-views"}

// TestBackendsAgree checks that all backends give the same verdicts, which are in a table in
// harness/README.md. With -update it rewrites that table.
func TestBackendsAgree(t *testing.T) {
	needEngine(t)
	binary := build(t)
	verdicts := map[string][]string{}
	for _, b := range backendNames {
		var args []string
		for _, s := range backendScenarios {
			args = append(args, s+"/")
		}
		code, all := outcomes(t, binary, append([]string{"run", "--backend", b}, args...)...)
		if code != 0 {
			t.Errorf("%s: exit code %d", b, code)
		}
		checkOutcomes(t, all)
		for _, o := range all {
			verdicts[o.Scenario] = append(verdicts[o.Scenario], strings.Join(suites.DescribeResults(o), "; "))
		}
	}
	var table strings.Builder
	fmt.Fprintf(&table, "| scenario | %s |\n|---|%s\n", strings.Join(backendNames, " | "), strings.Repeat("---|", len(backendNames)))
	for _, s := range backendScenarios {
		fmt.Fprintf(&table, "| `%s` | %s |\n", s, strings.Join(verdicts[s], " | "))
		if v := verdicts[s]; len(slices.Compact(slices.Clone(v))) != 1 || len(v) != len(backendNames) {
			t.Errorf("%s: got %q", s, v)
		}
	}
	checkReadme(t, "../../harness/README.md", map[string]string{"backends": table.String()})
}
