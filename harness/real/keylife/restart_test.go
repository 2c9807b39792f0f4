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
func (b *bench) kill() {
	b.Helper()
	b.lives.ExpectEnd("n1", false)
	if _, err := b.node.Kill(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// restart restarts the node while its links are held.
func (b *bench) restart() {
	b.Helper()
	defer b.mesh.Gate("n1")()
	if _, err := b.node.Restart(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.lives.Reattach("n1", b.node.Addr(), history.Restart)
}

// The loss of keys is recorded while the links are held, before any client can set these keys
// again. Facts from just before the node's death may be missing, so a gap is recorded.
func TestKilledNodeLosesKeys(t *testing.T) {
	b := newBench(t, "none")
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
	set, gap, lost, reset := facts[1], facts[2], facts[3], facts[5]
	if gap.Life.Lo < set.Life.Lo || gap.Life.Hi < gap.Life.Lo || gap.Life.Run != set.Life.Run {
		t.Errorf("gap in run %s at [%d, %d], after a fact in run %s at [%d, %d]", gap.Life.Run, gap.Life.Lo, gap.Life.Hi, set.Life.Run, set.Life.Lo, set.Life.Hi)
	}
	if lost.Life.Run == set.Life.Run || lost.Life.Lo < gap.Life.Hi || lost.Life.Before != facts[0].Life.Expires || reset.T < lost.T {
		t.Errorf("loss %+v at %d, next fact at %d", *lost.Life, lost.T, reset.T)
	}
}

// After a restart, persisted keys are recorded as unchanged, including their expiry.
func TestRestartKeepsPersistedKeys(t *testing.T) {
	b := newBench(t, "always")
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
	if truth := b.direct("PEXPIRETIME", "k").Int * 1e6; b.factsSoFar()[5].Life.Expires != truth {
		t.Errorf("k expires at %d, recorded %d", truth, b.factsSoFar()[5].Life.Expires)
	}
}

// An old data file brings back old values, as after a power loss.
func TestRestoredFileRevertsKeys(t *testing.T) {
	b := newBench(t, "always")
	b.watch()
	c := b.client("c1")
	c.do("SET", "k", "old", "PX", "60000")
	c.do("SET", "gone", "x")
	keep := b.copyData()
	c.do("SET", "k", "new", "PX", "60000")
	c.do("DEL", "gone")
	b.waitFor(history.KeyDeleted, "gone")
	b.kill()
	b.restoreData(keep)
	b.restart()
	got := formatFacts(b.allFacts())
	if !strings.HasSuffix(got, "appeared gone \"x\" was \"\" by restart\nreverted k \"old\" was \"new\" by restart\n") {
		t.Errorf("recorded:\n%s", got)
	}
}

// A node that shuts down cleanly reports everything.
func TestShutdownLeavesNoGap(t *testing.T) {
	b := newBench(t, "none")
	b.watch()
	c := b.client("c1")
	for i := range 200 {
		c.do("SET", fmt.Sprintf("k%03d", i), "v")
	}
	b.lives.ExpectEnd("n1", true)
	if _, err := b.node.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.restart()
	facts := b.allFacts()
	count := map[history.Change]int{}
	for _, e := range facts {
		count[e.Life.What]++
	}
	if count[history.KeySet] != 200 || count[history.KeyLost] != 200 || len(facts) != 400 {
		t.Errorf("facts by kind: %v, want 200 sets and 200 losses", count)
	}
}

// The connection to the node is cut; later, the node is killed and restarted. Neither is announced.
// Recording resumes, and gaps show where facts may be missing.
func TestUnannouncedRestart(t *testing.T) {
	b := newBench(t, "none")
	b.watch()
	c := b.client("c1")
	c.do("SET", "a", "1")
	b.waitFor(history.KeySet, "a")
	s := b.directCaller()
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
		if e.Life.What == history.KeyGap {
			gaps = append(gaps, e.Life.Run)
		}
		if !slices.Contains(runs, e.Life.Run) {
			runs = append(runs, e.Life.Run)
		}
		seen[string(e.Life.What)+" "+e.Key] = true
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
const stampError = int64(time.Millisecond)

// Every answered command is either recorded or falls into a gap.
func TestKilledUnderLoad(t *testing.T) {
	b := newBench(t, "none")
	b.watch()
	for round := range 5 {
		var all sync.WaitGroup
		answered := make(chan bool, 50) // the node is killed after this many answers
		for i := range 3 {
			c := b.client(fmt.Sprint("c", i))
			all.Go(func() {
				for k := 0; ; k++ {
					token := fmt.Sprintf("%d-%d-%d", round, i, k)
					if v, err := c.try("SET", token, token, "NX", "PX", "60000"); err != nil || v.Str != "OK" {
						return
					}
					select {
					case answered <- true:
					default:
					}
				}
			})
		}
		for range cap(answered) {
			select {
			case <-answered:
			case <-time.After(5 * time.Second):
				t.Fatal("no further answer within 5s")
			}
		}
		b.kill()
		all.Wait()
		b.restart()
		recorded := map[string]bool{}
		var gap history.Event
		for _, e := range b.factsSoFar() {
			if e.Life.What == history.KeySet {
				recorded[e.Key] = true
			}
			if e.Life.What == history.KeyGap {
				gap = e
			}
		}
		b.mu.Lock()
		for _, w := range b.wire {
			if w.Type == history.OK && !recorded[w.Key] && (w.Applied < gap.Life.Lo-stampError || w.Applied > gap.Life.Hi+stampError) {
				t.Errorf("%s was set at %d but neither recorded nor in the gap [%d, %d]", w.Key, w.Applied, gap.Life.Lo, gap.Life.Hi)
			}
		}
		b.mu.Unlock()
		clear(b.wire)
		b.wire = nil
	}
	b.allFacts()
}

// Clients change keys while the connection is cut and the node is read again. In the end, the
// recorded state still matches the node.
func TestReattachUnderTraffic(t *testing.T) {
	b := newBench(t, "none")
	b.watch()
	var all sync.WaitGroup
	var over atomic.Bool
	for i := range 3 {
		c := b.client(fmt.Sprint("c", i))
		all.Go(func() {
			for k := 0; !over.Load(); k++ {
				key := fmt.Sprint("k", k%7)
				c.try("SET", key, fmt.Sprintf("%d-%d", i, k), "NX", "PX", "60000")
				c.try("APPEND", key, "+")
				if k%3 == 0 {
					c.try("DEL", key)
				}
			}
		})
	}
	s := b.directCaller()
	for cuts := 0; cuts < 10; {
		time.Sleep(10 * time.Millisecond)
		cuts += int(s.do("CLIENT", "KILL", "TYPE", "pubsub").Int)
	}
	over.Store(true)
	all.Wait()
	for end := time.Now().Add(5 * time.Second); s.do("CLIENT", "LIST", "TYPE", "pubsub").Str == ""; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the node is no longer watched")
		}
	}
	facts := b.allFacts()
	now, gaps := map[string]string{}, 0
	for _, e := range facts {
		if e.Life.What == history.KeyGap {
			gaps++
			continue
		}
		if e.Life.Old != now[e.Key] {
			t.Errorf("%s was %q, but the fact %q has the old value %q", e.Key, now[e.Key], e.Life.What, e.Life.Old)
		}
		now[e.Key] = e.Life.Value
	}
	for key, recorded := range now {
		if actual := b.direct("GET", key).Str; actual != recorded {
			t.Errorf("key %s is %q, recorded %q", key, actual, recorded)
		}
	}
	if gaps < 10 || len(now) != 7 {
		t.Errorf("%d gaps, %d keys", gaps, len(now))
	}
}
