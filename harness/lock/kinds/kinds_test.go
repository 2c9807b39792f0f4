package kinds

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"lockpick/harness/lock"
	"lockpick/harness/lock/rueidis"
	"lockpick/redlock/redisnode/redistest"
)

func TestNamesAreSorted(t *testing.T) {
	if got := Names(); !slices.IsSorted(got) || len(got) != len(All) || !slices.Contains(got, "redlock") {
		t.Errorf("kinds: %v", got)
	}
}

// Scenarios refer to options by name alone, so two kinds must not define the same option.
func TestOptionsAreDistinct(t *testing.T) {
	kindOf := map[string]string{}
	for _, kind := range Names() {
		for _, o := range All[kind].Options {
			if other, exists := kindOf[o.Name]; exists || o.Doc == "" || len(o.Values) < 2 {
				t.Errorf("option %s of %s: doc %q, values %q; also defined by %q", o.Name, kind, o.Doc, o.Values, other)
			}
			kindOf[o.Name] = kind
		}
	}
}

// open returns a client's lock on one real node.
func open(t *testing.T, client, addr string, s lock.Settings) lock.Lock {
	t.Helper()
	if s.Kind == "broken" {
		s.Mistake = "no-jitter"
	}
	return redistest.Open(t, All[s.Kind].New, lock.Env{
		Client: client, Nodes: []lock.Node{{Name: "n1", Addr: addr}}, Dial: (&net.Dialer{}).DialContext,
		Now: time.Now, Wall: time.Now, After: time.After, Settings: s,
		Random: func(string) uint64 { return uint64(client[1]) },
	})
}

// With one try, an acquire is a TryLock: if the lock is taken, it returns without waiting, even if
// the delay before the next try would be an hour. The lock can be acquired later.
func TestOneTryDoesNotWait(t *testing.T) {
	addr := redistest.Start(t, 1)[0]
	for _, name := range Names() {
		settings := lock.Settings{Kind: name, Timeout: 5 * time.Second, TTL: time.Minute, RetryMin: time.Hour, RetryMax: time.Hour, Tries: 1}
		first, second := open(t, "c1", addr, settings), open(t, "c2", addr, settings)
		h, err := first.Acquire(t.Context(), "try-"+name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := second.Acquire(t.Context(), "try-"+name); err == nil || t.Context().Err() != nil {
			t.Errorf("%s: acquire of a taken lock: %v", name, err)
		}
		h.Release(t.Context())
		if _, err := second.Acquire(t.Context(), "try-"+name); err != nil {
			t.Errorf("%s: acquire of a free lock: %v", name, err)
		}
	}
}

// A lock's deadline depends on nothing but its settings: it is the TTL minus the drift, minus up to
// 2 ms that the specification adds to the drift. A library's own default drift must not have any
// effect.
func TestDeadlineFollowsDriftSetting(t *testing.T) {
	addr := redistest.Start(t, 1)[0]
	const ttl = 10 * time.Second
	for _, name := range Names() {
		for i, drift := range []float64{0, 0.1} {
			l := open(t, "c1", addr, lock.Settings{Kind: name, Timeout: 5 * time.Second, TTL: ttl, Drift: drift})
			start := time.Now()
			h, err := l.Acquire(t.Context(), fmt.Sprintf("drift-%s-%d", name, i))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			margin := time.Duration(drift * float64(ttl))
			earliest, latest := start.Add(ttl-margin-2*time.Millisecond), time.Now().Add(ttl-margin)
			if until := h.Deadline(); All[name].Belief == lock.ByDeadline && (until.Before(earliest) || until.After(latest)) {
				t.Errorf("%s with a drift of %v: deadline %v after the start of the acquire, want %v to %v", name, drift, until.Sub(start), earliest.Sub(start), latest.Sub(start))
			}
		}
	}
}

func TestEachKindLocksRealNode(t *testing.T) {
	addr := redistest.Start(t, 1)[0]
	for _, name := range Names() {
		l := open(t, "c1", addr, lock.Settings{Kind: name, Timeout: 5 * time.Second, TTL: 10 * time.Second})
		if h, err := l.Acquire(t.Context(), name); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if err := h.Release(t.Context()); err != nil && !errors.Is(err, rueidis.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
