//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// attack is what somebody else does to a run: hit is called once in each of the first
// tries, when a client has begun to write.
type attack struct {
	binary   string
	scenario string
	backend  string
	tries    int
	hit      func(lockpick int) error
}

// every is more tries than a run has.
const every = 99

// run runs lockpick meanwhile, and returns its exit code and what it said.
func (a attack) run(t *testing.T) (code int, said string) {
	t.Helper()
	store := t.TempDir()
	cmd := exec.Command(a.binary, "run", a.scenario, "--backend", a.backend, "--store", store)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); cmd.Wait() }() // how it ended, its state says
	hit := map[string]bool{}
	for {
		select {
		case <-done:
			if len(hit) == 0 {
				t.Errorf("nothing was hit")
			}
			return cmd.ProcessState.ExitCode(), out.String()
		case <-time.After(2 * time.Millisecond):
		}
		filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.Name() != "history.jsonl" || hit[path] || len(hit) >= a.tries {
				return nil
			}
			if text, err := os.ReadFile(path); err != nil || !bytes.Contains(text, []byte(`"op":"write"`)) {
				return nil
			}
			hit[path] = true
			if err := a.hit(cmd.Process.Pid); err != nil {
				t.Errorf("hit it: %v", err)
			}
			return nil
		})
	}
}

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

// onChild hits one process of a run on processes.
func onChild(name string, all ...syscall.Signal) func(int) error {
	return func(lockpick int) error {
		pid, err := childOf(lockpick, name)
		if err != nil {
			return err
		}
		return signals(pid, all...)
	}
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

// Where somebody kills or stops a process of each try, no run passes; where of the first
// only, the next one counts, and it is said why that one does not.
func TestUnplannedNeverPasses(t *testing.T) {
	binary := self(t)
	for _, c := range []struct {
		name     string
		scenario string
		tries    int
		hit      func(int) error
		code     int
		says     []string
	}{
		{"a node in each try", oneNode, every, onChild("n1", syscall.SIGKILL), 2,
			[]string{"nobody planned it: n1 ended", "signal 9", "5 tries were discarded"}},
		{"a client is asked to end in the first", oneNode, 1, onChild("c1", syscall.SIGTERM), 0,
			[]string{"discarded, and tried again: nobody planned it: c1 ended", "signal 15", "1 as expected"}},
		{"a client in the first", oneNode, 1, onChild("c1", syscall.SIGKILL), 0,
			[]string{"discarded, and tried again: nobody planned it: c1 ended", "1 as expected"}},
		{"the resource stops for a while", oneNode, 1, onChild("r1", syscall.SIGSTOP, syscall.SIGCONT), 0,
			[]string{"discarded, and tried again: nobody planned it: r1 stood still", "1 as expected"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, said := attack{binary, c.scenario, "process", c.tries, c.hit}.run(t)
			if code != c.code {
				t.Errorf("exit code %d, want %d:\n%s", code, c.code, said)
			}
			for _, want := range c.says {
				if !strings.Contains(said, want) {
					t.Errorf("it does not say %q:\n%s", want, said)
				}
			}
		})
	}
}

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
// is hit later. It is no bug in lockpick.
func TestUnplannedWhileSetUp(t *testing.T) {
	binary, dir := self(t), t.TempDir()
	adapter := standIn(t, dir, adapterName)
	run := func(t *testing.T, actor, way, mark string) (code int, said string) {
		cmd := exec.Command(binary, "run", oneNode, "--backend", "process", "--store", t.TempDir(),
			"--adapter", fmt.Sprintf("%s strikes %s %s %s", adapter, actor, way, mark))
		out, _ := cmd.CombinedOutput() // the exit code tells
		return cmd.ProcessState.ExitCode(), string(out)
	}
	for _, hit := range []struct{ actor, way string }{
		{"n1", "killed"}, {"n1", "terminated"}, {"n1", "stopped"}, {"r1", "killed"}, {"c1-adapter", "killed"}, {"c1-adapter", "stopped"},
	} {
		t.Run(hit.actor+" is "+hit.way, func(t *testing.T) {
			t.Parallel()
			code, said := run(t, hit.actor, hit.way, filepath.Join(t.TempDir(), "hit"))
			if want := "discarded, and tried again: nobody planned it: " + hit.actor + " "; code != 0 || !strings.Contains(said, want) {
				t.Errorf("exit code %d, want 0 and %q:\n%s", code, want, said)
			}
		})
	}
	t.Run("in each try", func(t *testing.T) {
		t.Parallel()
		code, said := run(t, "n1", "killed", eachTime)
		if code != 2 || !strings.Contains(said, "n1 ended while the run was set up") || !strings.Contains(said, "5 tries were discarded") {
			t.Errorf("exit code %d, want 2 and why:\n%s", code, said)
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
		{"each time", "", 3, "this could not be found out: start trial"},
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
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.says) {
				t.Errorf("exit code %d, want %d and %q:\n%s", code, c.code, c.says, out)
			}
		})
	}
}

// waysToHit are what may be sent to a process.
var waysToHit = map[string][]syscall.Signal{
	"killed": {syscall.SIGKILL}, "terminated": {syscall.SIGTERM}, "stopped": {syscall.SIGSTOP}, "stopped for a while": {syscall.SIGSTOP, syscall.SIGCONT},
}

// hitOnce sees that a run whose first try was hit passes by the next one, and says so.
func hitOnce(t *testing.T, a attack, name string) {
	t.Helper()
	code, said := a.run(t)
	if want := "discarded, and tried again: nobody planned it: " + name + " "; code != 0 || !strings.Contains(said, want) {
		t.Errorf("exit code %d, want 0 and %q:\n%s", code, want, said)
	}
}
