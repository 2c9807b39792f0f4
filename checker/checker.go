// Package checker judges a history, as package facts puts it in order, and nothing
// else: it knows no backend, no fault injector and no expectation.
//
// Check answers with a verdict.Verdict: for each property holds, violated, undecided or
// not exercised, why in one sentence, and where it is violated the cause and a
// Witness, the numbers of the events that prove it. Each property is one search, and
// its result follows from what that found and covered (verdict.Finding). What was never
// put to the test does not hold. Before any property come the
// assumptions: a history that is malformed or vacuous is undecided, whatever
// else it shows, and so is one of a fault that hit nothing, or of a run in
// which somebody else than the plan hit a process. The table of
// properties is in checker.go, whether a run shows anything at all in assumptions.go, and
// packages below judge by facts alone:
//
//	verdict      what is answered, as data, and the words for it
//	spans        arithmetic of spans of true time, and where windows of sessions overlap
//	cause        why two sessions could have one lock, by what the nodes told
//	lease        lease-linearizability, exactly, with a certificate
//	second       the same question, put to porcupine, and porcupine's picture
//	resource     resource-safety and fencing-order, by the resource's log
//	liveness     deadlock-freedom and fault-tolerance, availability and fairness
//	mutex        locks without leases, of other people's histories
//
// Check and Visualize wait for real time when they ask the second judge, so call
// them outside any bubble of virtual time.
//
// # Why to trust it
//
// What holds is proven by a certificate that is verified operation by operation. What is
// small enough is also given to porcupine, by a translation of its own, and so is the
// witness of a violation of mutual-exclusion or lease-linearizable, unless the lock tells its
// holder nothing. Package bruteforce tries every order and every instant on raw events, and
// shares no line with either. The tests that compare millions of histories with porcupine and
// with such simple judges are themselves tested: testdata/mutants.list lists mistakes in the
// checker, in package mutex, in the facts and in the reader of Jepsen's histories. TestMutants
// plants each in a copy, and a comparison must notice it; a mistake in a cause is noticed by
// the tables of stories.
//
// Deliberately missing: how the history was made, and what somebody hoped for.
package checker

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"lockpick/checker/cause"
	"lockpick/checker/lease"
	"lockpick/checker/liveness"
	"lockpick/checker/resource"
	"lockpick/checker/second"
	"lockpick/checker/spans"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// properties is the one table of them, in the order of reports.
var properties = []property{
	{verdict.MutualExclusion, safety, mutualExclusion},
	{verdict.LeaseLinearizable, safety, leaseLinearizable},
	{verdict.ResourceSafety, safety, func(r *record) verdict.Finding { return r.log().Safety() }},
	{verdict.FencingOrder, safety, func(r *record) verdict.Finding { return r.log().FencingOrder() }},
	{verdict.ValidOnReturn, safety, func(r *record) verdict.Finding { return validOnReturn(r.Facts) }},
	{verdict.DeadlockFreedom, lives, func(r *record) verdict.Finding { return r.liveness().DeadlockFreedom() }},
	{verdict.FaultTolerance, lives, func(r *record) verdict.Finding { return r.liveness().FaultTolerance() }},
	{verdict.BoundedHold, lives, func(r *record) verdict.Finding { return boundedHold(r.Facts) }},
	{verdict.HolderTold, safety, holderTold},
}

// A safety property says that nothing bad happens, whatever the faults; liveness
// that something good does, where the faults allow it.
const (
	safety = false
	lives  = true
)

type property struct {
	name  string
	lives bool
	find  func(*record) verdict.Finding
}

// Liveness reports whether a property is one of liveness rather than of safety.
func Liveness(name string) bool {
	return slices.ContainsFunc(properties, func(p property) bool { return p.name == name && p.lives })
}

// Properties lists the names of all properties in the order of reports.
func Properties() []string {
	var names []string
	for _, p := range properties {
		names = append(names, p.name)
	}
	return names
}

// leaseLinearizable is what lease.Judge finds, with the reason for each "not held" that came too early.
func leaseLinearizable(r *record) verdict.Finding {
	f, _ := r.lease()
	reasoned := func(tell func() verdict.Result) func() verdict.Result {
		return func() verdict.Result {
			res := tell()
			if w := res.Witness; res.Cause == verdict.LostEarly && len(w.Of) > 0 {
				res.Because += "; " + cause.Lost(r.Facts, w.Of[0], w.From, w.To)
			}
			return res
		}
	}
	f.Incidents = slices.Clone(f.Incidents)
	for i := range f.Incidents {
		f.Incidents[i].Tell = reasoned(f.Incidents[i].Tell)
	}
	if f.Worst != nil {
		f.Worst = reasoned(f.Worst)
	}
	return f
}

// Check judges a history by the named properties, or by all if none is named.
func Check(h *history.History, names ...string) (v verdict.Verdict) {
	if len(names) == 0 {
		names = Properties()
	}
	if len(names) > 1 && !h.Params.Untold { // it would say of nearly every lock that it isn't about it
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == verdict.HolderTold })
	}
	defer func() {
		if p := recover(); p != nil {
			v = nothing(h, names, fmt.Sprintf("the checker failed: %v", p))
		}
	}()
	r := newRecord(h)
	if text, hit := unplanned(r.Facts); hit {
		v = nothing(h, names, text)
		v.Assumption, v.Unplanned = text, true
		if r.Malformed == "" {
			v.Numbers, v.Words = numbers(r)
		}
		return v
	}
	if r.Malformed != "" {
		v = nothing(h, names, "the history is malformed: "+r.Malformed)
		v.Assumption = r.Malformed
		return v
	}
	vacuous := vacuous(r.Facts)
	if len(r.Lacks) > 0 { // what Redis would have answered otherwise shows nothing
		v = nothing(h, names, "the run is vacuous: "+vacuous)
		v.Assumption = vacuous
		v.Numbers, v.Words = numbers(r)
		return v
	}
	v = verdict.Verdict{Schema: verdict.Schema, Cut: h.Cut}
	v.Numbers, v.Words = numbers(r)
	late := latenessOf(r.Facts)
	barren := vacuous != "" && r.Grants == 0 && !r.Params.MayBeIdle
	explained := false // a lock that nobody got, or a call that hung, is why the run is vacuous
	for _, name := range names {
		res := cutShort(r, vacuous, judge(r, name))
		switch {
		case vacuous == "" || h.Cut != "" && !barren:
		case res.Outcome != verdict.Violated: // nothing holds in a run that shows nothing
			res = verdict.Result{Property: name, Outcome: verdict.Undecided, Because: "the run is vacuous: " + vacuous}
		default: // but what was violated was
			explained = explained || barren && Liveness(name) || res.Cause == verdict.Hung
		}
		v.Results = append(v.Results, late.stalled(res))
	}
	if vacuous != "" && (h.Cut == "" || barren) && !explained {
		v.Assumption = vacuous
	}
	v.Second = r.second.Answer(second.Timeout)
	v.Disagreement = disagreement(r, v)
	return v
}

// nothing is a verdict that leaves all undecided.
func nothing(h *history.History, names []string, because string) verdict.Verdict {
	v := verdict.Verdict{Schema: verdict.Schema, Cut: h.Cut, Second: verdict.Undecided}
	for _, name := range names {
		v.Results = append(v.Results, verdict.Result{Property: name, Outcome: verdict.Undecided, Because: because})
	}
	return v
}

// judge judges by one property.
func judge(r *record, name string) verdict.Result {
	res, _ := find(r, name)
	return res
}

// find searches by one property, and judges by what it found. A search that panics has decided nothing.
func find(r *record, name string) (res verdict.Result, f verdict.Finding) {
	defer func() {
		if p := recover(); p != nil {
			res = verdict.Result{Outcome: verdict.Undecided, Because: fmt.Sprintf("the checker failed: %v", p)}
		}
		res.Property = name
	}()
	i := slices.IndexFunc(properties, func(p property) bool { return p.name == name })
	if i < 0 {
		return verdict.Result{Outcome: verdict.Undecided, Because: "there is no such property: try " + strings.Join(Properties(), ", ")}, f
	}
	f = properties[i].find(r)
	return f.Result(), f
}

// cutShort weakens a result as a cut record demands: what was violated stays violated,
// but what the run was to show may have been still to come.
func cutShort(r *record, vacuous string, res verdict.Result) verdict.Result {
	switch {
	case r.Cut == "" || res.Outcome == verdict.Violated:
	case vacuous != "" && (res.Outcome == verdict.Holds || res.Outcome == verdict.NotExercised):
		res.Outcome = verdict.Undecided
		res.Because = fmt.Sprintf("the record is cut (%s), and up to there %s", r.Cut, vacuous)
	default:
		res.Because += fmt.Sprintf("; the record is cut: %s", r.Cut)
	}
	return res
}

// disagreement says where the judges contradict each other, or "": porcupine
// the violations that were found, porcupine lease-linearizable as a whole in
// either direction, and the certificate a verdict that it holds.
func disagreement(r *record, v verdict.Verdict) string {
	for _, name := range []string{verdict.MutualExclusion, verdict.LeaseLinearizable} {
		if why := r.second.Against(v.Result(name)); why != "" {
			return why
		}
	}
	first := v.Result(verdict.LeaseLinearizable)
	if first == nil || first.Outcome == verdict.Undecided {
		return ""
	}
	answer := first.Outcome.Answer()
	if answer == verdict.Holds {
		if _, why := r.lease(); why != "" {
			return fmt.Sprintf("%s is said to hold, but %s", verdict.LeaseLinearizable, why)
		}
	}
	if v.Second != verdict.Undecided && v.Second != answer {
		return fmt.Sprintf("%s came out as %s, and porcupine answers %s", verdict.LeaseLinearizable, first.Outcome, v.Second)
	}
	return ""
}

// Numbers lists the names of what is measured.
func Numbers() []string {
	var names []string
	for _, n := range verdict.Numbers {
		names = append(names, n.Name)
	}
	return names
}

// Visualize writes porcupine's picture of a verdict's violation: see package second.
func Visualize(w io.Writer, h *history.History, v verdict.Verdict) (shown bool, err error) {
	return second.Visualize(w, h, v)
}

// numbers measures a run, and says in words what a number can't. What it finds is reported,
// not judged.
func numbers(r *record) (n map[string]float64, words map[string]string) {
	o := r.beliefs.Overlaps()
	n = map[string]float64{
		verdict.Grants:        0,
		"double-hold-seconds": history.Seconds(o.DoubleHold),
		"incidents":           float64(len(o.Each)),
	}
	sessions(r.Facts, n)
	r.log().Numbers(n)
	words = r.liveness().Numbers(n)
	faultNumbers(r, n)
	stallNumbers(r.Facts, n)
	return n, words
}

// sessions measures what each of them tells by itself.
func sessions(r *facts.Facts, n map[string]float64) {
	var latency, left []int64
	for s := range r.Sessions() {
		if s.Granted() {
			latency = append(latency, s.Ended-s.Called)
		}
		if x, ok := leftOnReturn(r, s); ok {
			left = append(left, x)
		}
	}
	slices.Sort(latency)
	slices.Sort(left)
	n[verdict.Grants] = float64(len(latency))
	if elapsed := r.Last - r.First; elapsed > 0 {
		n["grants-per-second"] = float64(len(latency)) / history.Seconds(elapsed)
	}
	if len(latency) > 0 {
		n["acquire-latency-p50"] = history.Seconds(ranked(latency, 50))
		n["acquire-latency-p99"] = history.Seconds(ranked(latency, 99))
		n["acquire-latency-max"] = history.Seconds(latency[len(latency)-1])
	}
	if len(left) > 0 {
		n["validity-left-min"] = history.Seconds(left[0])
		n["validity-left-p50"] = history.Seconds(ranked(left, 50))
	}
}

// ranked returns the smallest of sorted values that so many per cent of them don't exceed.
func ranked(sorted []int64, percent int) int64 { return sorted[(len(sorted)*percent+99)/100-1] }

// What became of each planned step of the nemesis, under "fault-STEP-" and one of
// these. A step that comes every time has all its occurrences in one.
const (
	faultPlanned  = "planned"   // targets
	faultInjected = "injected"  // times that it was tried on one of them
	faultReadBack = "read-back" // of these: it was seen to be in force
	faultOnHeld   = "on-held"   // of these: somebody believed to hold a lock while it was
)

// stallNumbers measures how long the machine stood still.
func stallNumbers(r *facts.Facts, n map[string]float64) {
	for _, s := range spans.Stalls(r) {
		d := history.Seconds(s.Length())
		n[verdict.StalledSeconds] += d
		n[verdict.StalledMax] = max(n[verdict.StalledMax], d)
	}
}

// faultNumbers measures what became of each step of the plan.
func faultNumbers(r *record, n map[string]float64) {
	if len(r.Params.Steps) == 0 {
		return
	}
	var held []spans.Span
	for _, l := range r.Locks {
		for _, w := range r.beliefs.Of(l) {
			held = append(held, spans.Of(w.From, w.To))
		}
	}
	held = spans.Union(held)
	for _, s := range r.Params.Steps {
		n[faultNumber(s.Step, faultPlanned)] = float64(len(s.Targets))
		for _, what := range []string{faultInjected, faultReadBack, faultOnHeld} {
			n[faultNumber(s.Step, what)] = 0
		}
	}
	for _, f := range r.Faults {
		if f.Step <= 0 { // in no plan
			continue
		}
		n[faultNumber(f.Step, faultInjected)]++
		if f.Begin == nil {
			continue
		}
		n[faultNumber(f.Step, faultReadBack)]++
		inForce := spans.Of(f.Begin.T, facts.Never)
		if f.End != nil {
			inForce.To = max(f.End.T, f.Begin.T+1)
		}
		if spans.Meets(held, inForce) {
			n[faultNumber(f.Step, faultOnHeld)]++
		}
	}
}

func faultNumber(step int, what string) string { return fmt.Sprintf("fault-%d-%s", step, what) }

// record is the facts of a history with what is found of them for more than one property
// or number: the functions find it when they are first called.
type record struct {
	*facts.Facts
	beliefs *spans.Beliefs
	second  second.Judge

	lease    func() (f verdict.Finding, against string)
	liveness func() *liveness.Run
	log      func() *resource.Log
}

func newRecord(h *history.History) *record {
	r := facts.Read(h)
	beliefs := spans.NewBeliefs(r)
	return &record{
		Facts: r, beliefs: beliefs, second: second.New(r),
		lease:    sync.OnceValues(func() (verdict.Finding, string) { return lease.Judge(r, beliefs) }),
		liveness: sync.OnceValue(func() *liveness.Run { return liveness.Read(r, beliefs) }),
		log:      sync.OnceValue(func() *resource.Log { return resource.Read(r) }),
	}
}

// Incidents lists the times that a property was violated which a verdict says is: as many as
// its result counts but no more than so many, in the order of time. Each is told by the
// result that would show it if there were no other. One of them is what the verdict shows,
// but that of mutual exclusion is without its cause.
func Incidents(h *history.History, property string, most int) (all []verdict.Result) {
	r := newRecord(h)
	res, f := find(r, property)
	switch {
	case r.Malformed != "" || res.Outcome != verdict.Violated:
		return nil
	case res.Incidents == 1:
		return []verdict.Result{res}
	}
	slices.SortStableFunc(f.Incidents, func(a, b verdict.Incident) int { return cmp.Compare(a.From, b.From) })
	for _, x := range f.Incidents[:min(len(f.Incidents), most)] {
		all = append(all, x.Tell())
	}
	return all
}
