//go:build linux

package proc

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockpick/internal/files"
)

func redisServer(t *testing.T) string {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not on PATH: apt-get install redis-server")
	}
	return bin
}

func newGroup(t *testing.T) *Group {
	t.Helper()
	g, err := NewGroup(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

func TestRestartKeepsPersistedKeys(t *testing.T) {
	bin := redisServer(t)
	g := newGroup(t)
	for mode, want := range map[string]string{"none": " (keys: 0)", "always": " (keys: 1)"} {
		r, err := g.StartRedis(t.Context(), mode, bin, mode)
		if err != nil {
			t.Fatal(err)
		}
		addr := r.Addr()
		if v, err := Ask(t.Context(), addr, "SET", "k", "v"); err != nil || v.Str != "OK" {
			t.Fatal(v, err)
		}
		if _, err := r.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := Ask(t.Context(), addr, "PING"); err == nil {
			t.Errorf("%s: a killed server answers", mode)
		}
		back, err := r.Restart(t.Context())
		if err != nil || !strings.HasSuffix(back, want) || r.Addr() != addr {
			t.Errorf("%s: restart at %s returned %q, %v; want%s at %s", mode, r.Addr(), back, err, want, addr)
		}
	}
}

func TestStartErrors(t *testing.T) {
	bin := redisServer(t)
	g := newGroup(t)
	r, err := g.StartRedis(t.Context(), "n1", bin, "none")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Another server takes the port before the restart.
	l, err := net.Listen("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := r.Restart(t.Context()); !errors.Is(err, errPortTaken) {
		t.Errorf("restart on a taken port: %v", err)
	}
	if _, err := g.StartRedis(t.Context(), "n2", "/bin/false", "none"); err == nil || !strings.Contains(err.Error(), "n2") {
		t.Errorf("start of a program that exits: %v", err)
	}
	if _, err := g.StartRedis(t.Context(), "n3", bin, "sometimes"); err == nil || !strings.Contains(err.Error(), "everysec") {
		t.Errorf("unknown persistence: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.StartRedis(ctx, "n4", bin, "none"); !errors.Is(err, context.Canceled) {
		t.Errorf("start after cancel: %v", err)
	}
}

func TestReadyRejectsOtherServer(t *testing.T) {
	bin := redisServer(t)
	g := newGroup(t)
	other, err := g.StartRedis(t.Context(), "other", bin, "none")
	if err != nil {
		t.Fatal(err)
	}
	// sleeper is a live process, but another server answers on its port.
	sleeper, err := g.Start("sleeper", exec.Command("/bin/sleep", "60"))
	if err != nil {
		t.Fatal(err)
	}
	r := &Redis{Server: Server{Name: "n1", HostPort: other.Addr(), Ask: Ask}, group: g}
	if err := r.awaitReady(t.Context(), sleeper); !errors.Is(err, errPortTaken) {
		t.Errorf("another server's answer was accepted: %v", err)
	}
}

func TestStopAndContinue(t *testing.T) {
	g := newGroup(t)
	c, err := g.Start("sleeper", exec.Command("/bin/sleep", "60"))
	if err != nil {
		t.Fatal(err)
	}
	state := func() string {
		s, err := threadStates(c.PID())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for range 20 {
		if back, err := c.Stop(); err != nil || state() != "T" {
			t.Fatalf("stop: %q, %v, then %q", back, err, state())
		}
		if back, err := c.Continue(); err != nil || state() == "T" {
			t.Fatalf("continue: %q, %v, then %q", back, err, state())
		}
	}
	if _, err := c.Stop(); err != nil { // a stopped process can be killed too
		t.Fatal(err)
	}
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Stop(); !errors.Is(err, ErrEnded) {
		t.Errorf("stop of a dead process: %v", err)
	}
	if err := c.Kill(); err != nil {
		t.Errorf("second kill: %v", err)
	}
	if c.Err() == nil {
		t.Error("no error after SIGKILL")
	}
}

func TestCloseKillsChildren(t *testing.T) {
	g, err := NewGroup(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c, err := g.Start("sleeper", exec.Command("/bin/sleep", "60"))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if files.ProcessRuns(c.pid, c.start) {
		t.Error("the child is still running")
	}
	if _, err := os.Stat(g.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory still exists: %v", err)
	}
	if _, err := g.Start("late", exec.Command("/bin/true")); err == nil {
		t.Error("a child started after Close")
	}
}

func TestTrueClockAdvances(t *testing.T) {
	a, wall := TrueClock(), time.Now()
	b, elapsed := TrueClock(), time.Since(wall)
	if b < a || b-a > elapsed+time.Second {
		t.Errorf("TrueClock went from %v to %v within %v", a, b, elapsed)
	}
}
