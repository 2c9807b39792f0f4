package wire_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/redlock"
	"lockpick/redlock/redisnode"
	"lockpick/redlock/redisnode/redistest"
	"lockpick/redlock/wire"
)

// With both drivers, every acquire succeeds and no keys are left although servers forget their
// scripts or restart.
func TestForgetfulServers(t *testing.T) {
	drivers := map[string]func(string) (redlock.Node, func() error){
		"wire": func(addr string) (redlock.Node, func() error) {
			n := wire.New(wire.Options{Addr: addr, Timeout: time.Second})
			return n, n.Close
		},
		"redisnode": func(addr string) (redlock.Node, func() error) {
			o := redisnode.Options(addr)
			o.PoolSize = 10_000 // go-redis waits for a second after this many refused connections in a row
			client := redis.NewClient(o)
			return redisnode.New(client), client.Close
		},
	}
	addrs := redistest.Start(t, 3, "--enable-debug-command", "yes")
	for driver, node := range drivers {
		t.Run(driver+"/scripts", func(t *testing.T) {
			f := newForgetfulServers(t, addrs, node)
			f.forgetWhileLocking(30, func(c *redis.Client) { f.mustDo(c, "SCRIPT", "FLUSH") }, func(err error) {
				if err != nil {
					t.Error(err)
				}
			})
			if driver == "wire" && f.unknownScripts() < 10 {
				t.Errorf("the servers rejected only %d scripts, too few for a meaningful test", f.unknownScripts())
			}
		})
		t.Run(driver+"/restarts", func(t *testing.T) {
			f := newForgetfulServers(t, addrs, node)
			f.forgetWhileLocking(6, f.restart, func(error) {}) // after two restarts, the outcome of a release is unknown
		})
	}
}

// forgetfulServers contains a lock and its servers, which forget their scripts or restart.
type forgetfulServers struct {
	*testing.T
	clients []*redis.Client
	locker  *redlock.Locker
}

func newForgetfulServers(t *testing.T, addrs []string, node func(string) (redlock.Node, func() error)) *forgetfulServers {
	f := &forgetfulServers{T: t}
	cfg := redlock.Config{TTL: time.Hour, Timeout: time.Second, Fence: true, RetryMin: time.Millisecond, RetryMax: 5 * time.Millisecond}
	for _, addr := range addrs {
		n, end := node(addr)
		client := redis.NewClient(redisnode.Options(addr))
		t.Cleanup(func() { end(); client.Close() })
		cfg.Nodes, f.clients = append(cfg.Nodes, n), append(f.clients, client)
		f.mustDo(client, "FLUSHALL")
		f.mustDo(client, "CONFIG", "RESETSTAT")
	}
	var err error
	if f.locker, err = redlock.New(cfg); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *forgetfulServers) mustDo(c *redis.Client, args ...any) any {
	f.Helper()
	got, err := c.Do(context.Background(), args...).Result()
	if err != nil {
		f.Fatalf("%v: %v", args, err)
	}
	return got
}

// forgetWhileLocking calls forget the given number of times, for one server after another, while 16
// clients acquire and release locks.
func (f *forgetfulServers) forgetWhileLocking(times int, forget func(*redis.Client), released func(error)) {
	var done atomic.Bool
	var pairs atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for i := range 16 {
		wg.Go(func() {
			for !done.Load() && !f.Failed() {
				s, err := f.locker.Acquire(ctx, fmt.Sprint("k", i))
				if err != nil {
					f.Error(err)
					return
				}
				released(s.Release(context.Background()))
				pairs.Add(1)
			}
		})
	}
	for i := range times {
		before := pairs.Load()
		forget(f.clients[i%len(f.clients)])
		for !f.Failed() && pairs.Load() < before+16 {
			time.Sleep(100 * time.Microsecond)
		}
	}
	for i, c := range f.clients {
		for text := ""; !strings.Contains(text, "cmdstat_incr:"); time.Sleep(time.Millisecond) {
			if text, _ = c.Info(ctx, "commandstats").Result(); ctx.Err() != nil {
				f.Errorf("server %d has granted no lock since it last forgot its scripts or restarted", i+1)
				break
			}
		}
	}
	done.Store(true)
	wg.Wait()
	if err := f.locker.Close(); err != nil {
		f.Error(err)
	}
	for _, c := range f.clients {
		wg := c.Scan(ctx, 0, "*", 10).Iterator() // a few at a time, because the client rejects long replies
		for wg.Next(ctx) {
			if name := wg.Val(); !strings.HasSuffix(name, ":fence") && !strings.Contains(name, ":gone:") {
				f.Errorf("key %s is left", name)
			}
		}
		if err := wg.Err(); err != nil {
			f.Error(err)
		}
	}
	f.Logf("%d locks", pairs.Load())
}

// restart restarts a server and waits until it is back.
func (f *forgetfulServers) restart(c *redis.Client) {
	before := f.runID(c)
	c.Do(context.Background(), "DEBUG", "RESTART") // never sends a reply
	for f.runID(c) == before || f.runID(c) == "" {
		time.Sleep(time.Millisecond)
	}
}

func (f *forgetfulServers) runID(c *redis.Client) string {
	text, _ := c.Info(context.Background(), "server").Result()
	_, rest, _ := strings.Cut(text, "run_id:")
	return strings.TrimSpace(rest[:min(len(rest), 40)])
}

// unknownScripts returns how many times the servers rejected an unknown script.
func (f *forgetfulServers) unknownScripts() (sum int) {
	for _, c := range f.clients {
		text, _ := c.Info(context.Background(), "errorstats").Result()
		_, rest, _ := strings.Cut(text, "errorstat_NOSCRIPT:count=")
		n := 0
		fmt.Sscan(rest, &n)
		sum += n
	}
	return sum
}
