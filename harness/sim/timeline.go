package sim

import (
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"
)

// quantum is the grain of time, in nanoseconds. Everything that happens by
// itself happens on a slot: an instant with t mod quantum == slot. Each direction
// of a link, each client and the harness has a slot of its own and uses no
// instant twice, so that no two things ever happen at one instant, and the order
// in which goroutines run can't show.
const quantum = 4096

// Slots of links grow from 0; those of clients, servers and replicas from here.
const (
	firstClientSlot  = quantum / 2
	firstServerSlot  = firstClientSlot + 256
	firstReplicaSlot = firstServerSlot + 256
	harnessSlot      = quantum - 1
)

// slot is one class of instants, by what they leave when they are divided by the quantum.
type slot int64

// align returns the first instant of the slot that isn't before t.
func (s slot) align(t int64) int64 { return t + (int64(s)-t)&(quantum-1) }

// event is something that will happen at an instant.
type event struct {
	at   int64
	what happening
}

// happening is what an event does, with the world locked. It must not block.
type happening interface{ happen() }

// call is a happening that is a function.
type call func()

func (f call) happen() { f() }

// timeline is true time and all that will happen. Network, nodes and clients are
// written against now and at. One goroutine lets everything happen, one thing
// after the other: a goroutine for each would spend its life growing its stack.
type timeline struct {
	start time.Time
	began int64       // start, in nanoseconds since 1970
	world sync.Locker // held by whatever happens
	mu    sync.Mutex
	queue []event // the first one last, for most that come are among the first
	timer *time.Timer
	armed int64         // when the timer fires
	over  bool          // nothing happens any more
	ended chan struct{} // closed when loop has returned

	settling chan struct{} // holds one who lets all others settle

	// Where clients have bubbles of their own, lockStep is the loop, and sets true time: in
	// those bubbles package time shows another one.
	stepped bool
	moment  atomic.Int64
	never   chan struct{}
}

func newTimeline(stepped bool, world sync.Locker) *timeline {
	start := time.Now()
	tl := &timeline{start: start, began: start.UnixNano(), world: world, timer: time.NewTimer(time.Hour), armed: math.MaxInt64, ended: make(chan struct{}), settling: make(chan struct{}, 1),
		stepped: stepped, never: make(chan struct{})}
	tl.timer.Stop()
	if !stepped {
		go tl.loop()
	}
	return tl
}

// now is true time in nanoseconds since the run began. It takes little room on the stack:
// those who call it are many, deep down and short-lived.
func (tl *timeline) now() int64 {
	if tl.stepped {
		return tl.moment.Load()
	}
	return time.Now().UnixNano() - tl.began
}

// Now is true time since the run began.
func (tl *timeline) Now() time.Duration { return time.Duration(tl.now()) }

// Epoch is what a right wall clock shows at the begin of the run.
func (tl *timeline) Epoch() int64 { return tl.start.UnixNano() }

// at lets f happen as will says. f is called with the world locked, and must not block.
func (tl *timeline) at(s slot, t int64, f func()) int64 { return tl.will(s, t, call(f)) }

// will lets something happen at the first free instant of the slot that is after now and
// not before t, and returns that instant. An instant is free if nothing is to happen then.
func (tl *timeline) will(s slot, t int64, what happening) int64 {
	tl.mu.Lock()
	now := tl.now()
	t = s.align(max(t, now+1))
	i := sort.Search(len(tl.queue), func(i int) bool { return tl.queue[i].at <= t })
	for i < len(tl.queue) && tl.queue[i].at == t {
		for t += quantum; i > 0 && tl.queue[i-1].at <= t; i-- {
		}
	}
	tl.queue = slices.Insert(tl.queue, i, event{t, what})
	tl.arm(now)
	tl.mu.Unlock()
	return t
}

// sleep waits for a later instant of the slot.
func (tl *timeline) sleep(s slot, t int64) {
	done := make(chan struct{})
	tl.at(s, t, func() { close(done) })
	<-done
}

// settle lets all that goes on at this instant come to where it waits for something: a fault
// that is set off at a point of a client finds the client's other goroutines there.
func (tl *timeline) settle() {
	tl.settling <- struct{}{} // one at a time may wait for all others
	synctest.Wait()
	<-tl.settling
}

// stop ends the timeline, and waits for that: virtual time stands still once
// the run's own function has returned.
func (tl *timeline) stop() {
	tl.mu.Lock()
	tl.over = true
	if !tl.stepped {
		tl.timer.Reset(0)
	}
	tl.mu.Unlock()
	<-tl.ended
}

// loop lets things happen.
func (tl *timeline) loop() {
	defer close(tl.ended)
	for {
		<-tl.timer.C
		tl.mu.Lock()
		if tl.over {
			tl.mu.Unlock()
			return
		}
		tl.armed = math.MaxInt64
		for tl.due() <= tl.now() {
			tl.mu.Unlock()
			tl.happen()
			tl.mu.Lock()
		}
		tl.arm(tl.now())
		tl.mu.Unlock()
	}
}

// happen lets the first event happen.
func (tl *timeline) happen() {
	tl.world.Lock()
	defer tl.world.Unlock()
	tl.mu.Lock()
	last := len(tl.queue) - 1
	what := tl.queue[last].what
	tl.queue[last] = event{}
	tl.queue = tl.queue[:last]
	tl.mu.Unlock()
	what.happen()
}

// arm sets the timer for the first event, if it isn't.
func (tl *timeline) arm(now int64) {
	if due := tl.due(); !tl.stepped && !tl.over && due < tl.armed {
		tl.armed = due
		tl.timer.Reset(time.Duration(tl.armed - now))
	}
}

// due is when the first event is; math.MaxInt64: there is none.
func (tl *timeline) due() int64 {
	if n := len(tl.queue); n > 0 {
		return tl.queue[n-1].at
	}
	return math.MaxInt64
}
