package checker

import (
	"strings"
	"testing"

	"lockpick/checker/verdict"
)

// In unmetStep, a step waits for a grant that never happens.
const unmetStep = `params clients=c1,c2 nodes=n1,n2,n3 quorum=2 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rate=0.01 rounds=10
step 1 pause c1 after c1 acquired
0      harness begin run
0.001  c1 begin client
0.001  c2 begin client
0.010  c1 invoke acquire session=c1/1
9      c1 fail acquire session=c1/1
9      c1 end client
9      c2 end client
9.1    harness end run
`

// If no client gets an available lock, fault tolerance is violated and every other property is
// undecided, whatever happened to the plan. If the lock was not available, the run proves nothing.
func TestRunWithoutGrants(t *testing.T) {
	const vacuousText = "step 1 (pause c1, when: after c1 acquired) never started: its trigger did not occur"
	for name, row := range map[string]struct {
		more       string
		tolerant   verdict.Outcome
		assumption string
	}{
		"a majority was up":                     {"", verdict.Violated, ""},
		"all but one node were up":              {"0.005 nemesis begin kill node=n1", verdict.Violated, ""},
		"no majority was up":                    {"0.005 nemesis begin kill node=n1\n0.005 nemesis begin kill node=n2", verdict.Undecided, vacuousText},
		"a majority was up, and a fault failed": {"5 nemesis fail kill node=n1", verdict.Violated, ""},
	} {
		v := Check(parseHistory(t, unmetStep+row.more))
		if v.Assumption != row.assumption || v.Disagreement != "" {
			t.Errorf("%s: assumption %q, want %q %s", name, v.Assumption, row.assumption, v.Disagreement)
		}
		for _, res := range v.Results {
			want := verdict.Undecided
			if res.Property == verdict.FaultTolerance {
				want = row.tolerant
			}
			if res.Outcome != want || want == verdict.Undecided && res.Because != "the run is vacuous: "+vacuousText {
				t.Errorf("%s: %s: %s, want %s: %s", name, res.Property, res.Outcome, want, res.Because)
			}
		}
		if len(v.Results) != len(Properties())-1 || len(v.Numbers) == 0 {
			t.Errorf("%s: %d results, %d numbers", name, len(v.Results), len(v.Numbers))
		}
	}
	if v := Check(parseHistory(t, strings.Replace(unmetStep, "step 1", "step 2", 1)), verdict.FaultTolerance); v.Results[0].Outcome != verdict.Violated {
		t.Errorf("fault-tolerance alone: %+v", v.Results)
	}
}

// If the record was cut, a step that it does not contain is not a failed assumption.
func TestCutRecordIsNotVacuous(t *testing.T) {
	h := parseHistory(t, "step 1 pause c2 at 7 s\ncut it ends here\n"+quietHold)
	if v := Check(h); v.Assumption != "" || v.Cut != "it ends here" || v.Result(verdict.MutualExclusion).Outcome != verdict.Undecided {
		t.Errorf("assumption %q: %+v", v.Assumption, v.Results)
	}
	if h.Truncation = ""; Check(h).Assumption == "" {
		t.Error("a step missing from a complete record is not reported as a failed assumption")
	}
}

func TestLiveness(t *testing.T) {
	for name, want := range map[string]bool{
		verdict.DeadlockFreedom: true, verdict.FaultTolerance: true, verdict.BoundedHold: true,
		verdict.MutualExclusion: false, verdict.LeaseLinearizable: false, verdict.ResourceSafety: false, verdict.FencingOrder: false, verdict.ValidOnReturn: false, verdict.HolderNotified: false,
		"": false, "honesty": false,
	} {
		if got := Liveness(name); got != want {
			t.Errorf("Liveness(%q) = %t", name, got)
		}
	}
}
