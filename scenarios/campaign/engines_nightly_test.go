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

var seeds = flag.Int("engine-seeds", 800, "seeds of the engines' sweeps; each of eight shards takes some seconds")

// sweepArgs selects the sweep that the engines run.
func swept() []string { return []string{"random-faults/", "--seeds", fmt.Sprint(*seeds)} }

// lockpick builds the binary and returns its path.
func lockpick(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lockpick")
	c := exec.CommandContext(t.Context(), "go", "build", "-o", path, "lockpick/cmd/lockpick")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	return path
}

// requireRoot skips a test unless root runs it, as with make engines.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: sudo -E env PATH=$PATH make engines")
	}
}

// requirePrograms skips a test if programs are missing. In CI that is an error.
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
		t.Fatalf("%s, which is required in CI: %s", lack, remedy)
	} else if lack != "" {
		t.Skipf("%s: %s", lack, remedy)
	}
}

// outputOf returns the output of a command, which must succeed.
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

// startServer starts a server that ends with the test. If the test fails, it logs the server's last
// output.
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

// waitFor polls until the condition holds.
func await(t *testing.T, what string, within time.Duration, ask func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ask(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

// killMidway kills the lockpick process that records a shard in a store and has this variable in
// its environment, after it has written some outcomes.
func killMidway(t *testing.T, store, variable string) {
	t.Helper()
	await(t, "a process with "+variable+" is running", 3*time.Minute, func() bool {
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
			t.Logf("killing process %d with %s after %d outcomes", pid, variable, bytes.Count(text, []byte("\n"))-1)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return true
		}
		return false
	})
}

// jsonOutcomes returns what lockpick prints with --json, without the duration and the directory of
// each run.
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

// checkMerged checks that the merged outcomes equal those of one machine, seed for seed.
func sameAsOne(t *testing.T, lockpick, store string) {
	t.Helper()
	one := answer(t, lockpick, append([]string{"run"}, swept()...)...)
	merged := answer(t, lockpick, "merge", store)
	if len(one) != *seeds || len(merged) != len(one) {
		t.Fatalf("one machine has %d outcomes, the merged shards %d", len(one), len(merged))
	}
	for i := range one {
		if !reflect.DeepEqual(one[i], merged[i]) {
			t.Errorf("seed %d: one machine has %+v, the merged shards %+v", one[i].Seed, one[i], merged[i])
		}
	}
}

// shortContext is a context for a command that should end soon.
func quickly(t *testing.T) context.Context {
	ctx, end := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(end)
	return ctx
}
