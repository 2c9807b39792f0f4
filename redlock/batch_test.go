package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/redlock"
	"lockpick/redlock/driver"
)

// batcher is a memoryNode that implements Batcher. It executes requests in order, but may answer
// them late.
type batcher struct {
	*memoryNode
	delay     func() time.Duration // negative: the answer arrives before Submit returns
	fault     func() error
	changeErr error // set if a request changed before it was answered
}

func (c *batcher) Flush() {}

func (c *batcher) Submit(r *driver.Request) {
	sent := *r
	value, err := c.execute(&sent)
	answer := func() {
		if *r != sent {
			c.changeErr = fmt.Errorf("request %v had changed to %v by the time it was answered", sent, *r)
		}
		if fault := c.fault(); fault != nil {
			err = fault
		}
		r.Collector.Answered(r, value, err)
	}
	if d := c.delay(); d >= 0 {
		time.AfterFunc(d+1, answer) // if a timer in a bubble has a delay of 0, the race detector of Go 1.26 sometimes crashes
	} else {
		answer()
	}
}

func (c *batcher) execute(r *driver.Request) (n int64, err error) {
	yes := false
	switch r.Op {
	case driver.OpSet:
		yes, err = c.Set(context.Background(), r.Key, r.Token, r.TTL)
	case driver.OpRelease:
		yes, err = c.Release(context.Background(), r.Key, r.Token)
	case driver.OpExtend:
		yes, err = c.Extend(context.Background(), r.Key, r.Token, r.TTL)
	default:
		err = fmt.Errorf("unexpected operation %d", r.Op)
	}
	if yes {
		n = 1
	}
	return n, err
}

func newBatchers() (out []*batcher, c cluster) {
	c = newCluster(5)
	for _, m := range c.nodes {
		out = append(out, &batcher{memoryNode: m, delay: func() time.Duration { return -1 }, fault: func() error { return nil }})
	}
	return out, c
}

// Each request gets its own answer, and no keys are left behind, even if answers are late and
// callers give up.
func TestAnswersMatchRequests(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			nodes, c := newBatchers()
			var mu sync.Mutex
			rng := rand.New(rand.NewPCG(seed, 1))
			randN := func(n int64) int64 { mu.Lock(); defer mu.Unlock(); return rng.Int64N(n) }
			for _, n := range nodes {
				n.delay = func() time.Duration { return time.Duration(randN(40)-4) * ms }
				n.fault = func() error {
					if randN(20) == 0 {
						return errLost
					}
					return nil
				}
			}
			l := locker(t, nodes, nil)
			var wg sync.WaitGroup
			for i := range 30 {
				wg.Go(func() {
					for range 20 {
						ctx := context.Background()
						if randN(3) == 0 {
							ctx = cancelAfter(time.Duration(randN(60))*ms + 1)
						}
						s, err := l.Acquire(ctx, fmt.Sprint("k", i%20))
						if err != nil {
							continue
						}
						if randN(2) == 0 {
							s.Extend(ctx)
						}
						s.Release(ctx)
					}
				})
			}
			wg.Wait()
			l.Close()
			keys := 0
			for i, n := range nodes {
				if n.changeErr != nil {
					t.Errorf("n%d: %v", i+1, n.changeErr)
				}
				keys += len(c.nodes[i].keys)
			}
			if keys > 0 {
				t.Errorf("seed %d: %d keys are left", seed, keys)
			}
		})
	}
}

// A lease's context ends exactly at the lease's deadline, regardless of the order in which leases
// are acquired and extended.
func TestContextsOfManyLeases(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 2))
			nodes, _ := newBatchers()
			l := locker(t, nodes, nil)
			var ended sync.WaitGroup
			var leases []*redlock.Lease
			watch := func(s *redlock.Lease) {
				ctx := s.Context()
				ended.Go(func() {
					<-ctx.Done()
					cause := context.Cause(ctx)
					if delay := time.Since(s.Until()); cause == redlock.ErrExpired && delay != 0 || cause == redlock.ErrReleased && delay > 0 {
						t.Errorf("seed %d: the context ended %v after the deadline with cause %v", seed, delay, cause)
					}
				})
			}
			for i := range 200 {
				time.Sleep(time.Duration(rng.IntN(100)) * ms)
				s, err := l.Acquire(t.Context(), fmt.Sprint(i))
				if err != nil {
					t.Fatal(err)
				}
				leases = append(leases, s)
				switch other := leases[rng.IntN(len(leases))]; rng.IntN(8) {
				case 0, 1, 2:
					other.Extend(t.Context())
				case 3:
					other.Release(t.Context())
				case 4, 5:
					if other.Remaining() > 0 {
						watch(other)
					}
				default:
					watch(s)
				}
			}
			ended.Wait()
			for _, s := range leases {
				s.Release(t.Context())
				if cause := context.Cause(s.Context()); cause != redlock.ErrExpired && cause != redlock.ErrReleased {
					t.Errorf("seed %d: a context ended with cause %v", seed, cause)
				}
			}
		})
	}
}

// A lease whose context is never requested needs few allocations and no goroutine.
func TestAllocations(t *testing.T) {
	l := locker(t, make([]yesNode, 5), nil)
	ctx := context.Background()
	allocs := testing.AllocsPerRun(1000, func() {
		s, err := l.Acquire(ctx, "k")
		if err := errors.Join(err, s.Release(ctx)); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 10 {
		t.Errorf("%v allocations per acquire and release, want at most 10", allocs)
	}
}

// yesNode answers yes to every request before Submit returns.
type yesNode struct{ redlock.Node }

func (yesNode) Submit(r *driver.Request) { r.Collector.Answered(r, 1, nil) }
func (yesNode) Flush()                   {}
