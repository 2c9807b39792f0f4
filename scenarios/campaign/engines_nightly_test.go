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

var engineSeeds = flag.Int("engine-seeds", 800, "number of seeds in a sweep; the default takes each of the eight shards a few seconds")

// sweepArgs returns the arguments of the sweep that each engine runs.
func sweepArgs() []string { return []string{"random-faults/", "--seeds", fmt.Sprint(*engineSeeds)} }

// buildLockpick builds lockpick and returns the binary's path.
func buildLockpick(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lockpick")
	c := exec.CommandContext(t.Context(), "go", "build", "-o", path, "lockpick/cmd/lockpick")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, text)
	}
	return path
}

// requireRoot skips the test unless it runs as root, as in make engines.
func requireRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("requires root: sudo -E env PATH=$PATH make engines")
	}
}

// requirePrograms skips the test if a program is missing. In CI, it fails the test instead.
func requirePrograms(t *testing.T, remedy string, programs ...string) {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin")
	missing := ""
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing = err.Error()
		}
	}
	if missing != "" && os.Getenv("CI") != "" {
		t.Fatalf("%s, which is required in CI: %s", missing, remedy)
	} else if missing != "" {
		t.Skipf("%s: %s", missing, remedy)
	}
}

// outputOf runs a command and returns its standard output. The command must succeed.
func outputOf(t *testing.T, c *exec.Cmd) string {
	t.Helper()
	var errs strings.Builder
	c.Stderr = &errs
	text, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", c.Args, err, text, errs.String())
	}
	return string(text)
}

// startServer starts a server and stops it at the end of the test. If the test failed, it logs the
// end of the server's output.
func startServer(t *testing.T, name string, args ...string) {
	t.Helper()
	var output bytes.Buffer
	c := exec.Command(name, args...)
	c.Stdout, c.Stderr = &output, &output
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Signal(syscall.SIGTERM)
		killTimer := time.AfterFunc(30*time.Second, func() { c.Process.Kill() })
		c.Wait()
		killTimer.Stop()
		if t.Failed() {
			text := output.Bytes()
			t.Logf("%s: %s", name, text[max(0, len(text)-3000):])
		}
	})
}

// waitFor fails the test unless the condition becomes true within the given time.
func waitFor(t *testing.T, what string, within time.Duration, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !condition(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timed out after %v waiting until %s", within, what)
		}
	}
}

// killMidway waits until a lockpick process has written some outcomes of a shard, then kills it. It
// finds the process by the store and an environment variable.
func killMidway(t *testing.T, store, variable string) {
	t.Helper()
	waitFor(t, "a process with "+variable+" is running", 3*time.Minute, func() bool {
		files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
		for _, f := range files {
			to, err := os.Readlink(f)
			if err != nil || filepath.Base(filepath.Dir(to)) != shardFolder || shardFileName.MatchString(filepath.Base(to)) {
				continue
			}
			process := filepath.Dir(filepath.Dir(f))
			environment, _ := os.ReadFile(filepath.Join(process, "environ"))
			text, _ := os.ReadFile(f)
			openFile, err := os.Stat(f)
			storeFile, statErr := os.Stat(filepath.Join(store, shardFolder, filepath.Base(to)))
			if err != nil || statErr != nil || !os.SameFile(openFile, storeFile) || bytes.Count(text, []byte("\n")) < 3 ||
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

// jsonOutcomes returns the outcomes that lockpick prints with --json, without durations and
// directories.
func jsonOutcomes(t *testing.T, lockpick string, args ...string) (all []outcome.Outcome) {
	t.Helper()
	var answer struct{ Outcomes []outcome.Outcome }
	c := exec.CommandContext(t.Context(), lockpick, append(args, "--json", "--store", t.TempDir())...)
	if err := json.Unmarshal([]byte(outputOf(t, c)), &answer); err != nil {
		t.Fatal(err)
	}
	for _, o := range answer.Outcomes {
		o.Seconds, o.Dir = 0, ""
		all = append(all, o)
	}
	return all
}

// checkMerged checks that a store's merged outcomes equal those of the same sweep on one machine.
func checkMerged(t *testing.T, lockpick, store string) {
	t.Helper()
	one := jsonOutcomes(t, lockpick, append([]string{"run"}, sweepArgs()...)...)
	merged := jsonOutcomes(t, lockpick, "merge", store)
	if len(one) != *engineSeeds || len(merged) != len(one) {
		t.Fatalf("%d outcomes on one machine, %d in the merged shards", len(one), len(merged))
	}
	for i := range one {
		if !reflect.DeepEqual(one[i], merged[i]) {
			t.Errorf("seed %d: on one machine %+v, in the merged shards %+v", one[i].Seed, one[i], merged[i])
		}
	}
}

// shortContext returns a context with a timeout of a minute.
func shortContext(t *testing.T) context.Context {
	ctx, end := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(end)
	return ctx
}
