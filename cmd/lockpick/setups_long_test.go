//go:build long

package main

import (
	"regexp"
	"runtime"
	"testing"

	"lockpick/harness/scenario"
)

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
