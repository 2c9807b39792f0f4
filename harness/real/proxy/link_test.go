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
	b := newBench(t)
	c1, c2 := b.dial(), b.dial()
	c1.send("SET lock tokenA NX PX 10000")
	c1.want("+OK")
	c2.send("SET lock tokenB NX PX 10000")
	c2.want("$-1")
	c1.send("GET lock") // not recorded
	c1.want("$6")
	c1.want("tokenA")
	c1.send("DEL lock")
	c1.want(":1")
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
		if !(0 < e.Sent && e.Sent <= e.Applied && e.Applied <= e.Answered && e.Answered == e.T) {
			t.Errorf("event %d: sent %d, applied %d, answered %d, t %d are not in order", i, e.Sent, e.Applied, e.Answered, e.T)
		}
	}
	if events[0].TTL != int64(10*time.Second) {
		t.Errorf("TTL is %d", events[0].TTL)
	}
}

func TestMatchesRepliesOfConcurrentConnections(t *testing.T) {
	b := newBench(t)
	const conns, each = 5, 20
	var all sync.WaitGroup
	for i := range conns {
		c := b.dial()
		all.Go(func() {
			for j := range each { // a pipeline: two commands in one write
				c.send(fmt.Sprintf("SET k%d-%d v%d-%d\r\nGET nothing", i, j, i, j))
				c.want("+OK")
				c.want("$-1")
			}
		})
	}
	all.Wait()
	seen := map[string]bool{}
	for _, e := range b.waitEvents(conns * each) {
		if e.Type != history.OK || strings.TrimPrefix(e.Key, "k") != strings.TrimPrefix(e.Token, "v") {
			text, _ := json.Marshal(e)
			t.Errorf("wrong reply: %s", text)
		}
		seen[e.Key] = true
	}
	if len(seen) != conns*each {
		t.Errorf("%d keys recorded, want %d", len(seen), conns*each)
	}
}

func TestCutHoldsBothWaysAndMendDelivers(t *testing.T) {
	b := newBench(t)
	old := b.dial()
	old.send("PING")
	old.want("+PONG")
	check(t, b.link.Cut(nemesis.CutHold, ""))
	late := b.dial() // connects succeed
	old.send("SET a 1")
	late.send("SET b 2")
	gone := b.dial()
	gone.send("SET c 3")
	gone.conn.Close()
	if got := old.receive(silence) + late.receive(silence) + b.direct("GET", "a") + b.direct("GET", "b") + b.direct("GET", "c"); got != "" {
		t.Fatalf("%q passed through a cut link", got)
	}
	check(t, b.link.Mend())
	old.want("+OK")
	late.want("+OK")
	unanswered := 0
	for _, e := range b.waitEvents(3) {
		if e.Applied == 0 {
			t.Errorf("not applied: %+v", e)
		}
		if e.Answered == 0 {
			unanswered++
		}
	}
	if got := b.direct("GET", "a") + b.direct("GET", "b") + b.direct("GET", "c"); got != "123" || unanswered != 1 {
		t.Errorf("values %q, %d unanswered commands; want 123 and 1", got, unanswered)
	}
}

func TestDeadNodeLeavesRequestUnanswered(t *testing.T) {
	b := newBench(t)
	hit := b.tap("set", nemesis.Request, 1)
	c := b.dial()
	c.send("SET lock A")
	hit()
	if _, err := b.node.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.receive(soon); got != "" {
		t.Errorf("received %q from a dead node", got)
	}
	if e := b.waitEvents(1)[0]; e.Type != history.Info || e.Applied != 0 || e.Answered != 0 {
		t.Errorf("%+v, want no answer", e)
	}
}

func TestCloseRecordsHeldReply(t *testing.T) {
	b := newBench(t)
	hit := b.tap("set", nemesis.Reply, 1)
	c := b.dial()
	c.send("SET lock A")
	hit()
	check(t, b.link.Cut("", ""))
	check(t, b.mesh.Close())
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.events) != 1 || b.events[0].Applied == 0 || b.events[0].Answered != 0 {
		t.Errorf("%+v, want one command that was applied but not answered", b.events)
	}
}

// If clients that send large values give up midway, toxiproxy's own way of changing toxics hangs.
func TestAbandonedTrafficLeaksNoGoroutines(t *testing.T) {
	b := newBench(t)
	value := strings.Repeat("x", 256<<10)
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
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
	toggling := make(chan struct{})
	go func() {
		defer close(toggling)
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
	all.Wait()
	close(stop)
	<-toggling
	check(t, b.mesh.Close())
	for end := time.Now().Add(soon); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, want at most %d as before", runtime.NumGoroutine(), before)
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
		if got := s.Cut([]byte(b)); join(got) != b {
			t.Errorf("got pieces %q of %q", got, b)
		}
	}
	var whole resp.Scanner
	if got := whole.Cut([]byte("PING\r\n$1\r\na\r\n+")); len(got) != 3 || string(got[1]) != "$1\r\na\r\n" {
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
	b := newBench(t)
	asks := func() error {
		_, err := proc.Ask(t.Context(), b.link.Addr(), "PING")
		return err
	}
	b.mesh.SetDown(b.node.Addr(), true)
	if err := asks(); err == nil {
		t.Error("a node that is down answers")
	}
	b.mesh.Redirect("n1", b.node.Addr())
	if err := asks(); err != nil {
		t.Error(err)
	}
}

// A client that is waiting for an unresponsive node is disconnected when the link is redirected or
// closed, or when the node is declared down. The client does not delay other clients.
func TestPendingConnectIsAborted(t *testing.T) {
	for what, end := range map[string]func(b *bench, upstream string){
		"redirected": func(*bench, string) {},
		"down":       func(b *bench, upstream string) { b.mesh.SetDown(upstream, true) },
		"closed":     func(b *bench, _ string) { check(t, b.mesh.Close()) },
	} {
		b, upstream := newBench(t), unreachable(t)
		b.mesh.Redirect("n1", upstream)
		waits := b.dial()
		brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if _, err := proc.Ask(brief, b.link.Addr(), "PING"); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: want a timeout, got %v", what, err)
		}
		cancel()
		end(b, upstream)
		if what == "redirected" {
			b.mesh.Redirect("n1", b.node.Addr())
			if _, err := proc.Ask(t.Context(), b.link.Addr(), "PING"); err != nil {
				t.Error(err)
			}
		}
		if err := waits.readError(); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the client is still waiting", what)
		}
	}
}

// unreachableAddr returns an address that does not answer connects, because its accept queue is
// full.
func unreachable(t *testing.T) string {
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
