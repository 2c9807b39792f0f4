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

type envelopeFlags struct {
	runFlags
	campaign.EnvelopeSetting
	dimensions   []string
	driftPercent float64 // percent
}

func envelopeCmd(a *app) *cobra.Command {
	f := &envelopeFlags{runFlags: runFlags{backend: simulation, jobs: 1, timeout: defaultTimeout, reportMode: reportsNone}}
	c := &cobra.Command{
		Use:   "envelope",
		Short: "measure how much of each fault a lock tolerates",
		Long: `Measure how much of each fault a lock tolerates: pauses, delays, clock jumps and drift,
restarts, crashes, power losses. A single number is the size of each fault. The simulation
tries sizes, each with --seeds seeds, until it finds two adjacent sizes such that the lock
holds with all seeds for one and not for the other.

Theory predicts this bound from the TTL, the allowed drift, the message delays and the
time between retries. If a measured bound differs, the exit code is 1. The violation at
each bound is minimized, as by "lockpick minimize". The minimized scenarios, the figures
and envelope.json are written to the store.`,
		Example: `  lockpick envelope
  lockpick envelope --dimension clock-jump --ttl 5s --nodes 7
  lockpick envelope --dimension pause,delay --fence --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.envelope(c.Context(), f) },
	}
	fs := c.Flags()
	fs.StringSliceVar(&f.dimensions, "dimension", nil, "measure only these: "+strings.Join(campaign.DimensionNames(), ", "))
	fs.DurationVar(&f.TTL, "ttl", 10*time.Second, "time to live of the lock's keys")
	fs.IntVar(&f.Nodes, "nodes", 5, "number of nodes")
	fs.Float64Var(&f.driftPercent, "drift", 1, "drift that the lock allows for, in percent of the TTL")
	fs.BoolVar(&f.Fence, "fence", false, "make the resource refuse fencing tokens below the highest it has seen")
	fs.StringVar(&f.lock, "lock", "", "test this kind of lock, as in redsync or KIND:OPTION=VALUE; predictions are still for Redlock")
	fs.Uint64Var(&f.seed, "seed", 1, "the first seed")
	fs.IntVar(&f.seeds, "seeds", 100, "number of seeds per value")
	addStoreFlag(c, &f.store, "the result")
	fs.DurationVar(&f.timeout, "timeout", defaultTimeout, "time limit of one run, in wall-clock time")
	addJSONFlag(c, &f.json, "the result")
	c.RegisterFlagCompletionFunc("dimension", completer(false, campaign.DimensionNames))
	return c
}

// chosenDimensions returns the dimensions that --dimension selects by name or prefix, or all.
func (f *envelopeFlags) chosenDimensions() (all []campaign.Dimension, err error) {
	for _, name := range f.dimensions {
		if !slices.ContainsFunc(campaign.Dimensions, func(d campaign.Dimension) bool { return strings.HasPrefix(d.Name, name) && name != "" }) {
			return nil, usageError(fmt.Errorf("no dimension %q", name), "one of "+strings.Join(campaign.DimensionNames(), ", ")+suggestion(name, campaign.DimensionNames()))
		}
	}
	for _, d := range campaign.Dimensions {
		if len(f.dimensions) == 0 || slices.ContainsFunc(f.dimensions, func(name string) bool { return strings.HasPrefix(d.Name, name) }) {
			all = append(all, d)
		}
	}
	return all, nil
}

// maxEnvelopeSeeds is the maximum number of seeds per value.
const maxEnvelopeSeeds = 100_000

// configure validates the flags and sets the remaining settings.
func (f *envelopeFlags) configure() error {
	switch {
	case f.seeds > maxEnvelopeSeeds:
		return usageError(fmt.Errorf("--seeds %d is out of range", f.seeds), fmt.Sprintf("use a number from 1 to %d", maxEnvelopeSeeds))
	case f.TTL < time.Second || f.TTL > time.Minute:
		return usageError(fmt.Errorf("--ttl %v is out of range", f.TTL), "use 1s to 1m")
	case f.Nodes < 1 || f.Nodes > 15:
		return usageError(fmt.Errorf("--nodes %d is out of range", f.Nodes), "use a number from 1 to 15")
	case !(f.driftPercent >= 0 && f.driftPercent <= 10):
		return usageError(fmt.Errorf("--drift %g is out of range", f.driftPercent), "use a percentage from 0 to 10")
	}
	f.Drift, f.Timeout, f.Retry = f.driftPercent/100, 50*time.Millisecond, client.Range{Min: 5 * time.Millisecond, Max: 20 * time.Millisecond}
	f.OneWay.Min, f.OneWay.Max = sim.Latency()
	if err := f.validate(); err != nil {
		return err
	}
	kind, err := f.selection().Kind(knownNames())
	if err := cmp.Or(rejectBroken("envelope", f.lock), selectionError(err)); err != nil {
		return err
	}
	if kinds.All[kind].OneNode {
		f.Nodes = 1
	}
	return nil
}

func (a *app) envelope(ctx context.Context, f *envelopeFlags) error {
	if err := f.configure(); err != nil {
		return err
	}
	dimensions, err := f.chosenDimensions()
	if err != nil {
		return err
	}
	if err := campaign.CanWrite(f.store); err != nil {
		return storeError(err)
	}
	a.waitForCleanup()
	finder := &campaign.EnvelopeFinder{Simulator: newSimRunner(f.timeout, f.store), Store: f.store, Lock: f.lock, Setting: f.EnvelopeSetting, Seed: f.seed, Seeds: f.seeds, Prepare: f.replaceLock, Log: a.errOut}
	defer finder.Stop()
	result, err := finder.Run(ctx, dimensions, func(e *campaign.Envelope) {
		if !f.json {
			e.Print(a.out)
		}
	})
	if err != nil {
		return err
	}
	if a.code = outcome.WorseCode(a.code, result.Code); f.json {
		return printJSON(a.out, result)
	}
	result.Print(a.out)
	return nil
}

// replaceLock replaces the scenario's lock if the user gave --lock.
func (f *envelopeFlags) replaceLock(s scenario.Scenario) (scenario.Scenario, error) {
	selection := f.selection()
	selection.Scenarios = []scenarios.Found{{File: s.Name, Scenario: s}}
	c, err := selection.Choose(knownNames())
	if err == nil && len(c.Skipped) > 0 {
		err = c.Skipped[0].Reason
	}
	if err != nil {
		return s, err
	}
	return c.Picks[0].Scenario, nil
}
