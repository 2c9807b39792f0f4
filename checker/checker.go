// Package checker judges histories. It works on the facts that package facts extracts from a
// history, and knows nothing about backends, fault injection or expectations.
//
// Check returns a verdict.Verdict. For each property, the verdict states the outcome (holds,
// violated, undecided or not exercised) and the reason in one sentence. For a violation it adds the
// cause and a Witness: the numbers of the events that prove the violation. Each property is checked
// by one search, and its result follows from what the search found and covered (verdict.Finding). A
// property that was never exercised does not hold. The assumptions come first: a run is undecided
// if its history is malformed or vacuous, if a fault had no effect, or if an unplanned event hit a
// process. The table of properties is in checker.go, and the assumptions are checked in
// assumptions.go. The subpackages do the rest:
//
//	verdict      the results as data, and their texts
//	spans        arithmetic on spans of true time, and overlaps of sessions
//	cause        why two sessions could hold the same lock, from the nodes' reports
//	lease        lease-linearizability, decided exactly, with a certificate
//	second       lease-linearizability again, decided by porcupine, and porcupine's visualization
//	resource     resource-safety and fencing-order, from the resource's log
//	liveness     deadlock-freedom and fault-tolerance, availability and fairness
//	mutex        locks without leases, in histories recorded by other tools
//
// Check and Visualize wait in real time for the second judge. Do not call them inside a synctest
// bubble.
//
// # Why you can trust it
//
// If lease-linearizable holds, a certificate proves it, and the certificate is verified operation
// by operation. Porcupine judges small histories again, through a separate translation. It also
// judges the witnesses of violations of mutual-exclusion and lease-linearizable, unless the lock
// never notifies its holder. Package bruteforce tries every order and every instant on the raw
// events, and shares no code with either judge. Tests compare the results for millions of histories
// with those of porcupine and of simple judges like bruteforce. The tests are tested, too:
// testdata/mutants.list lists mistakes in the checker, in package mutex, in the facts and in the
// reader of Jepsen histories. TestMutants plants each mistake in a copy of the code and requires
// one of the comparisons to detect it. Mistakes in causes are detected by the tests with tables of
// histories.
//
// The package does not ask how a history was made or what the user expects of it.
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

// properties lists all properties in the order in which reports show them.
var properties = []property{
	{verdict.MutualExclusion, safetyProperty, mutualExclusion},
	{verdict.LeaseLinearizable, safetyProperty, leaseLinearizable},
	{verdict.ResourceSafety, safetyProperty, func(r *record) verdict.Finding { return r.log().Safety() }},
	{verdict.FencingOrder, safetyProperty, func(r *record) verdict.Finding { return r.log().FencingOrder() }},
	{verdict.ValidOnReturn, safetyProperty, func(r *record) verdict.Finding { return validOnReturn(r.Facts) }},
	{verdict.DeadlockFreedom, livenessProperty, func(r *record) verdict.Finding { return r.liveness().DeadlockFreedom() }},
	{verdict.FaultTolerance, livenessProperty, func(r *record) verdict.Finding { return r.liveness().FaultTolerance() }},
	{verdict.BoundedHold, livenessProperty, func(r *record) verdict.Finding { return boundedHold(r.Facts) }},
	{verdict.HolderNotified, safetyProperty, holderNotified},
}

// A safety property states that nothing bad happens, whatever the faults. A liveness property states
// that something good happens if the faults allow it.
const (
	safetyProperty   = false
	livenessProperty = true
)

type property struct {
	name       string
	isLiveness bool
	search     func(*record) verdict.Finding
}

// Liveness reports whether a property is a liveness property rather than a safety property.
func Liveness(name string) bool {
	return slices.ContainsFunc(properties, func(p property) bool { return p.name == name && p.isLiveness })
}

// Properties returns the names of all properties in the order in which reports show them.
func Properties() []string {
	var names []string
	for _, p := range properties {
		names = append(names, p.name)
	}
	return names
}

// leaseLinearizable returns lease.Judge's finding. To each incident caused by an early "not held"
// it adds what happened to the session's keys.
func leaseLinearizable(r *record) verdict.Finding {
	f, _ := r.lease()
	addReason := func(describe func() verdict.Result) func() verdict.Result {
		return func() verdict.Result {
			res := describe()
			if w := res.Witness; res.Cause == verdict.LostEarly && len(w.SessionFacts) > 0 {
				res.Because += "; " + cause.DescribeKeys(r.Facts, w.SessionFacts[0], w.From, w.To)
			}
			return res
		}
	}
	f.Incidents = slices.Clone(f.Incidents)
	for i := range f.Incidents {
		f.Incidents[i].Describe = addReason(f.Incidents[i].Describe)
	}
	if f.DescribeWorst != nil {
		f.DescribeWorst = addReason(f.DescribeWorst)
	}
	return f
}

// Check checks the named properties of a history, or all properties if none is named.
func Check(h *history.History, names ...string) (v verdict.Verdict) {
	if len(names) == 0 {
		names = Properties()
	}
	if len(names) > 1 && !h.Params.NoLossNotice { // HolderNotified does not apply to most locks
		names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == verdict.HolderNotified })
	}
	defer func() {
		if p := recover(); p != nil {
			v = undecidedVerdict(h, names, fmt.Sprintf("the checker failed: %v", p))
		}
	}()
	r := newRecord(h)
	if text, unplanned := unplannedFaults(r.Facts); unplanned {
		v = undecidedVerdict(h, names, text)
		v.Assumption, v.Unplanned = text, true
		if r.Defect == "" {
			v.Numbers, v.Reasons = numbers(r)
		}
		return v
	}
	if r.Defect != "" {
		v = undecidedVerdict(h, names, "the history is malformed: "+r.Defect)
		v.Assumption = r.Defect
		return v
	}
	missing := vacuousReason(r.Facts)
	if len(r.UnsupportedCommands) > 0 { // Redis would have answered these commands differently
		v = undecidedVerdict(h, names, "the run is vacuous: "+missing)
		v.Assumption = missing
		v.Numbers, v.Reasons = numbers(r)
		return v
	}
	v = verdict.Verdict{Schema: verdict.Schema, Cut: h.Truncation}
	v.Numbers, v.Reasons = numbers(r)
	stallEffects := newStallEffects(r.Facts)
	noGrants := missing != "" && r.Grants == 0 && !r.Params.MayBeIdle
	explained := false // the run is vacuous because no client got the lock or because a call hung
	for _, name := range names {
		res := weakenForCut(r, missing, judge(r, name))
		switch {
		case missing == "" || h.Truncation != "" && !noGrants:
		case res.Outcome != verdict.Violated: // no property holds in a vacuous run
			res = verdict.Result{Property: name, Outcome: verdict.Undecided, Because: "the run is vacuous: " + missing}
		default: // violations are real
			explained = explained || noGrants && Liveness(name) || res.Cause == verdict.Hung
		}
		v.Results = append(v.Results, stallEffects.addStall(res))
	}
	if missing != "" && (h.Truncation == "" || noGrants) && !explained {
		v.Assumption = missing
	}
	v.Second = r.second.Answer(second.Timeout)
	v.Disagreement = disagreement(r, v)
	return v
}

func undecidedVerdict(h *history.History, names []string, reason string) verdict.Verdict {
	v := verdict.Verdict{Schema: verdict.Schema, Cut: h.Truncation, Second: verdict.Undecided}
	for _, name := range names {
		v.Results = append(v.Results, verdict.Result{Property: name, Outcome: verdict.Undecided, Because: reason})
	}
	return v
}

func judge(r *record, name string) verdict.Result {
	res, _ := search(r, name)
	return res
}

// search looks for violations of one property and judges what it finds. If the search panics, the
// result is undecided.
func search(r *record, name string) (res verdict.Result, f verdict.Finding) {
	defer func() {
		if p := recover(); p != nil {
			res = verdict.Result{Outcome: verdict.Undecided, Because: fmt.Sprintf("the checker failed: %v", p)}
		}
		res.Property = name
	}()
	i := slices.IndexFunc(properties, func(p property) bool { return p.name == name })
	if i < 0 {
		return verdict.Result{Outcome: verdict.Undecided, Because: "unknown property; known: " + strings.Join(Properties(), ", ")}, f
	}
	f = properties[i].search(r)
	return f.Result(), f
}

// weakenForCut adjusts a result if the record was cut short. A violation stands, but without one,
// events that the run needs in order to prove anything may lie beyond the cut.
func weakenForCut(r *record, missing string, res verdict.Result) verdict.Result {
	switch {
	case r.Truncation == "" || res.Outcome == verdict.Violated:
	case missing != "" && (res.Outcome == verdict.Holds || res.Outcome == verdict.NotExercised):
		res.Outcome = verdict.Undecided
		res.Because = fmt.Sprintf("the record is cut (%s), and before the cut %s", r.Truncation, missing)
	default:
		res.Because += fmt.Sprintf("; the record is cut: %s", r.Truncation)
	}
	return res
}

// disagreement describes how the judges contradict each other, or returns "" if they agree.
// Porcupine can contradict a single violation or the outcome of lease-linearizable. The certificate
// can contradict the result that lease-linearizable holds.
func disagreement(r *record, v verdict.Verdict) string {
	for _, name := range []string{verdict.MutualExclusion, verdict.LeaseLinearizable} {
		if reason := r.second.Contradiction(v.Result(name)); reason != "" {
			return reason
		}
	}
	first := v.Result(verdict.LeaseLinearizable)
	if first == nil || first.Outcome == verdict.Undecided {
		return ""
	}
	answer := first.Outcome.Answer()
	if answer == verdict.Holds {
		if _, reason := r.lease(); reason != "" {
			return fmt.Sprintf("%s holds, but %s", verdict.LeaseLinearizable, reason)
		}
	}
	if v.Second != verdict.Undecided && v.Second != answer {
		return fmt.Sprintf("%s: %s, but porcupine says %s", verdict.LeaseLinearizable, first.Outcome, v.Second)
	}
	return ""
}

// Numbers returns the names of all measurements.
func Numbers() []string {
	var names []string
	for _, n := range verdict.Numbers {
		names = append(names, n.Name)
	}
	return names
}

// Visualize writes porcupine's visualization of the violation in a verdict. See second.Visualize.
func Visualize(w io.Writer, h *history.History, v verdict.Verdict) (shown bool, err error) {
	return second.Visualize(w, h, v)
}

// numbers measures a run and explains some of the numbers in words. Numbers are reported but not
// judged.
func numbers(r *record) (n map[string]float64, reasons map[string]string) {
	o := r.beliefs.Overlaps()
	n = map[string]float64{
		verdict.Grants:        0,
		"double-hold-seconds": history.Seconds(o.DoubleHold),
		"incidents":           float64(len(o.Incidents)),
	}
	sessionNumbers(r.Facts, n)
	r.log().Numbers(n)
	reasons = r.liveness().Numbers(n)
	faultNumbers(r, n)
	stallNumbers(r.Facts, n)
	return n, reasons
}

// sessionNumbers measures the latency of acquires and the validity they left.
func sessionNumbers(r *facts.Facts, n map[string]float64) {
	var latencies, remaining []int64
	for s := range r.Sessions() {
		if s.Granted() {
			latencies = append(latencies, s.EndedAt-s.CalledAt)
		}
		if x, ok := validityLeft(r, s); ok {
			remaining = append(remaining, x)
		}
	}
	slices.Sort(latencies)
	slices.Sort(remaining)
	n[verdict.Grants] = float64(len(latencies))
	if elapsed := r.LastClientTime - r.FirstClientTime; elapsed > 0 {
		n["grants-per-second"] = float64(len(latencies)) / history.Seconds(elapsed)
	}
	if len(latencies) > 0 {
		n["acquire-latency-p50"] = history.Seconds(percentile(latencies, 50))
		n["acquire-latency-p99"] = history.Seconds(percentile(latencies, 99))
		n["acquire-latency-max"] = history.Seconds(latencies[len(latencies)-1])
	}
	if len(remaining) > 0 {
		n["validity-left-min"] = history.Seconds(remaining[0])
		n["validity-left-p50"] = history.Seconds(percentile(remaining, 50))
	}
}

// percentile returns the smallest sorted value that at least percent % of the values do not exceed.
func percentile(sorted []int64, percent int) int64 { return sorted[(len(sorted)*percent+99)/100-1] }

// Each planned step of the nemesis has four numbers, named "fault-STEP-" plus one of these
// suffixes. If a step is repeated, all repetitions are counted together.
const (
	faultPlanned  = "planned"   // planned targets
	faultInjected = "injected"  // attempted injections
	faultReadBack = "read-back" // confirmed injections
	faultOnHeld   = "on-held"   // confirmed injections that were active while a client believed it held a lock
)

func stallNumbers(r *facts.Facts, n map[string]float64) {
	for _, s := range spans.Stalls(r) {
		d := history.Seconds(s.Length())
		n[verdict.StalledSeconds] += d
		n[verdict.StalledMax] = max(n[verdict.StalledMax], d)
	}
}

func faultNumbers(r *record, n map[string]float64) {
	if len(r.Params.Steps) == 0 {
		return
	}
	var beliefSpans []spans.Span
	for _, l := range r.Locks {
		for _, w := range r.beliefs.Windows(l) {
			beliefSpans = append(beliefSpans, spans.New(w.From, w.To))
		}
	}
	beliefSpans = spans.Union(beliefSpans)
	for _, s := range r.Params.Steps {
		n[faultNumber(s.Step, faultPlanned)] = float64(len(s.Targets))
		for _, suffix := range []string{faultInjected, faultReadBack, faultOnHeld} {
			n[faultNumber(s.Step, suffix)] = 0
		}
	}
	for _, f := range r.Faults {
		if f.Step <= 0 { // unplanned
			continue
		}
		n[faultNumber(f.Step, faultInjected)]++
		if f.Begin == nil {
			continue
		}
		n[faultNumber(f.Step, faultReadBack)]++
		activeSpan := spans.New(f.Begin.T, facts.Never)
		if f.End != nil {
			activeSpan.To = max(f.End.T, f.Begin.T+1)
		}
		if spans.Meets(beliefSpans, activeSpan) {
			n[faultNumber(f.Step, faultOnHeld)]++
		}
	}
}

func faultNumber(step int, suffix string) string { return fmt.Sprintf("fault-%d-%s", step, suffix) }

// record holds the facts of a history and the results that several properties or numbers use. Its
// functions compute their results on the first call.
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

// Incidents returns at most limit violations of a property, ordered by time. Each is described by
// the result that would be reported if there were no other. One of them is the violation shown in
// the verdict. Incidents of mutual exclusion have no cause.
func Incidents(h *history.History, property string, limit int) (all []verdict.Result) {
	r := newRecord(h)
	res, f := search(r, property)
	switch {
	case r.Defect != "" || res.Outcome != verdict.Violated:
		return nil
	case res.Incidents == 1:
		return []verdict.Result{res}
	}
	slices.SortStableFunc(f.Incidents, func(a, b verdict.Incident) int { return cmp.Compare(a.From, b.From) })
	for _, x := range f.Incidents[:min(len(f.Incidents), limit)] {
		all = append(all, x.Describe())
	}
	return all
}
