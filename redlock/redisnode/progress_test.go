//go:build processes

package redisnode_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockpick/redlock"
	"lockpick/redlock/redisnode/redistest"
)

// TestManyGoroutinesUnderFaults makes 200 goroutines lock their own keys repeatedly while one of
// five nodes hangs, drops connections or sends garbage. Every attempt must succeed.
func TestManyGoroutinesUnderFaults(t *testing.T) {
	const goroutines, times = 200, 3
	for fault, answer := range map[string]redistest.Handler{
		"none": nil, "hangs": redistest.Hang, "drops": redistest.Drop, "garbage": redistest.Garbage["endless status"],
	} {
		for _, kind := range []string{"go-redis", "wire"} {
			t.Run(fault+"/"+kind, func(t *testing.T) {
				addrs := redistest.Start(t, 4)
				if answer == nil {
					addrs = append(addrs, redistest.Start(t, 1)...)
				} else {
					addrs = append(addrs, redistest.Serve(t, answer))
				}
				var nodes []redlock.Node
				for _, addr := range addrs {
					n, closer := openDriver(kind, addr)
					defer closer.Close()
					nodes = append(nodes, n)
				}
				locks, err := redlock.New(redlock.Config{Nodes: nodes, TTL: 10 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				var wg sync.WaitGroup
				var grants atomic.Int64
				for i := range goroutines {
					wg.Go(func() {
						for range times {
							err := locks.Do(ctx, fmt.Sprint("k", i), func(context.Context) error { grants.Add(1); return nil })
							if err != nil && ctx.Err() != nil {
								t.Errorf("goroutine %d: %v", i, err)
								return
							}
						}
					})
				}
				wg.Wait()
				t.Logf("%d grants in %v", grants.Load(), time.Since(start).Round(time.Millisecond))
				if grants.Load() != goroutines*times {
					t.Errorf("%d grants, want %d", grants.Load(), goroutines*times)
				}
				locks.Close() // the releases on the faulty node stay pending
			})
		}
	}
}
