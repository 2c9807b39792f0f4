package scenario

import "fmt"

// Expectation is what a property should come out as.
type Expectation struct {
	Want  string `json:"want"`            // holds, violated or any
	Cause string `json:"cause,omitempty"` // of a violation: its cause or class
	Node  string `json:"node,omitempty"`  // and the node to blame
	// Implied: the property needs no occasion to be violated. The file doesn't name it, and
	// safety must hold all the same; or what the run puts to the test is left to the dice.
	Implied bool `json:"implied,omitempty"`
	// Follows names the property that this one comes out as, where it was not named itself.
	Follows string `json:"follows,omitempty"`
}

// What can be wanted.
const (
	wantHolds    = "holds"
	wantViolated = "violated"
	wantAny      = "any"
)

// String is an expectation in words.
func (e Expectation) String() string {
	s := e.Want
	if e.Cause != "" {
		s += ": " + e.Cause
	}
	if e.Node != "" {
		s += " at " + e.Node
	}
	return s
}

// Imply fills in what follows from the tier and from other expectations: two holders at once are
// never what one lease lock could have answered, and where they are ruled out,
// so should other answers be that no lease lock gives.
func Imply(expect map[string]Expectation, tier string) {
	for _, property := range required[tier] {
		if _, named := expect[property]; !named {
			expect[property] = implied
		}
	}
	if e, ok := expect[leaseLinearizable]; ok && e.Follows == "" {
		return
	}
	if lead, ok := expect[mutualExclusion]; ok {
		expect[leaseLinearizable] = Expectation{Want: lead.Want, Implied: true, Follows: mutualExclusion}
	}
}

// Safety properties hold unless the scenario says otherwise, and
// lease-linearizable comes out as mutual-exclusion does (Imply). bounded-hold
// needs the section limits.
const (
	mutualExclusion   = "mutual-exclusion"
	leaseLinearizable = "lease-linearizable"
	resourceSafety    = "resource-safety"
	boundedHold       = "bounded-hold"
	faultTolerance    = "fault-tolerance"
	validOnReturn     = "valid-on-return"
)

// excuse lets properties hold without an occasion: what a random plan puts to the test is
// left to the dice, and where nobody need acquire, nothing need be.
func excuse(expect map[string]Expectation) {
	for property, e := range expect {
		if e.Want == wantHolds {
			e.Implied = true
			expect[property] = e
		}
	}
}

// Bound is what a measured number is expected to keep: at least or at most a value,
// or a multiple of what another variant measures with the same seed in the same run.
type Bound struct {
	Is    string  `json:"is"`             // one of Comparisons
	Value float64 `json:"value"`          // or factor
	Than  string  `json:"than,omitempty"` // the other variant; BaseVariant: the scenario without variant
}

// BaseVariant names the scenario itself, in a bound.
const BaseVariant = "base"

// comparisons are the ways in which a number can be bounded, the longer ones first.
var comparisons = []string{">=", "<=", ">", "<"}

// Keeps says whether a number keeps the bound. other is what the other variant has.
func (b Bound) Keeps(x, other float64) bool {
	y := b.Value
	if b.Than != "" {
		y *= other
	}
	switch b.Is {
	case ">=":
		return x >= y
	case "<=":
		return x <= y
	case ">":
		return x > y
	}
	return x < y
}

// String is the bound as a scenario file has it.
func (b Bound) String() string {
	switch {
	case b.Than == "":
		return fmt.Sprintf("%s %g", b.Is, b.Value)
	case b.Value == 1:
		return fmt.Sprintf("%s %s", b.Is, b.Than)
	}
	return fmt.Sprintf("%s %g * %s", b.Is, b.Value, b.Than)
}
