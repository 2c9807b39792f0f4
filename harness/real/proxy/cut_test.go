//go:build linux

package proxy

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/nemesis"
)

// readError reads until the connection ends and returns the error.
func (c *testClient) readError() error {
	c.t.Helper()
	c.conn.SetReadDeadline(time.Now().Add(waitTimeout))
	line, err := c.in.ReadString('\n')
	if err == nil {
		c.t.Fatalf("got %q, want an error", line)
	}
	return err
}

func formatEvents(events []history.Event) string {
	var out []string
	for _, e := range events {
		out = append(out, fmt.Sprintf("%s %s applied %v answered %v", e.Key, e.Type, e.AppliedAt > 0, e.AnsweredAt > 0))
	}
	return strings.Join(out, "; ")
}

// In mode drop, a connection that sends a message during the cut gets no answer and is reset at the
// end of the cut. A connection that sends nothing survives.
func TestCutDrops(t *testing.T) {
	for way, want := range map[string]string{
		"":              "a info applied false answered false",
		nemesis.Request: "a info applied false answered false",
		nemesis.Reply:   "a ok applied true answered false",
	} {
		b := newTestLink(t)
		busyClient, idleClient := b.dial(), b.dial()
		busyClient.send("PING")
		busyClient.wantLine("+PONG")
		check(t, b.link.Cut(nemesis.CutDrop, way))
		busyClient.send("SET a 1")
		b.waitLink("loss", func(l *Link) bool {
			for c := range l.conns {
				if c.broken {
					return true
				}
			}
			return false
		})
		if got := busyClient.receive(silenceTime); got != "" {
			t.Errorf("%q: during the cut: %q", way, got)
		}
		check(t, b.link.Mend())
		if err := busyClient.readError(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%q: after the cut: %v", way, err)
		}
		idleClient.send("SET c 1")
		idleClient.wantLine("+OK")
		got := formatEvents(b.waitEvents(2))
		if !strings.Contains(got, want) || !strings.Contains(got, "c ok applied true answered true") {
			t.Errorf("%q: recorded %s, want %s", way, got, want)
		}
		if got := b.direct("GET", "a"); (got == "1") != (way == nemesis.Reply) {
			t.Errorf("%q: a is %q", way, got)
		}
	}
}

// If a cut in mode hold affects one direction, messages pass in the other, and none are lost.
func TestCutHoldsOneWay(t *testing.T) {
	for way, want := range map[string]string{nemesis.Request: "", nemesis.Reply: "1"} {
		b := newTestLink(t)
		c := b.dial()
		check(t, b.link.Cut(nemesis.CutHold, way))
		c.send("SET a 1")
		if got := c.receive(silenceTime); got != "" {
			t.Errorf("%s: during the cut: %q", way, got)
		}
		for b.direct("GET", "a") != want { // the SET takes effect soon, or never
			if way == nemesis.Request {
				t.Fatalf("%s: SET was applied during the cut", way)
			}
		}
		check(t, b.link.Mend())
		c.wantLine("+OK")
		if got := formatEvents(b.waitEvents(1)); got != "a ok applied true answered true" {
			t.Errorf("%s: recorded %s", way, got)
		}
	}
}

// In mode reset, existing connections end, and so does each new one.
func TestCutResets(t *testing.T) {
	b := newTestLink(t)
	c := b.dial()
	c.send("SET a 1")
	c.wantLine("+OK")
	check(t, b.link.Cut(nemesis.CutReset, ""))
	if err := c.readError(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("old connection: %v", err)
	}
	conn, err := net.Dial("tcp", b.link.Addr())
	if err == nil {
		_, err = io.ReadAll(conn)
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("new connection: %v", err)
	}
	check(t, b.link.Mend())
	c = b.dial()
	c.send("SET b 1")
	c.wantLine("+OK")
}

// Mode refuse does not affect existing connections. The address stays reserved.
func TestCutByRefusal(t *testing.T) {
	b := newTestLink(t)
	c := b.dial()
	for range 3 {
		check(t, b.link.Cut(nemesis.CutRefuse, ""))
		c.send("SET a 1")
		c.wantLine("+OK")
		if _, err := net.Dial("tcp", b.link.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("new connection: %v", err)
		}
		if l, err := net.Listen("tcp", b.link.Addr()); err == nil {
			l.Close()
			t.Error("another process can listen on the address")
		}
		check(t, b.link.Mend())
		newClient := b.dial()
		newClient.send("SET b 1")
		newClient.wantLine("+OK")
	}
	check(t, b.link.Cut(nemesis.CutRefuse, "")) // close the link during a cut
}

func TestCutRejectsInvalidModes(t *testing.T) {
	b := newTestLink(t)
	if b.link.Cut("saw", "") == nil || b.link.Cut(nemesis.CutReset, nemesis.Reply) == nil {
		t.Error("an invalid cut was accepted")
	}
	check(t, b.link.Cut("", ""))
	if b.link.Cut("", "") == nil {
		t.Error("a link can be cut twice")
	}
}

// A tap that drops its message resets the connection immediately.
func TestTapDropsMessage(t *testing.T) {
	for direction, want := range map[string]string{
		nemesis.Request: "a info applied false answered false",
		nemesis.Reply:   "a ok applied true answered false",
	} {
		b := newTestLink(t)
		hit := b.holdMessage("set", direction, 1)
		c := b.dial()
		c.send("SET a 1")
		m := hit()
		m.Lose()
		m.Pass() // too late
		if err := c.readError(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v", direction, err)
		}
		other := b.dial()
		other.send("SET b 1")
		other.wantLine("+OK")
		if got := formatEvents(b.waitEvents(2)); !strings.Contains(got, want) {
			t.Errorf("%s: recorded %s, want %s", direction, got, want)
		}
		if got := b.direct("GET", "a"); (got == "1") != (direction == nemesis.Reply) {
			t.Errorf("%s: a is %q", direction, got)
		}
	}
}
