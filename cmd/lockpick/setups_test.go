package main

import (
	"maps"
	"slices"

	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
)

// setups are the libraries as they can be set up, by names that only these tests know.
var setups = map[string]lock.Kind{
	"redsync-defaults":        setUp("redsync", "driver", "defaults"),
	"redsync-context-timeout": setUp("redsync", "driver", "context-timeout"),
	"redsync-fail-fast":       setUp("redsync", "fail-fast", "yes"),
	"redsync-set-nx":          setUp("redsync", "set-nx-on-extend", "yes"),
	"rueidis-caching":         setUp("rueidis", "caching", "yes"),
	"rueidis-looping":         setUp("rueidis", "caching", "yes", "no-loop", "no"),
}

// setUp is a kind with some of its options, which are names and values by turns.
func setUp(kind string, options ...string) lock.Kind {
	k := kinds.All[kind]
	return lock.Kind{OwnTime: k.OwnTime, OwnTokens: k.OwnTokens, New: func(env lock.Env) (lock.Lock, error) {
		env.Settings.Options = map[string]string{}
		for i := 0; i < len(options); i += 2 {
			env.Settings.Options[options[i]] = options[i+1]
		}
		return k.New(env)
	}}
}

// locks are all kinds, and the set-ups.
func locks() map[string]lock.Kind {
	all := maps.Clone(kinds.All)
	maps.Copy(all, setups)
	return all
}

// libraries are the kinds and set-ups that nobody here has written.
func libraries() []string {
	return slices.Sorted(maps.Keys(func() map[string]lock.Kind {
		all := locks()
		maps.DeleteFunc(all, func(_ string, k lock.Kind) bool { return !k.OwnTime })
		return all
	}()))
}
