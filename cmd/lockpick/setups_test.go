package main

import (
	"maps"
	"regexp"
	"runtime"
	"slices"
	"testing"

	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
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

// Each library runs in the simulation, several clients get its lock, and a run is the same
// twice: also if its tokens are not. That is so on one processor, which is what workers have:
// on two, a goroutine of rueidislock that counts failures may be overtaken by one that reads
// them, and then a client with client-side caching waits without being told (v1.0.79).
func TestLibrariesSameSeedSameBytes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, name := range []string{"baseline/", "gc-pause-after-acquire/", "holder-cut-off/"} {
		found, err := choice{names: []string{name}}.scenarios()
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range libraries() {
			t.Run(found[0].Name+"/"+kind, func(t *testing.T) {
				s := found[0].Scenario
				s.Lock.Kind = kind
				one, two := both(t, s, 1)
				if n := holders(one.History); n < 2 {
					t.Errorf("%d clients had the lock", n)
				}
				if d := one.differs(two); d != "" {
					t.Errorf("the same seed twice: it differs in %s", d)
				}
			})
		}
	}
}

// holders is how many clients got the lock.
func holders(record []byte) int {
	all := map[string]bool{}
	for _, m := range regexp.MustCompile(`"process":"(c[0-9]+)","type":"ok","op":"acquire"`).FindAllSubmatch(record, -1) {
		all[string(m[1])] = true
	}
	return len(all)
}

func both(t *testing.T, s scenario.Scenario, seed uint64) (one, two trace) {
	t.Helper()
	for _, tr := range []*trace{&one, &two} {
		var err error
		if *tr, err = simulate(s, seed); err != nil {
			t.Fatal(err)
		}
	}
	return one, two
}
