// Package outcome is the result of runs compared with what was expected of them, as plain data, for
// those who judge and those who report.
//
// An Outcome is one run's: a Judgement for each property and each bounded number, and the exit code
// they call for. It is stored in outcome.json beside the verdict. A Run is an outcome with all that
// it was judged by. A Tally sums up many, in a Row for each scenario with a Cell for each property, and
// every report of several runs is drawn from it. Rate says how often something happened in many runs.
//
// A Card says what one lock keeps under which failures: a CardRow for each property with a CardCell
// for each kind of failure, Dice for random plans, and a CardFinding for each violation, the
// shortest of its property, kind of failure and cause. A CardEntry is what one run adds to it.
//
// Not here: running, judging and drawing.
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

// Outcome is what came of a job: outcome.json.
type Outcome struct {
	Schema   int    `json:"schema"`
	Scenario string `json:"scenario"` // NAME or NAME/VARIANT
	Backend  string `json:"backend"`
	Seed     uint64 `json:"seed"`
	Code     int    `json:"code"` // exit code of this run alone
	// NothingExpected: whatever came of it is fine, so that its code says nothing of the lock.
	NothingExpected bool               `json:"anyOutcome,omitempty"`
	Judgements      []Judgement        `json:"judgements,omitempty"`
	Error           string             `json:"error,omitempty"`   // why it could not be run or judged
	Hint            string             `json:"hint,omitempty"`    // what to do about the error, where that is known
	Skipped         string             `json:"skipped,omitempty"` // why it was not run
	Retried         []string           `json:"retried,omitempty"` // why each earlier try did not count, and its directory
	Stopped         string             `json:"stopped,omitempty"` // where the run was stopped early, and why
	Dir             string             `json:"dir,omitempty"`     // run directory
	Command         string             `json:"command"`
	Seconds         float64            `json:"seconds"` // of wall clock
	Virtual         float64            `json:"virtual"` // of true time in the run
	Events          int                `json:"events"`
	Numbers         map[string]float64 `json:"numbers,omitempty"` // that other variants may be compared with
	Control         *Control           `json:"control,omitempty"` // nil: there is none
	Verdict         verdict.Verdict    `json:"-"`
	// Disturbed says how somebody else disturbed the run beside its record; "": nobody did.
	Disturbed string `json:"-"`
}

// Control is the same scenario and seed with the scenario's own lock, where another stood in
// for it.
type Control struct {
	Lock     string             `json:"lock"`
	Error    string             `json:"error,omitempty"` // why there is none
	Violated []Judgement        `json:"violated,omitempty"`
	Numbers  map[string]float64 `json:"numbers,omitempty"`
}

// Run is all that is known of one run.
type Run struct {
	Manifest *scenario.Manifest // nil: a bare history
	History  *history.History
	Verdict  verdict.Verdict
	Outcome  Outcome
}

// Check says what can't be right in an outcome that was read from a file.
func (o *Outcome) Check() error {
	switch {
	case o.Schema != 1:
		return fmt.Errorf("it has schema %d, and this version reads 1", o.Schema)
	case !KnownCode(o.Code):
		return fmt.Errorf("code: %d is no exit code", o.Code)
	case !(o.Seconds >= 0 && o.Seconds < mostSeconds && o.Virtual >= 0 && o.Virtual < mostSeconds):
		return fmt.Errorf("seconds: %g and virtual: %g are not both from 0 to %g", o.Seconds, o.Virtual, float64(mostSeconds))
	case o.Events < 0:
		return fmt.Errorf("events: %d is negative", o.Events)
	}
	return nil
}

// mostSeconds bounds what a run may say that it took: a year.
const mostSeconds = 366 * 24 * 3600

// AnyOutcome is the expectation of a property whose outcome doesn't matter.
const AnyOutcome = "any"

// Judgement is what was expected of one property and what came.
type Judgement struct {
	Property string          `json:"property"`
	Expected string          `json:"expected"` // in words; "" if nothing was
	Got      verdict.Outcome `json:"got"`
	Cause    string          `json:"cause,omitempty"`
	Node     string          `json:"node,omitempty"`
	Because  string          `json:"because"`
	// NotApplicable is the checker's: this lock never tells what it would take to judge the property.
	NotApplicable bool `json:"notApplicable,omitempty"`
	// Length is how many events there are up to the last of a violation's witness.
	Length     int  `json:"length,omitempty"`
	AsExpected bool `json:"asExpected"`
	// Missed: a violation was expected and did not come, so another try may show it.
	Missed bool `json:"missed,omitempty"`
	// Follows is scenario.Expectation's: what came as expected is no news.
	Follows string `json:"follows,omitempty"`
	// Confirmation is what came of trying the cause, nil: it was not tried.
	Confirmation *Confirmation `json:"confirmation,omitempty"`
	// Control is what came of the property with the scenario's own lock, "": nobody asked.
	Control verdict.Outcome `json:"control,omitempty"`
	// Number is set where the property is a measured number that has a bound.
	Number *Number `json:"number,omitempty"`
}

// Number is what was measured, and what it was compared with.
type Number struct {
	Value float64        `json:"value"` // 0 where it is missing
	Bound scenario.Bound `json:"bound"`
	// Waits: the other variant's number is not there yet.
	Waits bool `json:"waits,omitempty"`
}

// NoExpectation says whether nothing was expected of any of them.
func NoExpectation(js []Judgement) bool {
	return len(js) > 0 && !slices.ContainsFunc(js, func(j Judgement) bool { return j.Expected != "" && j.Expected != AnyOutcome })
}

// Free: it was violated, and nothing was expected of it.
func (j Judgement) Free() bool {
	return j.Got == verdict.Violated && j.AsExpected && (j.Expected == "" || j.Expected == AnyOutcome)
}

// Open: nothing was found that is not as expected, nor that what was is so: the property is
// undecided, or was to hold and had no occasion to be violated.
func (j Judgement) Open() bool {
	return j.Got == verdict.Undecided || j.Got == verdict.NotExercised && !j.AsExpected && !j.Missed
}

// Tells: it is worth a line of a report. What nobody expected and nothing violated is not.
func (j Judgement) Tells() bool {
	return j.Expected != "" || j.Got == verdict.Violated || !j.AsExpected
}

// Entry is the entry of a table that is asked for, or a new one, added to the table: so
// runs are summed up by scenario and property, in the order in which they came.
func Entry[T any](table *[]*T, is func(*T) bool, fresh T) *T {
	if i := slices.IndexFunc(*table, is); i >= 0 {
		return (*table)[i]
	}
	*table = append(*table, &fresh)
	return &fresh
}

// harms: a property was violated, whatever was expected.
func (j Judgement) harms() bool { return j.Got == verdict.Violated && j.Number == nil }

// Violated says whether a property was violated, whatever was expected.
func (o *Outcome) Violated() bool { return slices.ContainsFunc(o.Judgements, Judgement.harms) }

// Violations are the violated properties, but for those that only follow from another.
func (o *Outcome) Violations() []Judgement {
	return slices.DeleteFunc(slices.Clone(o.Judgements), func(j Judgement) bool { return !j.harms() || j.Follows != "" })
}

// FreeOnly reports whether properties were violated, and nothing was expected of any of those.
func (o *Outcome) FreeOnly() bool {
	return o.Violated() && !slices.ContainsFunc(o.Judgements, func(j Judgement) bool { return j.harms() && !j.Free() })
}

// Of is what came of a property, or of a number that has a bound; nil: nobody judged it.
func (o *Outcome) Of(property string) *Judgement {
	if i := slices.IndexFunc(o.Judgements, func(j Judgement) bool { return j.Property == property }); i >= 0 {
		return &o.Judgements[i]
	}
	return nil
}

// Unmet is the property that a run was to put to the test and did not; nil: there is none.
func (o *Outcome) Unmet() *Judgement {
	if i := slices.IndexFunc(o.Judgements, func(j Judgement) bool { return j.Got == verdict.NotExercised && j.Open() }); i >= 0 {
		return &o.Judgements[i]
	}
	return nil
}

// Unexplained reports whether a run failed, or its code is one that no judgement calls for.
func (o *Outcome) Unexplained() bool {
	return o.Error != "" || o.Code != ExitOK && CodeOf(o.Judgements) == ExitOK
}

// Waits: another run of the same suite decides.
func (j Judgement) Waits() bool { return j.Number != nil && j.Number.Waits }

// Waits lists the variants that an outcome's numbers are compared with.
func (o *Outcome) Waits() []string {
	var out []string
	for _, j := range o.Judgements {
		if j.Waits() && !slices.Contains(out, j.Number.Bound.Than) {
			out = append(out, j.Number.Bound.Than)
		}
	}
	return out
}

// Fail adds an error, and its exit code where that is worse.
func (o *Outcome) Fail(code int, err error) {
	o.Code = Worse(o.Code, code)
	if o.Error != "" {
		o.Error += "\n"
	}
	o.Error += err.Error()
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
	case j.Control == j.Got && j.Got == verdict.Violated:
		text += ", as with the scenario's own lock"
	case j.Alone():
		text += "; with the scenario's own lock it " + controlled[j.Control]
	}
	return text
}

// controlled are the words for what came of a control.
var controlled = map[verdict.Outcome]string{verdict.Holds: "holds", verdict.Undecided: "is undecided", verdict.NotExercised: "is not exercised"}

// Alone: it was violated, and was not with the scenario's own lock.
func (j Judgement) Alone() bool {
	return j.Got == verdict.Violated && j.Control != "" && j.Control != verdict.Violated
}

func (j Judgement) number() string {
	text := j.Property
	if j.Got == verdict.Undecided {
		text += " " + string(j.Got)
	} else {
		text += " " + Figure(j.Number.Value)
	}
	if j.AsExpected {
		return text + " (" + j.Expected + ")"
	}
	return text + ", expected " + j.Expected
}

// Figure is a number with three digits that count.
func Figure(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) }

// Confirmation is what came of running a violation's seed again with the facts that are
// its cause undone: a node keeps the key that it had lost. A cause never depends on it.
type Confirmation struct {
	State Certainty `json:"state"`
	Why   string    `json:"why"` // in words
	// Alone are the nodes of which a single one, had it kept its key, would have prevented the overlap.
	Alone []string `json:"alone,omitempty"`
	Runs  int      `json:"runs"`
}

// Certainty is how far the facts were shown to be the cause.
type Certainty string

// Certainties.
const (
	Confirmed     Certainty = "confirmed"         // each node refuses the second's same vote because of the first's key, and the two never overlap
	PutOff        Certainty = "put-off"           // likewise, but they overlap later, through another loss
	Jointly       Certainty = "jointly-necessary" // confirmed or put off, but to keep the key on one node, or on those of the named cause alone, does not prevent it
	PartlyTried   Certainty = "partly-tried"      // likewise, but the named cause could not be undone on each node that it names
	Refuted       Certainty = "refuted"           // the two overlap all the same, or a node grants it all the same
	NotApplicable Certainty = "not-applicable"    // no key ended before its time
	FactsSuffice  Certainty = "facts-suffice"     // this backend can't run it again; what the nodes told stands
)

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

// KnownCode says whether a run or a suite can have come to an exit code.
func KnownCode(code int) bool {
	return slices.Contains([]int{ExitOK, ExitUnexpected, ExitUndecided, ExitBackend, ExitUsage, ExitBug, ExitInterrupt}, code)
}

// CodeOf is the exit code that the judgements of one run call for.
func CodeOf(js []Judgement) int {
	code := ExitOK
	for _, j := range js {
		switch {
		case j.AsExpected:
		case j.Open():
			code = Worse(code, ExitUndecided)
		default:
			code = Worse(code, ExitUnexpected)
		}
	}
	return code
}

// Worse returns the code that outranks the other: 130, 70, 64, 1, 3, 2, 0.
func Worse(a, b int) int {
	rank := []int{ExitOK, ExitUndecided, ExitBackend, ExitUnexpected, ExitUsage, ExitBug, ExitInterrupt}
	if slices.Index(rank, a) >= slices.Index(rank, b) {
		return a
	}
	return b
}

// States of an outcome, in the order of a sum.
const (
	AsExpected      = "as expected"
	NothingExpected = "nothing expected" // whatever came
	Unexpected      = "unexpected"
	Undecided       = "undecided"
	Failed          = "failed" // it could not be run or judged
	Interrupted     = "interrupted"
	Skipped         = "skipped"
)

// States lists the states of an outcome, in the order of a sum.
func States() []string {
	return []string{AsExpected, NothingExpected, Unexpected, Undecided, Failed, Interrupted, Skipped}
}

// WorstFirst lists the states from the one that most needs a look to the one that needs none.
func WorstFirst() []string {
	return []string{Failed, Unexpected, Undecided, Interrupted, AsExpected, NothingExpected, Skipped}
}

// Fine is how many outcomes give no reason to look closer, by their states.
func Fine(counts map[string]int) int { return counts[AsExpected] + counts[NothingExpected] }

// Counted says how many outcomes came to each state that there is.
func Counted(counts map[string]int) []string {
	var parts []string
	for _, state := range States() {
		if n := counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return parts
}

// State is what became of a run, in one word or two.
func (o Outcome) State() string {
	switch {
	case o.Skipped != "":
		return Skipped
	case o.Code == ExitOK && o.NothingExpected:
		return NothingExpected
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

// Finding is what one cause violated in a run: the property that names the cause, and those that
// were violated along with it.
type Finding struct {
	Judgement
	With []Judgement
}

// Findings groups the violated properties of a run by cause, in the order of the judgements. Two
// holders at once (mutual-exclusion) also show as overlapping leases (lease-linearizable) and, where
// both used the resource, as harm to it (resource-safety); those belong to the same finding. What
// was expected and what was not are different findings.
func (o *Outcome) Findings() (all []Finding) {
next:
	for _, j := range o.Judgements {
		if !j.harms() {
			continue
		}
		for i := range all {
			if all[i].explains(j) {
				all[i].With = append(all[i].With, j)
				continue next
			}
		}
		all = append(all, Finding{Judgement: j})
	}
	return all
}

// explains reports whether a property was violated by the finding's cause, and expected alike.
func (f Finding) explains(j Judgement) bool {
	switch {
	case f.implies(j):
		return true
	case j.AsExpected != f.AsExpected || j.Expected != f.Expected || j.Control != f.Control:
		return false
	}
	if f.Property == verdict.MutualExclusion && (j.Cause == verdict.Overlap || j.Cause == verdict.LockBroken) {
		return true
	}
	return j.Cause != "" && j.Cause == f.Cause && j.Node == f.Node
}

// implies reports whether a property came out as the one it follows did, as expected. Naming it would
// add nothing.
func (f Finding) implies(j Judgement) bool {
	return j.Follows == f.Property && j.AsExpected && f.AsExpected
}

// Names lists the properties, as in "mutual-exclusion, lease-linearizable and resource-safety".
func (f Finding) Names() string {
	names := []string{f.Property}
	for _, j := range f.With {
		if !f.implies(j) {
			names = append(names, j.Property)
		}
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return names[0]
}

// String is a judgement's sentence, about all of the finding's properties.
func (f Finding) String() string {
	j := f.Judgement
	j.Property = f.Names()
	return j.String()
}

// z is the two-sided 95 % point of the standard normal distribution.
const z = 1.959963984540054

// Wilson is the 95 % score interval of the chance of something that came k times
// in n independent trials. With p = k/n and z = 1.96 it is
//
//	(p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n)
//
// Unlike p ± z·√(p(1−p)/n) it has a width where k is 0 or n, and never leaves
// [0, 1]. Source: E. B. Wilson, "Probable inference, the law of succession, and
// statistical inference", Journal of the American Statistical Association 22
// (1927), 209–212. Where nothing was tried it is [0, 1].
func Wilson(k, n int) (low, high float64) {
	if n <= 0 {
		return 0, 1
	}
	all, p := float64(n), float64(k)/float64(n)
	middle := p + z*z/(2*all)
	half := z * math.Sqrt(p*(1-p)/all+z*z/(4*all*all))
	whole := 1 + z*z/all
	low, high = (middle-half)/whole, (middle+half)/whole
	// Rounding must not spoil what is exact at the ends.
	if k == 0 {
		low = 0
	}
	if k == n {
		high = 1
	}
	return low, high
}

// Rate says how often something came in n trials, with its interval in percent:
// "37 of 1000 (3.7 %, 95 %: 2.7–5.1 %)"; where it never came, how often it may
// come at most: "0 of 1000: at most 0.38 %".
func Rate(k, n int) string {
	low, high := Wilson(k, n)
	if k == 0 {
		return fmt.Sprintf("0 of %d: at most %s %%", n, percent(high))
	}
	return fmt.Sprintf("%d of %d (%s %%, 95 %%: %s–%s %%)", k, n, percent(float64(k)/float64(n)), percent(low), percent(high))
}

// percent writes a share with a digit behind the point, or two digits that count where
// that is more, and what is near the whole with as many of what is missing.
func percent(share float64) string {
	x := 100 * share
	least := min(x, 100-x)
	digits := 0
	if least > 0 {
		digits = max(1, 1-int(math.Floor(math.Log10(least))))
	}
	s := strconv.FormatFloat(x, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
