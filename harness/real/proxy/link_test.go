//go:build linux

package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/harness/resp"
	"lockpick/nemesis"
)

func TestRecordsCommandTimes(t *testing.T) {
	b := newTestLink(t)
	c1, c2 := b.dial(), b.dial()
	c1.send("SET lock tokenA NX PX 10000")
	c1.wantLine("+OK")
	c2.send("SET lock tokenB NX PX 10000")
	c2.wantLine("$-1")
	c1.send("GET lock") // not recorded
	c1.wantLine("$6")
	c1.wantLine("tokenA")
	c1.send("DEL lock")
	c1.wantLine(":1")
	events := b.waitEvents(3)
	want := []struct {
		op, token string
		typ       history.Type
	}{{"set", "tokenA", history.OK}, {"set", "tokenB", history.Fail}, {"release", "", history.OK}}
	if len(events) != len(want) {
		t.Fatalf("%d events, want %d", len(events), len(want))
	}
	for i, e := range events {
		if e.Op != want[i].op || e.Token != want[i].token || e.Type != want[i].typ || e.Process != "c1-n1" || e.Node != "n1" || e.Key != "lock" {
			t.Errorf("event %d is %+v, want %v", i, e, want[i])
		}
		if !(0 < e.SentAt && e.SentAt <= e.AppliedAt && e.AppliedAt <= e.AnsweredAt && e.AnsweredAt == e.T) {
			t.Errorf("event %d: sent %d, applied %d, answered %d, t %d are not in order", i, e.SentAt, e.AppliedAt, e.AnsweredAt, e.T)
		}
	}
	if events[0].TTL != int64(10*time.Second) {
		t.Errorf("TTL is %d", events[0].TTL)
	}
}

func TestMatchesRepliesOfConcurrentConnections(t *testing.T) {
	b := newTestLink(t)
	const conns, perConn = 5, 20
	var wg sync.WaitGroup
	for i := range conns {
		c := b.dial()
		wg.Go(func() {
			for j := range perConn { // a pipeline: two commands in one write
				c.send(fmt.Sprintf("SET k%d-%d v%d-%d\r\nGET nothing", i, j, i, j))
				c.wantLine("+OK")
				c.wantLine("$-1")
			}
		})
	}
	wg.Wait()
	seenKeys := map[string]bool{}
	for _, e := range b.waitEvents(conns * perConn) {
		if e.Type != history.OK || strings.TrimPrefix(e.Key, "k") != strings.TrimPrefix(e.Token, "v") {
			text, _ := json.Marshal(e)
			t.Errorf("wrong reply: %s", text)
		}
		seenKeys[e.Key] = true
	}
	if len(seenKeys) != conns*perConn {
		t.Errorf("%d keys recorded, want %d", len(seenKeys), conns*perConn)
	}
}

func TestCutHoldsBothWaysAndMendDelivers(t *testing.T) {
	b := newTestLink(t)
	oldClient := b.dial()
	oldClient.send("PING")
	oldClient.wantLine("+PONG")
	check(t, b.link.Cut(nemesis.CutHold, ""))
	lateClient := b.dial() // connects succeed
	oldClient.send("SET a 1")
	lateClient.send("SET b 2")
	goneClient := b.dial()
	goneClient.send("SET c 3")
	goneClient.conn.Close()
	if got := oldClient.receive(silenceTime) + lateClient.receive(silenceTime) + b.direct("GET", "a") + b.direct("GET", "b") + b.direct("GET", "c"); got != "" {
		t.Fatalf("%q passed through a cut link", got)
	}
	check(t, b.link.Mend())
	oldClient.wantLine("+OK")
	lateClient.wantLine("+OK")
	unanswered := 0
	for _, e := range b.waitEvents(3) {
		if e.AppliedAt == 0 {
			t.Errorf("not applied: %+v", e)
		}
		if e.AnsweredAt == 0 {
			unanswered++
		}
	}
	if got := b.direct("GET", "a") + b.direct("GET", "b") + b.direct("GET", "c"); got != "123" || unanswered != 1 {
		t.Errorf("values %q, %d unanswered commands; want 123 and 1", got, unanswered)
	}
}

func TestDeadNodeLeavesRequestUnanswered(t *testing.T) {
	b := newTestLink(t)
	hit := b.tap("set", nemesis.Request, 1)
	c := b.dial()
	c.send("SET lock A")
	hit()
	if _, err := b.node.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.receive(waitTimeout); got != "" {
		t.Errorf("received %q from a dead node", got)
	}
	if e := b.waitEvents(1)[0]; e.Type != history.Info || e.AppliedAt != 0 || e.AnsweredAt != 0 {
		t.Errorf("%+v, want no answer", e)
	}
}

func TestCloseRecordsHeldReply(t *testing.T) {
	b := newTestLink(t)
	hit := b.tap("set", nemesis.Reply, 1)
	c := b.dial()
	c.send("SET lock A")
	hit()
	check(t, b.link.Cut("", ""))
	check(t, b.mesh.Close())
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) != 1 || b.events[0].AppliedAt == 0 || b.events[0].AnsweredAt != 0 {
		t.Errorf("%+v, want one command that was applied but not answered", b.events)
	}
}

// If clients that send large values give up midway, toxiproxy's own way of changing toxics hangs.
func TestAbandonedTrafficLeaksNoGoroutines(t *testing.T) {
	b := newTestLink(t)
	value := strings.Repeat("x", 256<<10)
	oldCount := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 10 {
				conn, err := net.Dial("tcp", b.link.Addr())
				if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) {
					continue // the effect of some cuts
				}
				if err != nil {
					t.Error(err)
					return
				}
				conn.SetDeadline(time.Now().Add(5 * time.Millisecond))
				fmt.Fprintf(conn, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", len(value), value)
				conn.Read(make([]byte, 10))
				conn.Close()
			}
		})
	}
	stop := make(chan struct{})
	togglerDone := make(chan struct{})
	go func() {
		defer close(togglerDone)
		for n := 0; ; n++ {
			b.link.Cut([]string{nemesis.CutHold, nemesis.CutDrop, nemesis.CutReset, nemesis.CutRefuse}[n%4], "")
			b.link.Mend()
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	wg.Wait()
	close(stop)
	<-togglerDone
	check(t, b.mesh.Close())
	for end := time.Now().Add(waitTimeout); runtime.NumGoroutine() > oldCount; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, want at most %d as before", runtime.NumGoroutine(), oldCount)
		}
	}
}

func TestTapRejectsInvalidMessages(t *testing.T) {
	l := &Link{name: "c1-n1"}
	for _, m := range []nemesis.OnMessage{{Message: "steal", Of: "reply", Nth: 1}, {Message: "set", Of: "both", Nth: 1}, {Message: "set", Of: "reply"}} {
		if err := l.Tap(m, nil); err == nil || !strings.Contains(err.Error(), "c1-n1") {
			t.Errorf("tap %+v: %v", m, err)
		}
	}
}

func TestRefuse(t *testing.T) {
	addr, release, err := refuse("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if conn, err := net.Dial("tcp", addr); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("dial: %v, %v", conn, err)
	}
	if l, err := net.Listen("tcp", addr); err == nil {
		l.Close()
		t.Error("another process can listen on the address")
	}
}

func TestScannerPassesNonRESP(t *testing.T) {
	var s resp.Scanner
	for _, b := range []string{"*1\r\n$4\r\nPI", "NG\r\nPING\r\n*x\r\n", "garbage"} {
		if got := s.Split([]byte(b)); join(got) != b {
			t.Errorf("got pieces %q of %q", got, b)
		}
	}
	var scanner resp.Scanner
	if got := scanner.Split([]byte("PING\r\n$1\r\na\r\n+")); len(got) != 3 || string(got[1]) != "$1\r\na\r\n" {
		t.Errorf("got pieces %q", got)
	}
}

func join(parts [][]byte) string {
	var b strings.Builder
	for _, p := range parts {
		b.Write(p)
	}
	return b.String()
}

// Links to a node that is down disconnect all clients until the links are redirected to a node that
// is up.
func TestRedirectedLinksAreNotDown(t *testing.T) {
	b := newTestLink(t)
	ping := func() error {
		_, err := proc.Ask(t.Context(), b.link.Addr(), "PING")
		return err
	}
	b.mesh.SetDown(b.node.Addr(), true)
	if err := ping(); err == nil {
		t.Error("a node that is down answers")
	}
	b.mesh.Redirect("n1", b.node.Addr())
	if err := ping(); err != nil {
		t.Error(err)
	}
}

// A client that is waiting for an unresponsive node is disconnected when the link is redirected or
// closed, or when the node is declared down. The client does not delay other clients.
func TestPendingConnectIsAborted(t *testing.T) {
	for what, abort := range map[string]func(b *testLink, upstream string){
		"redirected": func(*testLink, string) {},
		"down":       func(b *testLink, upstream string) { b.mesh.SetDown(upstream, true) },
		"closed":     func(b *testLink, _ string) { check(t, b.mesh.Close()) },
	} {
		b, upstream := newTestLink(t), unreachableAddr(t)
		b.mesh.Redirect("n1", upstream)
		waitingClient := b.dial()
		shortCtx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if _, err := proc.Ask(shortCtx, b.link.Addr(), "PING"); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: want a timeout, got %v", what, err)
		}
		cancel()
		abort(b, upstream)
		if what == "redirected" {
			b.mesh.Redirect("n1", b.node.Addr())
			if _, err := proc.Ask(t.Context(), b.link.Addr(), "PING"); err != nil {
				t.Error(err)
			}
		}
		if err := waitingClient.readError(); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the client is still waiting", what)
		}
	}
}

// unreachableAddr returns an address that does not accept connections, because its accept queue is
// full.
func unreachableAddr(t *testing.T) string {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	check(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	check(t, unix.Listen(fd, 0))
	name, err := unix.Getsockname(fd)
	check(t, err)
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	for range 10 {
		conn, err := net.DialTimeout("tcp", addr, 50*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("the accept queue is not full after 10 connections")
	return ""
}
