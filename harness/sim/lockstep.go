package sim

import (
	"math"
	"slices"
	"testing/synctest"
	"time"
)

// lockStep is the timeline's loop where clients have bubbles of their own. Before
// true time moves on to the next event, every client's clock runs up to what it
// then shows. If a client is to act earlier, that is an event, too, and comes
// first: it waits at a gate until true time has come. So nobody is ever ahead of
// what it could have seen.
//
// What one client does can reach another within minLatency, when nobody has an
// event for it yet. So clients that listen to a connection run after the others,
// which by then have said what they are about to do; and while several listen,
// clocks move by no more than minLatency.
func (n *network) lockStep() {
	defer close(n.ended)
	for idle := int64(0); ; {
		synctest.Wait()
		if n.stopped() {
			return
		}
		if n.exchange() {
			idle = n.now()
			continue
		}
		n.timeline.mu.Lock()
		next := n.due()
		n.timeline.mu.Unlock()
		some := next < math.MaxInt64
		if !some {
			if n.now()-idle > int64(coolDown) || !n.awake() {
				<-n.never // nothing will ever happen: let the runtime say so
			}
			next = n.now() + int64(time.Second)
		}
		until := n.horizon(next)
		if n.runClients(until) {
			continue
		}
		n.move(until)
		if until == next && some {
			idle = until
			n.happen()
		}
	}
}

// exchange does in each bubble what the others left to do there.
func (n *network) exchange() (some bool) {
	for _, h := range n.hosts {
		o := h.own
		o.mu.Lock()
		act := len(o.acts) > 0
		o.mu.Unlock()
		if act && !o.gone {
			some = true
			o.tell(order{now: h.clock(n.now())})
		}
		if calls := o.take(&o.calls); len(calls) > 0 {
			some = true
			go func() {
				for _, f := range calls {
					f()
				}
			}()
			synctest.Wait()
		}
		if o.gone && o.onGone != nil {
			some = true
			f := o.onGone
			o.onGone = nil
			go f(o.failed())
			synctest.Wait()
		}
	}
	return some
}

// runClients lets each client's clock run up to an instant of true time, and
// reports whether one is to act before.
func (n *network) runClients(until int64) (acts bool) {
	for _, listens := range []bool{false, true} {
		for _, h := range n.hosts {
			to := h.clock(until)
			if !h.awake() || h.own.listens != listens || h.own.shown >= to {
				continue
			}
			h.own.tell(order{until: to})
			if h.own.gone || h.own.shown < to {
				return true
			}
		}
	}
	return false
}

// horizon is how far clocks may run, if the next event is due at next. It notes
// who listens.
func (n *network) horizon(next int64) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.hosts {
		h.own.listens = false
	}
	many := 0
	for _, l := range n.links {
		if l.host.own.listens || !l.host.awake() || !slices.ContainsFunc(l.conns, (*conn).listens) {
			continue
		}
		l.host.own.listens = true
		many++
	}
	if many > 1 {
		return min(next, n.now()+int64(minLatency))
	}
	return next
}

// listens says whether somebody waits for what comes next on the connection.
func (c *conn) listens() bool { return (c.reading || !c.answered.Load()) && !c.closed }

// awake says whether any client can still act by itself.
func (n *network) awake() bool {
	for _, h := range n.hosts {
		if h.awake() {
			return true
		}
	}
	return false
}

func (h *host) awake() bool { return h.own.begun && !h.own.gone && !h.killed && !h.ended }

// clock is what the host's clock shows at an instant of true time.
func (h *host) clock(t int64) int64 {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return h.clocks.monotonic.At(t)
}

// move moves true time on, and the clock of the run's bubble with it.
func (tl *timeline) move(t int64) {
	time.Sleep(time.Duration(t - tl.moment.Load()))
	tl.moment.Store(t)
}

func (tl *timeline) stopped() bool {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	return tl.over
}
