//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// startServer starts lockpick serve as an example of a command that runs until a signal ends it.
func startServer(t *testing.T, namespaces uintptr) (cmd *exec.Cmd, output *bytes.Buffer) {
	t.Helper()
	cmd, output = exec.Command("lockpick", "serve", "--port", "0", "--store", t.TempDir()), &bytes.Buffer{}
	cmd.Stderr, cmd.SysProcAttr = output, &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if errors.Is(err, syscall.EPERM) && namespaces != 0 {
		t.Skip("only root can create a PID namespace")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the server printed %q, %v: %s", line, err, output)
	}
	return cmd, output
}

// TestRuntimeCrashesAbort checks that the process aborts if the Go runtime crashes. By default it
// would exit with status 2, which means inconclusive. The test crashes the runtime with signals,
// which it handles like running out of memory or concurrent map writes.
func TestRuntimeCrashesAbort(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGILL, syscall.SIGTRAP, syscall.SIGSYS} {
		cmd, output := startServer(t, 0)
		cmd.Process.Signal(s)
		cmd.Wait()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGABRT || !strings.Contains(output.String(), "goroutine ") {
			t.Errorf("%v: %v, %q", s, cmd.ProcessState, output)
		}
	}
}

// TestFirstProcessOfAContainer checks lockpick's exit codes if it is the first process in a
// container. Such a process can't abort, so it starts a child that can.
func TestFirstProcessOfAContainer(t *testing.T) {
	for s, want := range map[syscall.Signal]int{syscall.SIGQUIT: 134, syscall.SIGTERM: 130, syscall.SIGINT: 130} {
		cmd, output := startServer(t, syscall.CLONE_NEWPID)
		cmd.Process.Signal(s)
		cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != want {
			t.Errorf("%v: exit code %d, want %d: %s", s, code, want, output)
		}
	}
	cmd := exec.Command("lockpick", "run", "no-such-scenario")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if out, _ := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 64 {
		t.Errorf("exit code %d: %s", cmd.ProcessState.ExitCode(), out)
	}
}

// TestPanicIsABug checks that a panic in a command results in the exit code for bugs.
func TestPanicIsABug(t *testing.T) {
	err := catchPanic(func(context.Context) error { panic("it hurts") }, t.Context())
	if exitCode(err) != 70 || !strings.Contains(err.Error(), "panic: it hurts\ngoroutine ") {
		t.Errorf("exit code %d: %v", exitCode(err), err)
	}
}

// runLimited runs lockpick after a shell command, limit, which may set a limit with ulimit.
func runLimited(t *testing.T, limit string, env []string, args ...string) (code int, output string) {
	t.Helper()
	cmd := exec.Command("sh", append([]string{"-c", limit + `; exec lockpick "$@"`, "sh"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// TestMissingResourcesAreNamed checks that a shortage of a resource is not reported as a bug or as a
// missing redis-server. One line must describe the shortage, another line the fix.
func TestMissingResourcesAreNamed(t *testing.T) {
	needRedis(t)
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	missingDir := filepath.Join(dir, "none")
	fullDir := mountTestDisk(t, "")
	readOnlyDir := mountTestDisk(t, "ro")
	tinyDir := mountTestDisk(t, "1m")
	simArgs := []string{"run", "baseline/", "--store", store}
	realArgs := append(simArgs, "--backend", "process")
	for _, c := range []struct {
		what, limit, tmp string
		args             []string
		code             int
		error, hint      string
	}{
		{"open files for workers", "ulimit -n 10", dir, simArgs, 3, "too many open files", "ulimit -n"},
		{"open files for links", "ulimit -n 50", dir, realArgs, 3, "open files, but the process may have only 50", "ulimit -n"},
		{"open files for a trial", "ulimit -n 10", dir, realArgs, 3, "too many open files", "ulimit -n"},
		{"open files for a server", "ulimit -n 20", dir, realArgs, 3, "increase your open file limit", "ulimit -n"},
		{"size of files", "ulimit -f 1", dir, simArgs, 3, "file too large", "ulimit -f"},
		{"no TMPDIR", "true", missingDir, realArgs, 3, missingDir + "/lockpick-", "use TMPDIR to choose a folder that exists"},
		{"TMPDIR is a file", "true", "/etc/passwd", realArgs, 3, "/etc/passwd", "use TMPDIR to choose a folder that exists"},
		{"full TMPDIR", "true", fullDir, realArgs, 3, "no space left on device", "make room on that file system, or use TMPDIR to choose a folder on another one"},
		{"small TMPDIR", "true", tinyDir, realArgs, 3, "1024 kB are free, but a run needs 16384", "make room on that file system"},
		{"sealed TMPDIR", "true", readOnlyDir, realArgs, 3, "read-only file system", "use TMPDIR"},
		{"full store", "true", dir, []string{"run", "baseline/", "--store", fullDir}, 3, "no space left on device", "use --store"},
		{"sealed store", "true", dir, []string{"run", "baseline/", "--store", readOnlyDir}, 64, "read-only file system", "--store"},
		{"too many for the simulation", "true", dir, append(simArgs, "--set", "clients=999"), 64, "999 clients", "use fewer clients"},
		{"too many for open files", "ulimit -n 5000", dir, append(realArgs, "--set", "clients=999"), 3, "start 999 clients", "ulimit -n"},
		{"wall clock", "true", dir, append(simArgs, "--set", "workload.cycles=50000", "--set", "limit=24h", "--timeout", "1s"), 3, "did not end within 1s", "--timeout"},
	} {
		if c.tmp == "" {
			continue // not possible on this machine
		}
		code, output := runLimited(t, c.limit, []string{"TMPDIR=" + c.tmp}, c.args...)
		errors, hint := lineAfter(output, "error: "), lineAfter(output, "hint: ")
		if code != c.code || !strings.Contains(errors, c.error) || !strings.Contains(hint, c.hint) || strings.Contains(output, "goroutine ") || strings.Contains(output, "apt-get") {
			t.Errorf("%s: exit code %d, want %d:\n%s", c.what, code, c.code, output)
		}
	}
	if stackFiles, err := filepath.Glob(filepath.Join(store, "lockpick-stack-baseline-1-*.txt")); err != nil || len(stackFiles) != 1 {
		t.Errorf("stacks of the run that took too long: %v, %v", stackFiles, err)
	}
	if code, output := runLimited(t, "true", []string{"TMPDIR=" + missingDir}, "doctor"); code != 0 || !strings.Contains(output, "fix: use TMPDIR to choose a folder that exists") {
		t.Errorf("doctor without a TMPDIR: exit code %d:\n%s", code, output)
	}
	if code, output := runLimited(t, "true", nil, simArgs...); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, output)
	}
	if code, output := runLimited(t, "true", []string{"TMPDIR=" + missingDir}, "replay", filepath.Join(store, "baseline", "latest")); code != 3 || !strings.Contains(output, "use TMPDIR") {
		t.Errorf("replay without a TMPDIR: exit code %d:\n%s", code, output)
	}
}

// lineAfter returns the rest of the line that starts with prefix, or "" if there is none.
func lineAfter(text, prefix string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(strings.TrimSpace(line), prefix); ok {
			return rest
		}
	}
	return ""
}

// mountTestDisk mounts a tmpfs and returns its path, or "" if this process can't mount one. option is a
// size as in "1m", "" for a full file system, or "ro" for a read-only one.
func mountTestDisk(t *testing.T, option string) string {
	t.Helper()
	dir := t.TempDir()
	flags, size := uintptr(0), fmt.Sprint(2*os.Getpagesize())
	switch option {
	case "ro":
		flags = syscall.MS_RDONLY
	case "":
	default:
		size = option
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, "size="+size); err != nil {
		t.Logf("no file system can be mounted here: %v", err)
		return ""
	}
	t.Cleanup(func() { syscall.Unmount(dir, 0) })
	if option == "" {
		os.WriteFile(filepath.Join(dir, "all"), make([]byte, 2*os.Getpagesize()), 0o644)
	}
	return dir
}
