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

type runFlags struct {
	backend              string
	clientBinary         string
	seed                 uint64
	seeds                int
	store                string
	tags                 []string
	lock                 string // kind, with options, that replaces each scenario's own lock; "" means none
	adapter              string // command that starts the lock's adapter, as the user wrote it
	adapterImage         string // image that contains the adapter, for containers
	nodes                int    // for scenarios with several nodes; 0: their own number
	settings             []string
	expectations         []string
	defaultExpectations  []string // see campaign.Selection.DefaultExpects
	requiredCapabilities []string
	scale                float64
	timeout              time.Duration
	jobs                 int
	json                 bool
	junitFile            string
	dryRun               bool
	confirm              bool
	reportMode           string
	maxStoredRuns        int  // number of runs of each scenario to keep in the store; 0 means all
	named                bool // scenarios were named, so their diagrams are printed
	verbose              bool
	quiet                bool
	failFast             bool
	shard                string // part of the runs to make, as in 3/8; "" means all
}

func runCmd(a *app) *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use:   "run [NAME…|FILE…]",
		Short: "run scenarios and check the results (all scenarios if none is named)",
		Long: `Run scenarios, check the results, and report whether they are as expected.

NAME selects a scenario with all its variants, NAME/VARIANT one variant, and NAME/
the scenario without variants; globs work. Without names, all scenarios run. For named
scenarios and unexpected results, the counterexample is drawn in the terminal. FILE,
FILE/VARIANT and FILE/ select from a scenario file.`,
		Example: `  lockpick run                                          everything, in the simulation
  lockpick run gc-pause-after-acquire/fenced            one variant
  lockpick run 'restart-*' --backend process            on real redis-servers
  lockpick run baseline/ --seeds 1000                   many seeds
  lockpick run baseline/ --set lock.ttl=5s --expect mutual-exclusion=holds
  lockpick run mine.yaml --json`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.requireServers(c, a.errOut); err != nil {
				return err
			}
			return a.run(c.Context(), f, args)
		},
	}
	fs := c.Flags()
	fs.StringVarP(&f.backend, "backend", "b", backendNames[0], "where to run: "+strings.Join(backendNames, ", "))
	fs.Uint64Var(&f.seed, "seed", 1, "random seed")
	fs.IntVar(&f.seeds, "seeds", 1, "number of seeds, starting with --seed; if more than one, only unexpected runs are stored")
	addStoreFlag(c, &f.store, "the runs")
	fs.StringSliceVar(&f.tags, "tag", nil, "only scenarios with this tag")
	fs.StringVar(&f.lock, "lock", "", "test this kind of lock, as in redsync or KIND:OPTION=VALUE. Each scenario's tier says what\nthe lock must guarantee; see lockpick help locks")
	fs.StringVar(&f.adapter, "adapter", "", "test the lock of this adapter, as in \"node adapter.js\"; implies --backend process\nunless another backend is given; see lockpick help adapter")
	fs.StringVar(&f.adapterImage, "adapter-image", "", "image that contains the adapter, for clients in containers (--backend docker)")
	addNodesFlag(c, &f.nodes)
	fs.StringArrayVar(&f.settings, "set", nil, "override a setting, as in lock.ttl=5s. The scenario's expectations no longer apply. With\n--lock, the tier's requirements still apply if the scenario's own lock meets them under\nthe same settings")
	fs.StringArrayVar(&f.expectations, "expect", nil, "set an expectation, as in mutual-exclusion=holds; use it to restore one after --set")
	fs.StringSliceVar(&f.requiredCapabilities, "require", nil, "capabilities, or all: if one is missing, fail (exit code 3) instead of skipping scenarios")
	fs.Float64Var(&f.scale, "scale", 0, "factor for all durations on real backends (default 0.1, or the scenario's own)")
	fs.DurationVar(&f.timeout, "timeout", defaultTimeout, "time limit of one simulated run, in wall-clock time")
	fs.StringVar(&f.clientBinary, "client-binary", "", "lockpick binary for clients in containers, if this one can't run there: static, for Linux")
	fs.IntVar(&f.jobs, "jobs", 1, "number of concurrent runs on real backends; runs are mostly idle, but too many delay each other")
	fs.StringVar(&f.reportMode, "reports", reportsNamed, "reports to write immediately: named (for named and unexpected runs), all or none;\nreport and serve write the others later")
	addOutcomeFlags(c, f)
	fs.BoolVar(&f.confirm, "confirm", false, "rerun each violation of mutual exclusion without the fault that caused it; if the violation\ndisappears, the cause is confirmed (sim; by default only unexpected violations are rerun)")
	fs.BoolVar(&f.dryRun, "dry-run", false, "run nothing; print the scenarios with defaults, variants and --set applied, and the random\nplan for each seed")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "print a line for every run, not only for unexpected ones")
	fs.BoolVar(&f.failFast, "fail-fast", false, "stop after the first unexpected or failed run")
	fs.StringVar(&f.shard, "shard", "", "run only the K-th of N parts of the sweep, as in 3/8, and record the outcomes for\n\"lockpick merge\"; see lockpick help shards")
	return c
}

func addStoreFlag(c *cobra.Command, target *string, contents string) {
	c.Flags().StringVar(target, "store", defaultStore(), "folder for "+contents+" (LOCKPICK_STORE)")
}

func addJSONFlag(c *cobra.Command, target *bool, contents string) {
	c.Flags().BoolVar(target, "json", false, "print "+contents+" as JSON")
}

// addOutcomeFlags adds the flags for output, which run and merge share.
func addOutcomeFlags(c *cobra.Command, f *runFlags) {
	addJSONFlag(c, &f.json, "the outcomes")
	c.Flags().StringVar(&f.junitFile, "junit", "", "write the outcomes to this file as JUnit XML")
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
	if f.maxStoredRuns, err = keepFromEnv(); err != nil {
		return err
	}
	selection := f.selection(args...)
	program, err := selectAdapter(ctx, &selection, f.adapterImage)
	if err != nil {
		return err
	}
	nodes := f.nodes
	c, err := f.resolve(&selection)
	if err != nil {
		return err
	}
	b, err := backend(f.backend, docker.Config{ClientBinary: f.clientBinary, AdapterImage: f.adapterImage}, program...)
	if err != nil {
		return err
	}
	if c, ok := b.(io.Closer); ok {
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	if f.dryRun {
		return printJSON(a.out, f.drawnScenarios(c.Picks))
	}
	capabilities, err := a.checkBackend(ctx, b, f.store, f.requiredCapabilities...)
	if err != nil {
		return err
	}
	allPicks := c.Picks
	c.Restrict(capabilities, kinds.All)
	if err := checkSize(b, c.Picks); err != nil {
		return err
	}
	ci, err := newCI(f.junitFile)
	if err != nil {
		return err
	}
	if m, ok := b.(remarker); ok {
		fmt.Fprintf(a.errOut, "%s: %s\n", b.Name(), m.Remark(ctx))
	}
	warnIfNodesUnused(a.errOut, nodes, f.nodes)
	if len(c.ExcludedFaults) > 0 {
		fmt.Fprintf(a.errOut, "%s: random plans omit %s, because this lock uses the system clock, which can't be changed here\n", f.backend, strings.Join(c.ExcludedFaults, ", "))
	}
	f.named = len(args) > 0
	r := newReport(a, f, ci, allPicks, args)
	for _, x := range c.Skipped {
		r.addSkipped(x.Scenario, x.Missing)
	}
	if err := prepare(ctx, b, scenariosOf(c.Picks), a.errOut); err != nil {
		return err
	}
	if f.shard != "" {
		return r.runShard(ctx, b, c.Picks)
	}
	r.runAll(ctx, b, c.Picks)
	return cmp.Or(r.finish(ctx), ctx.Err())
}

// checkBackend returns the backend's capabilities on this machine. It returns an error if the
// backend can't run, require names an unknown capability, or the store can't be written.
func (a *app) checkBackend(ctx context.Context, b harness.Backend, store string, require ...string) (campaign.Capabilities, error) {
	a.waitForCleanup() // probing creates processes and containers, as a run does
	capabilities := campaign.Probe(ctx, b)
	if c := capabilities.Capability(harness.RunCapability); !c.Available {
		return nil, backendError(fmt.Errorf("backend %s can't run here: %s", b.Name(), c.Reason), c.Remedy)
	}
	names := append(slices.Sorted(maps.Keys(capabilities)), "all")
	for _, want := range require {
		if !slices.Contains(names, want) {
			return nil, usageError(fmt.Errorf("unknown capability %q in --require", want), "one of "+strings.Join(names, ", "))
		}
	}
	if err := cmp.Or(campaign.CanWrite(store), suites.Sweep(store)); err != nil {
		return nil, storeError(err)
	}
	return capabilities, nil
}

func addNodesFlag(c *cobra.Command, nodes *int) {
	c.Flags().IntVar(nodes, "nodes", 0, "number of nodes for scenarios that have several (default: their own); skips those that\nmake no sense with it")
}

// warnIfNodesUnused says so if a lock on one node ignores the number of nodes that the user chose.
func warnIfNodesUnused(w io.Writer, chosen, used int) {
	if chosen != used {
		fmt.Fprintf(w, "--nodes %d has no effect: this lock uses one node\n", chosen)
	}
}

// checkSize returns an error if a scenario has more clients or nodes than the backend supports.
func checkSize(b harness.Backend, picks []pick) error {
	sizeLimiter, ok := b.(interface{ Fits(scenario.Scenario) error })
	for _, p := range picks {
		if !ok {
			break
		}
		if err := sizeLimiter.Fits(p.Scenario); err != nil {
			return usageError(fmt.Errorf("run %s on %s: %w", p.ID(), b.Name(), err), "use fewer clients or nodes")
		}
	}
	return nil
}

// storeError adds a hint to an error that occurred while writing to the store. A bad --store is a
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

// maxSweepSeeds is the maximum number of seeds, which keep a large machine busy for about a day.
const maxSweepSeeds = campaign.MaxSeeds

// maxJobs is the maximum number of concurrent runs.
const maxJobs = 64

// Values of --reports.
const (
	reportsNamed = "named"
	reportsAll   = "all"
	reportsNone  = "none"
)

var reportChoices = []string{reportsNamed, reportsAll, reportsNone}

func (f *runFlags) validate() error {
	hint := "see lockpick run --help"
	switch {
	case f.seeds < 1 || f.seeds > maxSweepSeeds:
		return usageError(fmt.Errorf("--seeds %d is out of range", f.seeds), fmt.Sprintf("use a number from 1 to %d", maxSweepSeeds))
	case f.seed+uint64(f.seeds-1) < f.seed:
		return usageError(fmt.Errorf("--seeds %d starting with --seed %d exceeds the largest possible seed", f.seeds, f.seed), "use a smaller --seed")
	case f.timeout <= 0:
		return usageError(fmt.Errorf("--timeout %v is not positive", f.timeout), hint)
	case !slices.Contains(reportChoices, f.reportMode):
		return usageError(fmt.Errorf("invalid --reports %q", f.reportMode), "use one of "+strings.Join(reportChoices, ", "))
	case f.store == "":
		return emptyStoreError()
	case f.jobs < 1 || f.jobs > maxJobs:
		return usageError(fmt.Errorf("--jobs %d is out of range", f.jobs), fmt.Sprintf("use a number from 1 to %d", maxJobs))
	case f.jobs > 1 && f.backend == simulation:
		return usageError(errors.New("--jobs applies to real backends only"), "leave it out: the simulation uses all processors")
	case (f.adapterImage != "") != (f.adapter != "" && f.backend == containers):
		return usageError(errors.New("--adapter needs --adapter-image in containers, and not elsewhere"), `as in --backend docker --adapter-image IMAGE --adapter "node /adapter.js"`)
	case f.clientBinary != "" && f.backend != containers:
		return usageError(errors.New("--client-binary applies to clients in containers only"), "leave it out, or add --backend "+containers)
	case f.confirm && f.backend != simulation:
		return usageError(errors.New("--confirm works in the simulation only"), "leave it out, or leave out --backend")
	case f.timeout != defaultTimeout && f.backend != simulation:
		return usageError(errors.New("--timeout limits simulated runs only"), "leave it out: runs on real servers have their own limits")
	case f.dryRun && (f.junitFile != "" || f.shard != ""):
		return usageError(errors.New("--dry-run runs nothing, so --junit and --shard have nothing to record"), "leave out --dry-run")
	case f.shard != "" && (f.json || f.junitFile != "" || f.failFast):
		return usageError(errors.New("--shard records outcomes without printing them"), "leave out --json, --junit and --fail-fast; lockpick merge has --json and --junit")
	}
	return cmp.Or(checkScale(f.scale, f.backend), f.checkVerbosity())
}

// checkScale validates --scale for the chosen backends.
func checkScale(scale float64, backends ...string) error {
	switch {
	case !(scale >= 0 && scale <= 1000): // NaN fails both comparisons
		return usageError(fmt.Errorf("--scale %g is out of range", scale), "use a factor up to 1000, as in --scale 0.5")
	case scale > 0 && !slices.ContainsFunc(backends, func(name string) bool { return name != simulation && name != "" }):
		return usageError(errors.New("--scale applies to real backends only"), "leave it out, or choose one with --backend")
	}
	return nil
}

// checkVerbosity rejects contradictory flags about the amount of output.
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

// drawnScenarios lists the scenarios with the plans that they have with each seed. A scenario
// without a random plan appears once.
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

// job returns the job that runs a scenario with the n-th seed.
func (f *runFlags) job(p pick, n int) campaign.Job {
	s := f.selection()
	j := s.Job(p, f.seed+uint64(n))
	j.Store, j.Version, j.Confirm, j.Command = f.store, version(), f.confirm, f.rerunCommand(p, j.Seed)
	if f.seeds > 1 {
		j.Keep = campaign.KeepUnexpected
	}
	switch {
	case f.reportMode == reportsNone:
		j.Reports = campaign.KeepNone
	case f.reportMode == reportsNamed && !f.named:
		j.Reports = campaign.KeepUnexpected
	}
	return j
}

// runAll runs each scenario with each seed.
func (r *report) runAll(ctx context.Context, b harness.Backend, picks []pick) {
	job := func(i int) campaign.Job { return r.flags.job(picks[i/r.flags.seeds], i%r.flags.seeds) }
	r.numRuns = len(picks) * r.flags.seeds
	r.comparer = campaign.VariantComparer{Scenarios: picks, Seeds: r.flags.seeds}
	r.progress = &display.Progress{W: r.errOut, Mu: &r.mu, StartTime: r.startTime, Text: r.progressText}
	defer r.progress.Start()()
	startCtx, stopStarting := context.WithCancel(ctx)
	defer stopStarting()
	if r.flags.failFast {
		r.onFailure = stopStarting
	}
	r.flags.runJobs(ctx, startCtx, b, r.numRuns, job, r.addOutcome)
	r.rerunExamples(startCtx, picks)
}

// runJobs runs n jobs, up to --jobs of them concurrently on a real backend. It starts none after
// startCtx has ended.
func (f *runFlags) runJobs(ctx, startCtx context.Context, b harness.Backend, n int, job func(int) campaign.Job, done func(int, outcome.Outcome)) {
	r := &campaign.Runner{Backend: b, Workers: newWorkerPool(f.timeout, f.store), Parallel: f.jobs}
	r.Each(ctx, startCtx, n, job, done)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
