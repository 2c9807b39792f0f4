package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/reports/sequence"
	"lockpick/reports/suites"
	"lockpick/scenarios"
	"lockpick/scenarios/outcome"
)

// Scorer puts locks under the catalogue and under random plans, for a scorecard of each.
type Scorer struct {
	Known     scenario.Known
	Claims    map[string]map[string]string // what the documentation of a kind promises of a property
	Base      Selection                    // what all locks have in common, such as tags or an adapter
	Seed      uint64
	Seeds     int               // random plans of each draw
	On        *Runner           // runs everything
	Elsewhere *Runner           // tries again what violates a property; nil: nothing does
	Beside    bool              // Elsewhere runs the catalogue, too
	Store     string            // folder of the runs
	Say       func(line string) // tells how far it is

	kept  map[string]string // folders of the runs that the cards are about, with their paths beside the cards
	runs  []scoredRun       // of the card that is being made; entries of the card have their numbers
	tries []triedRun
	cards int
}

// scoredRun is a run that a card needs.
type scoredRun struct {
	Pick
	on        *Runner
	selection *Selection
	seed      uint64
	draw      *outcome.Draw // nil: the scenario's plan
	out       outcome.Outcome
}

// triedRun is a run that was tried elsewhere.
type triedRun struct {
	run int // of Scorer.runs
	out outcome.Outcome
}

// Card makes the scorecard of one lock, by its name in a Selection. Of one that is interrupted, nothing
// is kept.
func (s *Scorer) Card(ctx context.Context, lock string) (*outcome.Card, error) {
	s.runs, s.tries = nil, nil
	before := maps.Clone(s.kept)
	c, err := s.card(ctx, lock)
	if ctx.Err() != nil {
		s.kept = before
		return nil, ctx.Err()
	}
	return c, err
}

func (s *Scorer) card(ctx context.Context, lock string) (*outcome.Card, error) {
	kind, err := s.selection(lock, s.On).Kind(s.Known)
	if err != nil {
		return nil, err
	}
	title := lock
	if s.Base.Adapter != "" { // the program says what its lock is
		title = s.Known.Kinds[kind].Doc
	}
	c := outcome.NewCard(title, s.Known.Kinds[kind], s.Claims[kind], s.On.Name(), s.Seed)
	err = s.catalogue(c, lock, s.On)
	if err == nil && s.Beside {
		c.Beside = s.Elsewhere.Name()
		err = s.catalogue(c, lock, s.Elsewhere)
	}
	if err != nil {
		return nil, err
	}
	draws, err := s.randomPlans(c, lock)
	if err != nil {
		return nil, err
	}
	s.runAll(ctx, title, s.On)
	s.runAll(ctx, title, s.Elsewhere)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for i, r := range s.runs {
		e := outcome.CardEntry{Scenario: r.Scenario, Outcome: r.out, Draw: r.draw, Run: i}
		if r.draw != nil {
			c.Throw(e, s.Seeds, draws)
		} else {
			c.Add(e)
		}
	}
	c.Settle()
	if s.Elsewhere != nil {
		c.Tried = s.Elsewhere.Name()
		c.Confirm(func(x outcome.Shown) outcome.Try { return s.confirm(ctx, c, lock, x) })
	}
	s.keep(ctx, c)
	return c, nil
}

// selection is what all runs of a lock on a back end have in common.
func (s *Scorer) selection(lock string, on *Runner) *Selection {
	own := s.Base
	own.Lock, own.Backend = lock, on.Name()
	return &own
}

// catalogue adds the runs of the catalogue on a back end.
func (s *Scorer) catalogue(c *outcome.Card, lock string, on *Runner) error {
	chosen := s.selection(lock, on)
	all, err := on.choose(chosen, s.Known)
	skipped(c, all, on)
	for _, p := range all.Picks {
		s.runs = append(s.runs, scoredRun{Pick: p, on: on, selection: chosen, seed: s.Seed})
	}
	return err
}

// skipped tells a card what was not run.
func skipped(c *outcome.Card, all Choice, on *Runner) {
	for _, x := range all.Skipped {
		c.Skip(x.Scenario, on.Name(), x.Why.Error())
	}
}

// randomScenario is the one whose random plans a card has: every lock can be held to it.
const randomScenario = "random-within-assumptions/any-lock"

// randomPlans adds runs of random plans: with all faults, with each sort alone, and without each.
func (s *Scorer) randomPlans(c *outcome.Card, lock string) ([]outcome.Draw, error) {
	if all, _, err := scenarios.Choose([]string{randomScenario}, s.Base.Tags, s.Known, nil); err != nil || len(all) == 0 || s.Seeds == 0 {
		return nil, nil // without the tag
	}
	chosen := s.selection(lock, s.On)
	chosen.Names = []string{randomScenario}
	whole, err := s.On.choose(chosen, s.Known)
	if err != nil {
		return nil, err
	}
	skipped(c, whole, s.On)
	if len(whole.Picks) == 0 {
		return nil, nil
	}
	expects := []string{verdict.ResourceSafety + "=" + wantAny}
	for _, property := range checker.Properties() {
		if e, ok := whole.Picks[0].Expect[property]; ok && e.Want == wantHolds && e.Follows == "" {
			expects = append(expects, property+"="+wantHolds)
		}
	}
	draws := outcome.Draws(whole.Picks[0].Scenario)
	for i := range draws {
		one := *chosen
		one.Sets, one.Expects = []string{"plan.random.faults=[" + strings.Join(draws[i].Faults, ", ") + "]"}, expects
		of, err := s.On.choose(&one, s.Known)
		if err != nil {
			return nil, err
		}
		for n := range s.Seeds {
			s.runs = append(s.runs, scoredRun{Pick: of.Picks[0], on: s.On, selection: &one, seed: s.Seed + uint64(n), draw: &draws[i]})
		}
	}
	return draws, nil
}

func (s *Scorer) job(r *scoredRun, keep Keep) Job {
	return r.on.job(r.selection, r.Pick, r.seed, s.Store, keep)
}

// runAll does all runs that are on a back end. Those of the simulation can be repeated, so that
// none is kept yet.
func (s *Scorer) runAll(ctx context.Context, title string, on *Runner) {
	var all []*scoredRun
	for i := range s.runs {
		if s.runs[i].on == on {
			all = append(all, &s.runs[i])
		}
	}
	if len(all) == 0 {
		return
	}
	keep := KeepNone
	if all[0].selection.realTime() {
		keep = KeepUnexpected
	}
	var mu sync.Mutex
	ended, said := 0, time.Now()
	on.Each(ctx, ctx, len(all), func(i int) Job { return s.job(all[i], keep) }, func(i int, o outcome.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		all[i].out = o
		if ended++; time.Since(said) > 5*time.Second {
			said = time.Now()
			s.Say(fmt.Sprintf("%s: %d of %d runs on %s done", title, ended, len(all), on.Name()))
		}
	})
}

// confirm repeats a run that violated a property on the other back end, until it does so there.
func (s *Scorer) confirm(ctx context.Context, c *outcome.Card, lock string, x outcome.Shown) outcome.Try {
	property, from := x.Judgement.Property, s.runs[x.Run]
	for _, r := range s.runs { // the catalogue may have been run there
		had := slices.ContainsFunc(s.tries, func(t triedRun) bool { return t.run == x.Run })
		if r.on == s.Elsewhere && from.draw == nil && r.Exact() == from.Exact() && !had {
			s.tries = append(s.tries, triedRun{x.Run, r.out})
		}
	}
	for k, t := range s.tries { // or the run may have been tried for another property
		if got := t.out.Of(property); t.run == x.Run && got != nil && got.Got == verdict.Violated {
			return outcome.Try{Backend: c.Tried, State: outcome.StateConfirmed, Runs: len(t.out.Retried) + 1, Cause: got.Cause, Command: t.out.Command, Run: k}
		}
	}
	there := s.selection(lock, s.Elsewhere)
	there.Names, there.Sets, there.Expects = []string{from.Exact()}, from.selection.Sets, append(slices.Clone(from.selection.Expects), property+"="+wantViolated)
	all, err := s.Elsewhere.choose(there, s.Known)
	switch {
	case err != nil:
		return outcome.Try{Backend: c.Tried, State: outcome.CannotRun, Why: display.FirstLine(err.Error())}
	case len(all.Picks) == 0:
		return outcome.Try{Backend: c.Tried, State: outcome.CannotRun, Why: all.Skipped[0].Why.Error()}
	}
	r := scoredRun{Pick: all.Picks[0], on: s.Elsewhere, selection: there, seed: x.Outcome.Seed}
	s.Say(fmt.Sprintf("%s: %s of %s is tried on %s", c.Lock, property, r.ID(), c.Tried))
	r.Control = nil // what comes of the scenario's own lock is known
	t, o := try(ctx, s.Elsewhere.Backend, s.job(&r, KeepUnexpected), property)
	if t.State == outcome.StateConfirmed {
		t.Run = len(s.tries)
	}
	s.tries = append(s.tries, triedRun{x.Run, o})
	return t
}

// mostRepeats is how often a simulated run is made to have it in the store, if it does not come out
// the same: a library that draws random numbers of its own may differ.
const mostRepeats = 3

// keep runs the findings that can be had again until they are in the store with their reports, and
// names the folders of all findings.
func (s *Scorer) keep(ctx context.Context, c *outcome.Card) {
	s.cards++
	var missing []outcome.CardFinding
	for _, f := range c.Findings {
		if s.runs[f.Entry].out.Dir == "" && f.Backend == simulation {
			missing = append(missing, f)
		}
	}
	if len(missing) > 0 {
		w := s.On.Workers.Start()
		defer w.Stop()
		Each(ctx, s.On.Workers.Size, len(missing), func(i int) {
			f := missing[i]
			differs := func(o outcome.Outcome) string {
				if o.Dir == "" || !shows(o, f) {
					return "it does not show the finding"
				}
				return ""
			}
			job := s.job(&s.runs[f.Entry], KeepAll)
			o := retry{mostRepeats - 1, differs}.run(ctx, func([]string) outcome.Outcome { return w.Do(ctx, job) })
			if differs(o) == "" {
				s.runs[f.Entry].out.Dir = o.Dir
			}
		})
	}
	if s.kept == nil {
		s.kept = map[string]string{}
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
		if dir := s.runs[f.Entry].out.Dir; dir != "" {
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

// shows reports whether a run violates what a finding says of it.
func shows(o outcome.Outcome, f outcome.CardFinding) bool {
	return !slices.ContainsFunc(f.Harms, func(h outcome.Harm) bool {
		j := o.Of(h.Property)
		return j == nil || j.Got != verdict.Violated || j.Cause != h.Cause
	})
}

// Write writes cards and the runs of their findings into a folder of a store.
func (s *Scorer) Write(all *suites.Scorecards, store string) (dir string, err error) {
	pictures, err := s.pictures(all)
	if err != nil {
		return "", err
	}
	dir, err = files.Place(store, suites.ScoreFolder, suites.Stamp(time.Now()), func(dir string) error {
		for from, name := range s.kept {
			if err := errors.Join(os.MkdirAll(filepath.Join(dir, suites.RunFolder), 0o755), os.Rename(from, filepath.Join(dir, name))); err != nil {
				return err
			}
		}
		for name, write := range map[string]func(io.Writer) error{
			suites.CardJSON: all.JSON, suites.CardText: all.Markdown,
			suites.CardPage: func(w io.Writer) error { return all.Page(w, pictures) },
		} {
			var text bytes.Buffer
			err := write(&text)
			if err == nil {
				err = files.WriteIn(dir, name, text.Bytes())
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return dir, suites.Index(store)
}

// pictures returns the sequence diagrams of the findings, by the paths of their runs.
func (s *Scorer) pictures(all *suites.Scorecards) (map[string]sequence.Diagram, error) {
	out := map[string]sequence.Diagram{}
	for dir, name := range s.kept {
		for _, c := range all.Cards {
			for _, f := range c.Findings {
				if f.Run != name {
					continue
				}
				run, err := OpenStored(dir, s.Known)
				if err != nil {
					return nil, err
				}
				out[name] = sequence.Of(run.History, checker.Check(run.History).Result(f.Harms[0].Property))
			}
		}
	}
	return out, nil
}
