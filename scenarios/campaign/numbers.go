package campaign

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// judgeNumbers holds measured numbers against their bounds. One that has no
// meaning in the run, and so is missing, is undecided. One that is compared with
// another variant waits for Settle.
func judgeNumbers(bounds map[string]scenario.Bound, v checker.Verdict) []outcome.Judgement {
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

// times are the numbers that are in seconds.
var numberTimes = []string{verdict.AcquireP50, verdict.AcquireP99, verdict.AcquireMax, verdict.DoubleHoldSeconds, verdict.ValidityLeftMin, verdict.ValidityLeftP50,
	verdict.UnavailableSeconds, verdict.UnavailableMax, verdict.DeathToGrant}

// stalls reports whether stalls of the host may be why a number misses its bound. Any may, but
// a time has to miss it by no more than the host stalled in all.
func stalls(name string, by float64, v checker.Verdict) bool {
	still := v.Numbers[verdict.StalledSeconds]
	return still > 0 && (!slices.Contains(numberTimes, name) || math.Abs(by) <= still)
}

// undecided leaves a number open.
func undecided(j *outcome.Judgement, because string) {
	j.AsExpected, j.Got, j.Because = false, checker.Undecided, because
}

// keep decides by the numbers.
func keep(j *outcome.Judgement, x, other float64) {
	b := j.Number.Bound
	j.Got, j.AsExpected = checker.Violated, b.Keeps(x, other)
	if j.AsExpected {
		j.Got = checker.Holds
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

// Settle decides what waited for another variant's numbers; nil: it is not in this
// run. It writes the outcome again where it is kept.
func Settle(o *outcome.Outcome, than string, numbers map[string]float64) {
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
	suiteWrite(o)
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
