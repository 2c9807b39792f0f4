//go:build linux

package proxy

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
)

// firstPort is a port below the kernel's range of ephemeral ports.
const firstPort = 21000

// meshWithPorts adds a second mesh, whose links have their own ports.
func (b *testLink) meshWithPorts() *Mesh {
	b.t.Helper()
	m := NewMesh(1, func() time.Duration { return proc.TrueClock() - b.origin }, func(history.Event) {})
	m.Ports = firstPort
	b.t.Cleanup(func() { check(b.t, m.Close()) })
	return m
}

func (b *testLink) dialLink(l *Link) *testClient {
	b.t.Helper()
	b.link = l
	return b.dial()
}

// Each link connects from its own range of ports and skips ports that are in use.
func TestPorts(t *testing.T) {
	b := newTestLink(t)
	if first, last := b.link.Ports(); first != 0 || last != 0 {
		t.Errorf("ports %d to %d, want none", first, last)
	}
	m := b.meshWithPorts()
	takenPort, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", firstPort))
	if err != nil {
		t.Fatal(err)
	}
	defer takenPort.Close()
	for i, client := range []string{"c1", "c2"} {
		l, err := m.Open(client, "n1", b.node.Addr())
		if err != nil {
			t.Fatal(err)
		}
		first, last := l.Ports()
		if first != firstPort+i*portsPerLink || last != first+portsPerLink-1 {
			t.Errorf("%s has ports %d to %d", client, first, last)
		}
		c := b.dialLink(l)
		c.send("CLIENT SETNAME " + client)
		c.wantLine("+OK")
		port := 0
		for line := range strings.Lines(b.direct("CLIENT", "LIST")) {
			if strings.Contains(line, " name="+client+" ") {
				_, addr, _ := strings.Cut(line, " addr=127.0.0.1:")
				fmt.Sscan(addr, &port)
			}
		}
		if want := []int{first + 1, first}[i]; port != want {
			t.Errorf("%s connected from port %d, want %d", client, port, want)
		}
	}
}

// Open fails once all port ranges are assigned. Clients without a free port are counted.
func TestPortsRunOut(t *testing.T) {
	b := newTestLink(t)
	m := b.meshWithPorts()
	m.Ports = 1<<16 - portsPerLink
	if _, err := m.Open("c1", "n1", b.node.Addr()); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Open("c2", "n1", b.node.Addr()); err == nil || !strings.Contains(err.Error(), "no ports are left") {
		t.Errorf("link without ports: %v", err)
	}
	p := ports{first: 1, last: 2, exhaustedCount: 3}
	if err := p.err(); err == nil || !strings.Contains(err.Error(), "all ports from 1 to 2 were in use 3 times") {
		t.Errorf("3 clients without a port: %v", err)
	}
}

// fullQueueNode returns the address of a node whose kernel does not answer connects, because its
// accept queue is full. acceptOne makes room for one connection.
func fullQueueNode(t *testing.T) (addr string, acceptOne func()) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	check(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	check(t, unix.Listen(fd, 0))
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr = fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port)
	pending, err := net.Dial("tcp4", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pending.Close() })
	accept := func() {
		got, _, err := unix.Accept(fd)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { unix.Close(got) })
	}
	return addr, accept
}

// isConnecting reports whether a connect to addr is pending.
func isConnecting(t *testing.T, addr string) bool {
	t.Helper()
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	const synSent = "02"
	_, port, _ := net.SplitHostPort(addr)
	n, _ := strconv.Atoi(port)
	for line := range strings.Lines(string(table)) {
		if f := strings.Fields(line); f[2] == fmt.Sprintf("0100007F:%04X", n) && f[3] == synSent {
			return true
		}
	}
	return false
}

// If packets of a connect are lost, TCP retries a second later. Other clients must not wait for
// this retry.
func TestLostConnectDoesNotBlockOthers(t *testing.T) {
	addr, accept := fullQueueNode(t)
	b := newTestLink(t)
	l, err := b.meshWithPorts().Open("c1", "n1", addr)
	if err != nil {
		t.Fatal(err)
	}
	b.dialLink(l)
	b.waitLink("lost connect", func(*Link) bool { return isConnecting(t, addr) })
	accept()
	second := b.dialLink(l)
	b.waitLink("connection", func(l *Link) bool { return len(l.conns) > 0 })
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if got, want := c.client.RemoteAddr().String(), second.conn.LocalAddr().String(); got != want {
			t.Errorf("%s connected first, want %s", got, want)
		}
	}
}

// When a client disconnects, its pending connect is canceled, as the client's kernel would do
// without a proxy. A client that has already sent data still counts as connected, and its data is
// not lost.
func TestWhileConnected(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp4", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	fmt.Fprint(client, "PING")
	ctx, done := whileConnected(context.Background(), accepted.(*net.TCPConn))
	fmt.Fprint(client, "PING")
	select {
	case <-ctx.Done():
		t.Error("canceled while the client is connected")
	case <-time.After(20 * ms):
	}
	done()
	got := make([]byte, 8)
	if n, err := accepted.Read(got); err != nil || string(got[:n]) != "PINGPING" {
		t.Errorf("read %q, %v", got[:n], err)
	}
	ctx, done = whileConnected(context.Background(), accepted.(*net.TCPConn))
	defer done()
	client.Close()
	select {
	case <-ctx.Done():
	case <-time.After(waitTimeout):
		t.Error("not canceled after the client disconnected")
	}
}
