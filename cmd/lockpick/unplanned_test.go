//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sendSignals sends signals to a process, with pauses in between.
func sendSignals(pid int, all ...syscall.Signal) error {
	for i, s := range all {
		if i > 0 {
			time.Sleep(150 * time.Millisecond) // how long it stays stopped
		}
		if err := syscall.Kill(pid, s); err != nil {
			return err
		}
	}
	return nil
}

// childrenOf returns the names of lockpick's child processes by ID, from the file that lockpick
// keeps open during each run.
func childrenOf(lockpick int) map[string]string {
	names := map[string]string{}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", lockpick))
	for _, file := range files {
		if to, _ := os.Readlink(file); filepath.Base(to) != "children" {
			continue
		}
		record, _ := os.ReadFile(file) // empty if the run has ended
		for line := range strings.Lines(string(record)) {
			if words := strings.Fields(line); len(words) == 3 {
				names[words[0]] = words[2]
			}
		}
	}
	return names
}

// childOf returns the ID of lockpick's child process with the given name.
func childOf(lockpick int, name string) (int, error) {
	for text, childName := range childrenOf(lockpick) {
		if pid, err := strconv.Atoi(text); err == nil && childName == name && syscall.Kill(pid, 0) == nil {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("lockpick has no child %s", name)
}

// lockpickPath returns the path under which the test binary acts as lockpick. Without redis-server,
// it skips the test.
func lockpickPath(t *testing.T) string {
	t.Helper()
	needRedis(t)
	path, err := exec.LookPath("lockpick")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

const oneNode, watchedNode = "./testdata/unplanned/one.yaml", "./testdata/unplanned/watched.yaml"

// hitFromAdapter hits a process of the run that started this adapter, in one of waysToHit. All
// servers have been started, but the history has no events yet. If mark is eachTime, it does so in
// each attempt; otherwise only in the first, which creates the file mark.
func hitFromAdapter(name, way, mark string) {
	pid, err := childOf(os.Getppid(), name)
	if err != nil {
		return // not in a run
	}
	if mark != eachTime {
		f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return
		}
		f.Close()
	}
	sendSignals(pid, waysToHit[way]...)
}

const eachTime = "each-time"

// TestUnplannedDuringSetup checks that an attempt is discarded if a process is hit during setup, as
// if it were hit later, and that this is not reported as a bug. TestMoreUnplannedDuringSetup hits
// other processes in other ways.
func TestUnplannedDuringSetup(t *testing.T) {
	for _, target := range [][2]string{{"n1", "killed"}, {"c1-adapter", "stopped"}} {
		checkRetryAfterHit(t, target[0], target[1])
	}
}

// hitDuringSetup runs lockpick with an adapter that hits a process of its own run.
func hitDuringSetup(t *testing.T, actor, way, mark string) (code int, output string) {
	t.Helper()
	cmd := exec.Command(lockpickPath(t), "run", oneNode, "--backend", "process", "--store", t.TempDir(),
		"--adapter", fmt.Sprintf("%s strikes %s %s %s", linkToSelf(t, t.TempDir(), adapterName), actor, way, mark))
	out, _ := cmd.CombinedOutput() // the exit code says whether it failed
	return cmd.ProcessState.ExitCode(), string(out)
}

// checkRetryAfterHit checks that a run passes with its second attempt if a process of the first
// attempt was hit.
func checkRetryAfterHit(t *testing.T, actor, way string) {
	t.Run(actor+" is "+way, func(t *testing.T) {
		t.Parallel()
		code, output := hitDuringSetup(t, actor, way, filepath.Join(t.TempDir(), "hit"))
		if want := "retried: unplanned: " + actor + " "; code != 0 || !strings.Contains(output, want) {
			t.Errorf("exit code %d, want 0 and %q:\n%s", code, want, output)
		}
	})
}

// TestDisturbedProbeIsNoSkip checks that a disturbed probe is repeated. If it fails every time, the
// run must fail instead of skipping scenarios, because it is unknown whether the machine has the
// capability.
func TestDisturbedProbeIsNoSkip(t *testing.T) {
	binary := lockpickPath(t)
	redis, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, once string
		code       int
		says       string
	}{
		{"once", `mkdir "$0.hit" 2>/dev/null || exec ` + redis + ` "$@"`, 0, "2 as expected"},
		// Either the code that waits for the server's answer or the code that watches the
		// process notices first that it has died.
		{"each time", "", 3, "this check was inconclusive: (start trial|unplanned: trial exited)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			// Kill the probe that starts redis-server as a sentinel.
			script := "#!/bin/sh\ncase \"$*\" in\n*sentinel*) " + c.once + "\nkill -9 $$;;\nesac\nexec " + redis + " \"$@\"\n"
			if err := os.WriteFile(filepath.Join(dir, "redis-server"), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(binary, "run", oneNode, watchedNode, "--scale", "0.5", "--backend", "process", "--store", t.TempDir())
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, _ := cmd.CombinedOutput() // the exit code says whether it failed
			if code := cmd.ProcessState.ExitCode(); code != c.code || !regexp.MustCompile(c.says).Match(out) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, c.code, c.says, out)
			}
		})
	}
}

// waysToHit maps names of actions to the signals to send to a process.
var waysToHit = map[string][]syscall.Signal{
	"killed": {syscall.SIGKILL}, "terminated": {syscall.SIGTERM}, "stopped": {syscall.SIGSTOP}, "stopped for a while": {syscall.SIGSTOP, syscall.SIGCONT},
}
