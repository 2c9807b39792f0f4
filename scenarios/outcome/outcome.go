// Package outcome defines the results of runs as plain data. Package campaign produces them, and
// the reports read them.
//
// An Outcome is the result of a run: a Judgement for each property and each bounded number, and the
// resulting exit code. It is stored in outcome.json, next to the verdict. A Run is an outcome with
// its manifest, history and verdict. A Tally summarizes many runs, with a Row for each scenario and
// a Cell for each property. Every report on several runs is built from a Tally. Rate formats how
// often something occurred in many runs.
//
// A Card is a lock's scorecard, built from CardEntries. It has a CardRow for each property, with a
// CardCell for each kind of failure, the results of random fault plans (RandomPlans), and a
// CardFinding for each violation. A finding shows the shortest run for its property, kind of
// failure and cause.
//
// This package neither runs nor judges anything, and draws no figures.
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

// Outcome is the result of a run, as stored in outcome.json.
type Outcome struct {
	Schema   int    `json:"schema"`
	Scenario string `json:"scenario"` // NAME or NAME/VARIANT
	Backend  string `json:"backend"`
	Seed     uint64 `json:"seed"`
	Code     int    `json:"code"` // the run's exit code
	// Informational means that the scenario has no expectations, so that the exit code says nothing
	// about the lock.
	Informational  bool               `json:"anyOutcome,omitempty"`
	Judgements     []Judgement        `json:"judgements,omitempty"`
	Error          string             `json:"error,omitempty"`   // why the run failed or could not be judged
	Hint           string             `json:"hint,omitempty"`    // how to fix the error
	Skipped        string             `json:"skipped,omitempty"` // why it was not run
	RetryReasons   []string           `json:"retried,omitempty"` // why each earlier attempt was discarded, with its directory
	StopReason     string             `json:"stopped,omitempty"` // where and why the run was stopped early
	Dir            string             `json:"dir,omitempty"`     // run directory
	Command        string             `json:"command"`
	Seconds        float64            `json:"seconds"` // wall-clock time
	VirtualSeconds float64            `json:"virtual"` // duration in the run's own time
	Events         int                `json:"events"`
	Numbers        map[string]float64 `json:"numbers,omitempty"` // for comparison with other variants
	Comparison     *Comparison        `json:"control,omitempty"` // nil if there was no comparison run
	Verdict        verdict.Verdict    `json:"-"`
	Server         string             `json:"-"` // what the nodes ran, if the backend reports it; see scenario.Manifest
	// Disturbance describes interference from outside that the history does not show, or is "".
	Disturbance string `json:"-"`
}

// Comparison is the result of the comparison run, which repeats a run with the scenario's own lock
// instead of the lock under test.
type Comparison struct {
	Lock     string             `json:"lock"`
	Error    string             `json:"error,omitempty"` // why there is no result
	Violated []Judgement        `json:"violated,omitempty"`
	Numbers  map[string]float64 `json:"numbers,omitempty"`
}

// Run is a run with everything recorded about it.
type Run struct {
	Manifest *scenario.Manifest // nil for a bare history
	History  *history.History
	Verdict  verdict.Verdict
	Outcome  Outcome
}

// Check validates an outcome that was read from a file.
func (o *Outcome) Check() error {
	switch {
	case o.Schema != 1:
		return fmt.Errorf("schema %d is not supported; this version reads schema 1", o.Schema)
	case !KnownCode(o.Code):
		return fmt.Errorf("code: %d is not an exit code", o.Code)
	case !(o.Seconds >= 0 && o.Seconds < maxSeconds && o.VirtualSeconds >= 0 && o.VirtualSeconds < maxSeconds):
		return fmt.Errorf("seconds: %g and virtual: %g must both be between 0 and %g", o.Seconds, o.VirtualSeconds, float64(maxSeconds))
	case o.Events < 0:
		return fmt.Errorf("events: %d is negative", o.Events)
	}
	return nil
}

// maxSeconds limits the duration of a run in a stored outcome to a year.
const maxSeconds = 366 * 24 * 3600

// AnyOutcome is the expectation that allows any outcome.
const AnyOutcome = "any"

// Judgement compares a property's outcome with its expectation.
type Judgement struct {
	Property string          `json:"property"`
	Expected string          `json:"expected"` // as text; "" for no expectation
	Got      verdict.Outcome `json:"got"`
	Cause    string          `json:"cause,omitempty"`
	Node     string          `json:"node,omitempty"`
	Because  string          `json:"because"`
	// NoEarlyLoss means that the lock never provides the data for judging the property.
	NotApplicable bool `json:"notApplicable,omitempty"`
	// Length is how many events from the start of the history it takes to prove the violation.
	Length     int  `json:"length,omitempty"`
	AsExpected bool `json:"asExpected"`
	// Missed means that an expected violation did not occur. Another attempt may show it.
	Missed bool `json:"missed,omitempty"`
	// ImpliedBy is copied from scenario.Expectation.Follows. An expected result that follows from
	// another property's result is not worth reporting.
	ImpliedBy string `json:"follows,omitempty"`
	// Confirmation is the result of testing the cause, or nil.
	Confirmation *Confirmation `json:"confirmation,omitempty"`
	// Comparison is the outcome in the comparison run, or "".
	Comparison verdict.Outcome `json:"control,omitempty"`
	// Number is set if the judgement is about a number rather than a property.
	Number *Number `json:"number,omitempty"`
}

// Number is a measured number and its bound.
type Number struct {
	Value float64        `json:"value"` // 0 if the run has no such number
	Bound scenario.Bound `json:"bound"`
	// Pending means that the other variant's number is not available yet.
	Pending bool `json:"waits,omitempty"`
}

// NoExpectation reports whether there are judgements but no expectations.
func NoExpectation(js []Judgement) bool {
	return len(js) > 0 && !slices.ContainsFunc(js, func(j Judgement) bool { return j.Expected != "" && j.Expected != AnyOutcome })
}

// Informational reports whether the property was violated without any expectation.
func (j Judgement) Informational() bool {
	return j.Got == verdict.Violated && j.AsExpected && (j.Expected == "" || j.Expected == AnyOutcome)
}

// Unresolved reports whether the result neither meets nor contradicts the expectation: the property
// is undecided, or it should hold but the run did not exercise it.
func (j Judgement) Unresolved() bool {
	return j.Got == verdict.Undecided || j.Got == verdict.NotExercised && !j.AsExpected && !j.Missed
}

// Reportable reports whether the judgement deserves a line in a report: it has an expectation or
// shows a violation.
func (j Judgement) Reportable() bool {
	return j.Expected != "" || j.Got == verdict.Violated || !j.AsExpected
}

// GetOrAdd returns the first matching entry of a table. If there is none, it appends initial and
// returns that, so entries stay in the order of their first occurrence.
func GetOrAdd[T any](table *[]*T, match func(*T) bool, initial T) *T {
	if i := slices.IndexFunc(*table, match); i >= 0 {
		return (*table)[i]
	}
	*table = append(*table, &initial)
	return &initial
}

func (j Judgement) isViolation() bool { return j.Got == verdict.Violated && j.Number == nil }

// Violated reports whether any property was violated, expected or not.
func (o *Outcome) Violated() bool { return slices.ContainsFunc(o.Judgements, Judgement.isViolation) }

// Violations returns the violated properties, except those implied by another property.
func (o *Outcome) Violations() []Judgement {
	return slices.DeleteFunc(slices.Clone(o.Judgements), func(j Judgement) bool { return !j.isViolation() || j.ImpliedBy != "" })
}

// InformationalOnly reports whether properties were violated but none of them had an expectation.
func (o *Outcome) InformationalOnly() bool {
	return o.Violated() && !slices.ContainsFunc(o.Judgements, func(j Judgement) bool { return j.isViolation() && !j.Informational() })
}

// JudgementOf returns the judgement of a property or a number, or nil.
func (o *Outcome) JudgementOf(property string) *Judgement {
	if i := slices.IndexFunc(o.Judgements, func(j Judgement) bool { return j.Property == property }); i >= 0 {
		return &o.Judgements[i]
	}
	return nil
}

// Unexercised returns the judgement of the first property that the run should have exercised but did
// not, or nil.
func (o *Outcome) Unexercised() *Judgement {
	if i := slices.IndexFunc(o.Judgements, func(j Judgement) bool { return j.Got == verdict.NotExercised && j.Unresolved() }); i >= 0 {
		return &o.Judgements[i]
	}
	return nil
}

// Unexplained reports whether the run failed or its judgements do not explain its exit code.
func (o *Outcome) Unexplained() bool {
	return o.Error != "" || o.Code != ExitOK && CodeOf(o.Judgements) == ExitOK
}

// Pending reports whether the judgement needs another variant's number.
func (j Judgement) Pending() bool { return j.Number != nil && j.Number.Pending }

// PendingVariants lists the variants whose numbers are still needed.
func (o *Outcome) PendingVariants() []string {
	var out []string
	for _, j := range o.Judgements {
		if j.Pending() && !slices.Contains(out, j.Number.Bound.Variant) {
			out = append(out, j.Number.Bound.Variant)
		}
	}
	return out
}

// Fail adds an error, and raises the exit code to code if that is worse.
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

// ComparisonDiffers reports whether the property was violated, but not in the comparison run.
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

// Confirmation is the result of rerunning a violation without its cause: the nodes keep the keys
// that they lost in the original run. It does not affect the reported cause.
type Confirmation struct {
	State Certainty `json:"state"`
	Why   string    `json:"why"` // explains State
	// SufficientNodes lists the nodes where preserving the key alone prevents the overlap.
	SufficientNodes []string `json:"alone,omitempty"`
	Runs            int      `json:"runs"`
}

// Certainty says how well the reruns confirm the cause.
type Certainty string

// Values of Certainty.
const (
	CauseConfirmed         Certainty = "confirmed"         // with the first client's keys preserved, each node refuses the second client, and the holds never overlap
	OverlapPostponed       Certainty = "put-off"           // like CauseConfirmed, but the holds overlap later because of another lost key
	CausesJointlyNecessary Certainty = "jointly-necessary" // like CauseConfirmed or OverlapPostponed, but it is not enough to preserve one key, or just those lost to the named cause
	CausePartlyTested      Certainty = "partly-tried"      // the holds no longer overlap, but the named cause could not be removed on every node
	CauseRefuted           Certainty = "refuted"           // the holds still overlap, or a node still grants the lock
	NoEarlyLoss            Certainty = "not-applicable"    // no key disappeared early
	RerunImpossible        Certainty = "facts-suffice"     // the backend can't repeat the run; the nodes' reports are the only evidence
)

// Exit codes, see lockpick help exit-codes.
const (
	ExitOK         = 0
	ExitUnexpected = 1
	ExitUndecided  = 2
	ExitBackend    = 3
	ExitUsage      = 64
	ExitBug        = 70
	ExitInterrupt  = 130
)

func KnownCode(code int) bool {
	return slices.Contains([]int{ExitOK, ExitUnexpected, ExitUndecided, ExitBackend, ExitUsage, ExitBug, ExitInterrupt}, code)
}

// CodeOf returns the exit code for a run's judgements.
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

// WorseCode returns the worse of two exit codes. The order is 130, 70, 64, 1, 3, 2, 0.
func WorseCode(a, b int) int {
	rank := []int{ExitOK, ExitUndecided, ExitBackend, ExitUnexpected, ExitUsage, ExitBug, ExitInterrupt}
	if slices.Index(rank, a) >= slices.Index(rank, b) {
		return a
	}
	return b
}

// States of an outcome, in the order of summaries. These are the values in JSON. StateText returns
// what people see.
const (
	StateAsExpected    = "as expected"
	StateInformational = "nothing expected" // the scenario has no expectation
	StateUnexpected    = "unexpected"
	StateUndecided     = "undecided"
	StateFailed        = "failed" // could not be run or judged
	StateInterrupted   = "interrupted"
	StateSkipped       = "skipped"
)

// States lists the states in the order of summaries.
func States() []string {
	return []string{StateAsExpected, StateInformational, StateUnexpected, StateUndecided, StateFailed, StateInterrupted, StateSkipped}
}

// StatesBySeverity lists the states from most to least urgent.
func StatesBySeverity() []string {
	return []string{StateFailed, StateUnexpected, StateUndecided, StateInterrupted, StateAsExpected, StateInformational, StateSkipped}
}

// CountPassed returns how many outcomes need no attention.
func CountPassed(counts map[string]int) int {
	return counts[StateAsExpected] + counts[StateInformational]
}

// DescribeCounts describes how many outcomes are in each state, for example "3 as expected".
func DescribeCounts(counts map[string]int) []string {
	var parts []string
	for _, state := range States() {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, StateText(state)))
		}
	}
	return parts
}

// StateText returns the text for a state.
func StateText(state string) string {
	switch state {
	case StateInformational:
		return "informational"
	case StateUndecided:
		return "inconclusive"
	}
	return state
}

func (o Outcome) State() string {
	switch {
	case o.Skipped != "":
		return StateSkipped
	case o.Code == ExitOK && o.Informational:
		return StateInformational
	case o.Code == ExitOK:
		return StateAsExpected
	case o.Code == ExitUndecided:
		return StateUndecided
	case o.Code == ExitUnexpected:
		return StateUnexpected
	case o.Code == ExitInterrupt:
		return StateInterrupted
	}
	return StateFailed
}

// Finding groups a run's violations with the same cause: the one that shows the cause, and those
// related to it.
type Finding struct {
	Judgement
	Related []Judgement
}

// Findings groups a run's violations by cause, in the order of the judgements. For example, two
// holders at once (mutual-exclusion) lead to overlapping leases (lease-linearizable) and, if both
// use the resource, to damage (resource-safety). Expected and unexpected violations are separate
// findings.
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

// explains reports whether a violation has the finding's cause and the same expectation.
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

// implies reports whether a violation was expected just because it follows from the finding's
// property, so that listing it adds nothing.
func (f Finding) implies(j Judgement) bool {
	return j.ImpliedBy == f.Property && j.AsExpected && f.AsExpected
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

// String describes the judgement with all properties of the finding as the subject.
func (f Finding) String() string {
	j := f.Judgement
	j.Property = f.PropertyList()
	return j.String()
}

// z is the two-sided 95% point of the standard normal distribution.
const z = 1.959963984540054

// Wilson returns the 95% score interval for the probability of an event that occurred in k of n
// independent trials. With p = k/n and z = 1.96, the interval is
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
	trials, p := float64(n), float64(k)/float64(n)
	middle := p + z*z/(2*trials)
	half := z * math.Sqrt(p*(1-p)/trials+z*z/(4*trials*trials))
	scale := 1 + z*z/trials
	low, high = (middle-half)/scale, (middle+half)/scale
	// These bounds must not be rounded.
	if k == 0 {
		low = 0
	}
	if k == n {
		high = 1
	}
	return low, high
}

// Rate describes how often an event occurred in n trials, with the 95% interval of the rate, such
// as "37 of 1000 (3.7%, 95%: 2.7–5.1%)". If the event never occurred, it gives the upper bound
// alone, such as "0 of 1000: at most 0.38%".
func Rate(k, n int) string {
	low, high := Wilson(k, n)
	if k == 0 {
		return fmt.Sprintf("0 of %d: at most %s%%", n, percent(high))
	}
	return fmt.Sprintf("%d of %d (%s%%, 95%%: %s–%s%%)", k, n, percent(float64(k)/float64(n)), percent(low), percent(high))
}

// percent formats a share with one decimal, or more decimals if two significant digits require them.
// Close to 100%, these are the digits of the difference from 100%.
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
