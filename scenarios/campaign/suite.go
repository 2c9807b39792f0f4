// Package suite runs scenarios and judges them: run, check, judge, retry, and
// write what was seen.
//
// A Job is one scenario with a seed on a backend; Execute does it and returns an
// Outcome. Judge is the only place where an expectation meets a verdict. A run
// directory holds run.json, history.jsonl.gz, verdict.json and outcome.json: facts
// first, so that judging can be repeated from disk.
//
// Deliberately missing: terminals, flags, worker processes.
package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/scenarios/outcome"
)

// Keep says which runs leave a directory in the store.
type Keep string

const (
	KeepAll        Keep = "all"
	KeepUnexpected Keep = "unexpected" // those that did not come out as expected, and violations that can't be had again
	KeepNone       Keep = "none"
)

// has reports whether a run is among those that are kept.
func (k Keep) has(unexpected bool) bool { return k == KeepAll || k == KeepUnexpected && unexpected }

// Job is one scenario to run once, or until it shows what it can show.
type Job struct {
	Scenario scenario.Scenario `json:"scenario"`
	Seed     uint64            `json:"seed"`
	Backend  string            `json:"backend"`
	Store    string            `json:"store"` // folder of run directories
	Keep     Keep              `json:"keep"`
	Reports  Keep              `json:"reports,omitempty"` // which of those that leave one are drawn at once; "" is all
	Command  string            `json:"command"`           // runs it again
	Version  string            `json:"version"`
	Sets     []string          `json:"sets,omitempty"` // overrides that the scenario was made with
	// Live: write the history as it happens instead of at the end, where it is kept. For backends
	// in real time, whose runs can't be had again.
	Live bool `json:"live,omitempty"`
	// Confirm: try the cause of each violation of mutual exclusion, also of one that was expected.
	Confirm bool `json:"confirm,omitempty"`
	// Control: the scenario with its own lock, where Scenario has another.
	Control *scenario.Scenario `json:"control,omitempty"`
	// Relative: the properties that Scenario must keep only if Control keeps them, under settings
	// for which nobody vouches.
	Relative []string `json:"relative,omitempty"`
	// Retries: how often a missed violation or a vacuous run is tried again.
	Retries int `json:"retries,omitempty"`
}

// Execute does a job on a backend. It never panics: a bug is an outcome with
// code 70 and the stack in Error.
func Execute(ctx context.Context, b harness.Backend, j Job) (o outcome.Outcome) {
	begin := time.Now()
	var earlier []string
	var control *outcome.Outcome
	if len(j.Relative) > 0 && j.Control != nil { // its result decides what is expected
		control = j.control(ctx, b)
		j.Scenario.Expect = j.excused(control)
	}
	for {
		next := execute(ctx, b, j, earlier)
		if len(earlier) > 0 && next.Events == 0 && ctx.Err() != nil { // it was ended before it began: what the one before found stands
			suiteWrite(&next)
			break
		}
		o = next
		why := again(o)
		if why == "" || len(earlier) >= j.Retries || ctx.Err() != nil {
			break
		}
		o.Seconds = time.Since(begin).Seconds()
		suiteWrite(&o) // a try that did not count is a record, too
		if o.Dir != "" {
			why += " (" + o.Dir + ")"
		}
		earlier = append(earlier[:len(earlier):len(earlier)], why)
	}
	giveUp(&o)
	if j.Control != nil && len(o.Judgements) > 0 && ctx.Err() == nil {
		if control == nil {
			control = j.control(ctx, b)
		}
		j.compare(control, &o)
	}
	o.Seconds = time.Since(begin).Seconds()
	suiteWrite(&o)
	return o
}

// write leaves the outcome in the run directory, where there is one.
func suiteWrite(o *outcome.Outcome) {
	if o.Dir == "" {
		return
	}
	if err := writeJSON(o.Dir, outcomeFile, o); err != nil {
		failStore(o, err)
	}
}

// failStore adds an error of writing to the store, which is the user's choice, and yet no
// wrong one where only room is missing.
func failStore(o *outcome.Outcome, err error) {
	code := outcome.ExitUsage
	if o.Hint = files.Remedy(err, files.StoreHint); o.Hint != "" {
		code = outcome.ExitBackend
	}
	o.Hint = cmp.Or(o.Hint, "choose another folder with --store")
	o.Fail(code, err)
}

// These are in a reason of Retried: a violation was expected and did not come; and the
// machine may be why.
const (
	Missed = " was expected to be violated and held"
	Stalls = ", and the machine stood still for up to "
)

// again says why a run should be tried once more, "" if it should not: a
// violation that a race missed, or a run in which a fault did not take effect, or one that
// nobody planned did. A violation that nobody expected is final, and so is an error, unless
// what nobody planned may be why.
func again(o outcome.Outcome) string {
	switch {
	case o.Verdict.Unplanned:
		return o.Verdict.Assumption
	case o.Disturbed != "":
		return o.Disturbed
	}
	if o.Error != "" || o.Stopped != "" { // another try would be stopped, too
		return ""
	}
	why := ""
	for _, j := range o.Judgements {
		switch {
		case j.AsExpected, j.Waits():
		case j.Missed:
			why = j.Property + Missed
		case j.Open() && why != "": // a miss is the graver reason
		case j.Open():
			why = fmt.Sprintf("%s is %s: %s", j.Property, j.Got, j.Because)
		default:
			return ""
		}
	}
	if longest := o.Verdict.Numbers[verdict.StalledMax]; why != "" && longest > 0 {
		why += fmt.Sprintf("%s%.3g s", Stalls, longest)
	}
	return why
}

// giveUp turns an expected violation that several tries missed into undecided.
func giveUp(o *outcome.Outcome) {
	if len(o.Retried) == 0 || o.Code != outcome.ExitUnexpected || again(*o) == "" {
		return
	}
	o.Code = outcome.ExitUndecided
}

// usual is for how many events there is room when a run begins: as many as the run before had, if
// that was an ordinary one. Sweeps do the same again and again.
var suiteUsual atomic.Int64

// execute does it once, after earlier tries that did not count.
func execute(ctx context.Context, b harness.Backend, j Job, earlier []string) (o outcome.Outcome) {
	j.Scenario = j.Scenario.Drawn(j.Seed)
	o = outcome.Outcome{Schema: 1, Scenario: j.Scenario.ID(), Backend: b.Name(), Seed: j.Seed, Command: j.Command, Retried: earlier}
	defer func() {
		if r := recover(); r != nil {
			o.Fail(outcome.ExitBug, fmt.Errorf("panic: %v\n%s", r, debug.Stack()))
		}
	}()
	d := &runDir{store: j.Store, manifest: scenario.NewManifest(j.Scenario, b.Name(), j.Seed, j.Version, j.Command)}
	d.manifest.Sets = j.Sets
	var to io.Writer
	var live *os.File
	if j.Live && j.Keep != KeepNone {
		var err error
		if live, err = d.live(); err != nil {
			failStore(&o, err)
			return o
		}
		defer live.Close()
		o.Dir = d.path
		to = live
	}
	rec := history.NewRecorder(to)
	var events []history.Event
	rec.Watch(func(e history.Event) {
		if len(events) == cap(events) {
			events = slices.Grow(events, max(1<<10, len(events), int(suiteUsual.Load()))) // append alone would grow by a quarter, and copy often
		}
		events = append(events, e)
	})
	broken, interrupted := false, false
	defer func() { suiteUsual.Store(int64(min(len(events), 1<<14))) }()
	if err := harness.RunAtMost(ctx, b, j.Scenario, j.Seed, rec, history.MaxEvents); err != nil {
		code := outcome.ExitBackend
		if i, ok := errors.AsType[*harness.Interference](err); ok {
			o.Disturbed, code = i.Error(), outcome.ExitUndecided
		}
		o.Hint = files.Remedy(err, files.TempDirHint)
		o.Fail(code, err)
		interrupted = ctx.Err() != nil
		broken = errors.Is(err, lock.ErrBroken)
	}
	h := suiteJudged(&o, d.manifest, events)
	if broken && o.Code == outcome.ExitUnexpected { // who can't be worked with is accused of nothing
		o.Code = outcome.ExitBackend
	}
	if interrupted && o.Code == outcome.ExitBackend { // and no violation was found before
		o.Code = outcome.ExitInterrupt
	}
	j.confirm(ctx, b, h, &o)
	notable := o.Code != outcome.ExitOK || j.Live && o.Violated() // or it can't be had again
	if j.Keep.has(notable) {
		if err := d.write(events, h, o, cmp.Or(j.Reports, KeepAll).has(notable)); err != nil {
			failStore(&o, err)
		}
		o.Dir = d.path
	}
	if live != nil {
		if err := d.close(live); err != nil {
			failStore(&o, err)
		}
	}
	return o
}

// judged judges what was recorded, from memory: it is the same as what stands in
// the file, and need not be decoded.
func suiteJudged(o *outcome.Outcome, m scenario.Manifest, events []history.Event) *history.History {
	h, err := history.New(events)
	if err != nil {
		if o.Code == outcome.ExitOK {
			o.Fail(outcome.ExitBug, err)
		}
		return nil
	}
	o.Events, o.Virtual = len(h.Events), history.Seconds(h.Events[len(h.Events)-1].T)
	o.Stopped = stopped(h)
	o.Verdict = checker.Check(h)
	o.Numbers = compared(o.Verdict.Numbers)
	o.Judgements = append(Judge(m.Scenario.Expect, o.Verdict), judgeNumbers(m.Scenario.Numbers, o.Verdict)...)
	o.NothingExpected = outcome.NoExpectation(o.Judgements)
	if o.Verdict.Disagreement != "" {
		o.Fail(outcome.ExitBug, fmt.Errorf("the two judges disagree: %s", o.Verdict.Disagreement))
	}
	o.Code = outcome.Worse(o.Code, outcome.CodeOf(decided(o.Judgements)))
	if o.Verdict.Unplanned { // whatever was expected, and of whatever
		o.Code = outcome.Worse(o.Code, outcome.ExitUndecided)
	}
	if o.Stopped != "" {
		o.Fail(outcome.ExitUndecided, errors.New("the run was "+o.Stopped))
	}
	return h
}

// stopped says where a run was stopped early, and why, or "".
func stopped(h *history.History) string {
	for _, e := range h.Events {
		if e.Process == history.Harness && e.Op == history.OpStop {
			return e.Cause
		}
	}
	return ""
}
