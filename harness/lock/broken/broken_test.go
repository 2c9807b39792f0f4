package broken

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock/redisnode/redistest"
)

// nodes are five real ones, and clients to look into them.
type nodes struct {
	t       *testing.T
	addrs   []string
	clients []*redis.Client
}

func start(t *testing.T) nodes {
	n := nodes{t: t, addrs: redistest.Start(t, 5)}
	for _, a := range n.addrs {
		c := redis.NewClient(&redis.Options{Addr: a})
		t.Cleanup(func() { c.Close() })
		n.clients = append(n.clients, c)
	}
	return n
}

// take sets the key on the first some nodes to another client's value, and
// clears it on the rest.
func (n nodes) take(some int) {
	for i, c := range n.clients {
		err := c.Del(n.t.Context(), "k").Err()
		if i < some {
			err = c.Set(n.t.Context(), "k", "other", 0).Err()
		}
		if err != nil {
			n.t.Fatal(err)
		}
	}
}

// others counts the nodes on which the key has the other client's value.
func (n nodes) others() int {
	count := 0
	for _, c := range n.clients {
		if v, _ := c.Get(n.t.Context(), "k").Result(); v == "other" {
			count++
		}
	}
	return count
}

// open makes a lock with a mistake. Its time-outs are long, since no test waits for one.
func (n nodes) open(mistake string, change func(*lock.Env)) lock.Lock {
	n.t.Helper()
	e := lock.Env{
		Client: "c1", Now: time.Now, After: time.After, Dial: (&net.Dialer{}).DialContext,
		Random: func(name string) uint64 { h := fnv.New64a(); h.Write([]byte(name)); return h.Sum64() },
		Settings: lock.Settings{
			Mistake: mistake, TTL: 10 * time.Second, Timeout: 5 * time.Second,
			RetryMin: time.Millisecond, RetryMax: 2 * time.Millisecond, Tries: 1,
		},
	}
	for i, a := range n.addrs {
		e.Nodes = append(e.Nodes, lock.Node{Name: fmt.Sprintf("n%d", i+1), Addr: a})
	}
	if change != nil {
		change(&e)
	}
	l, err := New(e)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { l.Close() })
	return l
}

// experiments tell for each mistake whether a lock makes it.
var experiments = map[string]func(nodes, string) bool{
	// The attempt takes 12 s of the client's clock.
	"no-elapsed-check": func(n nodes, mistake string) bool {
		n.take(0)
		var reads int
		start := time.Now()
		h, _ := n.open(mistake, func(e *lock.Env) {
			e.Now = func() time.Time { reads++; return start.Add(time.Duration(reads-1) * 12 * time.Second) }
		}).Acquire(n.t.Context(), "k")
		if reads != 2 {
			n.t.Errorf("%s: the clock was read %d times in an attempt, want 2", mistake, reads)
		}
		if want := start.Add(12*time.Second + 9898*time.Millisecond); h != nil && !h.Deadline().Equal(want) {
			n.t.Errorf("%s: deadline %v, want a TTL less drift from the end", mistake, h.Deadline())
		}
		return h != nil
	},
	// The key stays taken for three attempts.
	"same-value-for-retries": func(n nodes, mistake string) bool {
		n.take(5)
		var mu sync.Mutex
		tokens := 0
		h, err := n.open(mistake, func(e *lock.Env) {
			random := e.Random
			e.Settings.Tries = 3
			e.Random = func(name string) uint64 {
				mu.Lock()
				defer mu.Unlock()
				if strings.HasPrefix(name, "token/") && strings.HasSuffix(name, "/0") {
					tokens++
				}
				return random(name)
			}
		}).Acquire(n.t.Context(), "k")
		if h != nil || err == nil || tokens != 1 && tokens != 3 {
			n.t.Errorf("%s: %d tokens in three failed attempts, error %v", mistake, tokens, err)
		}
		if n.others() != 5 {
			n.t.Errorf("%s: a failed attempt deleted another's key", mistake)
		}
		return tokens == 1
	},
	// Another has three of five nodes.
	"quorum-half": func(n nodes, mistake string) bool {
		n.take(3)
		h, _ := n.open(mistake, nil).Acquire(n.t.Context(), "k")
		return h != nil
	},
	// Another has the key by the time of the release.
	"plain-del": func(n nodes, mistake string) bool {
		n.take(0)
		h, err := n.open(mistake, nil).Acquire(n.t.Context(), "k")
		if err != nil {
			n.t.Fatalf("%s: %v", mistake, err)
		}
		n.take(5)
		err = h.Release(n.t.Context())
		deleted := n.others() < 5
		if deleted != (err == nil) || !deleted && !errors.Is(err, lock.ErrNotHeld) {
			n.t.Errorf("%s: release of a lost lock: %v", mistake, err)
		}
		return deleted
	},
	// Three extensions, where one is allowed.
	"unbounded-extension": func(n nodes, mistake string) bool {
		n.take(0)
		h, err := n.open(mistake, func(e *lock.Env) { e.Settings.Extends = 1 }).Acquire(n.t.Context(), "k")
		if err != nil {
			n.t.Fatalf("%s: %v", mistake, err)
		}
		until := h.Deadline()
		extend := h.(lock.Extender).Extend
		if err := extend(n.t.Context()); err != nil || !h.Deadline().After(until) {
			n.t.Errorf("%s: first extension: %v, deadline %v after %v", mistake, err, h.Deadline(), until)
		}
		until = h.Deadline()
		errs := []error{extend(n.t.Context()), extend(n.t.Context())}
		for _, err := range errs {
			if (err == nil) != (errs[0] == nil) || errors.Is(err, lock.ErrNotHeld) || err != nil && !errors.Is(err, errLimit) {
				n.t.Errorf("%s: extensions beyond the limit: %v", mistake, errs)
			}
		}
		if moved := h.Deadline().After(until); moved != (errs[0] == nil) {
			n.t.Errorf("%s: the deadline moved: %v, by extensions that answered %v", mistake, moved, errs)
		}
		return errs[0] == nil
	},
}

// An extension that isn't the mistake is as in the reference: it sets no key
// that is gone, and says so.
func TestExtendLostLock(t *testing.T) {
	n := start(t)
	for _, m := range Mistakes() {
		for taken, lost := range map[int]bool{2: false, 3: true} {
			n.take(0)
			h, err := n.open(m.Name, nil).Acquire(t.Context(), "k")
			if err != nil {
				t.Fatalf("%s: %v", m.Name, err)
			}
			until := h.Deadline()
			for _, c := range n.clients[:taken] {
				if err := c.Set(t.Context(), "k", "other", 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			err = h.(lock.Extender).Extend(t.Context())
			if errors.Is(err, lock.ErrNotHeld) != lost || (err == nil) == lost || h.Deadline().After(until) == lost || n.others() != taken {
				t.Errorf("%s: extended with %d of 5 keys lost: %v, deadline moved %v, %d keys are another's",
					m.Name, taken, err, h.Deadline().Sub(until), n.others())
			}
		}
	}
}

// Each lock makes its own mistake and no other.
func TestExactlyOneMistake(t *testing.T) {
	n := start(t)
	for _, m := range Mistakes() {
		if experiments[m.Name] == nil {
			t.Errorf("no experiment tells whether %s is made", m.Name)
		}
		for name, makes := range experiments {
			if got := makes(n, m.Name); got != (name == m.Name) {
				t.Errorf("lock with the mistake %s makes the mistake %s: %v", m.Name, name, got)
			}
		}
	}
}

// Where nothing goes wrong, no mistake shows.
func TestOrdinaryUse(t *testing.T) {
	n := start(t)
	for _, m := range Mistakes() {
		for _, ask := range []string{"multiplexed", "sequential"} {
			change := func(e *lock.Env) { e.Settings.Ask = ask }
			first, second := n.open(m.Name, change), n.open(m.Name, func(e *lock.Env) {
				change(e)
				random := e.Random
				e.Random = func(name string) uint64 { return random("c2/" + name) }
			})
			for range 2 {
				h, err := first.Acquire(t.Context(), "k")
				if err != nil {
					t.Fatalf("%s: %v", m.Name, err)
				}
				for i, c := range n.clients {
					if v, err := c.Get(t.Context(), "k").Result(); v != h.(lock.Tokener).Token() || len(v) != 40 {
						t.Errorf("%s: node %d has %q, %v; want the token of 20 bytes", m.Name, i+1, v, err)
					}
				}
				if _, err := second.Acquire(t.Context(), "k"); err == nil {
					t.Errorf("%s: a second client got it meanwhile", m.Name)
				}
				if err := h.Release(t.Context()); err != nil {
					t.Errorf("%s: %v", m.Name, err)
				}
			}
			if h, err := second.Acquire(t.Context(), "k"); err != nil {
				t.Errorf("%s: second client, once it is free: %v", m.Name, err)
			} else if err := h.Release(t.Context()); err != nil {
				t.Errorf("%s: %v", m.Name, err)
			}
		}
	}
}

func TestCancelled(t *testing.T) {
	n := start(t)
	n.take(5)
	l := n.open("plain-del", func(e *lock.Env) { e.Settings.Tries = 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := l.Acquire(ctx, "k"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error: %v, want %v", err, context.DeadlineExceeded)
	}
	if n.others() != 5 {
		t.Error("a failed attempt deleted another's key")
	}
}

// As in the reference, a failed attempt leaves nothing behind on any node,
// whether it lost the vote or was cancelled.
func TestFailedAttemptIsUndone(t *testing.T) {
	n := start(t)
	keys := func() (own int) {
		for _, c := range n.clients {
			if v, err := c.Get(t.Context(), "k").Result(); err == nil && v != "other" {
				own++
			}
		}
		return own
	}
	for _, m := range Mistakes() {
		n.take(4)
		if h, err := n.open(m.Name, nil).Acquire(t.Context(), "k"); h != nil || err == nil || keys() != 0 {
			t.Errorf("%s: %d keys are left of an attempt that got one vote; error %v", m.Name, keys(), err)
		}
		n.take(0)
		ctx, cancel := context.WithCancel(t.Context())
		reads := 0
		l := n.open(m.Name, func(e *lock.Env) {
			e.Now = func() time.Time {
				if reads++; reads == 2 { // all answers are there
					cancel()
				}
				return time.Now()
			}
		})
		if h, err := l.Acquire(ctx, "k"); h != nil || !errors.Is(err, context.Canceled) || keys() != 0 {
			t.Errorf("%s: %d keys are left of a cancelled attempt; error %v", m.Name, keys(), err)
		}
	}
}

func TestRefused(t *testing.T) {
	for want, s := range map[string]lock.Settings{
		"say one of no-elapsed-check, same-value-for-retries, quorum-half, plain-del, unbounded-extension": {Mistake: "all of them"},
		"knows no mistake \"\"":         {},
		"leave fence out":               {Mistake: "plain-del", Fence: true},
		"say multiplexed or sequential": {Mistake: "plain-del", Ask: "politely"},
		"no nodes":                      {Mistake: "plain-del"},
	} {
		if l, err := New(lock.Env{Settings: s}); l != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error: %v; want one with %q", err, want)
		}
	}
}

func TestMistakesAreDocumented(t *testing.T) {
	for _, m := range Mistakes() {
		if m.Name == "" || m.Doc == "" || strings.HasSuffix(m.Doc, ".") {
			t.Errorf("mistake %q is documented as %q", m.Name, m.Doc)
		}
	}
}
