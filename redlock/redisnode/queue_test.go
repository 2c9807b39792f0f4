package redisnode_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/redlock/driver"
	"lockpick/redlock/redisnode"
)

// slowClient is a client for a node that takes some time for each exchange.
type slowClient struct {
	delay time.Duration

	mu                                        sync.Mutex
	numActive, maxActive, maxBatch, numSingle int // exchanges in progress, their maximum, the largest batch, number of single commands
	sent                                      map[string]int
}

func (c *slowClient) exchange(ctx context.Context, cmds ...redis.Cmder) error {
	c.mu.Lock()
	c.numActive++
	c.maxActive, c.maxBatch = max(c.maxActive, c.numActive), max(c.maxBatch, len(cmds))
	for _, cmd := range cmds {
		c.sent[fmt.Sprint(cmd.Args()[3])]++
	}
	c.mu.Unlock()
	defer func() { c.mu.Lock(); c.numActive--; c.mu.Unlock() }()
	select {
	case <-time.After(c.delay):
		for _, cmd := range cmds {
			cmd.(*redis.Cmd).SetVal(int64(1))
		}
		return nil
	case <-ctx.Done():
		for _, cmd := range cmds {
			cmd.SetErr(ctx.Err())
		}
		return ctx.Err()
	}
}

func (c *slowClient) Process(ctx context.Context, cmd redis.Cmder) error {
	c.mu.Lock()
	c.numSingle++
	c.mu.Unlock()
	return c.exchange(ctx, cmd)
}

func (c *slowClient) Pipeline() redis.Pipeliner { return &slowPipeline{client: c} }

type slowPipeline struct {
	redis.Pipeliner
	client *slowClient
	cmds   []redis.Cmder
}

func (p *slowPipeline) Process(_ context.Context, cmd redis.Cmder) error {
	p.cmds = append(p.cmds, cmd)
	return nil
}

func (p *slowPipeline) Exec(ctx context.Context) ([]redis.Cmder, error) {
	return p.cmds, p.client.exchange(ctx, p.cmds...)
}

// A few commands are sent individually. The commands of many goroutines are sent in batches on a
// few connections.
func TestConcurrentCommandsAreBatched(t *testing.T) {
	for _, row := range []struct{ commands, single, exchanges, batch int }{{8, 8, 8, 1}, {200, 8, 8, 64}} {
		synctest.Test(t, func(t *testing.T) {
			c := &slowClient{delay: 10 * time.Millisecond, sent: map[string]int{}}
			n := redisnode.New(c)
			start := time.Now()
			var wg sync.WaitGroup
			for i := range row.commands {
				wg.Go(func() {
					ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
					defer cancel()
					if yes, err := n.Release(ctx, fmt.Sprint("k", i), "a"); !yes || err != nil {
						t.Errorf("release %d: %v, %v", i, yes, err)
					}
				})
			}
			wg.Wait()
			if c.numSingle != row.single || c.maxActive != row.exchanges || c.maxBatch != row.batch || len(c.sent) != row.commands {
				t.Errorf("%d commands: %d sent individually, %d concurrent exchanges of up to %d commands, %d sent", row.commands, c.numSingle, c.maxActive, c.maxBatch, len(c.sent))
			}
			if elapsed := time.Since(start); elapsed > 20*time.Millisecond {
				t.Errorf("took %v, want two exchanges of 10ms", elapsed)
			}
		})
	}
}

// A hanging node delays callers only until their deadlines. Commands that were not sent are
// reported as not sent, and are not sent later.
func TestQueueOfHangingNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &slowClient{delay: time.Hour, sent: map[string]int{}}
		n := redisnode.New(c)
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				timeout := 50 * time.Millisecond
				if i >= 8 {
					time.Sleep(time.Millisecond) // after the first eight commands are sent
					timeout = 30 * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				_, err := n.Release(ctx, fmt.Sprint("k", i), "a")
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrNotSent) != (i >= 8) {
					t.Errorf("release %d: %v", i, err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if len(c.sent) != 8 || c.numActive != 0 {
			t.Errorf("%d commands were sent, %d exchanges are still in progress; want 8 and 0", len(c.sent), c.numActive)
		}
		c.delay = 0
		if yes, err := n.Release(t.Context(), "later", "a"); !yes || err != nil || c.numSingle != 9 {
			t.Errorf("later release: %v, %v, %d sent individually", yes, err, c.numSingle)
		}
	})
}

// If a caller gives up, its pipelined command continues, and other commands are not affected.
func TestCanceledCommandInPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &slowClient{delay: 10 * time.Millisecond, sent: map[string]int{}}
		n := redisnode.New(c)
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				timeout := time.Second
				if i == 8 {
					time.Sleep(time.Millisecond)
					timeout = 14 * time.Millisecond
				} else if i == 9 {
					time.Sleep(time.Millisecond)
				}
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				yes, err := n.Release(ctx, fmt.Sprint("k", i), "a")
				if late := i == 8; yes == late || errors.Is(err, context.DeadlineExceeded) != late || errors.Is(err, driver.ErrNotSent) {
					t.Errorf("release %d: %v, %v", i, yes, err)
				}
			})
		}
		wg.Wait()
		if len(c.sent) != 10 || c.maxBatch != 2 {
			t.Errorf("%d commands sent, at most %d together; want 10 and 2", len(c.sent), c.maxBatch)
		}
	})
}
