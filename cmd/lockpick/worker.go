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

// Hidden commands with which lockpick starts itself. docker.AgentVerb is another one.
const (
	workerVerb = "__worker"
	clientVerb = "__client"
)

// defaultTimeout is the default time limit of a simulated run, in wall-clock time.
const defaultTimeout = time.Minute

// newWorkerPool returns a pool of processes for simulated runs, one per core. A worker that dies leaves
// its stacks in the folder stacks.
func newWorkerPool(timeout time.Duration, stacks string) campaign.Pool {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0] // if this is wrong, starting a worker fails
	}
	return campaign.Pool{Command: []string{self, workerVerb}, Size: runtime.NumCPU(), Timeout: timeout, StackFolder: stacks}
}

type simRunner = campaign.Simulator

// newSimRunner starts the workers. Workers that die leave their stacks in the store.
func newSimRunner(timeout time.Duration, store string) simRunner {
	return newSimRunnerWith(newWorkerPool(timeout, store))
}

func newSimRunnerWith(p campaign.Pool) simRunner {
	return simRunner{Workers: p.Start(), Backend: sim.New(kinds.All), Known: knownNames(), Version: version(), Command: func(file string, seed uint64) string {
		return fmt.Sprintf("lockpick run %s --seed %d", quote(file), seed)
	}}
}

// hiddenCmds returns the commands with which lockpick starts itself: as a worker that runs
// simulations, as a client on a real backend, and as an agent in a container.
func hiddenCmds(in io.Reader, out io.Writer) (all []*cobra.Command) {
	for name, run := range map[string]func(args []string) error{
		workerVerb: func([]string) error { return serveWorker(in, out) },
		clientVerb: func(adapter []string) error { // in a container the client starts its adapter itself
			if len(adapter) > 0 {
				if err := lockexec.Attach(adapter); err != nil {
					return err
				}
			}
			return real.ClientMain(in, out, kindsWithAdapter(lockexec.Hello{}))
		},
		// Clients inherit these files, so nothing may buffer them.
		docker.AgentVerb: func(args []string) error { return docker.Agent(os.Stdin, os.Stdout, os.Stderr, args) },
	} {
		all = append(all, &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true, RunE: func(_ *cobra.Command, args []string) error { return run(args) }})
	}
	return all
}

// serveWorker runs simulations until its input ends. It ignores signals that a terminal sends to the
// whole process group, because the parent handles them.
func serveWorker(in io.Reader, out io.Writer) error {
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	b := sim.New(kinds.All)
	return campaign.ServeWorker(in, out, map[string]harness.Backend{b.Name(): b})
}
