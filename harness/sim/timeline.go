package sim

import (
	"math"
	"sync"
	"sync/atomic"
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

// slot is one class of instants.
type slot struct {
	id    int64
	taken map[int64]struct{} // instants to come; guarded by the timeline's mutex
}

func newSlot(id int) *slot { return &slot{id: int64(id), taken: map[int64]struct{}{}} }

// align returns the first instant of the slot that isn't before t.
func (s *slot) align(t int64) int64 {
	return t + ((s.id-t)%quantum+quantum)%quantum
}

// event is something that will happen.
type event struct {
	at   int64
	slot *slot
	f    func()
}

// timeline is true time and all that will happen. Network, nodes and clients are
// written against now and at. One goroutine lets everything happen, one thing
// after the other: a goroutine for each would spend its life growing its stack.
type timeline struct {
	start time.Time
	mu    sync.Mutex
	queue []event // a heap by instant
	timer *time.Timer
	armed int64         // when the timer fires
	over  bool          // nothing happens any more
	ended chan struct{} // closed when loop has returned

	// Where clients have bubbles of their own, lockStep is the loop, and sets true time: in
	// those bubbles package time shows another one.
	stepped bool
	moment  atomic.Int64
	never   chan struct{}
}

func newTimeline(stepped bool) *timeline {
	tl := &timeline{start: time.Now(), timer: time.NewTimer(time.Hour), armed: math.MaxInt64, ended: make(chan struct{}),
		stepped: stepped, never: make(chan struct{})}
	tl.timer.Stop()
	if !stepped {
		go tl.loop()
	}
	return tl
}

// now is true time in nanoseconds since the run began.
func (tl *timeline) now() int64 {
	if tl.stepped {
		return tl.moment.Load()
	}
	return int64(time.Since(tl.start))
}

// at lets f happen at the first free instant of the slot that is after now and
// not before t, and returns that instant. f must not block.
func (tl *timeline) at(s *slot, t int64, f func()) int64 {
	tl.mu.Lock()
	defer tl.mu.Unlock()
	now := tl.now()
	t = tl.take(s, t, now)
	tl.push(event{t, s, f})
	tl.arm(now)
	return t
}

// sleep waits for a later instant of the slot.
func (tl *timeline) sleep(s *slot, t int64) {
	done := make(chan struct{})
	tl.at(s, t, func() { close(done) })
	<-done
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
		for len(tl.queue) > 0 && tl.queue[0].at <= tl.now() {
			e := tl.pop()
			delete(e.slot.taken, e.at)
			tl.mu.Unlock()
			e.f()
			tl.mu.Lock()
		}
		tl.arm(tl.now())
		tl.mu.Unlock()
	}
}

func (tl *timeline) take(s *slot, t, now int64) int64 {
	t = s.align(max(t, now+1))
	for {
		if _, taken := s.taken[t]; !taken {
			s.taken[t] = struct{}{}
			return t
		}
		t += quantum
	}
}

// arm sets the timer for the first event, if it isn't.
func (tl *timeline) arm(now int64) {
	if !tl.stepped && !tl.over && len(tl.queue) > 0 && tl.queue[0].at < tl.armed {
		tl.armed = tl.queue[0].at
		tl.timer.Reset(time.Duration(tl.armed - now))
	}
}

func (tl *timeline) push(e event) {
	q := append(tl.queue, e)
	i := len(q) - 1
	for i > 0 && e.at < q[(i-1)/2].at {
		q[i] = q[(i-1)/2]
		i = (i - 1) / 2
	}
	q[i] = e
	tl.queue = q
}

func (tl *timeline) pop() event {
	q := tl.queue
	first, last := q[0], q[len(q)-1]
	q[len(q)-1] = event{}
	q = q[:len(q)-1]
	i := 0
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if child+1 < len(q) && q[child+1].at < q[child].at {
			child++
		}
		if last.at <= q[child].at {
			break
		}
		q[i] = q[child]
		i = child
	}
	if len(q) > 0 {
		q[i] = last
	}
	tl.queue = q
	return first
}
