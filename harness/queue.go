package harness

import (
	"math"
	"slices"
	"sync"
	"time"
)

// place is a fault's in the queue of one target. What the plan has begin after a
// fault's end waits for that end, however late it comes; what the plan has begin
// while the fault is in force does not wait for it.
//
//	the plan     ▒▒ kill ▒▒      ▒▒ shutdown ▒▒
//	the record   ▒▒ kill ▒▒ it is being started ▒▒ shutdown ▒▒
type place struct {
	target  string
	at, end time.Duration // by the plan
	late    bool          // it has waited, and is not in force yet
	begun   chan struct{} // closed once it is in force
	over    chan struct{} // closed once it is no more, or never was
}

// never is the end of what no plan ends at an instant.
const never = time.Duration(math.MaxInt64)

// queues are the faults that are due or in force, by target.
type queues struct {
	cluster Cluster

	mu      sync.Mutex
	of      map[string][]*place
	stopped chan struct{} // nobody waits any more
}

func newQueues(c Cluster) *queues {
	return &queues{cluster: c, of: map[string][]*place{}, stopped: make(chan struct{})}
}

// join puts a fault at the end of its targets' queues.
func (q *queues) join(targets []string, at, end time.Duration) []*place {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]*place, len(targets))
	for i, target := range targets {
		all[i] = &place{target: target, at: at, end: end, begun: make(chan struct{}), over: make(chan struct{})}
		q.of[target] = append(q.of[target], all[i])
	}
	return all
}

// ahead is closed when the next is done that a fault has to wait for; nil: nothing is.
// Who waits comes before those behind it, so that they stay in order.
func (q *queues) ahead(fault []*place) (done <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range fault {
		for _, o := range q.of[p.target] {
			if done != nil || slices.Contains(fault, o) {
				break
			}
			switch {
			case o.end <= p.at:
				done = o.over
			case o.late:
				done = o.begun
			}
		}
	}
	for _, p := range fault {
		p.late = p.late || done != nil
	}
	return done
}

// begin says that a fault is in force.
func (q *queues) begin(fault []*place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range fault {
		p.late = false
		shut(p.begun)
	}
}

// due says when a fault ends that the plan gave no end.
func (q *queues) due(p *place, end time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	p.end = min(p.end, end)
}

// leave lets those behind go on.
func (q *queues) leave(places ...*place) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range places {
		q.of[p.target] = slices.DeleteFunc(q.of[p.target], func(o *place) bool { return o == p })
		shut(p.begun)
		shut(p.over)
	}
}

// stop lets nobody wait any more.
func (q *queues) stop() {
	q.mu.Lock()
	defer q.mu.Unlock()
	shut(q.stopped)
}

// shut closes a channel, unless it is closed.
func shut(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// turn waits for a fault's turn on all of its targets. It does not come where the run
// is to end before.
func (q *queues) turn(fault []*place) (came bool) {
	for done := q.ahead(fault); done != nil; done = q.ahead(fault) {
		if !q.wakes(done) {
			return false
		}
		own := make(chan struct{}) // an instant of its own
		q.cluster.At(q.cluster.Now(), func() { close(own) })
		if !q.wakes(own) {
			return false
		}
	}
	return true
}

func (q *queues) wakes(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-q.stopped:
		return false
	}
}
