package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/docker"
	"lockpick/harness"
	lockexec "lockpick/harness/lock/exec"
	"lockpick/harness/lock/kinds"
	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/reports/sequence"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// scoreFlags are the flags of scorecard.
type scoreFlags struct {
	backend  string
	beside   string    // another, on which the catalogue is run, too; "": none
	adapter  string    // the program that has the lock, as a user wrote it; "": locks are kinds
	adapted  *runFlags // what it comes to
	try      string    // a backend on which what is found is tried again; "": none
	seed     uint64
	seeds    int // of each draw of random plans
	store    string
	tags     []string
	jobs     int
	all      bool
	json     bool
	markdown bool
	command  string // runs it again
}

const scoreLong = `Put locks under the whole catalogue and under random plans, beside each scenario's
own lock, and make a scorecard of each: a row for each property, a column for each sort
of failure, and for each violation the shortest run that shows it, with its diagram.

LOCK is KIND, KIND:OPTION=VALUE,… or KIND:* for each of its set-ups: as it comes, and
with each value of each option. See lockpick help locks.

Random plans are within what Redlock assumes. Of each sort of failure they are drawn
with it alone and with all the others, so that what comes can be put down to a sort.

With --try process each violation that had to be kept is tried on real servers, up to
six times a run. What is not seen there is told apart (◇). --beside process does that and
runs the whole catalogue there, too, which has columns of its own.

A library of any language is an adapter: with --adapter all runs are on real servers, and
each violation is tried there once more.

The page, Markdown, JSON, and the run of each counterexample are kept in STORE/scores:
lockpick replay DIR runs one again. The exit code is 1 where a lock fails what its tier
holds it to, and 2 where that is not confirmed.`

func scoreCmd(a *app) *cobra.Command {
	f := &scoreFlags{}
	c := &cobra.Command{
		Use:   "scorecard LOCK…",
		Short: "run locks through the whole catalogue and print a scorecard",
		Long:  scoreLong,
		Example: `  lockpick scorecard redsync
  lockpick scorecard 'redsync:*' --try process      each set-up, and on real servers what it fails
  lockpick scorecard redislock rueidis:caching=yes --seeds 200 --json
  lockpick scorecard --adapter "node adapter.js"    a lock of any language
  lockpick scorecard --all`,
		RunE: func(c *cobra.Command, args []string) error {
			if f.adapter != "" && f.backend == simulation && c.Flags().Changed("backend") {
				return usage(errors.New("an adapter needs real servers, and --backend sim has none"), "leave out --backend, or take --backend process")
			}
			return a.score(c.Context(), f, args)
		},
	}
	c.ValidArgsFunction = completes(false, kinds.Names)
	fs := c.Flags()
	fs.StringVarP(&f.backend, "backend", "b", backendNames[0], "where to run: "+strings.Join(backendNames, ", "))
	fs.StringVar(&f.beside, "beside", "", "run the catalogue on this backend, too, in columns of its own")
	fs.StringVar(&f.try, "try", "", "try each violation again on this backend")
	fs.Uint64Var(&f.seed, "seed", 1, "what all that is random is drawn from")
	fs.IntVar(&f.seeds, "seeds", 10, "random plans of each draw, from --seed on; 0 is none")
	storeFlag(c, &f.store, "the cards")
	fs.StringSliceVar(&f.tags, "tag", nil, "only scenarios with this tag")
	fs.IntVar(&f.jobs, "jobs", 1, "runs at once on real backends: they mostly wait, but a busy machine is late")
	jsonFlag(c, &f.json, "the scorecards")
	fs.BoolVar(&f.markdown, "markdown", false, "print them as Markdown")
	fs.BoolVar(&f.all, "all", false, "each set-up of each kind")
	fs.StringVar(&f.adapter, "adapter", "", "the lock is this program's, on real processes; what it violates is tried again\n(see lockpick help adapter)")
	return c
}

// named are the locks that words name, each of a kind's set-ups where one ends in a star.
func (f *scoreFlags) named(args []string) (all []string) {
	for _, arg := range args {
		if kind, star := strings.CutSuffix(arg, ":*"); star {
			if _, known := kinds.All[kind]; known {
				all = append(all, setupsOf(kind)...)
				continue
			}
		}
		all = append(all, arg)
	}
	if f.all {
		for _, kind := range unmistaken() {
			all = append(all, setupsOf(kind)...)
		}
	}
	return all
}

// locks are those that are meant.
func (f *scoreFlags) locks(args []string) ([]string, error) {
	all := f.named(args)
	if f.adapter != "" {
		switch {
		case len(all) > 0:
			return nil, usage(errors.New("--adapter is the lock itself, and more are named"), "leave out "+strings.Join(all, ", "))
		case f.backend == simulation:
			f.backend = "process"
		}
		f.try = cmp.Or(f.try, f.backend)
		all = []string{lockexec.Name}
	}
	switch {
	case len(all) == 0:
		return nil, usage(errors.New("scorecard takes locks, got none"), "some of "+strings.Join(unmistaken(), ", "))
	case f.seeds < 0 || f.seeds > mostSeeds:
		return nil, usage(fmt.Errorf("--seeds %d is out of range", f.seeds), fmt.Sprintf("a number from 0 to %d", mostSeeds))
	case f.jobs < 1 || f.jobs > mostJobs:
		return nil, usage(fmt.Errorf("--jobs %d is out of range", f.jobs), fmt.Sprintf("a number from 1 to %d", mostJobs))
	case f.jobs > 1 && f.backend == simulation && f.beside == "" && f.try == "":
		return nil, usage(errors.New("--jobs is for backends in real time"), "leave it out: the simulation has one for each processor")
	case f.beside != "" && f.try != "" && f.beside != f.try:
		return nil, usage(fmt.Errorf("--beside %s and --try %s are two backends", f.beside, f.try), "leave --try out: what is found is tried on the other")
	case f.beside != "" && (f.beside == simulation || f.backend != simulation || f.adapter != ""):
		return nil, usage(errors.New("--beside is for what stands beside the simulation"), "as in --beside process, without --backend and --adapter")
	case f.try != "" && f.adapter == "" && (f.try == simulation || f.backend != simulation):
		return nil, usage(errors.New("--try is for what the simulation finds"), "as in --try process, without --backend")
	case f.json && f.markdown:
		return nil, usage(errors.New("--json and --markdown contradict each other"), "leave one of them out")
	}
	if f.adapter != "" {
		f.command = "lockpick scorecard --adapter " + quoted(f.adapter)
		return all, nil
	}
	var once []string
	for _, name := range all {
		if slices.Contains(once, name) {
			continue
		}
		if err := unmistakable("scorecard", name); err != nil {
			return nil, err
		}
		if err := (&runFlags{lock: name}).otherLock(); err != nil {
			return nil, err
		}
		once = append(once, name)
	}
	f.command = "lockpick scorecard " + quotedAll(once)
	return once, nil
}

// unmistaken are the kinds of locks, but for the one that makes mistakes.
func unmistaken() []string {
	return slices.DeleteFunc(kinds.Names(), func(kind string) bool { return kind == "broken" })
}

// again are the flags that change what comes, as they were given.
func (f *scoreFlags) again() string {
	c := fmt.Sprintf("%s --seed %d --seeds %d", f.command, f.seed, f.seeds)
	if f.backend != simulation && f.adapter == "" {
		c += " --backend " + f.backend
	}
	if f.beside != "" {
		c += " --beside " + f.beside
	} else if f.try != "" && f.adapter == "" {
		c += " --try " + f.try
	}
	for _, t := range f.tags {
		c += " --tag " + quoted(t)
	}
	return c
}

func quotedAll(all []string) string {
	var out []string
	for _, s := range all {
		out = append(out, quoted(s))
	}
	return strings.Join(out, " ")
}

func (a *app) score(ctx context.Context, f *scoreFlags, args []string) error {
	locks, err := f.locks(args)
	if err != nil {
		return err
	}
	if f.beside != "" {
		f.try = f.beside
	}
	f.adapted = &runFlags{adapter: f.adapter}
	if err := f.adapted.adapt(ctx); err != nil {
		return err
	}
	s := &scorer{app: a, flags: f}
	if err := s.open(ctx); err != nil {
		return err
	}
	defer s.close()
	all := suites.Scorecards{Schema: outcome.CardSchema, Command: f.again(), Version: version()}
	for _, lock := range locks {
		kept := maps.Clone(s.kept)
		c, err := s.card(ctx, lock)
		if ctx.Err() != nil {
			s.kept = kept // those of a card that there is
			break
		}
		if err != nil {
			return err
		}
		a.code = outcome.Worse(a.code, c.Code())
		all.Cards = append(all.Cards, c)
		if len(locks) > 1 {
			fmt.Fprintf(a.errs, "%s is scored: %d of %d locks\n", titled(lock), len(all.Cards), len(locks))
		}
	}
	return cmp.Or(s.tell(ctx, &all, len(locks)), ctx.Err())
}

// tell keeps and prints the cards that there are, which are not all where score was interrupted.
func (s *scorer) tell(ctx context.Context, all *suites.Scorecards, locks int) error {
	a, f := s.app, s.flags
	if ctx.Err() != nil {
		what := "their cards are kept; again, and for the others: "
		if len(all.Cards) == 0 {
			what = "no card is kept; again: "
		}
		fmt.Fprintf(a.errs, "interrupted after %d of %d locks; %s%s\n", len(all.Cards), locks, what, all.Command)
		if len(all.Cards) == 0 {
			return nil
		}
		a.code = outcome.ExitInterrupt
	}
	all.Code = a.code
	dir, err := s.keep(all)
	if err != nil {
		return err
	}
	switch {
	case f.json:
		err = all.JSON(a.out)
	case f.markdown:
		err = all.Markdown(a.out)
	default:
		printCards(a.out, all)
	}
	fmt.Fprintf(a.errs, "report: %s/%s\n", dir, suites.CardPage)
	return err
}

// keep writes the cards and the runs of their findings into a folder of the store.
func (s *scorer) keep(all *suites.Scorecards) (dir string, err error) {
	pictures, err := s.pictures(all)
	if err != nil {
		return "", err
	}
	dir, err = files.Place(s.flags.store, suites.ScoreFolder, suites.Stamp(time.Now()), func(dir string) error {
		for from, name := range s.kept {
			to := dir + "/" + name
			if err := errors.Join(os.MkdirAll(dir+"/"+suites.RunFolder, 0o755), os.Rename(from, to)); err != nil {
				return err
			}
		}
		for name, write := range map[string]func(io.Writer) error{
			suites.CardJSON: all.JSON, suites.CardText: all.Markdown,
			suites.CardPage: func(w io.Writer) error { return all.Page(w, pictures) },
		} {
			var text bytes.Buffer
			if err := write(&text); err != nil {
				return err
			}
			if err := files.WriteIn(dir, name, text.Bytes()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", noStore(err)
	}
	return dir, suites.Index(s.flags.store)
}

// open makes ready what runs need.
func (s *scorer) open(ctx context.Context) (err error) {
	f := s.flags
	if s.on, err = s.stage(ctx, f.backend, f.store, f.adapted.program...); err != nil {
		return err
	}
	if f.try != "" {
		if s.elsewhere, err = s.stage(ctx, f.try, f.store, f.adapted.program...); err != nil {
			return errors.Join(err, s.close())
		}
	}
	s.scratch, err = files.Unfinished.MakeDir(f.store)
	return err
}

// close gives back what open has made.
func (s *scorer) close() error {
	var errs []error
	for _, on := range []*stage{s.on, s.elsewhere} {
		errs = append(errs, on.close())
	}
	if s.scratch != "" {
		errs = append(errs, os.RemoveAll(s.scratch))
	}
	return errors.Join(errs...)
}

// scorer makes scorecards.
type scorer struct {
	*app
	flags     *scoreFlags
	on        *stage
	elsewhere *stage // where what was found is tried again; nil: nowhere
	scratch   string // folder of runs until their card is whole
	bouts     []bout // of the card that is made, by the numbers that its entries have
	tries     []tried
	kept      map[string]string // folders of runs, and how they are called beside the card
	cards     int
}

// stage is a backend that can run here.
type stage struct {
	harness.Backend
	able abilities
}

func (a *app) stage(ctx context.Context, name, store string, adapter ...string) (*stage, error) {
	b, err := backend(name, docker.Config{}, adapter...)
	if err != nil {
		return nil, err
	}
	able, err := a.enter(ctx, &runFlags{store: store}, b)
	return &stage{b, able}, err
}

// close gives back what the backend keeps between runs.
func (s *stage) close() error {
	if s == nil {
		return nil
	}
	if c, ok := s.Backend.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// bout is a run that a card asks for.
type bout struct {
	pick
	on    *stage
	flags *runFlags
	n     int // its seed, from that of the flags on
	draw  *outcome.Draw
	out   outcome.Outcome
}

// keep is which runs are stored.
func (b *bout) keep() campaign.Keep {
	if b.flags.backend != simulation {
		return campaign.KeepUnexpected // they can't be had again
	}
	return campaign.KeepNone
}

func (b *bout) job(keep campaign.Keep) campaign.Job {
	j := b.flags.job(b.pick, b.n)
	j.Keep, j.Reports = keep, keep
	return j
}

// tried is a run that was tried elsewhere.
type tried struct {
	run int // of bouts
	out outcome.Outcome
}

// runFlags are those by which run does what a card asks for.
func (s *scorer) runFlags(lock, backend string, sets, expects []string) *runFlags {
	own := s.flags.adapted
	return &runFlags{backend: backend, seed: s.flags.seed, seeds: 1, jobs: s.flags.jobs, store: s.scratch, lock: lock, tags: s.flags.tags,
		adapter: own.adapter, program: own.program, grain: own.grain, patience: patience, sets: sets, expects: expects}
}

// picked are scenarios with the lock, as run would choose them, and those that it would skip.
func (s *scorer) picked(ctx context.Context, f *runFlags, on *stage, names ...string) (fit []pick, not []unfit, err error) {
	chosen, not, err := f.choose(names...)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range chosen {
		if lacks := on.able.missing(p.Scenario); len(lacks) > 0 {
			not = append(not, unfit{p.Scenario, fmt.Errorf("%s", reasons(lacks))})
			continue
		}
		fit = append(fit, p)
	}
	return fit, not, prepare(ctx, on, fit, s.errs)
}

// card makes the scorecard of one lock.
func (s *scorer) card(ctx context.Context, lock string) (*outcome.Card, error) {
	s.bouts, s.tries = nil, nil
	f := s.runFlags(lock, s.flags.backend, nil, nil)
	if err := f.otherLock(); err != nil {
		return nil, err
	}
	c := outcome.NewCard(titled(lock), kinds.All[f.kind], kinds.Claims[f.kind], s.flags.backend, s.flags.seed)
	c.Beside = s.flags.beside
	err := s.catalogue(ctx, c, f, s.on)
	if err == nil && s.flags.beside != "" {
		err = s.catalogue(ctx, c, s.runFlags(lock, s.flags.beside, nil, nil), s.elsewhere)
	}
	if err != nil {
		return nil, err
	}
	draws, err := s.dice(ctx, c, lock)
	if err != nil {
		return nil, err
	}
	for _, on := range []*stage{s.on, s.elsewhere} {
		s.run(ctx, titled(lock), on)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for i, b := range s.bouts {
		e := outcome.CardEntry{Scenario: b.Scenario, Outcome: b.out, Draw: b.draw, Run: i}
		if b.draw != nil {
			c.Throw(e, s.flags.seeds, draws)
		} else {
			c.Add(e)
		}
	}
	c.Settle()
	if s.elsewhere != nil {
		c.Tried = s.flags.try
		c.Confirm(func(x outcome.Shown) outcome.Try { return s.try(ctx, lock, x) })
	}
	s.again(ctx, c)
	return c, ctx.Err()
}

// catalogue asks for the runs of the catalogue on a backend.
func (s *scorer) catalogue(ctx context.Context, c *outcome.Card, f *runFlags, on *stage) error {
	fit, not, err := s.picked(ctx, f, on)
	for _, u := range not {
		c.Skip(u.Scenario, f.backend, u.why.Error())
	}
	for _, p := range fit {
		s.bouts = append(s.bouts, bout{pick: p, on: on, flags: f})
	}
	return err
}

// titled is what a card calls a lock: a program's by what it says of itself.
func titled(lock string) string {
	if lock == lockexec.Name {
		return kinds.All[lock].Doc
	}
	return lock
}

// diceScenario is the one whose random plans a card draws: every lock can be held to it.
const diceScenario = "random-within-assumptions/any-lock"

// dice adds the runs of random plans: of all faults, of each sort alone and left out.
func (s *scorer) dice(ctx context.Context, c *outcome.Card, lock string) ([]outcome.Draw, error) {
	if _, err := (choice{names: []string{diceScenario}, tags: s.flags.tags}).scenarios(); err != nil || s.flags.seeds == 0 {
		return nil, nil // without the tag
	}
	whole, not, err := s.picked(ctx, s.runFlags(lock, s.flags.backend, nil, nil), s.on, diceScenario)
	if err != nil {
		return nil, err
	}
	for _, u := range not {
		c.Skip(u.Scenario, s.flags.backend, u.why.Error())
	}
	if len(whole) == 0 {
		return nil, nil
	}
	var expects []string
	for _, property := range checker.Properties() {
		if e, ok := whole[0].Expect[property]; ok && e.Want == string(verdict.Holds) && e.Follows == "" {
			expects = append(expects, property+"=holds")
		}
	}
	draws := outcome.Draws(whole[0].Scenario)
	for i := range draws {
		f := s.runFlags(lock, s.flags.backend, []string{"plan.random.faults=[" + strings.Join(draws[i].Faults, ", ") + "]"},
			append([]string{verdict.ResourceSafety + "=any"}, expects...))
		p, _, err := s.picked(ctx, f, s.on, diceScenario)
		if err != nil {
			return nil, err
		}
		for n := range s.flags.seeds {
			s.bouts = append(s.bouts, bout{pick: p[0], on: s.on, flags: f, n: n, draw: &draws[i]})
		}
	}
	return draws, nil
}

// run does all runs of a card that are on a backend.
func (s *scorer) run(ctx context.Context, lock string, on *stage) {
	var all []*bout
	for i := range s.bouts {
		if s.bouts[i].on == on {
			all = append(all, &s.bouts[i])
		}
	}
	if len(all) == 0 {
		return
	}
	var mu sync.Mutex
	ended, told := 0, time.Now()
	all[0].flags.each(ctx, ctx, on, len(all), func(i int) campaign.Job { return all[i].job(all[i].keep()) }, func(i int, o outcome.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		all[i].out = o
		if ended++; time.Since(told) > 5*time.Second {
			told = time.Now()
			fmt.Fprintf(s.errs, "%s: %d of %d runs on %s done\n", lock, ended, len(all), all[i].flags.backend)
		}
	})
}

// mostAgain is how often a run is made again that was not the same: a library that tosses coins
// of its own may not be.
const mostAgain = 3

// same says whether a run violates what a finding says of it.
func same(f outcome.CardFinding, o outcome.Outcome) bool {
	return !slices.ContainsFunc(f.Harms, func(h outcome.Harm) bool {
		j := o.Of(h.Property)
		return j == nil || j.Got != verdict.Violated || j.Cause != h.Cause
	})
}

// again makes the runs of the findings again, where they can be had again, so that they are
// kept with their reports.
func (s *scorer) again(ctx context.Context, c *outcome.Card) {
	s.cards++
	if s.kept == nil {
		s.kept = map[string]string{}
	}
	for range mostAgain {
		var missing []int // of the findings
		for i, f := range c.Findings {
			if s.bouts[f.Entry].out.Dir == "" && f.Backend == simulation {
				missing = append(missing, i)
			}
		}
		if len(missing) == 0 {
			break
		}
		s.bouts[c.Findings[missing[0]].Entry].flags.each(ctx, ctx, s.on, len(missing), func(i int) campaign.Job { return s.bouts[c.Findings[missing[i]].Entry].job(campaign.KeepAll) },
			func(i int, o outcome.Outcome) {
				if f := c.Findings[missing[i]]; same(f, o) {
					s.bouts[f.Entry].out.Dir = o.Dir
				}
			})
	}
	as := func(dir, name string) string { // one run may show what two findings are about
		if s.kept[dir] == "" {
			s.kept[dir] = name
		}
		return s.kept[dir]
	}
	for i := range c.Findings {
		f := &c.Findings[i]
		name := fmt.Sprintf("%s/%d-%d-%s", suites.RunFolder, s.cards, i+1, strings.ReplaceAll(f.Scenario, "/", "+"))
		if dir := s.bouts[f.Entry].out.Dir; dir != "" {
			f.Run = as(dir, name)
		}
		for _, h := range f.Harms {
			if h.Try == nil || h.Try.State != outcome.StateConfirmed {
				continue
			}
			if dir := s.tries[h.Try.Run].out.Dir; dir != "" && f.Elsewhere == "" {
				f.Elsewhere = as(dir, name+"-"+h.Try.Backend)
			}
		}
	}
}

// try runs what violated a property on the other backend, until it does so there.
func (s *scorer) try(ctx context.Context, lock string, x outcome.Shown) outcome.Try {
	property, from := x.Judgement.Property, s.bouts[x.Run]
	t := outcome.Try{Backend: s.flags.try}
	shows := func(k int) bool {
		o := s.tries[k].out
		got := o.Of(property)
		if got == nil || got.Got != verdict.Violated {
			return false
		}
		t.State, t.Cause, t.Command, t.Run = outcome.StateConfirmed, got.Cause, o.Command, k
		return true
	}
	for _, b := range s.bouts { // of the catalogue there
		had := slices.ContainsFunc(s.tries, func(t tried) bool { return t.run == x.Run })
		if b.on == s.elsewhere && from.draw == nil && b.Exact() == from.Exact() && !had {
			s.tries = append(s.tries, tried{x.Run, b.out})
		}
	}
	for k := range s.tries { // likewise, and of another property
		if s.tries[k].run == x.Run && shows(k) {
			t.Runs = len(s.tries[k].out.Retried) + 1
			return t
		}
	}
	f := s.runFlags(lock, s.flags.try, from.flags.sets, append(slices.Clone(from.flags.expects), property+"=violated"))
	f.seed = x.Outcome.Seed
	fit, not, err := s.picked(ctx, f, s.elsewhere, from.Exact())
	switch {
	case err != nil:
		t.State, t.Why = outcome.CannotRun, display.FirstLine(err.Error())
		return t
	case len(fit) == 0:
		t.State, t.Why = outcome.CannotRun, not[0].why.Error()
		return t
	}
	fmt.Fprintf(s.errs, "%s: %s of %s is tried on %s\n", titled(lock), property, fit[0].ID(), s.flags.try)
	b := bout{pick: fit[0], flags: f}
	b.own = nil // what the control does is known
	t, o := campaign.Try(ctx, s.elsewhere, b.job(campaign.KeepUnexpected), property)
	if t.State == outcome.StateConfirmed {
		t.Run = len(s.tries)
	}
	s.tries = append(s.tries, tried{x.Run, o})
	return t
}

// pictures are the sequence diagrams of the findings, by their runs' names.
func (s *scorer) pictures(all *suites.Scorecards) (map[string]sequence.Diagram, error) {
	dirs := map[string]string{}
	for dir, name := range s.kept {
		dirs[name] = dir
	}
	out := map[string]sequence.Diagram{}
	for _, c := range all.Cards {
		for _, f := range c.Findings {
			if f.Run == "" {
				continue
			}
			stored, err := campaign.OpenStored(dirs[f.Run], known())
			if err != nil {
				return nil, err
			}
			v := checker.Check(stored.History)
			out[f.Run] = sequence.Of(stored.History, v.Result(f.Harms[0].Property))
		}
	}
	return out, nil
}

// printCards prints scorecards for people at a terminal.
func printCards(w io.Writer, all *suites.Scorecards) {
	for i, c := range all.Cards {
		if i > 0 {
			fmt.Fprintln(w)
		}
		printCard(w, c)
	}
}

// indented prints a text, broken into lines that are indented.
func indented(w io.Writer, indent, more int, text string) {
	fmt.Fprintf(w, "%*s%s\n", indent, "", within(width(w)-1, indent, more, text))
}

func printCard(w io.Writer, c *outcome.Card) {
	in := good
	if c.Code() == outcome.ExitUnexpected {
		in = alarm
	} else if c.Code() != outcome.ExitOK {
		in = doubt
	}
	fmt.Fprintln(w, painted(w, in, within(width(w)-1, 0, 0, suites.CardHeadline(c))))
	indented(w, 0, 0, suites.CardBasis(c))
	fmt.Fprintln(w)
	printMatrix(w, c, false)
	if c.Beside != "" {
		fmt.Fprintf(w, "\non %s:\n", c.Beside)
		printMatrix(w, c, true)
	}
	for _, f := range c.Findings {
		printFinding(w, c, f)
	}
	for i, d := range c.Open {
		if i == 0 {
			fmt.Fprintln(w, "\nnot decided:")
		}
		indented(w, 2, 4, fmt.Sprintf("%s: %s: %s", d.Scenario, d.Property, d.Because))
	}
	for i, s := range c.Skipped {
		if i == 0 {
			fmt.Fprintln(w, "\nnot run:")
		}
		indented(w, 2, 4, fmt.Sprintf("%d: %s", len(s.Scenarios), s.Why))
	}
	for _, e := range c.Errors {
		indented(w, 0, 2, "not judged: "+e)
	}
}

// printMatrix prints the marks of a card on one of its backends, without the rows and columns
// in which nothing was judged, which the reasons for what was not run tell of.
func printMatrix(w io.Writer, c *outcome.Card, beside bool) {
	used := map[outcome.Mark]bool{}
	t := table{{"property"}}
	var columns []int
	for k, column := range c.Columns {
		column, there := outcome.SortOfColumn(column)
		if there == beside && slices.ContainsFunc(c.Rows, func(r outcome.CardRow) bool { return ruled(r.Cells[k]) }) {
			columns, t[0] = append(columns, k), append(t[0], column)
		}
	}
	for _, r := range c.Rows {
		if !slices.ContainsFunc(columns, func(k int) bool { return ruled(r.Cells[k]) }) {
			continue
		}
		row := []string{r.Property}
		for _, k := range columns {
			row = append(row, string(r.Cells[k].Mark))
			used[r.Cells[k].Mark] = true
		}
		t = append(t, row)
	}
	if len(t) > 1 {
		printTable(w, narrow(t, width(w)))
		fmt.Fprintln(w)
		indented(w, 0, 0, suites.CardLegend(used))
	}
}

func ruled(x outcome.CardCell) bool { return x.Mark != outcome.Cannot && x.Mark != outcome.Idle }

// narrow cuts the heads of a table whose rows would be too long.
func narrow(t table, width int) table {
	for most := 10; most > 4; most-- {
		long := slices.ContainsFunc(t.lines("", width), func(line string) bool { return strings.Contains(line, "\n") })
		if !long && utf8.RuneCountInString(t.lines("", width)[0]) <= width {
			break
		}
		for i := range t[0] {
			t[0][i] = display.Fit(t[0][i], most)
		}
	}
	return t
}

func printFinding(w io.Writer, c *outcome.Card, f outcome.CardFinding) {
	sign, in := outcome.Alone, doubt
	switch {
	case f.Held && f.Confirmed():
		sign, in = outcome.MarkFailed, alarm
	case f.Held:
		sign = outcome.Unconfirmed
	}
	fmt.Fprintf(w, "\n%s %s, seed %d (%s)\n", painted(w, in, string(sign)), f.Scenario, f.Seed, f.Column)
	for _, h := range f.Harms {
		indented(w, 2, 4, fmt.Sprintf("%s %s: %s", h.Property, h.Cause, h.Because))
		for _, more := range []string{suites.CardTries(h.Try), suites.CardBlame(c, f, h.Property)} {
			if more != "" {
				indented(w, 4, 4, more)
			}
		}
	}
	if own := suites.CardBeside(f); own != "" {
		indented(w, 2, 4, own)
	}
	fmt.Fprintf(w, "  %s\n", f.Command)
}
