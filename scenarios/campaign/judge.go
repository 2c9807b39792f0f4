package campaign

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/lock"
	"lockpick/harness/lock/broken"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// Values of an expectation.
const (
	wantAny      = outcome.AnyOutcome
	wantHolds    = string(verdict.Holds)
	wantViolated = string(verdict.Violated)
)

// Judge compares a verdict with the expectations. Nothing else in lockpick does. A property without
// an expectation is always as expected.
func Judge(expect map[string]scenario.Expectation, v verdict.Verdict) []outcome.Judgement {
	var out []outcome.Judgement
	for _, r := range v.Results {
		j := outcome.Judgement{Property: r.Property, Got: r.Outcome, Cause: r.Cause, Node: r.Node, Because: r.Because, AsExpected: true, Length: violationLength(r), NotApplicable: r.NotApplicable}
		if want, ok := expect[r.Property]; ok {
			judgeResult(&j, want, r)
			if v.Assumption != "" { // a vacuous run is never as expected
				j.AsExpected = false
				if r.Outcome == verdict.Violated && want.Want != wantHolds {
					j.Got, j.Because = verdict.Undecided, fmt.Sprintf("the run is vacuous: %s; %s", v.Assumption, r.Because)
				}
			}
			if j.Missed && v.Cut != "" { // the violation may have followed later
				j.Missed, j.Got, j.Because = false, verdict.Undecided, "not violated so far: "+r.Because
			}
			excuseStalled(&j, want, r)
		}
		out = append(out, j)
	}
	for name, want := range expect {
		if v.Result(name) == nil {
			out = append(out, outcome.Judgement{Property: name, Expected: want.String(), Got: verdict.Undecided,
				Because: "there is no property of this name"})
		}
	}
	slices.SortStableFunc(out, func(a, b outcome.Judgement) int {
		return slices.Index(checker.Properties(), a.Property) - slices.Index(checker.Properties(), b.Property)
	})
	return out
}

// violationLength returns how many events it takes to prove the violation, counted from the start
// of the history.
func violationLength(r verdict.Result) int {
	if r.Witness == nil || len(r.Witness.Events) == 0 {
		return 0
	}
	return int(slices.Max(r.Witness.Events))
}

// judgements judges a stored run by its scenario's expectations and a Jepsen history by its model's
// guarantees. A bare history is judged by the guarantees that every lock must give, except those
// that can't be checked without a scenario.
func (s StoredRun) judgements(v verdict.Verdict) []outcome.Judgement {
	switch {
	case s.Manifest != nil:
		return append(Judge(s.Manifest.Scenario.Expect, v), judgeNumbers(s.Manifest.Scenario.Numbers, v)...)
	case !s.Model.HasHandles():
		return Judge(map[string]scenario.Expectation{s.Model.Name: {Want: wantHolds, Implied: true}}, v)
	}
	expect := defaultExpectations()
	if s.History.Params.Resource == "" {
		delete(expect, verdict.ResourceSafety)
	}
	return Judge(expect, v)
}

// defaultExpectations requires the safety properties.
func defaultExpectations() map[string]scenario.Expectation {
	expect := map[string]scenario.Expectation{
		verdict.MutualExclusion: {Want: wantHolds, Implied: true},
		verdict.ResourceSafety:  {Want: wantHolds, Implied: true},
	}
	scenario.AddImplied(expect, "")
	return expect
}

// judgeResult compares one result with its expectation.
func judgeResult(j *outcome.Judgement, want scenario.Expectation, r verdict.Result) {
	j.Expected, j.ImpliedBy = want.String(), want.LeadProperty
	switch want.Want {
	case wantAny:
		return
	case wantHolds:
		// If the scenario names the property, the run must exercise it, unless the lock makes that
		// impossible.
		j.AsExpected = r.Outcome == verdict.Holds || r.Outcome == verdict.NotExercised && (want.Implied || r.NotApplicable)
	case wantViolated:
		j.Missed = r.Outcome == verdict.Holds || r.Outcome == verdict.NotExercised
		// A violation with another cause does not count.
		j.AsExpected = r.Outcome == verdict.Violated &&
			(want.Cause == "" || want.Cause == r.Cause) && (want.Node == "" || want.Node == r.Node)
	}
}

// excuseStalled marks a property as undecided if a violation was expected but did not occur, or had
// another cause, and the host stalled: the stall may have delayed the plan. Unexpected violations
// need no excuse, because the checker accounts for stalls itself.
func excuseStalled(j *outcome.Judgement, want scenario.Expectation, r verdict.Result) {
	if j.AsExpected || r.Stalled == 0 || want.Want != wantViolated {
		return
	}
	switch r.Outcome {
	case verdict.Violated:
		j.Because = "the host stalled, which may be why: " + r.Because
	case verdict.Holds:
		j.Because = "the host stalled, which may be why the violation was missed: " + r.Because
	default:
		return
	}
	j.Got = verdict.Undecided
}

// judgeNumbers compares measured numbers with their bounds. A number that the run could not measure
// is undecided. A number bounded by another variant's number is pending until VariantComparer.Settle
// decides it.
func judgeNumbers(bounds map[string]scenario.Bound, v verdict.Verdict) []outcome.Judgement {
	var out []outcome.Judgement
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		b := bounds[name]
		j := outcome.Judgement{Property: name, Expected: b.String(), Number: &outcome.Number{Bound: b}}
		value, measured := v.Numbers[name]
		j.Number.Value = value
		switch {
		case v.Assumption != "":
			markUndecided(&j, v.Assumption)
		case !measured:
			markUndecided(&j, "the run has no "+name)
		case v.Cut != "":
			markUndecided(&j, "the history is incomplete: "+v.Cut)
		case b.Variant != "":
			markUndecided(&j, "it is compared with "+b.Variant+", which must run in the same campaign")
			j.Number.Pending = true
		default:
			judgeNumber(&j, value, 0)
			if !j.AsExpected && stallMayExplain(name, value-b.Value, v) {
				markUndecided(&j, "the host stalled, which may be why "+j.Because)
			}
		}
		out = append(out, j)
	}
	return out
}

// stallMayExplain reports whether host stalls may be why a number misses its bound by the given
// amount. If the number is a time, the stalls must be at least that long.
func stallMayExplain(name string, excess float64, v verdict.Verdict) bool {
	stalled := v.Numbers[verdict.StalledSeconds]
	isTime := slices.ContainsFunc(verdict.Numbers, func(n verdict.Number) bool { return n.Name == name && n.AffectedByStalls })
	return stalled > 0 && (!isTime || math.Abs(excess) <= stalled)
}

func markUndecided(j *outcome.Judgement, because string) {
	j.AsExpected, j.Got, j.Because = false, verdict.Undecided, because
}

// judgeNumber compares a number with its bound, which may depend on another variant's number.
func judgeNumber(j *outcome.Judgement, value, otherValue float64) {
	b := j.Number.Bound
	j.Got, j.AsExpected = verdict.Violated, b.Allows(value, otherValue)
	if j.AsExpected {
		j.Got = verdict.Holds
	}
	j.Because = fmt.Sprintf("%s is %s", j.Property, outcome.FormatNumber(value))
	if b.Variant != "" {
		j.Because += fmt.Sprintf("; in %s it is %s", b.Variant, outcome.FormatNumber(otherValue))
	}
}

// withoutPending drops the judgements that need another variant's number.
func withoutPending(js []outcome.Judgement) []outcome.Judgement {
	return slices.DeleteFunc(slices.Clone(js), outcome.Judgement.Pending)
}

// settle decides the judgements that need the given variant's numbers, and rewrites the stored
// outcome. numbers is nil if the campaign does not include the variant.
func settle(o *outcome.Outcome, variant string, numbers map[string]float64) {
	for i := range o.Judgements {
		j := &o.Judgements[i]
		if !j.Pending() || j.Number.Bound.Variant != variant {
			continue
		}
		j.Number.Pending = false
		if otherValue, measured := numbers[j.Property]; measured {
			judgeNumber(j, j.Number.Value, otherValue)
		} else if numbers != nil {
			markUndecided(j, "the run of "+variant+" has no "+j.Property)
		}
	}
	o.Code = outcome.WorseCode(o.Code, outcome.CodeOf(withoutPending(o.Judgements)))
	writeOutcome(o)
}

// VariantComparer decides outcomes that depend on numbers of another variant run with the same seed.
// It holds them back until those numbers are available.
type VariantComparer struct {
	Scenarios []Pick
	Seeds     int // per scenario

	numbers     map[int]map[string]float64 // numbers of finished runs, by run number
	waitingRuns []int
}

// Settle adds the outcome of run i. It returns the runs that can be decided now, after updating
// their outcomes.
func (c *VariantComparer) Settle(outcomes map[int]outcome.Outcome, i int) (decidedRuns []int) {
	if slices.ContainsFunc(c.Scenarios, func(p Pick) bool { return len(p.Numbers) > 0 }) {
		if c.numbers == nil {
			c.numbers = map[int]map[string]float64{}
		}
		c.numbers[i] = map[string]float64{}
		if n := outcomes[i].Numbers; n != nil {
			c.numbers[i] = n
		}
	}
	c.waitingRuns = slices.DeleteFunc(append(c.waitingRuns, i), func(i int) bool {
		o := outcomes[i]
		for _, variant := range o.PendingVariants() {
			otherRun, selected := c.runOfVariant(i, variant)
			numbers, finished := c.numbers[otherRun]
			if selected && !finished {
				return false
			}
			settle(&o, variant, numbers)
		}
		outcomes[i] = o
		decidedRuns = append(decidedRuns, i)
		return true
	})
	return decidedRuns
}

// IsWaiting reports whether a run's outcome depends on a run that has not finished.
func (c *VariantComparer) IsWaiting(i int) bool { return slices.Contains(c.waitingRuns, i) }

// runOfVariant returns the run of another variant of run i's scenario, with the same seed. ok is
// false if that variant was not selected.
func (c *VariantComparer) runOfVariant(i int, name string) (run int, ok bool) {
	if name == scenario.BaseVariant {
		name = ""
	}
	pick := c.Scenarios[i/c.Seeds]
	k := slices.IndexFunc(c.Scenarios, func(p Pick) bool { return p.File == pick.File && p.Variant == name })
	return k*c.Seeds + i%c.Seeds, k >= 0
}

// withoutStepNumbers drops the numbers of individual steps, which can't be compared across plans.
func withoutStepNumbers(numbers map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for _, name := range checker.Numbers() {
		if x, ok := numbers[name]; ok {
			out[name] = x
		}
	}
	return out
}

// KnownLocks returns the names that scenarios may use, given the lock kinds.
func KnownLocks(locks map[string]lock.Kind) scenario.KnownNames {
	k := scenario.KnownNames{Properties: checker.Properties(), Causes: verdict.Causes(), CanonicalCause: verdict.CanonicalCause, Numbers: checker.Numbers()}.WithKinds(locks)
	for _, m := range broken.Mistakes() {
		k.Mistakes = append(k.Mistakes, m.Name)
	}
	return k
}
