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

// Scorer runs locks through the catalog and random plans, and makes their scorecards.
type Scorer struct {
	Known     scenario.KnownNames
	Claims    map[string]map[string]string // what the documentation promises, by lock kind and property
	Base      Selection                    // the part that all locks share, such as tags, settings or an adapter
	FirstSeed uint64
	Seeds     int               // random plans per fault set
	Primary   *Runner           // runs everything
	Secondary *Runner           // retries violations; may be nil
	RunBoth   bool              // run the catalog on Secondary too
	Store     string            // folder of the runs
	Report    func(line string) // receives progress messages

	runFolders     map[string]string // directories of the runs that the cards show, with their paths relative to the cards
	runs           []scoredRun       // runs for the current card; a run's index is its RunID
	confirmingRuns []confirmingRun
	cards          int
}

// scoredRun is a run for a card.
type scoredRun struct {
	Pick
	runner    *Runner
	selection *Selection
	seed      uint64
	faultSet  *outcome.FaultSet // faults of the random plan; nil for the scenario's own plan
	outcome   outcome.Outcome
}

// confirmingRun repeats a run on the other backend.
type confirmingRun struct {
	run     int // index into Scorer.runs
	outcome outcome.Outcome
}

// Card makes the scorecard of a lock, which is written as in Selection.Lock. If it is interrupted,
// none of the lock's runs are stored.
func (s *Scorer) Card(ctx context.Context, lock string) (*outcome.Card, error) {
	s.runs, s.confirmingRuns = nil, nil
	savedFolders := maps.Clone(s.runFolders)
	c, err := s.card(ctx, lock)
	if ctx.Err() != nil {
		s.runFolders = savedFolders
		return nil, ctx.Err()
	}
	return c, err
}

func (s *Scorer) card(ctx context.Context, lock string) (*outcome.Card, error) {
	kind, err := s.Selection(lock, s.Primary).Kind(s.Known)
	if err != nil {
		return nil, err
	}
	title := lock
	if s.Base.Adapter != "" { // the adapter describes its lock
		title = s.Known.Kinds[kind].Doc
	}
	c := outcome.NewCard(title, s.Known.Kinds[kind], s.Claims[kind], s.Primary.Name(), s.FirstSeed)
	c.Settings, c.Scale = append(c.Settings, s.Base.Overrides...), s.Base.Scale
	if s.Base.Nodes > 0 && !s.Known.Kinds[kind].OneNode {
		c.Settings = append(c.Settings, fmt.Sprintf("topology.nodes=%d", s.Base.Nodes))
	}
	err = s.addCatalog(c, lock, s.Primary)
	if err == nil && s.RunBoth {
		c.SecondBackend = s.Secondary.Name()
		err = s.addCatalog(c, lock, s.Secondary)
	}
	if err != nil {
		return nil, err
	}
	faultSets, err := s.addRandomPlans(c, lock)
	if err != nil {
		return nil, err
	}
	s.runAll(ctx, title, s.Primary)
	s.runAll(ctx, title, s.Secondary)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for i, r := range s.runs {
		e := outcome.CardEntry{Scenario: r.Scenario, Outcome: r.outcome, FaultSet: r.faultSet, RunID: i}
		if r.faultSet != nil {
			c.AddRandom(e, s.Seeds, faultSets)
		} else {
			c.Add(e)
		}
	}
	c.Finalize()
	if s.Secondary != nil {
		c.RetryBackend = s.Secondary.Name()
		c.Reproduce(func(x outcome.ShownRun) outcome.Reproduction { return s.confirm(ctx, c, x) })
	}
	s.keepRuns(ctx, c)
	return c, nil
}

// Selection returns the selection for a lock on a backend.
func (s *Scorer) Selection(lock string, r *Runner) *Selection {
	selection := s.Base
	selection.SkipUnsuitable = true
	if selection.Lock, selection.Backend = lock, r.Name(); !selection.realTime() {
		selection.Scale = 0
	}
	return &selection
}

// addCatalog schedules all scenarios in the catalog on a backend.
func (s *Scorer) addCatalog(c *outcome.Card, lock string, r *Runner) error {
	selection := s.Selection(lock, r)
	choice, err := r.choose(selection, s.Known)
	recordSkips(c, choice, r)
	for _, p := range choice.Picks {
		s.runs = append(s.runs, scoredRun{Pick: p, runner: r, selection: selection, seed: s.FirstSeed})
	}
	return err
}

// recordSkips adds the skipped scenarios to a card.
func recordSkips(c *outcome.Card, choice Choice, r *Runner) {
	for _, x := range choice.Skipped {
		c.Skip(x.Scenario, r.Name(), x.Reason.Error())
	}
}

// randomScenario provides the random plans. It expects only what every lock must guarantee.
const randomScenario = "random-within-assumptions/any-lock"

// addRandomPlans schedules random plans with all faults, with each kind of failure alone, and with
// all kinds but one. It returns these fault sets.
func (s *Scorer) addRandomPlans(c *outcome.Card, lock string) ([]outcome.FaultSet, error) {
	if all, _, err := scenarios.Choose([]string{randomScenario}, s.Base.Tags, s.Known, scenario.ParseOptions{}); err != nil || len(all) == 0 || s.Seeds == 0 {
		return nil, nil // excluded by the tags
	}
	selection := s.Selection(lock, s.Primary)
	selection.Names = []string{randomScenario}
	allFaults, err := s.Primary.choose(selection, s.Known)
	if err != nil {
		return nil, err
	}
	recordSkips(c, allFaults, s.Primary)
	if len(allFaults.Picks) == 0 {
		return nil, nil
	}
	expects := []string{verdict.ResourceSafety + "=" + wantAny}
	for _, property := range checker.Properties() {
		// Under other settings, the scenario's guarantees depend on the comparison run; see Selection.Job.
		if e, ok := allFaults.Picks[0].Expect[property]; ok && e.Want == wantHolds && e.LeadProperty == "" && len(selection.Overrides) == 0 {
			expects = append(expects, property+"="+wantHolds)
		}
	}
	faultSets := outcome.FaultSets(allFaults.Picks[0].Scenario)
	for i := range faultSets {
		narrowed := *selection
		narrowed.SkipUnsuitable = false // it fits with all faults
		narrowed.Overrides, narrowed.Expectations = append(slices.Clone(selection.Overrides), "plan.random.faults=["+strings.Join(faultSets[i].Faults, ", ")+"]"), expects
		choice, err := s.Primary.choose(&narrowed, s.Known)
		if err != nil {
			return nil, err
		}
		for n := range s.Seeds {
			s.runs = append(s.runs, scoredRun{Pick: choice.Picks[0], runner: s.Primary, selection: &narrowed, seed: s.FirstSeed + uint64(n), faultSet: &faultSets[i]})
		}
	}
	return faultSets, nil
}

func (s *Scorer) job(r *scoredRun, keep KeepPolicy) Job {
	return r.runner.job(r.selection, r.Pick, r.seed, s.Store, keep)
}

// runAll runs everything scheduled on a backend. It does not store simulated runs, because they can
// be repeated.
func (s *Scorer) runAll(ctx context.Context, title string, runner *Runner) {
	var runs []*scoredRun
	for i := range s.runs {
		if s.runs[i].runner == runner {
			runs = append(runs, &s.runs[i])
		}
	}
	if len(runs) == 0 {
		return
	}
	keep := KeepNone
	if runs[0].selection.realTime() {
		keep = KeepUnexpected
	}
	var mu sync.Mutex
	numDone, lastReport := 0, time.Now()
	runner.Each(ctx, ctx, len(runs), func(i int) Job { return s.job(runs[i], keep) }, func(i int, o outcome.Outcome) {
		mu.Lock()
		defer mu.Unlock()
		runs[i].outcome = o
		if numDone++; time.Since(lastReport) > 5*time.Second {
			lastReport = time.Now()
			s.Report(fmt.Sprintf("%s: %d of %d runs on %s done", title, numDone, len(runs), runner.Name()))
		}
	})
}

// confirm retries a violation on the other backend until the property is violated there, or gives
// up.
func (s *Scorer) confirm(ctx context.Context, c *outcome.Card, x outcome.ShownRun) outcome.Reproduction {
	property, original := x.Judgement.Property, s.runs[x.RunID]
	for _, r := range s.runs { // the catalog may have run there too
		alreadyTried := slices.ContainsFunc(s.confirmingRuns, func(t confirmingRun) bool { return t.run == x.RunID })
		if r.runner == s.Secondary && original.faultSet == nil && r.ExactName() == original.ExactName() && !alreadyTried {
			s.confirmingRuns = append(s.confirmingRuns, confirmingRun{x.RunID, r.outcome})
		}
	}
	for k, t := range s.confirmingRuns { // or the run may have been retried for another property
		if got := t.outcome.JudgementOf(property); t.run == x.RunID && got != nil && got.Got == verdict.Violated {
			return outcome.Reproduction{Backend: c.RetryBackend, State: outcome.ReproductionConfirmed, Runs: len(t.outcome.RetryReasons) + 1, Cause: got.Cause, Command: t.outcome.Command, RunID: k}
		}
	}
	selection := s.Selection(original.selection.Lock, s.Secondary)
	selection.Names, selection.Overrides, selection.Expectations = []string{original.ExactName()}, original.selection.Overrides, append(slices.Clone(original.selection.Expectations), property+"="+wantViolated)
	choice, err := s.Secondary.choose(selection, s.Known)
	switch {
	case err != nil:
		return outcome.Reproduction{Backend: c.RetryBackend, State: outcome.ReproductionImpossible, Why: display.FirstLine(err.Error())}
	case len(choice.Picks) == 0:
		return outcome.Reproduction{Backend: c.RetryBackend, State: outcome.ReproductionImpossible, Why: choice.Skipped[0].Reason.Error()}
	}
	r := scoredRun{Pick: choice.Picks[0], runner: s.Secondary, selection: selection, seed: x.Outcome.Seed}
	s.Report(fmt.Sprintf("%s: retrying %s of %s on %s", c.Lock, property, r.ID(), c.RetryBackend))
	r.Comparison = nil // its result is known already
	t, o := reproduce(ctx, s.Secondary.Backend, s.job(&r, KeepUnexpected), property)
	if t.State == outcome.ReproductionConfirmed {
		t.RunID = len(s.confirmingRuns)
	}
	s.confirmingRuns = append(s.confirmingRuns, confirmingRun{x.RunID, o})
	return t
}

// maxRepeats is how often to repeat a simulated run until it shows its finding again, so that it can
// be stored. A library may draw random numbers of its own, so results may differ.
const maxRepeats = 3

// keepRuns repeats the simulated runs of the findings to store them, and sets the findings' folders.
func (s *Scorer) keepRuns(ctx context.Context, c *outcome.Card) {
	s.cards++
	var unstored []outcome.CardFinding
	for _, f := range c.Findings {
		if s.runs[f.RunID].outcome.Dir == "" && f.Backend == simulation {
			unstored = append(unstored, f)
		}
	}
	if len(unstored) > 0 {
		w := s.Primary.Workers.Start()
		defer w.Stop()
		Each(ctx, s.Primary.Workers.Size, len(unstored), func(i int) {
			f := unstored[i]
			mismatch := func(o outcome.Outcome) string {
				if o.Dir == "" || !showsFinding(o, f) {
					return "the run does not show the finding"
				}
				return ""
			}
			job := s.job(&s.runs[f.RunID], KeepAll)
			o := retryPolicy{maxRepeats - 1, mismatch}.run(ctx, func([]string) outcome.Outcome { return w.Do(ctx, job) })
			if mismatch(o) == "" {
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
			if h.Reproduction == nil || h.Reproduction.State != outcome.ReproductionConfirmed {
				continue
			}
			if dir := s.confirmingRuns[h.Reproduction.RunID].outcome.Dir; dir != "" && f.ConfirmingRun == "" {
				f.ConfirmingRun = assignFolder(dir, name+"-"+h.Reproduction.Backend)
			}
		}
	}
}

// showsFinding reports whether a run shows every violation of a finding.
func showsFinding(o outcome.Outcome, f outcome.CardFinding) bool {
	return !slices.ContainsFunc(f.Violations, func(h outcome.Violation) bool {
		j := o.JudgementOf(h.Property)
		return j == nil || j.Got != verdict.Violated || j.Cause != h.Cause
	})
}

// Write writes cards to a new folder in a store and moves the runs they show there.
func (s *Scorer) Write(all *suites.Scorecards, store string) (dir string, err error) {
	diagrams, err := s.diagrams(all)
	if err != nil {
		return "", err
	}
	dir, err = files.CreateUnique(store, suites.ScoreFolder, suites.Stamp(time.Now()), func(dir string) error {
		for from, name := range s.runFolders {
			if err := errors.Join(os.MkdirAll(filepath.Join(dir, suites.RunFolder), 0o755), os.Rename(from, filepath.Join(dir, name))); err != nil {
				return err
			}
		}
		for name, write := range map[string]func(io.Writer) error{
			suites.CardJSON: all.JSON, suites.CardText: all.Markdown,
			suites.CardPage: func(w io.Writer) error { return all.Page(w, diagrams) },
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
	for _, name := range s.runFolders {
		if err := suites.LinkRun(filepath.Join(dir, name)); err != nil {
			return "", err
		}
	}
	return dir, suites.Index(store)
}

// diagrams returns the findings' sequence diagrams by the paths of their runs.
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
				out[name] = sequence.ForResult(run.History, checker.Check(run.History).Result(f.Violations[0].Property))
			}
		}
	}
	return out, nil
}
