package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lockpick/docker"
	"lockpick/harness"
	lockexec "lockpick/harness/lock/exec"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/real"
	"lockpick/harness/sim"
	"lockpick/scenarios/campaign"
)

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

// crew runs scenarios in the simulation, one by one.
type crew = campaign.Simulator

// newCrew starts the workers, which keep their stacks in a store.
func newCrew(patience time.Duration, store string) crew {
	return simulator(workers(patience, store))
}

func simulator(p campaign.Pool) crew {
	return crew{Workers: p.Start(), Backend: sim.New(kinds.All), Known: known(), Version: version(), Command: func(file string, seed uint64) string {
		return fmt.Sprintf("lockpick run %s --seed %d", quoted(file), seed)
	}}
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
