package harness

import (
	"cmp"
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

type clients struct {
	s       scenario.Scenario
	seed    uint64
	cluster Cluster
	waits   *eventWaits
	// onPoint is called while a client waits at an armed point.
	onPoint func(client, point string)
	results chan error // each client's result

	numRunning   atomic.Int64 // clients that are running or about to start
	endedClients sync.Map     // names of the clients that have ended
}

// schedule starts a client at its configured time or start event.
func (c *clients) schedule(ctx context.Context, spec scenario.Client) {
	start := func() {
		err := c.cluster.RunClient(ctx, specOf(c.s, c.seed, spec), func(point string) { c.onPoint(spec.Name, point) })
		if errors.Is(err, ErrKilled) || errors.Is(err, context.Canceled) {
			err = nil
		}
		c.endedClients.Store(spec.Name, true)
		c.results <- err
	}
	if spec.Start != nil {
		c.waits.await(*spec.Start, func() { c.numRunning.Add(1) }, start)
		return
	}
	c.numRunning.Add(1)
	c.cluster.At(spec.Delay, start)
}

// anyRunning reports whether a client is running or about to start.
func (c *clients) anyRunning() bool { return c.numRunning.Load() > 0 }

func (c *clients) hasEnded(name string) bool {
	_, ended := c.endedClients.Load(name)
	return ended
}

func specOf(s scenario.Scenario, seed uint64, c scenario.Client) client.Spec {
	w := s.Workload
	spec := client.Spec{
		Name: c.Name, Seed: seed, Lock: s.Lock, Addresses: s.Topology.Addresses, Fence: w.Fence, Writes: w.Writes, Cycles: w.Cycles,
		Keys: s.KeyNames(), EndTime: s.Limit, ThinkTime: w.Think, HoldTime: w.Hold, PrepareTime: w.Prepare, CancelAfter: w.CancelAfter, ExtendInterval: w.Extend, Reentries: w.Reenter, NoCheck: w.NoCheck,
	}
	if w.For > 0 {
		spec.EndTime = w.For
	}
	spec.Lock.TTL = cmp.Or(c.TTL, s.Lock.TTL)
	if c.Think != nil {
		spec.ThinkTime = *c.Think
	}
	if c.Hold != nil {
		spec.HoldTime = *c.Hold
	}
	if c.Cycles != nil {
		spec.Cycles = *c.Cycles
	}
	if c.CancelAfter != nil {
		spec.CancelAfter = *c.CancelAfter
	}
	for _, st := range s.Plan {
		if p := st.When.Point; p != nil && p.Client == c.Name {
			spec.ArmedPoints = append(spec.ArmedPoints, client.Point{Name: p.Point, Nth: p.Nth})
		}
	}
	return spec
}

// queuedFault is a fault in a target's queue. A fault that is planned to start after another
// fault's end waits for that end, even if the end is late. A fault that is planned to start while
// another is active does not wait.
//
//	plan      ▒▒ kill ▒▒      ▒▒ shutdown ▒▒
//	record    ▒▒ kill ▒▒ node is starting ▒▒ shutdown ▒▒
type queuedFault struct {
	target  string
	at, end time.Duration // as planned
	waiting bool          // waiting for its turn or being injected after a wait
	done    bool          // ended, or will never start
}

// noEnd is the planned end of a fault without a fixed end time.
const noEnd = time.Duration(math.MaxInt64)

// queues holds each target's due and active faults, and counts the injections in progress. An
// injection may take time on the cluster's clock, but virtual time stops while a goroutine waits
// for a mutex, so callers wait on a condition variable instead.
type queues struct {
	cluster Cluster

	mu           sync.Mutex
	changed      *sync.Cond
	byTarget     map[string][]*queuedFault
	numInjecting int  // number of injections in progress
	stopped      bool // faults no longer wait for their turn
	closed       bool // no more injections may begin
}

func newQueues(c Cluster) *queues {
	q := &queues{cluster: c, byTarget: map[string][]*queuedFault{}}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// update calls f with the mutex locked and wakes all goroutines that wait for a change.
func (q *queues) update(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
	q.changed.Broadcast()
}

// enqueue appends a fault to its targets' queues.
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

// unblockCondition returns a condition that becomes true when the fault ahead no longer blocks this
// one, or nil if no fault does. A waiting fault blocks those behind it, so that they stay in order.
func (q *queues) unblockCondition(fault []*queuedFault) (done func() bool) {
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

// awaitTurn waits until it is the fault's turn on all its targets, and reports false if the run
// stops first.
func (q *queues) awaitTurn(fault []*queuedFault) (ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for done := q.unblockCondition(fault); done != nil; done = q.unblockCondition(fault) {
		if !q.wait(done) {
			return false
		}
		resumed := false // don't start at the same instant as the blocker ends
		q.cluster.At(q.cluster.Now(), func() { q.update(func() { resumed = true }) })
		if !q.wait(func() bool { return resumed }) {
			return false
		}
	}
	return true
}

// wait waits until cond is true, and reports false if stopWaiting is called first.
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

// setEnd moves a fault's planned end to an earlier time. A later time has no effect.
func (q *queues) setEnd(p *queuedFault, end time.Duration) {
	q.update(func() { p.end = min(p.end, end) })
}

// remove removes faults from their queues, so that the faults behind them can start.
func (q *queues) remove(all ...*queuedFault) {
	q.update(func() {
		for _, p := range all {
			q.byTarget[p.target] = slices.DeleteFunc(q.byTarget[p.target], func(o *queuedFault) bool { return o == p })
			p.waiting, p.done = false, true
		}
	})
}

// stopWaiting wakes all goroutines that wait for their turn.
func (q *queues) stopWaiting() { q.update(func() { q.stopped = true }) }

// beginInjection reports whether faults may still be injected. If so, the caller must call
// endInjection after the injection.
func (q *queues) beginInjection() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.numInjecting++
	return true
}

func (q *queues) endInjection() { q.update(func() { q.numInjecting-- }) }

func (q *queues) awaitInjections() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.numInjecting > 0 {
		q.changed.Wait()
	}
}

// close prevents further injections, ends all waits for a turn, and waits for the injections in
// progress.
func (q *queues) close() {
	q.update(func() { q.stopped, q.closed = true, true })
	q.awaitInjections()
}

// resourceLogs reads the resource's logs, one per key, which give the true order of writes. The
// times at which the writes were applied come from the events that the links recorded.
type resourceLogs struct {
	mu         sync.Mutex
	replyTimes map[string]int64 // by a command's unique value: when the resource replied
}

// observe is called for every recorded event.
func (l *resourceLogs) observe(ev history.Event) {
	if ev.Op != history.OpWrite && ev.Op != history.OpRead {
		return
	}
	if ev.AppliedAt > 0 && ev.Value != "" && ev.Process != scenario.ResourceName {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.replyTimes[ev.Value] = ev.AppliedAt
	}
}

// read reads the resource's logs for keys and records their entries as events.
func (l *resourceLogs) read(ctx context.Context, c Cluster, keys []string, rec stampingRecorder) error {
	for _, key := range keys {
		reply, err := c.Resource(ctx, "LRANGE", client.LogKey(key), "0", "-1")
		if err != nil {
			return fmt.Errorf("read the log of %s: %w", key, err)
		}
		entries, ok := reply.([]any)
		if !ok {
			return fmt.Errorf("read the log of %s: got %T", key, reply)
		}
		for _, entry := range entries {
			ev, err := client.ParseLogEntry(key, fmt.Sprint(entry))
			if err != nil {
				return err
			}
			l.mu.Lock()
			ev.Process, ev.AppliedAt = scenario.ResourceName, l.replyTimes[ev.Value]
			l.mu.Unlock()
			rec.add(ev)
		}
	}
	return nil
}
