package sim

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing/synctest"
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

// own is a bubble that one client has to itself, so that package time shows the
// client's own clock, at its own rate. Whoever waits for orders in it waits on a
// channel from outside, and as long as he does, the bubble's clock stands still.
//
//	run's bubble                       client's bubble
//	lockStep ── order: until 4.2 s ──► drive ── time passes ──► library
//	         ◄── report ──────────────       ◄── "I am to act" ──
//
// What one side wants done on the other it leaves here: no channel, timer or
// context may be touched outside the bubble in which it was made.
type own struct {
	orders  chan order
	reports chan int64    // what the bubble's clock shows; closed when the bubble has ended
	ended   chan struct{} // closed after that
	stuck   chan struct{} // closed if an order isn't carried out
	busy    atomic.Int64  // orders and reports so far: odd while one is carried out
	err     error         // how the bubble ended
	stuckAt error         // where it doesn't

	mu    sync.Mutex
	acts  []func()      // to be done in the client's bubble
	calls []func()      // to be done in the run's
	kick  chan struct{} // made in the client's bubble: somebody is to act

	// Of the run's bubble.
	begun, gone bool
	listens     bool        // to some connection
	shown       int64       // by the last report
	onGone      func(error) // called in the run's bubble if the client's ends early
	cancel      func()      // of the client's bubble
}

// order says what the bubble's clock shows now, and how far it may run. All by
// that clock, in nanoseconds since 1970.
type order struct{ now, until int64 }

// newOwn makes it, outside any bubble. The bubble opens with the first order.
func newOwn() *own {
	o := &own{orders: make(chan order), reports: make(chan int64), ended: make(chan struct{}), stuck: make(chan struct{})}
	go func() {
		defer close(o.ended)
		if first, ok := <-o.orders; ok {
			o.err = inBubble(func() { o.drive(first) })
			close(o.reports)
		}
	}()
	return o
}

// drive is the bubble's clock: it runs as far as it is told, or until somebody in
// the bubble is to act on the world, and then stands still.
func (o *own) drive(x order) {
	o.mu.Lock()
	o.kick = make(chan struct{}, 1)
	o.mu.Unlock()
	for ok := true; ok; x, ok = <-o.orders {
		time.Sleep(time.Duration(x.now - time.Now().UnixNano()))
		for _, f := range o.take(&o.acts) {
			f()
		}
		synctest.Wait()
		if left := x.until - time.Now().UnixNano(); left > 0 && !o.kicked() {
			timer := time.NewTimer(time.Duration(left))
			select {
			case <-timer.C:
			case <-o.kick:
			}
			timer.Stop()
			synctest.Wait()
			o.kicked()
		}
		o.reports <- time.Now().UnixNano()
	}
	time.Sleep(coolDown)
}

func (o *own) kicked() bool {
	select {
	case <-o.kick:
		return true
	default:
		return false
	}
}

func (o *own) take(list *[]func()) []func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := *list
	*list = nil
	return taken
}

func (o *own) leave(list *[]func(), f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*list = append(*list, f)
}

// in does f in the bubble of a client's program: as soon as that has its turn, at
// this same instant, or at once where that is the run's and o is nil. f must not block.
func (o *own) in(f func()) {
	if o == nil {
		f()
		return
	}
	o.leave(&o.acts, f)
}

// call does f in the run's bubble, likewise.
func (o *own) call(f func()) {
	if o == nil {
		f()
		return
	}
	o.leave(&o.calls, f)
	o.stop()
}

// stopAt has the harness do what it planned for a point, and waits for it.
func (o *own) stopAt(at func(string), point string) {
	if o == nil {
		at(point)
		return
	}
	done := make(chan struct{})
	o.call(func() {
		go func() {
			at(point)
			o.in(func() { close(done) })
		}()
	})
	<-done
}

// stop stops the bubble's clock. It is called in the client's bubble.
func (o *own) stop() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// tell gives an order and waits until it is carried out. Both channels are from
// outside, so the run's clock stands still meanwhile.
func (o *own) tell(x order) {
	if o.gone {
		return
	}
	o.begun = true
	o.busy.Add(1)
	select {
	case o.orders <- x:
	case <-o.stuck:
	}
	select {
	case shown, ok := <-o.reports:
		if o.busy.Add(1); ok {
			o.shown = shown
			return
		}
	case <-o.stuck:
	}
	o.gone = true
}

// end ends the bubble, and says how it ended. It is called outside any bubble.
func (o *own) end() error {
	close(o.orders)
	return o.failed()
}

// failed waits for the end of the bubble, and says how it came.
func (o *own) failed() error {
	select {
	case <-o.ended:
		return o.err
	case <-o.stuck:
		return o.stuckAt
	}
}

// watch ends the wait for a bubble that has not carried out an order for the given
// real time: its program waits for something outside, such as a socket. The
// goroutines of that bubble stay behind. It runs outside any bubble until over closes.
func (o *own) watch(client string, patience time.Duration, over <-chan struct{}) {
	for last := int64(0); ; {
		select {
		case <-over:
			return
		case <-o.ended:
			return
		case <-time.After(patience):
		}
		busy := o.busy.Load()
		if busy%2 == 1 && busy == last {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			o.stuckAt = fmt.Errorf("client %s is stuck: it has waited %v for something outside the simulation\n%s", client, patience, stacks)
			close(o.stuck)
			return
		}
		last = busy
	}
}
