//go:build linux

package keylife_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/harness/history"
)

const releaseScript = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

// Each change is recorded once, with its client and command. Commands that change nothing are not
// recorded.
func TestEachChangeIsRecordedOnce(t *testing.T) {
	b := newTestNode(t, "none")
	b.watch()
	c, d, s := b.client("c1"), b.client("c2"), b.directClient()
	c.do("SET", "k", "a", "NX", "PX", "60000")
	d.do("SET", "k", "b", "NX", "PX", "60000")
	d.do("SET", "k", "b")
	d.do("SET", "k", "b")
	d.do("PEXPIRE", "k", "60000")
	d.do("PERSIST", "k")
	c.do("EVAL", releaseScript, "1", "k", "a")
	d.do("EVAL", releaseScript, "1", "k", "b")
	s.do("SET", "two words", "x y")
	s.do("RENAME", "two words", "one")
	c.do("MULTI")
	c.do("SET", "m", "1")
	c.do("INCR", "m")
	c.do("EXEC")
	b.direct("DEL", "m")
	c.do("EVAL", `redis.call("hset",KEYS[1],"f",ARGV[1]) redis.call("pexpire",KEYS[1],60000)`, "1", "h", "v")
	c.do("HDEL", "h", "f")
	c.do("FLUSHALL", "NONSENSE")
	c.do("NONSENSE", "one")
	d.do("FLUSHALL")
	c.do("SADD", "set", "x")
	c.do("SET", "set", "text")
	b.wantFacts(`
set k "a" was "" by c1-n1 set
changed k "b" was "a" by c2-n1 set
expiry k "b" was "b" by c2-n1 pexpire
expiry k "b" was "b" by c2-n1 persist
deleted k "" was "b" by c2-n1 del in a script
set two words "x y" was "" by unknown set
deleted two words "" was "x y" by unknown rename
set one "x y" was "" by unknown rename
set m "1" was "" by c1-n1 set
changed m "2" was "1" by c1-n1 incr
deleted m "" was "2" by harness del
set h "f v" was "" by c1-n1 hset in a script
expiry h "f v" was "f v" by c1-n1 pexpire in a script
deleted h "" was "f v" by c1-n1 hdel
flushed one "" was "x y" by c2-n1 flushall
set set "" was "" by c1-n1 sadd
changed set "text" was "" by c1-n1 set
`)
}

// An expiration is recorded without a client, and before the next set of the key.
func TestExpiryIsRecorded(t *testing.T) {
	b := newTestNode(t, "none")
	b.watch()
	c := b.client("c1")
	c.do("SET", "k", "a", "NX", "PX", "20")
	for c.do("SET", "k", "b", "NX", "PX", "20").Null {
	}
	b.waitFor(history.KeyExpired, "k")
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if n := strings.Count(formatFacts(b.factsSoFar()), "expired"); n == 2 {
			break // found by the node itself
		}
	}
	b.wantFacts(`
set k "a" was "" by c1-n1 set
expired k "" was "a" by
set k "b" was "" by c1-n1 set
expired k "" was "b" by
`)
	facts := b.factsSoFar()
	for i, e := range facts[1:3] {
		if first := facts[0]; first.Life.Expiry > e.Local {
			t.Errorf("fact %d is dated %d by the node's clock, before the expiry at %d", i+2, e.Local, first.Life.Expiry)
		}
	}
	if e := facts[1].Life; e.OldExpiry != facts[0].Life.Expiry || e.Expiry != 0 {
		t.Errorf("recorded expiry is %d, want %d", e.OldExpiry, facts[0].Life.Expiry)
	}
}

// A node that runs out of memory reports the keys that it evicts.
func TestEvictionIsRecorded(t *testing.T) {
	b := newTestNode(t, "none", "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-random")
	b.watch()
	c := b.client("c1")
	for i := range 40 {
		c.do("SET", fmt.Sprint("k", i), strings.Repeat("x", 100_000))
	}
	facts := b.allFacts()
	set, evicted := map[string]bool{}, 0
	for _, e := range facts {
		switch e.Life.Kind {
		case history.KeySet:
			set[e.Key] = true
		case history.KeyEvicted:
			evicted++
			if !set[e.Key] || e.Life.Sender != "" || len(e.Life.OldValue) != 100_000 {
				t.Errorf("%s was evicted: set %v, by %q, %d bytes", e.Key, set[e.Key], e.Life.Sender, len(e.Life.OldValue))
			}
			delete(set, e.Key)
		}
	}
	if remaining := b.direct("DBSIZE").Int; evicted == 0 || remaining != int64(len(set)) {
		t.Errorf("%d keys were evicted; %d keys are on the node, %d in the recorded state", evicted, remaining, len(set))
	}
}

// Under contention, facts and replies agree on clients and times.
func TestFactsAgreeWithReplies(t *testing.T) {
	const clients = 4
	commandsPerClient := 3000
	if testing.Short() {
		commandsPerClient = 1000
	}
	b := newTestNode(t, "none")
	b.watch()
	var wg sync.WaitGroup
	grantedTokens := make([]map[string]bool, clients)
	for i := range clients {
		grantedTokens[i] = map[string]bool{}
		c := b.client(fmt.Sprint("c", i))
		wg.Go(func() {
			for k := range commandsPerClient {
				token := fmt.Sprintf("%d-%d", i, k)
				v, err := c.try("SET", "lock", token, "NX", "PX", fmt.Sprint(1+k%3))
				if grantedTokens[i][token] = err == nil && v.Str == "OK"; grantedTokens[i][token] && k%2 == 0 {
					c.try("EVAL", releaseScript, "1", "lock", token)
				}
			}
		})
	}
	wg.Wait()
	facts := b.allFacts()
	b.check(b.mesh.Close())
	sets := map[string]history.Event{} // by token, as seen by the link
	for _, e := range b.linkEvents {
		if e.Op == history.OpSet {
			sets[e.Token] = e
		}
	}
	recorded := map[string]bool{}
	for _, e := range facts {
		l := e.Life
		if e.T < l.MinT || e.T > l.MaxT {
			t.Errorf("%+v is not between %d and %d", e, l.MinT, l.MaxT)
		}
		if l.Kind != history.KeySet {
			continue
		}
		w := sets[l.Value]
		if recorded[l.Value] || w.Process != l.Sender || w.SentAt != e.SentAt || l.MinT < w.SentAt || l.MinT > w.AppliedAt { // a fact read before the link recorded the answer is bounded by its read time
			t.Errorf("%q was set by %s in [%d, %d], sent %d; the link saw %s in [%d, %d]", l.Value, l.Sender, l.MinT, l.MaxT, e.SentAt, w.Process, w.SentAt, w.AppliedAt)
		}
		recorded[l.Value] = true
	}
	accepted := 0
	for i := range clients {
		for token, ok := range grantedTokens[i] {
			if ok {
				accepted++
			}
			if ok != recorded[token] {
				t.Errorf("%s: accepted by the reply: %v, by the fact: %v", token, ok, recorded[token])
			}
		}
	}
	if accepted < 100 {
		t.Errorf("only %d of %d sets were accepted", accepted, clients*commandsPerClient)
	}
}
