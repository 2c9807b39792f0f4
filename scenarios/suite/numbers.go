package suite

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"lockpick/checker"
	"lockpick/harness"
)

// Number is what was measured, and what it was compared with.
type Number struct {
	Value float64       `json:"value"` // 0 where it is missing
	Bound harness.Bound `json:"bound"`
	// Waits: the other variant's number is not there yet. Settle decides.
	Waits bool `json:"waits,omitempty"`
}

// JudgeNumbers holds measured numbers against their bounds. One that has no
// meaning in the run, and so is missing, is undecided. One that is compared with
// another variant waits for Settle.
func JudgeNumbers(bounds map[string]harness.Bound, v checker.Verdict) []Judgement {
	var out []Judgement
	for _, name := range slices.Sorted(maps.Keys(bounds)) {
		b := bounds[name]
		j := Judgement{Property: name, Expected: b.String(), Number: &Number{Bound: b}}
		x, measured := v.Numbers[name]
		j.Number.Value = x
		switch {
		case v.Assumption != "":
			j.undecided(v.Assumption)
		case !measured:
			j.undecided("the run has no " + name)
		case v.Cut != "":
			j.undecided("the record is cut: " + v.Cut)
		case b.Than != "":
			j.undecided("it is compared with " + b.Than + ", which has to be run with it")
			j.Number.Waits = true
		default:
			j.keep(x, 0)
		}
		out = append(out, j)
	}
	return out
}

func (j *Judgement) undecided(because string) {
	j.AsExpected, j.Got, j.Because = false, checker.Undecided, because
}

// keep decides by the numbers.
func (j *Judgement) keep(x, other float64) {
	b := j.Number.Bound
	j.Got, j.AsExpected = checker.Violated, b.Keeps(x, other)
	if j.AsExpected {
		j.Got = checker.Holds
	}
	j.Because = fmt.Sprintf("%s is %s", j.Property, figure(x))
	if b.Than != "" {
		j.Because += fmt.Sprintf(", and of %s %s", b.Than, figure(other))
	}
}

// waits: another run of the same suite decides.
func (j Judgement) waits() bool { return j.Number != nil && j.Number.Waits }

// decided leaves out what waits.
func decided(js []Judgement) []Judgement { return slices.DeleteFunc(slices.Clone(js), Judgement.waits) }

// Waits lists the variants that an outcome's numbers are compared with.
func (o *Outcome) Waits() []string {
	var out []string
	for _, j := range o.Judgements {
		if j.waits() && !slices.Contains(out, j.Number.Bound.Than) {
			out = append(out, j.Number.Bound.Than)
		}
	}
	return out
}

// Settle decides what waited for another variant's numbers; nil: it is not in this
// run. It writes the outcome again where it is kept.
func (o *Outcome) Settle(than string, numbers map[string]float64) {
	for i := range o.Judgements {
		j := &o.Judgements[i]
		if !j.waits() || j.Number.Bound.Than != than {
			continue
		}
		j.Number.Waits = false
		if other, measured := numbers[j.Property]; measured {
			j.keep(j.Number.Value, other)
		} else if numbers != nil {
			j.undecided("the run of " + than + " has no " + j.Property)
		}
	}
	o.Code = Worse(o.Code, CodeOf(decided(o.Judgements)))
	o.write()
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

// figure is a number with three digits that count.
func figure(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) }

// number is a number's judgement in words.
func (j Judgement) number() string {
	text := j.Property
	if j.Got == checker.Undecided {
		text += " " + string(j.Got)
	} else {
		text += " " + figure(j.Number.Value)
	}
	if j.AsExpected {
		return text + " (" + j.Expected + ")"
	}
	return text + ", expected " + j.Expected
}
