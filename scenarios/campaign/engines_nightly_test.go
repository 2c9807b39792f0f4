//go:build nightly && linux

package campaign

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/scenarios/outcome"
)

var seeds = flag.Int("engine-seeds", 800, "seeds of the sweeps that engines are given; a shard of eight takes some seconds")

// swept is that sweep.
func swept() []string { return []string{"random-faults/", "--seeds", fmt.Sprint(*seeds)} }

// lockpick is the built binary.
func lockpick(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lockpick")
	c := exec.CommandContext(t.Context(), "go", "build", "-o", path, "lockpick/cmd/lockpick")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	return path
}

// needsRoot skips a test that is not run by root: make engines.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("it starts what only root may: sudo -E env PATH=$PATH make engines")
	}
}

// needs skips a test where programs are not there; in CI that is an error.
func needs(t *testing.T, remedy string, programs ...string) {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin")
	lack := ""
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			lack = err.Error()
		}
	}
	if lack != "" && os.Getenv("CI") != "" {
		t.Fatalf("%s, and in CI it has to be there: %s", lack, remedy)
	} else if lack != "" {
		t.Skipf("%s: %s", lack, remedy)
	}
}

// says is what a command prints, which has to succeed.
func says(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	var errs strings.Builder
	c.Stderr = &errs
	text, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", c.Args, err, text, errs.String())
	}
	return string(text)
}

// startServer starts a server, which ends with the test, and whose last words are told if that fails.
func startServer(t *testing.T, name string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	c := exec.Command(name, args...)
	c.Stdout, c.Stderr = &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(30*time.Second, func() { c.Process.Kill() })
		c.Wait()
		late.Stop()
		if t.Failed() {
			text := said.Bytes()
			t.Logf("%s: %s", name, text[max(0, len(text)-3000):])
		}
	})
}

// await asks until the answer is yes.
func await(t *testing.T, what string, within time.Duration, ask func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ask(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// killMidway kills the lockpick that records a shard in a store and has this variable in its
// environment, once some of its outcomes are written.
func killMidway(t *testing.T, store, variable string) {
	t.Helper()
	await(t, "a process with "+variable+" is on its way", 3*time.Minute, func() bool {
		files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
		for _, f := range files {
			to, err := os.Readlink(f)
			if err != nil || filepath.Base(filepath.Dir(to)) != shardFolder || fileName.MatchString(filepath.Base(to)) {
				continue
			}
			process := filepath.Dir(filepath.Dir(f))
			environment, _ := os.ReadFile(filepath.Join(process, "environ"))
			text, _ := os.ReadFile(f)
			there, err := os.Stat(f)
			here, missing := os.Stat(filepath.Join(store, shardFolder, filepath.Base(to)))
			if err != nil || missing != nil || !os.SameFile(there, here) || bytes.Count(text, []byte("\n")) < 3 ||
				!bytes.Contains(append([]byte{0}, environment...), []byte("\x00"+variable+"\x00")) {
				continue
			}
			var pid int
			if err := json.Unmarshal([]byte(filepath.Base(process)), &pid); err != nil {
				t.Fatal(err)
			}
			t.Logf("kills process %d with %s, after %d outcomes", pid, variable, bytes.Count(text, []byte("\n"))-1)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return true
		}
		return false
	})
}

// answer is what lockpick prints with --json, but for what is of the machine: the time that a run
// took, and where it is kept.
func answer(t *testing.T, lockpick string, args ...string) (all []outcome.Outcome) {
	t.Helper()
	var answer struct{ Outcomes []outcome.Outcome }
	c := exec.CommandContext(t.Context(), lockpick, append(args, "--json", "--store", t.TempDir())...)
	if err := json.Unmarshal([]byte(says(t, c)), &answer); err != nil {
		t.Fatal(err)
	}
	for _, o := range answer.Outcomes {
		o.Seconds, o.Dir = 0, ""
		all = append(all, o)
	}
	return all
}

// sameAsOne wants that what is merged is what one machine comes to, seed for seed.
func sameAsOne(t *testing.T, lockpick, store string) {
	t.Helper()
	one := answer(t, lockpick, append([]string{"run"}, swept()...)...)
	merged := answer(t, lockpick, "merge", store)
	if len(one) != *seeds || len(merged) != len(one) {
		t.Fatalf("one machine has %d outcomes, what is merged %d", len(one), len(merged))
	}
	for i := range one {
		if !reflect.DeepEqual(one[i], merged[i]) {
			t.Errorf("seed %d: one machine says %+v, what is merged %+v", one[i].Seed, one[i], merged[i])
		}
	}
}

// quickly is a context for a command that has little to do.
func quickly(t *testing.T) context.Context {
	ctx, end := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(end)
	return ctx
}
