package checker

import (
	"cmp"
	"fmt"
	"strings"

	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

// mostUnplanned bounds how many faults are told that nobody planned.
const mostUnplanned = 3

// unplanned says what hit the run that no plan has, if something did. Such a run shows
// nothing, whatever came of it: neither that a lock holds under the plan's faults, nor that
// these break it. A host that stalled is another matter: nobody is to blame for it, it hits
// all alike, and it happens so often that each property allows for it.
func unplanned(r *facts.Facts) (text string, hit bool) {
	var all []string
	for _, f := range r.Faults {
		if f.Step != history.Unplanned || f.Begin == nil {
			continue
		}
		is := cmp.Or(unplannedWords[f.Kind], "was hit by "+f.Kind)
		text := fmt.Sprintf("%s %s at %s", f.Target, is, facts.Seconds(f.Begin.T))
		if f.Begin.Cause != "" {
			text += " (" + f.Begin.Cause + ")"
		}
		all = append(all, text)
	}
	if len(all) == 0 {
		return "", false
	}
	if more := len(all) - mostUnplanned; more > 0 {
		all = append(all[:mostUnplanned:mostUnplanned], fmt.Sprintf("and %d more", more))
	}
	return "nobody planned it: " + strings.Join(all, "; "), true
}

// unplannedWords tell of each kind of such a fault.
var unplannedWords = map[string]string{
	facts.Kill: "ended", facts.Pause: "stood still", history.OpGoOn: "went on",
}
