package outcome

import (
	"slices"
	"testing"

	"lockpick/checker/verdict"
)

func TestFindings(t *testing.T) {
	violated := func(property, cause, node, expected string) Judgement {
		return Judgement{Property: property, Got: verdict.Violated, Cause: cause, Node: node, Expected: expected, AsExpected: expected != "holds"}
	}
	mutex := violated(verdict.MutualExclusion, verdict.RestartedAndForgot, "n3", "holds")
	overlap := violated(verdict.LeaseLinearizable, verdict.Overlap, "", "holds")
	damage := violated(verdict.ResourceSafety, verdict.LockBroken, "", "holds")
	for name, c := range map[string]struct {
		js   []Judgement
		want []string
	}{
		"one cause": {[]Judgement{mutex, overlap, damage},
			[]string{"mutual-exclusion, lease-linearizable and resource-safety violated (restarted-and-forgot at n3), expected holds"}},
		"damage for another cause": {[]Judgement{mutex, violated(verdict.ResourceSafety, verdict.Overrun, "", "holds")},
			[]string{"mutual-exclusion violated (restarted-and-forgot at n3), expected holds", "resource-safety violated (overrun), expected holds"}},
		"damage only": {[]Judgement{damage}, []string{"resource-safety violated (lock-broken), expected holds"}},
		"different expectations": {[]Judgement{violated(verdict.MutualExclusion, verdict.RestartedAndForgot, "n3", "violated"), damage},
			[]string{"mutual-exclusion violated, as expected (restarted-and-forgot at n3)", "resource-safety violated (lock-broken), expected holds"}},
		"implied violation is not named": {[]Judgement{violated(verdict.MutualExclusion, verdict.RestartedAndForgot, "n3", "violated"),
			{Property: verdict.LeaseLinearizable, Got: verdict.Violated, Cause: verdict.LostEarly, Expected: "violated", AsExpected: true, ImpliedBy: verdict.MutualExclusion}},
			[]string{"mutual-exclusion violated, as expected (restarted-and-forgot at n3)"}},
		"same cause": {[]Judgement{violated(verdict.FaultTolerance, verdict.LeftKeys, "", "holds"), violated(verdict.DeadlockFreedom, verdict.LeftKeys, "", "holds")},
			[]string{"fault-tolerance and deadlock-freedom violated (left-keys), expected holds"}},
		"holding property is not a finding": {[]Judgement{{Property: verdict.MutualExclusion, Got: verdict.Holds, AsExpected: true}, overlap},
			[]string{"lease-linearizable violated (overlap), expected holds"}},
		"numbers are not findings": {[]Judgement{{Property: "grants", Got: verdict.Violated, Number: &Number{}}}, nil},
	} {
		var got []string
		o := Outcome{Judgements: c.js}
		for _, f := range o.Findings() {
			got = append(got, f.String())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
