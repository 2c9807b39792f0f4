package cause

import (
	"slices"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/history/facts"
)

// ahead8 is c1's grant where n2's clock is 8 s ahead, so that its key lives 2 s there, to 2.012 s.
const ahead8 = `
0.000 nemesis begin clock-jump node=n2 step=2
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1 local=1008.012 ttl=2
0.013 c1 ok acquire session=c1/1 token=A until=9.9`

// again is c1's grant where c1 has acquired twice, and gives it back once from 1.01 s to 1.052 s.
const again = wins + `
0.020 c1 invoke extend session=c1/1 value=acquire
0.021 n1,n2 life changed value=A+1 old=A by=c1
0.022 c1 ok extend session=c1/1 value=acquire until=31
1.010 c1 invoke extend session=c1/1 value=release
1.052 c1 ok extend session=c1/1 value=release until=31`

// neighbours are histories each of which is all but one of another cause, or of other steps.
var neighbours = []causeRow{
	{"a key that was set before the acquire was called is no vote", `
0.005 n2 life set value=A by=c1
0.012 n1 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30
1.040 n2 life lost old=A why=restart` + follows("1.10"),
		verdict.NeverSet, "", "c1 counted itself in with the votes of 1 of 3 nodes", nil},
	{"but for the error of its stamp", `
0.0095 n2 life set value=A by=c1 lo=0.009 hi=0.011
0.012 n1 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30
1.040 n2 life lost old=A why=restart` + follows("1.10"),
		verdict.RestartedAndForgot, "n2", "", nil},
	{"nor is one that was set after the return, but for that", `
0.012 n1 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30
0.0135 n2 life set value=A by=c1 lo=0.0125 hi=0.014
1.040 n2 life lost old=A why=restart` + follows("1.10"),
		verdict.RestartedAndForgot, "n2", "", nil},

	{"a value with its token that another puts there is not its own", wins + `
1.050 n2 life changed value=A+1 old=A by=c3 command=set
1.060 n2 life deleted old=A+1 by=c1` + follows("1.10"),
		verdict.Overwritten, "n2", "the SET of c3 put another value into c1's key on n2 at 1.05 s", nil},
	{"nor is any value, where it has no token", `
0.012 n1,n2 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 until=30
1.050 n2 life changed value=D old=A by=c1 command=set
1.060 n2 life deleted old=D by=c3` + follows("1.10"),
		verdict.Overwritten, "n2", "the SET of c1 put another value into c1's key on n2 at 1.05 s", nil},

	{"another's release while its holder gives one of several back", again + `
1.051 c3-n2 ok release token=A sent=1.020 applied=1.050
1.050 n2 life deleted old=A+1 by=c3 sent=1.020 command=del script` + follows("1.10"),
		verdict.DeletedByOther, "n2", "the release of session c3/1 with token A, sent on c3-n2 at 1.02 s", nil},
	{"a release of its holder before it gives one of several back", again + `
1.051 c1-n2 ok release token=A sent=1.009 applied=1.050
1.050 n2 life deleted old=A+1 by=c1 sent=1.009 command=del script` + follows("1.10"),
		verdict.DeletedByOther, "n2", "the release of a failed attempt of c1 with token A, sent on c1-n2 at 1.009 s", nil},
	{"a release of its holder after it has given one of several back", again + `
1.081 c1-n2 ok release token=A sent=1.053 applied=1.080
1.080 n2 life deleted old=A+1 by=c1 sent=1.053 command=del script` + follows("1.10"),
		verdict.DeletedByOther, "n2", "the release of a failed attempt of c1 with token A, sent on c1-n2 at 1.053 s", nil},
	{"a release that was sent before that of the client's next session", wins + `
1.011 c3 invoke acquire session=c3/2
1.012 c3 info acquire session=c3/2
1.013 c3 invoke release session=c3/2
1.014 c3 info release session=c3/2
1.051 c3-n2 ok release sent=1.010 applied=1.050
1.050 n2 life deleted old=A by=c3 sent=1.010 command=del` + follows("1.10"),
		verdict.DeletedByOther, "n2", "the release of session c3/1 without a token", nil},
	{"a release that was sent after it", wins + `
1.001 c3 invoke acquire session=c3/2
1.002 c3 info acquire session=c3/2
1.003 c3 invoke release session=c3/2
1.014 c3 info release session=c3/2
1.051 c3-n2 ok release sent=1.010 applied=1.050
1.050 n2 life deleted old=A by=c3 sent=1.010 command=del` + follows("1.10"),
		verdict.DeletedByOther, "n2", "the release of session c3/2 without a token", nil},
	{"of the faults on a link, those that were in force while the release was under way", wins + `
0.900 nemesis begin delay node=c3-n2 step=3
0.950 nemesis end delay node=c3-n2 step=3
1.000 nemesis begin delay node=c3-n2 step=4
1.090 nemesis end delay node=c3-n2 step=4
1.060 nemesis begin pause node=n2 step=5
1.070 nemesis end pause node=n2 step=5
1.090 c3-n2 ok release sent=1.010 applied=1.050
1.050 n2 life deleted old=A by=c3 sent=1.010 command=del` + follows("1.10"),
		verdict.DeletedByOther, "n2", "", []int{4}},
	{"of a client's pauses, those between the key's time and the loss that it was told of", `
0.012 n1,n2 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A
5.000 nemesis begin pause node=c1 step=3
6.000 nemesis end pause node=c1 step=3
9.000 nemesis begin pause node=c1 step=4
10.050 n2 life expired old=A` + follows("10.10") + `
14.000 nemesis end pause node=c1 step=4
14.001 c1 info lost session=c1/1
15.000 nemesis begin pause node=c1 step=5`,
		verdict.ToldLate, "n2", "", []int{4}},

	{"a restart that nobody planned before one that was planned", wins + `
1.045 n2 life lost old=A why=restart
1.070 nemesis begin kill node=n2 step=1
1.080 nemesis end kill node=n2 step=1` + follows("1.10"),
		verdict.RestartedAndForgot, "n2", "", nil},
	{"a kill before a loss of power", wins + `
1.020 nemesis begin kill node=n2 step=1
1.050 nemesis end kill node=n2 step=1
1.045 n2 life lost old=A why=restart
1.070 nemesis begin power-loss node=n2 step=2
1.080 nemesis end power-loss node=n2 step=2` + follows("1.10"),
		verdict.RestartedAndForgot, "n2", "", []int{1}},
	{"a loss of power where nodes keep nothing", `
params persistence=none` + wins + `
1.020 nemesis begin power-loss node=n2 step=1
1.050 nemesis end power-loss node=n2 step=1
1.045 n2 life lost old=A why=restart` + follows("1.10"),
		verdict.RestartedAndForgot, "n2", "n2 restarted and forgot c1's key", []int{1}},
	{"a loss of power where they keep all", `
params persistence=always` + wins + `
1.020 nemesis begin power-loss node=n2 step=1
1.050 nemesis end power-loss node=n2 step=1
1.045 n2 life lost old=A why=restart` + follows("1.10"),
		verdict.LostUnsynced, "n2", "", []int{1}},

	{"the node's clock jumped, and jumped again when the key was gone", wins + `
1.000 nemesis begin clock-jump node=n2 step=5
1.050 n2 life expired old=A local=1011.2
1.060 nemesis begin clock-jump node=n2 step=6` + follows("1.10"),
		verdict.ExpiredEarly, "n2", "", []int{5}},
	{"an instant by a clock that is somewhat ahead", `
0.000 nemesis begin clock-jump node=n2 step=2
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1 local=1002.012 ttl=8
0.013 c1 ok acquire session=c1/1 token=A until=9.9
8.050 n2 life expired old=A local=1010.05` + follows("8.10"),
		verdict.ExpiredEarly, "n2", "c1's key on n2 got 8 s instead of 10 s, for n2's clock was 2 s ahead", []int{2}},
	{"an instant that is past by a clock that is far ahead", `
0.000 nemesis begin clock-jump node=n2 step=2
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1 local=1012.012 ttl=-2
0.0121 n2 life expired old=A local=1012.0121
0.013 c1 ok acquire session=c1/1 token=A until=9.9` + follows("0.10"),
		verdict.ExpiredEarly, "n2", "c1's key on n2 was over when it was set, for n2's clock was 12 s ahead", []int{2}},
	{"a key that got too little, and was deleted before even that was over", ahead8 + `
1.050 n2 life deleted old=A by=c3` + follows("1.10"),
		verdict.DeletedByOther, "n2", "of a failed attempt of c3", nil},
	{"one that was forgotten before that", ahead8 + `
1.020 nemesis begin kill node=n2 step=1
1.050 nemesis end kill node=n2 step=1
1.045 n2 life lost old=A why=restart` + follows("1.10"),
		verdict.RestartedAndForgot, "n2", "", []int{1}},
	{"a client's clock that went wrong when the key had its time", ahead8 + `
1.000 nemesis begin clock-jump node=c1 step=3
1.001 nemesis info clock node=c1 local=998.001 wall
2.050 n2 life expired old=A local=1010.05` + follows("2.10"),
		verdict.ExpiredEarly, "n2", "c1's key on n2 got 2 s instead of 10 s, for n2's clock was 8 s ahead", []int{2}},
	{"a client's clock that was wrong until the key had its time", `
0.001 nemesis begin clock-jump node=c1 step=3
0.001 nemesis info clock node=c1 local=997.001 wall
1.000 nemesis end clock-jump node=c1 step=3
1.001 nemesis info clock node=c1 local=1001.001 wall` + ahead8 + `
2.050 n2 life expired old=A local=1010.05` + follows("2.10"),
		verdict.ClocksDisagree, "n2", "for c1's clock was 3 s behind and n2's clock was 8 s ahead", []int{2, 3}},

	{"what another clock of the client's shows says nothing of the one that it goes by", wins + ` local=5000.013
5.000 c1 invoke read local=1005 wall
5.001 c1 ok read local=1005.001 wall
10.050 n2 life expired old=A` + follows("10.10"),
		verdict.GivenShorter, "n2", "c1 claimed the lock until 30 s", nil},
	{"nor does the other say anything of the wall clock", wins + ` local=1000.013 wall
5.000 c1 invoke read local=25
5.001 c1 ok read local=25.001
10.050 n2 life expired old=A` + follows("10.10"),
		verdict.GivenShorter, "n2", "c1 claimed the lock until 30 s", nil},
	{"nor does a turn of it", wins + ` local=5000.013
5.000 nemesis begin clock-jump node=c1 step=3
5.001 nemesis info clock node=c1 local=997 wall
10.050 n2 life expired old=A` + follows("10.10"),
		verdict.GivenShorter, "n2", "c1 claimed the lock until 30 s", nil},
}

// What shows a loss is how the key that was the session's when the other came was put there and ended,
// and how the other's was put there.
func TestEventsThatShowALoss(t *testing.T) {
	for _, row := range []struct{ name, history, shows string }{
		{"a key that is gone", wins + `
1.050 n2 life deleted old=A by=c3` + follows("1.10"), "0.012 1.05 1.1"},
		{"a key that its client has changed before", wins + `
0.020 c1 invoke extend session=c1/1
0.021 n2 life changed value=A+1 old=A by=c1
0.022 c1 ok extend session=c1/1 until=31
1.050 n2 life deleted old=A+1 by=c3` + follows("1.10"), "0.021 1.05 1.1"},
		{"a key that both took for theirs, and that its client changed later", `
0.012 n1,n2 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30
1.100 n2 life expiry value=A old=A by=c2
1.100 n3 life set value=A by=c2
1.101 c2 ok acquire session=c2/1 token=A until=40
2.000 c1 invoke extend session=c1/1
2.001 n2 life changed value=A+1 old=A by=c1
2.002 c1 ok extend session=c1/1 until=31`, "0.012"},
	} {
		got := explained(t, row.history)
		var at []string
		for _, e := range got.Events {
			if e != nil {
				at = append(at, strings.TrimSuffix(facts.Seconds(e.T), " s"))
			}
		}
		slices.Sort(at)
		if shows := strings.Join(slices.Compact(at), " "); shows != row.shows {
			t.Errorf("%s (%s): what happened at %s shows it, want %s", row.name, got.Cause, shows, row.shows)
		}
	}
}
