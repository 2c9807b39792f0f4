package locktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"example.org/app"
	"lockpick/harness/lock"
	"lockpick/harness/locktest"
)

type client struct{ *redis.Client }

func (c client) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	l, err := app.Obtain(ctx, c.Client, key)
	return handle{l}, err
}

type handle struct{ *redislock.Lock }

func (handle) Deadline() time.Time { return time.Time{} } // the library has none

func TestLock(t *testing.T) {
	kind := lock.Kind{OneNode: true, OwnTime: true, OwnTokens: true, Belief: lock.ByNothing, New: func(env lock.Env) (lock.Lock, error) {
		return client{redis.NewClient(&redis.Options{Addr: env.Nodes[0].Addr, Dialer: env.Dial})}, nil
	}}
	locktest.Run(t, kind, locktest.Options{TTL: app.TTL, Scenarios: []string{"baseline/", "holder-crashes/"}})
}
