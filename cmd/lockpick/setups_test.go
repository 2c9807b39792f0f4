package main

import (
	"maps"
	"slices"

	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	redsyncs "lockpick/harness/lock/redsync"
	"lockpick/harness/lock/rueidis"
)

// setups are the libraries as they can be set up, by names that only these tests know.
var setups = map[string]lock.Kind{
	"redsync-defaults":        {New: redsyncs.Options{DriverDefaults: true}.New, OwnTime: true},
	"redsync-context-timeout": {New: redsyncs.Options{DriverDefaults: true, ContextTimeout: true}.New, OwnTime: true},
	"redsync-fail-fast":       {New: redsyncs.Options{FailFast: true}.New, OwnTime: true},
	"redsync-set-nx":          {New: redsyncs.Options{SetNXOnExtend: true}.New, OwnTime: true},
	"rueidis-caching":         {New: rueidis.Options{Caching: true, NoLoop: true}.New, OwnTime: true, OwnTokens: true},
	"rueidis-looping":         {New: rueidis.Options{Caching: true}.New, OwnTime: true, OwnTokens: true},
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
