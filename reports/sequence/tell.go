package sequence

import (
	"strings"

	"lockpick/checker"
	"lockpick/harness/history"
)

// DefaultWidth is how many characters wide a drawing is where no terminal says otherwise.
const DefaultWidth = 100

// Tell draws up the first violation that has a witness, or what happened around the
// first fault. Where nothing could be decided, it says why.
func Tell(h *history.History, v checker.Verdict) Diagram {
	d := Of(h, Shown(v))
	if v.Assumption != "" {
		d.Title = strings.TrimSuffix(d.Title, nothingShown) + "undecided"
		d.Caption = append([]string{"Nothing could be decided: " + v.Assumption + "."}, d.Caption...)
	}
	return d
}

// Shown is the result that a diagram is about: the first violated one with a
// witness, or nil.
func Shown(v checker.Verdict) *checker.Result {
	for i := range v.Results {
		if r := &v.Results[i]; r.Outcome == checker.Violated && r.Witness != nil {
			return r
		}
	}
	return nil
}
