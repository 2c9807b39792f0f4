package sim

import (
	"context"
	"slices"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

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
