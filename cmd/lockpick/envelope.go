package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"lockpick/harness/client"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/reports/figures"
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

// envelopesFolder is where envelopes stand in a store.
const envelopesFolder = "envelopes"

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

// found is what envelope tells of one dimension.
type found struct {
	campaign.Envelope
	Small *campaign.MinimizedRun `json:"small,omitempty"` // the counterexample where it breaks; nil: there is none
	Why   string                 `json:"why,omitempty"`   // or why it could not be made small
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
	folder := filepath.Join(f.store, envelopesFolder, time.Now().UTC().Format("20060102T150405.000Z"))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return noStore(err)
	}
	a.tidies()
	c := newCrew(f.patience, f.store)
	defer c.Stop()
	x := &measuring{app: a, flags: f, crew: c, folder: folder}
	x.search = campaign.EnvelopeSearch{Known: known(), Run: c.Run, Workers: cap(c.Idle), Seed: f.seed, Seeds: f.seeds, Put: f.put}
	x.live = &progress{errs: a.errs, mu: &x.mu, started: time.Now(), text: func(passed time.Duration) string {
		return fmt.Sprintf("%s, %s, %.0f s", x.doing, display.Plural(x.runs, "run"), passed.Seconds())
	}}
	defer x.live.start()()
	var bounds []*found
	for _, d := range dimensions {
		y, err := x.find(ctx, d)
		if err == nil {
			err = x.keep(y)
		}
		if err != nil {
			return err
		}
		bounds = append(bounds, y)
	}
	return f.keep(a, bounds, folder)
}

// measuring is an envelope that is being looked for.
type measuring struct {
	*app
	flags  *envelopeFlags
	crew   crew
	search campaign.EnvelopeSearch
	folder string

	mu    sync.Mutex // of what follows
	live  *progress
	doing string
	runs  int
}

// find finds the bound of a dimension, and makes small what breaks it.
func (x *measuring) find(ctx context.Context, d campaign.Dimension) (*found, error) {
	r, err := x.search.Find(ctx, d, x.flags.EnvelopeSetting, func(p campaign.EnvelopePoint) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.runs += p.Runs
		x.doing = fmt.Sprintf("%s: %s", d.Name, d.Unit.Say(p.Value))
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, usage(fmt.Errorf("%s: %w", d.Name, err), "see lockpick envelope --help")
	}
	x.mu.Lock()
	x.doing = d.Name + ": what breaks it is made small"
	x.mu.Unlock()
	y := &found{Envelope: r}
	y.shrink(ctx, x.crew, x.search, d, x.folder, x.flags.store)
	return y, ctx.Err()
}

// keep draws and tells what was found.
func (x *measuring) keep(y *found) error {
	if err := y.draw(x.folder); err != nil {
		return noStore(err)
	}
	x.code = outcome.Worse(x.code, y.code())
	x.mu.Lock()
	defer x.mu.Unlock()
	x.live.erase()
	if !x.flags.json {
		y.print(x.app)
	}
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

// shrink makes a small scenario of the first value that broke. Availability is not for the checker
// to judge, so there is nothing to hold a small scenario to.
func (y *found) shrink(ctx context.Context, c crew, x campaign.EnvelopeSearch, d campaign.Dimension, folder, store string) {
	if y.Broke == nil || y.Property == campaign.Availability {
		return
	}
	p := y.At(*y.Broke)
	s, err := d.Scenario(y.Setting, p.Value, x.Known)
	if err == nil {
		s, err = x.Put(s)
	}
	if err == nil {
		var r campaign.Minimized
		if r, err = c.Minimizer(0).Shrink(ctx, s, p.Seed, campaign.Bug{Property: y.Property, Cause: p.Cause}); err == nil {
			y.Small, err = c.SaveMinimized(ctx, r, y.File(), filepath.Join(folder, y.File()+".yaml"), store)
		}
	}
	if err != nil {
		y.Why = display.FirstLine(err.Error())
	}
}

// draw leaves the figure in the folder.
func (y *found) draw(folder string) error {
	var values []float64
	var rates []figures.Rate
	for _, p := range y.Points {
		values, rates = append(values, p.Value), append(rates, figures.Rate{K: p.Broke, N: p.Runs})
	}
	var must *figures.Reckoning
	if e := y.Edge; e != nil {
		must = &figures.Reckoning{Sum: e.Sum, Safe: e.Safe, Certain: e.Certain}
	}
	unit := string(y.Unit)
	fig := figures.Edge(y.File(), fmt.Sprintf("%s: %s", y.Property, strings.TrimSuffix(y.Doc, ",")), fmt.Sprintf("%s (%s)", y.Dimension, unit), y.Unit == campaign.Nodes, values, rates, must)
	if fig == nil {
		return nil
	}
	image, err := fig.PNG()
	if err != nil {
		return err
	}
	return errors.Join(files.WriteIn(folder, fig.Name+".svg", fig.SVG()), files.WriteIn(folder, fig.Name+".png", image))
}

// code is the exit code that a result calls for.
func (y *found) code() int {
	switch {
	case slices.ContainsFunc(y.Points, func(p campaign.EnvelopePoint) bool { return p.Error != "" }):
		return outcome.ExitBackend
	case y.Undecided():
		return outcome.ExitUndecided
	case !y.Agrees:
		return outcome.ExitUnexpected
	}
	return outcome.ExitOK
}

func (y *found) print(a *app) {
	in := good
	if y.code() != outcome.ExitOK {
		in = alarm
	}
	fmt.Fprintln(a.out, within(width(a.out), 0, 2, y.String()))
	fmt.Fprintln(a.out, "  "+painted(a.out, in, within(width(a.out), 2, 4, y.Reckoned())))
	if i := slices.IndexFunc(y.Points, func(p campaign.EnvelopePoint) bool { return p.Error != "" }); i >= 0 {
		fmt.Fprintf(a.out, "  a run failed at %s: %s\n", y.Unit.Say(y.Points[i].Value), display.FirstLine(y.Points[i].Error))
	}
	switch {
	case y.Small != nil:
		fmt.Fprintf(a.out, "  shown by: %s\n", y.Small.Command)
	case y.Why != "":
		fmt.Fprintf(a.out, "  not made small: %s\n", y.Why)
	}
	fmt.Fprintln(a.out)
}

// keep writes the result as a whole, and sums it up.
func (f *envelopeFlags) keep(a *app, all []*found, folder string) error {
	result := map[string]any{"schema": 1, "version": version(), "code": a.code, "lock": f.lock, "setting": f.EnvelopeSetting, "seeds": f.seeds, "seed": f.seed, "results": all}
	text, err := json.MarshalIndent(result, "", "  ")
	if err == nil {
		err = files.WriteIn(folder, "envelope.json", append(text, '\n'))
	}
	if err != nil {
		return noStore(err)
	}
	if f.json {
		return printJSON(a.out, result)
	}
	agree := 0
	for _, y := range all {
		if y.code() == outcome.ExitOK {
			agree++
		}
	}
	fmt.Fprintf(a.out, "%s; %s of each value\n%d of %d as arithmetic says: %s\n", f.EnvelopeSetting, display.Plural(f.seeds, "seed"), agree, len(all), folder)
	return nil
}
