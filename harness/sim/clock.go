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

var _ nemesis.ClockChanger = (*cluster)(nil)

// clocks holds a client's clocks. A clock fault can step the wall clock but not the monotonic one;
// it can change the rate of both. Code under test that bypasses its Env, as drivers do for their
// timeouts, sees true time, or the client's time if the client has its own bubble.
type clocks struct{ wall, monotonic *node.Clock }

// timer is a pending timer on the client's monotonic clock.
type timer struct {
	due        int64 // clock reading at which the timer fires
	fired      chan time.Time
	generation int // incremented each time the timer is scheduled, to invalidate earlier events
}

// readClock returns the reading of one of the host's clocks. It waits while the host is paused.
func (h *host) read(c *node.Clock) time.Time {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.gate(h.slot)
	return h.reading(c)
}

// clockReading returns the reading of one of the host's clocks. If the host has its own bubble,
// both clocks show the bubble's time, which is later for a goroutine that is ahead of true time.
func (h *host) reading(c *node.Clock) time.Time {
	if h.bubble != nil {
		return time.Now().UTC()
	}
	return time.Unix(0, c.Now()).UTC()
}

// after implements Env.After. No two timers fire at the same instant.
func (h *host) after(d time.Duration) <-chan time.Time {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	now := h.clocks.monotonic.Now()
	if h.bubble != nil {
		if h.killed {
			return time.After(d)
		}
		now = time.Now().UnixNano()
		defer h.bubble.stopClock()
	}
	t := &timer{due: now + int64(d), fired: make(chan time.Time, 1)}
	h.timers = append(h.timers, t)
	h.schedule(t)
	return t.fired
}

// schedule schedules a timer according to its clock's current rate.
func (h *host) schedule(t *timer) {
	t.generation++
	this := t.generation
	h.net.at(h.slot, h.net.now()+int64(h.clocks.monotonic.Until(t.due)), func() {
		if t.generation == this {
			h.timers = slices.DeleteFunc(h.timers, func(o *timer) bool { return o == t })
			h.whenRunning(h.slot, func() { h.bubble.runInside(func() { t.fired <- h.reading(h.clocks.monotonic) }) })
		}
	})
}

// TurnClock steps a node's clock or a client's wall clock by the given offset and sets the clock's
// rate. The read-back is the node's TIME or the client's clocks.
func (c *cluster) TurnClock(target string, by time.Duration, rate float64) (string, error) {
	if h := c.host(target); h != nil {
		return h.adjustClocks(by, rate)
	}
	c.waitTurn(target)
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
	s.clock.Adjust(by, rate)
	c.recordEvent(history.Event{T: c.now(), Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: target,
		Local: s.clock.Now(), Wall: true, Drift: s.clock.Drift()})
	s.scheduleTick()
	now, err := s.time()
	if err != nil {
		return "", fmt.Errorf("turn clock of %s: %w", target, err)
	}
	if moved := now.Sub(before); (moved - by).Abs() > time.Microsecond {
		return "", fmt.Errorf("turn clock of %s: TIME moved by %v, not by %v", target, moved, by)
	}
	return "TIME shows " + describeReading(now, rate), nil
}

func (h *host) adjustClocks(by time.Duration, rate float64) (string, error) {
	h.net.sleep(h.slot, h.net.now()) // a fault that changes several clients' clocks changes them one after the other
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if over := h.endedError(); over != nil {
		return "", fmt.Errorf("turn clock of %s: %w", h.name, over)
	}
	if by != 0 && h.bubble != nil {
		return "", fmt.Errorf("turn clock of %s: %s", h.name, oneClockReason)
	}
	h.clocks.wall.Adjust(by, rate)
	changed := h.clocks.monotonic.Drift() != h.clocks.wall.Drift()
	h.clocks.monotonic.Adjust(0, rate)
	if changed {
		// Sort the timers, so that the order doesn't depend on which goroutine set its timer first.
		slices.SortStableFunc(h.timers, func(a, b *timer) int { return cmp.Compare(a.due, b.due) })
		for _, t := range h.timers {
			h.schedule(t)
		}
		h.rateChanged()
	}
	wall, monotonic := h.clocks.wall, h.clocks.monotonic
	fact := history.Event{T: h.net.now(), Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: h.name, Drift: wall.Drift()}
	byWall := fact
	byWall.Wall, byWall.Local, fact.Local = true, wall.Now(), monotonic.Now()
	h.net.recordEvent(byWall)
	h.net.recordEvent(fact)
	return "wall clock shows " + describeReading(time.Unix(0, byWall.Local), rate) + " of both clocks", nil
}

// time returns the node's reply to TIME, or its machine's clock while the node is down.
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

// describeReading formats a clock reading with its offset from true time and its new rate.
func describeReading(t time.Time, rate float64) string {
	off := time.Until(t).Round(10 * time.Microsecond) // Redis reports microseconds
	return t.UTC().Format("15:04:05.000000") + ", " + nemesis.DescribeClock(off, rate)
}

// clientBubble is a bubble for a single client, so that package time shows the client's own clock
// at its own rate. Its driver waits for orders on a channel created outside the bubble. While it
// waits, the bubble's clock stands still.
//
//	run's bubble                       client's bubble
//	lockStep ── order: until 4.2 s ──► drive ── time passes ──► library
//	         ◄── report ──────────────       ◄── stop the clock ──
//
// Calls from one bubble into the other are queued here, because channels, timers and contexts must
// not be used outside the bubble that created them.
type clientBubble struct {
	orders   chan order
	reports  chan int64    // bubble's clock reading after each order; closed when the bubble ends
	ended    chan struct{} // closed after reports
	stuck    chan struct{} // closed if an order takes too long
	busy     atomic.Int64  // number of orders and reports so far: odd while an order is running
	err      error         // the bubble's error
	stuckErr error         // stack traces, if an order takes too long

	mu           sync.Mutex
	insideCalls  []func()      // calls to make in the client's bubble
	outsideCalls []func()      // calls to make in the run's bubble
	interrupt    chan struct{} // stops the clock early; created in the client's bubble

	// The remaining fields are used in the run's bubble only.
	begun, gone bool
	reading     bool        // the client is reading from a connection
	lastReading int64       // clock reading in the latest report
	onGone      func(error) // called if the client's bubble ends early; nil once called
	cancel      func()      // must be called in the client's bubble
}

// order sets the bubble's clock to from and runs it until to. Both are Unix times in nanoseconds.
type order struct{ from, until int64 }

// newClientBubble creates a bubble, which starts with its first order. It must be called outside
// any bubble.
func newClientBubble() *clientBubble {
	o := &clientBubble{orders: make(chan order), reports: make(chan int64), ended: make(chan struct{}), stuck: make(chan struct{})}
	go func() {
		defer close(o.ended)
		if first, ok := <-o.orders; ok {
			o.err = inBubble(func() { o.drive(first) })
			close(o.reports)
		}
	}()
	return o
}

// drive carries out orders. For each order, it runs the bubble's clock up to the limit, or until a
// goroutine in the bubble acts on the outside world.
func (o *clientBubble) drive(x order) {
	o.mu.Lock()
	o.interrupt = make(chan struct{}, 1)
	o.mu.Unlock()
	for ok := true; ok; x, ok = <-o.orders {
		time.Sleep(time.Duration(x.from - time.Now().UnixNano()))
		for _, f := range o.drain(&o.insideCalls) {
			f()
		}
		synctest.Wait()
		if left := x.until - time.Now().UnixNano(); left > 0 && !o.interrupted() {
			timer := time.NewTimer(time.Duration(left))
			select {
			case <-timer.C:
			case <-o.interrupt:
			}
			timer.Stop()
			synctest.Wait()
			o.interrupted()
		}
		o.reports <- time.Now().UnixNano()
	}
	time.Sleep(coolDown)
}

func (o *clientBubble) interrupted() bool {
	select {
	case <-o.interrupt:
		return true
	default:
		return false
	}
}

func (o *clientBubble) drain(list *[]func()) []func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	taken := *list
	*list = nil
	return taken
}

func (o *clientBubble) enqueue(list *[]func(), f func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*list = append(*list, f)
}

// runInside queues f to be called in the client's bubble at the current instant, or calls it at
// once if o is nil because the client shares the run's bubble. f must not block.
func (o *clientBubble) runInside(f func()) {
	if o == nil {
		f()
		return
	}
	o.enqueue(&o.insideCalls, f)
}

// runOutside queues f to be called in the run's bubble and stops the client's clock, or calls f at
// once if o is nil.
func (o *clientBubble) runOutside(f func()) {
	if o == nil {
		f()
		return
	}
	o.enqueue(&o.outsideCalls, f)
	o.stopClock()
}

// reachPoint calls at(point) in the run's bubble and waits until it returns.
func (o *clientBubble) reachPoint(at func(string), point string) {
	if o == nil {
		at(point)
		return
	}
	done := make(chan struct{})
	o.runOutside(func() {
		go func() {
			at(point)
			o.runInside(func() { close(done) })
		}()
	})
	<-done
}

// stopClock stops the bubble's clock. It must be called in the client's bubble.
func (o *clientBubble) stopClock() {
	select {
	case o.interrupt <- struct{}{}:
	default:
	}
}

// execute sends an order and waits until it is carried out. Both channels were created outside the
// run's bubble, so the run's clock stands still in the meantime.
func (o *clientBubble) execute(x order) {
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
			o.lastReading = shown
			return
		}
	case <-o.stuck:
	}
	o.gone = true
}

// close ends the bubble and returns its error. It must be called outside any bubble.
func (o *clientBubble) close() error {
	close(o.orders)
	return o.wait()
}

// wait waits until the bubble ends, and returns its error.
func (o *clientBubble) wait() error {
	select {
	case <-o.ended:
		return o.err
	case <-o.stuck:
		return o.stuckErr
	}
}

// watch gives up on the bubble if an order takes longer than timeout in real time, because the
// client's program is then waiting for something outside the simulation, such as a socket. The
// bubble's goroutines leak. watch runs outside any bubble until runEnded is closed.
func (o *clientBubble) watch(client string, timeout time.Duration, over <-chan struct{}) {
	for last := int64(0); ; {
		select {
		case <-over:
			return
		case <-o.ended:
			return
		case <-time.After(timeout):
		}
		busy := o.busy.Load()
		if busy%2 == 1 && busy == last {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			o.stuckErr = fmt.Errorf("client %s is stuck: it has waited %v for something outside the simulation\n%s", client, timeout, stacks)
			close(o.stuck)
			return
		}
		last = busy
	}
}
