package broken

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock/redisnode/redistest"
)

// nodes are five real nodes, with clients to inspect them.
type nodes struct {
	t       *testing.T
	addrs   []string
	clients []*redis.Client
}

func startNodes(t *testing.T) nodes {
	n := nodes{t: t, addrs: redistest.Start(t, 5)}
	for _, a := range n.addrs {
		c := redis.NewClient(&redis.Options{Addr: a})
		t.Cleanup(func() { c.Close() })
		n.clients = append(n.clients, c)
	}
	return n
}

// reset clears the nodes and sets the key to another client's value on the first count nodes.
func (n nodes) reset(count int) {
	for i, c := range n.clients {
		err := c.FlushAll(n.t.Context()).Err()
		if err == nil && i < count {
			err = c.Set(n.t.Context(), "k", "other", 0).Err()
		}
		if err != nil {
			n.t.Fatal(err)
		}
	}
}

// countKeys counts the nodes whose key has another client's value, and those with the lock's own
// value.
func (n nodes) countKeys() (other, ownKeys int) {
	for _, c := range n.clients {
		switch v, err := c.Get(n.t.Context(), "k").Result(); {
		case err != nil:
		case v == "other":
			other++
		default:
			ownKeys++
		}
	}
	return other, ownKeys
}

// epoch is the start of a ticking clock.
var epoch = time.Unix(1_800_000_000, 0)

// tickingClocks makes both of a client's clocks advance by tick with each reading.
func tickingClocks(tick time.Duration) func(*lock.Env) {
	clock := func() func() time.Time {
		var readings atomic.Int64 // atomic: some mistakes read the clock concurrently, once per node
		return func() time.Time { return epoch.Add(time.Duration(readings.Add(1)-1) * tick) }
	}
	return func(e *lock.Env) { e.Now, e.Wall = clock(), clock() }
}

// newLock returns a lock with the given mistake. Its timeouts are long because no test waits for a
// timeout to pass.
func (n nodes) newLock(mistake string, changes ...func(*lock.Env)) *brokenLock {
	n.t.Helper()
	e := lock.Env{
		Client: "c1", Now: time.Now, Wall: time.Now, After: time.After, Dial: (&net.Dialer{}).DialContext,
		Random: func(name string) uint64 { h := fnv.New64a(); h.Write([]byte(name)); return h.Sum64() },
		Settings: lock.Settings{
			Mistake: mistake, TTL: 10 * time.Second, Timeout: 5 * time.Second, Drift: 0.01,
			RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond, Tries: 1,
		},
	}
	for i, a := range n.addrs {
		e.Nodes = append(e.Nodes, lock.Node{Name: fmt.Sprintf("n%d", i+1), Addr: a})
	}
	for _, change := range changes {
		change(&e)
	}
	l, err := New(e)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { l.Close() })
	return l.(*brokenLock)
}

// acquire acquires a lock that must be free.
func (n nodes) acquire(l *brokenLock) lock.Handle {
	n.t.Helper()
	h, err := l.Acquire(n.t.Context(), "k")
	if err != nil {
		n.t.Fatalf("%s: %v", l.env.Settings.Mistake, err)
	}
	return h
}

// anotherClient turns an environment into that of another client, with different random numbers.
func anotherClient(e *lock.Env) {
	random := e.Random
	e.Client, e.Random = "c2", func(name string) uint64 { return random("c2/" + name) }
}

// Each lock makes its own mistake. TestExactlyOneMistake checks that it makes no other.
func TestEachLockMakesItsMistake(t *testing.T) {
	n := startNodes(t)
	for _, m := range Mistakes() {
		if makesMistake := experiments[m.Name]; makesMistake == nil || !makesMistake(n, m.Name) {
			t.Errorf("mistake %q has no experiment, or the lock doesn't make the mistake", m.Name)
		}
	}
}

// visibleMistakes are the mistakes that affect the second acquire of a lock even without faults.
var visibleMistakes = []string{"set-without-nx", "ttl-in-wrong-unit", "same-value-for-clients", "release-on-quorum", "undo-by-plain-del"}

// Without faults, the other mistakes have no effect.
func TestUseWithoutFaults(t *testing.T) {
	n := startNodes(t)
	for _, m := range Mistakes() {
		if slices.Contains(visibleMistakes, m.Name) {
			continue
		}
		n.reset(0)
		for _, ask := range []string{"multiplexed", "sequential"} {
			setAsk := func(e *lock.Env) { e.Settings.Ask = ask }
			first, second := n.newLock(m.Name, setAsk), n.newLock(m.Name, setAsk, anotherClient)
			for range 2 {
				h := n.acquire(first)
				for i, c := range n.clients {
					if v, err := c.Get(t.Context(), "k").Result(); v == "" || v != h.(lock.Tokener).Token() {
						t.Errorf("%s: value %[3]q on node %[2]d, %[4]v; want the lock's token", m.Name, i+1, v, err)
					}
				}
				if _, err := second.Acquire(t.Context(), "k"); err == nil {
					t.Errorf("%s: a second client acquired the held lock", m.Name)
				}
				if err := h.(lock.Extender).Extend(t.Context()); err != nil {
					t.Errorf("%s: extend: %v", m.Name, err)
				}
				if err := h.Release(t.Context()); err != nil {
					t.Errorf("%s: release: %v", m.Name, err)
				}
			}
			if err := n.acquire(second).Release(t.Context()); err != nil {
				t.Errorf("%s: release by the second client: %v", m.Name, err)
			}
		}
	}
}

// The algorithm without replacements makes no mistake.
func TestUnmodifiedAlgorithm(t *testing.T) {
	n := startNodes(t)
	defer func(table []mistake) { mistakes = table }(mistakes)
	mistakes = []mistake{{Mistake{Name: "none"}, func(*brokenLock) {}}}
	for name, makesMistake := range experiments {
		if makesMistake(n, "none") {
			t.Errorf("the lock without a mistake makes mistake %q", name)
		}
	}
}

func TestCanceledAcquireDeletesNoKeys(t *testing.T) {
	n := startNodes(t)
	n.reset(5)
	l := n.newLock("plain-del", func(e *lock.Env) { e.Settings.Tries = 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error: %v, want %v", err, context.DeadlineExceeded)
	}
	if others, _ := n.countKeys(); others != 5 {
		t.Error("a failed attempt deleted another client's key")
	}
}

// As in the reference, a failed attempt leaves no key on any node, whether it lost the vote or was
// canceled. The exceptions are the locks whose mistake is to leave keys.
func TestFailedAttemptIsUndone(t *testing.T) {
	n := startNodes(t)
	for _, m := range Mistakes() {
		if slices.Contains([]string{"no-release-on-failure", "undone-by-the-callers-context", "set-without-nx"}, m.Name) {
			continue
		}
		n.reset(4)
		h, err := n.newLock(m.Name).Acquire(t.Context(), "k")
		if _, ownKeys := n.countKeys(); h != nil || err == nil || ownKeys != 0 {
			t.Errorf("%s: %d keys left by an attempt with one vote; error %v", m.Name, ownKeys, err)
		}
		n.reset(0)
		ctx, cancel := context.WithCancel(t.Context())
		var readings atomic.Int64
		l := n.newLock(m.Name, func(e *lock.Env) {
			e.Now = func() time.Time {
				if readings.Add(1) == 2 { // all nodes have answered, or a request is under way
					cancel()
				}
				return time.Now()
			}
			e.Wall = e.Now
		})
		h, err = l.Acquire(ctx, "k")
		if _, ownKeys := n.countKeys(); h != nil || !errors.Is(err, context.Canceled) || ownKeys != 0 {
			t.Errorf("%s: %d keys left by a canceled attempt; error %v", m.Name, ownKeys, err)
		}
	}
}

// Extending a lost lock fails and sets no key. The exceptions are the locks whose mistake is to
// extend lost locks.
func TestExtendLostLock(t *testing.T) {
	n := startNodes(t)
	for _, m := range Mistakes() {
		if strings.HasPrefix(m.Name, "extension-") || n.newLock(m.Name).checkHold != nil {
			continue
		}
		for lostKeys, lost := range map[int]bool{2: false, 3: true} {
			n.reset(0)
			h := n.acquire(n.newLock(m.Name, tickingClocks(time.Millisecond)))
			deadline := h.Deadline()
			for _, c := range n.clients[:lostKeys] {
				if err := c.Set(t.Context(), "k", "other", 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			err := h.(lock.Extender).Extend(t.Context())
			if m.Name == "ttl-in-wrong-unit" { // the keys may have expired
				continue
			}
			if others, _ := n.countKeys(); errors.Is(err, lock.ErrNotHeld) != lost || (err == nil) == lost || h.Deadline().After(deadline) == lost || others != lostKeys {
				t.Errorf("%s: extension with %d of 5 keys lost: %v, deadline moved by %v, another client has %d keys",
					m.Name, lostKeys, err, h.Deadline().Sub(deadline), others)
			}
		}
	}
}

// A lock with the mistake tells-late does not notify its holder of a loss while no node answers,
// but does so once the nodes report the loss.
func TestLateNotification(t *testing.T) {
	n := startNodes(t)
	n.reset(0)
	requests, firstRefusal, proceed := 0, make(chan bool), make(chan bool)
	l := n.newLock("tells-late", func(e *lock.Env) {
		e.After = func(d time.Duration) <-chan time.Time {
			if d == e.Settings.TTL/3 {
				d = 0
			}
			return time.After(d)
		}
		e.Settings.Ask = "sequential"
	})
	l.extendKey = func(_ context.Context, node int, _, _ string) (int64, error) {
		if requests++; requests < 50 {
			return 0, errDown
		}
		if node == 0 {
			firstRefusal <- true
			<-proceed
		}
		return 0, nil
	}
	lost := n.acquire(l).(lock.LossNotifier).Lost()
	<-firstRefusal
	select {
	case <-lost:
		t.Error("the lock reported a loss that no node had reported")
	default:
	}
	close(proceed)
	select {
	case <-lost:
	case <-firstRefusal:
		t.Error("the lock kept sending requests after all nodes had reported the loss")
	}
}

func TestRejectsInvalidSettings(t *testing.T) {
	for want, s := range map[string]lock.Settings{
		"use one of no-elapsed-check, elapsed-not-subtracted, no-drift-margin, ": {Mistake: "all of them"},
		"has no mistake \"\"":               {},
		"remove fence":                      {Mistake: "set-without-nx", Fence: true, TTL: time.Second},
		`use "multiplexed" or "sequential"`: {Mistake: "plain-del", Ask: "politely"},
		"no nodes":                          {Mistake: "plain-del"},
	} {
		e := lock.Env{Settings: s}
		if s.Fence {
			e.Nodes = []lock.Node{{Name: "n1", Addr: "127.0.0.1:1"}}
		}
		if l, err := New(e); l != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error: %v; want an error containing %q", err, want)
		}
	}
}

func TestMistakesAreDocumented(t *testing.T) {
	for _, m := range Mistakes() {
		for _, text := range []string{m.Doc, m.Thought} {
			if m.Name == "" || text == "" || strings.HasSuffix(text, ".") {
				t.Errorf("mistake %q has an empty or terminated description %q", m.Name, text)
			}
		}
	}
}
