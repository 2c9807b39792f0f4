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

// Cut cuts a link.
func (w *wires) Cut(name, mode, way string) (string, error) {
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

// Mend mends a link.
func (w *wires) Mend(name string) (string, error) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	if r := w.net.replica(name); r != nil {
		return r.mend()
	}
	l := w.link(name)
	switch {
	case l == nil:
		return "", fmt.Errorf("mend %s: there is no such link", name)
	case l.cut == nemesis.LinkCut{}:
		return "", fmt.Errorf("mend %s: it isn't cut", name)
	}
	l.mend()
	return "PING through " + name + ": " + l.ping(), nil
}

// mend lets what waits go on, each connection's messages in their order, and
// ends the connections that have lost any.
func (l *link) mend() {
	l.cut = nemesis.LinkCut{}
	l.resetBroken()
	for _, c := range l.conns {
		c.up.resume()
		c.down.resume()
	}
}

// resetBroken resets the connections that have lost a message: TCP delivers all
// or fails.
func (l *link) resetBroken() {
	for _, c := range l.conns {
		if c.up.dead || c.down.dead {
			c.reset()
		}
	}
}

// reset ends a connection on the server's side at once, and on the client's when
// it hears of it. What is still on its way to the server comes to nobody.
func (c *conn) reset() {
	if c.session != nil {
		c.link.server.hangUp(c, syscall.ECONNRESET)
	}
}

// ping is what becomes of a PING through the link that arrives this very
// instant. It takes no time, so that a cut of many links is one cut; how long it
// would have taken is told where the link's traffic is shaped.
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
		return fmt.Sprintf("%s after %v", reply, l.trip())
	}
	return reply
}

// keeps says whether a message that arrives now waits, rather than be delivered
// or lost. Where a cut drops, the beginning and the end of a connection wait: they
// are sent again and again.
func (d *direction) keeps(m *message) bool {
	cut := d.link.cut
	return cut.Blocks(d.of) && (cut.Mode == nemesis.CutHold || m.size == 0)
}

// loses says whether a message that would be delivered now is lost.
func (f *flow) loses(m *message) bool {
	return m.size > 0 && (f.dead || f.dir.link.cut.Blocks(f.dir.of) || f.dir.lost(m))
}

// A client has its bubble apart if its lock reads package time itself and the plan
// turns a client's clock. All others share the run's bubble, which is faster, and
// in which package time is true time.

// apart says whether the clients of a run have bubbles of their own.
func apart(s scenario.Scenario, k lock.Kind) bool {
	return k.OwnTime && slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool { return turnsClient(s, st) })
}

func turnsClient(s scenario.Scenario, st nemesis.Step) bool {
	kind, _ := nemesis.KindOf(st.Fault.Kind)
	return kind.Power == nemesis.PowerClock && slices.ContainsFunc(st.Fault.Targets, func(t string) bool {
		return slices.Contains(s.ClientNames(), t)
	})
}

// early reports whether whoever calls it, in the host's bubble, has come to an
// instant that true time has yet to come to. The network's mutex is held.
func (h *host) early() bool {
	return h.own != nil && time.Now().UnixNano() > h.clocks.monotonic.Now()
}

// due is the true time at which the host's clock shows t. The network's mutex is held.
func (h *host) due(t time.Time) int64 {
	if h.own == nil {
		return int64(t.Sub(h.net.start))
	}
	return h.net.now() + int64(h.clocks.monotonic.Until(t.UnixNano()))
}

// catchUp keeps w until true time has come to where its goroutine is. The
// network's mutex is held.
func (h *host) catchUp(w waiter) {
	h.ahead = append(h.ahead, w)
	h.await(time.Now())
	h.own.stop()
}

// await lets those go on who are ahead once the clock shows t.
func (h *host) await(t time.Time) {
	h.net.at(h.slot, h.due(t), func() {
		ahead := h.ahead
		h.ahead = nil
		for _, w := range ahead {
			h.whenRunning(w.slot, w.f)
		}
	})
}

// turned puts what waits for the host's clock where that comes by its new rate.
// The network's mutex is held.
func (h *host) turned() {
	if h.own == nil {
		return
	}
	if len(h.ahead) > 0 {
		h.await(time.Unix(0, h.own.shown))
	}
	for _, c := range h.net.conns(h, nil) {
		if c.reading {
			c.watch()
		}
	}
}

// nap waits for a later instant of the slot, unless the host was killed. It is called in the
// host's bubble.
func (h *host) nap(s slot) {
	h.net.mu.Lock()
	if h.killed {
		h.net.mu.Unlock()
		return
	}
	done := make(chan struct{})
	if h.own == nil {
		h.net.at(s, h.net.now(), func() { close(done) })
	} else {
		h.net.at(s, max(h.net.now(), h.due(time.Now())), func() { h.own.in(func() { close(done) }) })
		h.own.stop()
	}
	h.net.mu.Unlock()
	<-done
}

// launch starts the program in the host's own bubble, where ctx means nothing.
func (h *host) launch(ctx context.Context, at func(string), program func(context.Context, client.Env) error, done chan<- error) {
	h.own.onGone = func(err error) { done <- err }
	h.own.in(func() {
		ctx, cancel := context.WithCancel(context.Background())
		h.own.cancel = cancel
		go func() {
			if !h.pass() {
				return
			}
			err := protect("client "+h.name, func() { err := program(ctx, h.env(at)); h.own.call(func() { done <- err }) })
			if err != nil {
				h.own.call(func() { done <- err })
			}
		}()
	})
	context.AfterFunc(ctx, func() { h.own.in(func() { h.own.cancel() }) })
}

// oneClock is why such a client's clock can't be set.
const oneClock = "a lock that reads package time itself has one clock in the simulation, which can't be set, only run fast or slow"
