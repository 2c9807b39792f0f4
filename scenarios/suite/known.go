package suite

import (
	"maps"
	"slices"

	"lockpick/checker"
	"lockpick/harness/lock"
	"lockpick/harness/lock/broken"
	"lockpick/harness/scenario"
)

// Known is what a scenario may name where these are the kinds of locks.
func Known(locks map[string]lock.Kind) scenario.Known {
	k := scenario.Known{Locks: slices.Sorted(maps.Keys(locks)), Properties: checker.Properties(), Causes: checker.Causes(), Numbers: checker.Numbers(),
		Options: map[string][]lock.Option{}, Kinds: locks}
	for name, kind := range locks {
		if len(kind.Options) > 0 {
			k.Options[name] = kind.Options
		}
	}
	for _, m := range broken.Mistakes() {
		k.Mistakes = append(k.Mistakes, m.Name)
	}
	return k
}
