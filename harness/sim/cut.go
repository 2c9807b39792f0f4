package sim

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

var _ nemesis.Cutter = (*cluster)(nil)

// Cut implements nemesis.Cutter.
func (w *linkSet) Cut(name, mode, way string) (string, error) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	if r := w.net.replica(name); r != nil {
		return r.cutOff(way)
	}
	l := w.link(name)
	if l == nil {
		return "", fmt.Errorf("cut %s: there is no such link", name)
	}
	cut, err := l.cut.Begin(mode, way)
	if err != nil {
		return "", fmt.Errorf("cut %s: %w", name, err)
	}
	l.cut = cut
	if cut.Mode == nemesis.CutReset {
		for _, conn := range l.conns {
			conn.reset()
		}
	}
	return "PING through " + name + ": " + l.ping(), nil
}

// Mend implements nemesis.Cutter.
func (w *linkSet) Mend(name string) (string, error) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	if r := w.net.replica(name); r != nil {
		return r.mend()
	}
	l := w.link(name)
	switch {
	case l == nil:
		return "", fmt.Errorf("restore %s: there is no such link", name)
	case l.cut == nemesis.LinkCut{}:
		return "", fmt.Errorf("restore %s: it isn't cut", name)
	}
	l.mend()
	return "PING through " + name + ": " + l.ping(), nil
}

// mend dispatches waiting messages, in order for each connection, and resets connections that lost
// a message.
func (l *link) mend() {
	l.cut = nemesis.LinkCut{}
	l.resetBrokenConns()
	for _, c := range l.conns {
		c.upstream.resume()
		c.downstream.resume()
	}
}

// resetBrokenConns resets connections that lost a message: TCP delivers everything or fails.
func (l *link) resetBrokenConns() {
	for _, c := range l.conns {
		if c.upstream.broken || c.downstream.broken {
			c.reset()
		}
	}
}

// reset ends the connection, at the server's end at once and at the client's end when the reset
// arrives. Messages in flight to the server are dropped.
func (c *conn) reset() {
	if c.session != nil {
		c.link.server.hangUp(c, syscall.ECONNRESET)
	}
}

// ping returns the result of a PING through the link at the current instant. It takes no virtual
// time, so that a fault can cut many links at the same instant. If the link's traffic is shaped,
// the result includes how long a real PING would have taken.
func (l *link) ping() string {
	switch {
	case l.cut.Blocks(nemesis.Request):
		return "no answer"
	case l.cut.Mode == nemesis.CutRefuse:
		return "refused"
	}
	reply := l.server.ping()
	switch {
	case l.cut.Blocks(nemesis.Reply) && reply != "PONG":
		return "no answer, and none without the cut: " + reply
	case l.cut.Blocks(nemesis.Reply):
		return "no answer, though the node gave one: " + reply
	case l.server.node != nil && l.cut.Mode == nemesis.CutReset:
		return "reset"
	case len(l.shapes) > 0:
		return fmt.Sprintf("%s after %v", reply, l.pingTime())
	}
	return reply
}

// holds reports whether a message that arrives now must wait instead of being delivered or lost.
// Under CutDrop, the beginning and the end of a connection wait, because TCP retransmits them.
func (d *direction) holds(m *message) bool {
	cut := d.link.cut
	return cut.Blocks(d.content) && (cut.Mode == nemesis.CutHold || m.size == 0)
}

// drops reports whether a message that is due for delivery is lost.
func (f *flow) drops(m *message) bool {
	return m.size > 0 && (f.broken || f.dir.link.cut.Blocks(f.dir.content) || f.dir.losesMessage(m))
}

// A client gets its own bubble if its lock reads package time directly and the plan changes a
// client's clock. All other clients share the run's bubble, which is faster and where package time
// is true time.

// needsClientBubbles reports whether the run's clients need their own bubbles.
func needsClientBubbles(s scenario.Scenario, k lock.Kind) bool {
	return k.OwnTime && slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool { return changesClientClock(s, st) })
}

func changesClientClock(s scenario.Scenario, st nemesis.Step) bool {
	kind, _ := nemesis.KindOf(st.Fault.Kind)
	return kind.CapabilityName == nemesis.ClockCapability && slices.ContainsFunc(st.Fault.Targets, func(t string) bool {
		return slices.Contains(s.ClientNames(), t)
	})
}

// aheadOfTrueTime reports whether the caller, which runs in the host's bubble, is ahead of true
// time. The caller must hold the network's mutex.
func (h *host) aheadOfTrueTime() bool {
	return h.bubble != nil && time.Now().UnixNano() > h.clocks.monotonic.Now()
}

// trueTimeOf returns the true time at which the host's clock shows t. The caller must hold the
// network's mutex.
func (h *host) trueTimeOf(t time.Time) int64 {
	if h.bubble == nil {
		return int64(t.Sub(h.net.start))
	}
	return h.net.now() + int64(h.clocks.monotonic.Until(t.UnixNano()))
}

// waitForTrueTime delays w until true time reaches the calling goroutine's time. The caller must
// hold the network's mutex.
func (h *host) waitForTrueTime(w waiter) {
	h.aheadWaiters = append(h.aheadWaiters, w)
	h.releaseAheadAt(time.Now())
	h.bubble.stopClock()
}

// releaseAheadAt resumes all aheadWaiters at the true time at which the host's clock shows t.
func (h *host) releaseAheadAt(t time.Time) {
	h.net.at(h.slot, h.trueTimeOf(t), func() {
		waiters := h.aheadWaiters
		h.aheadWaiters = nil
		for _, w := range waiters {
			h.whenRunning(w.slot, w.f)
		}
	})
}

// onRateChange reschedules everything that waits for the host's clock. The caller must hold the
// network's mutex.
func (h *host) onRateChange() {
	if h.bubble == nil {
		return
	}
	if len(h.aheadWaiters) > 0 {
		h.releaseAheadAt(time.Unix(0, h.bubble.lastReading))
	}
	for _, c := range h.net.conns(h, nil) {
		if c.reading {
			c.setAlarm()
		}
	}
}

// waitForSlot waits until the slot's next free instant, unless the host was killed. It must be
// called in the host's bubble.
func (h *host) waitForSlot(s slot) {
	h.net.mu.Lock()
	if h.killed {
		h.net.mu.Unlock()
		return
	}
	done := make(chan struct{})
	if h.bubble == nil {
		h.net.at(s, h.net.now(), func() { close(done) })
	} else {
		h.net.at(s, max(h.net.now(), h.trueTimeOf(time.Now())), func() { h.bubble.runInside(func() { close(done) }) })
		h.bubble.stopClock()
	}
	h.net.mu.Unlock()
	<-done
}

// launch starts the program in the host's own bubble, with a new context because ctx is not valid
// there.
func (h *host) launch(ctx context.Context, at func(string), program func(context.Context, client.Env) error, done chan<- error) {
	h.bubble.onExit = func(err error) { done <- err }
	h.bubble.runInside(func() {
		ctx, cancel := context.WithCancel(context.Background())
		h.bubble.cancel = cancel
		go func() {
			if !h.passGate() {
				return
			}
			err := protect("client "+h.name, func() { err := program(ctx, h.env(at)); h.bubble.runOutside(func() { done <- err }) })
			if err != nil {
				h.bubble.runOutside(func() { done <- err })
			}
		}()
	})
	context.AfterFunc(ctx, func() { h.bubble.runInside(func() { h.bubble.cancel() }) })
}

// oneClockReason explains why a client's clock can't be set if its lock reads package time.
const oneClockReason = "a lock that reads package time directly has one clock in the simulation, which can run fast or slow but can't be set"
