package app

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// TTL is the TTL of all locks.
const TTL = 8 * time.Second

// Obtain waits for a lock.
func Obtain(ctx context.Context, client *redis.Client, key string) (*redislock.Lock, error) {
	return redislock.Obtain(ctx, client, key, TTL, &redislock.Options{RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond)})
}
