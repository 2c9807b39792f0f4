package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/client"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/reports/suites"
	"lockpick/scenarios"
	"lockpick/scenarios/outcome"
)

// Assessor answers whether a lock is safe with given settings in a given environment. It first
// tests each hazard at the size that the environment allows. While its time lasts, it runs the
// catalog and random plans with the same settings, finds the sizes at which the lock breaks, and
// searches for changes that help.
type Assessor struct {
	Runner       *Runner
	Known        scenario.KnownNames
	Base         Selection // the adapter, the backend and the scale
	OneWay       client.Range
	Deployment   outcome.Deployment
	Environment  Environment
	Alternatives []Alternative
	FirstSeed    uint64
	Seeds        int           // per value
	Budget       time.Duration // no measurement starts later; 0 means no limit
	Store        string        // folder for the results
	Command      string        // repeats the assessment
	Log          io.Writer     // receives progress messages

	execute  func(context.Context, Job) outcome.Outcome // runs a job; Run sets it unless a test has
	parallel int                                        // number of concurrent runs
	result   *outcome.Assessment
	folder   string // of the result
	catalog  catalogRuns
	deadline time.Time
	cutShort bool // something was left out

	mu           sync.Mutex // protects the fields below
	liveProgress *display.Progress
	status       string
	runs         int
}

// Alternative is a deployment to compare with the one under test.
type Alternative struct {
	Label string
	outcome.Deployment
}

// measurement is a bound while it is being measured.
type measurement struct {
	conditions
	hazard
	experiment
	bound *outcome.Bound
}

// notApplicable explains why an experiment can't be made with a lock or on a backend.
type notApplicable struct{ error }

// Run makes the assessment and writes it to a new folder in the store, whose path it returns.
func (x *Assessor) Run(ctx context.Context) (*outcome.Assessment, string, error) {
	start := time.Now()
	folder, err := createFolder(filepath.Join(x.Store, suites.AssessmentFolder), suites.Stamp(start))
	if err != nil {
		return nil, "", withKind(storeFailed, err)
	}
	x.folder = folder
	defer os.Remove(x.folder) // fails unless the assessment ended early and left the folder empty
	if x.Budget > 0 {
		x.deadline = start.Add(x.Budget)
	}
	defer x.startWorkers()()
	x.liveProgress = &display.Progress{W: x.Log, Mu: &x.mu, StartTime: start, Text: func(elapsed time.Duration) string {
		return fmt.Sprintf("%s, %s, %.0f s", x.status, display.Plural(x.runs, "run"), elapsed.Seconds())
	}}
	defer x.liveProgress.Start()()
	x.result = &outcome.Assessment{Schema: outcome.AssessmentSchema, Deployment: x.Deployment, Topology: display.Plural(x.Deployment.Nodes, "node"), Backend: x.Base.Backend, Named: x.Environment.Hazards != nil,
		FirstSeed: x.FirstSeed, Seeds: x.Seeds, Command: x.Command, Version: x.Runner.Version}
	if x.Base.Adapter != "" {
		x.result.Deployment.Lock = x.Known.Kinds[x.Deployment.Lock].Doc
	}
	if !x.simulated() {
		x.result.Scale = cmp.Or(x.Base.Scale, RealScale)
	}
	for _, a := range x.Alternatives {
		x.result.Alternatives = append(x.result.Alternatives, a.Label)
	}
	if err := x.assess(ctx); err != nil {
		return nil, "", err
	}
	x.result.Runs, x.result.Seconds = x.runs, time.Since(start).Seconds()
	x.result.Conclude()
	return x.result, x.folder, withKind(storeFailed, suites.WriteAssessment(x.folder, x.result))
}

// createFolder creates a folder. If the name is taken, it appends a number.
func createFolder(parent, name string) (folder string, err error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", err
	}
	folder = filepath.Join(parent, name)
	err = os.Mkdir(folder, 0o755)
	for n := 2; errors.Is(err, fs.ErrExist); n++ {
		folder = filepath.Join(parent, fmt.Sprintf("%s-%d", name, n))
		err = os.Mkdir(folder, 0o755)
	}
	return folder, err
}

// startWorkers prepares for running jobs. stop ends the workers.
func (x *Assessor) startWorkers() (stop func()) {
	switch {
	case x.execute != nil:
	case x.simulated():
		w := x.Runner.Workers.Start()
		x.execute, x.parallel = w.Do, cap(w.Idle)
		return w.Stop
	default:
		x.execute = func(ctx context.Context, j Job) outcome.Outcome { return Execute(ctx, x.Runner.Backend, j) }
		x.parallel = x.Runner.Parallel
	}
	return func() {}
}

func (x *Assessor) simulated() bool { return x.Base.Backend == simulation }

func (x *Assessor) conditions(d outcome.Deployment) conditions {
	return conditions{Deployment: d, Environment: x.Environment, OneWay: x.OneWay, Coarse: !x.simulated()}
}

// assess takes the steps in the order of their importance, until the budget is used up.
func (x *Assessor) assess(ctx context.Context) error {
	c := x.conditions(x.Deployment)
	all := map[string][]*measurement{}
	for _, h := range hazards {
		if h.name == "restart" && c.Persistence != scenario.PersistNone {
			h.title = "Node restart" // with its data
		}
		row := &outcome.HazardRow{Name: h.name, Title: h.title, Verdict: outcome.HazardNotAssumed}
		x.result.Hazards = append(x.result.Hazards, row)
		if !x.Environment.Assumes(h.name) {
			continue
		}
		row.Limit = h.limit(c)
		row.Assumed = h.assumed(c, row.Limit)
		row.Advice = h.advice
		var err error
		if all[h.name], err = x.testLimit(ctx, h, c, row); err != nil {
			return err
		}
	}
	if err := x.catalog.run(ctx, x, c); err != nil {
		return err
	}
	if err := x.runRandomPlans(ctx, c); err != nil {
		return err
	}
	changes := func(ctx context.Context, h hazard, c conditions, row *outcome.HazardRow, _ []*measurement) error {
		return findChanges(ctx, x, h, c, row)
	}
	for _, step := range []func(context.Context, hazard, conditions, *outcome.HazardRow, []*measurement) error{changes, x.refineRow, x.measureFenced, x.compare} {
		for _, h := range hazards {
			if row := x.result.Row(h.name); len(all[h.name]) > 0 {
				if err := step(ctx, h, c, row, all[h.name]); err != nil {
					return err
				}
			}
		}
	}
	if x.result.NeedsChange() {
		var assumed []hazard
		for _, h := range hazards {
			if len(all[h.name]) > 0 {
				assumed = append(assumed, h)
			}
		}
		if err := combineChanges(ctx, x, c, assumed); err != nil {
			return err
		}
	}
	if x.cutShort {
		x.result.Notes = append(x.result.Notes, fmt.Sprintf("The time budget of %v is used up, so some bounds, columns or changes are missing; raise --budget to measure them.", x.Budget))
	}
	return nil
}

// late reports whether the budget is used up, so that the caller must leave something out.
func (x *Assessor) late() bool {
	isLate := !x.deadline.IsZero() && time.Now().After(x.deadline)
	x.cutShort = x.cutShort || isLate
	return isLate
}

// testLimit tests a hazard at the size that the environment allows, and fills in the row's verdict.
func (x *Assessor) testLimit(ctx context.Context, h hazard, c conditions, row *outcome.HazardRow) (all []*measurement, err error) {
	x.setStatus(h.title)
	for _, e := range h.experiments(c.Fence) {
		m := x.newMeasurement(h, e, c)
		if x.late() {
			if len(all) > 0 {
				x.decide(row, all)
			}
			if row.Verdict != outcome.HazardAtRisk {
				row.Verdict, row.Reason, all = outcome.HazardNotTested, "the time budget was used up", nil
			}
			return all, nil
		}
		if err := x.try(ctx, m, m.bound.Limit); err != nil {
			if reason, ok := errors.AsType[notApplicable](err); ok {
				row.Verdict, row.Reason = outcome.HazardNotTested, reason.Error()
				return nil, nil
			}
			return nil, err
		}
		all = append(all, m)
	}
	x.decide(row, all)
	return all, nil
}

// decide sets a row's verdict and bound from its measurements: the worst verdict counts.
func (x *Assessor) decide(row *outcome.HazardRow, all []*measurement) {
	rank := []string{outcome.HazardSafe, outcome.HazardNotTested, outcome.HazardInconclusive, outcome.HazardAtRisk}
	decisive := all[0]
	for _, m := range all[1:] {
		if slices.Index(rank, m.bound.Verdict()) > slices.Index(rank, decisive.bound.Verdict()) {
			decisive = m
		}
	}
	row.Bound, row.Verdict, row.Reason = decisive.bound, decisive.bound.Verdict(), ""
	if row.Verdict == outcome.HazardInconclusive {
		row.Reason = cmp.Or(display.FirstLine(decisive.bound.Failure()), "no run gave the lock a chance to break")
	}
}

func (x *Assessor) newMeasurement(h hazard, e experiment, c conditions) *measurement {
	limit := h.limit(c)
	b := &outcome.Bound{Subject: h.subject, Noun: h.noun, Property: e.property, Unit: h.unit, LessIsWorse: h.lessIsWorse, Limit: limit, Coarse: !x.simulated()}
	if e.edge != nil && c.predictable() && x.simulated() {
		b.Predicted, b.Edge = true, e.edge(c)
	}
	return &measurement{conditions: c, hazard: h, experiment: e, bound: b}
}

// try runs an experiment with one value and all seeds, unless a value close to it was tried before.
func (x *Assessor) try(ctx context.Context, m *measurement, value float64) error {
	_, _, step := m.span(m.conditions, m.bound.Limit)
	if slices.ContainsFunc(m.bound.Points, func(p outcome.BoundPoint) bool { return math.Abs(p.Value-value) < step/2 }) {
		return nil
	}
	p, err := x.measure(ctx, m, value)
	if err == nil {
		m.bound.Add(p)
	}
	return err
}

func (x *Assessor) measure(ctx context.Context, m *measurement, value float64) (outcome.BoundPoint, error) {
	p := outcome.BoundPoint{Value: value, NumRuns: x.Seeds}
	s, err := m.hazard.scenario(m.experiment, m.conditions, value, x.Known)
	if err != nil {
		return p, withKind(NotMeasurable, fmt.Errorf("%s: %w", m.name, err))
	}
	selection, pick, err := x.prepare(s, m.Lock)
	if err != nil {
		return p, err
	}
	for i, o := range x.do(ctx, selection, pick, x.Seeds, nil) {
		addToPoint(&p, m.property, x.FirstSeed+uint64(i), o)
	}
	return p, ctx.Err()
}

// prepare applies the lock and the scale to a scenario.
func (x *Assessor) prepare(s scenario.Scenario, lock string) (*Selection, Pick, error) {
	selection := x.Base
	selection.Lock, selection.Scenarios = lock, []scenarios.Found{{File: s.Name, Scenario: s}}
	c, err := x.Runner.choose(&selection, x.Known)
	switch {
	case err != nil:
		return nil, Pick{}, err
	case len(c.Skipped) > 0:
		return nil, Pick{}, notApplicable{c.Skipped[0].Reason}
	}
	return &selection, c.Picks[0], nil
}

// do runs a scenario with n seeds. change may change each job. It runs no comparison, because
// nothing is expected.
func (x *Assessor) do(ctx context.Context, selection *Selection, p Pick, n int, change func(*Job)) []outcome.Outcome {
	p.Comparison = nil
	return x.doJobs(ctx, n, func(i int) Job {
		j := x.Runner.job(selection, p, x.FirstSeed+uint64(i), x.Store, KeepNone)
		if !x.simulated() {
			j.Keep = KeepUnexpected // stores violations, which can't be reproduced
		}
		if change != nil {
			change(&j)
		}
		return j
	})
}

func (x *Assessor) doJobs(ctx context.Context, n int, job func(i int) Job) []outcome.Outcome {
	outcomes := make([]outcome.Outcome, n)
	Each(ctx, x.parallel, n, func(i int) { outcomes[i] = x.execute(ctx, job(i)) })
	x.mu.Lock()
	defer x.mu.Unlock()
	x.runs += n
	for _, o := range outcomes {
		x.result.Server = cmp.Or(x.result.Server, outcome.DescribeServer(o.Backend, o.Server))
	}
	return outcomes
}

func (x *Assessor) setStatus(text string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.status = text
}

func addToPoint(p *outcome.BoundPoint, property string, seed uint64, o outcome.Outcome) {
	got, cause := propertyOutcome(property, o)
	switch got {
	case verdict.Violated:
		p.NumViolated++
		if p.NumViolated == 1 {
			p.Seed, p.Cause, p.Dir = seed, cause, o.Dir
		}
	case verdict.NotExercised:
		p.NumUnexercised++
	case verdict.Holds:
	default:
		p.NumFailed++
		if j := o.JudgementOf(property); p.Error == "" && o.Error == "" && j != nil {
			p.Error = j.Because
		} else if p.Error == "" {
			p.Error = o.Error
		}
	}
}

// propertyOutcome returns a property's outcome in a run and the cause of its violation.
func propertyOutcome(property string, o outcome.Outcome) (got verdict.Outcome, cause string) {
	if j := o.JudgementOf(property); j != nil && j.Number == nil {
		return j.Got, j.Cause
	}
	return verdict.Undecided, ""
}

// gridSize is the number of evenly spaced values to try first. They reveal a property that breaks at
// one value but holds at a worse one, which bisection alone would miss. On real servers, where each
// run takes seconds, only coarseGridSize values are tried, without bisection.
const gridSize, coarseGridSize = 9, 4

// refine tries values until the bound is known to within tolerance steps, or time is up.
func (x *Assessor) refine(ctx context.Context, m *measurement, tolerance float64) error {
	low, high, step := m.span(m.conditions, m.bound.Limit)
	snap := func(v float64) float64 { return math.Round(math.Round(v/step)*step*1e6) / 1e6 }
	size := gridSize
	if m.bound.Coarse {
		size = coarseGridSize
	}
	intervals := min(size-1, int(math.Round((high-low)/step)))
	for i := range intervals + 1 {
		if x.late() {
			return nil
		}
		if err := x.try(ctx, m, snap(low+(high-low)*float64(i)/float64(intervals))); err != nil {
			return err
		}
	}
	// Stop when the middle value adds nothing, because no run exercised the property.
	for b, numPoints := m.bound, 0; !b.Coarse && !x.late() && len(b.Points) > numPoints && b.LastSafe != nil && b.FirstUnsafe != nil && math.Abs(*b.FirstUnsafe-*b.LastSafe) > tolerance*step; {
		numPoints = len(b.Points)
		if err := x.try(ctx, m, snap((*b.LastSafe+*b.FirstUnsafe)/2)); err != nil {
			return err
		}
	}
	m.bound.Agrees = m.bound.MatchesPrediction(step)
	return nil
}

// exact and rough are the tolerances of a search, in steps.
const exact, rough = 1.5, 40

// refineRow finds the exact bounds of a hazard, samples beyond them, where violations become certain,
// and stores a counterexample.
func (x *Assessor) refineRow(ctx context.Context, h hazard, _ conditions, row *outcome.HazardRow, all []*measurement) error {
	x.setStatus(h.title + ": searching for the bound")
	for _, m := range all {
		if err := x.refine(ctx, m, exact); err != nil {
			return err
		}
		low, high, step := m.span(m.conditions, m.bound.Limit)
		for i := 0; i < 4 && m.bound.FirstUnsafe != nil && !m.bound.Coarse && !x.late(); i++ {
			v := *m.bound.FirstUnsafe + m.bound.Direction()*step*math.Pow(3, float64(i))
			if v = math.Round(v*1e6) / 1e6; v < low || v > high {
				break
			}
			if err := x.try(ctx, m, v); err != nil {
				return err
			}
		}
		if d := m.bound.Disagrees(); d != "" && !x.late() {
			x.result.Disagreement = append(x.result.Disagreement, d)
		}
	}
	atRisk := row.Verdict == outcome.HazardAtRisk
	x.decide(row, all)
	if atRisk { // the catalog may have shown it
		row.Verdict = outcome.HazardAtRisk
	}
	return x.storeCounterexample(ctx, h.name, all, row.Bound)
}

// storeCounterexample runs the mildest value that breaks the lock once more, and stores the run and
// its scenario.
func (x *Assessor) storeCounterexample(ctx context.Context, name string, all []*measurement, b *outcome.Bound) error {
	if b.FirstUnsafe == nil {
		return nil
	}
	p := b.At(*b.FirstUnsafe)
	if !x.simulated() {
		b.Dir = x.relative(p.Dir)
		return nil
	}
	m := all[slices.IndexFunc(all, func(m *measurement) bool { return m.bound == b })]
	s, err := m.hazard.scenario(m.experiment, m.conditions, p.Value, x.Known)
	if err != nil {
		return err
	}
	_, pick, err := x.prepare(s, m.Lock)
	if err != nil {
		return err
	}
	if m.Fence {
		name += "-fenced"
	}
	b.File = name + ".yaml"
	b.Command, b.Dir, err = x.storeRun(ctx, pick.Scenario, p.Seed, b.File)
	return err
}

// storeRun writes a scenario to a file in the assessment's folder, runs it and stores the run. It
// returns the command that repeats the run, and its directory.
func (x *Assessor) storeRun(ctx context.Context, s scenario.Scenario, seed uint64, file string) (command, dir string, err error) {
	text, err := scenario.Write(s, "", x.Known)
	if err == nil {
		err = files.WriteIn(x.folder, file, text)
	}
	if err != nil {
		return "", "", withKind(storeFailed, err)
	}
	command = fmt.Sprintf("lockpick run %s --seed %d", display.ShellQuote(filepath.Join(x.folder, file)), seed)
	o := x.doJobs(ctx, 1, func(int) Job {
		return Job{Scenario: s, Seed: seed, Backend: simulation, Store: x.Store, Keep: KeepAll, Version: x.Runner.Version, Command: command}
	})[0]
	return command, x.relative(o.Dir), ctx.Err()
}

// relative returns a run directory relative to the assessment's folder, or "".
func (x *Assessor) relative(dir string) string {
	rel, err := filepath.Rel(x.folder, dir)
	if dir == "" || err != nil {
		return ""
	}
	return filepath.ToSlash(rel)
}

// measureFenced measures the same hazard with fencing tokens.
func (x *Assessor) measureFenced(ctx context.Context, h hazard, c conditions, row *outcome.HazardRow, _ []*measurement) error {
	switch {
	case c.Fence:
		row.NotFenced = "already on"
		return nil
	case !x.Known.Kinds[c.kind()].Can.Fence:
		row.NotFenced = "this lock has none"
		return nil
	}
	c.Fence = true
	x.setStatus(h.title + " with fencing")
	fenced, all, err := x.measureRoughly(ctx, h, c)
	if err != nil || len(all) == 0 {
		row.NotFenced = cmp.Or(fenced.Reason, "not measured")
		return err
	}
	row.Fenced = fenced.Bound
	return x.storeCounterexample(ctx, h.name, all, fenced.Bound)
}

// compare measures a hazard with each alternative deployment.
func (x *Assessor) compare(ctx context.Context, h hazard, _ conditions, row *outcome.HazardRow, _ []*measurement) error {
	for _, a := range x.Alternatives {
		x.setStatus(h.title + " with " + a.Label)
		other, _, err := x.measureRoughly(ctx, h, x.conditions(a.Deployment))
		if err != nil {
			return err
		}
		row.Alternatives = append(row.Alternatives, other.Bound)
	}
	return nil
}

// measureRoughly tests a hazard at its limit and finds its approximate bound.
func (x *Assessor) measureRoughly(ctx context.Context, h hazard, c conditions) (*outcome.HazardRow, []*measurement, error) {
	row := &outcome.HazardRow{Name: h.name}
	all, err := x.testLimit(ctx, h, c, row)
	for _, m := range all {
		if err := x.refine(ctx, m, rough); err != nil {
			return row, nil, err
		}
	}
	if len(all) > 0 {
		x.decide(row, all)
	}
	return row, all, err
}

// catalogRuns are the runs of the catalog with the settings under test.
type catalogRuns struct {
	failed map[string][]scenarios.Found // scenarios that count against a hazard, by its name
}

// run runs the catalog with the settings under test. A scenario's own lock runs with the same
// settings, so that a lock is only blamed for what that lock survives.
func (r *catalogRuns) run(ctx context.Context, x *Assessor, c conditions) error {
	if !x.simulated() {
		x.result.Notes = append(x.result.Notes, "The catalog was not run, because it takes minutes on real servers; use lockpick run for it.")
		return nil
	}
	x.setStatus("catalog")
	sum := &outcome.CatalogSummary{}
	selection, choice, err := r.choose(x, c.Deployment, nil)
	if err != nil || x.late() {
		return err
	}
	sum.Skipped, r.failed = len(choice.Skipped), map[string][]scenarios.Found{}
	for i, o := range r.runPicks(ctx, x, selection, choice.Picks, KeepUnexpected) {
		r.add(x, sum, c, choice.Picks[i], o)
	}
	x.result.Catalog = sum
	return ctx.Err()
}

// choose applies a deployment to scenarios of the catalog, or to all of them if names is nil.
func (catalogRuns) choose(x *Assessor, d outcome.Deployment, names []string) (Selection, Choice, error) {
	selection := x.Base
	selection.Names, selection.Lock, selection.Nodes, selection.SkipUnsuitable = names, d.Lock, d.Nodes, true
	selection.Overrides = []string{"lock.ttl=" + d.TTL.String(), fmt.Sprintf("lock.drift=%g%%", 100*d.Drift)}
	choice, err := x.Runner.choose(&selection, x.Known)
	return selection, choice, err
}

func (catalogRuns) runPicks(ctx context.Context, x *Assessor, selection Selection, picks []Pick, keep KeepPolicy) []outcome.Outcome {
	return x.doJobs(ctx, len(picks), func(i int) Job { return x.Runner.job(&selection, picks[i], x.FirstSeed, x.Store, keep) })
}

// safetyViolations describes the unexpected violations of safety in a run. With fencing tokens, the
// resource decides.
func safetyViolations(o outcome.Outcome, fence bool) (all []string) {
	for _, property := range []string{verdict.MutualExclusion, verdict.ResourceSafety} {
		if j := o.JudgementOf(property); j != nil && !j.AsExpected && j.Got == verdict.Violated && !(fence && property == verdict.MutualExclusion) {
			all = append(all, fmt.Sprintf("%s: %s (%s)", o.Scenario, property, j.Cause))
		}
	}
	return all
}

// add counts a run. A violation of safety counts against every hazard in the scenario, if
// all of its faults stay within the environment.
func (r *catalogRuns) add(x *Assessor, sum *outcome.CatalogSummary, c conditions, p Pick, o outcome.Outcome) {
	sum.Runs++
	if o.Code == outcome.ExitUndecided || o.Error != "" {
		sum.Inconclusive++
	}
	var violations []outcome.CatalogViolation
	for _, text := range safetyViolations(o, c.Fence) {
		violations = append(violations, outcome.CatalogViolation{Text: text, Dir: x.relative(o.Dir)})
	}
	s := p.Scenario.WithRandomPlan(x.FirstSeed)
	if len(violations) > 0 && !c.within(s) {
		sum.Outside = append(sum.Outside, violations...)
		return
	}
	sum.Violations = append(sum.Violations, violations...)
	for _, name := range hazardsOf(s) {
		if row := x.result.Row(name); len(violations) > 0 {
			row.Verdict, row.CatalogViolations = outcome.HazardAtRisk, append(row.CatalogViolations, violations...)
			r.failed[name] = append(r.failed[name], p.Found)
		}
	}
}

// Seeds for random plans.
const (
	randomSeeds     = 100
	realRandomSeeds = 3
)

// runRandomPlans combines the hazards in random plans: those of the environment, and without limits.
func (x *Assessor) runRandomPlans(ctx context.Context, c conditions) error {
	x.setStatus("random plans")
	var assumed []string
	for _, name := range HazardNames() {
		if row := x.result.Row(name); row.Verdict != outcome.HazardNotAssumed && row.Verdict != outcome.HazardNotTested {
			assumed = append(assumed, name)
		}
	}
	for _, inside := range []bool{true, false} {
		names := assumed
		if !inside {
			names = HazardNames()
		}
		if len(names) == 0 || x.late() {
			continue
		}
		runs, err := x.randomPlans(ctx, c, names, inside)
		if _, ok := errors.AsType[notApplicable](err); ok {
			continue
		}
		if err != nil {
			return err
		}
		x.result.RandomPlans = append(x.result.RandomPlans, runs)
	}
	return nil
}

// randomPlans runs random plans that combine hazards. It stores a violation unless the deployment is a
// suggested one.
func (x *Assessor) randomPlans(ctx context.Context, c conditions, names []string, inside bool) (runs outcome.RandomRuns, err error) {
	runs = outcome.RandomRuns{Inside: inside, Runs: randomSeeds}
	if !x.simulated() {
		runs.Runs = realRandomSeeds
	}
	s, err := c.randomScenario(names, x.Known)
	if err != nil {
		return runs, withKind(NotMeasurable, err)
	}
	selection, pick, err := x.prepare(s, c.Lock)
	if err != nil {
		return runs, err
	}
	scale := 1.0
	if !x.simulated() {
		scale = x.result.Scale
	}
	limits := c.scaled(scale)
	draw := func(j *Job) {
		j.Scenario = j.Scenario.WithRandomPlan(j.Seed)
		if inside {
			j.Scenario.Plan = limits.confine(j.Scenario.Plan)
		}
	}
	first := -1
	outcomes := x.do(ctx, selection, pick, runs.Runs, draw)
	for i, o := range outcomes {
		safety, cause := propertyOutcome(verdict.ResourceSafety, o)
		if got, why := propertyOutcome(verdict.MutualExclusion, o); got == verdict.Violated && !c.Fence {
			safety, cause = got, why
		}
		switch safety {
		case verdict.Violated:
			if runs.Violated++; first < 0 {
				first, runs.Cause = i, cause
			}
		case verdict.Undecided:
			if runs.Undecided++; runs.Reason == "" {
				runs.Reason = o.Error
				if j := o.JudgementOf(verdict.ResourceSafety); j != nil {
					runs.Reason = j.Because
				}
			}
		}
	}
	switch {
	case first < 0 || c.Deployment != x.Deployment: // nothing to show, or only a suggestion
	case !x.simulated():
		runs.Dir = x.relative(outcomes[first].Dir)
	default:
		file := "random-outside.yaml"
		if inside {
			file = "random-inside.yaml"
		}
		j := Job{Scenario: pick.Scenario, Seed: x.FirstSeed + uint64(first)}
		draw(&j)
		runs.Command, runs.Dir, err = x.storeRun(ctx, j.Scenario, j.Seed, file)
	}
	return runs, cmp.Or(ctx.Err(), err)
}

// scaled returns the conditions with all durations of the environment multiplied by a factor.
func (c conditions) scaled(factor float64) conditions {
	for _, d := range []*time.Duration{&c.Pause, &c.ClockJump, &c.Delay, &c.RestartDelay} {
		*d = time.Duration(float64(*d) * factor)
	}
	return c
}
