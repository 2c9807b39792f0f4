package cause

import (
	"slices"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/history/facts"
)

// In clockAhead8s, c1 is granted the lock while n2's clock is 8 s ahead, so c1's key lives there
// for only 2 s, until 2.012 s.
var clockAhead8s = wrongClock("1008.012", "2")

// wrongClock grants c1 the lock while n2's clock is wrong: at 0.012 s it shows local instead of
// 1000.012 s, and the key has ttl seconds left.
func wrongClock(local, ttl string) string {
	return `
0.000 nemesis begin clock-jump node=n2 step=2
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1 local=` + local + ` ttl=` + ttl + `
0.013 c1 ok acquire session=c1/1 token=A until=9.9`
}

// In acquiredTwice, c1 acquires the lock twice and releases it once, from 1.01 s to 1.052 s.
const acquiredTwice = firstGrant + `
0.020 c1 invoke extend session=c1/1 value=acquire
0.021 n1,n2 life changed value=A+1 old=A by=c1
0.022 c1 ok extend session=c1/1 value=acquire until=31
1.010 c1 invoke extend session=c1/1 value=release
1.052 c1 ok extend session=c1/1 value=release until=31`

// In each of neighborRows, a small change would lead to a different cause or to different steps.
var neighborRows = []causeRow{
	{"a key that was set before the acquire was called is no vote", `
0.005 n2 life set value=A by=c1
0.012 n1 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30
1.040 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.NeverSet, "", "c1 took the lock with 1 of 3 votes", nil},
	{"a key that may have been set during the acquire, by its timestamp error", `
0.0095 n2 life set value=A by=c1 lo=0.009 hi=0.011
0.012 n1 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30
1.040 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", nil},
	{"a key that may have been set before the return, by its timestamp error", `
0.012 n1 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30
0.0135 n2 life set value=A by=c1 lo=0.0125 hi=0.014
1.040 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", nil},

	{"a value with its token that another client sets is not its own", firstGrant + `
1.050 n2 life changed value=A+1 old=A by=c3 command=set
1.060 n2 life deleted old=A+1 by=c1` + secondGrant("1.10"),
		verdict.Overwritten, "n2", "the SET of c3 overwrote c1's key on n2 at 1.05 s", nil},
	{"a value without its token that its client sets is not its own", firstGrant + `
1.050 n2 life changed value=D old=A by=c1 command=set
1.060 n2 life deleted old=D by=c3` + secondGrant("1.10"),
		verdict.Overwritten, "n2", "the SET of c1 overwrote c1's key on n2 at 1.05 s", nil},
	{"a value that its client sets after the key was lost is not its own", firstGrant + `
1.045 n2 life lost old=A why=restart
1.050 n2 life set value=A by=c1
1.060 n2 life deleted old=A by=c3` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", nil},
	{"without a token no other value is its own", `
0.012 n1,n2 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 until=30
1.050 n2 life changed value=D old=A by=c1 command=set
1.060 n2 life deleted old=D by=c3` + secondGrant("1.10"),
		verdict.Overwritten, "n2", "the SET of c1 overwrote c1's key on n2 at 1.05 s", nil},

	{"another client's release during an inner release of the holder", acquiredTwice + `
1.051 c3-n2 ok release token=A sent=1.020 applied=1.050
1.050 n2 life deleted old=A+1 by=c3 sent=1.020 command=del script` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "the release of session c3/1 with token A, sent on c3-n2 at 1.02 s", nil},
	{"a release of the holder before an inner release", acquiredTwice + `
1.051 c1-n2 ok release token=A sent=1.009 applied=1.050
1.050 n2 life deleted old=A+1 by=c1 sent=1.009 command=del script` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "the release of a failed attempt of c1 with token A, sent on c1-n2 at 1.009 s", nil},
	{"a release of the holder after an inner release", acquiredTwice + `
1.081 c1-n2 ok release token=A sent=1.053 applied=1.080
1.080 n2 life deleted old=A+1 by=c1 sent=1.053 command=del script` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "the release of a failed attempt of c1 with token A, sent on c1-n2 at 1.053 s", nil},
	{"a release of the holder during an extension", firstGrant + `
1.010 c1 invoke extend session=c1/1
1.052 c1 ok extend session=c1/1 until=31
1.051 c1-n2 ok release token=A sent=1.020 applied=1.050
1.050 n2 life deleted old=A by=c1 sent=1.020 command=del script` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "the release of a failed attempt of c1 with token A", nil},
	{"another client's release sent before the acquire returned", firstGrant + `
1.051 c3-n2 ok release sent=0.005 applied=1.050
1.050 n2 life deleted old=A by=c3 sent=0.005 command=del` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "the release of session c3/1 without a token", nil},
	{"a release sent after the release of another lock's session", firstGrant + `
1.001 c3 invoke acquire session=c3/2 key=lock-2
1.002 c3 ok acquire session=c3/2 key=lock-2
1.003 c3 invoke release session=c3/2 key=lock-2
1.051 c3-n2 ok release sent=1.010 applied=1.050
1.050 n2 life deleted old=A by=c3 sent=1.010 command=del` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "the release of session c3/1 without a token", nil},
	{"a release sent before the release of the client's next session", firstGrant + `
1.011 c3 invoke acquire session=c3/2
1.012 c3 info acquire session=c3/2
1.013 c3 invoke release session=c3/2
1.014 c3 info release session=c3/2
1.051 c3-n2 ok release sent=1.010 applied=1.050
1.050 n2 life deleted old=A by=c3 sent=1.010 command=del` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "the release of session c3/1 without a token", nil},
	{"a release sent after the release of the client's next session", firstGrant + `
1.001 c3 invoke acquire session=c3/2
1.002 c3 info acquire session=c3/2
1.003 c3 invoke release session=c3/2
1.014 c3 info release session=c3/2
1.051 c3-n2 ok release sent=1.010 applied=1.050
1.050 n2 life deleted old=A by=c3 sent=1.010 command=del` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "the release of session c3/2 without a token", nil},
	{"the faults on a link that were active while the release was in flight", firstGrant + `
0.900 nemesis begin delay node=c3-n2 step=3
0.950 nemesis end delay node=c3-n2 step=3
1.000 nemesis begin delay node=c3-n2 step=4
1.090 nemesis end delay node=c3-n2 step=4
1.060 nemesis begin pause node=n2 step=5
1.070 nemesis end pause node=n2 step=5
1.020 nemesis begin pause node=c3 step=6
1.030 nemesis end pause node=c3 step=6
1.020 nemesis begin pause node=n2 step=7
1.030 nemesis end pause node=n2 step=7
1.000 nemesis begin delay node=c1-n2 step=8
1.000 nemesis begin delay node=c3-n1 step=9
1.020 nemesis invoke delay node=c3-n2 step=10
1.090 c3-n2 ok release sent=1.010 applied=1.050
1.050 n2 life deleted old=A by=c3 sent=1.010 command=del` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "", []int{4, 6, 7}},
	{"the pauses of a client between the key's expiry and the loss notification", `
0.012 n1,n2 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A
5.000 nemesis begin pause node=c1 step=3
6.000 nemesis end pause node=c1 step=3
9.000 nemesis begin pause node=c1 step=4
10.050 n2 life expired old=A` + secondGrant("10.10") + `
14.000 nemesis end pause node=c1 step=4
14.001 c1 info lost session=c1/1
15.000 nemesis begin pause node=c1 step=5`,
		verdict.NotifiedLate, "n2", "", []int{4}},

	{"an unplanned restart before a planned one", firstGrant + `
1.045 n2 life lost old=A why=restart
1.070 nemesis begin kill node=n2 step=1
1.080 nemesis end kill node=n2 step=1` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", nil},
	{"an unplanned kill", firstGrant + `
1.020 nemesis begin kill node=n2
1.050 nemesis end kill node=n2
1.045 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", nil},
	{"a failed power loss", firstGrant + `
1.020 nemesis invoke power-loss node=n2 step=1
1.050 nemesis fail power-loss node=n2 step=1
1.045 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", nil},
	{"a kill and another node's power loss", firstGrant + `
1.020 nemesis begin kill node=n2 step=1
1.030 nemesis begin power-loss node=n1 step=2
1.050 nemesis end kill node=n2 step=1
1.045 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", []int{1}},
	{"a kill, and then a failover that lost nothing", firstGrant + `
1.020 nemesis begin kill node=n2 step=1
1.040 nemesis begin failover node=n2 step=2
1.045 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", []int{1}},
	{"a failover, and then a kill that lost nothing", firstGrant + `
1.020 nemesis begin failover node=n2 step=1
1.040 nemesis begin kill node=n2 step=2
1.045 n2 life lost old=A why=failover` + secondGrant("1.10"),
		verdict.FailedOver, "n2", "", []int{1}},
	{"a kill before a power loss", firstGrant + `
1.020 nemesis begin kill node=n2 step=1
1.050 nemesis end kill node=n2 step=1
1.045 n2 life lost old=A why=restart
1.070 nemesis begin power-loss node=n2 step=2
1.080 nemesis end power-loss node=n2 step=2` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", []int{1}},
	{"a power loss of nodes without persistence", `
params persistence=none` + firstGrant + `
1.020 nemesis begin power-loss node=n2 step=1
1.050 nemesis end power-loss node=n2 step=1
1.045 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "n2 restarted and forgot c1's key", []int{1}},
	{"a power loss of nodes with persistence", `
params persistence=always` + firstGrant + `
1.020 nemesis begin power-loss node=n2 step=1
1.050 nemesis end power-loss node=n2 step=1
1.045 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.LostUnsynced, "n2", "", []int{1}},

	{"the node's clock jumped, and jumped again after the key was gone", firstGrant + `
1.000 nemesis begin clock-jump node=n2 step=5
1.050 n2 life expired old=A local=1011.2
1.060 nemesis begin clock-jump node=n2 step=6` + secondGrant("1.10"),
		verdict.ExpiredEarly, "n2", "", []int{5}},
	{"the node's clock jumped, and was set back", firstGrant + `
1.000 nemesis begin clock-jump node=n2 step=5
1.040 nemesis end clock-jump node=n2 step=5
1.050 n2 life expired old=A local=1011.2` + secondGrant("1.10"),
		verdict.ExpiredEarly, "n2", "", []int{5}},
	{"a clock that was set back before the key was set, and right again after", `
0.005 nemesis begin clock-jump node=n2 step=5
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1 local=991.012
0.013 c1 ok acquire session=c1/1 token=A until=30
1.000 nemesis end clock-jump node=n2 step=5
1.050 n2 life expired old=A` + secondGrant("1.10"),
		verdict.ExpiredEarly, "n2", "n2's clock gained 9 s", []int{5}},
	{"the node's clock ran fast from before the key was set", `
0.005 nemesis begin clock-rate node=n2 step=5` + firstGrant + `
1.050 n2 life expired old=A local=1011.2` + secondGrant("1.10"),
		verdict.ExpiredEarly, "n2", "", []int{5}},
	{"a jump that was injected before the key was set", `
0.011 nemesis invoke clock-jump node=n2 step=5` + firstGrant + `
1.000 nemesis begin clock-jump node=n2 step=5
1.050 n2 life expired old=A local=1011.2` + secondGrant("1.10"),
		verdict.ExpiredEarly, "n2", "", []int{5}},
	{"a key that expired early by no more than the timestamp error", firstGrant + `
9.900 n2 life expired old=A lo=9.78 hi=9.95` + secondGrant("9.95"),
		verdict.ExpiredEarly, "n2", "", nil},
	{"a key that expired early by no more than the timestamp error of its set", `
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1 lo=0.01 hi=0.132
0.013 c1 ok acquire session=c1/1 token=A until=30
9.900 n2 life expired old=A` + secondGrant("9.95"),
		verdict.ExpiredEarly, "n2", "", nil},
	{"a key that expired early by more than either timestamp error", firstGrant + `
9.900 n2 life expired old=A lo=9.8 hi=9.95` + secondGrant("9.95"),
		verdict.Unexplained, "n2", "0.112 s early, but the node's clock had gained only 0 s", nil},
	{"a key that may have been replaced after its expiry, by the timestamp error", firstGrant + `
10.0090 n2 life expired old=A
10.0101 n2,n3 life set value=B by=c2 lo=10.005 hi=10.0121
10.0111 c2 ok acquire session=c2/1 token=B until=40`,
		verdict.GivenShorter, "n2", "c1 claimed the lock until 30 s", nil},
	{"a loss notification after the claim was over", `
0.012 n1,n2 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=15
10.050 n2 life expired old=A` + secondGrant("10.10") + `
20 c1 info lost session=c1/1`,
		verdict.GivenShorter, "n2", "c1 claimed the lock until 15 s", nil},
	{"an expiry instant with a clock that is slightly ahead", wrongClock("1002.012", "8") + `
8.050 n2 life expired old=A local=1010.05` + secondGrant("8.10"),
		verdict.ClocksDisagree, "n2", "c1's key on n2 got 8 s instead of 10 s, because n2's clock was 2 s ahead", []int{2}},
	{"an expiry instant in the past by a clock that is far ahead", `
0.000 nemesis begin clock-jump node=n2 step=2
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1 local=1012.012 ttl=-2
0.0121 n2 life expired old=A local=1012.0121
0.013 c1 ok acquire session=c1/1 token=A until=9.9` + secondGrant("0.10"),
		verdict.ClocksDisagree, "n2", "c1's key on n2 had expired when it was set, because n2's clock was 12 s ahead", []int{2}},
	{"an expiry instant that is now by a clock that is far ahead", wrongClock("1010.012", "0") + `
0.0131 n2 life expired old=A local=1010.0131` + secondGrant("2.10"),
		verdict.ClocksDisagree, "n2", "c1's key on n2 had expired when it was set", []int{2}},
	{"a key that lived too short, half of it because of a clock that is ahead", wrongClock("1004.012", "2") + `
2.050 n2 life expired old=A local=1006.05` + secondGrant("2.10"),
		verdict.ClocksDisagree, "n2", "got 2 s instead of 10 s, because n2's clock was 4 s ahead", []int{2}},
	{"a key that lived too short, less than half of it because of a clock", wrongClock("1003.912", "2") + `
2.050 n2 life expired old=A local=1005.95` + secondGrant("2.10"),
		verdict.GivenShorter, "n2", "c1's key on n2 lived for its 2 s, until 2.012 s", nil},
	{"a key that lived too short because of both clocks", `
0.000 nemesis begin clock-jump node=n2 step=2
0.000 nemesis begin clock-jump node=c1 step=3
0.001 nemesis info clock node=c1 local=995.001 wall
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1 local=1003.012 ttl=2
0.013 c1 ok acquire session=c1/1 token=A until=9.9
2.050 n2 life expired old=A local=1005.05` + secondGrant("2.10"),
		verdict.ClocksDisagree, "n2", "because c1's clock was 5 s behind and n2's clock was 3 s ahead", []int{2, 3}},
	{"a key that lived too short because of the client's clock", `
0.000 nemesis begin clock-jump node=c1 step=3
0.001 nemesis info clock node=c1 local=992.001 wall
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1 local=1000.012 ttl=2
0.013 c1 ok acquire session=c1/1 token=A until=9.9
2.050 n2 life expired old=A` + secondGrant("2.10"),
		verdict.ClocksDisagree, "n2", "got 2 s instead of 10 s, because c1's clock was 8 s behind", []int{3}},
	{"a key that lived too short with both clocks equally ahead", `
0.000 nemesis begin clock-jump node=n2 step=2
0.000 nemesis begin clock-jump node=c1 step=3
0.001 nemesis info clock node=c1 local=1008.001 wall
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1 local=1008.012 ttl=2
0.013 c1 ok acquire session=c1/1 token=A until=9.9
2.050 n2 life expired old=A local=1010.05` + secondGrant("2.10"),
		verdict.GivenShorter, "n2", "c1's key on n2 lived for its 2 s", nil},
	{"a key that lived too short without a known true time", `
params epoch=0
0.000 nemesis begin clock-jump node=n2 step=2
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1 local=8.012 ttl=2
0.013 c1 ok acquire session=c1/1 token=A until=9.9
2.050 n2 life expired old=A local=10.05` + secondGrant("2.10"),
		verdict.GivenShorter, "n2", "c1's key on n2 lived for its 2 s", nil},
	{"a key that lived too short, and an extension that did not reach n2", clockAhead8s + `
1.000 c1 invoke extend session=c1/1
1.001 n1 life expiry value=A old=A by=c1
1.003 c1 ok extend session=c1/1 until=10.9
2.050 n2 life expired old=A local=1010.05` + secondGrant("2.10"),
		verdict.GivenShorter, "n2", "c1 claimed the lock for longer", nil},
	{"a key that lived too short and was deleted before its expiry", clockAhead8s + `
1.050 n2 life deleted old=A by=c3` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "of a failed attempt of c3", nil},
	{"a key that lived too short and was forgotten before its expiry", clockAhead8s + `
1.020 nemesis begin kill node=n2 step=1
1.050 nemesis end kill node=n2 step=1
1.045 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", []int{1}},
	{"a client's clock that went wrong after the key got its expiry", clockAhead8s + `
1.000 nemesis begin clock-jump node=c1 step=3
1.001 nemesis info clock node=c1 local=998.001 wall
2.050 n2 life expired old=A local=1010.05` + secondGrant("2.10"),
		verdict.ClocksDisagree, "n2", "c1's key on n2 got 2 s instead of 10 s, because n2's clock was 8 s ahead", []int{2}},
	{"a client's clock that was wrong until the key got its expiry", `
0.001 nemesis begin clock-jump node=c1 step=3
0.001 nemesis info clock node=c1 local=997.001 wall
1.000 nemesis end clock-jump node=c1 step=3
1.001 nemesis info clock node=c1 local=1001.001 wall` + clockAhead8s + `
2.050 n2 life expired old=A local=1010.05` + secondGrant("2.10"),
		verdict.ClocksDisagree, "n2", "because c1's clock was 3 s behind and n2's clock was 8 s ahead", []int{2, 3}},

	{"readings of the client's wall clock do not count for its monotonic clock", firstGrant + ` local=5000.013
5.000 c1 invoke read local=1005 wall
5.001 c1 ok read local=1005.001 wall
10.050 n2 life expired old=A` + secondGrant("10.10"),
		verdict.GivenShorter, "n2", "c1 claimed the lock until 30 s", nil},
	{"readings of the monotonic clock do not count for the wall clock", firstGrant + ` local=1000.013 wall
5.000 c1 invoke read local=25
5.001 c1 ok read local=25.001
10.050 n2 life expired old=A` + secondGrant("10.10"),
		verdict.GivenShorter, "n2", "c1 claimed the lock until 30 s", nil},
	{"changes of the wall clock do not count for the monotonic clock", firstGrant + ` local=5000.013
5.000 nemesis begin clock-jump node=c1 step=3
5.001 nemesis info clock node=c1 local=997 wall
10.050 n2 life expired old=A` + secondGrant("10.10"),
		verdict.GivenShorter, "n2", "c1 claimed the lock until 30 s", nil},
	{"a client's clock that was slow for a moment", `
0.500 nemesis info clock node=c1 local=100.500 drift=-500000000
0.510 nemesis info clock node=c1 local=100.505` + firstGrant + ` local=100.013
10.050 n2 life expired old=A` + secondGrant("10.10"),
		verdict.GivenShorter, "n2", "c1 claimed the lock until", nil},
	{"a client's clock that was right for a moment and then slow", `
0.500 nemesis info clock node=c1 local=100.500
0.510 nemesis info clock node=c1 local=100.510 drift=-500000000` + firstGrant + ` local=100.013
10.050 n2 life expired old=A` + secondGrant("10.10"),
		verdict.ClientClock, "n2", "c1's clock fell behind", nil},
	{"a client's clock set back before the acquire", `
0.001 nemesis info clock node=c1 local=100.001
0.005 nemesis info clock node=c1 local=95.005` + firstGrant + ` local=95.013
10.050 n2 life expired old=A` + secondGrant("10.10"),
		verdict.GivenShorter, "n2", "c1 claimed the lock until", nil},
	{"a client's clock set forward before the acquire, and back by less after the grant", `
0.001 nemesis info clock node=c1 local=100.001
0.005 nemesis info clock node=c1 local=105.005` + firstGrant + ` local=105.013
5.000 nemesis info clock node=c1 local=107.000
10.050 n2 life expired old=A` + secondGrant("10.10"),
		verdict.ClientClock, "n2", "c1's clock fell behind", nil},
	{"the last of two answers that the lock is held", `
0.012 n1,n2 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=9.9
10.050 n2 life expired old=A` + secondGrant("10.10") + `
14.001 c1 invoke extend session=c1/1 value=check
14.001 c1 ok extend session=c1/1 value=check until=24
15.001 c1 invoke extend session=c1/1 value=check
15.001 c1 ok extend session=c1/1 value=check until=25`,
		verdict.NotifiedLate, "n2", "c1 checked its lock at 15.001 s, and the lock answered that it was held", nil},
	{"a fault that ends as a release is sent, and one that is injected as it arrives", firstGrant + `
1.000 nemesis begin delay node=c3-n2 step=4
1.010 nemesis end delay node=c3-n2 step=4
1.050 nemesis invoke delay node=c3-n2 step=5
1.060 nemesis begin delay node=c3-n2 step=5
1.090 c3-n2 ok release sent=1.010 applied=1.050
1.050 n2 life deleted old=A by=c3 sent=1.010 command=del` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "", []int{4, 5}},
	{"a step that occurs twice while a release is in flight", firstGrant + `
1.000 nemesis begin delay node=c3-n2 step=4
1.020 nemesis end delay node=c3-n2 step=4
1.030 nemesis begin delay node=c3-n2 step=4
1.090 c3-n2 ok release sent=1.010 applied=1.050
1.050 n2 life deleted old=A by=c3 sent=1.010 command=del` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "", []int{4}},
}

// The evidence for a loss shows how the session's last key was set and how it ended, and how the
// other session's key was set.
func TestEventsOfLoss(t *testing.T) {
	for _, row := range []struct{ name, history, shows string }{
		{"a deleted key", firstGrant + `
1.050 n2 life deleted old=A by=c3` + secondGrant("1.10"), "0.012 1.05 1.1"},
		{"a gap in the reports before the end", firstGrant + `
1.020 n2 life gap lo=1.01 hi=1.03
1.050 n2 life deleted old=A by=c3` + secondGrant("1.10"), "0.012 1.05 1.1"},
		{"a step that sets another node's clock, too", firstGrant + `
1.000 nemesis begin clock-jump node=n2 step=5
1.001 nemesis begin clock-jump node=n1 step=5
1.050 n2 life expired old=A local=1011.2` + secondGrant("1.10"), "0.012 1 1.05 1.1"},
		{"a key that its client changed before", firstGrant + `
0.020 c1 invoke extend session=c1/1
0.021 n2 life changed value=A+1 old=A by=c1
0.022 c1 ok extend session=c1/1 until=31
1.050 n2 life deleted old=A+1 by=c3` + secondGrant("1.10"), "0.021 1.05 1.1"},
		{"a key with the same token for both, which its client changed later", `
0.012 n1,n2 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30
1.100 n2 life expiry value=A old=A by=c2
1.100 n3 life set value=A by=c2
1.101 c2 ok acquire session=c2/1 token=A until=40
2.000 c1 invoke extend session=c1/1
2.001 n2 life changed value=A+1 old=A by=c1
2.002 c1 ok extend session=c1/1 until=31`, "0.012"},
	} {
		got := explainHistory(t, row.history)
		var at []string
		for _, e := range got.Events {
			if e != nil {
				at = append(at, strings.TrimSuffix(facts.Seconds(e.T), " s"))
			}
		}
		slices.Sort(at)
		if times := strings.Join(slices.Compact(at), " "); times != row.shows {
			t.Errorf("%s (%s): evidence at %s, want %s", row.name, got.Cause, times, row.shows)
		}
	}
}
