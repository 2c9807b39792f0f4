package display

import "lockpick/checker/verdict"

// OutcomeText returns an outcome as shown to people: Undecided is shown as "inconclusive".
func OutcomeText(o verdict.Outcome) string {
	if o == verdict.Undecided {
		return "inconclusive"
	}
	return o.String()
}
