package main

import (
	"maps"
	"slices"

	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
)

// setups lists configurations of libraries, under names that only these tests use.
var setups = map[string]lock.Kind{
	"redsync-defaults":        withOptions("redsync", "driver", "defaults"),
	"redsync-context-timeout": withOptions("redsync", "driver", "context-timeout"),
	"redsync-fail-fast":       withOptions("redsync", "fail-fast", "yes"),
	"redsync-set-nx":          withOptions("redsync", "set-nx-on-extend", "yes"),
	"rueidis-caching":         withOptions("rueidis", "caching", "yes"),
	"rueidis-looping":         withOptions("rueidis", "caching", "yes", "no-loop", "no"),
}

// withOptions returns a lock kind with the given options, as alternating names and values.
func withOptions(kind string, options ...string) lock.Kind {
	k := kinds.All[kind]
	return lock.Kind{OwnTime: k.OwnTime, OwnTokens: k.OwnTokens, New: func(env lock.Env) (lock.Lock, error) {
		env.Settings.Options = map[string]string{}
		for i := 0; i < len(options); i += 2 {
			env.Settings.Options[options[i]] = options[i+1]
		}
		return k.New(env)
	}}
}

// locks returns all lock kinds and setups.
func locks() map[string]lock.Kind {
	all := maps.Clone(kinds.All)
	maps.Copy(all, setups)
	return all
}

// libraries lists the lock kinds and setups of third-party libraries.
func libraries() []string {
	return slices.Sorted(maps.Keys(func() map[string]lock.Kind {
		all := locks()
		maps.DeleteFunc(all, func(_ string, k lock.Kind) bool { return !k.OwnTime })
		return all
	}()))
}
