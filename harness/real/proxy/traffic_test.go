//go:build linux

package proxy

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

const ms = time.Millisecond

// wantImpact removes a shape and checks its impact.
func (b *testLink) wantImpact(t nemesis.Traffic, seen, affected int) {
	b.t.Helper()
	s, err := b.link.Unshape(t)
	if err != nil || s.Seen != seen || s.Hit != affected {
		b.t.Errorf("%v: %+v, %v; want %d of %d hit", t, s, err, affected, seen)
	}
}

// Messages are delayed as requested, in one direction or both.
func TestDelay(t *testing.T) {
	for way, directions := range map[string]int{"": 2, nemesis.Request: 1, nemesis.Reply: 1} {
		b := newTestLink(t)
		shape := nemesis.Traffic{Way: way, DelayMin: 20 * ms, DelayMax: 25 * ms}
		b.link.Shape(shape)
		c := b.dial()
		for range 3 {
			start := proc.TrueClock()
			c.send("SET a 1")
			c.wantLine("+OK")
			if elapsed := proc.TrueClock() - start; elapsed < time.Duration(directions)*20*ms {
				t.Errorf("%q: a round trip took %v", way, elapsed)
			}
		}
		c.send("PING") // not a lock command
		c.wantLine("+PONG")
		b.wantImpact(shape, 3*directions, 3*directions)
		for _, e := range b.waitEvents(3) {
			request, reply := e.AppliedAt-e.SentAt, e.AnsweredAt-e.AppliedAt
			// A busy host may delay the other direction, too; the impact shows that the link did not.
			if way != nemesis.Reply && request < int64(20*ms) || way != nemesis.Request && reply < int64(20*ms) {
				t.Errorf("%q: the request took %v, the reply %v", way, time.Duration(request), time.Duration(reply))
			}
		}
	}
}

// Messages on different connections may overtake each other, but those on one connection stay in
// order.
func TestDelayKeepsOrderWithinConnection(t *testing.T) {
	b := newTestLink(t)
	b.link.Shape(nemesis.Traffic{Way: nemesis.Request, DelayMin: ms, DelayMax: 30 * ms})
	c := b.dial()
	for i := range 30 {
		c.send(fmt.Sprintf("SET k%d 1 NX\r\nRPUSH l %d", i, i))
	}
	for i := range 30 {
		c.wantLine("+OK")
		c.wantLine(fmt.Sprintf(":%d", i+1))
	}
	if got := b.direct("LINDEX", "l", "29"); got != "29" {
		t.Errorf("the last element is %s", got)
	}
}

// All connections share the bandwidth limit.
func TestThrottle(t *testing.T) {
	b := newTestLink(t)
	shape := nemesis.Traffic{Way: nemesis.Request, Bandwidth: 20_000}
	b.link.Shape(shape)
	c, other := b.dial(), b.dial()
	start := proc.TrueClock()
	for _, client := range []*testClient{c, other} {
		client.send("SET a " + strings.Repeat("x", 1000-len("SET a \r\n")))
	}
	c.wantLine("+OK")
	other.wantLine("+OK")
	if elapsed := proc.TrueClock() - start; elapsed < 100*ms {
		t.Errorf("2000 bytes took %v", elapsed)
	}
	b.wantImpact(shape, 2, 2)
}

// After a lost message, everything that follows on its connection is lost too. The connection is
// reset once the fault ends. Other connections are not affected.
func TestLose(t *testing.T) {
	for _, way := range []string{nemesis.Request, nemesis.Reply} {
		b := newTestLink(t)
		shape := nemesis.Traffic{Way: way, Lose: true, Share: 0.3}
		b.link.Shape(shape)
		var clients []*testClient
		for range 20 {
			c := b.dial()
			c.send("SET a 1")
			clients = append(clients, c)
		}
		b.waitLink("20 messages", func(l *Link) bool { return l.shapes[0].Seen == 20 })
		lostCount := 0
		b.waitLink("losses", func(l *Link) bool {
			lostCount = 0
			for c := range l.conns {
				if c.broken {
					lostCount++
				}
			}
			return lostCount == l.shapes[0].Hit
		})
		b.wantImpact(shape, 20, lostCount)
		resetCount := 0
		for _, c := range clients {
			c.conn.SetReadDeadline(time.Now().Add(waitTimeout))
			switch line, err := c.in.ReadString('\n'); {
			case errors.Is(err, syscall.ECONNRESET):
				resetCount++
			case line == "+OK\r\n":
				c.send("PING")
				c.wantLine("+PONG")
			default:
				t.Errorf("%s: %q, %v", way, line, err)
			}
		}
		if resetCount != lostCount || lostCount == 0 || lostCount == 20 {
			t.Errorf("%s: %d of 20 connections lost a message, %d were reset", way, lostCount, resetCount)
		}
		unansweredCount := 0
		for _, e := range b.waitEvents(20) {
			if e.AnsweredAt == 0 {
				unansweredCount++
			}
			if (e.AppliedAt == 0) != (e.AnsweredAt == 0 && way == nemesis.Request) {
				t.Errorf("%s: %+v", way, e)
			}
		}
		if unansweredCount != lostCount {
			t.Errorf("%s: %d commands without an answer, %d lost", way, unansweredCount, lostCount)
		}
	}
}

func TestUnshapeRejectsUnknownShape(t *testing.T) {
	b := newTestLink(t)
	if _, err := b.link.Unshape(nemesis.Traffic{Lose: true}); err == nil || b.link.IsDisturbed() {
		t.Error("Unshape of an unknown shape succeeded, or IsDisturbed is true")
	}
	b.link.Shape(nemesis.Traffic{Lose: true})
	if !b.link.IsDisturbed() {
		t.Error("IsDisturbed is false while a shape is active")
	}
	b.wantImpact(nemesis.Traffic{Lose: true}, 0, 0)
}
