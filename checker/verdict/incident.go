package verdict

import (
	"cmp"
	"slices"
)

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
