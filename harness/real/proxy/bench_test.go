//go:build linux

package proxy

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
)

// testLink is a link to one real node, with the events that it has recorded.
type testLink struct {
	t      *testing.T
	node   *proc.Redis
	mesh   *Mesh
	link   *Link
	origin time.Duration

	mu             sync.Mutex
	events         []history.Event
	recordedEvents chan struct{}
}

func newTestLink(t *testing.T) *testLink {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not on PATH: apt-get install redis-server")
	}
	g, err := proc.NewGroup(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, g.Close()) })
	b := &testLink{t: t, origin: proc.TrueClock(), recordedEvents: make(chan struct{}, 1000)}
	if b.node, err = g.StartRedis(t.Context(), "n1", bin, "none"); err != nil {
		t.Fatal(err)
	}
	b.mesh = NewMesh(1, func() time.Duration { return proc.TrueClock() - b.origin }, func(e history.Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.events = append(b.events, e)
		b.recordedEvents <- struct{}{}
	})
	if b.link, err = b.mesh.Open("c1", "n1", b.node.Addr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, b.mesh.Close()) })
	return b
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// waitEvents waits until there are n events, and returns all events in time order. They may be
// recorded out of order, because each connection records events in its own goroutine.
func (b *testLink) waitEvents(n int) []history.Event {
	b.t.Helper()
	limit := time.After(5 * time.Second)
	for {
		b.mu.Lock()
		events := append([]history.Event(nil), b.events...)
		b.mu.Unlock()
		if len(events) >= n {
			history.Sort(events)
			return events
		}
		select {
		case <-b.recordedEvents:
		case <-limit:
			b.t.Fatalf("%d events, want %d: %+v", len(events), n, events)
		}
	}
}

// waitLink waits until the link is in a certain state, described by what.
func (b *testLink) waitLink(what string, reached func(l *Link) bool) {
	b.t.Helper()
	for end := time.Now().Add(waitTimeout); ; time.Sleep(time.Millisecond) {
		b.link.mu.Lock()
		done := reached(b.link)
		b.link.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("no %s within %v", what, waitTimeout)
		}
	}
}

// direct sends a command directly to the node.
func (b *testLink) direct(args ...string) string {
	b.t.Helper()
	v, err := proc.Ask(context.Background(), b.node.Addr(), args...)
	if err != nil {
		b.t.Fatal(err)
	}
	return v.Str
}

// testClient is one connection from the client.
type testClient struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func (b *testLink) dial() *testClient {
	b.t.Helper()
	conn, err := net.Dial("tcp", b.link.Addr())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { conn.Close() })
	return &testClient{b.t, conn, bufio.NewReader(conn)}
}

func (c *testClient) send(command string) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.conn, "%s\r\n", command); err != nil {
		c.t.Fatal(err)
	}
}

// receive returns the next line, or "" on a timeout.
func (c *testClient) receive(timeout time.Duration) string {
	c.conn.SetReadDeadline(time.Now().Add(timeout))
	line, _ := c.in.ReadString('\n')
	return strings.TrimSpace(line)
}

func (c *testClient) wantLine(line string) {
	c.t.Helper()
	if got := c.receive(5 * time.Second); got != line {
		c.t.Fatalf("got %q, want %q", got, line)
	}
}

const (
	waitTimeout = 5 * time.Second
	silenceTime = 20 * time.Millisecond // long enough to notice that nothing arrives
)
