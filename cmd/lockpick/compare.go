package main

import (
	"slices"

	"lockpick/harness/scenario"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// comparison lets outcomes wait for those of other variants, with the same seed,
// whose numbers theirs are compared with.
type comparison struct {
	chosen  []pick
	seeds   int
	numbers map[int]map[string]float64 // of runs that are done, by their number
	waiting []int
}

// settle takes one more outcome that is there, and returns those that are decided by
// now and were not before.
func (c *comparison) settle(outcomes map[int]outcome.Outcome, i int) (decided []int) {
	if slices.ContainsFunc(c.chosen, func(p pick) bool { return len(p.Numbers) > 0 }) {
		c.numbers[i] = map[string]float64{}
		if n := outcomes[i].Numbers; n != nil {
			c.numbers[i] = n
		}
	}
	c.waiting = slices.DeleteFunc(append(c.waiting, i), func(i int) bool {
		o := outcomes[i]
		for _, than := range o.Waits() {
			other, chosen := c.variant(i, than)
			numbers, there := c.numbers[other]
			if chosen && !there {
				return false
			}
			campaign.Settle(&o, than, numbers)
		}
		outcomes[i] = o
		decided = append(decided, i)
		return true
	})
	return decided
}

func (c *comparison) waits(i int) bool { return slices.Contains(c.waiting, i) }

// variant is the run of another variant of the same scenario with the same seed, or
// one that there is not.
func (c *comparison) variant(i int, name string) (run int, ok bool) {
	if name == scenario.BaseVariant {
		name = ""
	}
	this := c.chosen[i/c.seeds]
	k := slices.IndexFunc(c.chosen, func(p pick) bool { return p.From == this.From && p.Variant == name })
	return k*c.seeds + i%c.seeds, k >= 0
}
