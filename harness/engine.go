package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// engine is one run: clients, the nemesis and what waits for events.
type engine struct {
	s       scenario.Scenario
	seed    uint64
	cluster Cluster
	rec     *history.Recorder

	firing *firing // stopped when the clients are done
	queues *queues // likewise, or at the limit

	until  Until
	halted chan struct{} // closed when the run is to end where it stands

	machine machine

	nesting sync.Mutex
	nests   map[string]*nested // by kind and target

	mu      sync.Mutex
	waits   []*wait
	points  map[string][]int // client and point → planned steps, in the order of their nth
	active  []*active        // faults that are in force
	failed  []error          // faults that could not be healed
	ends    []ended          // faults that were healed
	healing bool             // the clients are done, and what is in force is ended
	gone    map[string]bool  // clients that have ended
	applied map[string]int64 // unique value → when the resource had answered it
	running int              // clients that run or are about to
	ended   chan error
	stop    string        // why the run ends early
	asked   time.Duration // until is asked again after this
	over    time.Duration // when all was done
}

func (e *engine) record(ev history.Event) {
	if ev.T == 0 {
		ev.T = int64(e.cluster.Now())
	}
	e.rec.Record(ev)
}

func (e *engine) run(ctx context.Context) error {
	if err := e.arm(); err != nil {
		return err
	}
	e.watchMachine()
	unguarded := sync.OnceFunc(e.guard())
	defer unguarded()
	err := e.clients(ctx)
	e.moves()
	e.quit() // what comes now meets nobody
	e.healAll(ctx)
	// What was held is delivered now, and late answers come in.
	e.pause(ctx, 4*e.s.Lock.Timeout)
	e.recordIdle()
	e.recordLacks()
	if ctx.Err() != nil { // the backend takes all down, and answers nothing any more
		err = context.Cause(ctx)
	} else {
		err = errors.Join(err, e.readLogs(ctx), errors.Join(e.failed...))
	}
	unguarded()
	e.over = e.cluster.Now()
	return err
}

// end records the end of the run. It is the last event: what the links still
// had under way, the backend has recorded by then.
func (e *engine) end(err error) {
	ev := history.Event{T: int64(e.over), Process: history.Harness, Type: history.End, Op: history.OpRun, Cause: "completed"}
	e.mu.Lock()
	if e.stop != "" {
		ev.Cause = e.stop
	}
	e.mu.Unlock()
	if err != nil {
		ev.Cause = "stopped: " + err.Error()
	}
	e.rec.Record(ev)
}

// clients starts every client when its time has come and waits until all have
// ended, the limit is reached, or nobody is left who could start the rest.
func (e *engine) clients(ctx context.Context) error {
	e.ended = make(chan error, len(e.s.Clients))
	var stops []context.CancelFunc
	for _, c := range e.s.Clients {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stops = append(stops, cancel)
		e.schedule(ctx, c)
	}
	limit := make(chan struct{})
	e.cluster.At(e.s.Limit, func() { close(limit) })
	stopAll := func() {
		// One after another: what happens at one instant has no order.
		for _, stop := range stops {
			e.cluster.At(e.cluster.Now(), stop)
		}
	}
	over, halted := limit, e.halted
	var errs []error
	for e.left() {
		select {
		case err := <-e.ended:
			// If it died of a fault, that may start another client once it is recorded.
			e.firing.settle()
			e.mu.Lock()
			e.running--
			e.mu.Unlock()
			errs = append(errs, err)
		case <-over:
			over = nil
			e.note(fmt.Sprintf("the limit of %v is reached", e.s.Limit))
			e.queues.stop() // a client may be at a point meanwhile
			stopAll()
		case <-halted:
			halted = nil
			e.healAll(ctx) // who is paused can't end
			stopAll()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return errors.Join(errs...)
}

// left reports whether a client runs or may still start.
func (e *engine) left() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running > 0
}

func (e *engine) schedule(ctx context.Context, c scenario.Client) {
	start := func() {
		err := e.cluster.RunClient(ctx, e.spec(c), func(point string) { e.atPoint(c.Name, point) })
		if errors.Is(err, ErrKilled) || errors.Is(err, context.Canceled) {
			err = nil
		}
		e.mu.Lock()
		e.gone[c.Name] = true
		e.mu.Unlock()
		e.ended <- err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.Start == nil {
		e.running++
		e.cluster.At(c.Delay, start)
		return
	}
	e.await(*c.Start, func() { e.running++ }, start)
}

// spec is what one client is to do.
func (e *engine) spec(c scenario.Client) client.Spec {
	w := e.s.Workload
	s := client.Spec{
		Name: c.Name, Seed: e.seed, Lock: e.s.Lock, Addresses: e.s.Topology.Addresses, Fence: w.Fence, Writes: w.Writes, Cycles: w.Cycles,
		Keys: e.s.KeyNames(), Until: e.s.Limit, Think: w.Think, Hold: w.Hold, Prepare: w.Prepare, Extend: w.Extend, NoCheck: w.NoCheck,
	}
	if w.For > 0 {
		s.Until = w.For
	}
	if c.Think != nil {
		s.Think = *c.Think
	}
	if c.Hold != nil {
		s.Hold = *c.Hold
	}
	if c.Cycles != nil {
		s.Cycles = *c.Cycles
	}
	for _, st := range e.s.Plan {
		if p := st.When.Point; p != nil && p.Client == c.Name {
			s.Armed = append(s.Armed, client.Point{Name: p.Point, Nth: p.Nth})
		}
	}
	return s
}

// pause waits by the cluster's clock, or until the run is stopped: a cluster then
// calls nothing any more.
func (e *engine) pause(ctx context.Context, d time.Duration) {
	done := make(chan struct{})
	e.cluster.At(e.cluster.Now()+d, func() { close(done) })
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// readLogs reads the resource's own log: the true order of its writes. When each
// was applied, the links have seen.
func (e *engine) readLogs(ctx context.Context) error {
	for _, key := range e.s.KeyNames() {
		reply, err := e.cluster.Resource(ctx, "LRANGE", client.LogKey(key), "0", "-1")
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
			e.mu.Lock()
			ev.Process, ev.Applied = scenario.ResourceName, e.applied[ev.Value]
			e.mu.Unlock()
			e.record(ev)
		}
	}
	return nil
}

func (e *engine) note(text string) {
	e.record(history.Event{Process: history.Harness, Type: history.Info, Op: history.OpRun, Cause: text})
}
