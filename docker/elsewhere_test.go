//go:build linux

package docker

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/docker/engine"
)

// clockAhead is how far ahead the second engine's clock is.
const clockAhead = 5000 * time.Second

// secondEngine is an engine in its own namespaces, which stands in for an engine on another machine: its
// processes and mounts end with it, it cannot remove the first engine's network bridges, and its
// monotonic clock differs. It inherits its socket from the test.
type secondEngine struct {
	*testing.T
	dir     string
	command []string
	socket  *os.File
	process *os.Process
	done    chan error
}

// startSecondEngine starts a second engine and makes the test use it. prepare is shell code to run before
// the engine starts.
func startSecondEngine(t *testing.T, prepare string) *secondEngine {
	t.Helper()
	skipIfShort(t)
	if os.Getuid() != 0 {
		t.Skip("a second engine requires root")
	}
	for _, program := range []string{"dockerd", "containerd", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("a second engine requires %s: apt-get install docker.io util-linux", program)
		}
	}
	e := &secondEngine{T: t, dir: t.TempDir()}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: e.dir + "/socket"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	if e.socket, err = l.File(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(e.dir+"/daemon.json", []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	e.command = []string{"unshare", "--mount", "--net", "--pid", "--time", "--monotonic", fmt.Sprint(int(clockAhead.Seconds())),
		"--fork", "--kill-child", "--mount-proc", "sh", "-ec", "cd " + e.dir + "; mkdir -p data; " + prepare + `
		LISTEN_PID=$$ LISTEN_FDS=1 exec dockerd "$@"`, "dockerd", "--host", "fd://",
		"--config-file", e.dir + "/daemon.json", "--data-root", e.dir + "/data", "--exec-root", e.dir + "/exec", "--pidfile", e.dir + "/pid",
		"--bridge", "none", "--iptables=false", "--storage-driver", "overlay2"}
	e.start()
	t.Cleanup(func() {
		e.end(syscall.SIGTERM)
		e.socket.Close()
		checkNothingLeft(t, e.dir)
	})
	t.Setenv("DOCKER_HOST", "unix://"+e.dir+"/socket")
	awaitEngine(t)
	return e
}

// remoteBackend returns a backend that treats the engine as if it were on another machine.
func remoteBackend() *backend {
	b := testBackend()
	b.assumeRemote = true
	return b
}

func (e *secondEngine) start() {
	e.Helper()
	// If a killed engine left these files, processes that now have its PIDs would be mistaken for it.
	os.Remove(e.dir + "/pid")
	os.Remove(e.dir + "/exec/containerd/containerd.pid")
	cmd := exec.Command(e.command[0], e.command[1:]...)
	cmd.ExtraFiles = []*os.File{e.socket}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.WaitDelay = 10 * time.Second
	started, done := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the kernel sends Pdeathsig when this thread ends
		started <- cmd.Start()
		err := cmd.Wait()
		if e.Failed() {
			e.Logf("output of dockerd:\n%s", &output)
		}
		done <- err
	}()
	if err := <-started; err != nil {
		e.Fatal(err)
	}
	e.process, e.done = cmd.Process, done
}

// end stops the engine and all processes in its namespaces.
func (e *secondEngine) end(signal syscall.Signal) {
	syscall.Kill(-e.process.Pid, signal)
	select {
	case <-e.done:
	case <-time.After(20 * time.Second):
		e.process.Kill()
		e.Errorf("engine did not exit: %v", <-e.done)
	}
}

// checkNothingLeft checks that no processes and mounts refer to a directory.
func checkNothingLeft(t *testing.T, dir string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("mounts remain in %s: %v", dir, err)
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(processes) == 0 {
		t.Fatal("no processes in /proc", err)
	}
	for _, p := range processes {
		if line, _ := os.ReadFile(p); strings.Contains(string(line), dir) {
			t.Errorf("process %s remains: %q", p, line)
		}
	}
}

// awaitEngine waits until the engine specified by the environment answers.
func awaitEngine(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for {
		e, _, err := engine.Open(ctx)
		if err == nil {
			e.Close()
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal(err)
		}
	}
}

func TestRemarkNamesTheEngine(t *testing.T) {
	requireEngine(t)
	e, err := engine.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	got := testBackend().Remark(t.Context())
	for _, want := range []string{e.Host, "(API 1."} {
		if !strings.Contains(got, want) {
			t.Errorf("remark is %q, want %q in it", got, want)
		}
	}
}

// In a run on an engine on another machine, timestamps are by that machine's clock, and the measured
// offset from our clock is right within its error bound.
func TestRunOnRemoteEngine(t *testing.T) {
	startSecondEngine(t, "")
	events := runOn(t, remoteBackend(), twoNodes, func(b testRun) {
		if off := (b.clockOffset - clockAhead).Abs(); b.clockOffsetError == 0 || off > b.clockOffsetError {
			t.Errorf("measured offset is %v ± %v, want %v", b.clockOffset, b.clockOffsetError, clockAhead)
		}
		t.Logf("offset error %v; stamp error %v", b.clockOffsetError, b.StampError())
		at := b.Now()
		if err := b.RunClient(t.Context(), newSpec("c1", 1), ignorePoint); err != nil {
			t.Error(err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, e := range *b.events {
			if ε := b.StampError(); time.Duration(e.T) < at-ε || time.Duration(e.T) > b.Now()+ε {
				t.Errorf("%+v is not between %v and %v", e, at, b.Now())
			}
		}
	})
	if len(events) == 0 {
		t.Error("no events recorded")
	}
}
