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

// signals sends signals to a process, a while apart.
func signals(pid int, all ...syscall.Signal) error {
	for i, s := range all {
		if i > 0 {
			time.Sleep(150 * time.Millisecond) // how long it stands still
		}
		if err := syscall.Kill(pid, s); err != nil {
			return err
		}
	}
	return nil
}

// childrenOf are the names of a lockpick's children by their process IDs, from the record that it
// keeps open for each run.
func childrenOf(lockpick int) map[string]string {
	names := map[string]string{}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", lockpick))
	for _, file := range files {
		if to, _ := os.Readlink(file); filepath.Base(to) != "children" {
			continue
		}
		record, _ := os.ReadFile(file) // or the run has ended
		for line := range strings.Lines(string(record)) {
			if words := strings.Fields(line); len(words) == 3 {
				names[words[0]] = words[2]
			}
		}
	}
	return names
}

// childOf is lockpick's child of a name that is alive.
func childOf(lockpick int, name string) (int, error) {
	for text, called := range childrenOf(lockpick) {
		if pid, err := strconv.Atoi(text); err == nil && called == name && syscall.Kill(pid, 0) == nil {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("lockpick has no child %s", name)
}

// self is lockpick, as the tests of scripts have it, where redis-server is there.
func self(t *testing.T) string {
	t.Helper()
	needRedis(t)
	path, err := exec.LookPath("lockpick")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

const oneNode, watchedNode = "./testdata/unplanned/one.yaml", "./testdata/unplanned/watched.yaml"

// strikes hits a process of the run that this adapter is of, in one of waysToHit: that is after all
// servers were started, and before the run's first event. It does so once, and leaves a mark, or each
// time.
func strikes(name, way, mark string) {
	pid, err := childOf(os.Getppid(), name)
	if err != nil {
		return // only the program is being looked at
	}
	if mark != eachTime {
		f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return
		}
		f.Close()
	}
	signals(pid, waysToHit[way]...)
}

const eachTime = "each-time"

// A process that somebody hits while the run is set up makes a try that does not count, as one that
// is hit later. It is no bug in lockpick. TestMoreUnplannedWhileSetUp hits others, in other ways.
func TestUnplannedWhileSetUp(t *testing.T) {
	for _, hit := range [][2]string{{"n1", "killed"}, {"c1-adapter", "stopped"}} {
		hitWhileSetUp(t, hit[0], hit[1])
	}
}

// strikeWhileSetUp runs a lockpick whose adapter strikes.
func strikeWhileSetUp(t *testing.T, actor, way, mark string) (code int, said string) {
	t.Helper()
	cmd := exec.Command(self(t), "run", oneNode, "--backend", "process", "--store", t.TempDir(),
		"--adapter", fmt.Sprintf("%s strikes %s %s %s", standIn(t, t.TempDir(), adapterName), actor, way, mark))
	out, _ := cmd.CombinedOutput() // the exit code tells
	return cmd.ProcessState.ExitCode(), string(out)
}

// hitWhileSetUp sees that a run passes by its second try where a process of the first was hit.
func hitWhileSetUp(t *testing.T, actor, way string) {
	t.Run(actor+" is "+way, func(t *testing.T) {
		t.Parallel()
		code, said := strikeWhileSetUp(t, actor, way, filepath.Join(t.TempDir(), "hit"))
		if want := "retried: unplanned: " + actor + " "; code != 0 || !strings.Contains(said, want) {
			t.Errorf("exit code %d, want 0 and %q:\n%s", code, want, said)
		}
	})
}

// A probe that somebody disturbs is made again. Where it always fails, it is an error, and no skip:
// whether the machine can do it is not known.
func TestDisturbedProbeIsNoSkip(t *testing.T) {
	binary := self(t)
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
		// Either whoever waits for the server's answer or whoever watches the process is first to see it dead.
		{"each time", "", 3, "this check was inconclusive: (start trial|unplanned: trial exited)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			// The probe that starts it as a sentinel is killed.
			script := "#!/bin/sh\ncase \"$*\" in\n*sentinel*) " + c.once + "\nkill -9 $$;;\nesac\nexec " + redis + " \"$@\"\n"
			if err := os.WriteFile(filepath.Join(dir, "redis-server"), []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(binary, "run", oneNode, watchedNode, "--scale", "0.5", "--backend", "process", "--store", t.TempDir())
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
			out, _ := cmd.CombinedOutput() // the exit code tells
			if code := cmd.ProcessState.ExitCode(); code != c.code || !regexp.MustCompile(c.says).Match(out) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, c.code, c.says, out)
			}
		})
	}
}

// waysToHit are what may be sent to a process.
var waysToHit = map[string][]syscall.Signal{
	"killed": {syscall.SIGKILL}, "terminated": {syscall.SIGTERM}, "stopped": {syscall.SIGSTOP}, "stopped for a while": {syscall.SIGSTOP, syscall.SIGCONT},
}
