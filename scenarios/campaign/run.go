// Package campaign runs many scenarios: with many seeds, in worker processes, on several machines,
// looking for violations or for the limits of a lock.
//
//	Selection       which scenarios run, with which lock and settings, and what is expected then
//	Job, Execute    one scenario with a seed on a back end: run, check, judge, retry, write
//	Pool            worker processes, each the same binary with one processor; whatever ends a
//	                worker in the middle of a job is the outcome of that one job
//	Runner          the jobs of a campaign on one back end
//	Simulator       the pool again, for single scenarios of which the next depends on the last
//	Sweep           the runs of many seeds in shards, and their outcomes put together again
//	Fuzzer          searches for violations, and minimizes them. How far it has got is in one small
//	                file that is replaced as a whole: a search that was killed resumes where it says
//	Scorer          puts a lock under the catalogue and under random plans, for its scorecard
//	Minimizer       finds the smallest scenario that still shows a violation (a Bug)
//	Envelopes       finds how much of each fault a lock tolerates, and compares that with arithmetic
//
// Judge is the only place where an expectation meets a verdict. A run's folder holds run.json,
// history.jsonl.gz, verdict.json and outcome.json: facts first, so that judging can be repeated.
//
// A Minimizer first replaces a long plan by the faults that were in force when the harm happened,
// as the record shows them, which leaves a few steps of a hundred after about twenty runs. Then it
// tries edits, on all processors; which one it keeps depends on their order alone, so that a bug
// shrinks to the same scenario everywhere.
//
// Not here: flags, exit codes and hints. The caller passes in how the binary is started again, and an
// Error tells it what went wrong.
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
	var control *outcome.Outcome
	if len(j.Relative) > 0 && j.Control != nil { // its result decides what is expected
		control = j.control(ctx, b)
		j.Scenario.Expect = j.excused(control)
	}
	o = retry{j.Retries, again}.run(ctx, func(earlier []string) outcome.Outcome {
		o := execute(ctx, b, j, earlier)
		o.Seconds = time.Since(begin).Seconds()
		return o
	})
	giveUp(&o)
	if j.Control != nil && len(o.Judgements) > 0 && ctx.Err() == nil {
		if control == nil {
			control = j.control(ctx, b)
		}
		j.compare(control, &o)
	}
	o.Seconds = time.Since(begin).Seconds()
	writeOutcome(&o)
	return o
}

// retry is the policy by which runs are repeated, of all campaigns. A run that does not count, for
// the reason that why returns, is repeated at most most times; it stays in the store. The last run
// is the result, whether it counts or not. Only if it was interrupted before anything happened, the
// one before it is.
type retry struct {
	most int
	why  func(outcome.Outcome) string // "": it counts
}

// run runs until a run counts, and tells each why the earlier ones did not.
func (r retry) run(ctx context.Context, run func(earlier []string) outcome.Outcome) (o outcome.Outcome) {
	var earlier []string
	for {
		next := run(earlier)
		if len(earlier) > 0 && next.Events == 0 && ctx.Err() != nil {
			writeOutcome(&next)
			return o
		}
		o = next
		why := r.why(o)
		if why == "" || len(earlier) >= r.most || ctx.Err() != nil {
			return o
		}
		writeOutcome(&o) // a try that did not count is a record, too
		if o.Dir != "" {
			why += " (" + o.Dir + ")"
		}
		earlier = append(earlier[:len(earlier):len(earlier)], why)
	}
}

// try does a job that is expected to violate a property, and reports whether it did. A failure of
// the machine says nothing of the lock, so it has another chance.
func try(ctx context.Context, b harness.Backend, j Job, property string) (t outcome.Try, o outcome.Outcome) {
	t.Backend = b.Name()
	machineFailed := func(o outcome.Outcome) string {
		if o.Code == outcome.ExitBackend {
			return "the machine failed"
		}
		return ""
	}
	o = retry{1, machineFailed}.run(ctx, func([]string) outcome.Outcome {
		o := Execute(ctx, b, j)
		t.Runs += len(o.Retried) + 1
		return o
	})
	t.State, t.Command, t.Why = outcome.NotConfirmed, o.Command, display.FirstLine(o.Error)
	switch got := o.Of(property); {
	case got == nil:
	case got.Got == verdict.Violated:
		t.State, t.Cause, t.Why = outcome.StateConfirmed, got.Cause, ""
	default:
		t.Why = display.Join("; ", t.Why, got.Because)
	}
	return t, o
}

// writeOutcome leaves the outcome in the run directory, where there is one.
func writeOutcome(o *outcome.Outcome) {
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

// giveUp makes an expected violation that several tries missed undecided, and the run with it.
func giveUp(o *outcome.Outcome) {
	if len(o.Retried) == 0 || o.Code != outcome.ExitUnexpected || again(*o) == "" {
		return
	}
	o.Code = outcome.ExitUndecided
	for i := range o.Judgements {
		if j := &o.Judgements[i]; j.Missed {
			j.Missed, j.Got = false, verdict.Undecided
			j.Because = fmt.Sprintf("expected to be violated, but not violated in %d tries: %s", len(o.Retried)+1, j.Because)
		}
	}
}

// eventsExpected is how many events to make room for when a run begins: as many as the run before had, if
// that was an ordinary one. Sweeps do the same again and again.
var eventsExpected atomic.Int64

// record runs a scenario until it has ended, or has so many events, and returns them; 0: any number.
// It also writes them as they happen.
func record(ctx context.Context, b harness.Backend, s scenario.Scenario, seed uint64, to io.Writer, most int) (events []history.Event, err error) {
	rec := history.NewRecorder(to)
	rec.Watch(func(e history.Event) {
		if len(events) == cap(events) {
			events = slices.Grow(events, max(1<<10, len(events), int(eventsExpected.Load()))) // append alone would grow by a quarter, and copy often
		}
		events = append(events, e)
	})
	defer func() { eventsExpected.Store(int64(min(len(events), 1<<14))) }()
	err = harness.RunAtMost(ctx, b, s, seed, rec, most)
	return events, err
}

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
	broken, interrupted := false, false
	events, err := record(ctx, b, j.Scenario, j.Seed, to, history.MaxEvents)
	if err != nil {
		code := outcome.ExitBackend
		if i, ok := errors.AsType[*harness.Interference](err); ok {
			o.Disturbed, code = i.Error(), outcome.ExitUndecided
		}
		o.Hint = files.Remedy(err, files.TempDirHint)
		o.Fail(code, err)
		interrupted = ctx.Err() != nil
		broken = errors.Is(err, lock.ErrBroken)
	}
	h := judgeRecorded(&o, d.manifest, events)
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

// judgeRecorded judges what was recorded, from memory: it is the same as what stands in
// the file, and need not be decoded.
func judgeRecorded(o *outcome.Outcome, m scenario.Manifest, events []history.Event) *history.History {
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

// Record runs a scenario once, for who wants to look at what happened: what was recorded, and
// what the checker says of it.
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

// near is how far apart two runs may have the same thing, once their courses differ.
const near = int64(20 * time.Millisecond)

// confirm tries the cause of a violation of mutual exclusion that nobody expected, or of any.
// What comes of it changes neither the cause nor the exit code.
func (j Job) confirm(ctx context.Context, b harness.Backend, h *history.History, o *outcome.Outcome) {
	i := slices.IndexFunc(o.Judgements, func(x outcome.Judgement) bool {
		return x.Property == verdict.MutualExclusion && x.Got == verdict.Violated && (j.Confirm || !x.AsExpected)
	})
	if i < 0 {
		return
	}
	c, err := confirm(ctx, b, j.Scenario, j.Seed, h, o.Verdict)
	if err != nil {
		o.Fail(outcome.ExitBackend, err)
		return
	}
	o.Judgements[i].Confirmation = c
}

// confirm runs a violation of mutual exclusion again with the facts that are its cause
// undone. That merely the overlap is gone would say little: most losses between two grants
// are needed for the second one, as when a failed attempt cleans up on the same nodes. So
// each node is asked for what the cause says of it: with the key kept, it refuses.
//
// To keep a key undoes a deletion, a restart or an expiry, and not a claim that is longer than the key's
// life. So a cause is confirmed only where the key ended by it on each node that it names; otherwise
// the confirmation says what the trial shows all the same.
func confirm(ctx context.Context, b harness.Backend, s scenario.Scenario, seed uint64, h *history.History, v verdict.Verdict) (*outcome.Confirmation, error) {
	r := v.Result(verdict.MutualExclusion)
	if r == nil || r.Outcome != verdict.Violated {
		return nil, nil
	}
	c := &outcome.Confirmation{State: outcome.NotApplicable, Why: "no key ended before its time"}
	x := newTrial(h, r)
	if len(x.ends) == 0 {
		return c, nil
	}
	again, ok := b.(harness.Sparer)
	if !ok {
		c.State, c.Why = outcome.FactsSuffice, b.Name()+" can't run the seed again: what its nodes told stands"
		return c, nil
	}
	try := func(ends []*ending) (result, error) {
		c.Runs++
		h, err := x.rerun(ctx, again, s, seed, ends)
		if err != nil {
			return result{}, err
		}
		return x.judge(h, ends), nil
	}
	all, err := try(x.ends)
	if err != nil {
		return nil, err
	}
	if all.overlaps || all.grants != "" {
		c.State, c.Why = outcome.Refuted, x.kept(x.ends)+": the two overlap all the same"
		if all.grants != "" {
			c.Why = fmt.Sprintf("%s: %s votes for %s all the same", x.kept(x.ends), all.grants, x.client)
		}
		return c, nil
	}
	for _, e := range x.ends {
		one := all
		if len(x.ends) > 1 {
			if one, err = try([]*ending{e}); err != nil {
				return nil, err
			}
		}
		if !one.overlaps {
			c.Alone = append(c.Alone, e.put.Process)
		}
	}
	named, enough := x.of(r.Cause), all
	if 1 < len(named) && len(named) < len(x.ends) {
		if enough, err = try(named); err != nil {
			return nil, err
		}
	} else if len(named) == 1 {
		enough.overlaps = !slices.Contains(c.Alone, named[0].put.Process)
	}
	x.conclude(c, r.Cause, all.later, enough.overlaps)
	return c, nil
}

// conclude says what the runs showed in which all keys were kept, so that the two did not overlap: or later,
// or had only those of the named cause been kept.
func (x *trial) conclude(c *outcome.Confirmation, cause string, later, named bool) {
	shown := x.kept(x.ends) + ": " + x.client + " is refused there, and the two don't overlap"
	if later {
		shown += " there, but later, through another loss"
	}
	c.State, c.Why = outcome.Confirmed, shown
	switch {
	case len(x.untried) > 0:
		c.State = outcome.PartlyTried
		c.Why = fmt.Sprintf("%s can't be tried on %s, where the key was not cut short; what was shown: %s", cause, verdict.List(x.untried), shown)
	case cause == verdict.Unexplained:
		c.State = outcome.PartlyTried
	case len(c.Alone) == 0:
		c.State = outcome.Jointly
		c.Why += fmt.Sprintf("; had one of these %d alone kept its key, the two would have overlapped all the same", len(x.ends))
	case named:
		c.State = outcome.Jointly
		c.Why += fmt.Sprintf("; had only those of %s kept it, the two would have overlapped all the same", cause)
	case later:
		c.State = outcome.PutOff
	}
}

// trial is one violation, to be tried again.
type trial struct {
	ends    []*ending
	untried []string // nodes of the named cause whose key was not cut short
	first   string   // session
	client  string   // of the second session
	granted int64    // when that was granted
}

// of is the endings of a cause.
func (x *trial) of(cause string) (ends []*ending) {
	for _, e := range x.ends {
		if e.cause == cause {
			ends = append(ends, e)
		}
	}
	return ends
}

// kept says on which nodes keys were kept, and from what.
func (x *trial) kept(ends []*ending) string {
	var order, parts []string
	nodes := map[string][]string{}
	for _, e := range ends {
		if !slices.Contains(order, e.cause) {
			order = append(order, e.cause)
		}
		nodes[e.cause] = append(nodes[e.cause], e.put.Process)
	}
	for _, cause := range order {
		parts = append(parts, fmt.Sprintf("%s (%s)", verdict.List(nodes[cause]), cause))
	}
	return "run again with the key kept on " + verdict.List(parts)
}

// ending is one key's end before its time.
type ending struct {
	end, put *history.Event // the fact, and the one of the key that took its place
	cause    string
	value    string
	first    string // client
	due      int64  // when the key's time was over
}

func newTrial(h *history.History, r *verdict.Result) *trial {
	x := &trial{}
	f := facts.Read(h)
	lives := f.Lives()
	byNumber := map[int64]*history.Event{}
	for i := range f.Events {
		byNumber[f.Events[i].N] = &f.Events[i]
	}
	turns := 0
	for _, l := range r.Losses {
		if l.First == r.Losses[0].First {
			turns++
		}
		if l.Fact == 0 {
			if l.Cause == r.Cause {
				x.untried = append(x.untried, l.Node)
			}
			continue
		}
		end, put := byNumber[l.Fact], byNumber[l.Put]
		stays := lives.Stays(l.Node, end.Key)
		i := slices.IndexFunc(stays, func(s *facts.Stay) bool { return s.End == end })
		x.ends = append(x.ends, &ending{end: end, put: put, cause: l.Cause, value: end.Life.Old, first: f.Named(l.First).Client(), due: stays[i].Due()})
	}
	if len(r.Losses) == 0 {
		return x
	}
	first, second := r.Losses[0].First, r.Losses[0].Second
	if turns*2 < len(r.Losses) {
		first, second = second, first
	}
	x.first, x.client = first, f.Named(second).Client()
	x.granted = f.Named(second).Acquire.Return.T
	return x
}

// rerun runs the seed again, and lets none of these keys end before its time is over, but
// by its own client's hand.
func (x *trial) rerun(ctx context.Context, b harness.Sparer, s scenario.Scenario, seed uint64, ends []*ending) (*history.History, error) {
	from := int64(facts.Never) // the courses differ from the first of them on, so that another may come earlier
	for _, k := range ends {
		from = min(from, k.end.T)
	}
	spare := func(e history.Event) bool {
		for _, k := range ends {
			if e.Process != k.end.Process || e.Key != k.end.Key || e.Life.Old != k.value || e.T < from || e.T >= k.due {
				continue
			}
			client, _, _ := strings.Cut(e.Life.By, "-")
			own := e.Life.What == history.KeyDeleted && client == k.first
			return !own || k.end.Life.What == history.KeyDeleted
		}
		return false
	}
	h, err := recordHistory(ctx, b.Sparing(spare), s, seed)
	if err != nil {
		err = fmt.Errorf("run it again with keys kept: %w", err)
	}
	return h, err
}

// result is what came of a run with keys kept.
type result struct {
	overlaps bool   // the same pair, at the same time
	later    bool   // the same, later
	grants   string // a node that gave the second its vote all the same
}

func (x *trial) judge(h *history.History, ends []*ending) (r result) {
	f := facts.Read(h)
	beliefs := f.Beliefs()
	for _, a := range beliefs {
		if a.Session.Name() != x.first {
			continue
		}
		for _, b := range beliefs {
			if b.Session.Client() != x.client || b.Session == a.Session || b.Session.Key() != a.Session.Key() || max(a.From, b.From) >= min(a.To, b.To) {
				continue
			}
			switch d := b.From - x.granted; {
			case d > near:
				r.later = true
			case d >= -near:
				r.overlaps = true
			}
		}
	}
	for _, e := range ends {
		if !notConfirmed(f.Lives().Stays(e.end.Process, e.end.Key), e) {
			r.grants = e.end.Process
		}
	}
	return r
}

// notConfirmed reports whether a node that kept the first's key had it when the second came,
// and did not take the second's.
func notConfirmed(stays []*facts.Stay, e *ending) bool {
	at := e.put.T
	kept := slices.ContainsFunc(stays, func(s *facts.Stay) bool {
		return s.Value == e.value && s.From() <= at && (s.End == nil || s.End.T > at)
	})
	taken := slices.ContainsFunc(stays, func(s *facts.Stay) bool {
		d := s.From() - at
		return s.By() == e.put.Life.By && s.Value == e.put.Life.Value && d >= -near && d <= near
	})
	return kept && !taken
}

// control runs the scenario with its own lock where another stands in for it: a lock that fails
// where that one holds is to blame, and one that holds where nothing was to be had has not shown
// much. It is repeated for the same reasons as any other run.
func (j Job) control(ctx context.Context, b harness.Backend) *outcome.Outcome {
	own := j
	own.Scenario, own.Control, own.Keep, own.Confirm = *j.Control, nil, KeepNone, false
	c := retry{j.Retries, again}.run(ctx, func([]string) outcome.Outcome { return execute(ctx, b, own, nil) })
	return &c
}

// excused returns the expectations without the Relative ones that the control violated: under
// these settings no lock of its kind keeps them.
func (j Job) excused(control *outcome.Outcome) map[string]scenario.Expectation {
	expect := maps.Clone(j.Scenario.Expect)
	for _, property := range j.Relative {
		if r := control.Verdict.Result(property); r != nil && r.Outcome == verdict.Violated {
			expect[property] = scenario.Expectation{Want: wantAny, Follows: expect[property].Follows}
		}
	}
	return expect
}

// compare sets what came of the control beside what came of the lock under test. It changes
// neither what was expected nor the exit code.
func (j Job) compare(c, o *outcome.Outcome) {
	lock := j.Control.Lock.Kind
	if c.Error != "" {
		o.Control = &outcome.Control{Lock: lock, Error: c.Error}
		return
	}
	o.Control = &outcome.Control{Lock: lock, Numbers: c.Numbers}
	for i := range o.Judgements {
		if r := c.Verdict.Result(o.Judgements[i].Property); r != nil {
			o.Judgements[i].Control = r.Outcome
		}
	}
	for _, r := range c.Verdict.Results {
		if r.Outcome == verdict.Violated {
			o.Control.Violated = append(o.Control.Violated, outcome.Judgement{Property: r.Property, Got: r.Outcome, Cause: r.Cause, Node: r.Node, Because: r.Because})
		}
	}
}
