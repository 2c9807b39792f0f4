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

// clients are those who contend.
type clients struct {
	s       scenario.Scenario
	seed    uint64
	cluster Cluster
	waits   *waits
	// atPoint is called while a client waits at a point that is armed.
	atPoint func(client, point string)
	ended   chan error // what came of each

	running atomic.Int64 // that run or are about to
	gone    sync.Map     // names of those that have ended
}

// schedule starts a client when its time has come.
func (c *clients) schedule(ctx context.Context, who scenario.Client) {
	start := func() {
		err := c.cluster.RunClient(ctx, specOf(c.s, c.seed, who), func(point string) { c.atPoint(who.Name, point) })
		if errors.Is(err, ErrKilled) || errors.Is(err, context.Canceled) {
			err = nil
		}
		c.gone.Store(who.Name, true)
		c.ended <- err
	}
	if who.Start != nil {
		c.waits.await(*who.Start, func() { c.running.Add(1) }, start)
		return
	}
	c.running.Add(1)
	c.cluster.At(who.Delay, start)
}

// left reports whether a client runs or is about to.
func (c *clients) left() bool { return c.running.Load() > 0 }

// hasEnded reports whether a client of that name has ended.
func (c *clients) hasEnded(name string) bool {
	_, gone := c.gone.Load(name)
	return gone
}

// specOf is what one client is to do.
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

// logs are the resource's own, a key each: the true order of its writes. When each was
// applied, the links have seen.
type logs struct {
	mu      sync.Mutex
	applied map[string]int64 // unique value → when the resource had answered it
}

// see is shown every event as it is recorded.
func (l *logs) see(ev history.Event) {
	if ev.Op != history.OpWrite && ev.Op != history.OpRead {
		return
	}
	if ev.Applied > 0 && ev.Value != "" && ev.Process != scenario.ResourceName {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.applied[ev.Value] = ev.Applied
	}
}

// read reads the logs of some keys, and records them.
func (l *logs) read(ctx context.Context, c Cluster, keys []string, rec record) error {
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
			ev, err := client.ParseLog(key, fmt.Sprint(it))
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
