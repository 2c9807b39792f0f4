//go:build linux

package proxy

import (
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

// tap makes the link hold a message. The returned function waits until the message is held, and
// returns a function that lets it pass.
func (b *testLink) tap(message, direction string, nth int) (hit func() (pass func())) {
	b.t.Helper()
	held := b.holdMessage(message, direction, nth)
	return func() func() { return held().Pass }
}

// holdMessage makes the link hold a message. The returned function waits until the message is held, and
// returns it.
func (b *testLink) holdMessage(message, direction string, nth int) (hit func() nemesis.HeldMessage) {
	b.t.Helper()
	hits := make(chan nemesis.HeldMessage, 1)
	err := b.link.Tap(nemesis.OnMessage{Link: "c1-n1", Message: message, Of: direction, Nth: nth}, func(m nemesis.HeldMessage) { hits <- m })
	if err != nil {
		b.t.Fatal(err)
	}
	return func() nemesis.HeldMessage {
		b.t.Helper()
		select {
		case m := <-hits:
			return m
		case <-time.After(waitTimeout):
			b.t.Fatalf("no %s of %s within %v", direction, message, waitTimeout)
			return nemesis.HeldMessage{}
		}
	}
}

func TestTapHoldsNthRequest(t *testing.T) {
	b := newTestLink(t)
	hit := b.tap("set", nemesis.Request, 2)
	heldClient, otherClient := b.dial(), b.dial()
	heldClient.send("SET first 1\r\nSET second 1\r\nPING") // all in one write, to be split between messages
	heldClient.wantLine("+OK")
	pass := hit()
	otherClient.send("SET second 2 NX")
	otherClient.wantLine("+OK")
	if got := heldClient.receive(silenceTime); got != "" {
		t.Fatalf("received %q while the request is held", got)
	}
	pass()
	heldClient.wantLine("+OK")
	heldClient.wantLine("+PONG")
	if got := b.direct("GET", "second"); got != "1" {
		t.Errorf("second is %q, but the held SET should come last", got)
	}
}

func TestTapHoldsReply(t *testing.T) {
	b := newTestLink(t)
	hit := b.tap("set", nemesis.Reply, 1)
	heldClient, otherClient := b.dial(), b.dial()
	heldClient.send("SET lock A NX PX 10000\r\nPING")
	pass := hit()
	if got := b.direct("GET", "lock"); got != "A" {
		t.Fatalf("lock is %q while the reply is held", got)
	}
	otherClient.send("SET lock B NX PX 10000")
	otherClient.wantLine("$-1")
	if got := heldClient.receive(silenceTime); got != "" {
		t.Fatalf("received %q while the reply is held", got)
	}
	passTime := int64(proc.TrueClock() - b.origin)
	pass()
	heldClient.wantLine("+OK")
	heldClient.wantLine("+PONG")
	e := b.waitEvents(2)[1]
	if e.Token != "A" || e.AppliedAt >= passTime || e.AnsweredAt < passTime {
		t.Errorf("applied at %d, passed on at %d, answered at %d", e.AppliedAt, passTime, e.AnsweredAt)
	}
}

// waitDisconnect waits until the link has noticed that a client has disconnected.
func (b *testLink) waitDisconnect() {
	b.t.Helper()
	l := b.link
	for timeout := time.After(waitTimeout); ; {
		disconnected := false
		l.mu.Lock()
		for c := range l.conns {
			disconnected = disconnected || c.clientGone
		}
		changed := l.changed
		l.mu.Unlock()
		if disconnected {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			b.t.Fatalf("no client has disconnected within %v", waitTimeout)
		}
	}
}

func TestHeldRequestIsDeliveredAfterClientCloses(t *testing.T) {
	b := newTestLink(t)
	hit := b.tap("release", nemesis.Request, 1)
	c := b.dial()
	c.send("SET lock A NX PX 10000")
	c.wantLine("+OK")
	c.send("DEL lock")
	pass := hit()
	c.conn.Close()
	b.waitDisconnect() // otherwise, the answer would go to a connected client
	c2 := b.dial()
	c2.send("SET other 1") // uses a connection while the other is closed
	c2.wantLine("+OK")
	if got := b.direct("GET", "lock"); got != "A" {
		t.Fatalf("lock is %q while its release is held", got)
	}
	pass()
	e := b.waitEvents(3)[2]
	if e.Op != history.OpRelease || e.Type != history.OK || e.AppliedAt == 0 || e.AnsweredAt != 0 {
		t.Errorf("release is %+v, want one that was applied but not answered", e)
	}
	if got := b.direct("GET", "lock"); got != "" {
		t.Errorf("lock is %q after its release", got)
	}
}
