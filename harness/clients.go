package harness

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// clients runs the contending clients.
type clients struct {
	s       scenario.Scenario
	seed    uint64
	cluster Cluster
	waits   *eventWaits
	// atPoint is called while a client waits at an armed point.
	atPoint func(client, point string)
	ended   chan error // receives the result of each client

	running  atomic.Int64 // number of clients that are running or about to start
	finished sync.Map     // names of the clients that have ended
}

// schedule starts a client at its configured time, or when the event it waits for occurs.
func (c *clients) schedule(ctx context.Context, spec scenario.Client) {
	start := func() {
		err := c.cluster.RunClient(ctx, specOf(c.s, c.seed, spec), func(point string) { c.atPoint(spec.Name, point) })
		if errors.Is(err, ErrKilled) || errors.Is(err, context.Canceled) {
			err = nil
		}
		c.finished.Store(spec.Name, true)
		c.ended <- err
	}
	if spec.Start != nil {
		c.waits.await(*spec.Start, func() { c.running.Add(1) }, start)
		return
	}
	c.running.Add(1)
	c.cluster.At(spec.Delay, start)
}

// anyRunning reports whether a client is running or about to start.
func (c *clients) anyRunning() bool { return c.running.Load() > 0 }

func (c *clients) hasEnded(name string) bool {
	_, gone := c.finished.Load(name)
	return gone
}

func specOf(s scenario.Scenario, seed uint64, c scenario.Client) client.Spec {
	w := s.Workload
	spec := client.Spec{
		Name: c.Name, Seed: seed, Lock: s.Lock, Addresses: s.Topology.Addresses, Fence: w.Fence, Writes: w.Writes, Cycles: w.Cycles,
		Keys: s.KeyNames(), Until: s.Limit, Think: w.Think, Hold: w.Hold, Prepare: w.Prepare, Cancel: w.CancelAfter, Extend: w.Extend, Reenter: w.Reenter, NoCheck: w.NoCheck,
	}
	if w.For > 0 {
		spec.Until = w.For
	}
	if c.Think != nil {
		spec.Think = *c.Think
	}
	if c.Hold != nil {
		spec.Hold = *c.Hold
	}
	if c.Cycles != nil {
		spec.Cycles = *c.Cycles
	}
	if c.CancelAfter != nil {
		spec.Cancel = *c.CancelAfter
	}
	for _, st := range s.Plan {
		if p := st.When.Point; p != nil && p.Client == c.Name {
			spec.Armed = append(spec.Armed, client.Point{Name: p.Point, Nth: p.Nth})
		}
	}
	return spec
}

// queuedFault is a fault in the queue of one target. If it is planned to start after another fault
// has ended, it waits for that end, even if the end is late. If it is planned to start while the
// other fault is active, it does not wait.
//
//	plan      ▒▒ kill ▒▒      ▒▒ shutdown ▒▒
//	record    ▒▒ kill ▒▒ node is starting ▒▒ shutdown ▒▒
type queuedFault struct {
	target  string
	at, end time.Duration // as planned
	waiting bool          // it had to wait and is not active yet
	done    bool          // it has ended, or never started
}

// noEnd is the planned end of a fault that has no fixed end time.
const noEnd = time.Duration(math.MaxInt64)

// queues holds the due and active faults of each target, and counts the injections in progress.
// Injecting a fault may take time by the cluster's clock, and virtual time stops while a goroutine
// waits for a mutex. That is why callers wait on a condition variable instead.
type queues struct {
	cluster Cluster

	mu        sync.Mutex
	changed   *sync.Cond
	byTarget  map[string][]*queuedFault
	injecting int  // injections in progress
	stopped   bool // waiting for turns is over
	closed    bool // no more injections
}

func newQueues(c Cluster) *queues {
	q := &queues{cluster: c, byTarget: map[string][]*queuedFault{}}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// update changes the queues under their lock and wakes all goroutines that wait for a change.
func (q *queues) update(do func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	do()
	q.changed.Broadcast()
}

// enqueue puts a fault at the end of its targets' queues.
func (q *queues) enqueue(targets []string, at, end time.Duration) []*queuedFault {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make([]*queuedFault, len(targets))
	for i, target := range targets {
		all[i] = &queuedFault{target: target, at: at, end: end}
		q.byTarget[target] = append(q.byTarget[target], all[i])
	}
	return all
}

// blocker returns a condition that becomes true once the fault ahead of this one no longer blocks
// it, or nil if none does. A waiting fault blocks those behind it, which keeps them in order.
func (q *queues) blocker(fault []*queuedFault) (done func() bool) {
	for _, p := range fault {
		for _, o := range q.byTarget[p.target] {
			if done != nil || slices.Contains(fault, o) {
				break
			}
			switch {
			case o.end <= p.at:
				done = func() bool { return o.done }
			case o.waiting:
				done = func() bool { return !o.waiting }
			}
		}
	}
	for _, p := range fault {
		p.waiting = p.waiting || done != nil
	}
	return done
}

// awaitTurn waits until it is the fault's turn on all of its targets. It returns false if the run
// stops first.
func (q *queues) awaitTurn(fault []*queuedFault) (ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for done := q.blocker(fault); done != nil; done = q.blocker(fault) {
		if !q.wait(done) {
			return false
		}
		resumed := false // start at a separate instant, not that of the blocker's end
		q.cluster.At(q.cluster.Now(), func() { q.update(func() { resumed = true }) })
		if !q.wait(func() bool { return resumed }) {
			return false
		}
	}
	return true
}

// wait waits until cond is true. It returns false if stopWaiting is called first.
func (q *queues) wait(cond func() bool) bool {
	for !cond() && !q.stopped {
		q.changed.Wait()
	}
	return cond()
}

func (q *queues) markActive(fault []*queuedFault) {
	q.update(func() {
		for _, p := range fault {
			p.waiting = false
		}
	})
}

// setEnd moves the planned end of a fault to an earlier time. It never postpones it.
func (q *queues) setEnd(p *queuedFault, end time.Duration) {
	q.update(func() { p.end = min(p.end, end) })
}

// remove removes faults from their queues, which lets the faults behind them start.
func (q *queues) remove(all ...*queuedFault) {
	q.update(func() {
		for _, p := range all {
			q.byTarget[p.target] = slices.DeleteFunc(q.byTarget[p.target], func(o *queuedFault) bool { return o == p })
			p.waiting, p.done = false, true
		}
	})
}

// stopWaiting makes all goroutines stop waiting for their turn.
func (q *queues) stopWaiting() { q.update(func() { q.stopped = true }) }

// beginInjection reports whether a fault may still be injected. If so, the caller must call
// endInjection after injecting it.
func (q *queues) beginInjection() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.injecting++
	return true
}

func (q *queues) endInjection() { q.update(func() { q.injecting-- }) }

// awaitInjections waits until no injection is in progress.
func (q *queues) awaitInjections() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.injecting > 0 {
		q.changed.Wait()
	}
}

// close prevents further injections, makes all waits for a turn return, and waits for the
// injections in progress.
func (q *queues) close() {
	q.update(func() { q.stopped, q.closed = true, true })
	q.awaitInjections()
}

// resourceLogs reads the logs that the resource keeps, one for each key. They give the true order
// of writes. The times at which writes were applied come from the events that links recorded.
type resourceLogs struct {
	mu      sync.Mutex
	applied map[string]int64 // unique value of a command → when the resource replied
}

// observe is called with every event as it is recorded.
func (l *resourceLogs) observe(ev history.Event) {
	if ev.Op != history.OpWrite && ev.Op != history.OpRead {
		return
	}
	if ev.Applied > 0 && ev.Value != "" && ev.Process != scenario.ResourceName {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.applied[ev.Value] = ev.Applied
	}
}

// read reads the resource's logs for the given keys and records their entries as events.
func (l *resourceLogs) read(ctx context.Context, c Cluster, keys []string, rec record) error {
	for _, key := range keys {
		reply, err := c.Resource(ctx, "LRANGE", client.LogKey(key), "0", "-1")
		if err != nil {
			return fmt.Errorf("read the log of %s: %w", key, err)
		}
		entries, ok := reply.([]any)
		if !ok {
			return fmt.Errorf("read the log of %s: got %T", key, reply)
		}
		for _, it := range entries {
			ev, err := client.ParseLogEntry(key, fmt.Sprint(it))
			if err != nil {
				return err
			}
			l.mu.Lock()
			ev.Process, ev.Applied = scenario.ResourceName, l.applied[ev.Value]
			l.mu.Unlock()
			rec.add(ev)
		}
	}
	return nil
}
