package sim

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
)

// keyEvents runs a client's commands and faults on node n1, in order, and returns the node's key
// events, formatted by formatEvent.
func keyEvents(t *testing.T, s scenario.Scenario, preserve func(history.Event) bool, steps ...any) []string {
	t.Helper()
	var out bytes.Buffer
	var events []string
	rec := history.NewRecorder(&out)
	rec.Watch(func(e history.Event) {
		if e.Op != history.OpLife {
			return
		}
		if e.Life.Seq != int64(len(events)+1) || e.Life.RunID == "" || e.Process != "n1" {
			t.Errorf("event %d: %+v, process %s, life %+v", len(events)+1, e, e.Process, *e.Life)
		}
		events = append(events, formatEvent(e))
	})
	b := New(map[string]lock.Kind{"own": {OwnTime: true}}).WithPreservedKeys(preserve)
	err := b.Run(context.Background(), s, 1, rec, func(_ context.Context, anyCluster harness.Cluster) error {
		c := anyCluster.(*cluster)
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			r := open(e, c.addr("n1"), time.Second)
			defer r.Close()
			for _, step := range steps {
				switch step := step.(type) {
				case string:
					var words []any
					for _, w := range strings.Fields(step) {
						words = append(words, strings.ReplaceAll(w, "_", " "))
					}
					r.Do(ctx, words...)
				case time.Duration:
					<-e.After(step)
				case func(*cluster):
					step(c)
				}
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// formatEvent formats a key event: the change, key, old and new value, issuer and reason.
func formatEvent(e history.Event) string {
	l := e.Life
	text := fmt.Sprintf("%s %s", l.Kind, e.Key)
	if l.OldValue != "" || l.Value != "" {
		text += fmt.Sprintf(" %s→%s", l.OldValue, l.Value)
	}
	for _, x := range []struct {
		word string
		at   int64
	}{{"until", l.Expiry}, {"was until", l.OldExpiry}} {
		if x.at != 0 {
			text += fmt.Sprintf(" %s +%ds", x.word, (x.at-e.Local+5e8)/1e9)
		}
	}
	if l.Sender != "" {
		text += " by " + l.Sender + " " + l.Command
	}
	if l.Script {
		text += " in a script"
	}
	if l.Replacement != "" {
		text += " for a " + l.Replacement
	}
	return text
}

func TestKeyEvents(t *testing.T) {
	kill := func(c *cluster) { c.Kill("n1") }
	restart := func(c *cluster) { c.Restart("n1") }
	persistent := func(fsync string) scenario.Scenario {
		s := testScenario(1, 1)
		s.Topology.Persistence = fsync
		return s
	}
	replicated := testScenario(1, 1)
	replicated.Topology.Replicas = 1
	for _, c := range []struct {
		name  string
		s     scenario.Scenario
		steps []any
		want  []string
	}{
		{"set, refused and deleted", testScenario(1, 1), []any{"SET k a NX PX 10000", "SET k b NX PX 10000", "DEL k", "DEL k"},
			[]string{"set k →a until +10s by c1-n1 set", "deleted k a→ was until +10s by c1-n1 del"}},
		{"expired, noticed by the next client", testScenario(1, 1), []any{"SET k a PX 1000", 2 * time.Second, "SET k b NX PX 5000"},
			[]string{"set k →a until +1s by c1-n1 set", "expired k a→ was until +0s", "set k →b until +5s by c1-n1 set"}},
		{"changed value, same value, and changed expiry", testScenario(1, 1), []any{"SET k a", "SET k a", "SET k b", "PEXPIRE k 3000", "INCR n", "INCR n"},
			[]string{"set k →a by c1-n1 set", "changed k a→b by c1-n1 set", "expiry k b→b until +3s by c1-n1 pexpire", "set n →1 by c1-n1 incr", "changed n 1→2 by c1-n1 incr"}},
		{"a script", testScenario(1, 1), []any{"SET k a", "EVAL return_redis.call('del',KEYS[1]) 1 k"},
			[]string{"set k →a by c1-n1 set", "deleted k a→ by c1-n1 del in a script"}},
		{"a hash", testScenario(1, 1), []any{"HSET h f 1", "HINCRBY h f 1", "HDEL h f"},
			[]string{"set h →f 1 by c1-n1 hset", "changed h f 1→f 2 by c1-n1 hincrby", "deleted h f 2→ by c1-n1 hdel"}},
		{"flushed", testScenario(1, 1), []any{"SET k a", "SET l b", "FLUSHALL"},
			[]string{"set k →a by c1-n1 set", "set l →b by c1-n1 set", "flushed k a→ by c1-n1 flushall", "flushed l b→ by c1-n1 flushall"}},
		{"command of the harness", testScenario(1, 1), []any{func(c *cluster) { c.Touch("n1") }}, []string{"set touched →1 by harness incr"}},
		{"kill without persistence", testScenario(1, 1), []any{"SET k a PX 10000", "SET l b PX 10", 50 * time.Millisecond, kill, restart},
			[]string{"set k →a until +10s by c1-n1 set", "set l →b until +0s by c1-n1 set",
				"lost k a→ was until +10s for a restart", "expired l b→ was until +0s"}},
		{"kill with persistence", persistent("always"), []any{"SET k a PX 10000", kill, restart},
			[]string{"set k →a until +10s by c1-n1 set", "kept k a→a until +10s was until +10s for a restart"}},
		{"power loss, back to synced values", persistent("no"), []any{"SET k a PX 10000", func(c *cluster) { c.Shutdown("n1") }, restart, "PING", "SET k b PX 10000", "DEL m", "SET l c",
			func(c *cluster) { c.LosePower("n1", false) }, restart},
			[]string{"set k →a until +10s by c1-n1 set", "kept k a→a until +10s was until +10s for a restart", "changed k a→b until +10s was until +10s by c1-n1 set", "set l →c by c1-n1 set",
				"reverted k b→a until +10s was until +10s for a restart", "lost l c→ for a restart"}},
		{"deletion that was not synced", persistent("no"), []any{"SET k a", func(c *cluster) { c.Shutdown("n1") }, restart, "PING", "DEL k", func(c *cluster) { c.LosePower("n1", false) }, restart},
			[]string{"set k →a by c1-n1 set", "kept k a→a for a restart", "deleted k a→ by c1-n1 del", "appeared k →a for a restart"}},
		{"promoted replica", replicated, []any{"SET k a", 10 * time.Millisecond, func(c *cluster) { c.Cut("n1-replica", "hold", "") }, "SET l b", func(c *cluster) { c.FailOver("n1") }},
			[]string{"set k →a by c1-n1 set", "set l →b by c1-n1 set", "kept k a→a for a failover", "lost l b→ for a failover"}},
		{"clock jump", testScenario(1, 1), []any{"SET k a PX 5000", func(c *cluster) { c.TurnClock("n1", 6*time.Second, 1) }, "GET k"},
			[]string{"set k →a until +5s by c1-n1 set", "expired k a→ was until +0s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := keyEvents(t, c.s, nil, c.steps...)
			if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("got\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(c.want, "\n  "))
			}
		})
	}
}

// If preserve suppresses an event, the next client still finds the key.
func TestSuppressedEvents(t *testing.T) {
	for _, c := range []struct {
		what  history.Change
		steps []any
	}{
		{history.KeyDeleted, []any{"DEL k"}},
		{history.KeyChanged, []any{"SET k b"}},
		{history.KeyExpired, []any{11 * time.Second}},
		{history.KeyFlushed, []any{"FLUSHALL"}},
		{history.KeyLost, []any{func(c *cluster) { c.Kill("n1") }, func(c *cluster) { c.Restart("n1") }, "PING"}},
	} {
		t.Run(string(c.what), func(t *testing.T) {
			steps := append(append([]any{"SET k a PX 10000"}, c.steps...), "SET k z NX PX 10000")
			lastEvent := func(preserve func(history.Event) bool) string {
				all := keyEvents(t, testScenario(1, 1), preserve, steps...)
				return all[len(all)-1]
			}
			if got := lastEvent(nil); !strings.HasPrefix(got, "set k →z") && !strings.HasPrefix(got, "changed k a→b") {
				t.Errorf("last event without suppression: %s", got)
			}
			calls := 0
			got := lastEvent(func(e history.Event) bool {
				calls++
				return e.Life.Kind == c.what && e.Key == "k"
			})
			if got != "set k →a until +10s by c1-n1 set" || calls == 0 {
				t.Errorf("preserve was called %d times; last event: %s", calls, got)
			}
		})
	}
}
