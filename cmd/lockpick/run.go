package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockpick/harness"
	"lockpick/scenarios/suite"
	"lockpick/scenarios/sweep"
)

// runFlags are the flags of run.
type runFlags struct {
	backend  string
	seed     uint64
	seeds    int
	store    string
	tags     []string
	sets     []string
	expects  []string
	require  []string
	scale    float64
	patience time.Duration
	json     bool
	dryRun   bool
}

func (a *app) runCmd() *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use:   "run [NAME…|FILE…]",
		Short: "run, check, judge (all scenarios, if none is named)",
		Long: `Run scenarios, judge what happened, and say whether it came out as expected.

NAME is a scenario with all its variants, NAME/VARIANT one of them, NAME/ the
base alone; globs work. Nothing named is everything. What a named run shows is
drawn; a run that came out otherwise than expected always is.`,
		RunE: func(c *cobra.Command, args []string) error { return a.run(c.Context(), f, args) },
	}
	fs := c.Flags()
	fs.StringVarP(&f.backend, "backend", "b", backendNames[0], "where to run: "+strings.Join(backendNames, ", "))
	fs.Uint64Var(&f.seed, "seed", 1, "what all that is random is drawn from")
	fs.IntVar(&f.seeds, "seeds", 1, "run with this many seeds, from --seed on; keeps runs that were not as expected")
	fs.StringVar(&f.store, "store", defaultStore(), "folder that keeps the runs (LOCKPICK_STORE)")
	fs.StringSliceVar(&f.tags, "tag", nil, "only scenarios with this tag")
	fs.StringArrayVar(&f.sets, "set", nil, "override, as in lock.ttl=5s; voids the expectations")
	fs.StringArrayVar(&f.expects, "expect", nil, "expect, as in mutual-exclusion=holds; restores one after --set")
	fs.StringSliceVar(&f.require, "require", nil, "capabilities that must be there, or all: a skip that lacks one is an error (3)")
	fs.Float64Var(&f.scale, "scale", 0, "factor of all durations on real backends (default 0.1, or what the scenario pins)")
	fs.DurationVar(&f.patience, "timeout", time.Minute, "wall clock that one simulated run may take")
	fs.BoolVar(&f.json, "json", false, "print the outcomes as JSON")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what would be run, resolved, and run nothing")
	return c
}

func defaultStore() string {
	if s := os.Getenv("LOCKPICK_STORE"); s != "" {
		return s
	}
	return "store"
}

func (a *app) run(ctx context.Context, f *runFlags, args []string) error {
	if f.seeds < 1 || f.scale < 0 || f.patience <= 0 {
		return usage(fmt.Errorf("--seeds, --scale and --timeout must be positive"), "see lockpick run --help")
	}
	chosen, err := choice{names: args, tags: f.tags, sets: f.sets}.scenarios()
	if err != nil {
		return err
	}
	if err := f.expect(chosen); err != nil {
		return err
	}
	b, err := backend(f.backend)
	if err != nil {
		return err
	}
	if err := f.scaleAll(chosen); err != nil {
		return err
	}
	if f.dryRun {
		return printJSON(a.out, chosen)
	}
	able := probe(ctx, b)
	if c := able[harness.CanRun]; !c.Available {
		return unable(fmt.Errorf("backend %s can't run here: %s", b.Name(), c.Reason), c.Remedy)
	}
	r := &report{app: a, flags: f, named: len(args) > 0, started: time.Now()}
	r.runAll(ctx, b, f.jobs(chosen, able, r))
	if err := r.finish(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// expect applies --set's voiding and --expect.
func (f *runFlags) expect(chosen []harness.Scenario) error {
	for i := range chosen {
		if len(f.sets) > 0 {
			chosen[i].Expect = suite.Unconditional()
		}
		for _, e := range f.expects {
			name, want, ok := strings.Cut(e, "=")
			if !ok || !slices.Contains(known().Properties, name) || !slices.Contains([]string{"holds", "violated", "any"}, want) {
				return usage(fmt.Errorf("--expect %q is no expectation", e),
					"PROPERTY=holds|violated|any, with one of "+strings.Join(known().Properties, ", "))
			}
			chosen[i].Expect[name] = harness.Expectation{Want: want}
		}
	}
	return nil
}

// realScale is what durations are multiplied by on real backends: a TTL of 10 s
// becomes one second.
const realScale = 0.1

// scaleAll scales the scenarios for a real backend.
func (f *runFlags) scaleAll(chosen []harness.Scenario) error {
	if f.backend == "sim" {
		return nil
	}
	for i, s := range chosen {
		factor := cmp.Or(f.scale, s.Scale, realScale)
		chosen[i] = s.Scaled(factor)
		if l := chosen[i].Lock; l.TTL < 2*l.Timeout {
			return usage(fmt.Errorf("scale %g makes the TTL of %s %v, too short for a node timeout of %v", factor, s.ID(), l.TTL, l.Timeout),
				"choose a larger --scale")
		}
	}
	return nil
}

// jobs makes a job of each scenario and seed; what can't be run here is reported as skipped.
func (f *runFlags) jobs(chosen []harness.Scenario, able abilities, r *report) []suite.Job {
	var jobs []suite.Job
	for _, s := range chosen {
		if lacks := able.missing(s); len(lacks) > 0 {
			r.skip(s, lacks)
			continue
		}
		for n := range f.seeds {
			j := suite.Job{Scenario: s, Seed: f.seed + uint64(n), Backend: f.backend, Store: f.store, Keep: suite.KeepAll,
				Version: version(), Sets: f.sets}
			if f.seeds > 1 {
				j.Keep = suite.KeepUnexpected
			}
			if f.backend != "sim" {
				j.Live, j.Retries = true, 5
			}
			j.Command = f.again(j)
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// again is the command that runs a job again.
func (f *runFlags) again(j suite.Job) string {
	id := j.Scenario.ID()
	if j.Scenario.Variant == "" {
		id += "/"
	}
	c := fmt.Sprintf("lockpick run %s --seed %d", id, j.Seed)
	if f.backend != "sim" {
		c += " --backend " + f.backend
	}
	if f.scale > 0 {
		c += fmt.Sprintf(" --scale %g", f.scale)
	}
	for _, s := range f.sets {
		c += fmt.Sprintf(" --set %q", s)
	}
	return c
}

// runAll does the jobs: simulated ones in workers, one a core; real ones one
// after another, since they share the machine's time.
func (r *report) runAll(ctx context.Context, b harness.Backend, jobs []suite.Job) {
	r.total = len(jobs)
	r.outcomes = make([]suite.Outcome, len(jobs))
	stop := r.progress()
	defer stop()
	if b.Name() != "sim" {
		for i, j := range jobs {
			if ctx.Err() != nil {
				return
			}
			r.done(i, suite.Execute(ctx, b, j))
		}
		return
	}
	self, err := os.Executable()
	if err != nil {
		r.errs.Write([]byte("error: find own binary: " + err.Error() + "\n"))
		r.code = suite.ExitBackend
		return
	}
	pool := sweep.Pool{Command: []string{self, workerVerb}, Size: runtime.NumCPU(), Patience: r.flags.patience}
	pool.Run(ctx, jobs, r.done)
}

func printJSON(w interface{ Write([]byte) (int, error) }, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
