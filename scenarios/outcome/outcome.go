// Package outcome defines the results of runs, and how they compare with what was expected, as
// plain data. The packages that judge runs produce them, and the reports read them.
//
// An Outcome is the result of one run: a Judgement for each property and each bounded number, and
// the exit code that follows. It is stored in outcome.json next to the verdict. A Run is an outcome
// together with its manifest, history and verdict. A Tally summarizes many runs: it has a Row for
// each scenario, and each Row has a Cell for each property. Every report on several runs is built
// from a Tally. Rate formats how often something happened in many runs.
//
// A Card is the scorecard of one lock. It has a CardRow for each property with a CardCell for each
// kind of failure, the results of random fault plans (RandomPlans), and a CardFinding for each
// violation. A finding shows the shortest run for its property, kind of failure and cause. A
// CardEntry is a run to add to a card.
//
// This package does not run or judge anything, and draws no figures.
package outcome

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// Outcome is the result of one run, as stored in outcome.json.
type Outcome struct {
	Schema   int    `json:"schema"`
	Scenario string `json:"scenario"` // NAME or NAME/VARIANT
	Backend  string `json:"backend"`
	Seed     uint64 `json:"seed"`
	Code     int    `json:"code"` // exit code of this run alone
	// Informational is set if the scenario has no expectations, so the exit code says nothing about
	// the lock.
	Informational  bool               `json:"anyOutcome,omitempty"`
	Judgements     []Judgement        `json:"judgements,omitempty"`
	Error          string             `json:"error,omitempty"`   // why it could not be run or judged
	Hint           string             `json:"hint,omitempty"`    // how to fix the error, if known
	Skipped        string             `json:"skipped,omitempty"` // why it was not run
	Retried        []string           `json:"retried,omitempty"` // why each earlier attempt was discarded, and its directory
	Stopped        string             `json:"stopped,omitempty"` // where and why the run was stopped early
	Dir            string             `json:"dir,omitempty"`     // run directory
	Command        string             `json:"command"`
	Seconds        float64            `json:"seconds"` // wall-clock time
	VirtualSeconds float64            `json:"virtual"` // true time that passed in the run, in seconds
	Events         int                `json:"events"`
	Numbers        map[string]float64 `json:"numbers,omitempty"` // for comparison with other variants
	Comparison     *Comparison        `json:"control,omitempty"` // nil means no comparison run
	Verdict        verdict.Verdict    `json:"-"`
	// Disturbed describes interference from outside that the history does not show; "" for none.
	Disturbed string `json:"-"`
}

// Comparison is the result of the comparison run: the same scenario and seed with the scenario's own
// lock. It exists only if another lock was under test.
type Comparison struct {
	Lock     string             `json:"lock"`
	Error    string             `json:"error,omitempty"` // why there is no result
	Violated []Judgement        `json:"violated,omitempty"`
	Numbers  map[string]float64 `json:"numbers,omitempty"`
}

// Run is one run with everything that was recorded about it.
type Run struct {
	Manifest *scenario.Manifest // nil for a bare history
	History  *history.History
	Verdict  verdict.Verdict
	Outcome  Outcome
}

// Check returns an error if an outcome read from a file is invalid.
func (o *Outcome) Check() error {
	switch {
	case o.Schema != 1:
		return fmt.Errorf("schema is %d, but this version reads only 1", o.Schema)
	case !KnownCode(o.Code):
		return fmt.Errorf("code: %d is not an exit code", o.Code)
	case !(o.Seconds >= 0 && o.Seconds < maxSeconds && o.VirtualSeconds >= 0 && o.VirtualSeconds < maxSeconds):
		return fmt.Errorf("seconds: %g and virtual: %g must both be between 0 and %g", o.Seconds, o.VirtualSeconds, float64(maxSeconds))
	case o.Events < 0:
		return fmt.Errorf("events: %d is negative", o.Events)
	}
	return nil
}

// maxSeconds bounds the duration of a run in a stored outcome: one year.
const maxSeconds = 366 * 24 * 3600

// AnyOutcome is the expectation for a property whose outcome does not matter.
const AnyOutcome = "any"

// Judgement compares the outcome of one property with its expectation.
type Judgement struct {
	Property string          `json:"property"`
	Expected string          `json:"expected"` // as text; "" for no expectation
	Got      verdict.Outcome `json:"got"`
	Cause    string          `json:"cause,omitempty"`
	Node     string          `json:"node,omitempty"`
	Because  string          `json:"because"`
	// NotApplicable is set by the checker: this lock never provides the data needed to judge the property.
	NotApplicable bool `json:"notApplicable,omitempty"`
	// Length is the number of events in the history up to the last event of the violation's
	// witness.
	Length     int  `json:"length,omitempty"`
	AsExpected bool `json:"asExpected"`
	// Missed is set if a violation was expected but did not occur. Another attempt may show it.
	Missed bool `json:"missed,omitempty"`
	// Follows is copied from scenario.Expectation. An expected result that follows from another
	// property's result is not worth reporting.
	Follows string `json:"follows,omitempty"`
	// Confirmation is the result of testing the cause; nil if it was not tested.
	Confirmation *Confirmation `json:"confirmation,omitempty"`
	// Comparison is the property's outcome in the comparison run; "" if there was none.
	Comparison verdict.Outcome `json:"control,omitempty"`
	// Number is set if the property is a measured number with a bound.
	Number *Number `json:"number,omitempty"`
}

// Number is a measured value and its bound.
type Number struct {
	Value float64        `json:"value"` // 0 if it is missing
	Bound scenario.Bound `json:"bound"`
	// Pending is set until the number of the variant it is compared with is available.
	Pending bool `json:"waits,omitempty"`
}

// NoExpectation reports whether there are judgements and none of them has an expectation.
func NoExpectation(js []Judgement) bool {
	return len(js) > 0 && !slices.ContainsFunc(js, func(j Judgement) bool { return j.Expected != "" && j.Expected != AnyOutcome })
}

// Informational reports whether the property was violated and had no expectation.
func (j Judgement) Informational() bool {
	return j.Got == verdict.Violated && j.AsExpected && (j.Expected == "" || j.Expected == AnyOutcome)
}

// Unresolved reports whether the expectation was neither met nor contradicted: the property is
// undecided, or it was expected to hold but the run did not exercise it.
func (j Judgement) Unresolved() bool {
	return j.Got == verdict.Undecided || j.Got == verdict.NotExercised && !j.AsExpected && !j.Missed
}

// Reportable reports whether the judgement is worth a line of a report. It is not if the property
// had no expectation and was not violated.
func (j Judgement) Reportable() bool {
	return j.Expected != "" || j.Got == verdict.Violated || !j.AsExpected
}

// GetOrAdd returns the first entry of the table for which match returns true. If there is none, it
// appends initial and returns the new entry, so entries stay in the order in which they were first
// seen.
func GetOrAdd[T any](table *[]*T, match func(*T) bool, initial T) *T {
	if i := slices.IndexFunc(*table, match); i >= 0 {
		return (*table)[i]
	}
	*table = append(*table, &initial)
	return &initial
}

// isViolation reports whether a property was violated, expected or not.
func (j Judgement) isViolation() bool { return j.Got == verdict.Violated && j.Number == nil }

// Violated reports whether any property was violated, expected or not.
func (o *Outcome) Violated() bool { return slices.ContainsFunc(o.Judgements, Judgement.isViolation) }

// Violations returns the violated properties, except those that only follow from another one.
func (o *Outcome) Violations() []Judgement {
	return slices.DeleteFunc(slices.Clone(o.Judgements), func(j Judgement) bool { return !j.isViolation() || j.Follows != "" })
}

// InformationalOnly reports whether properties were violated and none of them had an expectation.
func (o *Outcome) InformationalOnly() bool {
	return o.Violated() && !slices.ContainsFunc(o.Judgements, func(j Judgement) bool { return j.isViolation() && !j.Informational() })
}

// JudgementOf returns the judgement of a property or of a bounded number, or nil if it was not judged.
func (o *Outcome) JudgementOf(property string) *Judgement {
	if i := slices.IndexFunc(o.Judgements, func(j Judgement) bool { return j.Property == property }); i >= 0 {
		return &o.Judgements[i]
	}
	return nil
}

// Unexercised returns the judgement of the first property that the run should have exercised but
// did not, or nil.
func (o *Outcome) Unexercised() *Judgement {
	if i := slices.IndexFunc(o.Judgements, func(j Judgement) bool { return j.Got == verdict.NotExercised && j.Unresolved() }); i >= 0 {
		return &o.Judgements[i]
	}
	return nil
}

// Unexplained reports whether the run failed, or its exit code does not follow from its judgements.
func (o *Outcome) Unexplained() bool {
	return o.Error != "" || o.Code != ExitOK && CodeOf(o.Judgements) == ExitOK
}

// Pending reports whether another run of the same suite decides the judgement.
func (j Judgement) Pending() bool { return j.Number != nil && j.Number.Pending }

// PendingVariants lists the variants whose numbers are still needed to judge the outcome.
func (o *Outcome) PendingVariants() []string {
	var out []string
	for _, j := range o.Judgements {
		if j.Pending() && !slices.Contains(out, j.Number.Bound.Variant) {
			out = append(out, j.Number.Bound.Variant)
		}
	}
	return out
}

// Fail adds an error to the outcome, and replaces the exit code with code if that is worse.
func (o *Outcome) Fail(code int, err error) {
	o.Code = WorseCode(o.Code, code)
	if o.Error != "" {
		o.Error += "\n"
	}
	o.Error += err.Error()
}

func (j Judgement) String() string {
	if j.Number != nil {
		return j.numberText()
	}
	cause := j.Cause
	if j.Node != "" {
		cause += " at " + j.Node
	}
	text := fmt.Sprintf("%s %s", j.Property, j.Got)
	if j.NotApplicable {
		text = j.Property + " not applicable to this lock"
	}
	if j.AsExpected && j.Got == verdict.Violated && j.Expected != "" && j.Expected != AnyOutcome {
		text += ", as expected"
	}
	if cause != "" {
		text += " (" + cause + ")"
	}
	if !j.AsExpected {
		text += ", expected " + j.Expected
	}
	switch {
	case j.Comparison == j.Got && j.Got == verdict.Violated:
		text += ", as in the comparison run"
	case j.ComparisonDiffers():
		text += "; " + j.Comparison.String() + " in the comparison run"
	}
	return text
}

// ComparisonDiffers reports whether the property was violated here, but not in the comparison run.
func (j Judgement) ComparisonDiffers() bool {
	return j.Got == verdict.Violated && j.Comparison != "" && j.Comparison != verdict.Violated
}

func (j Judgement) numberText() string {
	text := j.Property
	if j.Got == verdict.Undecided {
		text += " " + j.Got.String()
	} else {
		text += " " + FormatNumber(j.Number.Value)
	}
	if j.AsExpected {
		return text + " (" + j.Expected + ")"
	}
	return text + ", expected " + j.Expected
}

// FormatNumber formats a number with three significant digits.
func FormatNumber(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) }

// Confirmation is the result of rerunning a violation's seed with its cause removed, so that nodes
// keep the keys that they lost in the original run. It does not affect the reported cause.
type Confirmation struct {
	State Certainty `json:"state"`
	Why   string    `json:"why"` // explanation of State
	// Alone lists the nodes whose key alone, if preserved, would have prevented the overlap.
	Alone []string `json:"alone,omitempty"`
	Runs  int      `json:"runs"`
}

// Certainty grades how well the rerun confirms the cause.
type Certainty string

// Values of Certainty.
const (
	Confirmed        Certainty = "confirmed"         // with the first client's keys preserved, each node refuses the second client, and their holds never overlap
	Postponed        Certainty = "put-off"           // as Confirmed, but the holds overlap later because of another lost key
	JointlyNecessary Certainty = "jointly-necessary" // Confirmed or Postponed, but preserving the key on one node, or only on the nodes of the named cause, does not prevent the overlap
	PartlyTested     Certainty = "partly-tried"      // as JointlyNecessary, but the named cause could not be removed on each of its nodes
	Refuted          Certainty = "refuted"           // the holds still overlap, or a node still grants the lock
	NotApplicable    Certainty = "not-applicable"    // no key disappeared early
	FactsSuffice     Certainty = "facts-suffice"     // this backend cannot repeat the run; the keys that the nodes reported are the only evidence
)

// Exit codes of the command line; see lockpick help exit-codes.
const (
	ExitOK         = 0
	ExitUnexpected = 1
	ExitUndecided  = 2
	ExitBackend    = 3
	ExitUsage      = 64
	ExitBug        = 70
	ExitInterrupt  = 130
)

// KnownCode reports whether code is an exit code of a run or a suite.
func KnownCode(code int) bool {
	return slices.Contains([]int{ExitOK, ExitUnexpected, ExitUndecided, ExitBackend, ExitUsage, ExitBug, ExitInterrupt}, code)
}

// CodeOf returns the exit code for the judgements of one run.
func CodeOf(js []Judgement) int {
	code := ExitOK
	for _, j := range js {
		switch {
		case j.AsExpected:
		case j.Unresolved():
			code = WorseCode(code, ExitUndecided)
		default:
			code = WorseCode(code, ExitUnexpected)
		}
	}
	return code
}

// WorseCode returns the code that takes precedence: 130, 70, 64, 1, 3, 2, 0.
func WorseCode(a, b int) int {
	rank := []int{ExitOK, ExitUndecided, ExitBackend, ExitUnexpected, ExitUsage, ExitBug, ExitInterrupt}
	if slices.Index(rank, a) >= slices.Index(rank, b) {
		return a
	}
	return b
}

// States of an outcome, in the order in which summaries list them. They are also stored as JSON
// values; StateText returns them as shown to people.
const (
	AsExpected    = "as expected"
	Informational = "nothing expected" // the scenario has no expectation
	Unexpected    = "unexpected"
	Undecided     = "undecided"
	Failed        = "failed" // the run could not be executed or judged
	Interrupted   = "interrupted"
	Skipped       = "skipped"
)

// States lists the states of an outcome in the order in which summaries list them.
func States() []string {
	return []string{AsExpected, Informational, Unexpected, Undecided, Failed, Interrupted, Skipped}
}

// StatesBySeverity lists the states by how much attention they need, most urgent first.
func StatesBySeverity() []string {
	return []string{Failed, Unexpected, Undecided, Interrupted, AsExpected, Informational, Skipped}
}

// CountPassed returns the number of outcomes that need no attention.
func CountPassed(counts map[string]int) int { return counts[AsExpected] + counts[Informational] }

// DescribeCounts describes the number of outcomes in each state, for example "3 as expected".
func DescribeCounts(counts map[string]int) []string {
	var parts []string
	for _, state := range States() {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, StateText(state)))
		}
	}
	return parts
}

// StateText returns a state as shown to people.
func StateText(state string) string {
	switch state {
	case Informational:
		return "informational"
	case Undecided:
		return "inconclusive"
	}
	return state
}

// State returns the state of the outcome: one of States.
func (o Outcome) State() string {
	switch {
	case o.Skipped != "":
		return Skipped
	case o.Code == ExitOK && o.Informational:
		return Informational
	case o.Code == ExitOK:
		return AsExpected
	case o.Code == ExitUndecided:
		return Undecided
	case o.Code == ExitUnexpected:
		return Unexpected
	case o.Code == ExitInterrupt:
		return Interrupted
	}
	return Failed
}

// Finding groups the properties that were violated in a run for the same cause: the property that
// names the cause, and the properties violated along with it.
type Finding struct {
	Judgement
	Related []Judgement
}

// Findings groups the violated properties of a run by cause, in the order of the judgements. Two
// holders at once (mutual-exclusion) also show up as overlapping leases (lease-linearizable) and,
// if both used the resource, as damage to it (resource-safety). These belong to the same finding.
// Expected and unexpected violations are separate findings.
func (o *Outcome) Findings() (all []Finding) {
next:
	for _, j := range o.Judgements {
		if !j.isViolation() {
			continue
		}
		for i := range all {
			if all[i].explains(j) {
				all[i].Related = append(all[i].Related, j)
				continue next
			}
		}
		all = append(all, Finding{Judgement: j})
	}
	return all
}

// explains reports whether j's property was violated for the finding's cause and had the same
// expectation.
func (f Finding) explains(j Judgement) bool {
	switch {
	case f.implies(j):
		return true
	case j.AsExpected != f.AsExpected || j.Expected != f.Expected || j.Comparison != f.Comparison:
		return false
	}
	if f.Property == verdict.MutualExclusion && (j.Cause == verdict.Overlap || j.Cause == verdict.LockBroken) {
		return true
	}
	return j.Cause != "" && j.Cause == f.Cause && j.Node == f.Node
}

// implies reports whether a property was violated, as expected, only because it follows from the
// finding's property. Listing it would add nothing.
func (f Finding) implies(j Judgement) bool {
	return j.Follows == f.Property && j.AsExpected && f.AsExpected
}

// PropertyList lists the properties, for example "mutual-exclusion, lease-linearizable and
// resource-safety".
func (f Finding) PropertyList() string {
	names := []string{f.Property}
	for _, j := range f.Related {
		if !f.implies(j) {
			names = append(names, j.Property)
		}
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return names[0]
}

// String returns the judgement's sentence with all properties of the finding as its subject.
func (f Finding) String() string {
	j := f.Judgement
	j.Property = f.PropertyList()
	return j.String()
}

// z is the two-sided 95 % point of the standard normal distribution.
const z = 1.959963984540054

// Wilson returns the 95 % score interval for the probability of an event that occurred k times
// in n independent trials. With p = k/n and z = 1.96 it is
//
//	(p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n)
//
// Unlike p ± z·√(p(1−p)/n), it has a nonzero width if k is 0 or n, and never leaves [0, 1]. Source:
// E. B. Wilson, "Probable inference, the law of succession, and statistical inference", Journal of
// the American Statistical Association 22 (1927), 209–212. If n is 0, the interval is [0, 1].
func Wilson(k, n int) (low, high float64) {
	if n <= 0 {
		return 0, 1
	}
	all, p := float64(n), float64(k)/float64(n)
	middle := p + z*z/(2*all)
	half := z * math.Sqrt(p*(1-p)/all+z*z/(4*all*all))
	whole := 1 + z*z/all
	low, high = (middle-half)/whole, (middle+half)/whole
	// These bounds are exactly 0 and 1; do not let rounding change them.
	if k == 0 {
		low = 0
	}
	if k == n {
		high = 1
	}
	return low, high
}

// Rate describes how often an event occurred in n trials, with its interval in percent:
// "37 of 1000 (3.7 %, 95 %: 2.7–5.1 %)". If it never occurred, the text states only the upper
// bound: "0 of 1000: at most 0.38 %".
func Rate(k, n int) string {
	low, high := Wilson(k, n)
	if k == 0 {
		return fmt.Sprintf("0 of %d: at most %s %%", n, percent(high))
	}
	return fmt.Sprintf("%d of %d (%s %%, 95 %%: %s–%s %%)", k, n, percent(float64(k)/float64(n)), percent(low), percent(high))
}

// percent formats a share with one decimal, or with two significant digits if that takes more
// decimals. Near 100 %, the significant digits are those of the difference from 100 %.
func percent(share float64) string {
	x := 100 * share
	distance := min(x, 100-x)
	digits := 0
	if distance > 0 {
		digits = max(1, 1-int(math.Floor(math.Log10(distance))))
	}
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
