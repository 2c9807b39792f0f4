package packets

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/proxy"
	"lockpick/nemesis"
)

// newLinks starts a real node and opens links to it for two clients.
func newLinks(t *testing.T) (c1, c2 *proxy.Link) {
	t.Helper()
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not on PATH: apt-get install redis-server")
	}
	g, err := proc.NewGroup(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkClose(t, g.Close) })
	node, err := g.StartRedis(t.Context(), "n1", bin, "none")
	if err != nil {
		t.Fatal(err)
	}
	m := proxy.NewMesh(1, proc.TrueClock, func(history.Event) {})
	m.Ports = 22000
	t.Cleanup(func() { checkClose(t, m.Close) })
	if c1, err = m.Open("c1", "n1", node.Addr()); err != nil {
		t.Fatal(err)
	}
	if c2, err = m.Open("c2", "n1", node.Addr()); err != nil {
		t.Fatal(err)
	}
	return c1, c2
}

func checkClose(t *testing.T, closeFunc func() error) {
	t.Helper()
	if err := closeFunc(); err != nil {
		t.Error(err)
	}
}

// client is one connection through a link.
type client struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dialLink(t *testing.T, l *proxy.Link) client {
	t.Helper()
	conn, err := net.Dial("tcp4", l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return client{t, conn, bufio.NewReader(conn)}
}

func (c client) send(command string) {
	c.t.Helper()
	if _, err := fmt.Fprintf(c.conn, "%s\r\n", command); err != nil {
		c.t.Fatal(err)
	}
}

// answer returns the next line, or "" on a timeout.
func (c client) answer(timeout time.Duration) string {
	c.conn.SetReadDeadline(time.Now().Add(timeout))
	line, _ := c.in.ReadString('\n')
	return strings.TrimSpace(line)
}

func (c client) ask(command string, timeout time.Duration) string {
	c.t.Helper()
	c.send(command)
	return c.answer(timeout)
}

// A link's ports identify it: its client gets no answers over any connection, old or new, while
// another link's client gets all answers. When packets pass again, the old connection still works.
func TestDropAffectsOneLink(t *testing.T) {
	for _, way := range []string{nemesis.Request, nemesis.Reply} {
		t.Run(way, func(t *testing.T) {
			f := openFilter(t)
			defer f.Close()
			c1, c2 := newLinks(t)
			oldConn, otherConn := dialLink(t, c1), dialLink(t, c2)
			for _, c := range []client{oldConn, otherConn} {
				if got := c.ask("PING", 5*time.Second); got != "+PONG" {
					t.Fatalf("PING: %q", got)
				}
			}
			first, last := c1.Ports()
			rule := Rule{Peer: host, First: uint16(first), Last: uint16(last), Way: way}
			if err := f.Drop(rule); err != nil {
				t.Fatal(err)
			}
			newConn := dialLink(t, c1)
			newConn.send("PING")
			if got := oldConn.ask("SET k 1", quietTime); got != "" {
				t.Errorf("the old connection was answered %q", got)
			}
			if got := newConn.answer(quietTime); got != "" {
				t.Errorf("the new connection was answered %q", got)
			}
			// If just the reply was lost, the node has executed the command.
			if got, want := otherConn.ask("EXISTS k", 5*time.Second), map[string]string{nemesis.Request: ":0", nemesis.Reply: ":1"}[way]; got != want {
				t.Errorf("EXISTS over another link: %q, want %q", got, want)
			}
			lost, err := f.Pass(rule)
			if err != nil || lost < 2 {
				t.Errorf("%d packets were lost, want at least 2 (%v)", lost, err)
			}
			if got := oldConn.answer(10 * time.Second); got != "+OK" {
				t.Errorf("late answer %q, want +OK", got)
			}
			if got := dialLink(t, c1).ask("PING", 5*time.Second); got != "+PONG" {
				t.Errorf("PING on a later connection: %q", got)
			}
		})
	}
}
