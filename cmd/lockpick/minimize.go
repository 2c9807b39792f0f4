package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/checker"
	"lockpick/harness/scenario"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

type minimizeFlags struct {
	selection  campaign.Selection
	seed       uint64
	store      string
	json       bool
	property   string
	tryBackend string // backend on which to run the minimized scenario, too; "" means none
	outputFile string // output file; "" means a file in the store
	maxRuns    int    // 0 means no limit
	seedGiven  bool   // --seed was given
}

func minimizeCmd(a *app) *cobra.Command {
	f := &minimizeFlags{selection: campaign.Selection{Backend: simulation}}
	c := &cobra.Command{
		Use:   "minimize DIR|NAME|FILE",
		Short: "find the smallest scenario with the same violation",
		Long: `Minimize a run that violates a property: remove steps, targets, clients, nodes and keys, and
shorten and round times, as long as the same property is violated by the same cause.

DIR is a stored run; for a scenario (NAME/VARIANT or FILE), --seed selects the run. It is
rerun in the simulation a few hundred times, on all processors. The result is a scenario file
with an explanation at the top. It expects the violation, which "lockpick run FILE" shows.
The last line gives the number of runs, and with how many of 100 seeds the violation occurs:
a minimal scenario may depend on its seed.`,
		Example: `  lockpick minimize store/random-faults/latest
  lockpick minimize random-faults/ --seed 13 --property mutual-exclusion
  lockpick minimize random-faults/ --seed 13 --try process -o mine.yaml`,
		Args: oneArg,
		RunE: func(c *cobra.Command, args []string) error {
			f.seedGiven = c.Flags().Changed("seed")
			return a.minimize(c.Context(), f, args[0])
		},
	}
	fs := c.Flags()
	fs.Uint64Var(&f.seed, "seed", 1, "for a scenario: the seed that shows the violation")
	fs.StringVar(&f.property, "property", "", "property whose violation to keep (default: the first violated property, preferring required ones)")
	fs.StringVar(&f.selection.Lock, "lock", "", "test this kind of lock, as in redsync or KIND:OPTION=VALUE")
	fs.StringArrayVar(&f.selection.Overrides, "set", nil, "override a setting, as in lock.ttl=5s")
	fs.StringVar(&f.tryBackend, "try", "", "then run the minimized scenario on this backend, too")
	fs.StringVarP(&f.outputFile, "output", "o", "", "write the scenario to this file (default: in "+campaign.ShrunkFolder+" of the store)")
	addStoreFlag(c, &f.store, "the scenario and its run")
	fs.IntVar(&f.maxRuns, "runs", 0, "maximum number of runs (0: no limit)")
	addJSONFlag(c, &f.json, "the result")
	return c
}

func (a *app) minimize(ctx context.Context, f *minimizeFlags, arg string) error {
	if f.store == "" {
		return emptyStoreError()
	}
	if f.property != "" && !slices.Contains(checker.Properties(), f.property) {
		return usageError(fmt.Errorf("no property %q", f.property), "one of "+strings.Join(checker.Properties(), ", ")+suggestion(f.property, checker.Properties()))
	}
	if f.maxRuns < 0 {
		return usageError(fmt.Errorf("--runs %d is negative", f.maxRuns), "leave it out")
	}
	s, seed, err := f.findSubject(arg)
	if err != nil {
		return err
	}
	var tryRunner *campaign.Runner
	if f.tryBackend != "" {
		if tryRunner, err = a.runner(ctx, f.tryBackend, f.store, 1); err != nil {
			return err
		}
		defer tryRunner.Close()
	}
	if err := campaign.CanWrite(f.store); err != nil {
		return storeError(err)
	}
	if f.outputFile != "" {
		if err := checkOutputFile(f.outputFile); err != nil {
			return err
		}
	}
	runner := newSimRunner(defaultTimeout, f.store)
	defer runner.Stop()
	bug, err := findViolation(runner.Run(ctx, s, seed), s, seed, f.property)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	}
	fmt.Fprintf(a.errOut, "minimizing %s of %s with seed %d\n", bug, s.ID(), seed)
	r, err := runner.Minimizer(f.maxRuns).Minimize(ctx, s, seed, bug)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return usageError(err, "the same seed must show the violation again in the simulation")
	}
	name := minimizedName(r)
	saved, err := runner.SaveMinimized(ctx, r, name, cmp.Or(f.outputFile, filepath.Join(f.store, campaign.ShrunkFolder, name+".yaml")), f.store)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return err
	}
	if tryRunner != nil {
		fmt.Fprintf(a.errOut, "trying it on %s\n", f.tryBackend)
		saved.TryOn(ctx, tryRunner, knownNames(), f.store)
	}
	if err := suites.Index(f.store); err != nil {
		return storeError(err)
	}
	if f.json {
		return printJSON(a.out, saved)
	}
	saved.Print(a.out)
	return nil
}

// checkOutputFile checks that the file named by -o can be written, so that no work is in vain. It creates
// the file's folder.
func checkOutputFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		err = errors.New("it exists and is not a regular file")
	case os.IsPathSeparator(path[len(path)-1]):
		err = errors.New("it is a folder")
	default:
		err = errors.Unwrap(campaign.CanWrite(filepath.Dir(path))) // drop the context, which names the store
	}
	if err != nil {
		return usageError(fmt.Errorf("write %s: %w", path, err), "name a writable file with -o")
	}
	return nil
}

// findSubject returns the scenario and the seed of the run to minimize.
func (f *minimizeFlags) findSubject(arg string) (scenario.Scenario, uint64, error) {
	if info, err := os.Stat(arg); err == nil && info.IsDir() {
		if err := rejectRunFolder(arg); err != nil {
			return scenario.Scenario{}, 0, err
		}
		run, err := campaign.OpenStored(arg, storedNames())
		switch {
		case err != nil:
			return scenario.Scenario{}, 0, usageError(err, badRecordHint)
		case len(f.selection.Overrides) > 0 || f.selection.Lock != "" || f.seedGiven:
			return scenario.Scenario{}, 0, usageError(errors.New("--set, --lock and --seed don't apply to a stored run"), "name the scenario instead")
		}
		return run.Manifest.Scenario, run.Manifest.Seed, checkReplayable(run.Manifest)
	}
	f.selection.Names = []string{arg}
	c, err := f.selection.Choose(knownNames())
	switch n := len(c.Picks) + len(c.Skipped); {
	case err != nil:
		return scenario.Scenario{}, 0, selectionError(err)
	case n > 1:
		return scenario.Scenario{}, 0, usageError(fmt.Errorf("%s names %d scenarios", arg, n), "name one: "+arg+"/VARIANT, or "+arg+"/ for the base")
	case len(c.Skipped) > 0:
		return scenario.Scenario{}, 0, usageError(fmt.Errorf("%s does not suit this lock: %w", arg, c.Skipped[0].Reason), "name another scenario")
	}
	return c.Picks[0].Scenario, f.seed, nil
}

// findViolation returns the violation to minimize: that of the given property, or else the first
// one, preferring required properties.
func findViolation(o outcome.Outcome, s scenario.Scenario, seed uint64, property string) (campaign.Bug, error) {
	if o.Error != "" {
		return campaign.Bug{}, &failure{err: errors.New(o.Error), code: o.Code, hint: o.Hint}
	}
	if bug, ok := campaign.BugOf(o, property); ok {
		return bug, nil
	}
	hint := "find a seed with a violation with lockpick run --seeds N or lockpick fuzz"
	if all := o.Violations(); len(all) > 0 {
		hint = "it violates " + all[0].Property
	}
	description := "any property"
	if property != "" {
		description = property
	}
	return campaign.Bug{}, usageError(fmt.Errorf("%s does not violate %s with seed %d in the simulation", s.ID(), description, seed), hint)
}

// minimizedName derives a scenario's name from the original scenario, the lock, and the violation.
func minimizedName(r campaign.Minimized) string {
	l := r.Scenario.Lock
	parts := []string{strings.ReplaceAll(r.OriginalID, "/", "-")}
	switch {
	case l.Mistake != "":
		parts = append(parts, l.Mistake)
	case l.Kind != "redlock":
		parts = append(parts, l.Kind)
	}
	if r.Cause == "" {
		r.Cause = r.Property
	}
	name := strings.Join(append(parts, r.Cause), "-")
	return strings.TrimRight(name[:min(len(name), 64)], "-")
}
