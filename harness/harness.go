// Package harness is the engine: it interprets a scenario on a Cluster and
// records a history.
//
// A Backend makes a Cluster and calls the engine with it; Run joins the two. The files,
// each of which uses only those below it:
//
//	engine.go                  one run, from its first event to its last
//	clients.go, triggers.go    who contends; what sets the steps of the plan off
//	again.go, faults.go        what the steps do to the cluster, and how that ends
//	queue.go, nest.go          which fault waits for which, and which are one
//	stop.go, stall.go, unplanned.go, logs.go
//	                           what else is watched, asked and recorded
//	wait.go, record.go         events: who waits for them, and those of the engine
//	backend.go                 what a backend and its clusters offer
//
// What lies around it:
//
//	scenario/  one experiment as plain data, and the YAML file that it is written in
//	history/   the facts: Event, Params, the recorder and the reader
//	resp/      lock commands read off the wire
//	lock/      what a lock under test gets and offers; lock/kinds is the table of locks
//	client/    the program that one contender runs, and the protected resource
//	sim/       backend: virtual time, simulated network and Redis nodes, deterministic
//	process/   backend: real redis-servers, clients as subprocesses
//	real/      what real backends share: child processes, links
//
// The engine looks at the time only through Cluster.Now and Cluster.At, so that
// the same code runs in virtual and in real time.
//
// A fault lasts as long as planned from when it is in force, which may be late. So
// that those of a plan hit a target in their order all the same, one that by the plan
// begins after another's end waits for that end, and its invoke event is of then. One
// that by the plan begins while another is in force does not wait.
//
// What nobody planned is recorded as well: where a real machine stood still by itself
// (stall.go), and what somebody else did to a process of the run (unplanned.go).
//
// Deliberately missing: any backend, any checker, any report, any file. The engine knows
// what was planned and what happened, not what it means.
package harness

import (
	"context"
	"errors"
	"fmt"

	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// Run runs a scenario once on a backend and records what happens. An error means
// that the backend or a client program could not do its part; the record then
// holds what was seen so far.
func Run(ctx context.Context, b Backend, s scenario.Scenario, seed uint64, rec *history.Recorder) error {
	return RunAtMost(ctx, b, s, seed, rec, 0)
}

// RunAtMost is Run that stops a run at that many events; 0 is any number.
func RunAtMost(ctx context.Context, b Backend, s scenario.Scenario, seed uint64, rec *history.Recorder, most int) error {
	s = s.Drawn(seed)
	var e *engine
	rec.AwaitBegin()
	err := b.Run(ctx, s, seed, rec, func(ctx context.Context, c Cluster) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		e = newEngine(s, seed, c, rec, most)
		rec.Watch(e.see)
		rec.Rename(s.Lock.Prefix, s.KeyNames())
		params := paramsOf(s, seed, b.Name(), c)
		e.rec.add(history.Event{Process: history.Harness, Type: history.Begin, Op: history.OpRun, Params: &params})
		return e.run(ctx)
	})
	if e != nil {
		e.end(err)
	}
	if err != nil {
		err = fmt.Errorf("run %s on %s with seed %d: %w", s.ID(), b.Name(), seed, err)
	}
	return errors.Join(err, rec.Err())
}
