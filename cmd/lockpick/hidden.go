package main

import (
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

// Verbs that lockpick calls itself by.
const (
	workerVerb  = "__worker"
	clientVerb  = "__client"
	linksVerb   = "__links"
	clockVerb   = "__clock"
	packetsVerb = "__packets"
	roomVerb    = "__room"
	addressVerb = "__address"
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

// hiddenCmds are those that lockpick starts itself with.
func hiddenCmds(in io.Reader, out io.Writer) (all []*cobra.Command) {
	for verb, run := range map[string]func() error{
		workerVerb:  func() error { return work(in, out) },           // does simulated runs in a process of its own
		addressVerb: func() error { return docker.Stay(in) },         // holds the address of a node among containers
		linksVerb:   func() error { return docker.Links(in, out) },   // is the links of a backend of containers
		packetsVerb: func() error { return docker.Packets(in, out) }, // loses the packets of a node in a container
		clockVerb:   func() error { return docker.Clocks(in, out) },  // turns the clocks of a container from one beside it
	} {
		all = append(all, &cobra.Command{Use: verb, Hidden: true, Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return run() }})
	}
	// clientVerb is one contender on a real backend. In a container it starts its adapter, which
	// its arguments are.
	all = append(all, &cobra.Command{Use: clientVerb, Hidden: true, DisableFlagParsing: true, RunE: func(_ *cobra.Command, adapter []string) error {
		if len(adapter) > 0 {
			if err := lockexec.Attach(adapter); err != nil {
				return err
			}
		}
		return real.ClientMain(in, out, adapted(lockexec.Hello{}))
	}})
	// roomVerb runs one contender after the other in a container.
	return append(all, &cobra.Command{Use: roomVerb, Hidden: true, DisableFlagParsing: true, RunE: func(_ *cobra.Command, program []string) error {
		return docker.Room(os.Stdin, os.Stdout, os.Stderr, program) // which its clients get as they are
	}})
}

// work does simulated runs. What a terminal tells all of a group is for the parent to act
// on: a worker ends with its input.
func work(in io.Reader, out io.Writer) error {
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	b := sim.New(kinds.All)
	return campaign.ServeWorker(in, out, map[string]harness.Backend{b.Name(): b})
}
