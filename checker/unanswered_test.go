package checker

import (
	"testing"

	"lockpick/checker/verdict"
)

// A lock that tells its holder nothing, and answers no release, has nothing to be held to. That is
// not so of one that tells more, of one that answered once, nor of a run in which nobody released.
func TestLeaseOfALockThatTellsNothing(t *testing.T) {
	const acquired = "1 c1 invoke acquire session=c1/1\n2 c1 ok acquire session=c1/1\n"
	for name, row := range map[string]struct {
		params, history string
		want            verdict.Outcome
		notApplicable   bool
	}{
		"no release answered":     {"untold=true", acquired + "3 c1 invoke release session=c1/1\n4 c1 info release session=c1/1", verdict.NotExercised, true},
		"one answered":            {"untold=true", acquired + "3 c1 invoke release session=c1/1\n4 c1 ok release session=c1/1", verdict.Holds, false},
		"no release":              {"untold=true", acquired, verdict.NotExercised, false},
		"it tells of a loss":      {"", acquired + "3 c1 invoke release session=c1/1\n4 c1 info release session=c1/1", verdict.NotExercised, false},
		"nobody held it":          {"untold=true", "1 c1 invoke acquire session=c1/1\n2 c1 fail acquire session=c1/1", verdict.NotExercised, false},
		"released, and once more": {"untold=true", acquired + "3 c1 invoke release session=c1/1\n4 c1 ok release session=c1/1\n5 c1 invoke release session=c1/1\n6 c1 ok release session=c1/1", verdict.Violated, false},
	} {
		h := tale(t, "params clients=c1,c2 "+row.params+"\n"+row.history+"\n12 harness end run")
		if res := judge(newRecord(h), verdict.LeaseLinearizable); res.Outcome != row.want || res.NotApplicable != row.notApplicable {
			t.Errorf("%s: %s, not applicable: %v: %s", name, res.Outcome, res.NotApplicable, res.Because)
		}
	}
}
