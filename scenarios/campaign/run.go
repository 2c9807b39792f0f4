// Package campaign runs many scenarios with many seeds, in worker processes and on several
// machines, to find violations or to measure the limits of a lock.
//
//	Selection       selects scenarios, and the lock, settings and expectations to run them with
//	Job, Execute    run, check, judge, retry and store one scenario with one seed on one backend
//	Pool            runs jobs in worker processes of the same binary, one per processor; a worker
//	                that dies during a job affects that job alone
//	Runner          runs the jobs of a campaign on one backend
//	Simulator       runs scenarios one by one, each chosen by the result of the one before
//	Sweep           merges the outcomes of shards, which together run many seeds
//	Fuzzer          searches for violations and minimizes them; it saves its progress atomically in
//	                one small file, so that a killed search can be resumed
//	Scorer          runs a lock through the catalog and random plans to make its scorecard
//	Minimizer       finds the smallest scenario that still shows a violation (a Bug)
//	Assessor        says whether a lock is safe with given settings: measures how much of each hazard
//	                it survives, compares that with theory, and searches for changes that help
//
// Only Judge compares a verdict with expectations. A run directory contains run.json,
// history.jsonl.gz, verdict.json and outcome.json. The history is written first, so that the run can
// be judged again later.
//
// A Minimizer starts by replacing a long plan with the faults that, according to the history, were
// active during the violation. This reduces a hundred steps to a few in about twenty runs. Then it
// tries edits on all processors. Which edits it accepts depends only on their order, so a bug is
// minimized to the same scenario on every machine.
//
// This package neither handles flags nor chooses hints for errors. The caller says how to start
// another process of the binary, and an Error says what went wrong.
package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// KeepPolicy says which runs to store.
type KeepPolicy string

const (
	KeepAll        KeepPolicy = "all"
	KeepUnexpected KeepPolicy = "unexpected" // unexpected results, and violations that can't be reproduced
	KeepNone       KeepPolicy = "none"
)

func (k KeepPolicy) includes(unexpected bool) bool {
	return k == KeepAll || k == KeepUnexpected && unexpected
}

// Job is a scenario to run with one seed, and to retry if the result does not count.
type Job struct {
	Scenario  scenario.Scenario `json:"scenario"`
	Seed      uint64            `json:"seed"`
	Backend   string            `json:"backend"`
	Store     string            `json:"store"` // folder for run directories
	Keep      KeepPolicy        `json:"keep"`
	Reports   KeepPolicy        `json:"reports,omitempty"` // stored runs whose reports are written too; "" means all
	Command   string            `json:"command"`           // repeats the run
	Version   string            `json:"version"`
	Overrides []string          `json:"sets,omitempty"` // overrides already applied to the scenario
	// Live stores events as they happen rather than at the end of the run. It is meant for real-time
	// backends, whose runs can't be reproduced.
	Live bool `json:"live,omitempty"`
	// Confirm tests the cause of a violation of mutual exclusion even if the violation was expected.
	Confirm bool `json:"confirm,omitempty"`
	// Comparison is the scenario with its own lock, if Scenario uses another lock.
	Comparison *scenario.Scenario `json:"control,omitempty"`
	// RelativeProperties lists properties that Scenario must satisfy only if Comparison does,
	// because changed settings may be unsafe for any lock.
	RelativeProperties []string `json:"relative,omitempty"`
	// Retries limits the number of retries of a run that does not count.
	Retries int `json:"retries,omitempty"`
}

// Execute runs a job on a backend. It turns a panic into an outcome with code 70 and the stack in
// Error.
func Execute(ctx context.Context, b harness.Backend, j Job) (o outcome.Outcome) {
	start := time.Now()
	var comparison *outcome.Outcome
	if len(j.RelativeProperties) > 0 && j.Comparison != nil { // the expectations depend on its result
		comparison = j.runComparison(ctx, b)
		j.Scenario.Expect = j.relaxedExpectations(comparison)
	}
	o = retryPolicy{j.Retries, retryReason}.run(ctx, func(earlier []string) outcome.Outcome {
		o := execute(ctx, b, j, earlier)
		o.Seconds = time.Since(start).Seconds()
		return o
	})
	giveUp(&o)
	if j.Comparison != nil && len(o.Judgements) > 0 && ctx.Err() == nil {
		if comparison == nil {
			comparison = j.runComparison(ctx, b)
		}
		j.addComparison(comparison, &o)
	}
	o.Seconds = time.Since(start).Seconds()
	writeOutcome(&o)
	return o
}

// retryPolicy retries runs that do not count, up to maxRetries times. These runs are stored too. The
// result is the last run, whether or not it counts. If that run was interrupted before anything
// happened, the result is the run before it.
type retryPolicy struct {
	maxRetries int
	reason     func(outcome.Outcome) string // why a run does not count; "" if it counts
}

// run calls run until its outcome counts. Each call receives the reasons for discarding the earlier
// runs.
func (r retryPolicy) run(ctx context.Context, run func(earlierReasons []string) outcome.Outcome) (o outcome.Outcome) {
	var earlierReasons []string
	for {
		next := run(earlierReasons)
		if len(earlierReasons) > 0 && next.Events == 0 && ctx.Err() != nil {
			writeOutcome(&next)
			return o
		}
		o = next
		reason := r.reason(o)
		if reason == "" || len(earlierReasons) >= r.maxRetries || ctx.Err() != nil {
			return o
		}
		writeOutcome(&o) // discarded runs are stored too
		if o.Dir != "" {
			reason += " (" + o.Dir + ")"
		}
		earlierReasons = append(earlierReasons[:len(earlierReasons):len(earlierReasons)], reason)
	}
}

// reproduce runs a job that should violate a property, and reports whether it did. If the host
// fails, which says nothing about the lock, it retries the job once.
func reproduce(ctx context.Context, b harness.Backend, j Job, property string) (t outcome.Reproduction, o outcome.Outcome) {
	t.Backend = b.Name()
	hostFailure := func(o outcome.Outcome) string {
		if o.Code == outcome.ExitBackend {
			return "the host failed"
		}
		return ""
	}
	o = retryPolicy{1, hostFailure}.run(ctx, func([]string) outcome.Outcome {
		o := Execute(ctx, b, j)
		t.Runs += len(o.RetryReasons) + 1
		return o
	})
	t.State, t.Command, t.Why, t.Server = outcome.ReproductionNotConfirmed, o.Command, display.FirstLine(o.Error), o.Server
	switch got := o.JudgementOf(property); {
	case got == nil:
	case got.Got == verdict.Violated:
		t.State, t.Cause, t.Why = outcome.ReproductionConfirmed, got.Cause, ""
	default:
		t.Why = display.Join("; ", t.Why, got.Because)
	}
	return t, o
}

// writeOutcome writes outcome.json if the run has a directory.
func writeOutcome(o *outcome.Outcome) {
	if o.Dir == "" {
		return
	}
	if err := writeJSON(o.Dir, outcomeFile, o); err != nil {
		recordStoreError(o, err)
	}
}

// recordStoreError adds an error in writing to the store. It is a usage error, because the user
// chose the store, unless the system is at fault, for example because the disk is full.
func recordStoreError(o *outcome.Outcome, err error) {
	code := outcome.ExitUsage
	if o.Hint = files.Remedy(err, files.StoreHint); o.Hint != "" {
		code = outcome.ExitBackend
	}
	o.Hint = cmp.Or(o.Hint, "choose another folder with --store")
	o.Fail(code, err)
}

// Parts of the reasons in Outcome.RetryReasons.
const (
	MissedReason = " was expected to be violated but holds"
	StallReason  = "; the host stalled for up to "
)

// retryReason returns why a run should be retried, or "". A run is retried if an expected violation,
// which may depend on a race, did not occur, if a fault had no effect, or if an unplanned fault
// occurred. Unexpected violations and errors are final unless an unplanned fault may have caused
// them.
func retryReason(o outcome.Outcome) string {
	switch {
	case o.Verdict.Unplanned:
		return o.Verdict.Assumption
	case o.Disturbance != "":
		return o.Disturbance
	}
	if o.Error != "" || o.StopReason != "" { // a retry would be stopped too
		return ""
	}
	why := ""
	for _, j := range o.Judgements {
		switch {
		case j.AsExpected, j.Pending():
		case j.Missed:
			why = j.Property + MissedReason
		case j.Unresolved() && why != "": // a missed violation matters more
		case j.Unresolved():
			why = fmt.Sprintf("%s is %s: %s", j.Property, j.Got, j.Because)
		default:
			return ""
		}
	}
	if longest := o.Verdict.Numbers[verdict.StalledMax]; why != "" && longest > 0 {
		why += fmt.Sprintf("%s%.3g s", StallReason, longest)
	}
	return why
}

// giveUp marks an expected violation that did not occur in several runs, and the outcome, as
// undecided.
func giveUp(o *outcome.Outcome) {
	if len(o.RetryReasons) == 0 || o.Code != outcome.ExitUnexpected || retryReason(*o) == "" {
		return
	}
	o.Code = outcome.ExitUndecided
	for i := range o.Judgements {
		if j := &o.Judgements[i]; j.Missed {
			j.Missed, j.Got = false, verdict.Undecided
			j.Because = fmt.Sprintf("expected to be violated, but not violated in %d runs: %s", len(o.RetryReasons)+1, j.Because)
		}
	}
}

// expectedEvents is how many events to allocate for a run: as many as the previous run recorded, up
// to a limit, because the runs of a sweep are similar.
var expectedEvents atomic.Int64

// record runs a scenario until it ends or has recorded maxEvents events (0 means no limit). It
// returns the events and, unless to is nil, writes them to it as they happen.
func record(ctx context.Context, b harness.Backend, s scenario.Scenario, seed uint64, to io.Writer, maxEvents int) (events []history.Event, err error) {
	rec := history.NewRecorder(to)
	rec.Watch(func(e history.Event) {
		if len(events) == cap(events) {
			events = slices.Grow(events, max(1<<10, len(events), int(expectedEvents.Load()))) // append alone would grow the slice by a quarter each time, and so copy often
		}
		events = append(events, e)
	})
	defer func() { expectedEvents.Store(int64(min(len(events), 1<<14))) }()
	err = harness.RunWithLimit(ctx, b, s, seed, rec, maxEvents)
	return events, err
}

// execute runs the job once. earlierReasons says why the earlier runs were discarded.
func execute(ctx context.Context, b harness.Backend, j Job, earlierReasons []string) (o outcome.Outcome) {
	j.Scenario = j.Scenario.WithRandomPlan(j.Seed)
	o = outcome.Outcome{Schema: 1, Scenario: j.Scenario.ID(), Backend: b.Name(), Seed: j.Seed, Command: j.Command, RetryReasons: earlierReasons}
	defer func() {
		if r := recover(); r != nil {
			o.Fail(outcome.ExitBug, fmt.Errorf("panic: %v\n%s", r, debug.Stack()))
		}
	}()
	d := &runDir{store: j.Store, manifest: scenario.NewManifest(j.Scenario, b.Name(), j.Seed, j.Version, j.Command)}
	d.manifest.Overrides = j.Overrides
	var to io.Writer
	var live *os.File
	if j.Live && j.Keep != KeepNone {
		var err error
		if live, err = d.createHistory(); err != nil {
			recordStoreError(&o, err)
			return o
		}
		defer live.Close()
		o.Dir = d.path
		to = live
	}
	unusable, interrupted := false, false
	events, err := record(ctx, b, j.Scenario, j.Seed, to, history.MaxEvents)
	if err != nil {
		code := outcome.ExitBackend
		if i, ok := errors.AsType[*harness.Interference](err); ok {
			o.Disturbance, code = i.Error(), outcome.ExitUndecided
		}
		o.Hint = files.Remedy(err, files.TempDirHint)
		o.Fail(code, err)
		interrupted = ctx.Err() != nil
		unusable = errors.Is(err, lock.ErrBroken)
	}
	h := judgeRecorded(&o, d.manifest, events)
	if unusable && o.Code == outcome.ExitUnexpected { // a lock that can't be used at all is not blamed for a violation
		o.Code = outcome.ExitBackend
	}
	if interrupted && o.Code == outcome.ExitBackend { // unless a violation was found before the interruption
		o.Code = outcome.ExitInterrupt
	}
	j.confirm(ctx, b, h, &o)
	notable := o.Code != outcome.ExitOK || j.Live && o.Violated() // a live run can't be reproduced
	if j.Keep.includes(notable) {
		if err := d.write(events, h, o, cmp.Or(j.Reports, KeepAll).includes(notable)); err != nil {
			recordStoreError(&o, err)
		}
		o.Dir = d.path
	}
	if live != nil {
		if err := d.compress(live); err != nil {
			recordStoreError(&o, err)
		}
	}
	return o
}

// judgeRecorded judges the events in memory, which is faster than decoding the file.
func judgeRecorded(o *outcome.Outcome, m scenario.Manifest, events []history.Event) *history.History {
	h, err := history.New(events)
	if err != nil {
		if o.Code == outcome.ExitOK {
			o.Fail(outcome.ExitBug, err)
		}
		return nil
	}
	o.Events, o.VirtualSeconds = len(h.Events), history.Seconds(h.Events[len(h.Events)-1].T)
	o.StopReason, o.Server = stopReason(h), h.Params.Server
	o.Verdict = checker.Check(h)
	o.Numbers = withoutStepNumbers(o.Verdict.Numbers)
	o.Judgements = append(Judge(m.Scenario.Expect, o.Verdict), judgeNumbers(m.Scenario.Numbers, o.Verdict)...)
	o.Informational = outcome.NoExpectation(o.Judgements)
	if o.Verdict.Disagreement != "" {
		o.Fail(outcome.ExitBug, fmt.Errorf("the two checkers disagree: %s", o.Verdict.Disagreement))
	}
	o.Code = outcome.WorseCode(o.Code, outcome.CodeOf(withoutPending(o.Judgements)))
	if o.Verdict.Unplanned { // whatever was expected
		o.Code = outcome.WorseCode(o.Code, outcome.ExitUndecided)
	}
	if o.StopReason != "" {
		o.Fail(outcome.ExitUndecided, errors.New("the run was "+o.StopReason))
	}
	return h
}

// stopReason returns why a run was stopped early, or "".
func stopReason(h *history.History) string {
	for _, e := range h.Events {
		if e.Process == history.Harness && e.Op == history.OpStop {
			return e.Cause
		}
	}
	return ""
}

// Record runs a scenario once and returns its history and verdict.
func Record(ctx context.Context, b harness.Backend, s scenario.Scenario, seed uint64) (*history.History, verdict.Verdict, error) {
	h, err := recordHistory(ctx, b, s, seed)
	if err != nil {
		return nil, verdict.Verdict{}, err
	}
	return h, checker.Check(h), nil
}

func recordHistory(ctx context.Context, b harness.Backend, s scenario.Scenario, seed uint64) (*history.History, error) {
	events, err := record(ctx, b, s, seed, nil, 0)
	if err != nil {
		return nil, err
	}
	return history.New(events)
}

// matchTolerance is how far apart in time, in nanoseconds, two events in diverged runs may be to
// count as the same event.
const matchTolerance = int64(20 * time.Millisecond)

// confirm tests the cause of a violation of mutual exclusion if the violation was unexpected or
// j.Confirm is set. The result affects neither the reported cause nor the exit code.
func (j Job) confirm(ctx context.Context, b harness.Backend, h *history.History, o *outcome.Outcome) {
	i := slices.IndexFunc(o.Judgements, func(x outcome.Judgement) bool {
		return x.Property == verdict.MutualExclusion && x.Got == verdict.Violated && (j.Confirm || !x.AsExpected)
	})
	if i < 0 {
		return
	}
	c, err := confirmCause(ctx, b, j.Scenario, j.Seed, h, o.Verdict)
	if err != nil {
		o.Fail(outcome.ExitBackend, err)
		return
	}
	o.Judgements[i].Confirmation = c
}

// confirmCause reruns a violation of mutual exclusion with the lost keys preserved. If the overlap
// disappears, that alone proves little: the second client could not have acquired the lock without
// most of these losses, including harmless ones such as the cleanup after a failed attempt on the
// same nodes. So each node must also refuse the second client because its key was preserved.
//
// Preserving a key undoes a deletion, a restart or an expiry, but not the mistake of a client that
// considers itself the holder for longer than the key exists. So a cause is confirmed only if it
// ended a key on every node blamed for it. Otherwise the confirmation just describes what the reruns
// showed.
func confirmCause(ctx context.Context, b harness.Backend, s scenario.Scenario, seed uint64, h *history.History, v verdict.Verdict) (*outcome.Confirmation, error) {
	r := v.Result(verdict.MutualExclusion)
	if r == nil || r.Outcome != verdict.Violated {
		return nil, nil
	}
	c := &outcome.Confirmation{State: outcome.NoEarlyLoss, Why: "no key disappeared before its expiry"}
	x := newTrial(h, r)
	if len(x.earlyEnds) == 0 {
		return c, nil
	}
	preserver, ok := b.(harness.KeyPreserver)
	if !ok {
		c.State, c.Why = outcome.RerunImpossible, b.Name()+" can't rerun the seed, so the recorded facts are the only evidence"
		return c, nil
	}
	rerun := func(ends []*earlyEnd) (rerunResult, error) {
		c.Runs++
		h, err := x.rerun(ctx, preserver, s, seed, ends)
		if err != nil {
			return rerunResult{}, err
		}
		return x.judge(h, ends), nil
	}
	allPreserved, err := rerun(x.earlyEnds)
	if err != nil {
		return nil, err
	}
	if allPreserved.sameOverlap || allPreserved.grantingNode != "" {
		c.State, c.Why = outcome.CauseRefuted, x.describePreserved(x.earlyEnds)+": the two still overlap"
		if allPreserved.grantingNode != "" {
			c.Why = fmt.Sprintf("%s: %s still grants %s the lock", x.describePreserved(x.earlyEnds), allPreserved.grantingNode, x.secondClient)
		}
		return c, nil
	}
	for _, e := range x.earlyEnds {
		onePreserved := allPreserved
		if len(x.earlyEnds) > 1 {
			if onePreserved, err = rerun([]*earlyEnd{e}); err != nil {
				return nil, err
			}
		}
		if !onePreserved.sameOverlap {
			c.SufficientNodes = append(c.SufficientNodes, e.replacement.Process)
		}
	}
	namedEnds, namedPreserved := x.endsWithCause(r.Cause), allPreserved
	if 1 < len(namedEnds) && len(namedEnds) < len(x.earlyEnds) {
		if namedPreserved, err = rerun(namedEnds); err != nil {
			return nil, err
		}
	} else if len(namedEnds) == 1 {
		namedPreserved.sameOverlap = !slices.Contains(c.SufficientNodes, namedEnds[0].replacement.Process)
	}
	x.conclude(c, r.Cause, allPreserved.laterOverlap, namedPreserved.sameOverlap)
	return c, nil
}

// conclude sets the result if preserving all keys removed the original overlap. laterOverlap says
// whether the two sessions overlapped later instead. namedInsufficient says whether they still
// overlapped if only the keys lost to the named cause were preserved.
func (x *trial) conclude(c *outcome.Confirmation, cause string, laterOverlap, namedInsufficient bool) {
	result := x.describePreserved(x.earlyEnds) + ": " + x.secondClient + " is refused there, and the two do not overlap"
	if laterOverlap {
		result += " then, but they do later, after another loss"
	}
	c.State, c.Why = outcome.CauseConfirmed, result
	switch {
	case len(x.uncheckedNodes) > 0:
		c.State = outcome.CausePartlyTested
		c.Why = fmt.Sprintf("%s can't be checked on %s, where no key was cut short; result: %s", cause, verdict.JoinNames(x.uncheckedNodes), result)
	case cause == verdict.Unexplained:
		c.State = outcome.CausePartlyTested
	case len(c.SufficientNodes) == 0:
		c.State = outcome.CausesJointlyNecessary
		c.Why += fmt.Sprintf("; with the key preserved on only one of these %d, the two still overlap", len(x.earlyEnds))
	case namedInsufficient:
		c.State = outcome.CausesJointlyNecessary
		c.Why += fmt.Sprintf("; with only the keys lost to %s preserved, the two still overlap", cause)
	case laterOverlap:
		c.State = outcome.OverlapPostponed
	}
}

// trial is a violation to rerun with keys preserved.
type trial struct {
	earlyEnds      []*earlyEnd
	uncheckedNodes []string // nodes blamed for the named cause where no key was removed early
	firstSession   string   // name of the first session
	secondClient   string   // client of the second session
	grantTime      int64    // when the second session got the lock
}

func (x *trial) endsWithCause(cause string) (ends []*earlyEnd) {
	for _, e := range x.earlyEnds {
		if e.cause == cause {
			ends = append(ends, e)
		}
	}
	return ends
}

// describePreserved says on which nodes keys were preserved, and what removed those keys in the
// original run.
func (x *trial) describePreserved(ends []*earlyEnd) string {
	var order, parts []string
	nodes := map[string][]string{}
	for _, e := range ends {
		if !slices.Contains(order, e.cause) {
			order = append(order, e.cause)
		}
		nodes[e.cause] = append(nodes[e.cause], e.replacement.Process)
	}
	for _, cause := range order {
		parts = append(parts, fmt.Sprintf("%s (%s)", verdict.JoinNames(nodes[cause]), cause))
	}
	return "rerun with the key preserved on " + verdict.JoinNames(parts)
}

// earlyEnd is the loss of a key before its expiry.
type earlyEnd struct {
	end, replacement *history.Event // the events that ended the key and that set its replacement
	cause            string
	value            string
	firstClient      string // client of the first session
	expiry           int64  // when the key would have expired
}

func newTrial(h *history.History, r *verdict.Result) *trial {
	x := &trial{}
	f := facts.Read(h)
	lives := f.Lives()
	byNumber := map[int64]*history.Event{}
	for i := range f.Events {
		byNumber[f.Events[i].N] = &f.Events[i]
	}
	sameOrder := 0
	for _, l := range r.Losses {
		if l.First == r.Losses[0].First {
			sameOrder++
		}
		if l.Fact == 0 {
			if l.Cause == r.Cause {
				x.uncheckedNodes = append(x.uncheckedNodes, l.Node)
			}
			continue
		}
		end, set := byNumber[l.Fact], byNumber[l.SetEvent]
		intervals := lives.Intervals(l.Node, end.Key)
		i := slices.IndexFunc(intervals, func(s *facts.KeyInterval) bool { return s.End == end })
		x.earlyEnds = append(x.earlyEnds, &earlyEnd{end: end, replacement: set, cause: l.Cause, value: end.Life.OldValue, firstClient: f.SessionByName(l.First).Client(), expiry: intervals[i].ExpiresAt()})
	}
	if len(r.Losses) == 0 {
		return x
	}
	first, second := r.Losses[0].First, r.Losses[0].Second
	if sameOrder*2 < len(r.Losses) {
		first, second = second, first
	}
	x.firstSession, x.secondClient = first, f.SessionByName(second).Client()
	x.grantTime = f.SessionByName(second).Acquire.Return.T
	return x
}

// rerun repeats the run with the same seed. It preserves the given keys until they expire, unless
// their own client deletes them.
func (x *trial) rerun(ctx context.Context, b harness.KeyPreserver, s scenario.Scenario, seed uint64, ends []*earlyEnd) (*history.History, error) {
	from := int64(facts.Never) // the runs diverge here, so other keys may end earlier than in the original run
	for _, k := range ends {
		from = min(from, k.end.T)
	}
	preserve := func(e history.Event) bool {
		for _, k := range ends {
			if e.Process != k.end.Process || e.Key != k.end.Key || e.Life.OldValue != k.value || e.T < from || e.T >= k.expiry {
				continue
			}
			client, _, _ := strings.Cut(e.Life.Sender, "-")
			deletedByOwner := e.Life.Kind == history.KeyDeleted && client == k.firstClient
			return !deletedByOwner || k.end.Life.Kind == history.KeyDeleted
		}
		return false
	}
	h, err := recordHistory(ctx, b.WithPreservedKeys(preserve), s, seed)
	if err != nil {
		err = fmt.Errorf("rerun with keys preserved: %w", err)
	}
	return h, err
}

// rerunResult says what happened with keys preserved.
type rerunResult struct {
	sameOverlap  bool   // whether the two sessions overlap at the same time as before
	laterOverlap bool   // whether they overlap later
	grantingNode string // a node that granted the lock to the second session anyway, or ""
}

func (x *trial) judge(h *history.History, ends []*earlyEnd) (r rerunResult) {
	f := facts.Read(h)
	beliefs := f.AllWindows()
	for _, a := range beliefs {
		if a.Session.Name() != x.firstSession {
			continue
		}
		for _, b := range beliefs {
			if b.Session.Client() != x.secondClient || b.Session == a.Session || b.Session.Key() != a.Session.Key() || max(a.From, b.From) >= min(a.To, b.To) {
				continue
			}
			switch d := b.From - x.grantTime; {
			case d > matchTolerance:
				r.laterOverlap = true
			case d >= -matchTolerance:
				r.sameOverlap = true
			}
		}
	}
	for _, e := range ends {
		if !refusedSecond(f.Lives().Intervals(e.end.Process, e.end.Key), e) {
			r.grantingNode = e.end.Process
		}
	}
	return r
}

// refusedSecond reports whether a node still had the first session's key when the second session's
// request arrived, and refused that request.
func refusedSecond(intervals []*facts.KeyInterval, e *earlyEnd) bool {
	at := e.replacement.T
	hadFirst := slices.ContainsFunc(intervals, func(s *facts.KeyInterval) bool {
		return s.Value == e.value && s.From() <= at && (s.End == nil || s.End.T > at)
	})
	granted := slices.ContainsFunc(intervals, func(s *facts.KeyInterval) bool {
		d := s.From() - at
		return s.Setter() == e.replacement.Life.Sender && s.Value == e.replacement.Life.Value && d >= -matchTolerance && d <= matchTolerance
	})
	return hadFirst && !granted
}

// runComparison runs the scenario with its own lock instead of the lock under test. If only the lock
// under test fails, that lock is to blame rather than the faults. Retries work as for any other run.
func (j Job) runComparison(ctx context.Context, b harness.Backend) *outcome.Outcome {
	job := j
	job.Scenario, job.Comparison, job.Keep, job.Confirm = *j.Comparison, nil, KeepNone, false
	c := retryPolicy{j.Retries, retryReason}.run(ctx, func([]string) outcome.Outcome { return execute(ctx, b, job, nil) })
	return &c
}

// relaxedExpectations returns the expectations, but allows any outcome for the RelativeProperties
// that the comparison run violated, because even the scenario's own lock can't satisfy them under
// these settings.
func (j Job) relaxedExpectations(comparison *outcome.Outcome) map[string]scenario.Expectation {
	expect := maps.Clone(j.Scenario.Expect)
	for _, property := range j.RelativeProperties {
		if r := comparison.Verdict.Result(property); r != nil && r.Outcome == verdict.Violated {
			e := scenario.Expectation{Want: wantAny, LeadProperty: expect[property].LeadProperty}
			if expect[e.LeadProperty].Want != wantAny { // it no longer follows from that property
				e.LeadProperty = ""
			}
			expect[property] = e
		}
	}
	return expect
}

// addComparison adds the result of the comparison run to an outcome. It changes neither the
// expectations nor the exit code.
func (j Job) addComparison(c, o *outcome.Outcome) {
	lock := j.Comparison.Lock.Kind
	if c.Error != "" {
		o.Comparison = &outcome.Comparison{Lock: lock, Error: c.Error}
		return
	}
	o.Comparison = &outcome.Comparison{Lock: lock, Numbers: c.Numbers}
	for i := range o.Judgements {
		if r := c.Verdict.Result(o.Judgements[i].Property); r != nil {
			o.Judgements[i].Comparison = r.Outcome
		}
	}
	for _, r := range c.Verdict.Results {
		if r.Outcome == verdict.Violated {
			o.Comparison.Violated = append(o.Comparison.Violated, outcome.Judgement{Property: r.Property, Got: r.Outcome, Cause: r.Cause, Node: r.Node, Because: r.Because})
		}
	}
}
