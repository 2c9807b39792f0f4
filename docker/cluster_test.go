//go:build linux

package docker

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/nemesis"
)

func ignorePoint(string) {}

func TestRunsClientsAndRecordsBothSides(t *testing.T) {
	events := run(t, twoNodes, func(b testRun) {
		for range 2 { // the second run uses another process
			if err := b.RunClient(t.Context(), newSpec("c1", 1), ignorePoint); err != nil {
				t.Error(err)
			}
		}
		if err := b.RunClient(t.Context(), newSpec("c2", 1), ignorePoint); err != nil {
			t.Error(err)
		}
		s := newSpec("c1", 1)
		s.Lock.Kind = "padlock"
		if err := b.RunClient(t.Context(), s, ignorePoint); err == nil || !strings.Contains(err.Error(), `unknown kind "padlock"`) {
			t.Errorf("unknown lock: %v", err)
		}
	})
	count := map[string]int{}
	for _, e := range events {
		count[fmt.Sprint(e.Process, " ", e.Op, " ", e.Type)]++
		if e.T <= 0 || e.T > int64(time.Minute) {
			t.Errorf("T of %+v is not true time since the start", e)
		}
	}
	for what, n := range map[string]int{
		"c1 acquire ok": 2, "c1 release ok": 2, "c1 client end": 2, "c2 client end": 1,
		"c1-n1 set ok": 2, "c1-n1 release ok": 2, "c1-n2 set ok": 2, "c2-n2 set ok": 1, "c2-n1 set ok": 0,
	} {
		if count[what] != n {
			t.Errorf("%q occurred %d times, want %d", what, count[what], n)
		}
	}
}

func TestPausedClientDoesNothing(t *testing.T) {
	run(t, twoNodes, func(b testRun) {
		resumed := make(chan time.Duration, 1)
		err := b.RunClient(t.Context(), newSpec("c1", 1, client.Point{Name: client.AfterAcquire, Nth: 1}), func(string) {
			if back := b.do("pause", func() (string, error) { return b.Pause("c1") }); !strings.Contains(back, "is paused") {
				t.Errorf("pause returned %q", back)
			}
			if _, err := b.Pause("c1"); err == nil {
				t.Error("no error when pausing a client twice")
			}
			b.At(b.Now()+50*time.Millisecond, func() {
				at := b.Now()
				b.do("resume", func() (string, error) { return b.Resume("c1") })
				resumed <- at // the client may have exited in the meantime, but the run has not ended
			})
		})
		if err != nil {
			t.Error(err)
		}
		since := receive(t, "resumption", resumed)
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, e := range *b.events {
			if e.Process == "c1" && e.Op == history.OpRelease && time.Duration(e.T) < since {
				t.Errorf("client recorded %v %v at %v, but was paused until %v", e.Op, e.Type, time.Duration(e.T), since)
			}
		}
		if _, err := b.Pause("c1"); !errors.Is(err, nemesis.ErrEnded) {
			t.Errorf("Pause of an exited client returned %v", err)
		}
	})
}

func TestKilledClientReturnsErrKilled(t *testing.T) {
	run(t, twoNodes, func(b testRun) {
		err := b.RunClient(t.Context(), newSpec("c1", 1, client.Point{Name: client.AfterAcquire}), func(string) {
			b.do("pause", func() (string, error) { return b.Pause("c1") }) // Kill must work on a paused client
			b.do("kill", func() (string, error) { return b.Kill("c1") })
		})
		if !errors.Is(err, harness.ErrKilled) {
			t.Errorf("got %v, want harness.ErrKilled", err)
		}
		if back := b.do("resume", func() (string, error) { return b.Resume("c1") }); back != "it has ended" {
			t.Errorf("resume returned %q", back)
		}
	})
}

// A killed node keeps its address and its persisted data. While it is down, its links refuse connections;
// after a restart, they work again.
func TestNodesRestart(t *testing.T) {
	t.Parallel() // mostly waits
	for mode, keys := range map[string]string{"none": " (keys: 0)", "always": " (keys: 1)"} {
		s := twoNodes
		s.Topology.Persistence = mode
		run(t, s, func(b testRun) {
			addrs, _ := b.Addresses("c1")
			link := addrs.Nodes[0].Addr
			for what, end := range map[string]func(string) (string, error){"kill": b.Kill, "shut down": b.Shutdown} {
				if _, err := b.testbed.ask(t.Context(), link, "SET", "k", "v"); err != nil {
					t.Fatal(err)
				}
				b.do(what, func() (string, error) { return end("n1") })
				if _, err := end("n1"); err == nil {
					t.Errorf("%s: no error for a dead node", what)
				}
				if _, err := b.Touch("n1"); err == nil {
					t.Errorf("%s: a dead node answered", what)
				}
				start := time.Now()
				if _, err := b.testbed.ask(t.Context(), link, "PING"); err == nil || time.Since(start) > time.Second {
					t.Errorf("%s: link returned %v after %v", what, err, time.Since(start))
				}
				back := b.do("restart", func() (string, error) { return b.Restart("n1") })
				if !strings.HasSuffix(back, keys) {
					t.Errorf("%s, persistence %s: restart returned %q, want %q", what, mode, back, keys)
				}
				if v, err := b.testbed.ask(t.Context(), link, "PING"); err != nil || v.Str != "PONG" {
					t.Errorf("%s: after the restart, link returned %q, %v", what, v.Str, err)
				}
			}
			if _, err := b.Restart("n1"); err == nil {
				t.Error("no error when restarting a running node")
			}
		})
	}
}

func TestPausedNodeAndCutReadBacks(t *testing.T) {
	run(t, twoNodes, func(b testRun) {
		b.do("pause", func() (string, error) { return b.Pause("n1") })
		b.do("cut", func() (string, error) { return b.Cut("c1-n1", "", "") })
		if back := b.do("mend", func() (string, error) { return b.Mend("c1-n1") }); !strings.Contains(back, "the node is stopped") {
			t.Errorf("mend returned %q", back)
		}
		b.do("resume", func() (string, error) { return b.Resume("n1") })
		for _, c := range []struct{ link, mode, way, want string }{
			{"c1-n1", "", "", "PING got no answer: "},
			{"c1-n2", nemesis.CutDrop, nemesis.Reply, "PING got no answer, though the node gave one"},
			{"c1-r1", nemesis.CutReset, "", "PING was reset"},
			{"c2-n2", nemesis.CutRefuse, "", "PING was refused"},
		} {
			if back := b.do("cut", func() (string, error) { return b.Cut(c.link, c.mode, c.way) }); !strings.HasPrefix(back, c.want) {
				t.Errorf("%+v: cut returned %q", c, back)
			}
			if back := b.do("mend", func() (string, error) { return b.Mend(c.link) }); back != "PING was answered" {
				t.Errorf("%+v: restore returned %q", c, back)
			}
		}
		slow := nemesis.Traffic{DelayMin: 20 * time.Millisecond, DelayMax: 30 * time.Millisecond}
		b.do("shape", func() (string, error) { return b.Shape("c1-n1", slow) })
		if _, err := b.Unshape("c1-n1", slow); !errors.Is(err, nemesis.ErrIdle) {
			t.Errorf("Unshape of a shape without traffic returned %v", err)
		}
	})
}
