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

// Scorer runs locks through the catalog and through random plans, and makes a scorecard for each.
type Scorer struct {
	Known     scenario.Known
	Claims    map[string]map[string]string // guarantees in the documentation of each kind, by property
	Base      Selection                    // common to all locks, such as tags or an adapter
	Seed      uint64
	Seeds     int               // number of random plans for each set of faults
	Primary   *Runner           // does all runs
	Secondary *Runner           // reruns violations; nil means no reruns
	RunBoth   bool              // also run the catalog on Secondary
	Store     string            // folder of the runs
	Report    func(line string) // reports progress

	runFolders map[string]string // maps the directories of runs to which the cards refer to their paths relative to the cards
	runs       []scoredRun       // runs of the current card, to which its entries refer by index
	tries      []confirmingRun
	cards      int
}

// scoredRun is a run that counts toward a card.
type scoredRun struct {
	Pick
	runner    *Runner
	selection *Selection
	seed      uint64
	draw      *outcome.FaultSet // nil for the scenario's own plan
	outcome   outcome.Outcome
}

// confirmingRun is a rerun on the other backend.
type confirmingRun struct {
	run     int // index into Scorer.runs
	outcome outcome.Outcome
}

// Card makes the scorecard of one lock, which is named as in a Selection. If Card is interrupted,
// its runs are not stored.
func (s *Scorer) Card(ctx context.Context, lock string) (*outcome.Card, error) {
	s.runs, s.tries = nil, nil
	before := maps.Clone(s.runFolders)
	c, err := s.card(ctx, lock)
	if ctx.Err() != nil {
		s.runFolders = before
		return nil, ctx.Err()
	}
	return c, err
}

func (s *Scorer) card(ctx context.Context, lock string) (*outcome.Card, error) {
	kind, err := s.selection(lock, s.Primary).Kind(s.Known)
	if err != nil {
		return nil, err
	}
	title := lock
	if s.Base.Adapter != "" { // the adapter describes its lock
		title = s.Known.Kinds[kind].Doc
	}
	c := outcome.NewCard(title, s.Known.Kinds[kind], s.Claims[kind], s.Primary.Name(), s.Seed)
	err = s.addCatalog(c, lock, s.Primary)
	if err == nil && s.RunBoth {
		c.SecondBackend = s.Secondary.Name()
		err = s.addCatalog(c, lock, s.Secondary)
	}
	if err != nil {
		return nil, err
	}
	draws, err := s.addRandomPlans(c, lock)
	if err != nil {
		return nil, err
	}
	s.runAll(ctx, title, s.Primary)
	s.runAll(ctx, title, s.Secondary)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for i, r := range s.runs {
		e := outcome.CardEntry{Scenario: r.Scenario, Outcome: r.outcome, FaultSet: r.draw, RunID: i}
		if r.draw != nil {
			c.AddRandom(e, s.Seeds, draws)
		} else {
			c.Add(e)
		}
	}
	c.Finalize()
	if s.Secondary != nil {
		c.RetriedOn = s.Secondary.Name()
		c.Reproduce(func(x outcome.ShownRun) outcome.Reproduction { return s.confirm(ctx, c, lock, x) })
	}
	s.keepRuns(ctx, c)
	return c, nil
}

// selection returns the settings shared by all runs of a lock on a backend.
func (s *Scorer) selection(lock string, on *Runner) *Selection {
	own := s.Base
	own.Lock, own.Backend = lock, on.Name()
	return &own
}

// addCatalog schedules runs of all scenarios in the catalog on a backend.
func (s *Scorer) addCatalog(c *outcome.Card, lock string, on *Runner) error {
	chosen := s.selection(lock, on)
	all, err := on.choose(chosen, s.Known)
	recordSkips(c, all, on)
	for _, p := range all.Picks {
		s.runs = append(s.runs, scoredRun{Pick: p, runner: on, selection: chosen, seed: s.Seed})
	}
	return err
}

// recordSkips adds the skipped scenarios to a card.
func recordSkips(c *outcome.Card, all Choice, on *Runner) {
	for _, x := range all.Skipped {
		c.Skip(x.Scenario, on.Name(), x.Why.Error())
	}
}

// randomScenario is the scenario that provides a card's random plans. It requires only what is
// required of every lock.
const randomScenario = "random-within-assumptions/any-lock"

// addRandomPlans schedules runs with random plans: with all kinds of faults, with each kind alone,
// and with all kinds but one.
func (s *Scorer) addRandomPlans(c *outcome.Card, lock string) ([]outcome.FaultSet, error) {
	if all, _, err := scenarios.Choose([]string{randomScenario}, s.Base.Tags, s.Known, scenario.Overrides{}); err != nil || len(all) == 0 || s.Seeds == 0 {
		return nil, nil // excluded by the tags
	}
	chosen := s.selection(lock, s.Primary)
	chosen.Names = []string{randomScenario}
	whole, err := s.Primary.choose(chosen, s.Known)
	if err != nil {
		return nil, err
	}
	recordSkips(c, whole, s.Primary)
	if len(whole.Picks) == 0 {
		return nil, nil
	}
	expects := []string{verdict.ResourceSafety + "=" + wantAny}
	for _, property := range checker.Properties() {
		if e, ok := whole.Picks[0].Expect[property]; ok && e.Want == wantHolds && e.Follows == "" {
			expects = append(expects, property+"="+wantHolds)
		}
	}
	draws := outcome.FaultSets(whole.Picks[0].Scenario)
	for i := range draws {
		one := *chosen
		one.Sets, one.Expects = []string{"plan.random.faults=[" + strings.Join(draws[i].Faults, ", ") + "]"}, expects
		of, err := s.Primary.choose(&one, s.Known)
		if err != nil {
			return nil, err
		}
		for n := range s.Seeds {
			s.runs = append(s.runs, scoredRun{Pick: of.Picks[0], runner: s.Primary, selection: &one, seed: s.Seed + uint64(n), draw: &draws[i]})
		}
	}
	return draws, nil
}

func (s *Scorer) job(r *scoredRun, keep KeepPolicy) Job {
	return r.runner.job(r.selection, r.Pick, r.seed, s.Store, keep)
}

// runAll does all scheduled runs on a backend. It does not store simulated runs, because they can
// be repeated later.
func (s *Scorer) runAll(ctx context.Context, title string, on *Runner) {
	var all []*scoredRun
	for i := range s.runs {
		if s.runs[i].runner == on {
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
	ended, lastReport := 0, time.Now()
	on.Each(ctx, ctx, len(all), func(i int) Job { return s.job(all[i], keep) }, func(i int, o outcome.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		all[i].outcome = o
		if ended++; time.Since(lastReport) > 5*time.Second {
			lastReport = time.Now()
			s.Report(fmt.Sprintf("%s: %d of %d runs on %s done", title, ended, len(all), on.Name()))
		}
	})
}

// confirm retries a run that violates a property on the other backend, until it violates the
// property there.
func (s *Scorer) confirm(ctx context.Context, c *outcome.Card, lock string, x outcome.ShownRun) outcome.Reproduction {
	property, from := x.Judgement.Property, s.runs[x.RunID]
	for _, r := range s.runs { // the catalog may have run there
		alreadyTried := slices.ContainsFunc(s.tries, func(t confirmingRun) bool { return t.run == x.RunID })
		if r.runner == s.Secondary && from.draw == nil && r.Exact() == from.Exact() && !alreadyTried {
			s.tries = append(s.tries, confirmingRun{x.RunID, r.outcome})
		}
	}
	for k, t := range s.tries { // or the run may have been repeated for another property
		if got := t.outcome.JudgementOf(property); t.run == x.RunID && got != nil && got.Got == verdict.Violated {
			return outcome.Reproduction{Backend: c.RetriedOn, State: outcome.StateConfirmed, Runs: len(t.outcome.Retried) + 1, Cause: got.Cause, Command: t.outcome.Command, RunID: k}
		}
	}
	there := s.selection(lock, s.Secondary)
	there.Names, there.Sets, there.Expects = []string{from.Exact()}, from.selection.Sets, append(slices.Clone(from.selection.Expects), property+"="+wantViolated)
	all, err := s.Secondary.choose(there, s.Known)
	switch {
	case err != nil:
		return outcome.Reproduction{Backend: c.RetriedOn, State: outcome.CannotRun, Why: display.FirstLine(err.Error())}
	case len(all.Picks) == 0:
		return outcome.Reproduction{Backend: c.RetriedOn, State: outcome.CannotRun, Why: all.Skipped[0].Why.Error()}
	}
	r := scoredRun{Pick: all.Picks[0], runner: s.Secondary, selection: there, seed: x.Outcome.Seed}
	s.Report(fmt.Sprintf("%s: retrying %s of %s on %s", c.Lock, property, r.ID(), c.RetriedOn))
	r.Comparison = nil // the comparison run is known already
	t, o := reproduce(ctx, s.Secondary.Backend, s.job(&r, KeepUnexpected), property)
	if t.State == outcome.StateConfirmed {
		t.RunID = len(s.tries)
	}
	s.tries = append(s.tries, confirmingRun{x.RunID, o})
	return t
}

// maxRepeats is how many times a simulated run is repeated in order to store it. Its result may
// differ each time, because a library may draw random numbers of its own.
const maxRepeats = 3

// keepRuns repeats the simulated runs of all findings to store them with their reports, and sets
// the folders of the findings.
func (s *Scorer) keepRuns(ctx context.Context, c *outcome.Card) {
	s.cards++
	var missing []outcome.CardFinding
	for _, f := range c.Findings {
		if s.runs[f.RunID].outcome.Dir == "" && f.Backend == simulation {
			missing = append(missing, f)
		}
	}
	if len(missing) > 0 {
		w := s.Primary.Workers.Start()
		defer w.Stop()
		Each(ctx, s.Primary.Workers.Size, len(missing), func(i int) {
			f := missing[i]
			differs := func(o outcome.Outcome) string {
				if o.Dir == "" || !showsFinding(o, f) {
					return "it does not show the finding"
				}
				return ""
			}
			job := s.job(&s.runs[f.RunID], KeepAll)
			o := retryPolicy{maxRepeats - 1, differs}.run(ctx, func([]string) outcome.Outcome { return w.Do(ctx, job) })
			if differs(o) == "" {
				s.runs[f.RunID].outcome.Dir = o.Dir
			}
		})
	}
	if s.runFolders == nil {
		s.runFolders = map[string]string{}
	}
	assignFolder := func(dir, name string) string { // one run may show two findings
		if s.runFolders[dir] == "" {
			s.runFolders[dir] = name
		}
		return s.runFolders[dir]
	}
	for i := range c.Findings {
		f := &c.Findings[i]
		name := fmt.Sprintf("%s/%d-%d-%s", suites.RunFolder, s.cards, i+1, strings.ReplaceAll(f.Scenario, "/", "+"))
		if dir := s.runs[f.RunID].outcome.Dir; dir != "" {
			f.Run = assignFolder(dir, name)
		}
		for _, h := range f.Violations {
			if h.Reproduction == nil || h.Reproduction.State != outcome.StateConfirmed {
				continue
			}
			if dir := s.tries[h.Reproduction.RunID].outcome.Dir; dir != "" && f.ConfirmingRun == "" {
				f.ConfirmingRun = assignFolder(dir, name+"-"+h.Reproduction.Backend)
			}
		}
	}
}

// showsFinding reports whether a run has all violations of a finding.
func showsFinding(o outcome.Outcome, f outcome.CardFinding) bool {
	return !slices.ContainsFunc(f.Violations, func(h outcome.Violation) bool {
		j := o.JudgementOf(h.Property)
		return j == nil || j.Got != verdict.Violated || j.Cause != h.Cause
	})
}

// Write writes cards, and the runs of their findings, to a folder in a store.
func (s *Scorer) Write(all *suites.Scorecards, store string) (dir string, err error) {
	pictures, err := s.diagrams(all)
	if err != nil {
		return "", err
	}
	dir, err = files.Place(store, suites.ScoreFolder, suites.Stamp(time.Now()), func(dir string) error {
		for from, name := range s.runFolders {
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

// diagrams returns the sequence diagrams of the findings, keyed by the paths of their runs.
func (s *Scorer) diagrams(all *suites.Scorecards) (map[string]sequence.Diagram, error) {
	out := map[string]sequence.Diagram{}
	for dir, name := range s.runFolders {
		for _, c := range all.Cards {
			for _, f := range c.Findings {
				if f.Run != name {
					continue
				}
				run, err := OpenStored(dir, s.Known)
				if err != nil {
					return nil, err
				}
				out[name] = sequence.Of(run.History, checker.Check(run.History).Result(f.Violations[0].Property))
			}
		}
	}
	return out, nil
}
