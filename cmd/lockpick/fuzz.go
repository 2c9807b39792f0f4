package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockpick/checker/verdict"
	"lockpick/docker"
	"lockpick/harness/lock/broken"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/reports/display"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

type fuzzFlags struct {
	runFlags
	duration   time.Duration // 0 means no time limit
	seedGiven  bool          // --seed was given, so fuzzing starts over
	brokenLock bool          // the lock has a planted mistake
	corpus     string
}

func fuzzCmd(a *app) *cobra.Command {
	f := &fuzzFlags{runFlags: runFlags{backend: simulation, jobs: 1, timeout: defaultTimeout, reportMode: reportsAll}}
	c := &cobra.Command{
		Use:   "fuzz [NAME…|FILE…]",
		Short: "run scenarios with new seeds and minimize the violations found",
		Long: `Run scenarios in the simulation with one seed after another, on all processors, until --for
or --seeds is reached. For each new combination of violated property and cause, keep the run
with its report, and minimize the scenario as "lockpick minimize" does. At the end, print each
finding and how often it occurred.

Without names, the scenarios are random-settings and random-within-assumptions, whose plans
stay within Redlock's assumptions, with all variants that suit the lock. If a required property
is violated, the exit code is 1.

If fuzzing was interrupted or killed, the same command resumes it; if it has finished, the same
command continues with new seeds. With --seed it starts over. No run is counted twice.

Minimized scenarios are stored in the corpus, a folder of scenario files. The next fuzz of the
same lock runs them first. They show the violation even if a later version of lockpick draws
different random numbers from the same seed.

Fuzzing detects every lock with a planted mistake (lock.kind broken), except
` + undetectedMistakes(),
		Example: `  lockpick fuzz --lock redsync --for 10m
  lockpick fuzz random-faults/ --seeds 1000
  lockpick fuzz --lock broken --set lock.mistake=plain-del --for 2m`,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("for") && f.duration <= 0 {
				return usageError(fmt.Errorf("--for %v is not positive", f.duration), "as in --for 10m")
			}
			f.seedGiven = c.Flags().Changed("seed")
			if !c.Flags().Changed("for") && c.Flags().Changed("seeds") {
				f.duration = 0
			}
			return a.fuzz(c.Context(), f, args)
		},
	}
	c.ValidArgsFunction = completer(true, scenarioNames)
	fs := c.Flags()
	fs.DurationVar(&f.duration, "for", 10*time.Minute, "how long to run; with --seeds alone there is no time limit")
	fs.IntVar(&f.seeds, "seeds", maxSweepSeeds, "number of seeds per scenario")
	fs.Uint64Var(&f.seed, "seed", 1, "start over at this seed")
	fs.StringVar(&f.lock, "lock", "", "test this kind of lock, as in redsync or KIND:OPTION=VALUE")
	addNodesFlag(c, &f.nodes)
	fs.StringArrayVar(&f.settings, "set", nil, "override a setting, as in lock.ttl=5s; expectations of the scenario no longer apply")
	fs.StringArrayVar(&f.expectations, "expect", nil, "set an expectation, as in mutual-exclusion=holds")
	addStoreFlag(c, &f.store, "progress and findings")
	fs.StringVar(&f.corpus, "corpus", "", "folder of minimized scenarios (default: "+campaign.CorpusFolder+" in the store)")
	fs.DurationVar(&f.timeout, "timeout", defaultTimeout, "time limit of one run, in wall-clock time")
	fs.BoolVar(&f.failFast, "fail-fast", false, "stop after the first violation of a required property")
	addJSONFlag(c, &f.json, "the findings")
	return c
}

// undetectedMistakes lists the planted mistakes that fuzzing does not detect, each with the reason.
func undetectedMistakes() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(broken.NotFoundByFuzzing)) {
		display.PrintWrapped(&b, 2, 4, name+", which shows only "+broken.NotFoundByFuzzing[name])
	}
	return strings.TrimRight(b.String(), "\n")
}

var defaultFuzzScenarios = []string{"random-settings", "random-within-assumptions"}

func (a *app) fuzz(ctx context.Context, f *fuzzFlags, args []string) (err error) {
	if err := f.validate(); err != nil {
		return err
	}
	nodes := f.nodes
	picks, err := f.pickScenarios(args)
	if err != nil {
		return err
	}
	warnIfNodesUnused(a.errOut, nodes, f.nodes)
	fuzzer := &campaign.Fuzzer{Simulator: newSimRunner(f.timeout, f.store), Store: f.store, Scenarios: scenariosOf(picks), Corpus: f.corpus, TimeLimit: f.duration, FirstSeed: f.seed, Seeds: f.seeds, Restart: f.seedGiven,
		FailFast: f.failFast, Log: a.errOut, NewJob: func(n int, seed uint64) campaign.Job {
			j := f.job(picks[n], 0)
			j.Seed, j.Command = seed, f.rerunCommand(picks[n], seed)
			return j
		}}
	defer fuzzer.Stop()
	if err := fuzzer.Open(); err != nil {
		return err
	}
	a.waitForCleanup()
	code, err := fuzzer.Run(ctx)
	if err != nil && ctx.Err() == nil {
		return err
	}
	if err := suites.Index(f.store); err != nil {
		return storeError(err)
	}
	if a.code = outcome.WorseCode(a.code, code); f.json {
		err = cmp.Or(printJSON(a.out, fuzzer.Result), err)
	} else {
		fuzzer.Result.Print(a.out)
	}
	if ctx.Err() != nil {
		fmt.Fprintf(a.errOut, "interrupted after %d runs; the same command resumes\n", fuzzer.Result.Runs)
	}
	return err
}

func (f *fuzzFlags) pickScenarios(args []string) (picks []pick, err error) {
	useDefaults := len(args) == 0
	if useDefaults {
		args = defaultFuzzScenarios
	}
	userExpects := f.expectations
	f.setBrokenLockExpectations()
	candidates, skipped, err := f.runFlags.chooseScenarios(args...)
	if err != nil {
		return nil, err
	}
	if len(candidates) == 0 {
		unsuitable := "lock"
		if f.nodes > 0 {
			unsuitable = "lock and number of nodes"
		}
		return nil, usageError(fmt.Errorf("none of the scenarios suits this %s: %s: %w", unsuitable, skipped[0].ID(), skipped[0].Reason), "name another scenario")
	}
	if err := f.addRequirements(candidates, args, userExpects); err != nil {
		return nil, err
	}
	waiveTokenOrder(candidates, userExpects)
	b, err := backend(simulation, docker.Config{})
	if err != nil {
		return nil, err
	}
	capabilities := campaign.Probe(context.Background(), b)
	for _, p := range candidates {
		otherKind := len(picks) > 0 && useDefaults && p.Lock.Kind != picks[0].Lock.Kind // the scenario is for locks on a single node
		if len(capabilities.Missing(p.Scenario, kinds.All)) == 0 && !otherKind {
			p.Comparison = nil // fuzzing makes no comparison runs
			picks = append(picks, p)
		}
	}
	if len(picks) == 0 {
		return nil, backendError(errors.New("the simulation can't run any of these scenarios"), "see lockpick list -v")
	}
	return picks, nil
}

// addRequirements makes the scenarios require of a lock with a planted mistake whatever they require
// of a correct lock. It checks the order of fencing tokens if the lock issues them, and does not
// change an expectation that the user set (userExpects).
func (f *fuzzFlags) addRequirements(picks []pick, args, userExpects []string) error {
	if !f.brokenLock {
		return nil
	}
	originals, err := choice{names: args}.scenarios()
	if err != nil {
		return err
	}
	for _, p := range picks {
		i := slices.IndexFunc(originals, func(o pick) bool { return o.ID() == p.ID() })
		if i < 0 {
			continue
		}
		for property, e := range originals[i].Expect {
			if !hasExpectation(userExpects, property) && (e.Want == outcome.AnyOutcome || property == verdict.FencingOrder && p.Lock.Fence && !hasOwnTokenScheme(originals[i].Scenario)) {
				p.Expect[property] = e
			}
		}
	}
	return nil
}

// waiveTokenOrder drops a scenario's expectation about the order of tokens if only the scenario's
// own lock, which has its own token scheme, guarantees that order. An expectation that the user set
// stays.
func waiveTokenOrder(picks []pick, userExpects []string) {
	for i, p := range picks {
		if p.Comparison != nil && hasOwnTokenScheme(*p.Comparison) && !hasExpectation(userExpects, verdict.FencingOrder) {
			picks[i].Expect = maps.Clone(p.Expect)
			picks[i].Expect[verdict.FencingOrder] = scenario.Expectation{Want: outcome.AnyOutcome}
		}
	}
}

// hasOwnTokenScheme reports whether the scenario's lock generates fencing tokens differently from
// the specification's lock.
func hasOwnTokenScheme(s scenario.Scenario) bool { return s.Lock.Fence && s.Lock.Kind != "redlock" }

func hasExpectation(userExpects []string, property string) bool {
	return slices.ContainsFunc(userExpects, func(s string) bool { return strings.HasPrefix(s, property+"=") })
}

// setBrokenLockExpectations sets the expectations for --lock broken. Only the locks whose mistake
// concerns fencing tokens use them. For the others, resource-safety is not required: without
// tokens, a paused holder may write too late under any lock.
func (f *fuzzFlags) setBrokenLockExpectations() {
	s := f.selection()
	mistake := s.Mistake()
	if mistake == "" {
		return
	}
	f.brokenLock = true
	userExpects := f.expectations
	f.expectations = nil
	for _, p := range []string{verdict.MutualExclusion, verdict.LeaseLinearizable, verdict.DeadlockFreedom, verdict.FaultTolerance, verdict.ValidOnReturn} {
		f.expectations = append(f.expectations, p+"=holds")
	}
	if !strings.HasPrefix(mistake, "fence-") {
		f.settings = append(f.settings, "lock.fence=false", "workload.fence=none")
		f.expectations = append(f.expectations, verdict.ResourceSafety+"=any")
	}
	f.expectations = append(f.expectations, userExpects...)
	f.defaultExpectations = []string{verdict.BoundedHold + "=holds"}
}
