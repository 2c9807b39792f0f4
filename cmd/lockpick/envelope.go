package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockpick/harness/client"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// envelopeFlags are the flags of envelope.
type envelopeFlags struct {
	runFlags
	campaign.EnvelopeSetting
	dimensions []string
	drift      float64 // percent
}

func envelopeCmd(a *app) *cobra.Command {
	f := &envelopeFlags{runFlags: runFlags{backend: simulation, jobs: 1, patience: patience, reports: reportsNone}}
	c := &cobra.Command{
		Use:   "envelope",
		Short: "measure how much of each fault a lock tolerates",
		Long: `Look for the bounds of what a lock stands: pauses, delays, clocks that jump or drift,
restarts, crashes, losses of power. Each fault has one number that says how much of it
there is. Values of it are tried in the simulation, with --seeds each, until two are
next to each other of which one held with all seeds and the other did not.

Arithmetic says where that must be: from the TTL, the drift that is allowed for, the
delays of messages and the time between retries. If it is elsewhere, the exit code is 1.
At each bound the violation is made small, as "lockpick minimize" does it. The store gets
those scenarios, the figures, and envelope.json.`,
		Example: `  lockpick envelope
  lockpick envelope --dimension clock-jump --ttl 5s --nodes 7
  lockpick envelope --dimension pause,delay --fence --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.envelope(c.Context(), f) },
	}
	fs := c.Flags()
	fs.StringSliceVar(&f.dimensions, "dimension", nil, "only these: "+strings.Join(campaign.DimensionNames(), ", "))
	fs.DurationVar(&f.TTL, "ttl", 10*time.Second, "time to live of the lock's keys")
	fs.IntVar(&f.Nodes, "nodes", 5, "nodes that the lock is on")
	fs.Float64Var(&f.drift, "drift", 1, "percent of the TTL that the lock allows for drift")
	fs.BoolVar(&f.Fence, "fence", false, "the resource refuses fencing tokens below the largest that it saw")
	fs.StringVar(&f.lock, "lock", "", "a lock of this kind, as in redsync or KIND:OPTION=VALUE; the arithmetic stays Redlock's")
	fs.Uint64Var(&f.seed, "seed", 1, "the first seed")
	fs.IntVar(&f.seeds, "seeds", 100, "so many seeds of each value")
	storeFlag(c, &f.store, "the result")
	fs.DurationVar(&f.patience, "timeout", patience, "wall clock that one run may take")
	jsonFlag(c, &f.json, "the result")
	c.RegisterFlagCompletionFunc("dimension", completes(false, campaign.DimensionNames))
	return c
}

// chosen are the dimensions that were asked for.
func (f *envelopeFlags) chosen() (all []campaign.Dimension, err error) {
	for _, name := range f.dimensions {
		if !slices.ContainsFunc(campaign.Dimensions, func(d campaign.Dimension) bool { return strings.HasPrefix(d.Name, name) && name != "" }) {
			return nil, usage(fmt.Errorf("no dimension %q", name), "one of "+strings.Join(campaign.DimensionNames(), ", ")+meant(name, campaign.DimensionNames()))
		}
	}
	for _, d := range campaign.Dimensions {
		if len(f.dimensions) == 0 || slices.ContainsFunc(f.dimensions, func(name string) bool { return strings.HasPrefix(d.Name, name) }) {
			all = append(all, d)
		}
	}
	return all, nil
}

// mostEnvelopeSeeds bounds the seeds of each value.
const mostEnvelopeSeeds = 100_000

// settle makes the setting of the flags.
func (f *envelopeFlags) settle() error {
	switch {
	case f.seeds > mostEnvelopeSeeds:
		return usage(fmt.Errorf("--seeds %d is out of range", f.seeds), fmt.Sprintf("a number from 1 to %d", mostEnvelopeSeeds))
	case f.TTL < time.Second || f.TTL > time.Minute:
		return usage(fmt.Errorf("--ttl %v is out of range", f.TTL), "from 1s to 1m")
	case f.Nodes < 1 || f.Nodes > 15:
		return usage(fmt.Errorf("--nodes %d is out of range", f.Nodes), "a number from 1 to 15")
	case !(f.drift >= 0 && f.drift <= 10):
		return usage(fmt.Errorf("--drift %g is out of range", f.drift), "percent, from 0 to 10")
	}
	f.Drift, f.Timeout, f.Retry = f.drift/100, 50*time.Millisecond, client.Range{Min: 5 * time.Millisecond, Max: 20 * time.Millisecond}
	f.OneWay.Min, f.OneWay.Max = sim.Latency()
	if err := f.validate(); err != nil {
		return err
	}
	kind, err := f.selection().Kind(known())
	if err := cmp.Or(unmistakable("envelope", f.lock), invalid(err)); err != nil {
		return err
	}
	if kinds.All[kind].OneNode {
		f.Nodes = 1
	}
	return nil
}

func (a *app) envelope(ctx context.Context, f *envelopeFlags) error {
	if err := f.settle(); err != nil {
		return err
	}
	dimensions, err := f.chosen()
	if err != nil {
		return err
	}
	if err := campaign.CanWrite(f.store); err != nil {
		return noStore(err)
	}
	a.tidies()
	x := &campaign.Envelopes{Simulator: newCrew(f.patience, f.store), Store: f.store, Lock: f.lock, Setting: f.EnvelopeSetting, Seed: f.seed, Seeds: f.seeds, Put: f.put, Log: a.errs}
	defer x.Stop()
	r, err := x.Run(ctx, dimensions, func(e *campaign.Envelope) {
		if !f.json {
			e.Print(a.out)
		}
	})
	if err != nil {
		return err
	}
	if a.code = outcome.Worse(a.code, r.Code); f.json {
		return printJSON(a.out, r)
	}
	r.Print(a.out)
	return nil
}

// put puts another lock under a scenario, where one was asked for.
func (f *envelopeFlags) put(s scenario.Scenario) (scenario.Scenario, error) {
	of := f.selection()
	of.Given = []scenarios.Found{{From: s.Name, Scenario: s}}
	c, err := of.Choose(known())
	if err == nil && len(c.Skipped) > 0 {
		err = c.Skipped[0].Why
	}
	if err != nil {
		return s, err
	}
	return c.Picks[0].Scenario, nil
}
