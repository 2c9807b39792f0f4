package outcome

import (
	"strings"
	"testing"
)

func TestMatchesPrediction(t *testing.T) {
	for _, c := range []struct {
		name   string
		less   bool
		tried  string // results in order of value: h for holds, b for breaks
		agrees bool
	}{
		{"at the edge", false, "hhhhbb", true}, // the edge is between 3.5 and 4.5
		{"too early", false, "hhbbbb", false},
		{"too late", false, "hhhhhhhb", false},
		{"beyond the tried values", false, "hhh", true},
		{"never, though it should break", false, "hhhhhhhh", false},
		{"at the first value, though it should hold there", false, "bbbbbb", false},
		{"at the edge, lower is worse", true, "bbbbhhh", true},
		{"too early, lower is worse", true, "bbbbbbbh", false},
		{"everywhere, lower is worse", true, "bbb", true},
		{"everywhere, though it should hold at the mildest value", true, "bbbbbbbb", false},
	} {
		b := Bound{LessIsWorse: c.less, Predicted: true, Edge: &PredictedEdge{SafeLimit: 3.5, FailureLimit: 4.5}}
		if c.less {
			b.Edge = &PredictedEdge{SafeLimit: 4.5, FailureLimit: 3.5}
		}
		for i, result := range c.tried {
			b.Add(point(float64(i), result))
		}
		if got := b.MatchesPrediction(1); got != c.agrees {
			t.Errorf("%s: %v, want %v", c.name, got, c.agrees)
		}
		if b.Agrees = c.agrees; (b.Disagrees() == "") != c.agrees {
			t.Errorf("%s: %q", c.name, b.Disagrees())
		}
	}
	b := Bound{Predicted: true}
	if b.Add(point(1, 'h')); !b.MatchesPrediction(1) {
		t.Error("nothing breaks and no edge is predicted: got no match")
	}
}

// point returns the result of five runs: h for holds, b for breaks, n for not exercised, and f for
// failed.
func point(v float64, result rune) BoundPoint {
	p := BoundPoint{Value: v, NumRuns: 5}
	switch result {
	case 'b':
		p.NumViolated = 2
	case 'n':
		p.NumUnexercised = 5
	case 'f':
		p.NumFailed, p.Error = 1, "no"
	}
	return p
}

func TestBoundVerdicts(t *testing.T) {
	for _, c := range []struct {
		less        bool
		tried, want string // the limit is 2
	}{
		{false, "hhh", HazardSafe}, {false, "hhhb", HazardSafe}, {false, "hhb", HazardAtRisk}, {false, "hbh", HazardAtRisk},
		{false, "bhh", HazardAtRisk}, {false, "hh", HazardNotTested}, {false, "hhn", HazardInconclusive}, {false, "hhf", HazardInconclusive},
		{false, "hhnb", HazardInconclusive}, {true, "hhh", HazardSafe}, {true, "bbhh", HazardSafe}, {true, "bbbh", HazardAtRisk}, {true, "hhhb", HazardAtRisk},
	} {
		b := Bound{LessIsWorse: c.less, Limit: 2}
		for i, result := range c.tried {
			b.Add(point(float64(i), result))
		}
		if got := b.Verdict(); got != c.want {
			t.Errorf("%s, less %v: %s, want %s", c.tried, c.less, got, c.want)
		}
		if b.SafeText() == "" || b.BreakText() == "" || b.Answer() == "" {
			t.Errorf("%s: no text", c.tried)
		}
	}
}

func TestConclusions(t *testing.T) {
	combined := []RandomRuns{{Inside: true, Runs: 10, Violated: 1}}
	outside := []RandomRuns{{Inside: true, Runs: 10}, {Runs: 10, Violated: 9}}
	for _, c := range []struct {
		verdicts []string
		named    bool
		random   []RandomRuns
		code     int
		headline string
	}{
		{[]string{HazardSafe, HazardSafe}, false, nil, ExitOK, "none of 2 hazards"},
		{[]string{HazardSafe, HazardSafe}, true, outside, ExitOK, "none of the 2 hazards you said can happen"},
		{[]string{HazardAtRisk, HazardSafe, HazardNotAssumed}, true, nil, ExitUnexpected, "at risk from 1 of the 2 hazards you said can happen."},
		{[]string{HazardAtRisk, HazardNotTested}, false, nil, ExitUnexpected, "at risk from 1 of 2 hazards; 1 could not be decided."},
		{[]string{HazardAtRisk, HazardNotAssumed}, true, nil, ExitUnexpected, "at risk from the one hazard"},
		{[]string{HazardSafe, HazardInconclusive}, false, nil, ExitUndecided, "1 of 2 hazards could not be decided"},
		{[]string{HazardNotTested, HazardNotAssumed}, true, nil, ExitUndecided, "the one hazard you said can happen could not be decided"},
		{[]string{HazardSafe, HazardSafe}, false, combined, ExitUnexpected, "several at once"},
		{[]string{HazardSafe, HazardNotTested}, false, combined, ExitUnexpected, "several at once do; 1 could not be decided"},
	} {
		a := Assessment{Named: c.named, RandomPlans: c.random}
		for _, v := range c.verdicts {
			a.Hazards = append(a.Hazards, &HazardRow{Verdict: v})
		}
		if a.Conclude(); a.NeedsChange() != (a.Code == ExitUnexpected) {
			t.Errorf("%v: needs a change: %v, code %d", c.verdicts, a.NeedsChange(), a.Code)
		}
		if a.Code != c.code || !strings.Contains(a.Headline, c.headline) {
			t.Errorf("%v, %v: code %d, %q; want %d, %q", c.verdicts, c.random, a.Code, a.Headline, c.code, c.headline)
		}
	}
}

// A violation in a scenario without faults, which no hazard is blamed for, is not a pass.
func TestViolationWithoutHazardIsNotSafe(t *testing.T) {
	a := Assessment{Hazards: []*HazardRow{{Verdict: HazardSafe}}, Catalog: &CatalogSummary{Violations: []CatalogViolation{{Text: "baseline"}}}}
	if a.Conclude(); a.Code != ExitUnexpected || !a.NeedsChange() || !strings.Contains(a.Headline, "without a hazard") {
		t.Errorf("code %d: %s", a.Code, a.Headline)
	}
}
