//go:build !windows

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"lockpick/docker"
	"lockpick/reports/suites"
	"lockpick/scenarios/outcome"
)

// build builds lockpick as users do, the first time it is called, and returns the binary's path. The
// longer tests run this binary, because synctest bubbles must work outside "go test", and "go run"
// hides exit codes.
func build(t *testing.T) string {
	t.Helper()
	path, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var buildOnce = sync.OnceValues(func() (path string, err error) {
	if buildDir, err = os.MkdirTemp("", "lockpick-built-"); err != nil {
		return "", err
	}
	path = filepath.Join(buildDir, "lockpick")
	cmd := exec.Command("go", "build", "-o", path, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// outcomes runs lockpick with --json and returns its exit code and its outcomes.
func outcomes(t *testing.T, binary string, args ...string) (int, []outcome.Outcome) {
	t.Helper()
	args = append(args, "--json", "--store", filepath.Join(t.TempDir(), "store"))
	return runForOutcomes(t, exec.Command(binary, args...))
}

// runForOutcomes runs a command that prints outcomes as JSON, and returns its exit code and the
// outcomes.
func runForOutcomes(t *testing.T, cmd *exec.Cmd) (int, []outcome.Outcome) {
	t.Helper()
	var output strings.Builder
	cmd.Stderr = &output
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var all struct{ Outcomes []outcome.Outcome }
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, output.String())
	}
	return cmd.ProcessState.ExitCode(), all.Outcomes
}

func checkOutcomes(t *testing.T, all []outcome.Outcome) {
	t.Helper()
	for _, o := range all {
		if o.Code != outcome.ExitOK || o.Skipped != "" {
			t.Errorf("%s seed %d: %s %s %s", o.Scenario, o.Seed, strings.Join(suites.DescribeResults(o), "; "), o.Error, o.Skipped)
		}
	}
}

func needRedis(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the process backend needs Linux")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("redis-server is missing, and CI requires it: apt-get install redis-server")
		}
		t.Skip("redis-server is missing: apt-get install redis-server")
	}
}

// needEngine skips the test if the Docker backend can't run. In CI it fails the test.
func needEngine(t *testing.T) {
	t.Helper()
	needRedis(t)
	if c := docker.New(docker.Config{}).Probe(t.Context())[0]; !c.Available {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s, and CI requires it: %s", c.Reason, c.Remedy)
		}
		t.Skipf("%s: %s", c.Reason, c.Remedy)
	}
}

// fileSize returns a file's size, or 0 if the file does not exist.
func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// linkToSelf creates a link to the test binary and returns the link's path. Started through the link,
// the test binary acts as the named program (see programs).
func linkToSelf(t *testing.T, dir, name string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.Symlink(self, path); err != nil && !errors.Is(err, os.ErrExist) {
		t.Fatal(err)
	}
	return path
}
