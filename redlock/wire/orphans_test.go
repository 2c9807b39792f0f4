//go:build processes

package wire_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockpick/redlock"
	"lockpick/redlock/driver"
	"lockpick/redlock/redisnode/redistest"
	"lockpick/redlock/wire"
)

// cutter is a proxy that cuts connections to a node. Data that the client sent before the cut still
// reaches the node later, like packets in flight.
type cutter struct {
	*testing.T
	net.Listener
	node       string
	goroutines sync.WaitGroup
	cuts       atomic.Int64

	mu        sync.Mutex
	rng       *rand.Rand
	openConns map[net.Conn]bool
}

func newCutter(t *testing.T, node string) *cutter {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{T: t, Listener: l, node: node, openConns: map[net.Conn]bool{}, rng: rand.New(rand.NewPCG(1, 2))}
	c.goroutines.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			c.mu.Lock()
			c.openConns[client] = true
			c.mu.Unlock()
			c.goroutines.Go(func() { c.forward(client) })
		}
	})
	return c
}

func (c *cutter) forward(client net.Conn) {
	node, err := net.Dial("tcp", c.node)
	if err != nil {
		c.Error(err)
		client.Close()
		return
	}
	c.goroutines.Go(func() { io.Copy(client, node); client.Close() })
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		delay := time.Duration(0)
		c.mu.Lock()
		if err == nil && c.openConns[client] && c.rng.IntN(40) == 0 {
			delete(c.openConns, client)
			delay = time.Duration(c.rng.Int64N(int64(30 * time.Millisecond)))
		}
		c.mu.Unlock()
		if delay > 0 {
			c.cuts.Add(1)
			client.Close()
			<-time.After(delay)
		}
		if n > 0 {
			node.Write(buf[:n])
		}
		if err != nil {
			node.Close()
			return
		}
	}
}

// Ten thousand locks are acquired and released while connections are cut with requests in flight.
// No keys are left on any node, although the keys' TTL is an hour.
func TestNoKeysAreLeft(t *testing.T) {
	for name, terms := range map[string]redlock.Config{"plain": {}, "fence": {Fence: true}} {
		t.Run(name, func(t *testing.T) { testNoKeysAreLeft(t, terms) })
	}
}

func testNoKeysAreLeft(t *testing.T, cfg redlock.Config) {
	addrs := redistest.Start(t, 3)
	cfg.TTL, cfg.Timeout, cfg.RetryMin, cfg.RetryMax = time.Hour, 50*time.Millisecond, 5*time.Millisecond, 20*time.Millisecond
	var cutters []*cutter
	var nodes []*wire.Node
	for _, addr := range addrs {
		c := newCutter(t, addr)
		n := wire.New(wire.Options{Addr: c.Addr().String(), Timeout: cfg.Timeout})
		cutters, nodes, cfg.Nodes = append(cutters, c), append(nodes, n), append(cfg.Nodes, n)
	}
	l, err := redlock.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	const at, rounds = 20, 500
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // a key left behind would block an acquire
	defer cancel()
	var wg sync.WaitGroup
	for i := range at {
		wg.Go(func() {
			for j := range rounds {
				s, err := l.Acquire(ctx, fmt.Sprint("k", i, ".", j))
				if err != nil {
					t.Error(err)
					return
				}
				s.Release(ctx)
			}
		})
	}
	wg.Wait()
	for range 100 { // on a busy machine, one Close may not be enough
		if err = l.Close(); err == nil {
			break
		}
	}
	if err != nil {
		t.Error(err)
	}
	for _, n := range nodes {
		n.Close()
	}
	cuts := int64(0)
	for _, c := range cutters {
		c.Close()
		c.goroutines.Wait()
		cuts += c.cuts.Load()
	}
	for _, addr := range addrs {
		_, client := open(t, addr)
		var keys []string
		wg := client.Scan(ctx, 0, "*", 10).Iterator() // a few at a time, because the client rejects long replies
		for wg.Next(ctx) {
			if !strings.HasSuffix(wg.Val(), driver.CountSuffix) {
				keys = append(keys, wg.Val())
			}
		}
		if err := wg.Err(); err != nil || len(keys) > 0 {
			t.Errorf("%d keys are left on %s: %.100v, %v", len(keys), addr, keys, err)
		}
	}
	if t.Logf("%d connections were cut", cuts); cuts < 30 {
		t.Error("too few cuts for a meaningful test, want at least 30")
	}
}
