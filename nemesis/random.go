package nemesis

import (
	"slices"
)

// Random is a plan that every seed draws anew, in two phases:
//
//	0          safety phase: faults come and go          │ liveness phase: all is healed   limit
//	├──▒▒──▒▒▒▒▒▒▒────▒────▒▒▒▒▒▒▒▒▒▒▒▒───▒▒▒─────▒▒▒▒──│──────────────────────────────────┤
//
// In the first nobody must hold what another holds; in the second somebody must acquire again.
//
// It is a swarm: a seed leaves out about half of the faults, and draws for each of
// the others how often it comes, how long it lasts at most, in which mode, and on
// whom. What all seeds do alike, none does often enough to meet the rare; what is
// left out can't hide the rest. Source: A. Groce, C. Zhang, E. Eide, Y. Chen and
// J. Regehr, "Swarm Testing", ISSTA 2012.
type Random struct {
	Faults []string `json:"faults"`           // words of Choices
	Within string   `json:"within,omitempty"` // Assumptions, or "": no bounds
	Every  Span     `json:"every"`            // between two faults of a kind: where a seed's mean lies
	Lasts  Span     `json:"lasts"`            // the shortest fault, and the longest; a seed's longest is above the middle
	Safety float64  `json:"safety"`           // the safety phase's share of the limit
	Modes  []string `json:"modes,omitempty"`  // nil: all that the kinds have
	Shapes []string `json:"shapes,omitempty"` // of what hits links; nil: all
}

// Assumptions keeps a plan within what Redlock assumes: clocks go wrong by less
// than the drift that is allowed for, a node that may have forgotten its keys comes
// back after all of them have lapsed, and masters are independent. Pauses, deaths
// of clients and the network are as bad as they like. Of each kind, Within says it.
const Assumptions = "assumptions"

// Choice is one sort of fault on one sort of target.
type Choice struct {
	Word string // in a scenario file: "cut", "pause-client"
	Kind Kind
	On   Target
}

// Fatal says whether it leaves nothing of its target that could come back.
func (c Choice) Fatal() bool { return c.On == c.Kind.Fatal }

func allChoices() []Choice {
	var all []Choice
	for _, k := range Kinds {
		if slices.Contains(k.Undrawn, "") {
			continue
		}
		for _, on := range k.On {
			c := Choice{k.Name, k, on}
			if len(k.On) > 1 {
				c.Word = Capability(k.Name, on)
			}
			all = append(all, c)
		}
	}
	return all
}

// Choices lists the words for faults in a random plan: a kind for all that it
// hits, and where that is more than one sort, each of them.
func Choices() []string {
	var words []string
	for _, c := range allChoices() {
		for _, w := range []string{c.Kind.Name, c.Word} {
			if !slices.Contains(words, w) {
				words = append(words, w)
			}
		}
	}
	return words
}

// Choices are what its faults stand for, in the order of Kinds.
func (r Random) Choices() []Choice {
	return slices.DeleteFunc(allChoices(), func(c Choice) bool {
		return !slices.Contains(r.Faults, c.Word) && !slices.Contains(r.Faults, c.Kind.Name)
	})
}

// Without is the same dice without some choices, and these by their words.
func (r Random) Without(out func(Choice) bool) (_ Random, left []string) {
	var kept []string
	for _, c := range r.Choices() {
		if out(c) {
			left = append(left, c.Word)
		} else {
			kept = append(kept, c.Word)
		}
	}
	if len(left) > 0 {
		r.Faults = kept
	}
	return r, left
}

// ModesOf lists the modes of a kind that may be drawn.
func (r Random) ModesOf(k Kind) []string {
	return slices.DeleteFunc(slices.Clone(k.Modes), func(m string) bool {
		return slices.Contains(k.Undrawn, m) || r.Modes != nil && !slices.Contains(r.Modes, m)
	})
}
