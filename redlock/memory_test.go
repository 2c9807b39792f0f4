package redlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"lockpick/redlock"
	"lockpick/redlock/driver"
)

const ttl = 10 * time.Second

var (
	errDown = errors.New("connection refused")
	errLost = errors.New("connection reset")
)

// memoryNode is a node in memory. Its keys expire according to time.Now, so tests can use virtual
// time. Faults are set per step.
type memoryNode struct {
	name           string
	ignoresContext bool
	faults         map[string]stepFault // by step: set, extend, release, raise

	mu    sync.Mutex
	keys  map[string]entry
	count map[string]int64
	log   *journal
}

type entry struct {
	token   string
	expires time.Time
}

// stepFault is a fault in a step. After delay, the step is refused (down), or it is executed but
// its answer is lost (lost).
type stepFault struct {
	delay              time.Duration
	refuse, loseAnswer bool
}

// journal lists the requests to all nodes in order of arrival.
type journal struct {
	mu   sync.Mutex
	rows []row
}

type row struct{ node, step, token string }

func (j *journal) add(r row) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.rows = append(j.rows, r)
}

// rowsFor returns the rows for one kind of step.
func (j *journal) rowsFor(step string) []row {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []row
	for _, r := range j.rows {
		if r.step == step {
			out = append(out, r)
		}
	}
	return out
}

var (
	_ redlock.Node  = (*memoryNode)(nil)
	_ driver.Fencer = (*memoryNode)(nil)
)

func (m *memoryNode) String() string { return m.name }

func (m *memoryNode) execute(ctx context.Context, step, token string, apply func() int64) (int64, error) {
	m.log.add(row{m.name, step, token})
	m.mu.Lock()
	f := m.faults[step]
	m.mu.Unlock()
	if m.ignoresContext {
		time.Sleep(f.delay)
	} else if f.delay > 0 {
		select {
		case <-time.After(f.delay):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if f.refuse {
		return 0, errDown
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n := apply()
	if f.loseAnswer {
		return 0, errLost
	}
	return n, nil
}

func (m *memoryNode) expiry(key string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys[key].expires
}

func (m *memoryNode) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.keys)
}

func (m *memoryNode) has(key, token string) bool {
	e, ok := m.keys[key]
	return ok && e.token == token && time.Now().Before(e.expires)
}

func (m *memoryNode) SetFenced(ctx context.Context, key, token string, ttl time.Duration) (int64, error) {
	return m.execute(ctx, "set", token, func() int64 {
		if e, ok := m.keys[key]; ok && time.Now().Before(e.expires) {
			return 0
		}
		m.keys[key] = entry{token, time.Now().Add(ttl)}
		m.count[key]++
		return m.count[key]
	})
}

func (m *memoryNode) Set(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	n, err := m.SetFenced(ctx, key, token, ttl)
	return n > 0, err
}

func (m *memoryNode) Extend(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	n, err := m.execute(ctx, "extend", token, func() int64 {
		if !m.has(key, token) {
			return 0
		}
		m.keys[key] = entry{token, time.Now().Add(ttl)}
		return 1
	})
	return n > 0, err
}

func (m *memoryNode) Release(ctx context.Context, key, token string) (bool, error) {
	n, err := m.execute(ctx, "release", token, func() int64 {
		if !m.has(key, token) {
			return 0
		}
		delete(m.keys, key)
		return 1
	})
	return n > 0, err
}

func (m *memoryNode) RaiseFence(ctx context.Context, key, token string, fence int64) (bool, error) {
	n, err := m.execute(ctx, "raise", token, func() int64 {
		if !m.has(key, token) {
			return 0
		}
		m.count[key] = max(m.count[key], fence)
		return 1
	})
	return n > 0, err
}

// numHolders counts the nodes whose key has the token.
func (c cluster) numHolders(key, token string) int {
	n := 0
	for _, m := range c.nodes {
		m.mu.Lock()
		if m.has(key, token) {
			n++
		}
		m.mu.Unlock()
	}
	return n
}

// cluster is a set of nodes that share a journal.
type cluster struct {
	nodes []*memoryNode
	log   *journal
}

func newCluster(n int) cluster {
	c := cluster{log: &journal{}}
	for i := range n {
		c.nodes = append(c.nodes, &memoryNode{
			name: "n" + string(rune('1'+i)), log: c.log,
			faults: map[string]stepFault{}, keys: map[string]entry{}, count: map[string]int64{},
		})
	}
	return c
}

// take makes another client hold the key on the given nodes.
func (c cluster) take(key string, nodes ...int) {
	for _, i := range nodes {
		c.nodes[i].keys[key] = entry{"other", time.Now().Add(time.Hour)}
	}
}

// setFault sets the fault for a step on the given nodes.
func (c cluster) setFault(step string, f stepFault, nodes ...int) {
	for _, i := range nodes {
		c.nodes[i].mu.Lock()
		c.nodes[i].faults[step] = f
		c.nodes[i].mu.Unlock()
	}
}

// client returns a client with a TTL of 10 s that makes one attempt. change may modify the
// configuration.
func (c cluster) client(t testing.TB, change func(*redlock.Config)) *redlock.Client {
	t.Helper()
	cfg := redlock.Config{TTL: ttl, Tries: 1}
	for _, m := range c.nodes {
		cfg.Nodes = append(cfg.Nodes, m)
	}
	if change != nil {
		change(&cfg)
	}
	client, err := redlock.Specification(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// acquire acquires the lock on "k" or fails the test.
func acquire(t testing.TB, c *redlock.Client) *redlock.Lock {
	t.Helper()
	l, err := c.Acquire(context.Background(), "k")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// wantKind checks that err is an *Error of the given kind.
func wantKind(t testing.TB, err, kind error) *redlock.Error {
	t.Helper()
	var e *redlock.Error
	if !errors.As(err, &e) || !errors.Is(err, kind) {
		t.Fatalf("error: %v; want kind %q", err, kind)
	}
	return e
}
