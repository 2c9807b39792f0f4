package sim

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"
)

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
