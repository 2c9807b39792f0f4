package harness

import (
	"math"
	"slices"
	"sync"
	"time"
)

// queued is a fault in the queue of one target. What the plan has begin after a
// fault's end waits for that end, however late it comes; what the plan has begin
// while the fault is in force does not wait for it.
//
//	the plan     ▒▒ kill ▒▒      ▒▒ shutdown ▒▒
//	the record   ▒▒ kill ▒▒ it is being started ▒▒ shutdown ▒▒
type queued struct {
	target  string
	at, end time.Duration // by the plan
	late    bool          // it has waited, and is not in force yet
	over    bool          // it is no more, or never was
}

// never is the end of what no plan ends at an instant.
const never = time.Duration(math.MaxInt64)

// queues are the faults that are due or in force, by target, and how many are being
// injected. To inject one may take a while of the cluster's clock, and virtual time stands
// still while somebody waits for a mutex: who waits here waits for a change.
type queues struct {
	cluster Cluster

	mu      sync.Mutex
	changed *sync.Cond
	of      map[string][]*queued
	firing  int  // that are being injected
	stopped bool // nobody waits for a turn any more
	closed  bool // nothing is injected any more
}

func newQueues(c Cluster) *queues {
	q := &queues{cluster: c, of: map[string][]*queued{}}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// change does something to the queues, of which all hear who wait.
func (q *queues) change(do func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	do()
	q.changed.Broadcast()
}

// join puts a fault at the end of its targets' queues.
func (q *queues) join(targets []string, at, end time.Duration) []*queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]*queued, len(targets))
	for i, target := range targets {
		all[i] = &queued{target: target, at: at, end: end}
		q.of[target] = append(q.of[target], all[i])
	}
	return all
}

// ahead says when the next is done that a fault has to wait for; nil: nothing is. Who
// waits comes before those behind it, so that they stay in order.
func (q *queues) ahead(fault []*queued) (done func() bool) {
	for _, p := range fault {
		for _, o := range q.of[p.target] {
			if done != nil || slices.Contains(fault, o) {
				break
			}
			switch {
			case o.end <= p.at:
				done = func() bool { return o.over }
			case o.late:
				done = func() bool { return !o.late }
			}
		}
	}
	for _, p := range fault {
		p.late = p.late || done != nil
	}
	return done
}

// turn waits for a fault's turn on all of its targets. It does not come where the run
// is to end before.
func (q *queues) turn(fault []*queued) (came bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for done := q.ahead(fault); done != nil; done = q.ahead(fault) {
		if !q.wait(done) {
			return false
		}
		own := false // an instant of its own
		q.cluster.At(q.cluster.Now(), func() { q.change(func() { own = true }) })
		if !q.wait(func() bool { return own }) {
			return false
		}
	}
	return true
}

// wait waits until something is so, or says that nobody waits any more.
func (q *queues) wait(is func() bool) bool {
	for !is() && !q.stopped {
		q.changed.Wait()
	}
	return is()
}

// begin says that a fault is in force.
func (q *queues) begin(fault []*queued) {
	q.change(func() {
		for _, p := range fault {
			p.late = false
		}
	})
}

// due says when a fault ends that the plan gave no end.
func (q *queues) due(p *queued, end time.Duration) {
	q.change(func() { p.end = min(p.end, end) })
}

// leave lets those behind go on.
func (q *queues) leave(all ...*queued) {
	q.change(func() {
		for _, p := range all {
			q.of[p.target] = slices.DeleteFunc(q.of[p.target], func(o *queued) bool { return o == p })
			p.late, p.over = false, true
		}
	})
}

// stop lets nobody wait for a turn any more.
func (q *queues) stop() { q.change(func() { q.stopped = true }) }

// enter says whether something may still be injected; if so, fired must follow.
func (q *queues) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.firing++
	return true
}

func (q *queues) fired() { q.change(func() { q.firing-- }) }

// settle returns once nothing is being injected.
func (q *queues) settle() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.firing > 0 {
		q.changed.Wait()
	}
}

// close lets nothing be injected any more, and nobody wait for it, and settles.
func (q *queues) close() {
	q.change(func() { q.stopped, q.closed = true, true })
	q.settle()
}
