package main

import (
	"context"
	"os"
	"path/filepath"

	"lockpick/checker"
	"lockpick/harness/history"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/internal/files"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// crew is the workers that do simulated runs which come as they are asked for.
type crew struct {
	idle    chan *campaign.Worker
	workers []*campaign.Worker
}

func newCrew(pool campaign.Pool) *crew {
	c := &crew{idle: make(chan *campaign.Worker, pool.Size)}
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
func (c *crew) do(ctx context.Context, j campaign.Job) outcome.Outcome {
	w := <-c.idle
	defer func() { c.idle <- w }()
	return w.Do(ctx, j)
}

func (c *crew) run(ctx context.Context, s scenario.Scenario, seed uint64) outcome.Outcome {
	return c.do(ctx, campaign.Job{Scenario: s, Seed: seed, Backend: simulation, Keep: campaign.KeepNone, Version: version()})
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
	return c.do(ctx, campaign.Job{Scenario: s, Seed: seed, Backend: simulation, Store: store, Keep: campaign.KeepAll, Version: version(), Command: command}), nil
}

func (c *crew) shrinker(most int) campaign.Minimizer {
	return campaign.Minimizer{Known: known(), Workers: len(c.workers), Most: most,
		Run: func(ctx context.Context, s scenario.Scenario, seed uint64) bool {
			return c.run(ctx, s, seed).Code == outcome.ExitOK
		},
		Record: func(ctx context.Context, s scenario.Scenario, seed uint64) (*history.History, checker.Verdict, error) {
			return campaign.Record(ctx, sim.New(kinds.All), s, seed)
		}}
}
