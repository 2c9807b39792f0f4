//go:build nightly && linux

package process

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// Members of a store form one cluster. They can be paused, killed and cut off like redis-servers,
// and each fault is read back with the store's own request.
func TestStores(t *testing.T) {
	for _, of := range proc.Stores {
		t.Run(of.Name, func(t *testing.T) {
			if _, err := exec.LookPath(of.Program); err != nil {
				t.Skipf("%s is not on PATH: %s", of.Program, of.Remedy)
			}
			s := twoNodes
			s.Topology = scenario.Topology{Nodes: 3, Server: of.Name, Persistence: scenario.PersistAlways}
			events := runOn(t, s, func(b testRun) {
				if r := b.NodeReport(); r.ReportsKeys || !strings.HasPrefix(r.ServerVersion, of.Name+" ") {
					t.Errorf("reports keys: %v; version %q", r.ReportsKeys, r.ServerVersion)
				}
				word := "GET " + of.ProbePath
				for _, c := range []struct{ mode, want string }{
					{nemesis.CutHold, word + " got no answer: "}, {nemesis.CutDrop, word + " got no answer: "},
					{nemesis.CutReset, word + " was reset"}, {nemesis.CutRefuse, word + " was refused"},
				} {
					if readback := b.mustDo("cut", func() (string, error) { return b.Cut("c1-n1", c.mode, "") }); !strings.HasPrefix(readback, c.want) {
						t.Errorf("%s: cut returned %q", c.mode, readback)
					}
					if readback := b.mustDo("mend", func() (string, error) { return b.Mend("c1-n1") }); readback != word+" was answered" {
						t.Errorf("%s: restore returned %q", c.mode, readback)
					}
				}
				if readback := b.mustDo("cut", func() (string, error) { return b.Cut("c1-r1", nemesis.CutReset, "") }); readback != "PING was reset" {
					t.Errorf("cut of the resource's link returned %q", readback)
				}
				b.mustDo("pause", func() (string, error) { return b.Pause("n2") })
				if !b.isUnresponsive("n2") || b.isUnresponsive("n1") {
					t.Error("want only n2 to be unresponsive")
				}
				b.mustDo("resume", func() (string, error) { return b.Resume("n2") })
				b.mustDo("kill", func() (string, error) { return b.Kill("n1") })
				if readback := b.mustDo("mend", func() (string, error) { return b.Mend("c2-n2") }); readback != word+" was answered" {
					t.Errorf("mend with two of three members running returned %q", readback)
				}
				// One of three is not a majority: the member is running, but doesn't answer
				// clients.
				b.mustDo("kill", func() (string, error) { return b.Kill("n3") })
				b.mustDo("restart", func() (string, error) { return b.Restart("n1") })
				b.mustDo("restart", func() (string, error) { return b.Restart("n3") })
				m := b.Server("n1").Redis()
				if err := m.AwaitReady(b.Ctx, nil, answerTimeout/100, func(ctx context.Context) error { return of.Ask(ctx, m.Addr()) }); err != nil {
					t.Errorf("n1 did not answer after its restart: %v", err)
				}
			})
			for _, e := range events {
				if e.Op == history.OpLife {
					t.Fatalf("unexpected event: %+v", e)
				}
			}
		})
	}
}

// If a store's program fails to start, the error includes the end of the program's output.
func TestStoreThatFailsToStart(t *testing.T) {
	needRedis(t)
	dir := t.TempDir()
	of := proc.Stores[0]
	if err := os.WriteFile(dir+"/"+of.Program, []byte("#!/bin/sh\n[ \"$1\" = --version ] && { echo etcd Version: 9.9; exit; }\necho out of order >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	s := twoNodes
	s.Topology = scenario.Topology{Nodes: 2, Server: of.Name}
	err := testBackend(t.TempDir()).Run(t.Context(), s, 1, history.NewRecorder(os.Stderr), nil)
	if err == nil || !strings.Contains(err.Error(), "out of order") {
		t.Errorf("run: %v", err)
	}
}

// TestVeryManyStarts is a longer version of TestManyStarts.
func TestVeryManyStarts(t *testing.T) { testManyStarts(t, 50) }
