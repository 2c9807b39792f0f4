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
	ch         chan time.Time
	generation int // incremented each time the timer is scheduled, to invalidate earlier events
}

// readClock returns the reading of one of the host's clocks. It waits while the host is paused.
func (h *host) readClock(c *node.Clock) time.Time {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.waitAtGate(h.slot)
	return h.clockReading(c)
}

// clockReading returns the reading of one of the host's clocks. If the host has its own bubble,
// both clocks show the bubble's time, which is later for a goroutine that is ahead of true time.
func (h *host) clockReading(c *node.Clock) time.Time {
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
	t := &timer{due: now + int64(d), ch: make(chan time.Time, 1)}
	h.timers = append(h.timers, t)
	h.schedule(t)
	return t.ch
}

// schedule schedules a timer according to its clock's current rate.
func (h *host) schedule(t *timer) {
	t.generation++
	generation := t.generation
	h.net.at(h.slot, h.net.now()+int64(h.clocks.monotonic.Until(t.due)), func() {
		if t.generation == generation {
			h.timers = slices.DeleteFunc(h.timers, func(o *timer) bool { return o == t })
			h.whenRunning(h.slot, func() { h.bubble.runInside(func() { t.ch <- h.clockReading(h.clocks.monotonic) }) })
		}
	})
}

// TurnClock steps a node's clock or a client's wall clock by the given offset and sets the clock's
// rate. The read-back is the node's TIME or the client's clocks.
func (c *cluster) TurnClock(target string, offset time.Duration, rate float64) (string, error) {
	if h := c.host(target); h != nil {
		return h.adjustClocks(offset, rate)
	}
	c.waitTurn(target)
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.node(target)
	if err != nil {
		return "", fmt.Errorf("turn clock of %s: %w", target, err)
	}
	oldTime, err := s.time()
	if err != nil {
		return "", fmt.Errorf("turn clock of %s: %w", target, err)
	}
	if s.node != nil && offset < 0 {
		s.node.Sweep()
	}
	s.clock.Adjust(offset, rate)
	c.recordEvent(history.Event{T: c.now(), Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: target,
		Local: s.clock.Now(), WallClock: true, Drift: s.clock.Drift()})
	s.scheduleTick()
	now, err := s.time()
	if err != nil {
		return "", fmt.Errorf("turn clock of %s: %w", target, err)
	}
	if actual := now.Sub(oldTime); (actual - offset).Abs() > time.Microsecond {
		return "", fmt.Errorf("turn clock of %s: TIME moved by %v, not by %v", target, actual, offset)
	}
	return "TIME shows " + describeReading(now, rate), nil
}

func (h *host) adjustClocks(offset time.Duration, rate float64) (string, error) {
	h.net.sleep(h.slot, h.net.now()) // a fault that changes several clients' clocks changes them one after the other
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if endErr := h.endedError(); endErr != nil {
		return "", fmt.Errorf("turn clock of %s: %w", h.name, endErr)
	}
	if offset != 0 && h.bubble != nil {
		return "", fmt.Errorf("turn clock of %s: %s", h.name, oneClockReason)
	}
	h.clocks.wall.Adjust(offset, rate)
	rateDiffers := h.clocks.monotonic.Drift() != h.clocks.wall.Drift()
	h.clocks.monotonic.Adjust(0, rate)
	if rateDiffers {
		// Sort the timers, so that the order doesn't depend on which goroutine set its timer first.
		slices.SortStableFunc(h.timers, func(a, b *timer) int { return cmp.Compare(a.due, b.due) })
		for _, t := range h.timers {
			h.schedule(t)
		}
		h.onRateChange()
	}
	wall, monotonic := h.clocks.wall, h.clocks.monotonic
	monotonicEvent := history.Event{T: h.net.now(), Process: history.Nemesis, Type: history.Info, Op: history.OpClock, Node: h.name, Drift: wall.Drift()}
	wallEvent := monotonicEvent
	wallEvent.WallClock, wallEvent.Local, monotonicEvent.Local = true, wall.Now(), monotonic.Now()
	h.net.recordEvent(wallEvent)
	h.net.recordEvent(monotonicEvent)
	return "wall clock shows " + describeReading(time.Unix(0, wallEvent.Local), rate) + " of both clocks", nil
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
	offset := time.Until(t).Round(10 * time.Microsecond) // Redis reports microseconds
	return t.UTC().Format("15:04:05.000000") + ", " + nemesis.DescribeClock(offset, rate)
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
	orders     chan order
	reports    chan int64    // bubble's clock reading after each order; closed when the bubble ends
	done       chan struct{} // closed after reports
	timedOut   chan struct{} // closed if an order takes too long
	stepCount  atomic.Int64  // number of orders and reports so far: odd while an order is running
	err        error         // the bubble's error
	timeoutErr error         // stack traces, if an order takes too long

	mu           sync.Mutex
	insideCalls  []func()      // calls to make in the client's bubble
	outsideCalls []func()      // calls to make in the run's bubble
	interrupt    chan struct{} // stops the clock early; created in the client's bubble

	// The remaining fields are used in the run's bubble only.
	started, exited bool
	isReading       bool        // the client is reading from a connection
	lastReading     int64       // clock reading in the latest report
	onExit          func(error) // called if the client's bubble ends early; nil once called
	cancel          func()      // must be called in the client's bubble
}

// order sets the bubble's clock to from and runs it until to. Both are Unix times in nanoseconds.
type order struct{ from, to int64 }

// newClientBubble creates a bubble, which starts with its first order. It must be called outside
// any bubble.
func newClientBubble() *clientBubble {
	o := &clientBubble{orders: make(chan order), reports: make(chan int64), done: make(chan struct{}), timedOut: make(chan struct{})}
	go func() {
		defer close(o.done)
		if firstOrder, ok := <-o.orders; ok {
			o.err = inBubble(func() { o.drive(firstOrder) })
			close(o.reports)
		}
	}()
	return o
}

// drive carries out orders. For each order, it runs the bubble's clock up to the limit, or until a
// goroutine in the bubble acts on the outside world.
func (o *clientBubble) drive(current order) {
	o.mu.Lock()
	o.interrupt = make(chan struct{}, 1)
	o.mu.Unlock()
	for ok := true; ok; current, ok = <-o.orders {
		time.Sleep(time.Duration(current.from - time.Now().UnixNano()))
		for _, f := range o.drain(&o.insideCalls) {
			f()
		}
		synctest.Wait()
		if remaining := current.to - time.Now().UnixNano(); remaining > 0 && !o.takeInterrupt() {
			timer := time.NewTimer(time.Duration(remaining))
			select {
			case <-timer.C:
			case <-o.interrupt:
			}
			timer.Stop()
			synctest.Wait()
			o.takeInterrupt()
		}
		o.reports <- time.Now().UnixNano()
	}
	time.Sleep(coolDown)
}

func (o *clientBubble) takeInterrupt() bool {
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
	calls := *list
	*list = nil
	return calls
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
func (o *clientBubble) execute(next order) {
	if o.exited {
		return
	}
	o.started = true
	o.stepCount.Add(1)
	select {
	case o.orders <- next:
	case <-o.timedOut:
	}
	select {
	case reading, ok := <-o.reports:
		if o.stepCount.Add(1); ok {
			o.lastReading = reading
			return
		}
	case <-o.timedOut:
	}
	o.exited = true
}

// close ends the bubble and returns its error. It must be called outside any bubble.
func (o *clientBubble) close() error {
	close(o.orders)
	return o.wait()
}

// wait waits until the bubble ends, and returns its error.
func (o *clientBubble) wait() error {
	select {
	case <-o.done:
		return o.err
	case <-o.timedOut:
		return o.timeoutErr
	}
}

// watch gives up on the bubble if an order takes longer than timeout in real time, because the
// client's program is then waiting for something outside the simulation, such as a socket. The
// bubble's goroutines leak. watch runs outside any bubble until runEnded is closed.
func (o *clientBubble) watch(client string, timeout time.Duration, runEnded <-chan struct{}) {
	for lastCount := int64(0); ; {
		select {
		case <-runEnded:
			return
		case <-o.done:
			return
		case <-time.After(timeout):
		}
		count := o.stepCount.Load()
		if count%2 == 1 && count == lastCount {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			o.timeoutErr = fmt.Errorf("client %s is stuck: it has waited %v for something outside the simulation\n%s", client, timeout, stacks)
			close(o.timedOut)
			return
		}
		lastCount = count
	}
}
