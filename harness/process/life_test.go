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
func describeKeyChanges(events []history.Event, node string) string {
	var out []string
	for _, e := range events {
		if e.Life == nil || e.Process != node {
			continue
		}
		l := e.Life
		by := l.Sender
		if strings.Contains(by, ":") {
			by = "stranger"
		}
		out = append(out, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s by %s %s", l.Kind, e.Key, l.Value, by, l.Replacement)), " "))
	}
	return strings.Join(out, "; ")
}

func (b testRun) wantKeyChanges(events []history.Event, node, want string) {
	b.Helper()
	if got := describeKeyChanges(events, node); got != want {
		b.Errorf("%s reported:\n%s\nwant:\n%s", node, got, want)
	}
}

// awaitKeyChange waits until a node's last recorded key change has the given description.
func (b testRun) awaitKeyChange(node, last string) {
	b.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		got := describeKeyChanges(*b.events, node)
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
				b.mustDo("cut", func() (string, error) { return b.Cut("n1-replica", nemesis.CutHold, "") })
				b.askViaLink("c1", 0, "SET", "late", "v", "PX", "600000")
				b.awaitKeyChange("n1", "set late v by c1-n1") // changes not reported before the node stops become a gap
				b.mustDo("fail over", func() (string, error) { return fail(b) })
				b.askViaLink("c1", 0, "SET", "late", "w", "NX", "PX", "600000")
			})
			in.wantKeyChanges(events, "n1", "set early v by c1-n1; set late v by c1-n1; gap by; kept early v by failover; lost late by failover; set late w by c1-n1")
		})
	}
}

// If a power loss restores an earlier value of a key, this is reported.
func TestPowerLossReportsKeys(t *testing.T) {
	needDisk(t)
	var in testRun
	events := runOn(t, withTopology("everysec", 0, powerLossN1), func(b testRun) {
		in = b
		b.waitFor(1100 * time.Millisecond) // the first write in a new second is synced at once
		b.askViaLink("c1", 0, "SET", "k", "old", "PX", "600000")
		b.awaitSync(b.Server("n1").Addr())
		b.askViaLink("c1", 0, "SET", "k", "new", "PX", "600000")
		b.askViaLink("c1", 0, "SET", "j", "new", "PX", "600000")
		b.mustDo("cut power", func() (string, error) { return b.LosePower("n1", false) })
		b.mustDo("restart", func() (string, error) { return b.Restart("n1") })
	})
	in.wantKeyChanges(events, "n1", "set k old by c1-n1; changed k new by c1-n1; set j new by c1-n1; gap by; lost j by restart; reverted k old by restart")
}

// Reports contain the reading of the node's own, wrong clock and the true time seen by its links.
// Each clock change is recorded with what the clock shows right after it.
func TestKeyReportsWithWrongClocks(t *testing.T) {
	var c *cluster
	events := runWithClocks(t, 1, func(b testRun) {
		c = b.cluster
		b.askViaLink("c1", 0, "SET", "k", "a", "PX", "600000")
		b.changeClock("n1", 5*time.Second, 1)
		b.askViaLink("c1", 0, "SET", "k", "b", "PX", "600000")
		b.changeClock("n1", -8*time.Second, 1)
		b.askViaLink("c1", 0, "SET", "k", "c", "PX", "600000")
		b.changeClock("n1", 0, 1.5)
		b.waitFor(200 * time.Millisecond)
		b.askViaLink("c1", 0, "SET", "k", "d", "PX", "600000")
	})
	var rateChange int64 // when the clock's rate was set to 1.5; the time gained since then is subtracted
	correctedBounds := func(e history.Event, lo, hi int64) bounds {
		at := func(t int64) time.Duration {
			d := e.Local - c.NodeReport().Epoch - t
			if rateChange > 0 {
				d -= (t - rateChange) / 2
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
			ahead = append(ahead, correctedBounds(e, e.Life.MinT, e.Life.MaxT))
		case e.Op == history.OpClock:
			if turns = append(turns, correctedBounds(e, e.T, e.T)); len(turns) == 3 {
				rateChange = e.T
			}
			if e.Node != "n1" || !e.WallClock || e.Process != history.Nemesis || e.Type != history.Info || (e.Drift == 500_000_000) != (len(turns) == 3) {
				t.Errorf("clock change %d is %+v", len(turns), e)
			}
		}
	}
	wantAhead := func(got []bounds, want ...time.Duration) {
		t.Helper()
		for i := range want {
			if len(got) != len(want) || !got[i].allows(want[i]) {
				t.Errorf("the clock was ahead by %v, want %v", got, want)
				return
			}
		}
	}
	wantAhead(turns, 5*time.Second, -3*time.Second, -3*time.Second)
	wantAhead(ahead, 0, 5*time.Second, -3*time.Second, -3*time.Second)
	i := 0
	for _, e := range events {
		if e.Op != history.OpLife {
			continue
		}
		// The node may report the change before the link has seen the reply, which then gives a
		// bound.
		if w := wire[i]; e.SentAt != w.SentAt || e.T < e.Life.MinT || e.T > e.Life.MaxT || e.Life.MinT < w.SentAt || e.Life.MinT > w.AppliedAt {
			t.Errorf("change %d was reported at %d within [%d, %d], but the link saw the command within [%d, %d]", i+1, e.T, e.Life.MinT, e.Life.MaxT, w.SentAt, w.AppliedAt)
		}
		if remaining := e.Life.Expiry - e.Local; remaining > int64(600*time.Second) || remaining < int64(599*time.Second) {
			t.Errorf("after change %d, the key has a TTL of %v", i+1, time.Duration(remaining))
		}
		i++
	}
}

// Changes that lockpick itself makes to a key, bypassing the links, are attributed to lockpick. A
// pause delays reports, but none are lost.
func TestKeyReportsWithTouchAndPause(t *testing.T) {
	var in testRun
	events := run(t, func(b testRun) {
		in = b
		b.mustDo("touch", func() (string, error) { return b.Touch("n1") })
		b.askViaLink("c1", 0, "SET", "k", "v")
		b.mustDo("pause", func() (string, error) { return b.Pause("n1") })
		answered := make(chan string)
		go func() { answered <- b.askViaLink("c1", 0, "DEL", "k") }()
		b.waitFor(50 * time.Millisecond)
		b.mustDo("resume", func() (string, error) { return b.Resume("n1") })
		<-answered
	})
	got := describeKeyChanges(events, "n1")
	if want := "by harness; set k v by c1-n1; deleted k by c1-n1"; !strings.HasPrefix(got, "set lockpick-touched ") || !strings.HasSuffix(got, want) {
		in.Errorf("n1 reported: %s", got)
	}
	if got := describeKeyChanges(events, "n2"); got != "" {
		t.Errorf("n2 reported: %s", got)
	}
}

// runEngine runs the engine, calls onEvent for each event, and returns the recorded events.
func runEngine(t *testing.T, ctx context.Context, b *backend, onEvent func(history.Event)) ([]history.Event, error) {
	t.Helper()
	var events []history.Event
	rec := history.NewRecorder(&strings.Builder{})
	rec.Watch(func(e history.Event) {
		events = append(events, e)
		onEvent(e)
	})
	s := twoNodes
	s.Limit, s.Workload.For, s.Workload.Cycles, s.Workload.Writes = time.Minute, time.Minute-1, 3, 1
	s.Clients = s.Clients[:1]
	s.Lock = clientSpec("c1", 0).Lock
	s.Lock.Timeout = 50 * time.Millisecond
	s.Workload.Fence = "none"
	err := harness.Run(ctx, b, s, 1, rec)
	return events, err
}

// All of a run's reports come before its end, and its first event says that nodes report changes.
func TestRunReportsAllKeyChanges(t *testing.T) {
	needRedis(t)
	events, err := runEngine(t, t.Context(), testBackend(t.TempDir()), func(history.Event) {})
	if err != nil {
		t.Fatal(err)
	}
	first, last := events[0], events[len(events)-1]
	if first.Op != history.OpRun || first.Params == nil || !first.Params.ReportsKeys || time.Since(time.Unix(0, first.Params.Epoch)).Abs() > time.Minute {
		t.Errorf("the first event is %+v, %+v", first, first.Params)
	}
	if last.Op != history.OpRun || last.Type != history.End {
		t.Errorf("the last event is %+v", last)
	}
	numAcquired, numSet, numDeleted := 0, 0, 0
	for _, e := range events {
		switch {
		case e.Op == history.OpAcquire && e.Type == history.OK:
			numAcquired++
		case e.Life != nil && e.Life.Kind == history.KeySet:
			numSet++
		case e.Life != nil && e.Life.Kind == history.KeyDeleted:
			numDeleted++
		case e.Life != nil:
			t.Errorf("unexpected key change: %+v", *e.Life)
		}
	}
	if numAcquired != 3 || numSet != 6 || numDeleted != 6 {
		t.Errorf("%d grants, %d keys set, %d keys deleted; want 3, 6, 6", numAcquired, numSet, numDeleted)
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
	if err != nil || len(events) == 0 || events[0].Params == nil || events[0].Params.ReportsKeys {
		t.Errorf("the run ended with %v and %d events", err, len(events))
	}
	c := b.probeKeyReports(t.Context())
	if c.Available || !strings.Contains(c.Reason, "CONFIG") || c.Remedy == "" {
		t.Errorf("Probe returned %+v", c)
	}
}

// The history of an interrupted run contains everything that was reported before the interrupt.
func TestInterruptedRunKeepsKeyReports(t *testing.T) {
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
		if got := describeKeyChanges(events, node); !strings.HasPrefix(got, "set lock-1 c1 by c1-"+node) {
			t.Errorf("%s reported %q", node, got)
		}
	}
}
