package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lockpick/docker"
	"lockpick/harness"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// runFlags are the flags of run.
type runFlags struct {
	backend    string
	client     string
	seed       uint64
	seeds      int
	store      string
	tags       []string
	lock       string // a kind that replaces each scenario's own lock, with its options; "": none
	adapter    string // the command that starts the lock's adapter, as the user wrote it
	image      string // the image that contains the adapter, for containers
	nodes      int    // for scenarios with several nodes; 0: their own number
	sets       []string
	expects    []string
	demands    []string // see campaign.Selection
	require    []string
	scale      float64
	patience   time.Duration
	jobs       int
	json       bool
	junit      string
	dryRun     bool
	confirm    bool
	reports    string
	keepNewest int  // newest runs of a scenario that stay in the store; 0: all
	named      bool // scenarios were named: their diagrams are printed
	verbose    bool
	quiet      bool
	failFast   bool
	shard      string // the part of the runs to make, as in 3/8; "": all
}

func runCmd(a *app) *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use:   "run [NAME…|FILE…]",
		Short: "run scenarios and check the results (all scenarios if none is named)",
		Long: `Run scenarios, check what happened, and report whether it was as expected.

NAME selects a scenario with all its variants, NAME/VARIANT one variant, and NAME/
the scenario without variants; globs work. Without names, all scenarios run. The
counterexample of a named run is drawn in the terminal; that of an unexpected result
always is. FILE, FILE/VARIANT and FILE/ select from a scenario file.`,
		Example: `  lockpick run                                          everything, in the simulation
  lockpick run gc-pause-after-acquire/fenced            one variant
  lockpick run 'restart-*' --backend process            on real redis-servers
  lockpick run baseline/ --seeds 1000                   many seeds
  lockpick run baseline/ --set lock.ttl=5s --expect mutual-exclusion=holds
  lockpick run mine.yaml --json`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.requireServers(c, a.errs); err != nil {
				return err
			}
			return a.run(c.Context(), f, args)
		},
	}
	fs := c.Flags()
	fs.StringVarP(&f.backend, "backend", "b", backendNames[0], "where to run: "+strings.Join(backendNames, ", "))
	fs.Uint64Var(&f.seed, "seed", 1, "random seed")
	fs.IntVar(&f.seeds, "seeds", 1, "number of seeds, starting with --seed; with more than one, only unexpected runs are stored")
	storeFlag(c, &f.store, "the runs")
	fs.StringSliceVar(&f.tags, "tag", nil, "only scenarios with this tag")
	fs.StringVar(&f.lock, "lock", "", "test this kind of lock, as in redsync or KIND:OPTION=VALUE. Each scenario's tier says what\nit must guarantee; see lockpick help locks")
	fs.StringVar(&f.adapter, "adapter", "", "test the lock of this adapter, as in \"node adapter.js\"; implies --backend process\nunless another backend is given; see lockpick help adapter")
	fs.StringVar(&f.image, "adapter-image", "", "image that contains the adapter, for clients in containers (--backend docker)")
	fs.IntVar(&f.nodes, "nodes", 0, "number of nodes for scenarios that have several (default: their own). Scenarios that make\nno sense for it are skipped; single-node scenarios and locks are unaffected")
	fs.StringArrayVar(&f.sets, "set", nil, "override a setting, as in lock.ttl=5s. Expectations of the scenario no longer apply. With\n--lock, the requirements of its tier still do, if the scenario's own lock meets them\nunder the same settings")
	fs.StringArrayVar(&f.expects, "expect", nil, "set an expectation, as in mutual-exclusion=holds; use it to restore one after --set")
	fs.StringSliceVar(&f.require, "require", nil, "capabilities, or all: if one is missing, fail (exit 3) instead of skipping scenarios")
	fs.Float64Var(&f.scale, "scale", 0, "factor for all durations on real backends (default 0.1, or the scenario's own)")
	fs.DurationVar(&f.patience, "timeout", defaultTimeout, "time limit of one simulated run, in wall-clock time")
	fs.StringVar(&f.client, "client-binary", "", "lockpick binary for clients in containers, if this one can't run there: static, for Linux")
	fs.IntVar(&f.jobs, "jobs", 1, "number of concurrent runs on real backends; mostly idle, but overload causes delays")
	fs.StringVar(&f.reports, "reports", reportsNamed, "reports to write right away: named (runs that were named or unexpected), all or none;\nreport and serve draw the others later")
	outcomeFlags(c, f)
	fs.BoolVar(&f.confirm, "confirm", false, "rerun each violation of mutual exclusion with its cause removed (sim; without this flag\nonly unexpected violations are rerun)")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print the resolved scenarios with the plans that the seeds draw, and run nothing")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "print a line for every run, not only for unexpected ones")
	fs.BoolVar(&f.failFast, "fail-fast", false, "stop after the first run that is unexpected or fails")
	fs.StringVar(&f.shard, "shard", "", "run only the K-th of N parts of the sweep, as in 3/8, and record the outcomes for\n\"lockpick merge\"; see lockpick help shards")
	return c
}

func storeFlag(c *cobra.Command, to *string, keeps string) {
	c.Flags().StringVar(to, "store", defaultStore(), "folder for "+keeps+" (LOCKPICK_STORE)")
}

func jsonFlag(c *cobra.Command, to *bool, what string) {
	c.Flags().BoolVar(to, "json", false, "print "+what+" as JSON")
}

// outcomeFlags adds the flags of run and merge, which print the same output.
func outcomeFlags(c *cobra.Command, f *runFlags) {
	jsonFlag(c, &f.json, "the outcomes")
	c.Flags().StringVar(&f.junit, "junit", "", "write the outcomes to this file as JUnit XML")
	c.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print only unexpected results and the summary")
}

func defaultStore() string {
	if s := os.Getenv("LOCKPICK_STORE"); s != "" {
		return s
	}
	return "store"
}

func (a *app) run(ctx context.Context, f *runFlags, args []string) (err error) {
	if err := f.validate(); err != nil {
		return err
	}
	if f.keepNewest, err = keepFromEnv(); err != nil {
		return err
	}
	selection := f.selection(args...)
	program, err := selectAdapter(ctx, &selection, f.image)
	if err != nil {
		return err
	}
	c, err := f.resolve(&selection)
	if err != nil {
		return err
	}
	b, err := backend(f.backend, docker.Config{ClientBinary: f.client, AdapterImage: f.image}, program...)
	if err != nil {
		return err
	}
	if c, ok := b.(io.Closer); ok { // it keeps state between runs
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	if f.dryRun {
		return printJSON(a.out, f.drawnScenarios(c.Picks))
	}
	abilities, err := a.checkBackend(ctx, b, f.store, f.require...)
	if err != nil {
		return err
	}
	chosen := c.Picks
	c.Restrict(abilities, kinds.All)
	if err := checkSize(b, c.Picks); err != nil {
		return err
	}
	ci, err := newCI(f.junit)
	if err != nil {
		return err
	}
	if m, ok := b.(remarker); ok {
		fmt.Fprintf(a.errs, "%s: %s\n", b.Name(), m.Remark(ctx))
	}
	if len(c.ExcludedFaults) > 0 {
		fmt.Fprintf(a.errs, "%s: random plans omit %s: this lock uses the system clock, which can't be changed here\n", f.backend, strings.Join(c.ExcludedFaults, ", "))
	}
	f.named = len(args) > 0
	r := newReport(a, f, ci, chosen, args)
	for _, x := range c.Skipped {
		r.skip(x.Scenario, x.Missing)
	}
	if err := prepare(ctx, b, scenariosOf(c.Picks), a.errs); err != nil {
		return err
	}
	if f.shard != "" {
		return r.record(ctx, b, c.Picks)
	}
	r.runAll(ctx, b, c.Picks)
	return cmp.Or(r.finish(ctx), ctx.Err())
}

// checkBackend returns the capabilities of a backend on this machine. It is an error if the backend
// can't run or the store can't be written.
func (a *app) checkBackend(ctx context.Context, b harness.Backend, store string, require ...string) (campaign.Capabilities, error) {
	a.waitForCleanup() // a probe creates what a run creates
	abilities := campaign.Probe(ctx, b)
	if c := abilities.Capability(harness.CanRun); !c.Available {
		return nil, backendError(fmt.Errorf("backend %s can't run here: %s", b.Name(), c.Reason), c.Remedy)
	}
	names := append(slices.Sorted(maps.Keys(abilities)), "all")
	for _, want := range require {
		if !slices.Contains(names, want) {
			return nil, usageError(fmt.Errorf("unknown capability in --require %q", want), "one of "+strings.Join(names, ", "))
		}
	}
	if err := cmp.Or(campaign.CanWrite(store), suites.Sweep(store)); err != nil {
		return nil, storeError(err)
	}
	return abilities, nil
}

// checkSize rejects scenarios that are too large for a backend on any machine.
func checkSize(b harness.Backend, chosen []pick) error {
	bounded, ok := b.(interface{ Fits(scenario.Scenario) error })
	for _, p := range chosen {
		if !ok {
			break
		}
		if err := bounded.Fits(p.Scenario); err != nil {
			return usageError(fmt.Errorf("run %s on %s: %w", p.ID(), b.Name(), err), "use fewer clients or nodes")
		}
	}
	return nil
}

// storeError adds a hint to an error that occurred while writing the store. A wrong --store is a
// usage error; a full disk is not.
func storeError(err error) error {
	hint := files.Remedy(err, files.StoreHint)
	if hint == "" || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EROFS) {
		return usageError(err, "choose another folder with --store")
	}
	return backendError(err, hint)
}

func emptyStoreError() error {
	return usageError(errors.New("--store is empty"), "name a folder, or leave it out for "+defaultStore())
}

// maxSweepSeeds limits the seeds of a sweep to about a day of work for a large machine.
const maxSweepSeeds = campaign.MaxSeeds

// maxJobs limits the number of concurrent runs.
const maxJobs = 64

// Values of --reports: which runs get their reports right away.
const (
	reportsNamed = "named"
	reportsAll   = "all"
	reportsNone  = "none"
)

var reportChoices = []string{reportsNamed, reportsAll, reportsNone}

// validate checks what the flags' types don't enforce.
func (f *runFlags) validate() error {
	see := "see lockpick run --help"
	switch {
	case f.seeds < 1 || f.seeds > maxSweepSeeds:
		return usageError(fmt.Errorf("--seeds %d is out of range", f.seeds), fmt.Sprintf("use a number from 1 to %d", maxSweepSeeds))
	case f.seed+uint64(f.seeds-1) < f.seed:
		return usageError(fmt.Errorf("--seeds %d starting with --seed %d exceeds the largest seed", f.seeds, f.seed), "use a smaller --seed")
	case f.patience <= 0:
		return usageError(fmt.Errorf("--timeout %v is not positive", f.patience), see)
	case !slices.Contains(reportChoices, f.reports):
		return usageError(fmt.Errorf("invalid --reports %q", f.reports), "use one of "+strings.Join(reportChoices, ", "))
	case f.store == "":
		return emptyStoreError()
	case !(f.scale >= 0 && f.scale <= 1000): // NaN fails both comparisons
		return usageError(fmt.Errorf("--scale %g is out of range", f.scale), "use a factor up to 1000, as in --scale 0.5")
	case f.jobs < 1 || f.jobs > maxJobs:
		return usageError(fmt.Errorf("--jobs %d is out of range", f.jobs), fmt.Sprintf("use a number from 1 to %d", maxJobs))
	case f.jobs > 1 && f.backend == simulation:
		return usageError(errors.New("--jobs applies to real backends only"), "leave it out: the simulation uses all processors")
	case f.scale > 0 && f.backend == simulation:
		return usageError(errors.New("--scale applies to real backends only"), "leave it out, or choose one with --backend")
	case (f.image != "") != (f.adapter != "" && f.backend == containers):
		return usageError(errors.New("--adapter needs --adapter-image in containers, and only there"), `as in --backend docker --adapter-image IMAGE --adapter "node /adapter.js"`)
	case f.client != "" && f.backend != containers:
		return usageError(errors.New("--client-binary applies to clients in containers only"), "leave it out, or add --backend "+containers)
	case f.confirm && f.backend != simulation:
		return usageError(errors.New("--confirm works in the simulation only"), "leave it out, or leave out --backend")
	case f.patience != defaultTimeout && f.backend != simulation:
		return usageError(errors.New("--timeout limits simulated runs only"), "leave it out: runs on real servers have their own limits")
	case f.dryRun && (f.junit != "" || f.shard != ""):
		return usageError(errors.New("--dry-run runs nothing, so --junit and --shard have nothing to record"), "leave out --dry-run")
	case f.shard != "" && (f.json || f.junit != "" || f.failFast):
		return usageError(errors.New("--shard records outcomes and does not show them"), "leave out --json, --junit and --fail-fast; lockpick merge has --json and --junit")
	}
	return f.checkVerbosity()
}

// checkVerbosity rejects flags that contradict each other about the amount of output.
func (f *runFlags) checkVerbosity() error {
	switch {
	case f.verbose && f.quiet:
		return usageError(errors.New("--verbose and --quiet contradict each other"), "leave one of them out")
	case f.json && (f.verbose || f.quiet):
		return usageError(errors.New("--json prints every run, so --verbose and --quiet have no effect"), "leave them out")
	}
	return nil
}

func scenariosOf(ps []pick) []scenario.Scenario {
	var out []scenario.Scenario
	for _, p := range ps {
		out = append(out, p.Scenario)
	}
	return out
}

// drawnScenarios lists the scenarios as each seed runs them. Seeds differ only in random plans.
func (f *runFlags) drawnScenarios(ps []pick) []scenario.Scenario {
	var out []scenario.Scenario
	for _, s := range scenariosOf(ps) {
		seeds := f.seeds
		if s.Random == nil {
			seeds = 1
		}
		for n := range seeds {
			out = append(out, s.WithRandomPlan(f.seed+uint64(n)))
		}
	}
	return out
}

// job returns the job of a scenario with its n-th seed.
func (f *runFlags) job(p pick, n int) campaign.Job {
	s := f.selection()
	j := s.Job(p, f.seed+uint64(n))
	j.Store, j.Version, j.Confirm, j.Command = f.store, version(), f.confirm, f.rerunCommand(p, j.Seed)
	if f.seeds > 1 {
		j.Keep = campaign.KeepUnexpected
	}
	switch {
	case f.reports == reportsNone:
		j.Reports = campaign.KeepNone
	case f.reports == reportsNamed && !f.named:
		j.Reports = campaign.KeepUnexpected
	}
	return j
}

// runAll runs all scenarios with all seeds.
func (r *report) runAll(ctx context.Context, b harness.Backend, chosen []pick) {
	job := func(i int) campaign.Job { return r.flags.job(chosen[i/r.flags.seeds], i%r.flags.seeds) }
	r.total = len(chosen) * r.flags.seeds
	r.compared = campaign.VariantComparer{Scenarios: chosen, Seeds: r.flags.seeds}
	r.live = &display.Progress{W: r.errs, Mu: &r.mu, Started: r.started, Text: r.progress}
	defer r.live.Start()()
	more, enough := context.WithCancel(ctx)
	defer enough()
	if r.flags.failFast {
		r.onFailure = enough
	}
	r.flags.each(ctx, more, b, r.total, job, r.done)
	r.rerunExamples(more, chosen)
}

// each runs n jobs, up to --jobs of them concurrently on a real backend. No job starts after the
// context more has ended.
func (f *runFlags) each(ctx, more context.Context, b harness.Backend, n int, job func(int) campaign.Job, done func(int, outcome.Outcome)) {
	r := &campaign.Runner{Backend: b, Workers: workers(f.patience, f.store), Parallel: f.jobs}
	r.Each(ctx, more, n, job, done)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
