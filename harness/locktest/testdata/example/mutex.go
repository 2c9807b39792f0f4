// Package mutex is a minimal correct lock that uses one key on one Redis server.
package mutex

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
)

// New returns a lock for one client.
func New(env lock.Env) (lock.Lock, error) {
	return &mutex{Env: env, client: redis.NewClient(&redis.Options{Addr: env.Nodes[0].Addr, Dialer: env.Dial,
		DisableIdentity: true, Protocol: 2, MaxRetries: -1, ContextTimeoutEnabled: true})}, nil
}

type mutex struct {
	lock.Env
	client   *redis.Client
	careless bool // Release deletes the key, whichever client has set it
	tries    int
}

// Acquire tries until it has the lock or ctx ends. The lease starts before the key is set, and is
// shortened by a hundredth to allow for clock drift.
func (m *mutex) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	for {
		m.tries++
		ttl, start := m.Settings.TTL, m.Now()
		h := &held{m, key, m.Token(m.tries), start.Add(ttl - ttl/100)}
		ask, cancel := context.WithTimeout(ctx, m.Settings.Timeout)
		set, err := m.client.SetNX(ask, key, h.token, ttl).Result()
		cancel()
		if set && m.Now().Before(h.deadline) {
			return h, nil
		}
		if err != nil { // the key may have been set nevertheless
			h.Release(context.WithoutCancel(ctx))
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("acquire %s: %w (%v)", key, ctx.Err(), err)
		case <-m.After(m.Delay(m.tries, m.Settings.RetryMin, m.Settings.RetryMax)):
		}
	}
}

// Close implements lock.Lock.
func (m *mutex) Close() error { return m.client.Close() }

type held struct {
	*mutex
	key, token string
	deadline   time.Time
}

var _ lock.Tokener = (*held)(nil)

func (h *held) Deadline() time.Time { return h.deadline }
func (h *held) Token() string       { return h.token }

var compareAndDelete = redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`)

// Release releases the lock if this holder still has it.
func (h *held) Release(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, h.Settings.Timeout)
	defer cancel()
	if h.careless {
		return h.client.Del(ask, h.key).Err()
	}
	n, err := compareAndDelete.Run(ask, h.client, []string{h.key}, h.token).Int()
	if err == nil && n == 0 {
		return lock.ErrNotHeld
	}
	return err
}
