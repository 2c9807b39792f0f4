package campaign

import (
	"lockpick/checker"
	"lockpick/harness/lock"
	"lockpick/harness/lock/broken"
	"lockpick/harness/scenario"
)

// Known is what a scenario may name where these are the kinds of locks.
func KnownLocks(locks map[string]lock.Kind) scenario.Known {
	k := scenario.Known{Properties: checker.Properties(), Causes: checker.Causes(), Numbers: checker.Numbers()}.With(locks)
	for _, m := range broken.Mistakes() {
		k.Mistakes = append(k.Mistakes, m.Name)
	}
	return k
}
