//go:build linux

package keylife_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockpick/harness/history"
)

// kill kills the node as a fault does.
func (b *testNode) kill() {
	b.Helper()
	b.recorder.ExpectEnd("n1", false)
	if _, err := b.node.Kill(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// restart restarts the node while its links are held.
func (b *testNode) restart() {
	b.Helper()
	defer b.mesh.Gate("n1")()
	if _, err := b.node.Restart(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.recorder.Reattach("n1", b.node.Addr(), history.Restart)
}

// The loss of keys is recorded while the links are held, before any client can set these keys
// again. Facts from just before the node's death may be missing, so a gap is recorded.
func TestKilledNodeLosesKeys(t *testing.T) {
	b := newTestNode(t, "none")
	b.watch()
	c := b.client("c1")
	c.do("SET", "k", "a", "PX", "60000")
	c.do("SET", "short", "a", "PX", "50")
	b.waitFor(history.KeySet, "short")
	b.kill()
	time.Sleep(60 * time.Millisecond) // the key "short" expires while the node is down
	b.restart()
	b.client("c2").do("SET", "k", "b", "NX", "PX", "60000")
	b.wantFacts(`
set k "a" was "" by c1-n1 set
set short "a" was "" by c1-n1 set
gap "" was "" by
lost k "" was "a" by restart
expired short "" was "a" by
set k "b" was "" by c2-n1 set
`)
	facts := b.factsSoFar()
	set, gap, lost, nextSet := facts[1], facts[2], facts[3], facts[5]
	if gap.Life.MinT < set.Life.MinT || gap.Life.MaxT < gap.Life.MinT || gap.Life.RunID != set.Life.RunID {
		t.Errorf("gap in run %s at [%d, %d], after a fact in run %s at [%d, %d]", gap.Life.RunID, gap.Life.MinT, gap.Life.MaxT, set.Life.RunID, set.Life.MinT, set.Life.MaxT)
	}
	if lost.Life.RunID == set.Life.RunID || lost.Life.MinT < gap.Life.MaxT || lost.Life.OldExpiry != facts[0].Life.Expiry || nextSet.T < lost.T {
		t.Errorf("loss %+v at %d, next fact at %d", *lost.Life, lost.T, nextSet.T)
	}
}

// After a restart, persisted keys are recorded as unchanged, including their expiry.
func TestRestartKeepsPersistedKeys(t *testing.T) {
	b := newTestNode(t, "always")
	b.watch()
	c := b.client("c1")
	c.do("SET", "k", "a", "PX", "60000")
	c.do("HSET", "h", "f", "v", "g", "w")
	c.do("RPUSH", "l", "x", "y")
	b.waitFor(history.KeySet, "l")
	b.kill()
	b.restart()
	c = b.client("c2")
	c.do("DEL", "l")
	if got := formatFacts(b.allFacts()); !strings.HasSuffix(got, `gap "" was "" by
kept h "f v g w" was "f v g w" by restart
kept k "a" was "a" by restart
kept l "x y" was "x y" by restart
deleted l "" was "x y" by c2-n1 del
`) {
		t.Errorf("recorded:\n%s", got)
	}
	if wantExpiry := b.direct("PEXPIRETIME", "k").Int * 1e6; b.factsSoFar()[5].Life.Expiry != wantExpiry {
		t.Errorf("k expires at %d, recorded %d", wantExpiry, b.factsSoFar()[5].Life.Expiry)
	}
}

// An old data file brings back old values, as after a power loss.
func TestRestoredFileRevertsKeys(t *testing.T) {
	b := newTestNode(t, "always")
	b.watch()
	c := b.client("c1")
	c.do("SET", "k", "old", "PX", "60000")
	c.do("SET", "gone", "x")
	oldData := b.copyData()
	c.do("SET", "k", "new", "PX", "60000")
	c.do("DEL", "gone")
	b.waitFor(history.KeyDeleted, "gone")
	b.kill()
	b.restoreData(oldData)
	b.restart()
	got := formatFacts(b.allFacts())
	if !strings.HasSuffix(got, "appeared gone \"x\" was \"\" by restart\nreverted k \"old\" was \"new\" by restart\n") {
		t.Errorf("recorded:\n%s", got)
	}
}

// A node that shuts down cleanly reports everything.
func TestShutdownLeavesNoGap(t *testing.T) {
	b := newTestNode(t, "none")
	b.watch()
	c := b.client("c1")
	for i := range 200 {
		c.do("SET", fmt.Sprintf("k%03d", i), "v")
	}
	b.recorder.ExpectEnd("n1", true)
	if _, err := b.node.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.restart()
	facts := b.allFacts()
	counts := map[history.Change]int{}
	for _, e := range facts {
		counts[e.Life.Kind]++
	}
	if counts[history.KeySet] != 200 || counts[history.KeyLost] != 200 || len(facts) != 400 {
		t.Errorf("facts by kind: %v, want 200 sets and 200 losses", counts)
	}
}

// The connection to the node is cut; later, the node is killed and restarted. Neither is announced.
// Recording resumes, and gaps show where facts may be missing.
func TestUnannouncedRestart(t *testing.T) {
	b := newTestNode(t, "none")
	b.watch()
	c := b.client("c1")
	c.do("SET", "a", "1")
	b.waitFor(history.KeySet, "a")
	s := b.directClient()
	if got := s.do("CLIENT", "KILL", "TYPE", "pubsub").Int; got != 1 {
		t.Fatalf("%d connections were cut, want 1", got)
	}
	c.do("SET", "b", "1")
	b.waitFor(history.KeySet, "b")
	if _, err := b.node.Kill(b.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.node.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.waitFor(history.KeyLost, "b")
	b.client("c2").do("SET", "c", "1")
	facts := b.allFacts()
	var gaps, runs []string
	seen := map[string]bool{}
	for _, e := range facts {
		if e.Life.Kind == history.KeyGap {
			gaps = append(gaps, e.Life.RunID)
		}
		if !slices.Contains(runs, e.Life.RunID) {
			runs = append(runs, e.Life.RunID)
		}
		seen[string(e.Life.Kind)+" "+e.Key] = true
	}
	if len(gaps) < 3 || len(runs) != 2 {
		t.Errorf("%d gaps in %d server processes:\n%s", len(gaps), len(runs), formatFacts(facts))
	}
	for _, want := range []string{"set a", "set b", "lost a", "lost b", "set c"} {
		if !seen[want] {
			t.Errorf("missing fact %s:\n%s", want, formatFacts(facts))
		}
	}
}

// timestampError is the maximum error in the process backend's timestamps. Several goroutines take
// timestamps, so that on a busy machine a later event may get an earlier one.
const timestampError = int64(time.Millisecond)

// Every answered command is either recorded or falls into a gap.
func TestKilledUnderLoad(t *testing.T) {
	b := newTestNode(t, "none")
	b.watch()
	for round := range 5 {
		var wg sync.WaitGroup
		answers := make(chan bool, 50) // the node is killed after this many answers
		for i := range 3 {
			c := b.client(fmt.Sprint("c", i))
			wg.Go(func() {
				for k := 0; ; k++ {
					token := fmt.Sprintf("%d-%d-%d", round, i, k)
					if v, err := c.try("SET", token, token, "NX", "PX", "60000"); err != nil || v.Str != "OK" {
						return
					}
					select {
					case answers <- true:
					default:
					}
				}
			})
		}
		for range cap(answers) {
			select {
			case <-answers:
			case <-time.After(5 * time.Second):
				t.Fatal("no further answer within 5s")
			}
		}
		b.kill()
		wg.Wait()
		b.restart()
		recorded := map[string]bool{}
		var gap history.Event
		for _, e := range b.factsSoFar() {
			if e.Life.Kind == history.KeySet {
				recorded[e.Key] = true
			}
			if e.Life.Kind == history.KeyGap {
				gap = e
			}
		}
		b.mu.Lock()
		for _, w := range b.linkEvents {
			if w.Type == history.OK && !recorded[w.Key] && (w.AppliedAt < gap.Life.MinT-timestampError || w.AppliedAt > gap.Life.MaxT+timestampError) {
				t.Errorf("%s was set at %d but neither recorded nor in the gap [%d, %d]", w.Key, w.AppliedAt, gap.Life.MinT, gap.Life.MaxT)
			}
		}
		b.mu.Unlock()
		clear(b.linkEvents)
		b.linkEvents = nil
	}
	b.allFacts()
}

// Clients change keys while the connection is cut and the node is read again. In the end, the
// recorded state still matches the node.
func TestReattachUnderTraffic(t *testing.T) {
	b := newTestNode(t, "none")
	b.watch()
	var wg sync.WaitGroup
	var stopped atomic.Bool
	for i := range 3 {
		c := b.client(fmt.Sprint("c", i))
		wg.Go(func() {
			for k := 0; !stopped.Load(); k++ {
				key := fmt.Sprint("k", k%7)
				c.try("SET", key, fmt.Sprintf("%d-%d", i, k), "NX", "PX", "60000")
				c.try("APPEND", key, "+")
				if k%3 == 0 {
					c.try("DEL", key)
				}
			}
		})
	}
	s := b.directClient()
	for cuts := 0; cuts < 10; {
		time.Sleep(10 * time.Millisecond)
		cuts += int(s.do("CLIENT", "KILL", "TYPE", "pubsub").Int)
	}
	stopped.Store(true)
	wg.Wait()
	for end := time.Now().Add(5 * time.Second); s.do("CLIENT", "LIST", "TYPE", "pubsub").Str == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the node is no longer watched")
		}
	}
	facts := b.allFacts()
	values, gaps := map[string]string{}, 0
	for _, e := range facts {
		if e.Life.Kind == history.KeyGap {
			gaps++
			continue
		}
		if e.Life.OldValue != values[e.Key] {
			t.Errorf("%s was %q, but the fact %q has the old value %q", e.Key, values[e.Key], e.Life.Kind, e.Life.OldValue)
		}
		values[e.Key] = e.Life.Value
	}
	for key, recorded := range values {
		if actual := b.direct("GET", key).Str; actual != recorded {
			t.Errorf("key %s is %q, recorded %q", key, actual, recorded)
		}
	}
	if gaps < 10 || len(values) != 7 {
		t.Errorf("%d gaps, %d keys", gaps, len(values))
	}
}
