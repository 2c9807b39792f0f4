package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"lockpick/checker"
	"lockpick/docker"
	"lockpick/harness"
	lockexec "lockpick/harness/lock/exec"
	"lockpick/harness/lock/kinds"
	"lockpick/reports/display"
	"lockpick/reports/sequence"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

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

// try does a job, again where it does not violate the property, and says what came of that. Where
// the machine failed, which says nothing of the lock, it has another chance.
func (s *stage) try(ctx context.Context, j campaign.Job, property string) (t outcome.Try, o outcome.Outcome) {
	t.Backend = s.Name()
	for range 2 {
		o = campaign.Execute(ctx, s, j)
		if t.Runs += len(o.Retried) + 1; o.Code != outcome.ExitBackend || ctx.Err() != nil {
			break
		}
	}
	t.State, t.Command, t.Why = outcome.NotConfirmed, o.Command, display.FirstLine(o.Error)
	switch got := o.Of(property); {
	case got == nil:
	case got.Got == checker.Violated:
		t.State, t.Cause, t.Why = outcome.StateConfirmed, got.Cause, ""
	default:
		t.Why = display.Join("; ", t.Why, got.Because)
	}
	return t, o
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
		if e, ok := whole[0].Expect[property]; ok && e.Want == string(checker.Holds) && e.Follows == "" {
			expects = append(expects, property+"=holds")
		}
	}
	draws := outcome.Draws(whole[0].Scenario)
	for i := range draws {
		f := s.runFlags(lock, s.flags.backend, []string{"plan.random.faults=[" + strings.Join(draws[i].Faults, ", ") + "]"},
			append([]string{checker.ResourceSafety + "=any"}, expects...))
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
		return j == nil || j.Got != checker.Violated || j.Cause != h.Cause
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
		if got == nil || got.Got != checker.Violated {
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
	t, o := s.elsewhere.try(ctx, b.job(campaign.KeepUnexpected), property)
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
