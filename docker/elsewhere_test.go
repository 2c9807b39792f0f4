//go:build linux

package docker

import (
	"bytes"
	"context"
	"errors"
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
	"lockpick/docker/engine/enginetest"
	"lockpick/harness/owned"
)

// clockAhead is how far the clock of the second engine's containers is ahead.
const clockAhead = 5000 * time.Second

// secondEngine is an engine that wants TLS, in namespaces of its own, as on another
// machine: its processes and mounts end with it, bridges of the other engine are not
// its to remove, and its monotonic clock is another. The port is ours, which it
// inherits.
type secondEngine struct {
	*testing.T
	host, dir string
	command   []string
	port      *os.File
	process   *os.Process
	ended     chan error
}

// dockerd starts one. prepare is what its shell does first.
func dockerd(t *testing.T, certs, prepare string) *secondEngine {
	t.Helper()
	unlessShort(t)
	if os.Getuid() != 0 {
		t.Skip("a second engine needs root")
	}
	for _, program := range []string{"dockerd", "containerd", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("a second engine needs %s: apt-get install docker.io util-linux", program)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e := &secondEngine{T: t, host: "tcp://" + l.Addr().String(), dir: t.TempDir()}
	if e.port, err = l.(*net.TCPListener).File(); err != nil {
		t.Fatal(err)
	}
	enginetest.WriteFile(t, e.dir+"/daemon.json", "{}")
	e.command = []string{"unshare", "--mount", "--net", "--pid", "--time", "--monotonic", fmt.Sprint(int(clockAhead.Seconds())),
		"--fork", "--kill-child", "--mount-proc", "sh", "-ec", "cd " + e.dir + "; mkdir -p data; " + prepare + `
		LISTEN_PID=$$ LISTEN_FDS=1 exec dockerd "$@"`, "dockerd", "--host", "fd://",
		"--tlsverify", "--tlscacert", certs + "/ca.pem", "--tlscert", certs + "/cert.pem", "--tlskey", certs + "/key.pem",
		"--config-file", e.dir + "/daemon.json", "--data-root", e.dir + "/data", "--exec-root", e.dir + "/exec", "--pidfile", e.dir + "/pid",
		"--bridge", "none", "--iptables=false", "--storage-driver", "overlay2"}
	e.start()
	t.Cleanup(func() {
		e.end(syscall.SIGTERM)
		e.port.Close()
		nothingOf(t, e.dir)
	})
	return e
}

// use makes it the engine of this test.
func (e *secondEngine) use(certs string) {
	e.Setenv("DOCKER_HOST", e.host)
	e.Setenv("DOCKER_CERT_PATH", certs)
	e.Setenv("DOCKER_TLS_VERIFY", "1")
	await(e.T)
}

func (e *secondEngine) start() {
	e.Helper()
	// Of one that was killed; what now has these numbers would be taken for it.
	os.Remove(e.dir + "/pid")
	os.Remove(e.dir + "/exec/containerd/containerd.pid")
	cmd := exec.Command(e.command[0], e.command[1:]...)
	cmd.ExtraFiles = []*os.File{e.port}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.WaitDelay = 10 * time.Second
	started, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // with whose end the signal of death comes
		started <- cmd.Start()
		err := cmd.Wait()
		if e.Failed() {
			e.Logf("dockerd said:\n%s", &said)
		}
		ended <- err
	}()
	if err := <-started; err != nil {
		e.Fatal(err)
	}
	e.process, e.ended = cmd.Process, ended
}

// end ends it, and all that runs in its namespaces.
func (e *secondEngine) end(signal syscall.Signal) {
	syscall.Kill(-e.process.Pid, signal)
	select {
	case <-e.ended:
	case <-time.After(20 * time.Second):
		e.process.Kill()
		e.Errorf("it did not end: %v", <-e.ended)
	}
}

// nothingOf sees that no process and no mount has to do with a directory.
func nothingOf(t *testing.T, dir string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil || strings.Contains(string(mounts), dir) {
		t.Errorf("mounts in %s are left: %v", dir, err)
	}
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(processes) == 0 {
		t.Fatal("no process is seen", err)
	}
	for _, p := range processes {
		if line, _ := os.ReadFile(p); strings.Contains(string(line), dir) {
			t.Errorf("%s is left: %q", p, line)
		}
	}
}

// await asks the engine of the environment until it answers.
func await(t *testing.T) engine.About {
	t.Helper()
	var a engine.About
	var err error
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if a, err = askEngine(t); err == nil {
			return a
		}
	}
	t.Fatal(err)
	return a
}

func askEngine(t *testing.T) (engine.About, error) {
	t.Helper()
	e, err := engine.Connect()
	if err != nil {
		return engine.About{}, err
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(t.Context(), engine.PingBound)
	defer cancel()
	return e.About(ctx)
}

func TestEngineBehindTLS(t *testing.T) {
	config := enginetest.NoEngineSet(t)
	ours, theirs, strange := enginetest.NewAuthority(t), t.TempDir(), t.TempDir()
	ours.Write(t, theirs, "engine")
	enginetest.NewAuthority(t).Write(t, strange, "stranger")
	host := dockerd(t, theirs, "").host
	ours.Write(t, enginetest.WriteContext(t, config, "far", enginetest.ContextAt("far", host)), "client")
	enginetest.NewAuthority(t).Write(t, enginetest.WriteContext(t, config, "strange", enginetest.ContextAt("strange", host)), "client")
	enginetest.WriteContext(t, config, "open", enginetest.ContextAt("open", host))

	t.Setenv("DOCKER_CONTEXT", "far")
	began := time.Now()
	a := await(t)
	t.Logf("version %s, API %s, kernel %s, after %v", a.Version, a.API, a.Kernel, time.Since(began))
	e, err := engine.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if a.Platform != "linux" || e.At.IsHere(a) {
		t.Errorf("%+v: what TCP leads to may be anywhere", a)
	}
	makeOne(t, e)

	// The same by the environment, and what goes wrong by either way.
	for _, c := range []struct {
		name, why, remedy string
		env               map[string]string
	}{
		{name: "environment", env: map[string]string{"DOCKER_CERT_PATH": theirs, "DOCKER_TLS_VERIFY": "1", "DOCKER_HOST": host}},
		{name: "old API", env: map[string]string{"DOCKER_API_VERSION": "1.41"}},
		{name: "strange CA", why: "x509: ", remedy: strange, env: map[string]string{"DOCKER_CERT_PATH": strange, "DOCKER_TLS_VERIFY": "1", "DOCKER_HOST": host}},
		{name: "strange client", why: "tls: ", remedy: strange, env: map[string]string{"DOCKER_CERT_PATH": strange, "DOCKER_TLS": "1", "DOCKER_HOST": host}},
		{name: "strange context", why: "context strange", remedy: "contexts/tls", env: map[string]string{"DOCKER_CONTEXT": "strange"}},
		{name: "in the clear", why: "context open", remedy: "it wants TLS", env: map[string]string{"DOCKER_CONTEXT": "open"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			_, err := askEngine(t)
			if c.why == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			a, ok := err.(*engine.EndpointError)
			if !ok || !strings.Contains(err.Error(), c.why) || !strings.Contains(a.Remedy, c.remedy) || !strings.Contains(err.Error(), host) {
				t.Fatalf("it came out as %v", err)
			}
			t.Logf("%v; to fix it: %s", err, a.Remedy)
		})
	}
}

// makeOne imports an image, and makes and runs a container of it on a network.
func makeOne(t *testing.T, e *engine.Engine) {
	t.Helper()
	self, err := owned.Self()
	if err != nil {
		t.Fatal(err)
	}
	i, err := imageOf("test", "/bin/sh", "/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{engine.OwnerLabel: self.String(), runLabel: "elsewhere." + self.String()}
	name := "lockpick-" + labels[runLabel]
	defer func() {
		_, err := engine.Remove(context.Background(), e, runLabel+"="+labels[runLabel], func(engine.Belonging) bool { return true })
		if err := errors.Join(err, e.RemoveImage(context.Background(), i.ref)); err != nil {
			t.Error(err)
		}
	}()
	if err := i.provide(t.Context(), e, self.String()); err != nil {
		t.Fatal(err)
	}
	n, err := makeNet(t.Context(), e, name, labels)
	if err != nil {
		t.Fatal(err)
	}
	id, err := e.Create(t.Context(), engine.Making{Name: name + "-one", Image: i.ref, Network: n.name, Addr: n.at(firstNode),
		Command: []string{"/bin/sh", "-c", "exit 7"}, Labels: labels})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := e.Start(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if status, err := ended(); err != nil || status != 7 {
		t.Errorf("it ended with %d, %v", status, err)
	}
}

func TestRemarkNamesTheEngine(t *testing.T) {
	needEngine(t)
	e, err := engine.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	got := testBackend().Remark(t.Context())
	for _, want := range []string{e.At.Host, "context " + e.At.Context, ", API 1."} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
}

func TestUnknownWhetherAnEngineIsHere(t *testing.T) {
	for _, a := range []engine.About{{}, {Kernel: "6.10.14-linuxkit"}} { // as in a virtual machine
		if (engine.Endpoint{Host: "unix://" + engine.UsualSocket}).IsHere(a) {
			t.Errorf("%+v is here", a)
		}
	}
}

// A run on another machine's engine, whose clock is far from ours: its stamps are by
// that clock, and the run knows how far it may be wrong about it.
func TestRunsElsewhere(t *testing.T) {
	enginetest.NoEngineSet(t)
	certs := t.TempDir()
	enginetest.NewAuthority(t).Write(t, certs, "both")
	dockerd(t, certs, "").use(certs)
	events := run(t, twoNodes, func(b bench) {
		if off := (b.ahead - clockAhead).Abs(); b.within == 0 || off > b.within {
			t.Errorf("the clock was taken to be %v ahead, to %v, and is %v", b.ahead, b.within, clockAhead)
		}
		t.Logf("measured to %v; stamps to %v", b.within, b.StampError())
		at := b.Now()
		if err := b.RunClient(t.Context(), spec("c1", 1), never); err != nil {
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
		t.Error("nothing was recorded")
	}
}
