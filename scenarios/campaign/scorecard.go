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

// Scorer runs locks through the catalogue and through random plans, and makes a scorecard for each.
type Scorer struct {
	Known     scenario.Known
	Claims    map[string]map[string]string // guarantees in the documentation of each kind, by property
	Base      Selection                    // common to all locks, such as tags or an adapter
	Seed      uint64
	Seeds     int               // random plans for each draw
	On        *Runner           // runs everything
	Elsewhere *Runner           // reruns violations; nil means no reruns
	Beside    bool              // also run the catalogue on Secondary
	Store     string            // folder of the runs
	Say       func(line string) // reports progress

	kept  map[string]string // directories of the runs that the cards refer to, and their paths next to the cards
	runs  []scoredRun       // of the current card; its entries refer to them by index
	tries []triedRun
	cards int
}

// scoredRun is a run for a card.
type scoredRun struct {
	Pick
	on        *Runner
	selection *Selection
	seed      uint64
	draw      *outcome.Draw // nil for the scenario's own plan
	out       outcome.Outcome
}

// triedRun is a rerun on the other backend.
type triedRun struct {
	run int // index into Scorer.runs
	out outcome.Outcome
}

// Card makes the scorecard of one lock, named as in a Selection. If it is interrupted, its runs are
// not stored.
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
	if s.Base.Adapter != "" { // the adapter describes its lock
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

// selection returns the common settings of all runs of a lock on a backend.
func (s *Scorer) selection(lock string, on *Runner) *Selection {
	own := s.Base
	own.Lock, own.Backend = lock, on.Name()
	return &own
}

// catalogue adds the runs of the catalogue on a backend.
func (s *Scorer) catalogue(c *outcome.Card, lock string, on *Runner) error {
	chosen := s.selection(lock, on)
	all, err := on.choose(chosen, s.Known)
	skipped(c, all, on)
	for _, p := range all.Picks {
		s.runs = append(s.runs, scoredRun{Pick: p, on: on, selection: chosen, seed: s.Seed})
	}
	return err
}

// recordSkips adds the skipped scenarios to a card.
func skipped(c *outcome.Card, all Choice, on *Runner) {
	for _, x := range all.Skipped {
		c.Skip(x.Scenario, on.Name(), x.Why.Error())
	}
}

// randomScenario provides the random plans of a card. It requires only what is required of every
// lock.
const randomScenario = "random-within-assumptions/any-lock"

// randomPlans adds runs with random plans: with all kinds of faults, with each kind alone, and with
// all but one.
func (s *Scorer) randomPlans(c *outcome.Card, lock string) ([]outcome.Draw, error) {
	if all, _, err := scenarios.Choose([]string{randomScenario}, s.Base.Tags, s.Known, nil); err != nil || len(all) == 0 || s.Seeds == 0 {
		return nil, nil // excluded by the tags
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

// runAll runs everything on a backend. Simulated runs can be repeated, so it does not store them
// yet.
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

// confirm repeats a violating run on the other backend until it violates the property there.
func (s *Scorer) confirm(ctx context.Context, c *outcome.Card, lock string, x outcome.Shown) outcome.Try {
	property, from := x.Judgement.Property, s.runs[x.Run]
	for _, r := range s.runs { // the catalogue may have run there
		had := slices.ContainsFunc(s.tries, func(t triedRun) bool { return t.run == x.Run })
		if r.on == s.Elsewhere && from.draw == nil && r.Exact() == from.Exact() && !had {
			s.tries = append(s.tries, triedRun{x.Run, r.out})
		}
	}
	for k, t := range s.tries { // or the run may have been repeated for another property
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
	s.Say(fmt.Sprintf("%s: retrying %s of %s on %s", c.Lock, property, r.ID(), c.Tried))
	r.Control = nil // the comparison run is known already
	t, o := try(ctx, s.Elsewhere.Backend, s.job(&r, KeepUnexpected), property)
	if t.State == outcome.StateConfirmed {
		t.Run = len(s.tries)
	}
	s.tries = append(s.tries, triedRun{x.Run, o})
	return t
}

// maxRepeats is how often a simulated run is repeated to store it, if its result differs: a library
// may draw random numbers of its own.
const mostRepeats = 3

// keepRuns repeats the simulated findings to store them with their reports, and sets the folders of
// all findings.
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
	as := func(dir, name string) string { // one run may show two findings
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

// showsFinding reports whether a run has all violations of a finding.
func shows(o outcome.Outcome, f outcome.CardFinding) bool {
	return !slices.ContainsFunc(f.Harms, func(h outcome.Harm) bool {
		j := o.Of(h.Property)
		return j == nil || j.Got != verdict.Violated || j.Cause != h.Cause
	})
}

// Write writes cards and the runs of their findings to a folder of a store.
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
