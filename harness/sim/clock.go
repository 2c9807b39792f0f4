package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/sim/node"
	"lockpick/nemesis"
)

var _ nemesis.Clocker = (*cluster)(nil)

// clocks is what a client reads the time from. A jump moves the wall clock alone,
// a rate both. What the code under test reads past its Env, as drivers do for
// their time-outs, is true time, or the client's own where it has a bubble of its own.
type clocks struct{ wall, monotonic *node.Clock }

// timer is one that the client's monotonic clock is to ring.
type timer struct {
	due   int64 // by that clock
	fired chan time.Time
	set   int // how often it was put on the timeline; only the last time counts
}

// read is what a clock of the host shows, once the host runs.
func (h *host) read(c *node.Clock) time.Time {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.gate(h.slot)
	return h.shown(c)
}

// shown is what a clock shows in the host's bubble. Where that is its own, it has
// one clock only, and whoever is ahead of true time sees a later one.
func (h *host) shown(c *node.Clock) time.Time {
	if h.own != nil {
		return time.Now().UTC()
	}
	return time.Unix(0, c.Now()).UTC()
}

// after is the host's timer. Each one fires at an instant of its own.
func (h *host) after(d time.Duration) <-chan time.Time {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	now := h.clocks.monotonic.Now()
	if h.own != nil {
		if h.killed {
			return time.After(d)
		}
		now = time.Now().UnixNano()
		defer h.own.stop()
	}
	t := &timer{due: now + int64(d), fired: make(chan time.Time, 1)}
	h.timers = append(h.timers, t)
	h.set(t)
	return t.fired
}

// set puts a timer on the timeline, by its clock as that runs now.
func (h *host) set(t *timer) {
	t.set++
	this := t.set
	h.net.at(h.slot, h.net.now()+int64(h.clocks.monotonic.Until(t.due)), func() {
		if t.set == this {
			h.timers = slices.DeleteFunc(h.timers, func(o *timer) bool { return o == t })
			h.whenRunning(h.slot, func() { h.own.in(func() { t.fired <- h.shown(h.clocks.monotonic) }) })
		}
	})
}

// TurnClock turns the clock of a node's machine, or a client's clocks. It reads
// back TIME, or what the client would read.
func (c *cluster) TurnClock(target string, by time.Duration, rate float64) (string, error) {
	if h := c.host(target); h != nil {
		return h.turnClocks(by, rate)
	}
	c.inTurn(target)
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.node(target)
	if err != nil {
		return "", fmt.Errorf("turn clock of %s: %w", target, err)
	}
	before, err := s.time()
	if err != nil {
		return "", fmt.Errorf("turn clock of %s: %w", target, err)
	}
	if s.node != nil && by < 0 {
		s.node.Sweep()
	}
	s.clock.Turn(by, rate)
	c.tell(history.Event{T: c.now(), Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: target,
		Local: s.clock.Now(), Wall: true, Drift: s.clock.Drift()})
	s.lookAgain()
	now, err := s.time()
	if err != nil {
		return "", fmt.Errorf("turn clock of %s: %w", target, err)
	}
	if moved := now.Sub(before); (moved - by).Abs() > time.Microsecond {
		return "", fmt.Errorf("turn clock of %s: TIME moved by %v, not by %v", target, moved, by)
	}
	return "TIME shows " + against(now, rate), nil
}

// turnClocks turns the clocks of a client.
func (h *host) turnClocks(by time.Duration, rate float64) (string, error) {
	h.net.sleep(h.slot, h.net.now()) // who turns several clients' clocks at once, turns one after the other
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if over := h.over(); over != nil {
		return "", fmt.Errorf("turn clock of %s: %w", h.name, over)
	}
	if by != 0 && h.own != nil {
		return "", fmt.Errorf("turn clock of %s: %s", h.name, oneClock)
	}
	h.clocks.wall.Turn(by, rate)
	changed := h.clocks.monotonic.Drift() != h.clocks.wall.Drift()
	h.clocks.monotonic.Turn(0, rate)
	if changed {
		// In an order that doesn't depend on who of several goroutines set his first.
		slices.SortStableFunc(h.timers, func(a, b *timer) int { return cmp.Compare(a.due, b.due) })
		for _, t := range h.timers {
			h.set(t)
		}
		h.turned()
	}
	wall, monotonic := h.clocks.wall, h.clocks.monotonic
	fact := history.Event{T: h.net.now(), Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: h.name, Drift: wall.Drift()}
	byWall := fact
	byWall.Wall, byWall.Local, fact.Local = true, wall.Now(), monotonic.Now()
	h.net.tell(byWall)
	h.net.tell(fact)
	return "wall clock shows " + against(time.Unix(0, byWall.Local), rate) + " of both clocks", nil
}

// time is what the node answers to TIME; its machine's clock while it is down.
func (s *server) time() (time.Time, error) {
	if s.node == nil {
		return time.Unix(0, s.clock.Now()), nil
	}
	reply, err := s.node.Do("TIME")
	if err != nil {
		return time.Time{}, err
	}
	words := reply.([]any)
	seconds, err1 := strconv.ParseInt(fmt.Sprint(words[0]), 10, 64)
	micros, err2 := strconv.ParseInt(fmt.Sprint(words[1]), 10, 64)
	return time.Unix(seconds, micros*1000), cmp.Or(err1, err2)
}

// against tells a time with how far it is from the true one, as its clock begins to
// run at a rate.
func against(t time.Time, rate float64) string {
	off := time.Until(t).Round(10 * time.Microsecond) // Redis tells microseconds
	return t.UTC().Format("15:04:05.000000") + ", " + nemesis.ClockWords(off, rate)
}
