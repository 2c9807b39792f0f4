// Package verdict is what the checker answers, as data: nothing here judges.
//
// Its nouns are Outcome (one of four values), Result (the judgement of one property, with
// its Witness and its Losses) and Verdict (that of one history). An Incident is one of those that
// a Result counts, for those who list them all. names.go is the words that they use:
// properties, causes and numbers. words.go is how all judges say a count or a name.
//
// Deliberately missing: how any of it is found, and what somebody expected.
package verdict

import (
	"cmp"
	"slices"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// Schema is the version of the verdict's form.
const Schema = 1

// Outcome is one of four values, never two.
type Outcome string

const (
	Holds        Outcome = "holds"
	Violated     Outcome = "violated"
	Undecided    Outcome = "undecided"
	NotExercised Outcome = "not-exercised" // it was not violated, and had no occasion to be
)

// String is the outcome in words.
func (o Outcome) String() string { return strings.ReplaceAll(string(o), "-", " ") }

// Answer is what an outcome says to the second judge's question, which asks for no
// occasion.
func (o Outcome) Answer() Outcome {
	if o == NotExercised {
		return Holds
	}
	return o
}

// Verdict is the judgement of one history.
type Verdict struct {
	Schema int `json:"schema"`
	// Model is what the lock of a history of Jepsen's was taken for, "" for a run of our own.
	Model string `json:"model,omitempty"`
	// Assumption is why nothing can be decided but that something was violated, "" if all assumptions hold.
	Assumption string `json:"assumption,omitempty"`
	// Unplanned: the assumption that does not hold is that nobody but the plan injects faults.
	Unplanned bool `json:"unplanned,omitempty"`
	// Cut is history.Cut: the record was judged up to there.
	Cut string `json:"cut,omitempty"`
	// Second is the second judge's answer, porcupine's, to the question of
	// lease-linearizable. Undecided where a key has too many operations for its search.
	// What violates mutual exclusion must violate this.
	Second Outcome `json:"second"`
	// Disagreement is where porcupine, or the certificate of lease-linearizable, contradicts
	// what was found here, "" as it must be: anything else is a bug in lockpick, and nothing is proven.
	Disagreement string `json:"disagreement,omitempty"`

	Results []Result           `json:"results"`
	Numbers map[string]float64 `json:"numbers,omitempty"` // measured and reported, not judged
	// Words says what a number can't, by the number's name: the cause of what it measures.
	Words map[string]string `json:"words,omitempty"`
}

// ShowsNothing reports whether an assumption does not hold and nothing was violated all the same.
func (v Verdict) ShowsNothing() bool {
	return v.Assumption != "" && !slices.ContainsFunc(v.Results, func(r Result) bool { return r.Outcome == Violated })
}

// Result returns the result for a property, or nil.
func (v Verdict) Result(property string) *Result {
	for i := range v.Results {
		if v.Results[i].Property == property {
			return &v.Results[i]
		}
	}
	return nil
}

// Result is the judgement of one property.
type Result struct {
	Property  string  `json:"property"`
	Outcome   Outcome `json:"outcome"`
	Because   string  `json:"because"`             // one sentence
	Occasions int     `json:"occasions"`           // how often the property was put to the test
	Incidents int     `json:"incidents,omitempty"` // how often it was violated
	Cause     string  `json:"cause,omitempty"`     // of the violation shown: see Causes
	Node      string  `json:"node,omitempty"`      // the node to blame, where there is one
	// NotApplicable: the property was not exercised because of what the lock never tells its holder.
	NotApplicable bool `json:"notApplicable,omitempty"`
	// Losses is why each node that granted both sessions could, in the order of nodes: the
	// facts that Cause sums up. Spare is how many of these nodes' votes the second could have
	// done without; 0: each loss was needed.
	Losses []Loss `json:"losses,omitempty"`
	Spare  int    `json:"spare,omitempty"`
	// Stalled is the longest stall of the host, in seconds, that may be why a violation did not
	// come, or came of another cause. 0: there was none. Where stalls may be why one came, the
	// outcome is undecided.
	Stalled float64  `json:"stalled,omitempty"`
	Witness *Witness `json:"witness,omitempty"`
}

// Witness proves a violation by two sessions at most, and a third where the order in which a
// client used its handles matters.
type Witness struct {
	Events   []int64  `json:"events"`   // numbers (N), in the order of time
	Sessions []string `json:"sessions"` // the earlier one first
	Key      string   `json:"key"`
	From     int64    `json:"from"` // the harm's span of true time, nanoseconds
	To       int64    `json:"to"`

	Of []*facts.Session `json:"-"` // the sessions, for the second judge; nil if the verdict was read
}

// Shows reports whether two witnesses show one harm, though one may have more events.
func (w *Witness) Shows(x *Witness) bool {
	return w.Key == x.Key && w.From == x.From && w.To == x.To && slices.Equal(w.Sessions, x.Sessions)
}

// Loss is why one node could grant a lock to a second session while the first still
// counted on its vote: what became of the first's key there.
type Loss struct {
	Node  string `json:"node"`
	Cause string `json:"cause"`
	Text  string `json:"text"`
	Fact  int64  `json:"fact,omitempty"`  // number of the fact that ended the key before its time; 0: none did
	Put   int64  `json:"put,omitempty"`   // and of the one by which the second's took its place
	Steps []int  `json:"steps,omitempty"` // of the plan, that did it

	// First and Second are the sessions by the order of their keys on this node.
	First  string `json:"first"`
	Second string `json:"second"`

	Events []*history.Event `json:"-"` // what shows it
}

// Incident is one time that a property was violated, by the instant at which the harm
// began. Tell is the result that would show it if there were no other.
type Incident struct {
	From int64
	Tell func() Result
}

// Told tells the first incidents in the order of time, at most so many.
func Told(all []Incident, most int) []Result {
	slices.SortStableFunc(all, func(a, b Incident) int { return cmp.Compare(a.From, b.From) })
	var told []Result
	for _, x := range all[:min(len(all), most)] {
		told = append(told, x.Tell())
	}
	return told
}
