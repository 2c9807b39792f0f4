package cause

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

const (
	// In each row, c1 holds the lock from 0.013 s on, and c2 gets it, too. n2 grants it to both.
	causePrelude = `
params clients=c1,c2,c3 nodes=n1,n2,n3 quorum=2 ttl=10s rate=0.01 epoch=1000
0.001 c3 invoke acquire session=c3/1
0.002 c3 ok acquire session=c3/1 token=C until=0.003
0.004 c3 invoke release session=c3/1
0.006 c3 info release session=c3/1
0.010 c1 invoke acquire session=c1/1
0.020 c2 invoke acquire session=c2/1`
	firstGrant = `
0.012 n1,n2 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30`
)

// secondGrant returns c2's grant by n2 and n3.
func secondGrant(at string) string {
	return "\n" + at + " n2,n3 life set value=B by=c2\n" + at + "1 c2 ok acquire session=c2/1 token=B until=40"
}

// causeRow is a history after the prelude, with the expected explanation.
type causeRow struct {
	name    string
	history string
	cause   string
	node    string
	text    string // part of the text
	steps   []int
}

// causeRows are the ways in which c1's key on the shared node can be lost.
var causeRows = []causeRow{
	{"fewer keys than a quorum", `
0.012 n1 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30` + secondGrant("1.10"),
		verdict.NeverSet, "", "c1 took the lock with 1 of 3 votes, but a quorum is 2", nil},
	{"a key set after the return is no vote", `
0.012 n1 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30
0.014 n2 life set value=A by=c1
0.900 n2 life deleted old=A by=c1` + secondGrant("1.10"),
		verdict.NeverSet, "", "", nil},
	{"another client's key is no vote", `
0.012 n1,n2 life set value=A by=c3
0.013 c1 ok acquire session=c1/1 token=A until=30` + secondGrant("1.10"),
		verdict.NeverSet, "", "c1 took the lock with 0 of 3 votes", nil},
	{"an earlier attempt's key is no vote", `
0.0105 n1,n2 life set value=A0 by=c1
0.0110 n1,n2 life deleted old=A0 by=c1
0.012 n1 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30` + secondGrant("1.10"),
		verdict.NeverSet, "", "", nil},
	{"a key of an earlier attempt with the same token is no vote", `
0.0106 c1-n2 ok set token=A sent=0.0102 applied=0.0104
0.0104 n2 life set value=A by=c1 sent=0.0102
0.0112 c1-n2 ok release token=A sent=0.0108 applied=0.0110
0.0110 n2 life deleted old=A by=c1 sent=0.0108 command=del script
0.0125 c1-n1,n3 ok set token=A sent=0.0120 applied=0.0122
0.0122 n1,n3 life set value=A by=c1 sent=0.0120
0.013 c1 ok acquire session=c1/1 token=A until=30
1.050 n3 life evicted old=A` + secondGrant("1.10"),
		verdict.Evicted, "n3", "", nil},
	{"without a token the last key on each node is the vote", `
0.012 n1,n2 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 until=30
1.040 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", nil},
	{"extending a key that it already has is a vote", `
0.005 n1,n2 life set value=A by=c1
0.012 n1,n2 life expiry value=A old=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30
1.040 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", nil},
	{"the vote of a node with missing reports", `
0.012 n1 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30
0.020 n2 life gap lo=0.009 hi=0.015` + secondGrant("1.10"),
		verdict.Unexplained, "n2", "reports from n2 may be missing", nil},

	{"a late release", firstGrant + `
1.000 nemesis begin delay node=c3-n2 step=4
1.090 c3-n2 ok release sent=1.010 applied=1.050
1.050 n2 life deleted old=A by=c3 sent=1.010 command=del` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "the release of session c3/1 without a token, sent on c3-n2 at 1.01 s, deleted c1's key on n2 at 1.05 s", []int{4}},
	{"the same token for all clients", firstGrant + `
1.051 c3-n2 ok release token=A sent=1.010 applied=1.050
1.050 n2 life deleted old=A by=c3 sent=1.010 command=del
1.100 n2,n3 life set value=A by=c2
1.101 c2 ok acquire session=c2/1 token=A until=30`,
		verdict.DeletedByOther, "n2", "the release of session c3/1 with token A", nil},
	{"a release of its own earlier attempt", firstGrant + `
1.051 c1-n2 info release token=A sent=0.009 applied=0 answered=0
1.050 n2 life deleted old=A by=c1 sent=0.009 command=del script` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "the release of an earlier attempt of c1 with token A, sent on c1-n2 at 0.009 s", nil},
	{"an inner release of its holder", firstGrant + `
0.020 c1 invoke extend session=c1/1 value=acquire
0.021 n1,n2 life changed value=A+1 old=A by=c1
0.022 c1 ok extend session=c1/1 value=acquire until=31
1.010 c1 invoke extend session=c1/1 value=release
1.051 c1-n2 ok release token=A sent=1.020 applied=1.050
1.050 n2 life deleted old=A+1 by=c1 sent=1.020 command=del script
1.052 c1 ok extend session=c1/1 value=release until=31` + secondGrant("1.10"),
		verdict.ReleasedEarly, "n2", "c1 had acquired the lock twice, and its first release, sent on c1-n2 at 1.02 s, deleted its key on n2 at 1.05 s", nil},
	{"a command that is no release", firstGrant + `
1.050 n2 life deleted old=A by=c3 sent=1.010 command=unlink` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "the UNLINK of a failed attempt of c3, sent on c3-n2 at 1.01 s", nil},
	{"an unknown client", firstGrant + `
1.050 n2 life deleted old=A by=10.0.0.9:4711 command=del` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "the DEL of 10.0.0.9:4711, which is not a client of this run, deleted c1's key", nil},
	{"lockpick itself", firstGrant + `
1.050 n2 life deleted old=A by=harness command=del` + secondGrant("1.10"),
		verdict.DeletedByHarness, "n2", "lockpick deleted c1's key", nil},
	{"flushed", firstGrant + `
1.050 n2 life flushed old=A by=c3 command=flushall` + secondGrant("1.10"),
		verdict.Flushed, "n2", "c3 flushed n2 at 1.05 s", nil},
	{"evicted", firstGrant + `
1.050 n2 life evicted old=A` + secondGrant("1.10"),
		verdict.Evicted, "n2", "n2 ran out of memory", nil},

	{"the client's clock is slow", `
0.011 c1 info client local=100.011` + firstGrant + ` local=100.013` + `
5.000 c1 invoke read local=103.500
5.001 c1 ok read local=103.501
10.050 n2 life expired old=A` + secondGrant("10.10"),
		verdict.ClientClock, "n2", "c1's clock fell behind", nil},
	{"the clock fell behind after the lease was extended", `
0.011 c1 info client local=100.011` + firstGrant + ` local=100.013
8.000 c1 invoke extend session=c1/1 local=108.000
8.001 n1 life expiry value=A old=A by=c1
8.003 c1 ok extend session=c1/1 until=35 local=108.003
31.000 c1 invoke read local=126.000
31.001 c1 ok read local=126.001
10.050 n2 life expired old=A` + secondGrant("32.10"),
		verdict.ClientClock, "n2", "c1's clock fell behind", nil},
	{"an acquire of unknown outcome, and an extension with a deadline", `
0.012 n1,n2 life set value=A by=c1
0.013 c1 info acquire session=c1/1 token=A
5.000 c1 invoke extend session=c1/1
5.001 n1 life expiry value=A old=A by=c1
5.003 c1 ok extend session=c1/1 until=14.9
10.050 n2 life expired old=A` + secondGrant("10.10"),
		verdict.GivenShorter, "n2", "c1 claimed the lock for longer", nil},
	{"a pause while the clock is read is not a slow clock", `
0.011 c1 info client local=100.011
0.0115 c1 info client local=107.011` + firstGrant + ` local=100.013
10.050 n2 life expired old=A` + secondGrant("10.10"),
		verdict.GivenShorter, "n2", "c1 claimed the lock until 30 s", nil},
	{"the TTL was sent in the wrong unit", `
0.012 n1,n2 life set value=A by=c1 ttl=0.01
0.013 c1 ok acquire session=c1/1 token=A until=9.9
0.050 n2 life expired old=A` + secondGrant("0.10"),
		verdict.GivenShorter, "n2", "c1's key on n2 lived for its 0.01 s, until 0.022 s, but c1 claimed the lock until 9.9 s", nil},
	{"a lock that notifies its holder late", `
0.012 n1,n2 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A
9.000 nemesis begin pause node=c1 step=3
10.050 n2 life expired old=A` + secondGrant("10.10") + `
14.000 nemesis end pause node=c1 step=3
14.001 c1 info lost session=c1/1`,
		verdict.NotifiedLate, "n2", "c1's key on n2 lived for its 10 s, until 10.012 s, and c1 was notified of its loss at 14.001 s", []int{3}},
	{"a lock that reports itself held after the deadline", `
0.012 n1,n2 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=9.9
9.000 nemesis begin pause node=c1 step=3
10.050 n2 life expired old=A` + secondGrant("10.10") + `
14.000 nemesis end pause node=c1 step=3
14.001 c1 invoke extend session=c1/1 value=check
14.001 c1 ok extend session=c1/1 value=check until=24`,
		verdict.NotifiedLate, "n2", "c1's key on n2 lived for its 10 s, until 10.012 s, but c1 checked its lock at 14.001 s, and the lock answered that it was held", []int{3}},
	{"an extension that did not reach n2", firstGrant + `
5.000 c1 invoke extend session=c1/1
5.001 n1 life expiry value=A old=A by=c1
5.003 c1 ok extend session=c1/1 until=14.9
10.050 n2 life expired old=A` + secondGrant("10.10"),
		verdict.GivenShorter, "n2", "c1 claimed the lock for longer", nil},
	{"the acquire returned after its key had expired", `
0.012 n1,n2 life set value=A by=c1
10.050 n2 life expired old=A` + secondGrant("10.10") + `
10.200 c1 ok acquire session=c1/1 token=A until=20`,
		verdict.GrantedLate, "n2", "its acquire did not return until 10.2 s, when c2 held the lock", nil},
	{"a later end of an expired key is no cause", firstGrant + `
10.020 nemesis begin kill node=n2 step=1
10.050 nemesis end kill node=n2 step=1
10.045 n2 life lost old=A why=restart` + secondGrant("10.10"),
		verdict.GivenShorter, "n2", "c1's key on n2 lived for its 10 s, until 10.012 s", nil},
	{"an earlier end is no cause if the key would have expired by then", firstGrant + `
1.050 n2 life deleted old=A by=c3` + secondGrant("10.10"),
		verdict.GivenShorter, "n2", "", nil},

	{"a kill", firstGrant + `
1.020 nemesis begin kill node=n2 step=1
1.050 nemesis end kill node=n2 step=1
1.045 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "n2 restarted and forgot c1's key", []int{1}},
	{"a shutdown", firstGrant + `
1.020 nemesis begin shutdown node=n2 step=1
1.050 nemesis end shutdown node=n2 step=1
1.045 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", []int{1}},
	{"a restart that nobody planned", firstGrant + `
1.045 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", nil},
	{"the restart that lost the key, of two", firstGrant + `
1.020 nemesis begin kill node=n2 step=1
1.030 nemesis end kill node=n2 step=1
1.025 n2 life kept value=A old=A why=restart ttl=8.98
1.040 nemesis begin power-loss node=n2 step=2
1.060 nemesis end power-loss node=n2 step=2
1.055 n2 life lost old=A why=restart` + secondGrant("1.10"),
		verdict.LostUnsynced, "n2", "n2 lost power before it had synced c1's key", []int{2}},
	{"an older value returned", firstGrant + `
1.020 nemesis begin power-loss node=n2 step=1
1.050 nemesis end power-loss node=n2 step=1
1.045 n2 life reverted value=Z old=A why=restart
1.060 n2 life deleted old=Z by=c3` + secondGrant("1.10"),
		verdict.LostUnsynced, "n2", "lost power before it had synced c1's key (an older value returned)", []int{1}},
	{"a failover", firstGrant + `
1.020 nemesis invoke failover node=n2 step=3
1.050 nemesis begin failover node=n2 step=3
1.045 n2 life lost old=A why=failover` + secondGrant("1.10"),
		verdict.FailedOver, "n2", "n2 failed over to a replica without c1's key", []int{3}},
	{"a restart that kept the key is no cause", firstGrant + `
1.020 nemesis begin kill node=n2 step=1
1.050 nemesis end kill node=n2 step=1
1.045 n2 life kept value=A old=A why=restart ttl=8.967
1.060 n2 life deleted old=A by=c3` + secondGrant("1.10"),
		verdict.DeletedByOther, "n2", "", nil},
	{"an extension that n2 applied and forgot", firstGrant + `
5.000 c1 invoke extend session=c1/1
5.001 n1,n2 life expiry value=A old=A by=c1
5.003 c1 ok extend session=c1/1 until=14.9
10.020 nemesis begin kill node=n2 step=1
10.050 nemesis end kill node=n2 step=1
10.045 n2 life lost old=A why=restart` + secondGrant("10.10"),
		verdict.RestartedAndForgot, "n2", "", []int{1}},
	{"another client had the key in between", firstGrant + `
1.045 n2 life lost old=A why=restart
1.060 n2 life set value=C by=c3
1.070 n2 life deleted old=C by=c3` + secondGrant("1.10"),
		verdict.RestartedAndForgot, "n2", "", nil},

	{"the node's clock jumped", firstGrant + `
0.500 nemesis begin clock-jump node=n2 step=2 cause=TIME is right
1.000 nemesis begin clock-jump node=n2 step=5
1.050 n2 life expired old=A local=1011.2` + secondGrant("1.10"),
		verdict.ExpiredEarly, "n2", "n2's clock gained 10.15 s, and c1's key was gone there by 1.05 s, before its TTL of 10 s had passed", []int{2, 5}},
	{"a clock set before the grant and set back after the end is no cause", `
0.005 nemesis begin clock-jump node=n2 step=1
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1 local=995.012
0.013 c1 ok acquire session=c1/1 token=A until=30
0.900 nemesis begin clock-jump node=n2 step=2
1.050 n2 life expired old=A local=1011.2
2.000 nemesis end clock-jump node=n2 step=1` + secondGrant("1.10"),
		verdict.ExpiredEarly, "n2", "", []int{2}},
	{"a clock that gained too little", firstGrant + `
1.000 nemesis begin clock-jump node=n2 step=5
1.050 n2 life expired old=A local=1003` + secondGrant("1.10"),
		verdict.Unexplained, "n2", "expired on n2 at 1.05 s, 8.962 s early, but the node's clock had gained only 1.95 s", nil},
	{"an expiry instant with a clock that is ahead", clockAhead8s + `
2.050 n2 life expired old=A local=1010.05` + secondGrant("2.10"),
		verdict.ClocksDisagree, "n2", "c1's key on n2 got 2 s instead of 10 s, because n2's clock was 8 s ahead", []int{2}},
	{"a short TTL with a clock that is ahead by far more", wrongClock("1030.012", "2") + `
2.050 n2 life expired old=A local=1032.05` + secondGrant("2.10"),
		verdict.GivenShorter, "n2", "lived for its 2 s, until 2.012 s, but c1 claimed the lock until 9.9 s", nil},
	{"an expiry instant with two wrong clocks", `
0.000 nemesis begin clock-jump node=n2 step=2
0.000 nemesis begin clock-jump node=c1 step=3
0.001 nemesis info clock node=c1 local=997.001 wall
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1 local=1005.012 ttl=2
0.013 c1 ok acquire session=c1/1 token=A until=9.9
2.050 n2 life expired old=A local=1007.05` + secondGrant("2.10"),
		verdict.ClocksDisagree, "n2", "because c1's clock was 3 s behind and n2's clock was 5 s ahead", []int{2, 3}},

	// A node counts whole milliseconds. A shorter time proves nothing.
	{"a claim that is less than a millisecond too long could have been in time", `
0.012 n1,n2 life set value=A by=c1
10.050 n2 life expired old=A` + secondGrant("10.10") + `
10.5 c1 ok acquire session=c1/1 token=A until=20.5005`,
		verdict.GrantedLate, "n2", "its acquire did not return until 10.5 s", nil},
	{"a clock that gained enough except for a part of a millisecond", firstGrant + `
1.000 nemesis begin clock-jump node=n2 step=5
1.050 n2 life expired old=A local=1010.0115` + secondGrant("1.10"),
		verdict.ExpiredEarly, "n2", "", []int{5}},
	{"a clock that is ahead by a part of a millisecond shortens no key", `
0.000 nemesis begin clock-jump node=n2 step=2
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1 local=1000.0127 ttl=9.9985
0.013 c1 ok acquire session=c1/1 token=A until=30
10.050 n2 life expired old=A` + secondGrant("10.10"),
		verdict.GivenShorter, "n2", "", nil},
	{"a key that lived too short and was replaced within a millisecond", clockAhead8s + `
2.0114 n2 life expired old=A local=1010.0114` + secondGrant("2.0115"),
		verdict.ClocksDisagree, "n2", "got 2 s instead of 10 s", []int{2}},
	{"a clock that lost less than a millisecond more than its bound", firstGrant + ` local=100.013` + `
5.000 c1 invoke read local=104.9497
5.001 c1 ok read local=104.9507
10.050 n2 life expired old=A` + secondGrant("10.10"),
		verdict.GivenShorter, "n2", "c1 claimed the lock until 30 s", nil},

	{"an unconditional set", firstGrant + `
1.050 n2 life changed value=D old=A by=c3 command=set
1.060 n2 life deleted old=D by=c3` + secondGrant("1.10"),
		verdict.Overwritten, "n2", "the SET of c3 overwrote c1's key on n2 at 1.05 s, which would have existed until 10.012 s", nil},
	{"an unconditional set of the second client", firstGrant + `
1.100 n2 life changed value=B old=A by=c2 command=set
1.100 n3 life set value=B by=c2
1.1001 c2 ok acquire session=c2/1 token=B until=40`,
		verdict.Overwritten, "n2", "the SET of c2", nil},

	{"a key that never ended", firstGrant + secondGrant("1.10"),
		verdict.Unexplained, "n2", "n2 granted both, and the record does not show how c1's key ended", nil},
	{"a key with the same token for both, which ended later", `
0.012 n1,n2 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30
1.100 n2 life expiry value=A old=A by=c2
1.100 n3 life set value=A by=c2
1.101 c2 ok acquire session=c2/1 token=A until=40
5.000 n2 life deleted old=A by=c3`,
		verdict.Unexplained, "n2", "the record does not show how c1's key ended", nil},
	{"an end that may be missing from the reports", firstGrant + `
1.050 n2 life gap lo=1.040 hi=1.060` + secondGrant("1.10"),
		verdict.Unexplained, "n2", "reports from that node may be missing", nil},
	{"the cause on most nodes comes first, then the others", `
0.012 n1,n2,n3 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30
1.010 n2,n3 life deleted old=A by=c3 command=del
1.045 n1 life lost old=A why=restart
1.100 n1,n2,n3 life set value=B by=c2
1.101 c2 ok acquire session=c2/1 token=B until=40`,
		verdict.DeletedByOther, "n2", "likewise on n3; n1 restarted and forgot c1's key", nil},
}

// explainHistory explains the overlap of c1/1 and c2/1. The order of the two sessions must not
// matter, unless both share one key.
func explainHistory(t *testing.T, text string) explanation {
	t.Helper()
	h, err := histories.Parse(causePrelude + text + "\n50 harness end run")
	if err != nil {
		t.Fatal(err)
	}
	r := facts.Read(h)
	if r.Defect != "" {
		t.Fatal(r.Defect)
	}
	a, b := r.SessionByName("c1/1"), r.SessionByName("c2/1")
	x, reversed := Explain(r, a, b), Explain(r, b, a)
	if sharesKey := func(l verdict.Loss) bool { return l.Events[0] == l.Events[1] }; !reflect.DeepEqual(x, reversed) && !slices.ContainsFunc(x.Losses, sharesKey) {
		t.Errorf("%+v\nand in the other order\n%+v", x, reversed)
	}
	return x
}

func TestCause(t *testing.T) {
	for _, row := range slices.Concat(causeRows, neighborRows) {
		t.Run(row.name, func(t *testing.T) {
			got := explainHistory(t, row.history)
			var steps []int
			for _, l := range got.Losses {
				if l.Node == row.node {
					steps = l.Steps
				}
			}
			if got.Cause != row.cause || got.Node != row.node || !strings.Contains(got.Text, row.text) || !slices.Equal(steps, row.steps) {
				t.Errorf("got %s %s %v %q\nwant %s %s %v %q", got.Cause, got.Node, steps, got.Text, row.cause, row.node, row.steps, row.text)
			}
		})
	}
}

// Each cause has a row, which shows that the decision table can produce it.
func TestEveryCauseHasTestRow(t *testing.T) {
	for _, cause := range causeOrder {
		found := false
		for _, row := range causeRows {
			found = found || row.cause == cause
		}
		if !found {
			t.Errorf("no row of the test has cause %s", cause)
		}
		if !slices.Contains(verdict.Causes(), cause) {
			t.Errorf("%s is not among Causes", cause)
		}
	}
}

// Without information about the nodes, an overlap has no cause: the answers that clients received
// do not determine it.
func TestNoCauseWithoutNodeReports(t *testing.T) {
	got := explainHistory(t, `
0.012 c1-n1,n2 ok set token=A
0.013 c1 ok acquire session=c1/1 token=A until=30
1.020 nemesis begin kill node=n2
1.050 nemesis end kill node=n2 cause=0 keys
1.100 c2-n2,n3 ok set token=B
1.101 c2 ok acquire session=c2/1 token=B until=40`)
	if got.Cause != verdict.Unexplained || got.Text != "the record contains no information about the nodes" {
		t.Errorf("%s: %s", got.Cause, got.Text)
	}
}

// Refused sets change neither the cause nor its text, whenever they occur.
func TestRefusedSetsChangeNothing(t *testing.T) {
	for _, row := range causeRows {
		want := explainHistory(t, row.history)
		for _, at := range []string{"0.0005", "0.0121", "0.030", "1.055", "1.2", "9"} {
			got := explainHistory(t, row.history+"\n"+at+" c3-n2 fail set token=X\n"+at+" c3-n3 fail set token=X cause=LOADING")
			if got.Cause != want.Cause || got.Text != want.Text {
				t.Errorf("%s: with a set refused at %s: %s %q, without it: %s %q", row.name, at, got.Cause, got.Text, want.Cause, want.Text)
			}
		}
	}
}

// SpareVotes is the number of votes that the second session did not need.
func TestSpareVotes(t *testing.T) {
	const lostKeys = `
0.012 n1,n2,n3 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=30
1.045 n1,n2,n3 life lost old=A why=restart`
	for nodes, want := range map[string]int{"n2,n3": 0, "n1,n2,n3": 1} {
		got := explainHistory(t, lostKeys+"\n1.100 "+nodes+" life set value=B by=c2\n1.101 c2 ok acquire session=c2/1 token=B until=40")
		if got.SpareVotes != want || len(got.Losses) != 2+want {
			t.Errorf("c2 set %s: %d spare votes, %d losses", nodes, got.SpareVotes, len(got.Losses))
		}
	}
}

// If a clock gained no more than the allowed drift, it is the cause only if the lock did allow for
// the drift, as measured by the lock's own clock.
func TestDriftAllowance(t *testing.T) {
	const driftingClock = `
0.012 n1 life set value=A by=c1
0.012 n2 life set value=A by=c1
0.013 c1 ok acquire session=c1/1 token=A until=UNTIL local=500.013
CLOCK
1.000 nemesis begin clock-jump node=n2 step=5
9.930 n2 life expired old=A local=LOCAL
9.931 n2,n3 life set value=B by=c2
9.932 c2 ok acquire session=c2/1 token=B until=40`
	for name, row := range map[string]struct{ until, local, clock, cause, text string }{
		"it claims the whole TTL": {"10.010", "1010.015", "", verdict.GivenShorter,
			"n2's clock gained 0.085 s, which is within the drift of 0.1 s that a lock must allow for, but c1 claimed the lock until 10.01 s, 0.096 s too long"},
		"it adds the drift":                       {"10.110", "1010.015", "", verdict.GivenShorter, "0.196 s too long"},
		"the clock gained more":                   {"10.010", "1010.050", "", verdict.ExpiredEarly, "n2's clock gained 0.12 s"},
		"it allows for the drift":                 {"9.910", "1010.050", "", verdict.ExpiredEarly, "n2's clock gained 0.12 s"},
		"it allows for it, but its clock is slow": {"9.911", "1010.015", "0.500 nemesis info clock node=c1 local=500.500 drift=-10000000", verdict.ExpiredEarly, "n2's clock gained 0.085 s"},
		"it is slow, and claims the whole TTL":    {"10.010", "1010.015", "0.500 nemesis info clock node=c1 local=500.500 drift=-10000000", verdict.GivenShorter, "that a lock must allow for"},
	} {
		text := strings.Replace(causePrelude, "rate=0.01", "rate=0.0005 drift=100ms", 1) +
			strings.NewReplacer("UNTIL", row.until, "LOCAL", row.local, "CLOCK", row.clock).Replace(driftingClock) + "\n50 harness end run"
		h, err := histories.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		r := facts.Read(h)
		if got := Explain(r, r.SessionByName("c1/1"), r.SessionByName("c2/1")); got.Cause != row.cause || !strings.Contains(got.Text, row.text) {
			t.Errorf("%s: %s: %s", name, got.Cause, got.Text)
		}
	}
}

// If a lease ended early, DescribeKeys says what happened to its keys.
func TestDescribeKeys(t *testing.T) {
	const release = "\n2.000 c1 invoke release session=c1/1\nENDS\n2.100 c1 fail release session=c1/1"
	const extension = "\n2.000 c1 invoke extend session=c1/1\nENDS\n2.100 c1 fail extend session=c1/1"
	for name, row := range map[string]struct{ call, ends, want string }{
		"its own release": {release, "2.050 n1,n2 life deleted old=A by=c1 sent=2.010", "its own release, called at 2 s, deleted the key on n1 and n2"},
		"an earlier release of its own": {"\n1.000 c1 invoke release session=c1/1\n1.5 c1 info release session=c1/1" + release,
			"1.900 n1,n2 life deleted old=A by=c1 sent=1.010", "its own release, called at 1 s, deleted the key on n1 and n2"},
		"the extension itself": {extension, "2.050 n1,n2 life deleted old=A by=c1 sent=2.010", "the extension itself deleted the key on n1 and n2"},
		"a late release":       {extension, "2.050 n1,n2 life deleted old=A by=c1 sent=0.008", "a late release of c1, sent at 0.008 s, deleted the key on n1 and n2"},
		"another client":       {release, "1.900 n1,n2 life deleted old=A by=c3 sent=1.010", "c3 deleted the key on n1 and n2"},
		"nothing":              {release, "", "the key still existed on n1 and n2"},
		"two different ends":   {release, "1.900 n1 life lost old=A why=restart\n1.9 n2 life evicted old=A", "the key was lost in a restart on n1; the key was evicted on n2"},
		"a wrong clock":        {release, "1.900 n1,n2 life expired old=A local=1012", "the key expired early on n1 and n2"},
		"after the answer":     {release + "\n2.200 n1,n2 life deleted old=A by=c3 sent=2.150", "", "the key still existed on n1 and n2"},
	} {
		h, err := histories.Parse(causePrelude + firstGrant + strings.Replace(row.call, "ENDS", row.ends, 1) + "\n50 harness end run")
		if err != nil {
			t.Fatal(err)
		}
		r := facts.Read(h)
		if r.Defect != "" {
			t.Fatal(name, r.Defect)
		}
		if got := DescribeKeys(r, r.SessionByName("c1/1"), 2e9, 2.1e9); got != row.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
