package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lockpick/docker"
	lockexec "lockpick/harness/lock/exec"
	"lockpick/harness/lock/kinds"
	"lockpick/internal/files"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

type scorecardFlags struct {
	backend       string
	besideBackend string // second backend for the catalog; "" means none
	adapter       string // command that starts the lock's adapter, as the user wrote it; "" means none
	tryBackend    string // backend on which to try violations again; "" means none
	seed          uint64
	seeds         int // number of random plans of each type
	nodes         int // for scenarios with several nodes; 0: their own number
	settings      []string
	scale         float64
	store         string
	tags          []string
	jobs          int
	allLocks      bool
	json          bool
	markdown      bool
	command       string // command that repeats this scorecard, without flags
}

const scorecardLong = `Run locks through the whole catalog and random plans, with comparison runs of each
scenario's own lock, and write a scorecard for each lock. It has a row for each property,
a column for each type of fault and, for each cause of violations, the shortest run that
shows it, with its diagram, and the other scenarios that do.

LOCK is KIND, KIND:OPTION=VALUE,… or KIND:* for all its configurations: the default, and
each value of each option. See lockpick help locks.

Random plans stay within what Redlock assumes. For each type of fault there are plans with
that type alone and plans with all types, so that a violation can be attributed to a type.
Scorecards show the results for at least 20 seeds.

A cell counts runs:

  ✓ 12       required, and held in 12 runs
  ✗ 3 of 12  violated in 3 of the 12 runs that decided whether the property holds
  ○ 2 of 5   violated, as by any lock of its kind: not required there, and the scenario's own
             lock does not satisfy it either
  –          not tested: not exercised, not supported, inconclusive, or not required; a list
             below the table gives the reasons

--set, --nodes and --scale work as in lockpick run: properties remain required if the
scenario's own lock satisfies them under the same settings. Scenarios that they do not fit are
skipped. Each scorecard shows its settings, the topology and the version of the servers.

With --try process, each run that violates a required property is repeated on real servers,
up to six times. Violations that do not occur there are listed as not confirmed. --beside
process does the same and runs the whole catalog there, too, in separate columns.

A library in another language needs an adapter. With --adapter all runs use real servers,
and each violation is tried once more.

The page, Markdown, JSON and the run of each counterexample are stored in STORE/scores;
lockpick replay DIR repeats such a run. The exit code is 1 if a lock violates a required property,
and 2 if that is not confirmed.`

func scorecardCmd(a *app) *cobra.Command {
	f := &scorecardFlags{}
	c := &cobra.Command{
		Use:   "scorecard LOCK…",
		Short: "run locks through the whole catalog and print a scorecard",
		Long:  scorecardLong,
		Example: `  lockpick scorecard redsync
  lockpick scorecard 'redsync:*' --try process      all configurations; violations also on real servers
  lockpick scorecard redislock rueidis:caching=yes --seeds 200 --json
  lockpick scorecard redsync --nodes 3 --set lock.ttl=30s    with your settings
  lockpick scorecard --adapter "node adapter.js"    a lock in any language
  lockpick scorecard --all`,
		RunE: func(c *cobra.Command, args []string) error {
			if f.adapter != "" && f.backend == simulation && c.Flags().Changed("backend") {
				return usageError(errors.New("an adapter needs real servers, and --backend sim has none"), "leave out --backend, or use --backend process")
			}
			return a.scorecard(c.Context(), f, args)
		},
	}
	c.ValidArgsFunction = completer(false, kinds.Names)
	fs := c.Flags()
	fs.StringVarP(&f.backend, "backend", "b", backendNames[0], "where to run: "+strings.Join(backendNames, ", "))
	fs.StringVar(&f.besideBackend, "beside", "", "run the catalog on this backend, too, in separate columns")
	fs.StringVar(&f.tryBackend, "try", "", "try each violation again on this backend")
	fs.Uint64Var(&f.seed, "seed", 1, "random seed")
	fs.IntVar(&f.seeds, "seeds", outcome.MinSeeds, "number of random plans of each type, starting with --seed; 0 for none")
	addNodesFlag(c, &f.nodes)
	fs.StringArrayVar(&f.settings, "set", nil, "override a setting in all scenarios, as in lock.ttl=5s")
	fs.Float64Var(&f.scale, "scale", 0, "factor for all durations on real backends (default 0.1, or the scenario's own)")
	addStoreFlag(c, &f.store, "the scorecards")
	fs.StringSliceVar(&f.tags, "tag", nil, "only scenarios with this tag")
	fs.IntVar(&f.jobs, "jobs", 1, "number of concurrent runs on real backends; runs are mostly idle, but too many delay each other")
	addJSONFlag(c, &f.json, "the scorecards")
	fs.BoolVar(&f.markdown, "markdown", false, "print the scorecards as Markdown")
	fs.BoolVar(&f.allLocks, "all", false, "test all configurations of all kinds")
	fs.StringVar(&f.adapter, "adapter", "", "test the lock of this adapter, on real processes; violations are tried again\n(see lockpick help adapter)")
	return c
}

// namedLocks lists the locks that the arguments or --all select. It expands KIND:* to all
// configurations of the kind.
func (f *scorecardFlags) namedLocks(args []string) (all []string) {
	for _, arg := range args {
		if kind, isWildcard := strings.CutSuffix(arg, ":*"); isWildcard {
			if _, known := kinds.All[kind]; known {
				all = append(all, kinds.Setups(kind)...)
				continue
			}
		}
		all = append(all, arg)
	}
	if f.allLocks {
		for _, kind := range correctKinds() {
			all = append(all, kinds.Setups(kind)...)
		}
	}
	return all
}

// chooseLocks validates the flags and returns the locks to test.
func (f *scorecardFlags) chooseLocks(args []string) ([]string, error) {
	all := f.namedLocks(args)
	if f.adapter != "" {
		switch {
		case len(all) > 0:
			return nil, usageError(errors.New("--adapter selects the lock, so no other can be named"), "leave out "+strings.Join(all, ", "))
		case f.backend == simulation:
			f.backend = "process"
		}
		f.tryBackend = cmp.Or(f.tryBackend, f.backend)
		all = []string{lockexec.Name}
	}
	switch {
	case len(all) == 0:
		return nil, usageError(errors.New("scorecard takes locks, got none"), "name some of "+strings.Join(correctKinds(), ", "))
	case f.seeds < 0 || f.seeds > maxSweepSeeds:
		return nil, usageError(fmt.Errorf("--seeds %d is out of range", f.seeds), fmt.Sprintf("use a number from 0 to %d", maxSweepSeeds))
	case f.jobs < 1 || f.jobs > maxJobs:
		return nil, usageError(fmt.Errorf("--jobs %d is out of range", f.jobs), fmt.Sprintf("use a number from 1 to %d", maxJobs))
	case f.jobs > 1 && f.backend == simulation && f.besideBackend == "" && f.tryBackend == "":
		return nil, usageError(errors.New("--jobs applies to real backends only"), "leave it out: the simulation uses all processors")
	case f.besideBackend != "" && f.tryBackend != "" && f.besideBackend != f.tryBackend:
		return nil, usageError(fmt.Errorf("--beside %s and --try %s name different backends", f.besideBackend, f.tryBackend), "leave out --try: --beside tries violations, too")
	case f.besideBackend != "" && (f.besideBackend == simulation || f.backend != simulation || f.adapter != ""):
		return nil, usageError(errors.New("--beside adds a real backend to the simulation"), "as in --beside process, without --backend and --adapter")
	case f.tryBackend != "" && f.adapter == "" && (f.tryBackend == simulation || f.backend != simulation):
		return nil, usageError(errors.New("--try tries violations found in the simulation on a real backend"), "as in --try process, without --backend")
	case f.json && f.markdown:
		return nil, usageError(errors.New("--json and --markdown contradict each other"), "leave one of them out")
	}
	if err := checkScale(f.scale, f.backend, f.besideBackend, f.tryBackend); err != nil {
		return nil, err
	}
	if f.adapter != "" {
		f.command = "lockpick scorecard --adapter " + quote(f.adapter)
		return all, nil
	}
	var uniqueNames []string
	for _, name := range all {
		if slices.Contains(uniqueNames, name) {
			continue
		}
		if err := rejectBroken("scorecard", name); err != nil {
			return nil, err
		}
		if _, err := (campaign.Selection{Lock: name}).Kind(knownNames()); err != nil {
			return nil, selectionError(err)
		}
		uniqueNames = append(uniqueNames, name)
	}
	f.command = "lockpick scorecard " + quoteAll(uniqueNames)
	return uniqueNames, nil
}

// correctKinds lists the lock kinds without planted mistakes.
func correctKinds() []string {
	return slices.DeleteFunc(kinds.Names(), func(kind string) bool { return kind == "broken" })
}

// rerunCommand returns the command with all flags that affect the result, as the user gave them.
func (f *scorecardFlags) rerunCommand() string {
	c := fmt.Sprintf("%s --seed %d --seeds %d", f.command, f.seed, f.seeds)
	if f.backend != simulation && f.adapter == "" {
		c += " --backend " + f.backend
	}
	if f.besideBackend != "" {
		c += " --beside " + f.besideBackend
	} else if f.tryBackend != "" && f.adapter == "" {
		c += " --try " + f.tryBackend
	}
	if f.scale > 0 {
		c += fmt.Sprintf(" --scale %g", f.scale)
	}
	if f.nodes != 0 {
		c += fmt.Sprintf(" --nodes %d", f.nodes)
	}
	for _, s := range f.settings {
		c += " --set " + quote(s)
	}
	for _, t := range f.tags {
		c += " --tag " + quote(t)
	}
	return c
}

func quoteAll(all []string) string {
	var out []string
	for _, s := range all {
		out = append(out, quote(s))
	}
	return strings.Join(out, " ")
}

func (a *app) scorecard(ctx context.Context, f *scorecardFlags, args []string) (err error) {
	locks, err := f.chooseLocks(args)
	if err != nil {
		return err
	}
	s := &campaign.Scorer{Base: campaign.Selection{Tags: f.tags, Adapter: f.adapter, Nodes: f.nodes, Overrides: f.settings, Scale: f.scale}, Claims: kinds.Claims, FirstSeed: f.seed, Seeds: f.seeds, RunBoth: f.besideBackend != "",
		Report: func(line string) { fmt.Fprintln(a.errOut, line) }}
	program, err := selectAdapter(ctx, &s.Base, "")
	if err != nil {
		return err
	}
	s.Known = knownNames()
	if s.Primary, err = a.runner(ctx, f.backend, f.store, f.jobs, program...); err != nil {
		return err
	}
	defer s.Primary.Close()
	if secondaryName := cmp.Or(f.besideBackend, f.tryBackend); secondaryName != "" {
		if s.Secondary, err = a.runner(ctx, secondaryName, f.store, f.jobs, program...); err != nil {
			return err
		}
		defer s.Secondary.Close()
	}
	if err := checkSelections(ctx, s, locks, a.errOut); err != nil {
		return err
	}
	if s.Store, err = files.Unfinished.MakeDir(f.store); err != nil {
		return err
	}
	defer os.RemoveAll(s.Store)
	s.Primary.Workers.StackFolder = s.Store
	all := suites.Scorecards{Schema: outcome.CardSchema, Command: f.rerunCommand(), Version: version()}
	for _, lock := range locks {
		c, err := s.Card(ctx, lock)
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return selectionError(err)
		}
		a.code = outcome.WorseCode(a.code, c.Code())
		all.Cards = append(all.Cards, c)
		if len(locks) > 1 {
			fmt.Fprintf(a.errOut, "%s done: %d of %d locks\n", c.Lock, len(all.Cards), len(locks))
		}
	}
	if ctx.Err() != nil {
		advice := "their scorecards are stored; to start again: "
		if len(all.Cards) == 0 {
			advice = "no scorecard is stored; to start again: "
		}
		fmt.Fprintf(a.errOut, "interrupted after %d of %d locks; %s%s\n", len(all.Cards), len(locks), advice, all.Command)
		if len(all.Cards) == 0 {
			return ctx.Err()
		}
		a.code = outcome.ExitInterrupt
	}
	all.Code = a.code
	dir, err := s.Write(&all, f.store)
	if err != nil {
		return storeError(err)
	}
	err = f.print(&all, a.out)
	fmt.Fprintf(a.errOut, "report: %s/%s\n", dir, suites.CardPage)
	return cmp.Or(err, ctx.Err())
}

// print prints the scorecards in the chosen format.
func (f *scorecardFlags) print(all *suites.Scorecards, out io.Writer) error {
	switch {
	case f.json:
		return all.JSON(out)
	case f.markdown:
		return all.Markdown(out)
	}
	all.Print(out)
	return nil
}

// checkSelections checks the settings for each lock before anything runs, and prepares the backends.
func checkSelections(ctx context.Context, s *campaign.Scorer, locks []string, progress io.Writer) error {
	for _, lock := range locks {
		for _, r := range []*campaign.Runner{s.Primary, s.Secondary} {
			if r == nil {
				continue
			}
			selection := s.Selection(lock, r)
			c, err := selection.Choose(s.Known)
			if err != nil {
				return selectionError(err)
			}
			c.Restrict(r.Capabilities, s.Known.Kinds)
			if err := checkSize(r.Backend, c.Picks); err != nil {
				return err
			}
			if err := prepare(ctx, r.Backend, scenariosOf(c.Picks), progress); err != nil {
				return err
			}
			if r == s.Primary && s.Base.Nodes > 0 && selection.Nodes == 0 {
				fmt.Fprintf(progress, "%s: --nodes %d has no effect: this lock uses one node\n", lock, s.Base.Nodes)
			}
		}
	}
	return nil
}

// runner returns a runner for the named backend, or an error if that backend can't run here. jobs
// limits the number of concurrent runs in real time.
func (a *app) runner(ctx context.Context, name, store string, jobs int, adapter ...string) (*campaign.Runner, error) {
	b, err := backend(name, docker.Config{}, adapter...)
	if err != nil {
		return nil, err
	}
	capabilities, err := a.checkBackend(ctx, b, store)
	return &campaign.Runner{Backend: b, Capabilities: capabilities, Workers: newWorkerPool(defaultTimeout, store), Parallel: jobs, Version: version(), Command: pickCommand}, err
}
