package main

import (
	"context"
	"os"
	"path/filepath"

	"lockpick/checker"
	"lockpick/harness/files"
	"lockpick/harness/history"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios/outcome"
	"lockpick/scenarios/shrink"
	"lockpick/scenarios/suite"
	"lockpick/scenarios/sweep"
)

// crew is the workers that do simulated runs which come as they are asked for.
type crew struct {
	idle    chan *sweep.Worker
	workers []*sweep.Worker
}

func newCrew(pool sweep.Pool) *crew {
	c := &crew{idle: make(chan *sweep.Worker, pool.Size)}
	for range pool.Size {
		w := pool.Worker()
		c.workers = append(c.workers, w)
		c.idle <- w
	}
	return c
}

// stop ends the workers, once what they do is done.
func (c *crew) stop() {
	for range c.workers {
		(<-c.idle).Stop()
	}
}

// do does a job on the next worker that is idle.
func (c *crew) do(ctx context.Context, j suite.Job) outcome.Outcome {
	w := <-c.idle
	defer func() { c.idle <- w }()
	return w.Do(ctx, j)
}

func (c *crew) run(ctx context.Context, s scenario.Scenario, seed uint64) outcome.Outcome {
	return c.do(ctx, suite.Job{Scenario: s, Seed: seed, Backend: simulation, Keep: suite.KeepNone, Version: version()})
}

// kept writes a scenario to a file, and runs it so that its run is in the store with its reports.
func (c *crew) kept(ctx context.Context, s scenario.Scenario, seed uint64, file string, text []byte, store, command string) (outcome.Outcome, error) {
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = files.WriteIn(filepath.Dir(file), filepath.Base(file), text)
	}
	if err != nil {
		return outcome.Outcome{}, noStore(err)
	}
	return c.do(ctx, suite.Job{Scenario: s, Seed: seed, Backend: simulation, Store: store, Keep: suite.KeepAll, Version: version(), Command: command}), nil
}

func (c *crew) shrinker(most int) shrink.Shrinker {
	return shrink.Shrinker{Known: known(), Workers: len(c.workers), Most: most,
		Run: func(ctx context.Context, s scenario.Scenario, seed uint64) bool {
			return c.run(ctx, s, seed).Code == outcome.ExitOK
		},
		Record: func(ctx context.Context, s scenario.Scenario, seed uint64) (*history.History, checker.Verdict, error) {
			return suite.Record(ctx, sim.New(kinds.All), s, seed)
		}}
}
