package checker

import (
	"testing"

	"lockpick/checker/verdict"
)

// lease-linearizable is not applicable to a lock that never notifies its holder and never answered
// a release. It applies if the lock reports losses or answered once. In a run without releases, it
// is just not exercised.
func TestLeaseOfUnnotifiedLock(t *testing.T) {
	const grant = "1 c1 invoke acquire session=c1/1\n2 c1 ok acquire session=c1/1\n"
	for name, row := range map[string]struct {
		params, history string
		want            verdict.Outcome
		notApplicable   bool
	}{
		"no release answered":     {"noLossNotice=true", grant + "3 c1 invoke release session=c1/1\n4 c1 info release session=c1/1", verdict.NotExercised, true},
		"one answered":            {"noLossNotice=true", grant + "3 c1 invoke release session=c1/1\n4 c1 ok release session=c1/1", verdict.Holds, false},
		"no release":              {"noLossNotice=true", grant, verdict.NotExercised, false},
		"the lock reports losses": {"", grant + "3 c1 invoke release session=c1/1\n4 c1 info release session=c1/1", verdict.NotExercised, false},
		"no grant":                {"noLossNotice=true", "1 c1 invoke acquire session=c1/1\n2 c1 fail acquire session=c1/1", verdict.NotExercised, false},
		"released twice":          {"noLossNotice=true", grant + "3 c1 invoke release session=c1/1\n4 c1 ok release session=c1/1\n5 c1 invoke release session=c1/1\n6 c1 ok release session=c1/1", verdict.Violated, false},
	} {
		h := parseHistory(t, "params clients=c1,c2 "+row.params+"\n"+row.history+"\n12 harness end run")
		if res := judge(newRecord(h), verdict.LeaseLinearizable); res.Outcome != row.want || res.NotApplicable != row.notApplicable {
			t.Errorf("%s: %s, not applicable: %v: %s", name, res.Outcome, res.NotApplicable, res.Because)
		}
	}
}
