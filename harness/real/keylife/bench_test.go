//go:build linux

package keylife_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/keylife"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/proxy"
	"lockpick/harness/resp"
)

// testNode is one real node behind links, with a recorder of its key lives.
type testNode struct {
	testing.TB
	group    *proc.Group
	node     *proc.Redis
	mesh     *proxy.Mesh
	recorder *keylife.Recorder
	origin   time.Duration

	mu         sync.Mutex
	facts      []history.Event
	linkEvents []history.Event
}

// newTestNode starts redis-server with additional settings.
func newTestNode(t testing.TB, persist string, settings ...string) *testNode {
	t.Helper()
	b := &testNode{TB: t, origin: proc.TrueClock()}
	var err error
	if b.group, err = proc.NewGroup(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	b.Cleanup(func() { b.check(b.group.Close()) })
	if b.node, err = b.group.StartRedis(t.Context(), "n1", serverPath(t, settings), persist); err != nil {
		t.Fatal(err)
	}
	b.recorder = keylife.New(keylife.Config{Clock: proc.TrueClock, FromHarness: proc.HasRecentlyAsked, Record: b.record})
	b.recorder.Start(b.origin)
	b.mesh = proxy.NewMesh(1, func() time.Duration { return proc.TrueClock() - b.origin }, func(e history.Event) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.linkEvents = append(b.linkEvents, e)
	})
	b.mesh.Witness = func(name, node, from string) proxy.Witness {
		if s := b.recorder.Sender(name, node, from); s != nil {
			return s
		}
		return nil
	}
	b.Cleanup(func() { b.check(b.mesh.Close()) })
	return b
}

// serverPath returns the path of redis-server, or of a script that starts it with additional
// settings.
func serverPath(t testing.TB, settings []string) string {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not on PATH: apt-get install redis-server")
	}
	if len(settings) == 0 {
		return bin
	}
	script := filepath.Join(t.TempDir(), "redis-server")
	text := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\" %s\n", bin, strings.Join(settings, " "))
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return script
}

func (b *testNode) check(err error) {
	b.Helper()
	if err != nil {
		b.Error(err)
	}
}

func (b *testNode) record(e history.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.facts = append(b.facts, e)
}

func (b *testNode) watch() {
	b.Helper()
	if err := b.recorder.Watch(map[string]string{"n1": b.node.Addr()}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { b.check(b.recorder.Close()) })
}

// allFacts waits until the node has reported everything and returns all facts.
func (b *testNode) allFacts() []history.Event {
	b.Helper()
	b.check(b.recorder.Close())
	return b.factsSoFar()
}

func (b *testNode) factsSoFar() []history.Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]history.Event(nil), b.facts...)
}

// waitFor waits until a fact is recorded and returns it.
func (b *testNode) waitFor(what history.Change, key string) history.Event {
	b.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, e := range b.factsSoFar() {
			if e.Life.Kind == what && e.Key == key {
				return e
			}
		}
	}
	b.Fatalf("no fact %s of key %q; recorded:\n%s", what, key, formatFacts(b.factsSoFar()))
	return history.Event{}
}

// direct sends a command to the node in the same way as lockpick does, bypassing links.
func (b *testNode) direct(args ...string) resp.Value {
	b.Helper()
	v, err := proc.Ask(context.Background(), b.node.Addr(), args...)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

// formatFacts prints one line per fact, with the change, key, value, old value, client and command.
func formatFacts(facts []history.Event) string {
	var out strings.Builder
	for _, e := range facts {
		l := e.Life
		by := l.Sender
		if strings.Contains(by, ":") {
			by = "unknown"
		}
		fields := []string{string(l.Kind), e.Key, strconv.Quote(l.Value), "was", strconv.Quote(l.OldValue), "by", by, l.Command, l.Replacement}
		if l.Script {
			fields = append(fields, "in a script")
		}
		fmt.Fprintln(&out, strings.Join(slices.DeleteFunc(fields, func(f string) bool { return f == "" }), " "))
	}
	return out.String()
}

// wantFacts compares all recorded facts with want.
func (b *testNode) wantFacts(want string) {
	b.Helper()
	if got := formatFacts(b.allFacts()); strings.TrimSpace(got) != strings.TrimSpace(want) {
		b.Errorf("recorded:\n%swant:\n%s", got, want)
	}
	for i, e := range b.factsSoFar() {
		if l := e.Life; l.Seq != int64(i+1) || len(l.RunID) != 8 || e.T < l.MinT || e.T > l.MaxT || e.Process != "n1" || e.Op != history.OpLife || e.Type != history.Info {
			b.Errorf("fact %d is %+v, %+v", i+1, e, *l)
		}
	}
}

// testClient is a client's connection, either through a link or directly to the node.
type testClient struct {
	b    *testNode
	conn net.Conn
	scan resp.Scanner
}

// client connects to the node through the client's link.
func (b *testNode) client(name string) *testClient {
	b.Helper()
	l := b.mesh.Link(name + "-n1")
	if l == nil {
		var err error
		if l, err = b.mesh.Open(name, "n1", b.node.Addr()); err != nil {
			b.Fatal(err)
		}
	}
	return b.connect(l.Addr())
}

// directClient connects directly to the node.
func (b *testNode) directClient() *testClient { return b.connect(b.node.Addr()) }

func (b *testNode) connect(addr string) *testClient {
	b.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return &testClient{b: b, conn: conn}
}

// try sends a command and returns the reply.
func (c *testClient) try(args ...string) (resp.Value, error) {
	if _, err := c.conn.Write(resp.Append(nil, args...)); err != nil {
		return resp.Value{}, err
	}
	buf := make([]byte, 4096)
	for {
		n, err := c.conn.Read(buf)
		values, parseErr := c.scan.Feed(buf[:n])
		switch {
		case len(values) > 0:
			return values[0], nil
		case err != nil || parseErr != nil:
			return resp.Value{}, fmt.Errorf("%w, %w", err, parseErr)
		}
	}
}

func (c *testClient) do(args ...string) resp.Value {
	c.b.Helper()
	v, err := c.try(args...)
	if err != nil {
		c.b.Fatal(err)
	}
	return v
}

// copyData copies the node's data directory. With persistence always, the copy is complete, because
// the node syncs each write.
func (b *testNode) copyData() string {
	b.Helper()
	to := filepath.Join(b.TempDir(), "data")
	b.check(os.CopyFS(to, os.DirFS(b.group.DataDir("n1"))))
	return to
}

// restoreData restores a copy of the data directory while the node is down.
func (b *testNode) restoreData(from string) {
	b.Helper()
	dir := b.group.DataDir("n1")
	b.check(os.RemoveAll(dir))
	b.check(os.CopyFS(dir, os.DirFS(from)))
}
