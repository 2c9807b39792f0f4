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

// Words of an expectation.
const (
	wantAny      = outcome.AnyOutcome
	wantHolds    = string(verdict.Holds)
	wantViolated = string(verdict.Violated)
)

// Judge holds a verdict against what was expected. It is the only place where
// the two meet. Properties that nothing is expected of come out as they are.
func Judge(expect map[string]scenario.Expectation, v verdict.Verdict) []outcome.Judgement {
	var out []outcome.Judgement
	for _, r := range v.Results {
		j := outcome.Judgement{Property: r.Property, Got: r.Outcome, Cause: r.Cause, Node: r.Node, Because: r.Because, AsExpected: true, Length: length(r), NotApplicable: r.NotApplicable}
		if want, ok := expect[r.Property]; ok {
			hold(&j, want, r)
			if v.Assumption != "" { // a run that shows nothing is not what anybody expected
				j.AsExpected = false
				if r.Outcome == verdict.Violated && want.Want != wantHolds {
					j.Got, j.Because = verdict.Undecided, fmt.Sprintf("the run is vacuous: %s; %s", v.Assumption, r.Because)
				}
			}
			if j.Missed && v.Cut != "" { // it may have been still to come
				j.Missed, j.Got, j.Because = false, verdict.Undecided, "not violated so far: "+r.Because
			}
			excuse(&j, want, r)
		}
		out = append(out, j)
	}
	for name, want := range expect {
		if v.Result(name) == nil {
			out = append(out, outcome.Judgement{Property: name, Expected: want.String(), Got: verdict.Undecided,
				Because: "no property of this name was judged"})
		}
	}
	slices.SortStableFunc(out, func(a, b outcome.Judgement) int {
		return slices.Index(checker.Properties(), a.Property) - slices.Index(checker.Properties(), b.Property)
	})
	return out
}

// length is how many events there are up to the last that proves a violation.
func length(r verdict.Result) int {
	if r.Witness == nil || len(r.Witness.Events) == 0 {
		return 0
	}
	return int(slices.Max(r.Witness.Events))
}

// judgements judges a stored run by what its scenario expected, one of Jepsen's by what its model
// promises, or a bare history by what every lock should hold to, as far as the history can tell.
func (s Stored) judgements(v verdict.Verdict) []outcome.Judgement {
	switch {
	case s.Manifest != nil:
		return append(Judge(s.Manifest.Scenario.Expect, v), judgeNumbers(s.Manifest.Scenario.Numbers, v)...)
	case !s.Model.Holders():
		return Judge(map[string]scenario.Expectation{s.Model.Name: {Want: wantHolds, Implied: true}}, v)
	}
	expect := unconditional()
	if s.History.Params.Resource == "" {
		delete(expect, verdict.ResourceSafety)
	}
	return Judge(expect, v)
}

// unconditional is what is expected where nobody says: a safety violation is
// never fine.
func unconditional() map[string]scenario.Expectation {
	expect := map[string]scenario.Expectation{
		verdict.MutualExclusion: {Want: wantHolds, Implied: true},
		verdict.ResourceSafety:  {Want: wantHolds, Implied: true},
	}
	scenario.Imply(expect, "")
	return expect
}

// hold holds one result against what was expected of it.
func hold(j *outcome.Judgement, want scenario.Expectation, r verdict.Result) {
	j.Expected, j.Follows = want.String(), want.Follows
	switch want.Want {
	case wantAny:
		return
	case wantHolds:
		// A property that the scenario names must have been put to the test, if the lock lets it.
		j.AsExpected = r.Outcome == verdict.Holds || r.Outcome == verdict.NotExercised && (want.Implied || r.NotApplicable)
	case wantViolated:
		j.Missed = r.Outcome == verdict.Holds || r.Outcome == verdict.NotExercised
		// Right for the wrong reason is not as expected.
		j.AsExpected = r.Outcome == verdict.Violated &&
			(want.Cause == "" || want.Cause == r.Cause) && (want.Node == "" || want.Node == r.Node)
	}
}

// excuse leaves open an expected violation that was missed, or had another cause, where the host
// stalled so that the plan was late. That a stall is no violation's cause the checker has seen to.
func excuse(j *outcome.Judgement, want scenario.Expectation, r verdict.Result) {
	if j.AsExpected || r.Stalled == 0 || want.Want != wantViolated {
		return
	}
	switch r.Outcome {
	case verdict.Violated:
		j.Because = "the host stalled, which may be why: " + r.Because
	case verdict.Holds:
		j.Because = "the host stalled, and the violation may have been missed for that: " + r.Because
	default:
		return
	}
	j.Got = verdict.Undecided
}

// judgeNumbers holds measured numbers against their bounds. One that has no
// meaning in the run, and so is missing, is undecided. One that is compared with
// another variant waits for Settle.
func judgeNumbers(bounds map[string]scenario.Bound, v verdict.Verdict) []outcome.Judgement {
	var out []outcome.Judgement
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		b := bounds[name]
		j := outcome.Judgement{Property: name, Expected: b.String(), Number: &outcome.Number{Bound: b}}
		x, measured := v.Numbers[name]
		j.Number.Value = x
		switch {
		case v.Assumption != "":
			undecided(&j, v.Assumption)
		case !measured:
			undecided(&j, "the run has no "+name)
		case v.Cut != "":
			undecided(&j, "the record is cut: "+v.Cut)
		case b.Than != "":
			undecided(&j, "it is compared with "+b.Than+", which has to be run with it")
			j.Number.Waits = true
		default:
			keep(&j, x, 0)
			if !j.AsExpected && stalls(name, x-b.Value, v) {
				undecided(&j, "the host stalled, which may be why "+j.Because)
			}
		}
		out = append(out, j)
	}
	return out
}

// stalls reports whether stalls of the host may be why a number misses its bound. Any may, but
// a time has to miss it by no more than the host stalled in all.
func stalls(name string, by float64, v verdict.Verdict) bool {
	still := v.Numbers[verdict.StalledSeconds]
	time := slices.ContainsFunc(verdict.Numbers, func(n verdict.Number) bool { return n.Name == name && n.Lengthened })
	return still > 0 && (!time || math.Abs(by) <= still)
}

// undecided leaves a number open.
func undecided(j *outcome.Judgement, because string) {
	j.AsExpected, j.Got, j.Because = false, verdict.Undecided, because
}

// keep decides by the numbers.
func keep(j *outcome.Judgement, x, other float64) {
	b := j.Number.Bound
	j.Got, j.AsExpected = verdict.Violated, b.Keeps(x, other)
	if j.AsExpected {
		j.Got = verdict.Holds
	}
	j.Because = fmt.Sprintf("%s is %s", j.Property, outcome.Figure(x))
	if b.Than != "" {
		j.Because += fmt.Sprintf(", and of %s %s", b.Than, outcome.Figure(other))
	}
}

// decided leaves out what waits.
func decided(js []outcome.Judgement) []outcome.Judgement {
	return slices.DeleteFunc(slices.Clone(js), outcome.Judgement.Waits)
}

// settle decides what waited for another variant's numbers; nil: it is not in this
// run. It writes the outcome again where it is kept.
func settle(o *outcome.Outcome, than string, numbers map[string]float64) {
	for i := range o.Judgements {
		j := &o.Judgements[i]
		if !j.Waits() || j.Number.Bound.Than != than {
			continue
		}
		j.Number.Waits = false
		if other, measured := numbers[j.Property]; measured {
			keep(j, j.Number.Value, other)
		} else if numbers != nil {
			undecided(j, "the run of "+than+" has no "+j.Property)
		}
	}
	o.Code = outcome.Worse(o.Code, outcome.CodeOf(decided(o.Judgements)))
	writeOutcome(o)
}

// Comparison lets outcomes wait for those of other variants, with the same seed,
// whose numbers theirs are compared with.
type Comparison struct {
	Scenarios []Pick
	Seeds     int // of each

	numbers map[int]map[string]float64 // of runs that are done, by their number
	waiting []int
}

// Settle takes one more outcome that is there, and returns those that are decided by
// now and were not before.
func (c *Comparison) Settle(outcomes map[int]outcome.Outcome, i int) (decided []int) {
	if slices.ContainsFunc(c.Scenarios, func(p Pick) bool { return len(p.Numbers) > 0 }) {
		if c.numbers == nil {
			c.numbers = map[int]map[string]float64{}
		}
		c.numbers[i] = map[string]float64{}
		if n := outcomes[i].Numbers; n != nil {
			c.numbers[i] = n
		}
	}
	c.waiting = slices.DeleteFunc(append(c.waiting, i), func(i int) bool {
		o := outcomes[i]
		for _, than := range o.Waits() {
			other, chosen := c.variant(i, than)
			numbers, there := c.numbers[other]
			if chosen && !there {
				return false
			}
			settle(&o, than, numbers)
		}
		outcomes[i] = o
		decided = append(decided, i)
		return true
	})
	return decided
}

// Waits reports whether a run's outcome waits for another's.
func (c *Comparison) Waits(i int) bool { return slices.Contains(c.waiting, i) }

// variant is the run of another variant of the same scenario with the same seed, or
// one that there is not.
func (c *Comparison) variant(i int, name string) (run int, ok bool) {
	if name == scenario.BaseVariant {
		name = ""
	}
	this := c.Scenarios[i/c.Seeds]
	k := slices.IndexFunc(c.Scenarios, func(p Pick) bool { return p.From == this.From && p.Variant == name })
	return k*c.Seeds + i%c.Seeds, k >= 0
}

// compared leaves out the numbers of single steps, which only their plan gives a meaning.
func compared(numbers map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for _, name := range checker.Numbers() {
		if x, ok := numbers[name]; ok {
			out[name] = x
		}
	}
	return out
}

// KnownLocks is what a scenario may name where these are the kinds of locks.
func KnownLocks(locks map[string]lock.Kind) scenario.Known {
	k := scenario.Known{Properties: checker.Properties(), Causes: verdict.Causes(), CanonicalCause: verdict.CanonicalCause, Numbers: checker.Numbers()}.With(locks)
	for _, m := range broken.Mistakes() {
		k.Mistakes = append(k.Mistakes, m.Name)
	}
	return k
}
