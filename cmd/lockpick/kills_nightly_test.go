//go:build nightly && linux

package main

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockpick/scenarios/outcome"
)

// TestKills kills lockpick processes at random times, and ends others with SIGHUP or SIGTERM. The
// next process must remove everything that a killed process left behind; a process ended by a
// signal must leave nothing behind. Together with TestKillsOnDocker, there are a hundred kills and
// twenty signals of each kind. The environment variable KILLS_SEED selects other times.
func TestKills(t *testing.T) {
	killAndSignal(newKillEnv(t, killSeed(), false), []int{40, 0, 16, 16}, []int{10, 0, 4, 0})
}

func TestKillsOnDocker(t *testing.T) {
	needEngine(t)
	killAndSignal(newKillEnv(t, killSeed(), true), []int{0, 28, 0, 0}, []int{0, 6, 0, 0})
}

func killSeed() uint64 {
	seed, err := strconv.ParseUint(os.Getenv("KILLS_SEED"), 10, 64)
	if err != nil {
		return 1
	}
	return seed
}

// killAndSignal kills lockpick processes of each kind, and ends others with SIGHUP and with SIGTERM.
// kills and signals are the numbers of processes, by kind.
func killAndSignal(f *killEnv, kills, signals []int) {
	start := time.Now()
	for _, k := range f.kinds(kills[0], kills[1], kills[2], kills[3]) {
		f.kill(k)
	}
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		for _, k := range f.kinds(signals[0], signals[1], signals[2], signals[3]) {
			f.signal(k, sig)
		}
	}
	f.Logf("in %v", time.Since(start).Round(time.Second))
}

// TestSecondSignalEndsAtOnce checks that a second signal ends lockpick at once even if it is
// waiting for an unresponsive container engine, and that the next process removes what it left
// behind.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	needEngine(t)
	f := newKillEnv(t, 1, true)
	host, freeze := freezableSocket(t)
	cmd := f.newCommand("run", "baseline/", "--backend", "docker", "--scale", "1")
	cmd.Env = append(cmd.Env, "DOCKER_HOST=unix://"+host)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if paths, _ := filepath.Glob(filepath.Join(f.store, "baseline", "*-docker-*", "history.jsonl")); len(paths) > 0 && fileSize(paths[0]) > 10_000 {
			break
		}
	}
	freeze()
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-done:
		t.Fatal("lockpick cleaned up although the engine did not respond")
	case <-time.After(2 * time.Second):
	}
	cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-done:
	case <-time.After(2 * time.Second):
		cmd.Process.Kill()
		t.Error("lockpick continued after a second signal")
	}
	if code := cmd.ProcessState.ExitCode(); code != outcome.ExitInterrupt {
		t.Errorf("exit code %d", code)
	}
	if f.remains() == "" {
		t.Error("lockpick left nothing behind, so the test proves nothing")
	}
	f.runToEnd("run", "baseline/", "--backend", "docker", "--set", "workload.for=5s")
	if leftovers := f.awaitCleanup(); leftovers != "" {
		t.Errorf("not removed by the next process:\n%s", leftovers)
	}
}

// freezableSocket returns a socket that forwards to the container engine until freeze is called.
func freezableSocket(t *testing.T) (path string, freeze func()) {
	t.Helper()
	engine, ok := strings.CutPrefix(os.Getenv("DOCKER_HOST"), "unix://")
	if !ok {
		engine = "/var/run/docker.sock"
	}
	path = filepath.Join(t.TempDir(), "engine.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var flows sync.RWMutex // locked for writing while frozen
	forward := func(to, from net.Conn) {
		defer to.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := from.Read(buf)
			flows.RLock()
			_, err2 := to.Write(buf[:n])
			flows.RUnlock()
			if err != nil || err2 != nil {
				return
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			e, err := net.Dial("unix", engine)
			if err != nil {
				c.Close()
				continue
			}
			go forward(e, c)
			go forward(c, e)
		}
	}()
	return path, sync.OnceFunc(func() { flows.Lock(); t.Cleanup(flows.Unlock) })
}
