//go:build processes && !windows

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/scenarios/suite"
)

// The catalogue on real redis-servers, by day what is tagged for CI: nothing skipped that
// they can do, nothing otherwise than expected.
func TestCatalogueOnProcesses(t *testing.T) {
	needRedis(t)
	began := time.Now()
	code, all := outcomes(t, build(t), append([]string{"run", "--backend", "process", "--jobs", "2"}, tagged()...)...)
	t.Logf("%d runs in %v", len(all), time.Since(began).Round(time.Second))
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	all = able(t, all, simulatedOnly, containersOnly)
	complain(t, all)
	retries(t, all)
	for _, o := range all {
		h, err := history.ReadFile(filepath.Join(o.Dir, suite.HistoryFile))
		if err != nil {
			t.Fatal(err)
		}
		if _, why := withoutVotes(h); h.Params.Lock == "redlock" && why != "" {
			t.Errorf("%s: %s", o.Scenario, why)
		}
	}
}

// Kill -9 in the middle of a run on processes leaves no process behind.
func TestKill9LeavesNothing(t *testing.T) {
	needRedis(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, build(t), "run", "baseline/", "--backend", "process", "--scale", "1",
		"--store", filepath.Join(t.TempDir(), "store"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var children []int
	// Five nodes, the resource and a client at least.
	for len(children) < 7 && ctx.Err() == nil {
		children = descendants(t, cmd.Process.Pid)
		time.Sleep(5 * time.Millisecond)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if len(children) < 7 {
		t.Fatalf("only %d children were seen", len(children))
	}
	for _, pid := range children {
		for ctx.Err() == nil && alive(pid) {
			time.Sleep(5 * time.Millisecond)
		}
		if alive(pid) {
			t.Errorf("process %d is left", pid)
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// descendants lists the children of a process, and theirs.
func descendants(t *testing.T, pid int) []int {
	t.Helper()
	var out []int
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		f, err := os.Open(task)
		if err != nil {
			continue // the thread has ended
		}
		words := bufio.NewScanner(f)
		words.Split(bufio.ScanWords)
		for words.Scan() {
			var child int
			if _, err := fmt.Sscan(words.Text(), &child); err != nil {
				t.Fatal(err)
			}
			out = append(append(out, child), descendants(t, child)...)
		}
		f.Close()
	}
	return out
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
