//go:build linux

package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/real"
	"lockpick/harness/real/fuse"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// childPIDs returns the PIDs of all processes in runs whose directories are in dir.
func childPIDs(t *testing.T, dir string) (pids []int) {
	t.Helper()
	records, _ := filepath.Glob(filepath.Join(dir, "*", "children"))
	for _, r := range records {
		b, err := os.ReadFile(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
			var pid int
			fmt.Sscan(line, &pid)
			pids = append(pids, pid)
		}
	}
	return pids
}

// isRunning reports whether a process exists and is not a zombie. Zombies may remain, because a
// container may have no init process that reaps them.
func isRunning(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(b), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

func TestSIGKILLLeavesNothingBehind(t *testing.T) {
	needRedis(t)
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "__victim", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	// If a server's port was taken at the last moment, the server has exited, and another one was
	// started instead.
	pids := slices.DeleteFunc(childPIDs(t, dir), func(pid int) bool { return !isRunning(pid) })
	disks := countMounts(t, dir)
	cmd.Process.Kill()
	cmd.Wait()
	t.Cleanup(func() { proc.Sweep(dir) }) // so that no disk stays mounted if the test fails
	if line != "paused\n" {
		t.Fatalf("the victim printed %q", line)
	}
	if len(pids) != 9 { // two nodes with one replica each, the resource, three sentinels, and a stopped client
		t.Fatalf("%d children were running, want 9", len(pids))
	}
	if reason, _ := fuse.Missing(); reason == "" && disks != 1 {
		t.Errorf("the victim had %d disks, want 1", disks)
	}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		numLeft := 0
		for _, pid := range pids {
			if isRunning(pid) {
				numLeft++
			}
		}
		if numLeft == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d children are still running", numLeft, len(pids))
		}
	}
	if removed, err := proc.Sweep(dir); err != nil || len(removed) != 1 {
		t.Errorf("removed %v, %v; want the victim's directory", removed, err)
	}
	if n := countMounts(t, dir); n != 0 {
		t.Errorf("%d disks are still mounted", n)
	}
}

func TestPanicAndCancelLeaveNothingBehind(t *testing.T) {
	needRedis(t)
	dir := t.TempDir()
	var pids []int
	runAndCheck := func(name string, ctx context.Context, body harness.Body) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
			if leftovers, _ := os.ReadDir(dir); len(leftovers) > 0 {
				t.Errorf("%s left files behind: %v", name, leftovers)
			}
			for _, pid := range pids {
				if isRunning(pid) {
					t.Errorf("%s left process %d behind", name, pid)
				}
			}
		}()
		return testBackend(dir).Run(ctx, twoNodes, 1, history.NewRecorder(&strings.Builder{}), body)
	}
	err := runAndCheck("panic", t.Context(), func(context.Context, harness.Cluster) error {
		pids = childPIDs(t, dir)
		panic("ouch")
	})
	if err == nil || err.Error() != "panic: ouch" {
		t.Errorf("panic was returned as %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = runAndCheck("cancel", ctx, func(ctx context.Context, c harness.Cluster) error {
		return c.RunClient(ctx, clientSpec("c1", 1, client.Point{Name: client.AfterAcquire}), func(string) {
			pids = childPIDs(t, dir)
			cancel()
		})
	})
	if !errors.Is(err, context.Canceled) || len(pids) != 4 {
		t.Errorf("canceled with %d child processes: %v; want 4 and context.Canceled", len(pids), err)
	}
}

// An interrupt ends a run at once, and no timer fires afterward.
func TestInterruptEndsRun(t *testing.T) {
	needRedis(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	rec := history.NewRecorder(&strings.Builder{})
	rec.Watch(func(e history.Event) {
		if e.Op == history.OpAcquire && e.Type == history.OK {
			cancel()
		}
	})
	s := twoNodes
	s.Limit, s.Workload.For = time.Hour, time.Hour-1
	s.Lock = clientSpec("c1", 0).Lock
	done := make(chan error, 1)
	go func() { done <- harness.Run(ctx, testBackend(dir), s, 1, rec) }()
	if err := receive(t, "end of the run", done); !errors.Is(err, context.Canceled) {
		t.Errorf("the run ended with %v", err)
	}
	if leftovers, err := os.ReadDir(dir); err != nil || len(leftovers) > 0 {
		t.Errorf("left behind: %v, %v", leftovers, err)
	}
}

func TestFailedStartNamesRemedy(t *testing.T) {
	needRedis(t)
	dir := t.TempDir()
	bin := filepath.Join(dir, "redis-server")
	if err := os.WriteFile(bin, []byte("#!/bin/sh\necho it hurts >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	body := func(context.Context, harness.Cluster) error { t.Error("body was called"); return nil }
	runs := t.TempDir()
	for what, cfg := range map[string]Config{
		"it hurts\n3 of 3 servers did not start; try " + bin + " --port 0": {RedisServer: bin, Dir: runs},
		"create run directory: mkdir " + filepath.Join(dir, "none"):        {Dir: filepath.Join(dir, "none")},
	} {
		err := New(cfg).Run(t.Context(), twoNodes, 1, history.NewRecorder(&strings.Builder{}), body)
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("the run ended with %v, want %q", err, what)
		}
	}
	if leftovers, err := os.ReadDir(runs); err != nil || len(leftovers) > 0 {
		t.Errorf("left behind: %v, %v", leftovers, err)
	}
}

func TestProbeReportsMissingCapabilities(t *testing.T) {
	for _, c := range New(Config{RedisServer: "no-such-redis-server"}).Probe(t.Context()) {
		if slices.Contains(unsupportedCapabilities, c) {
			continue // unsupported on any machine
		}
		if c.Available || c.Reason != "no-such-redis-server is not on PATH" || c.Remedy != "apt-get install redis-server" {
			t.Errorf("%+v", c)
		}
	}
	needRedis(t)
	b := New(Config{})
	caps := b.Probe(t.Context())
	faults, supported := nemesis.Capabilities(faultCapabilities)
	if len(caps) != 1+len(faults)+len([]string{scenario.PersistenceCapability, scenario.ReplicasCapability, scenario.KeyLifeCapability, scenario.OwnTimeCapability, scenario.ImageCapability})+len(lock.Servers()) || caps[0].Name != harness.RunCapability {
		t.Errorf("%+v", caps)
	}
	for _, c := range caps {
		if reason, remedy := fuse.Missing(); (c.Name == fuse.PowerLoss || c.Name == fuse.DiskFaults) && (c.Reason != reason || c.Remedy != remedy) {
			t.Errorf("%+v", c)
		}
	}
	for _, name := range append([]string{harness.RunCapability}, faults...) {
		isTried := name == fuse.PowerLoss || name == fuse.DiskFaults || slices.Contains(real.ClockCapabilities, name)
		if (supported[name] || name == harness.RunCapability) && !isTried && !slices.ContainsFunc(caps, func(c harness.Capability) bool { return c.Name == name && c.Available }) {
			t.Errorf("%s is not available: %+v", name, caps)
		}
	}
	if v, err := b.Version(t.Context()); err != nil || strings.Count(v, ".") < 2 {
		t.Errorf("version %q, %v", v, err)
	}
}
