package suite

import (
	"fmt"
	"slices"

	"lockpick/checker"
	"lockpick/harness"
)

// Words of an expectation.
const (
	wantAny      = "any"
	wantHolds    = string(checker.Holds)
	wantViolated = string(checker.Violated)
)

// Judgement is what was expected of one property and what came.
type Judgement struct {
	Property   string          `json:"property"`
	Expected   string          `json:"expected"` // in words; "" if nothing was
	Got        checker.Outcome `json:"got"`
	Cause      string          `json:"cause,omitempty"`
	Node       string          `json:"node,omitempty"`
	Because    string          `json:"because"`
	AsExpected bool            `json:"asExpected"`
	// Missed: a violation was expected and did not come, so another try may show it.
	Missed bool `json:"missed,omitempty"`
	// Follows is harness.Expectation's: what came as expected is no news.
	Follows string `json:"follows,omitempty"`
	// Number is set where the property is a measured number that has a bound.
	Number *Number `json:"number,omitempty"`
}

// Judge holds a verdict against what was expected. It is the only place where
// the two meet. Properties that nothing is expected of come out as they are.
func Judge(expect map[string]harness.Expectation, v checker.Verdict) []Judgement {
	var out []Judgement
	for _, r := range v.Results {
		j := Judgement{Property: r.Property, Got: r.Outcome, Cause: r.Cause, Node: r.Node, Because: r.Because, AsExpected: true}
		if want, ok := expect[r.Property]; ok {
			j.judge(want, r)
			if v.Assumption != "" { // a run that shows nothing is not what anybody expected
				j.AsExpected = false
			}
			if j.Missed && v.Cut != "" { // it may have been still to come
				j.Missed, j.Got, j.Because = false, checker.Undecided, "not violated so far: "+r.Because
			}
		}
		out = append(out, j)
	}
	for name, want := range expect {
		if v.Result(name) == nil {
			out = append(out, Judgement{Property: name, Expected: words(want), Got: checker.Undecided,
				Because: "no property of this name was judged"})
		}
	}
	slices.SortStableFunc(out, byOrder)
	return out
}

// JudgeStored judges a stored run by what its scenario expected, or a bare
// history by what every lock should hold to, as far as the history can tell.
func JudgeStored(s Stored, v checker.Verdict) []Judgement {
	if s.Manifest != nil {
		return append(Judge(s.Manifest.Scenario.Expect, v), JudgeNumbers(s.Manifest.Scenario.Numbers, v)...)
	}
	expect := Unconditional()
	if s.History.Params.Resource == "" {
		delete(expect, checker.ResourceSafety)
	}
	return Judge(expect, v)
}

// Unconditional is what is expected where nobody says: a safety violation is
// never fine.
func Unconditional() map[string]harness.Expectation {
	expect := map[string]harness.Expectation{
		checker.MutualExclusion: {Want: wantHolds, Implied: true},
		checker.ResourceSafety:  {Want: wantHolds, Implied: true},
	}
	harness.Imply(expect)
	return expect
}

func byOrder(a, b Judgement) int {
	return slices.Index(checker.Properties(), a.Property) - slices.Index(checker.Properties(), b.Property)
}

func (j *Judgement) judge(want harness.Expectation, r checker.Result) {
	j.Expected, j.Follows = words(want), want.Follows
	switch want.Want {
	case wantAny:
		return
	case wantHolds:
		j.AsExpected = r.Outcome == checker.Holds
		if j.AsExpected && r.Occasions == 0 && !want.Implied {
			// A property that the scenario names must have been put to the test.
			j.AsExpected, j.Got = false, checker.Undecided
			j.Because = "the run gave no occasion to violate it: " + r.Because
		}
	case wantViolated:
		j.Missed = r.Outcome == checker.Holds
		// Right for the wrong reason is not as expected.
		j.AsExpected = r.Outcome == checker.Violated &&
			(want.Cause == "" || want.Cause == r.Cause) && (want.Node == "" || want.Node == r.Node)
	}
}

func words(e harness.Expectation) string {
	s := e.Want
	if e.Cause != "" {
		s += ": " + e.Cause
	}
	if e.Node != "" {
		s += " at " + e.Node
	}
	return s
}

// Exit codes of the command line (topic exit-codes).
const (
	ExitOK         = 0
	ExitUnexpected = 1
	ExitUndecided  = 2
	ExitBackend    = 3
	ExitUsage      = 64
	ExitBug        = 70
	ExitInterrupt  = 130
)

// CodeOf is the exit code that the judgements of one run call for.
func CodeOf(js []Judgement) int {
	code := ExitOK
	for _, j := range js {
		switch {
		case j.AsExpected:
		case j.Got == checker.Undecided:
			code = Worse(code, ExitUndecided)
		default:
			code = Worse(code, ExitUnexpected)
		}
	}
	return code
}

// Worse returns the code that outranks the other: 70, 64, 1, 3, 2, 0.
func Worse(a, b int) int {
	rank := []int{ExitOK, ExitUndecided, ExitBackend, ExitUnexpected, ExitUsage, ExitBug}
	if slices.Index(rank, a) >= slices.Index(rank, b) {
		return a
	}
	return b
}

func (j Judgement) String() string {
	if j.Number != nil {
		return j.number()
	}
	cause := j.Cause
	if j.Node != "" {
		cause += " at " + j.Node
	}
	text := fmt.Sprintf("%s %s", j.Property, j.Got)
	if j.AsExpected && j.Got == checker.Violated && j.Expected != "" && j.Expected != wantAny {
		text += ", as expected"
	}
	if cause != "" {
		text += " (" + cause + ")"
	}
	if !j.AsExpected {
		text += ", expected " + j.Expected
	}
	return text
}
