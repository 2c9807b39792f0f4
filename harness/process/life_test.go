//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/nemesis"
)

// describeKeyChanges describes the recorded changes to a node's keys.
func describeLives(events []history.Event, node string) string {
	var out []string
	for _, e := range events {
		if e.Life == nil || e.Process != node {
			continue
		}
		l := e.Life
		by := l.By
		if strings.Contains(by, ":") {
			by = "stranger"
		}
		out = append(out, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s by %s %s", l.What, e.Key, l.Value, by, l.Why)), " "))
	}
	return strings.Join(out, "; ")
}

func (b testRun) wantLives(events []history.Event, node, want string) {
	b.Helper()
	if got := describeLives(events, node); got != want {
		b.Errorf("%s reported:\n%s\nwant:\n%s", node, got, want)
	}
}

// awaitKeyChange waits until a node's last recorded key change has the given description.
func (b testRun) awaitLife(node, last string) {
	b.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		got := describeLives(*b.events, node)
		b.mu.Unlock()
		if strings.HasSuffix(got, last) {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("%s reported:\n%s\nbut not %s", node, got, last)
		}
	}
}

// askViaLink sends a command to a node through a client's link.
func (b testRun) askViaLink(client string, node int, args ...string) string {
	b.Helper()
	return b.ask(b.addr(client, node), args...)
}

// When a replica replaces its master, keys that the replica doesn't have are reported as lost, and
// keys that it has as kept. Both are reported before any client reaches the replica.
func TestFailoverReportsKeys(t *testing.T) {
	for name, fail := range map[string]func(b testRun) (string, error){
		"by hand": func(b testRun) (string, error) { return b.FailOver("n1") },
		"killed":  func(b testRun) (string, error) { return b.FailOverBySentinel("n1", false) },
		"paused":  func(b testRun) (string, error) { return b.FailOverBySentinel("n1", true) },
	} {
		t.Run(name, func(t *testing.T) {
			needSentinel(t)
			t.Parallel()
			var in testRun
			events := runOn(t, withSentinels(), func(b testRun) {
				in = b
				replica := b.Replica("n1")
				b.askViaLink("c1", 0, "SET", "early", "v", "PX", "600000")
				for end := time.Now().Add(5 * time.Second); b.ask(replica.Addr(), "GET", "early") != "v"; time.Sleep(time.Millisecond) {
					if time.Now().After(end) {
						t.Fatal("the replica has not received its master's writes")
					}
				}
				b.do("cut", func() (string, error) { return b.Cut("n1-replica", nemesis.CutHold, "") })
				b.askViaLink("c1", 0, "SET", "late", "v", "PX", "600000")
				b.awaitLife("n1", "set late v by c1-n1") // changes not reported before the node stops become a gap
				b.do("fail over", func() (string, error) { return fail(b) })
				b.askViaLink("c1", 0, "SET", "late", "w", "NX", "PX", "600000")
			})
			in.wantLives(events, "n1", "set early v by c1-n1; set late v by c1-n1; gap by; kept early v by failover; lost late by failover; set late w by c1-n1")
		})
	}
}

// If a power loss restores an earlier value of a key, this is reported.
func TestPowerLossReportsKeys(t *testing.T) {
	needDisk(t)
	var in testRun
	events := runOn(t, withTopology("everysec", 0, powerLossN1), func(b testRun) {
		in = b
		b.pause(1100 * time.Millisecond) // the first write in a new second is synced at once
		b.askViaLink("c1", 0, "SET", "k", "old", "PX", "600000")
		b.awaitSync(b.Server("n1").Addr())
		b.askViaLink("c1", 0, "SET", "k", "new", "PX", "600000")
		b.askViaLink("c1", 0, "SET", "j", "new", "PX", "600000")
		b.do("cut power", func() (string, error) { return b.LosePower("n1", false) })
		b.do("restart", func() (string, error) { return b.Restart("n1") })
	})
	in.wantLives(events, "n1", "set k old by c1-n1; changed k new by c1-n1; set j new by c1-n1; gap by; lost j by restart; reverted k old by restart")
}

// Reports contain the reading of the node's own, wrong clock and the true time seen by its links.
// Each clock change is recorded with what the clock shows right after it.
func TestLivesWithWrongClocks(t *testing.T) {
	var c *cluster
	events := runWithClocks(t, 1, func(b testRun) {
		c = b.cluster
		b.askViaLink("c1", 0, "SET", "k", "a", "PX", "600000")
		b.changeClock("n1", 5*time.Second, 1)
		b.askViaLink("c1", 0, "SET", "k", "b", "PX", "600000")
		b.changeClock("n1", -8*time.Second, 1)
		b.askViaLink("c1", 0, "SET", "k", "c", "PX", "600000")
		b.changeClock("n1", 0, 1.5)
		b.pause(200 * time.Millisecond)
		b.askViaLink("c1", 0, "SET", "k", "d", "PX", "600000")
	})
	var turned int64 // when the clock's rate was set to 1.5; the time gained since then is subtracted
	correctedBounds := func(e history.Event, lo, hi int64) bounds {
		at := func(t int64) time.Duration {
			d := e.Local - c.NodeReport().Epoch - t
			if turned > 0 {
				d -= (t - turned) / 2
			}
			return time.Duration(d)
		}
		return bounds{at(hi), at(lo)}
	}
	var ahead, turns []bounds
	var wire []history.Event
	for _, e := range events {
		switch {
		case e.Op == history.OpSet:
			wire = append(wire, e)
		case e.Op == history.OpLife:
			ahead = append(ahead, correctedBounds(e, e.Life.Lo, e.Life.Hi))
		case e.Op == history.OpClock:
			if turns = append(turns, correctedBounds(e, e.T, e.T)); len(turns) == 3 {
				turned = e.T
			}
			if e.Node != "n1" || !e.Wall || e.Process != history.Nemesis || e.Type != history.Info || (e.Drift == 500_000_000) != (len(turns) == 3) {
				t.Errorf("clock change %d is %+v", len(turns), e)
			}
		}
	}
	near := func(got []bounds, want ...time.Duration) {
		t.Helper()
		for i := range want {
			if len(got) != len(want) || !got[i].allows(want[i]) {
				t.Errorf("the clock was ahead by %v, want %v", got, want)
				return
			}
		}
	}
	near(turns, 5*time.Second, -3*time.Second, -3*time.Second)
	near(ahead, 0, 5*time.Second, -3*time.Second, -3*time.Second)
	i := 0
	for _, e := range events {
		if e.Op != history.OpLife {
			continue
		}
		// The node may report the change before the link has seen the reply, which then gives a
		// bound.
		if w := wire[i]; e.Sent != w.Sent || e.T < e.Life.Lo || e.T > e.Life.Hi || e.Life.Lo < w.Sent || e.Life.Lo > w.Applied {
			t.Errorf("change %d was reported at %d within [%d, %d], but the link saw the command within [%d, %d]", i+1, e.T, e.Life.Lo, e.Life.Hi, w.Sent, w.Applied)
		}
		if left := e.Life.Expires - e.Local; left > int64(600*time.Second) || left < int64(599*time.Second) {
			t.Errorf("after change %d, the key has a TTL of %v", i+1, time.Duration(left))
		}
		i++
	}
}

// Changes that lockpick itself makes to a key, bypassing the links, are attributed to lockpick. A
// pause delays reports, but none are lost.
func TestLivesWithTouchAndPause(t *testing.T) {
	var in testRun
	events := run(t, func(b testRun) {
		in = b
		b.do("touch", func() (string, error) { return b.Touch("n1") })
		b.askViaLink("c1", 0, "SET", "k", "v")
		b.do("pause", func() (string, error) { return b.Pause("n1") })
		answered := make(chan string)
		go func() { answered <- b.askViaLink("c1", 0, "DEL", "k") }()
		b.pause(50 * time.Millisecond)
		b.do("resume", func() (string, error) { return b.Resume("n1") })
		<-answered
	})
	got := describeLives(events, "n1")
	if want := "by harness; set k v by c1-n1; deleted k by c1-n1"; !strings.HasPrefix(got, "set lockpick-touched ") || !strings.HasSuffix(got, want) {
		in.Errorf("n1 reported: %s", got)
	}
	if got := describeLives(events, "n2"); got != "" {
		t.Errorf("n2 reported: %s", got)
	}
}

// runEngine runs the engine, calls onEvent for each event, and returns the recorded events.
func runEngine(t *testing.T, ctx context.Context, b *backend, until func(history.Event)) ([]history.Event, error) {
	t.Helper()
	var events []history.Event
	rec := history.NewRecorder(&strings.Builder{})
	rec.Watch(func(e history.Event) {
		events = append(events, e)
		until(e)
	})
	s := twoNodes
	s.Limit, s.Workload.For, s.Workload.Cycles, s.Workload.Writes = time.Minute, time.Minute-1, 3, 1
	s.Clients = s.Clients[:1]
	s.Lock = spec("c1", 0).Lock
	s.Lock.Timeout = 50 * time.Millisecond
	s.Workload.Fence = "none"
	err := harness.Run(ctx, b, s, 1, rec)
	return events, err
}

// All of a run's reports come before its end, and its first event says that nodes report changes.
func TestRunReportsAllLives(t *testing.T) {
	needRedis(t)
	events, err := runEngine(t, t.Context(), testBackend(t.TempDir()), func(history.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	first, last := events[0], events[len(events)-1]
	if first.Op != history.OpRun || first.Params == nil || !first.Params.Life || time.Since(time.Unix(0, first.Params.Epoch)).Abs() > time.Minute {
		t.Errorf("the first event is %+v, %+v", first, first.Params)
	}
	if last.Op != history.OpRun || last.Type != history.End {
		t.Errorf("the last event is %+v", last)
	}
	acquired, set, deleted := 0, 0, 0
	for _, e := range events {
		switch {
		case e.Op == history.OpAcquire && e.Type == history.OK:
			acquired++
		case e.Life != nil && e.Life.What == history.KeySet:
			set++
		case e.Life != nil && e.Life.What == history.KeyDeleted:
			deleted++
		case e.Life != nil:
			t.Errorf("unexpected key change: %+v", *e.Life)
		}
	}
	if acquired != 3 || set != 6 || deleted != 6 {
		t.Errorf("%d grants, %d keys set, %d keys deleted; want 3, 6, 6", acquired, set, deleted)
	}
}

// A server that rejects CONFIG reports no changes. Runs work without reports, and Probe says so.
func TestServerWithoutKeyReports(t *testing.T) {
	needRedis(t)
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "redis-server")
	text := "#!/bin/sh\nexec " + bin + ` "$@" --rename-command CONFIG ""` + "\n"
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	b := New(Config{Self: []string{os.Args[0], "__client"}, Dir: t.TempDir(), RedisServer: script})
	events, err := runEngine(t, t.Context(), b, func(e history.Event) {
		if e.Life != nil {
			t.Errorf("unexpected key change: %+v", *e.Life)
		}
	})
	if err != nil || len(events) == 0 || events[0].Params == nil || events[0].Params.Life {
		t.Errorf("the run ended with %v and %d events", err, len(events))
	}
	c := b.canReportKeys(t.Context())
	if c.Available || !strings.Contains(c.Reason, "CONFIG") || c.Remedy == "" {
		t.Errorf("Probe returned %+v", c)
	}
}

// The history of an interrupted run contains everything that was reported before the interrupt.
func TestInterruptedRunKeepsLives(t *testing.T) {
	needRedis(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events, err := runEngine(t, ctx, testBackend(t.TempDir()), func(e history.Event) {
		if e.Op == history.OpAcquire && e.Type == history.OK {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the run ended with %v", err)
	}
	for _, node := range []string{"n1", "n2"} {
		if got := describeLives(events, node); !strings.HasPrefix(got, "set lock-1 c1 by c1-"+node) {
			t.Errorf("%s reported %q", node, got)
		}
	}
}
