package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lockpick/checker/verdict"
	"lockpick/docker"
	"lockpick/harness"
	"lockpick/harness/history"
	lockexec "lockpick/harness/lock/exec"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/real"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/internal/files"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// crew is the workers that do simulated runs which come as they are asked for.
type crew struct{ campaign.Workers }

func (c crew) run(ctx context.Context, s scenario.Scenario, seed uint64) outcome.Outcome {
	return c.Do(ctx, campaign.Job{Scenario: s, Seed: seed, Backend: simulation, Keep: campaign.KeepNone, Version: version()})
}

// kept writes a scenario to a file, and runs it so that its run is in the store with its reports.
func (c crew) kept(ctx context.Context, s scenario.Scenario, seed uint64, file string, text []byte, store, command string) (outcome.Outcome, error) {
	err := os.MkdirAll(filepath.Dir(file), 0o755)
	if err == nil {
		err = files.WriteIn(filepath.Dir(file), filepath.Base(file), text)
	}
	if err != nil {
		return outcome.Outcome{}, noStore(err)
	}
	return c.Do(ctx, campaign.Job{Scenario: s, Seed: seed, Backend: simulation, Store: store, Keep: campaign.KeepAll, Version: version(), Command: command}), nil
}

func (c crew) shrinker(most int) campaign.Minimizer {
	return campaign.Minimizer{Known: known(), Workers: cap(c.Idle), Most: most,
		Run: func(ctx context.Context, s scenario.Scenario, seed uint64) bool {
			return c.run(ctx, s, seed).Code == outcome.ExitOK
		},
		Record: func(ctx context.Context, s scenario.Scenario, seed uint64) (*history.History, verdict.Verdict, error) {
			return campaign.Record(ctx, sim.New(kinds.All), s, seed)
		}}
}

// Hidden commands that lockpick starts itself with, besides docker.AgentVerb.
const (
	workerVerb = "__worker"
	clientVerb = "__client"
)

// patience is the wall clock that a simulated run may take, unless one says otherwise.
const patience = time.Minute

// workers is the processes that do simulated runs, one a core.
// What they say in dying is kept in the folder stacks.
func workers(patience time.Duration, stacks string) campaign.Pool {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0] // starting it will tell
	}
	return campaign.Pool{Command: []string{self, workerVerb}, Size: runtime.NumCPU(), Patience: patience, Stacks: stacks}
}

// hiddenCmds are the commands that lockpick starts itself with: to run simulations in a process of its
// own, as a client of a real back end, and as an agent in a container.
func hiddenCmds(in io.Reader, out io.Writer) (all []*cobra.Command) {
	for verb, run := range map[string]func(args []string) error{
		workerVerb: func([]string) error { return work(in, out) },
		clientVerb: func(adapter []string) error { // in a container the client starts its adapter itself
			if len(adapter) > 0 {
				if err := lockexec.Attach(adapter); err != nil {
					return err
				}
			}
			return real.ClientMain(in, out, adapted(lockexec.Hello{}))
		},
		// Clients get these files as they are, so no buffer may stand between.
		docker.AgentVerb: func(args []string) error { return docker.Agent(os.Stdin, os.Stdout, os.Stderr, args) },
	} {
		all = append(all, &cobra.Command{Use: verb, Hidden: true, DisableFlagParsing: true, RunE: func(_ *cobra.Command, args []string) error { return run(args) }})
	}
	return all
}

// work does simulated runs. What a terminal tells all of a group is for the parent to act
// on: a worker ends with its input.
func work(in io.Reader, out io.Writer) error {
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	b := sim.New(kinds.All)
	return campaign.ServeWorker(in, out, map[string]harness.Backend{b.Name(): b})
}
