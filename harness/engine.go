package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// engine is one run: the clients, the nemesis, and who watches what is recorded.
//
//	             ┌──► logs       when the resource answered
//	recorder ────┼──► stopping   whether the run ends here
//	             └──► waits ───► clients, triggers ───► faults ───► cluster
type engine struct {
	s       scenario.Scenario
	cluster Cluster
	rec     record

	logs     logs
	waits    *waits
	clients  *clients
	faults   *faults
	triggers *triggers
	stopping *stopping
	stalls   *stalls

	over time.Duration // when all was done
}

func newEngine(s scenario.Scenario, seed uint64, c Cluster, to *history.Recorder, most int) *engine {
	e := &engine{s: s, cluster: c, rec: record{c, to}, logs: logs{applied: map[string]int64{}}, waits: &waits{cluster: c}}
	e.clients = &clients{s: s, seed: seed, cluster: c, waits: e.waits, ended: make(chan error, len(s.Clients))}
	e.faults = &faults{cluster: c, rec: e.rec, waits: e.waits, queues: newQueues(c), nests: &nests{cluster: c, of: map[string]*nested{}}}
	e.triggers = &triggers{s: s, cluster: c, faults: e.faults, again: again{c, e.faults, dice(seed), e.clients.hasEnded}, points: map[string][]int{}}
	e.clients.atPoint = e.triggers.atPoint
	e.stalls = &stalls{cluster: c, rec: e.rec, queues: e.faults.queues}
	e.stopping = &stopping{most: most, cluster: c, rec: e.rec, running: e.clients.left, quit: e.faults.queues.close, halted: make(chan struct{})}
	return e
}

// see is shown every event as it is recorded.
func (e *engine) see(ev history.Event) {
	e.logs.see(ev)
	e.stopping.see(ev)
	e.waits.see(ev)
}

func (e *engine) run(ctx context.Context) error {
	if err := e.triggers.arm(); err != nil {
		return err
	}
	e.stalls.watch()
	unguarded := sync.OnceFunc(guard(e.cluster, e.rec))
	defer unguarded()
	err := e.contend(ctx)
	e.stalls.moves()
	e.faults.queues.close() // what comes now meets nobody; what is being injected is recorded before
	e.faults.healAll(ctx)
	// What was held is delivered now, and late answers come in.
	pause(ctx, e.cluster, 4*e.s.Lock.Timeout)
	e.faults.recordIdle(e.s.Plan)
	recordLacks(e.cluster, e.rec)
	if ctx.Err() != nil { // the backend takes all down, and answers nothing any more
		err = context.Cause(ctx)
	} else {
		err = errors.Join(err, e.logs.read(ctx, e.cluster, e.s.KeyNames(), e.rec), e.faults.unhealed())
	}
	unguarded()
	e.over = e.cluster.Now()
	return err
}

// end records the end of the run. It is the last event: what the links still
// had under way, the backend has recorded by then.
func (e *engine) end(err error) {
	ev := history.Event{T: int64(e.over), Process: history.Harness, Type: history.End, Op: history.OpRun, Cause: "completed"}
	if why := e.stopping.reason(); why != "" {
		ev.Cause = why
	}
	if err != nil {
		ev.Cause = "stopped: " + err.Error()
	}
	e.rec.to.Record(ev)
}

// contend starts every client when its time has come and waits until all have
// ended, the limit is reached, or nobody is left who could start the rest.
func (e *engine) contend(ctx context.Context) error {
	var stops []context.CancelFunc
	for _, c := range e.s.Clients {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stops = append(stops, cancel)
		e.clients.schedule(ctx, c)
	}
	limit := make(chan struct{})
	e.cluster.At(e.s.Limit, func() { close(limit) })
	stopAll := func() {
		// One after another: what happens at one instant has no order.
		for _, stop := range stops {
			e.cluster.At(e.cluster.Now(), stop)
		}
	}
	over, halted := limit, e.stopping.halted
	var errs []error
	for e.clients.left() {
		select {
		case err := <-e.clients.ended:
			// If it died of a fault, that may start another client once it is recorded.
			e.faults.queues.settle()
			e.clients.running.Add(-1)
			errs = append(errs, err)
		case <-over:
			over = nil
			e.rec.note(fmt.Sprintf("the limit of %v is reached", e.s.Limit))
			e.faults.queues.stop() // a client may be at a point meanwhile
			stopAll()
		case <-halted:
			halted = nil
			e.faults.healAll(ctx) // who is paused can't end
			stopAll()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return errors.Join(errs...)
}
