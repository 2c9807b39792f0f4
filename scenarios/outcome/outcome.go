// Package outcome is what came of a run, held against what was expected of it, as
// plain data.
//
// An Outcome is one run's: a Judgement for each property and each number that has a
// bound, and the exit code that they call for. It stands in outcome.json beside the
// verdict. A Run is an outcome with all that it was judged by, for those who report
// on it. Rate says how often something came in many runs.
//
// Deliberately missing: judging, which is suite's, and drawing.
package outcome

import (
	"fmt"
	"slices"
	"strconv"

	"lockpick/checker"
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
	Verdict         checker.Verdict    `json:"-"`
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
	Verdict  checker.Verdict
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
	Got      checker.Outcome `json:"got"`
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
	Control checker.Outcome `json:"control,omitempty"`
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
	return j.Got == checker.Violated && j.AsExpected && (j.Expected == "" || j.Expected == AnyOutcome)
}

// Open: nothing was found that is not as expected, nor that what was is so: the property is
// undecided, or was to hold and had no occasion to be violated.
func (j Judgement) Open() bool {
	return j.Got == checker.Undecided || j.Got == checker.NotExercised && !j.AsExpected && !j.Missed
}

// Tells: it is worth a line of a report. What nobody expected and nothing violated is not.
func (j Judgement) Tells() bool {
	return j.Expected != "" || j.Got == checker.Violated || !j.AsExpected
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

// Violated says whether a property was violated, whatever was expected.
func (o *Outcome) Violated() bool {
	return slices.ContainsFunc(o.Judgements, func(j Judgement) bool { return j.Got == checker.Violated && j.Number == nil })
}

// FreeOnly reports whether properties were violated, and nothing was expected of any of those.
func (o *Outcome) FreeOnly() bool {
	return o.Violated() && !slices.ContainsFunc(o.Judgements, func(j Judgement) bool {
		return j.Got == checker.Violated && j.Number == nil && !j.Free()
	})
}

// Of is what came of a property, or of a number that has a bound; nil: nobody judged it.
func (o *Outcome) Of(property string) *Judgement {
	if i := slices.IndexFunc(o.Judgements, func(j Judgement) bool { return j.Property == property }); i >= 0 {
		return &o.Judgements[i]
	}
	return nil
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
	if j.AsExpected && j.Got == checker.Violated && j.Expected != "" && j.Expected != AnyOutcome {
		text += ", as expected"
	}
	if cause != "" {
		text += " (" + cause + ")"
	}
	if !j.AsExpected {
		text += ", expected " + j.Expected
	}
	switch {
	case j.Control == j.Got && j.Got == checker.Violated:
		text += ", as with the scenario's own lock"
	case j.Alone():
		text += "; with the scenario's own lock it " + controlled[j.Control]
	}
	return text
}

// controlled are the words for what came of a control.
var controlled = map[checker.Outcome]string{checker.Holds: "holds", checker.Undecided: "is undecided", checker.NotExercised: "is not exercised"}

// Alone: it was violated, and was not with the scenario's own lock.
func (j Judgement) Alone() bool {
	return j.Got == checker.Violated && j.Control != "" && j.Control != checker.Violated
}

func (j Judgement) number() string {
	text := j.Property
	if j.Got == checker.Undecided {
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
	Jointly       Certainty = "jointly-necessary" // confirmed or put off, but no single node's loss would have prevented it
	Refuted       Certainty = "refuted"           // the two overlap all the same, or a node grants it all the same
	NotApplicable Certainty = "not-applicable"    // no key ended before its time
	FactsSuffice  Certainty = "facts-suffice"     // this backend can't run it again; what the nodes told stands
)
