package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"lockpick/checker/verdict"
	"lockpick/docker"
	"lockpick/harness/lock"
	"lockpick/harness/lock/broken"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// huntFlags are the flags of hunt.
type huntFlags struct {
	runFlags
	time    time.Duration // 0: as long as it takes
	anew    bool          // a seed was given
	mistake bool          // the lock is one that makes a mistake
	corpus  string
}

func huntCmd(a *app) *cobra.Command {
	f := &huntFlags{runFlags: runFlags{backend: simulation, jobs: 1, patience: patience, reports: reportsAll}}
	c := &cobra.Command{
		Use:   "fuzz [NAME…|FILE…]",
		Short: "run scenarios with new seeds, and minimize what violates a property",
		Long: `Run scenarios in the simulation with one seed after another, on all processors, until --for
or --seeds is reached. For each new combination of property and cause that is violated, keep
the run with its report, and the smallest scenario that shows the same, as "lockpick minimize"
finds it. At the end, print what was found and how often.

Without names, the scenarios are random-settings and random-within-assumptions, whose plans
stay within what Redlock assumes, with all variants that fit the lock. If a required property
is violated, the exit code is 1.

If fuzzing was interrupted or killed, the same command resumes it; if it had finished, the same
command continues with new seeds. With --seed it starts over. No run is counted twice.

Minimized scenarios are kept in the corpus, a folder of scenario files. Those of the same lock
run first the next time: files still show the violation when the same seed no longer draws
the same plan.

Fuzzing finds all locks with a planted mistake (lock.kind broken), except
` + unhunted(),
		Example: `  lockpick fuzz --lock redsync --for 10m
  lockpick fuzz random-faults/ --seeds 1000
  lockpick fuzz --lock broken --set lock.mistake=plain-del --for 2m`,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("for") && f.time <= 0 {
				return usage(fmt.Errorf("--for %v is not positive", f.time), "as in --for 10m")
			}
			f.anew = c.Flags().Changed("seed")
			if !c.Flags().Changed("for") && c.Flags().Changed("seeds") {
				f.time = 0
			}
			return a.hunt(c.Context(), f, args)
		},
	}
	c.ValidArgsFunction = completes(true, scenarioNames)
	fs := c.Flags()
	fs.DurationVar(&f.time, "for", 10*time.Minute, "how long to run; with --seeds alone there is no time limit")
	fs.IntVar(&f.seeds, "seeds", mostSeeds, "seeds of each scenario")
	fs.Uint64Var(&f.seed, "seed", 1, "start over at this seed")
	fs.StringVar(&f.lock, "lock", "", "put a lock of this kind under the scenarios, as in redsync or KIND:OPTION=VALUE")
	fs.StringArrayVar(&f.sets, "set", nil, "override, as in lock.ttl=5s; voids the expectations")
	fs.StringArrayVar(&f.expects, "expect", nil, "expect, as in mutual-exclusion=holds")
	storeFlag(c, &f.store, "the progress and what is found")
	fs.StringVar(&f.corpus, "corpus", "", "folder of minimized scenarios (default "+corpusFolder+" in the store)")
	fs.DurationVar(&f.patience, "timeout", patience, "wall clock that one run may take")
	fs.BoolVar(&f.failFast, "fail-fast", false, "stop after the first violation of a required property")
	jsonFlag(c, &f.json, "what was found")
	return c
}

// unhunted are the mistakes that no hunt finds, and why.
func unhunted() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(broken.Unhunted)) {
		indented(&b, 2, 4, name+", which shows only "+broken.Unhunted[name])
	}
	return strings.TrimRight(b.String(), "\n")
}

// Folders of a store.
const (
	huntsFolder  = "hunts"
	corpusFolder = "corpus"
)

// huntScenarios are what is hunted with where nothing is named.
var huntScenarios = []string{"random-settings", "random-within-assumptions"}

func (a *app) hunt(ctx context.Context, f *huntFlags, args []string) (err error) {
	if err := f.validate(); err != nil {
		return err
	}
	x := &hunter{app: a, flags: f, started: time.Now()}
	if f.corpus == "" {
		f.corpus = filepath.Join(f.store, corpusFolder)
	} else if err := campaign.CanWrite(f.corpus); err != nil {
		return usage(fmt.Errorf("open corpus: %w", errors.Unwrap(err)), "name another folder with --corpus")
	}
	if err := x.choose(args); err != nil {
		return err
	}
	if err := campaign.CanWrite(f.store); err != nil {
		return noStore(err)
	}
	if err := x.open(); err != nil {
		return err
	}
	a.tidies()
	x.crew = crew{workers(f.patience, f.store).Start()}
	defer x.crew.Stop()
	err = x.corpus(ctx)
	if err == nil {
		err = x.run(ctx)
	}
	x.Leg.Seconds = x.spent()
	x.Leg.Over = err == nil && ctx.Err() == nil
	if lost := x.Close(); err == nil && lost != nil {
		err = noStore(lost)
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	return x.finish(ctx)
}

// spent is how many seconds the hunt has taken, those of calls that were interrupted among them.
func (x *hunter) spent() float64 { return x.Leg.Seconds + time.Since(x.started).Seconds() }

// hunter is a hunt that goes on.
type hunter struct {
	*app
	*campaign.Fuzz
	flags   *huntFlags
	picks   []pick
	crew    crew
	started time.Time
	resumed int        // runs that were done when this call began
	old     []familiar // of the corpus

	begun  sync.WaitGroup // runs that are under way
	mu     sync.Mutex     // of the Hunt, and what follows
	live   *progress
	saved  time.Time
	lost   error  // of saving
	small  string // what is made small
	enough bool   // no more runs are to begin
}

// choose settles what is run.
func (x *hunter) choose(args []string) error {
	f := x.flags
	unnamed := len(args) == 0
	if unnamed {
		args = huntScenarios
	}
	given := f.expects
	if err := f.mistaken(); err != nil {
		return err
	}
	chosen, not, err := f.runFlags.choose(args...)
	if err != nil {
		return err
	}
	if len(chosen) == 0 {
		return usage(fmt.Errorf("no scenario is for this lock: %s: %w", not[0].ID(), not[0].why), "name another")
	}
	if err := f.demand(chosen, args, given); err != nil {
		return err
	}
	spare(chosen, given)
	b, err := backend(simulation, docker.Config{})
	if err != nil {
		return err
	}
	able := probe(context.Background(), b)
	for _, p := range chosen {
		if lacks := able.missing(p.Scenario); len(lacks) > 0 {
			continue
		}
		if len(x.picks) > 0 && unnamed && p.Lock.Kind != x.picks[0].Lock.Kind {
			continue // it is for locks on one node
		}
		p.own = nil // what the control does tells nothing of what there is to find
		x.picks = append(x.picks, p)
	}
	if len(x.picks) == 0 {
		return unable(errors.New("none of these scenarios can be run in the simulation"), "see lockpick list -v")
	}
	return nil
}

// demand settles what is expected of a lock with a mistake, which is as much as of a correct one:
// what a scenario asks of none is asked only where the user has said so (given), and what it asks of
// fencing tokens is asked of a lock that gives some.
func (f *huntFlags) demand(chosen []pick, args, given []string) error {
	if !f.mistake {
		return nil
	}
	own, err := choice{names: args}.scenarios()
	if err != nil {
		return err
	}
	for _, p := range chosen {
		i := slices.IndexFunc(own, func(o pick) bool { return o.ID() == p.ID() })
		if i < 0 {
			continue
		}
		for property, e := range own[i].Expect {
			if !says(given, property) && (e.Want == outcome.AnyOutcome || property == verdict.FencingOrder && p.Lock.Fence && !ownCount(own[i].Scenario)) {
				p.Expect[property] = e
			}
		}
	}
	return nil
}

// spare asks nothing of the order of tokens where a scenario asks it of a lock that it names because
// of how that counts, unless the user asks: it is no promise of the lock that is hunted.
func spare(chosen []pick, given []string) {
	for i, p := range chosen {
		if p.own != nil && ownCount(*p.own) && !says(given, verdict.FencingOrder) {
			chosen[i].Expect = maps.Clone(p.Expect)
			chosen[i].Expect[verdict.FencingOrder] = scenario.Expectation{Want: outcome.AnyOutcome}
		}
	}
}

// ownCount says whether a scenario's lock counts otherwise than the specification's.
func ownCount(s scenario.Scenario) bool { return s.Lock.Fence && s.Lock.Kind != "redlock" }

// says says whether the user expects something of a property.
func says(given []string, property string) bool {
	return slices.ContainsFunc(given, func(s string) bool { return strings.HasPrefix(s, property+"=") })
}

// mistaken takes --lock broken with its mistake for what they come to as overrides. Few of these
// locks hand out fencing tokens, so that only those are asked for them that are wrong in it; and
// without a fence a holder that was paused may write too late, whatever the lock.
func (f *huntFlags) mistaken() error {
	if f.lock != "broken" {
		return nil
	}
	i := slices.IndexFunc(f.sets, setsMistake)
	if i < 0 || slices.ContainsFunc(f.sets, setsKind) {
		return nil // otherLock says so
	}
	f.mistake = true
	f.runFlags.mistaken()
	own := f.expects
	f.expects = nil
	for _, p := range []string{verdict.MutualExclusion, verdict.LeaseLinearizable, verdict.DeadlockFreedom, verdict.FaultTolerance, verdict.ValidOnReturn, verdict.BoundedHold} {
		f.expects = append(f.expects, p+"=holds")
	}
	if !strings.Contains(f.sets[i+1], "=fence-") {
		f.sets = append(f.sets, "lock.fence=false", "workload.fence=none")
		f.expects = append(f.expects, verdict.ResourceSafety+"=any")
	}
	f.expects = append(f.expects, own...)
	return nil
}

// open begins the hunt, or goes on with it.
func (x *hunter) open() error {
	text, err := json.Marshal(resolved(x.picks))
	if err != nil {
		return err
	}
	of := fmt.Sprintf("%x", sha256.Sum256(append(text, version()...)))
	var names []string
	for _, p := range x.picks {
		names = append(names, p.ID())
	}
	l := x.picks[0].Lock
	name := strings.Join(slices.DeleteFunc([]string{x.picks[0].Name, l.Kind, l.Mistake}, func(s string) bool { return s == "" }), "-")
	folder := filepath.Join(x.flags.store, huntsFolder, name[:min(len(name), 80)]+"-"+of[:8])
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return noStore(err)
	}
	if x.flags.anew {
		if err := os.Remove(filepath.Join(folder, campaign.FuzzFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return noStore(err)
		}
	}
	x.Fuzz, err = campaign.OpenFuzz(folder, of[:16], names, x.flags.seed)
	switch {
	case errors.Is(err, campaign.ErrFuzzTaken):
		return unable(err, "wait for it, or give this one another --store")
	case err != nil:
		return usage(err, "remove "+folder+", or begin anew with --seed")
	case x.Resumes():
		fmt.Fprintf(x.errs, "resuming where fuzzing was interrupted: %d runs are done\n", x.Runs)
	case x.Runs > 0:
		fmt.Fprintf(x.errs, "continuing with new seeds: %d runs are done\n", x.Runs)
	}
	x.resumed = x.Runs
	return x.Save()
}

// run hunts until time or seeds are over.
func (x *hunter) run(ctx context.Context) error {
	left, last := x.flags.time-time.Duration(x.Leg.Seconds*float64(time.Second)), x.Leg.Begun+x.flags.seeds*len(x.picks)
	over := make(<-chan time.Time)
	if x.flags.time > 0 {
		over = time.After(left)
	}
	x.live = &progress{errs: x.errs, mu: &x.mu, started: x.started, text: x.progress}
	defer x.live.start()()
	defer x.begun.Wait()
	for {
		if err := x.settle(ctx); err != nil {
			return err
		}
		select { // of several that are ready any may be chosen below
		case <-over:
			x.begun.Wait()
			return x.settle(ctx)
		default:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			x.begun.Wait()
			return x.settle(ctx)
		case w := <-x.crew.Idle:
			x.mu.Lock()
			i, enough := x.Take(), x.enough
			x.mu.Unlock()
			if i >= last || enough {
				x.crew.Idle <- w
				x.begun.Wait()
				return x.settle(ctx)
			}
			x.begun.Go(func() {
				n, seed := x.Run(i)
				o := w.Do(ctx, x.seeded(n, seed, campaign.KeepNone))
				x.crew.Idle <- w
				if ctx.Err() == nil {
					x.done(i, o)
				}
			})
		}
	}
}

// seeded is a run of a scenario, by its number, with a seed.
func (x *hunter) seeded(n int, seed uint64, keep campaign.Keep) campaign.Job {
	j := x.flags.job(x.picks[n], 0)
	j.Seed, j.Keep, j.Command = seed, keep, x.flags.again(x.picks[n], seed)
	return j
}

// saves is how often the hunt's file is written where nothing is found: what is done
// meanwhile is lost if lockpick is killed, and made again.
const saves = time.Second

// done takes what came of a run.
func (x *hunter) done(i int, o outcome.Outcome) {
	x.mu.Lock()
	defer x.mu.Unlock()
	fresh, harm := x.Done(i, o)
	x.enough = x.enough || harm && x.flags.failFast
	for _, f := range fresh {
		f.Seconds = x.spent()
		x.live.erase()
		fmt.Fprintf(x.errs, "found: %s, by %s\n", f.Bug, f.First.Command)
		x.recognise(f)
	}
	if len(fresh) > 0 || time.Since(x.saved) > saves {
		x.lost = errors.Join(x.lost, x.Save())
		x.saved = time.Now()
	}
}

// settle keeps the runs of what was found, and makes scenarios of it.
func (x *hunter) settle(ctx context.Context) error {
	for {
		x.mu.Lock()
		lost := x.lost
		i := slices.IndexFunc(x.Finds, func(f *campaign.FuzzFind) bool { return !f.Settled })
		if i >= 0 {
			x.small = x.Finds[i].Bug.String()
		}
		x.mu.Unlock()
		switch {
		case lost != nil:
			return noStore(lost)
		case i < 0:
			return nil
		}
		x.begun.Wait() // so that what was found first is known, and all processors are free
		f := x.Finds[i]
		s := x.picks[f.First.Scenario].Scenario
		o := x.crew.Do(ctx, x.seeded(f.First.Scenario, f.First.Seed, campaign.KeepAll))
		begun, k, why := time.Now(), (*small)(nil), error(nil)
		if !f.Known {
			k, why = x.shrink(ctx, s, f)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		x.mu.Lock()
		x.small = ""
		f.Dir, f.Settled, f.Took = o.Dir, true, time.Since(begun).Seconds()
		switch {
		case why != nil:
			f.Why = display.FirstLine(why.Error())
		case k != nil:
			f.File, f.Small, f.Command = k.File, &k.Minimized, k.Command
		}
		err := x.Save()
		x.mu.Unlock()
		if err != nil {
			return noStore(err)
		}
	}
}

// shrink makes a scenario small that shows a find, beginning with one that was made small of
// another if that shows it, too: several properties are often violated at once.
func (x *hunter) shrink(ctx context.Context, s scenario.Scenario, f *campaign.FuzzFind) (*small, error) {
	from, seed := s, f.First.Seed
	for _, other := range x.Finds {
		if r := other.Small; r != nil && x.crew.run(ctx, campaign.Expecting(r.Scenario, f.Bug), r.Seed).Code == outcome.ExitOK {
			from, seed = r.Scenario, r.Seed
			break
		}
	}
	r, err := x.crew.shrinker(0).Shrink(ctx, from, seed, f.Bug)
	if err != nil {
		return nil, err
	}
	r.From, r.Given, r.Before = s.ID(), f.First.Seed, campaign.SizeOf(s.Drawn(f.First.Seed))
	name := corpusName(r)
	return x.crew.keep(ctx, r, name, x.flags.store, filepath.Join(x.flags.corpus, name+".yaml"))
}

// progress is how far the hunt is.
func (x *hunter) progress(passed time.Duration) string {
	violated := 0
	for _, f := range x.Finds {
		violated += f.Runs
	}
	runs := x.Runs - x.Leg.Begun
	parts := []string{display.Plural(runs, "run"), fmt.Sprintf("%d found, %d times", len(x.Finds), violated)}
	if x.Failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", x.Failed))
	}
	spent := passed.Seconds()
	parts = append(parts, fmt.Sprintf("%.0f s, %.3g per second", spent, float64(x.Runs-x.resumed)/max(spent, 1e-3)))
	left := -1.0
	if x.flags.time > 0 {
		left = max(0, x.flags.time.Seconds()-x.Leg.Seconds-spent)
	}
	if all := x.flags.seeds * len(x.picks); x.flags.seeds < mostSeeds && x.Runs > x.resumed {
		if by := float64(all-runs) * spent / float64(x.Runs-x.resumed); left < 0 || by < left {
			left = by
		}
	}
	if left >= 0 {
		parts = append(parts, fmt.Sprintf("about %.0f s left", left))
	}
	if x.small != "" {
		parts = append(parts, "minimizing "+x.small)
	}
	return strings.Join(parts, ", ")
}

// finish prints what was found, and settles the exit code.
func (x *hunter) finish(ctx context.Context) error {
	if err := suites.Index(x.flags.store); err != nil {
		return noStore(err)
	}
	x.code = outcome.Worse(x.code, x.Finish())
	if x.flags.json {
		if err := printJSON(x.out, x.Fuzz); err != nil {
			return err
		}
	} else {
		x.print()
	}
	if ctx.Err() != nil {
		fmt.Fprintf(x.errs, "interrupted after %d runs; the same command goes on\n", x.Runs)
	}
	return ctx.Err()
}

// print prints the result, then a table of what was found and how often, then each find.
func (x *hunter) print() {
	x.printResult()
	t := table{{"property", "cause", "runs", "first"}}
	for _, f := range x.Finds {
		t = append(t, []string{f.Property, f.Cause, fmt.Sprint(f.Runs), fmt.Sprintf("%s, seed %d", x.Scenarios[f.First.Scenario], f.First.Seed)})
	}
	if len(x.Finds) > 0 {
		fmt.Fprintln(x.out)
		printTable(x.out, t)
	}
	for _, f := range x.Finds {
		x.printFind(f)
	}
}

// printResult prints in one line how much was run and what came of it.
func (x *hunter) printResult() {
	in, text := good, "no violation found, under these faults"
	if held := x.held(); held > 0 {
		in, text = alarm, display.Plural(held, "violation")+" of required properties"
	} else if len(x.Finds) > 0 {
		in, text = plain, "no required property violated"
	}
	if x.held() == 0 && len(x.Finds) == 0 && x.Runs > 0 {
		_, high := outcome.Wilson(0, x.Runs)
		text += fmt.Sprintf(": at most %.2g %% of such runs", 100*high)
	}
	if x.Failed > 0 {
		in = alarm
		text += fmt.Sprintf("; %d could not be judged, the first: %s", x.Failed, display.FirstLine(x.Error))
	}
	fmt.Fprintln(x.out, painted(x.out, in, fmt.Sprintf("%s of %s, %s: %s", display.Plural(x.Runs, "run"), display.Plural(len(x.picks), "scenario"),
		time.Duration(x.Leg.Seconds*float64(time.Second)).Round(time.Second), text)))
}

func (x *hunter) held() (n int) {
	for _, f := range x.Finds {
		if f.Held {
			n++
		}
	}
	return n
}

func (x *hunter) printFind(f *campaign.FuzzFind) {
	in, had := doubt, "not required to hold"
	if f.Held {
		in, had = alarm, "required to hold"
	}
	fmt.Fprintf(x.out, "\n%s, in %s; %s\n", painted(x.out, in, f.Bug.String()), outcome.Rate(f.Runs, x.Runs), had)
	if f.Small != nil {
		for _, st := range f.Small.Scenario.Plan {
			indented(x.out, 2, 4, campaign.DescribeStep(st))
		}
		indented(x.out, 2, 4, f.Small.Sum())
	}
	if f.Known {
		fmt.Fprintln(x.out, "  known from the corpus")
	}
	if f.Why != "" {
		indented(x.out, 2, 4, "not minimized: "+f.Why)
	}
	for _, l := range [][2]string{{"scenario:  ", f.File}, {"record:    ", f.Dir}, {"run again: ", cmp.Or(f.Command, f.First.Command)}} {
		if l[1] != "" {
			fmt.Fprintln(x.out, strings.TrimRight("    "+l[0]+l[1], " "))
		}
	}
}

// familiar is a scenario of the corpus: one that violated something once.
type familiar struct {
	campaign.Bug
	file    string
	shows   bool // it still does
	command string
}

// seeded is the end of a name in the corpus whose scenario is run with another seed than 1.
var seeded = regexp.MustCompile(`-seed-([0-9]+)$`)

// corpusName is what a small scenario is called in the corpus: by its lock and what it shows.
func corpusName(r campaign.Minimized) string {
	l := r.Scenario.Lock
	name := strings.Join([]string{cmp.Or(l.Mistake, l.Kind), r.Property, cmp.Or(r.Cause, "violated")}, "-")
	end := ""
	if r.Seed != 1 {
		end = fmt.Sprintf("-seed-%d", r.Seed)
	}
	return clipped(name, 64-len(end)) + end
}

// clipped is a name of at most so many characters, which no other is clipped to.
func clipped(name string, most int) string {
	if len(name) <= most {
		return name
	}
	return fmt.Sprintf("%s-%x", strings.TrimRight(name[:most-9], "-"), sha256.Sum256([]byte(name)))[:most]
}

// corpus runs the scenarios of the corpus that are of the same lock, before anything else.
func (x *hunter) corpus(ctx context.Context) error {
	dir, err := files.OpenFolder(x.flags.corpus)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return usage(fmt.Errorf("open corpus: %w", err), "name another folder with --corpus")
	}
	defer dir.Close()
	entries, err := dir.Entries()
	if err != nil {
		return usage(fmt.Errorf("open corpus: %w", err), "name another folder with --corpus")
	}
	shown := 0
	for _, e := range entries {
		base, isYAML := strings.CutSuffix(e.Name(), ".yaml")
		if !isYAML || !e.Type().IsRegular() {
			continue
		}
		path := filepath.Join(x.flags.corpus, e.Name())
		text, err := dir.Read(e.Name(), scenario.MaxFile)
		if err != nil {
			return usage(fmt.Errorf("read corpus: %w", err), "remove it, or name another folder with --corpus")
		}
		all, err := scenario.Parse(path, text, known())
		if err != nil {
			return usage(err, "")
		}
		if !x.sameLock(all[0].Lock) {
			continue
		}
		seed := uint64(1)
		if m := seeded.FindStringSubmatch(base); m != nil {
			seed, _ = strconv.ParseUint(m[1], 10, 64)
		}
		o := x.crew.run(ctx, all[0], seed)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		k := familiar{file: path, shows: o.Code == outcome.ExitOK, command: fmt.Sprintf("lockpick run %s --seed %d", quoted(path), seed)}
		for property, e := range all[0].Expect {
			if e.Want == "violated" && e.Follows == "" {
				k.Bug = campaign.Bug{Property: property, Cause: e.Cause}
			}
		}
		if x.old = append(x.old, k); k.shows {
			shown++
		} else {
			fmt.Fprintf(x.errs, "corpus: %s shows nothing any more: %s\n", path, display.FirstLine(cmp.Or(o.Error, strings.Join(summary(o), "; "))))
		}
	}
	if len(x.old) > 0 {
		fmt.Fprintf(x.errs, "corpus: %d of %d show what they did\n", shown, len(x.old))
	}
	return nil
}

// sameLock says whether a scenario of the corpus is about a lock that is hunted.
func (x *hunter) sameLock(l lock.Settings) bool {
	return slices.ContainsFunc(x.picks, func(p pick) bool {
		return l.Kind == p.Lock.Kind && l.Mistake == p.Lock.Mistake && maps.Equal(l.Options, p.Lock.Options)
	})
}

// recognise settles a find that the corpus has.
func (x *hunter) recognise(f *campaign.FuzzFind) {
	for _, k := range x.old {
		if k.Bug == f.Bug && k.shows {
			f.Known, f.File, f.Command = true, k.file, k.command
		}
	}
}
