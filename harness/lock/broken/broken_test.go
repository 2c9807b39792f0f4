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

// take clears the nodes, and sets the key on the first some to another client's value.
func (n nodes) take(some int) {
	for i, c := range n.clients {
		err := c.FlushAll(n.t.Context()).Err()
		if err == nil && i < some {
			err = c.Set(n.t.Context(), "k", "other", 0).Err()
		}
		if err != nil {
			n.t.Fatal(err)
		}
	}
}

// keys counts the nodes on which the key has the other client's value, and those
// on which it has one of the lock's.
func (n nodes) keys() (others, own int) {
	for _, c := range n.clients {
		switch v, err := c.Get(n.t.Context(), "k").Result(); {
		case err != nil:
		case v == "other":
			others++
		default:
			own++
		}
	}
	return others, own
}

// epoch is when a ticking clock begins.
var epoch = time.Unix(1_800_000_000, 0)

// ticking makes both clocks of a client show tick more at each reading of theirs.
func ticking(tick time.Duration) func(*lock.Env) {
	clock := func() func() time.Time {
		var readings atomic.Int64 // some mistakes read it once for each node, at once
		return func() time.Time { return epoch.Add(time.Duration(readings.Add(1)-1) * tick) }
	}
	return func(e *lock.Env) { e.Now, e.Wall = clock(), clock() }
}

// open makes a lock with a mistake. Its time-outs are long, since no test waits for one.
func (n nodes) open(mistake string, changes ...func(*lock.Env)) *broken {
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
	return l.(*broken)
}

// acquire gets a lock that must be free.
func (n nodes) acquire(l *broken) lock.Handle {
	n.t.Helper()
	h, err := l.Acquire(n.t.Context(), "k")
	if err != nil {
		n.t.Fatalf("%s: %v", l.env.Settings.Mistake, err)
	}
	return h
}

// another is another client, with dice of its own.
func another(e *lock.Env) {
	random := e.Random
	e.Client, e.Random = "c2", func(name string) uint64 { return random("c2/" + name) }
}

// Each lock makes its own mistake. TestExactlyOneMistake sees that it makes no other.
func TestEachMistakeIsMade(t *testing.T) {
	n := start(t)
	for _, m := range Mistakes() {
		if makes := experiments[m.Name]; makes == nil || !makes(n, m.Name) {
			t.Errorf("no experiment tells whether %s is made, or it isn't", m.Name)
		}
	}
}

// shown are the mistakes that show as soon as the lock is wanted a second time.
var shown = []string{"set-without-nx", "ttl-in-wrong-unit", "same-value-for-clients", "release-on-quorum", "undo-by-plain-del"}

// Where nothing goes wrong, no other mistake shows.
func TestOrdinaryUse(t *testing.T) {
	n := start(t)
	for _, m := range Mistakes() {
		if slices.Contains(shown, m.Name) {
			continue
		}
		n.take(0)
		for _, ask := range []string{"multiplexed", "sequential"} {
			change := func(e *lock.Env) { e.Settings.Ask = ask }
			first, second := n.open(m.Name, change), n.open(m.Name, change, another)
			for range 2 {
				h := n.acquire(first)
				for i, c := range n.clients {
					if v, err := c.Get(t.Context(), "k").Result(); v == "" || v != h.(lock.Tokener).Token() {
						t.Errorf("%s: node %d has %q, %v; want the lock's token", m.Name, i+1, v, err)
					}
				}
				if _, err := second.Acquire(t.Context(), "k"); err == nil {
					t.Errorf("%s: a second client got it meanwhile", m.Name)
				}
				if err := h.(lock.Extender).Extend(t.Context()); err != nil {
					t.Errorf("%s: extend: %v", m.Name, err)
				}
				if err := h.Release(t.Context()); err != nil {
					t.Errorf("%s: release: %v", m.Name, err)
				}
			}
			if err := n.acquire(second).Release(t.Context()); err != nil {
				t.Errorf("%s: release of the second client: %v", m.Name, err)
			}
		}
	}
}

// The course in which nothing was replaced makes none.
func TestRightCourse(t *testing.T) {
	n := start(t)
	defer func(table []mistake) { mistakes = table }(mistakes)
	mistakes = []mistake{{Mistake{Name: "none"}, func(*broken) {}}}
	for name, makes := range experiments {
		if makes(n, "none") {
			t.Errorf("the lock without a mistake makes the mistake %s", name)
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
	if others, _ := n.keys(); others != 5 {
		t.Error("a failed attempt deleted another's key")
	}
}

// As in the reference, a failed attempt leaves nothing behind on any node,
// whether it lost the vote or was cancelled, but for the locks whose mistake that is.
func TestFailedAttemptIsUndone(t *testing.T) {
	n := start(t)
	for _, m := range Mistakes() {
		if slices.Contains([]string{"no-release-on-failure", "undone-by-the-callers-context", "set-without-nx"}, m.Name) {
			continue
		}
		n.take(4)
		h, err := n.open(m.Name).Acquire(t.Context(), "k")
		if _, own := n.keys(); h != nil || err == nil || own != 0 {
			t.Errorf("%s: %d keys are left of an attempt that got one vote; error %v", m.Name, own, err)
		}
		n.take(0)
		ctx, cancel := context.WithCancel(t.Context())
		var readings atomic.Int64
		l := n.open(m.Name, func(e *lock.Env) {
			e.Now = func() time.Time {
				if readings.Add(1) == 2 { // all answers are there, or a node's is being asked for
					cancel()
				}
				return time.Now()
			}
			e.Wall = e.Now
		})
		h, err = l.Acquire(ctx, "k")
		if _, own := n.keys(); h != nil || !errors.Is(err, context.Canceled) || own != 0 {
			t.Errorf("%s: %d keys are left of a cancelled attempt; error %v", m.Name, own, err)
		}
	}
}

// An extension of a lock that is lost says so, and sets no key, but for the
// locks whose mistake that is.
func TestExtendLostLock(t *testing.T) {
	n := start(t)
	for _, m := range Mistakes() {
		if strings.HasPrefix(m.Name, "extension-") || n.open(m.Name).look != nil {
			continue
		}
		for taken, lost := range map[int]bool{2: false, 3: true} {
			n.take(0)
			h := n.acquire(n.open(m.Name, ticking(time.Millisecond)))
			until := h.Deadline()
			for _, c := range n.clients[:taken] {
				if err := c.Set(t.Context(), "k", "other", 0).Err(); err != nil {
					t.Fatal(err)
				}
			}
			err := h.(lock.Extender).Extend(t.Context())
			if m.Name == "ttl-in-wrong-unit" { // the keys may be gone
				continue
			}
			if others, _ := n.keys(); errors.Is(err, lock.ErrNotHeld) != lost || (err == nil) == lost || h.Deadline().After(until) == lost || others != taken {
				t.Errorf("%s: extended with %d of 5 keys lost: %v, deadline moved %v, %d keys are another's",
					m.Name, taken, err, h.Deadline().Sub(until), others)
			}
		}
	}
}

// A lock that tells late says nothing while no node answers, and speaks when they say no.
func TestTellsLate(t *testing.T) {
	n := start(t)
	n.take(0)
	asked, no, on := 0, make(chan bool), make(chan bool)
	l := n.open("tells-late", func(e *lock.Env) {
		e.After = func(d time.Duration) <-chan time.Time {
			if d == e.Settings.TTL/3 {
				d = 0
			}
			return time.After(d)
		}
		e.Settings.Ask = "sequential"
	})
	l.extend = func(_ context.Context, node int, _, _ string) (int64, error) {
		if asked++; asked < 50 {
			return 0, errDown
		}
		if node == 0 {
			no <- true
			<-on
		}
		return 0, nil
	}
	lost := n.acquire(l).(lock.Loser).Lost()
	<-no
	select {
	case <-lost:
		t.Error("it told of a loss that no node knew of")
	default:
	}
	close(on)
	select {
	case <-lost:
	case <-no:
		t.Error("it went on asking where all nodes had said no")
	}
}

func TestRefused(t *testing.T) {
	for want, s := range map[string]lock.Settings{
		"say one of no-elapsed-check, elapsed-not-subtracted, no-drift-margin, ": {Mistake: "all of them"},
		"knows no mistake \"\"":         {},
		"leave fence out":               {Mistake: "set-without-nx", Fence: true, TTL: time.Second},
		"say multiplexed or sequential": {Mistake: "plain-del", Ask: "politely"},
		"no nodes":                      {Mistake: "plain-del"},
	} {
		e := lock.Env{Settings: s}
		if s.Fence {
			e.Nodes = []lock.Node{{Name: "n1", Addr: "127.0.0.1:1"}}
		}
		if l, err := New(e); l != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error: %v; want one with %q", err, want)
		}
	}
}

func TestMistakesAreDocumented(t *testing.T) {
	for _, m := range Mistakes() {
		for _, text := range []string{m.Doc, m.Thought} {
			if m.Name == "" || text == "" || strings.HasSuffix(text, ".") {
				t.Errorf("mistake %q is documented as %q", m.Name, text)
			}
		}
	}
}
