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
	backend  string
	client   string
	seed     uint64
	seeds    int
	store    string
	tags     []string
	lock     string // a kind that stands in for each scenario's own, with its options; "": none
	adapter  string // the program that has that lock, as a user wrote it
	image    string // in which it is, for containers
	sets     []string
	expects  []string
	demands  []string // see campaign.Selection
	require  []string
	scale    float64
	patience time.Duration
	jobs     int
	json     bool
	junit    string
	dryRun   bool
	confirm  bool
	reports  string
	most     int  // runs of a scenario that stay in the store; 0 is all
	named    bool // scenarios were named: what they show is drawn
	verbose  bool
	quiet    bool
	failFast bool
	shard    string // which part of the runs, as in 3/8; "": all
}

func runCmd(a *app) *cobra.Command {
	f := &runFlags{}
	c := &cobra.Command{
		Use:   "run [NAME…|FILE…]",
		Short: "run scenarios and judge what happened (all of them if none is named)",
		Long: `Run scenarios, judge what happened, and say whether it came out as expected.

NAME is a scenario with all its variants, NAME/VARIANT one of them, NAME/ the
base alone; globs work. Nothing named is everything. What a named run shows is
drawn; a run that came out otherwise than expected always is. A FILE is taken as
it is; FILE/VARIANT and FILE/ work likewise.`,
		Example: `  lockpick run                                          all, in the simulation
  lockpick run gc-pause-after-acquire/fenced            one variant
  lockpick run 'restart-*' --backend process            on real redis-servers
  lockpick run baseline/ --seeds 1000                   many seeds
  lockpick run baseline/ --set lock.ttl=5s --expect mutual-exclusion=holds
  lockpick run mine.yaml --json`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.onServers(c, a.errs); err != nil {
				return err
			}
			return a.run(c.Context(), f, args)
		},
	}
	fs := c.Flags()
	fs.StringVarP(&f.backend, "backend", "b", backendNames[0], "where to run: "+strings.Join(backendNames, ", "))
	fs.Uint64Var(&f.seed, "seed", 1, "what all that is random is drawn from")
	fs.IntVar(&f.seeds, "seeds", 1, "run with this many seeds, from --seed on; keeps runs that were not as expected")
	storeFlag(c, &f.store, "the runs")
	fs.StringSliceVar(&f.tags, "tag", nil, "only scenarios with this tag")
	fs.StringVar(&f.lock, "lock", "", "put a lock of this kind under the scenarios, as in redsync or KIND:OPTION=VALUE, and hold it\nto what their tiers say; see lockpick help locks")
	fs.StringVar(&f.adapter, "adapter", "", "put the lock of this program under the scenarios, as in \"node adapter.js\", on\n--backend process unless another is named; see lockpick help adapter")
	fs.StringVar(&f.image, "adapter-image", "", "an image that has the adapter, for clients in containers (--backend docker)")
	fs.StringArrayVar(&f.sets, "set", nil, "override, as in lock.ttl=5s. Scenario expectations no longer apply; with --lock, what its\ntier requires still does, if the scenario's own lock keeps it under the same settings")
	fs.StringArrayVar(&f.expects, "expect", nil, "expect, as in mutual-exclusion=holds; restores one after --set")
	fs.StringSliceVar(&f.require, "require", nil, "capabilities that must be there, or all: a skip that lacks one is an error (3)")
	fs.Float64Var(&f.scale, "scale", 0, "factor of all durations on real backends (default 0.1, or what the scenario pins)")
	fs.DurationVar(&f.patience, "timeout", patience, "wall clock that one simulated run may take")
	fs.StringVar(&f.client, "client-binary", "", "a lockpick that clients in containers run, if this one can't: static, for Linux")
	fs.IntVar(&f.jobs, "jobs", 1, "runs at once on real backends: they mostly wait, but a busy machine is late")
	fs.StringVar(&f.reports, "reports", reportsNamed, "whose reports are drawn at once: named (of runs whose scenario is named, or that were\nnot as expected), all, or none; report and serve draw the others")
	outcomeFlags(c, f)
	fs.BoolVar(&f.confirm, "confirm", false, "run each violation of mutual exclusion again with the facts undone that are its cause\n(sim; without it only those that nobody expected)")
	fs.BoolVar(&f.dryRun, "dry-run", false, "print what would be run, resolved and with the plans that the seeds draw,\nand run nothing")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "a line for each run, not only for what was not as expected")
	fs.BoolVar(&f.failFast, "fail-fast", false, "begin no more runs once one came otherwise than expected, or failed")
	fs.StringVar(&f.shard, "shard", "", "only the K-th of N parts of the runs, as in 3/8, recorded in the store for\n\"lockpick merge\"; see lockpick help shards")
	return c
}

func storeFlag(c *cobra.Command, to *string, keeps string) {
	c.Flags().StringVar(to, "store", defaultStore(), "folder that keeps "+keeps+" (LOCKPICK_STORE)")
}

func jsonFlag(c *cobra.Command, to *bool, what string) {
	c.Flags().BoolVar(to, "json", false, "print "+what+" as JSON")
}

// outcomeFlags are those of run and merge, which print the same.
func outcomeFlags(c *cobra.Command, f *runFlags) {
	jsonFlag(c, &f.json, "the outcomes")
	c.Flags().StringVar(&f.junit, "junit", "", "write the outcomes to this file as JUnit XML")
	c.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "only what was not as expected, and the sum")
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
	if f.most, err = keeps(); err != nil {
		return err
	}
	selection := f.selection(args...)
	program, err := adapt(ctx, &selection, f.image)
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
	if c, ok := b.(io.Closer); ok { // it keeps something between runs
		defer func() { err = errors.Join(err, c.Close()) }()
	}
	if f.dryRun {
		return printJSON(a.out, f.drawn(c.Picks))
	}
	able, err := a.enter(ctx, b, f.store, f.require...)
	if err != nil {
		return err
	}
	chosen := c.Picks
	c.Restrict(able, kinds.All)
	if err := fit(b, c.Picks); err != nil {
		return err
	}
	ci, err := newCI(f.junit)
	if err != nil {
		return err
	}
	if m, ok := b.(remarker); ok {
		fmt.Fprintf(a.errs, "%s: %s\n", b.Name(), m.Remark(ctx))
	}
	if len(c.Undrawn) > 0 {
		fmt.Fprintf(a.errs, "%s: random plans leave out %s: this lock reads its own time, which can't be set here\n", f.backend, strings.Join(c.Undrawn, ", "))
	}
	f.named = len(args) > 0
	r := newReport(a, f, ci, chosen, args)
	for _, x := range c.Skipped {
		r.skip(x.Scenario, x.Lacks)
	}
	if err := prepare(ctx, b, resolved(c.Picks), a.errs); err != nil {
		return err
	}
	if f.shard != "" {
		return r.record(ctx, b, c.Picks)
	}
	r.runAll(ctx, b, c.Picks)
	return cmp.Or(r.finish(ctx), ctx.Err())
}

// enter says what a backend can do here, and refuses one that can't run, or a store that
// nothing can be kept in.
func (a *app) enter(ctx context.Context, b harness.Backend, store string, require ...string) (campaign.Abilities, error) {
	a.tidies() // a probe tries what a run has
	able := campaign.Probe(ctx, b)
	if c := able.Of(harness.CanRun); !c.Available {
		return nil, unable(fmt.Errorf("backend %s can't run here: %s", b.Name(), c.Reason), c.Remedy)
	}
	names := append(slices.Sorted(maps.Keys(able)), "all")
	for _, want := range require {
		if !slices.Contains(names, want) {
			return nil, usage(fmt.Errorf("--require %q is no capability", want), "one of "+strings.Join(names, ", "))
		}
	}
	if err := cmp.Or(campaign.CanWrite(store), suites.Sweep(store)); err != nil {
		return nil, noStore(err)
	}
	return able, nil
}

// fit refuses scenarios that are too large for a backend on any machine.
func fit(b harness.Backend, chosen []pick) error {
	bounded, ok := b.(interface{ Fits(scenario.Scenario) error })
	for _, p := range chosen {
		if !ok {
			break
		}
		if err := bounded.Fits(p.Scenario); err != nil {
			return usage(fmt.Errorf("run %s on %s: %w", p.ID(), b.Name(), err), "use fewer clients or nodes")
		}
	}
	return nil
}

// noStore says what to do about a store that can't be written to. To choose one is use of
// lockpick; that it has no room left is none.
func noStore(err error) error {
	hint := files.Remedy(err, files.StoreHint)
	if hint == "" || errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EROFS) {
		return usage(err, "choose another folder with --store")
	}
	return unable(err, hint)
}

func noFolder() error {
	return usage(errors.New("--store names no folder"), "leave it out for "+defaultStore())
}

// mostSeeds bounds a sweep: a day of work for a large machine.
const mostSeeds = campaign.MaxSeeds

// mostJobs bounds what is run at once.
const mostJobs = 64

// Whose reports are drawn when a run has ended.
const (
	reportsNamed = "named"
	reportsAll   = "all"
	reportsNone  = "none"
)

var reportChoices = []string{reportsNamed, reportsAll, reportsNone}

// validate looks at what the flags' types don't show.
func (f *runFlags) validate() error {
	see := "see lockpick run --help"
	switch {
	case f.seeds < 1 || f.seeds > mostSeeds:
		return usage(fmt.Errorf("--seeds %d is out of range", f.seeds), fmt.Sprintf("a number from 1 to %d", mostSeeds))
	case f.seed+uint64(f.seeds-1) < f.seed:
		return usage(fmt.Errorf("there are no %d seeds from %d on", f.seeds, f.seed), "begin with a smaller --seed")
	case f.patience <= 0:
		return usage(fmt.Errorf("--timeout %v is not positive", f.patience), see)
	case !slices.Contains(reportChoices, f.reports):
		return usage(fmt.Errorf("--reports %s is none of them", f.reports), "one of "+strings.Join(reportChoices, ", "))
	case f.store == "":
		return noFolder()
	case !(f.scale >= 0 && f.scale <= 1000): // not a number is neither
		return usage(fmt.Errorf("--scale %g is out of range", f.scale), "a factor up to 1000, as in --scale 0.5")
	case f.jobs < 1 || f.jobs > mostJobs:
		return usage(fmt.Errorf("--jobs %d is out of range", f.jobs), fmt.Sprintf("a number from 1 to %d", mostJobs))
	case f.jobs > 1 && f.backend == simulation:
		return usage(errors.New("--jobs is for backends in real time"), "leave it out: the simulation has one for each processor")
	case f.scale > 0 && f.backend == simulation:
		return usage(errors.New("--scale is for backends in real time"), "leave it out, or choose one with --backend")
	case (f.image != "") != (f.adapter != "" && f.backend == containers):
		return usage(errors.New("--adapter-image is where --adapter is in containers, and they need one"), `as in --backend docker --adapter-image IMAGE --adapter "node /adapter.js"`)
	case f.client != "" && f.backend != containers:
		return usage(errors.New("--client-binary is for clients in containers"), "leave it out, or add --backend "+containers)
	case f.confirm && f.backend != simulation:
		return usage(errors.New("--confirm works in the simulation only"), "leave it out, or leave out --backend")
	case f.patience != patience && f.backend != simulation:
		return usage(errors.New("--timeout limits simulated runs only"), "leave it out: runs on real servers have limits of their own")
	case f.dryRun && (f.junit != "" || f.shard != ""):
		return usage(errors.New("--dry-run runs nothing, so there is nothing for --junit or --shard to record"), "leave out --dry-run")
	case f.shard != "" && (f.json || f.junit != "" || f.failFast):
		return usage(errors.New("--shard records what comes of its runs, and shows nothing of it"), "leave out --json, --junit and --fail-fast; lockpick merge has --json and --junit")
	}
	return f.amount()
}

// amount refuses flags that contradict each other about how much is printed.
func (f *runFlags) amount() error {
	switch {
	case f.verbose && f.quiet:
		return usage(errors.New("--verbose and --quiet contradict each other"), "leave one of them out")
	case f.json && (f.verbose || f.quiet):
		return usage(errors.New("--json prints every run, so --verbose and --quiet have no effect"), "leave them out")
	}
	return nil
}

// resolved are the scenarios alone.
func resolved(ps []pick) []scenario.Scenario {
	var out []scenario.Scenario
	for _, p := range ps {
		out = append(out, p.Scenario)
	}
	return out
}

// drawn are the scenarios as each seed runs them. Only dice make seeds differ here.
func (f *runFlags) drawn(ps []pick) []scenario.Scenario {
	var out []scenario.Scenario
	for _, s := range resolved(ps) {
		seeds := f.seeds
		if s.Random == nil {
			seeds = 1
		}
		for n := range seeds {
			out = append(out, s.Drawn(f.seed+uint64(n)))
		}
	}
	return out
}

// job is one scenario with its n-th seed.
func (f *runFlags) job(p pick, n int) campaign.Job {
	s := f.selection()
	j := s.Job(p, f.seed+uint64(n))
	j.Store, j.Version, j.Confirm, j.Command = f.store, version(), f.confirm, f.again(p, j.Seed)
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

// runAll does the jobs of all scenarios and seeds.
func (r *report) runAll(ctx context.Context, b harness.Backend, chosen []pick) {
	job := func(i int) campaign.Job { return r.flags.job(chosen[i/r.flags.seeds], i%r.flags.seeds) }
	r.total = len(chosen) * r.flags.seeds
	r.compared = campaign.Comparison{Scenarios: chosen, Seeds: r.flags.seeds}
	r.live = &display.Progress{W: r.errs, Mu: &r.mu, Started: r.started, Text: r.progress}
	defer r.live.Start()()
	more, enough := context.WithCancel(ctx)
	defer enough()
	if r.flags.failFast {
		r.failed = enough
	}
	r.flags.each(ctx, more, b, r.total, job, r.done)
	r.examples(more, chosen)
}

// each does n jobs, as many real ones at once as --jobs says. None begins once more has ended.
func (f *runFlags) each(ctx, more context.Context, b harness.Backend, n int, job func(int) campaign.Job, done func(int, outcome.Outcome)) {
	r := &campaign.Runner{Backend: b, Workers: workers(f.patience, f.store), AtOnce: f.jobs}
	r.Each(ctx, more, n, job, done)
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
