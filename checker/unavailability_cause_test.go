package checker

import (
	"strings"
	"testing"

	"lockpick/checker/verdict"
)

// sought is a free lock of which nobody gets a majority. c1 and c2 ask again and again.
const sought = `params clients=c1,c2 nodes=n1,n2,n3 quorum=2 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rate=0.01 rounds=10 mayBeIdle
0      harness begin run
0.001  c1 begin client
0.001  c2 begin client
0.010  c1 invoke acquire session=c1/1
0.010  c2 invoke acquire session=c2/1
`

// itsOwn is an acquire whose rounds have one token, and whose first left its keys.
const itsOwn = `
0.500  c2-n2,n3 ok set token=B
0.499  n2,n3 life set value=B by=c2
0.500  c2-n1 fail set token=B
1      c2-n1 ok set token=B
0.999  n1 life set value=B by=c2
1.009  n1 life deleted old=B by=c2
1      c2-n2,n3 fail set token=B
1.010  c2-n1 ok release token=B
2      c2-n1 ok set token=B
1.999  n1 life set value=B by=c2
2.009  n1 life deleted old=B by=c2
2      c2-n2,n3 fail set token=B
2.010  c2-n1 ok release token=B
`

// An unavailability is told by what most of its attempts met, as the nodes tell it.
func TestWhyNobody(t *testing.T) {
	for name, row := range map[string]struct{ wire, want string }{
		"no record of the nodes": {"", verdict.Unexplained},
		"the links' word alone": {`
1      c1-n1 ok set token=A1
1.001  c1-n2,n3 fail set token=A1
`, verdict.Unexplained},
		"keys that an attempt left which is over": {`
0.500  c2-n2,n3 ok set token=Z
0.499  n2,n3 life set value=Z by=c2
0.900  c2-n1 fail set token=Y
1      c1-n1 ok set token=A1
0.999  n1 life set value=A1 by=c1
1.001  c1-n2,n3 fail set token=A1
1.009  n1 life deleted old=A1 by=c1
1.010  c1-n1 ok release token=A1
`, verdict.LeftKeys},
		"keys that it left itself, by the same token": {itsOwn, verdict.LeftKeys},
		"a node that is down, and a key that was left on another": {`
0.5    nemesis begin kill node=n3
0.999  n2 life set value=Z by=c2
1      c1-n1 ok set token=A1
0.999  n1 life set value=A1 by=c1
1.009  n1 life deleted old=A1 by=c1
1.010  c1-n1 ok release token=A1
8      nemesis end kill node=n3
`, verdict.NoMajority},
		"one vote each": {`
0.999  n1 life set value=A1 by=c1
0.999  n2 life set value=B1 by=c2
1.009  n1 life deleted old=A1 by=c1
1.009  n2 life deleted old=B1 by=c2
1      c1-n1 ok set token=A1
1      c2-n2 ok set token=B1
1.001  c1-n2,n3 fail set token=A1
1.001  c2-n1,n3 fail set token=B1
1.010  c1-n1 ok release token=A1
1.010  c2-n2 ok release token=B1
`, verdict.SplitVote},
		"refused without a key": {`
0.999  n1 life set value=A1 by=c1
1.009  n1 life deleted old=A1 by=c1
1.999  n1 life set value=B1 by=c2
2.009  n1 life deleted old=B1 by=c2
1      c1-n1 ok set token=A1
1.001  c1-n2,n3 fail set token=A1
1.010  c1-n1 ok release token=A1
2      c2-n1 ok set token=B1
2.001  c2-n2,n3 fail set token=B1
2.010  c2-n1 ok release token=B1
`, verdict.TurnedAway},
	} {
		whyNobody(t, name, row.wire, row.want)
	}
}

// whyNobody asks for the cause where the free lock that is sought goes to nobody.
func whyNobody(t *testing.T, name, wire, want string) {
	t.Helper()
	v := Check(tale(t, sought+wire+"9 c1 fail acquire session=c1/1\n9 c2 fail acquire session=c2/1\n9 c1 end client\n9 c2 end client\n9.1 harness end run cause=completed"))
	for _, res := range v.Results {
		if res.Property == verdict.FaultTolerance && (res.Outcome != verdict.Violated || res.Cause != want) {
			t.Errorf("%s: %s (%s), want violated (%s): %s", name, res.Outcome, res.Cause, want, res.Because)
		}
	}
}

// An attempt that lasts is told by the nodes that gave it no answer, where it is known how long it did.
func TestWhyNobodyWhereAttemptsLast(t *testing.T) {
	for name, row := range map[string]struct{ wire, want string }{
		"an attempt that waits on and on for nodes that give no answer": {`
1      c1-n1 ok set token=A1 sent=0.999 applied=0.9995 answered=1
0.9995 n1 life set value=A1 by=c1
1      c1-n2 info set token=A1 sent=0.999 applied=8.5 answered=0
1      c1-n3 info set token=A1 sent=0.999 applied=8.5 answered=0
7.010  c1-n1 ok release token=A1 sent=7.009 applied=7.0095 answered=7.010
7.0095 n1 life deleted old=A1 by=c1
`, verdict.WaitedLong},
		"one that waits for them only when it is undone": {`
1      c1-n1 ok set token=A1
0.999  n1 life set value=A1 by=c1
1      c1-n2,n3 fail set token=A1
1.010  c1-n1 ok release token=A1
1.009  n1 life deleted old=A1 by=c1
1      c1-n2,n3 info release token=A1 sent=1.008 applied=8.5 answered=0
`, verdict.WaitedLong},
		"one whose requests are lost, and that nobody saw undone when the next came": {`
1      c1-n1,n2,n3 info set token=A1 sent=0.998 applied=8.5 answered=0
7.500  c1-n1 ok set token=A2
7.499 n1 life set value=A2 by=c1
7.509 n1 life deleted old=A2 by=c1
7.500  c1-n2,n3 fail set token=A2
7.510  c1-n1 ok release token=A2
`, verdict.WaitedLong},
		"several of that sort, soon after each other": {`
1      c1-n1,n2,n3 info set token=A1 sent=0.998 applied=8.5 answered=0
1.200  c1-n1,n2,n3 info set token=A2 sent=1.198 applied=8.5 answered=0
1.400  c1-n1 ok set token=A3
1.399 n1 life set value=A3 by=c1
1.409 n1 life deleted old=A3 by=c1
1.400  c1-n2,n3 fail set token=A3
1.410  c1-n1 ok release token=A3
`, verdict.TooFewVotes},
		"the same, undone after the node time-out": {`
1      c1-n1 ok set token=A1
0.999  n1 life set value=A1 by=c1
1      c1-n2,n3 info set token=A1 sent=0.998 applied=8.5 answered=0
1.110  c1-n1 ok release token=A1
1.109  n1 life deleted old=A1 by=c1
`, verdict.TooFewVotes},
	} {
		whyNobody(t, name, row.wire, row.want)
	}
}

// A key that its holder's release has left is told of as that, also where it takes a node
// that is down to keep others from a majority.
func TestWhyNobodyAfterARelease(t *testing.T) {
	told := change{"c1 ok release", "c1 ok release", "c1 info release"}
	for name, changes := range map[string][]change{
		"a release that was answered": nil, "one that was not": {told}, "one that is under way": {without("c1 ok release")},
	} {
		got := judge(newRecord(tale(t, neighbour(t, "release-to-a-quorum", changes))), verdict.FaultTolerance)
		if got.Cause != verdict.LeftKeys || !strings.HasSuffix(got.Because, "could not ask n1, and met keys on n3 that c1's release at 1 s had left there") {
			t.Errorf("%s: %s: %s", name, got.Cause, got.Because)
		}
	}
}

// A key that was set when its client had got the lock by another token belongs to no hold: an
// attempt that was given up has left it.
func TestWhyNobodyAfterAStraySet(t *testing.T) {
	const held = `params clients=c1,c2 nodes=n1,n2,n3 quorum=2 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rate=0.01 rounds=10 mayBeIdle
0      harness begin run
0.001  c1 begin client
0.001  c2 begin client
0.010  c1 invoke acquire session=c1/1
0.050  c1-n1,n2 info set token=A sent=0.011 applied=50 answered=0
0.300  c1-n1,n2,n3 ok set token=B
0.299  n1,n2,n3 life set value=B by=c1
0.310  c1 ok acquire session=c1/1 token=B until=10
0.320  c1 invoke release session=c1/1
0.325  c1-n1,n2,n3 ok release token=B
0.324  n1,n2,n3 life deleted old=B by=c1
0.330  c1 ok release session=c1/1
0.400  c1-n1,n2 ok set token=A
0.399  n1,n2 life set value=A by=c1
1      c2 invoke acquire session=c2/1
1.050  c2-n3 ok set token=C
1.049  n3 life set value=C by=c2
1.050  c2-n1,n2 fail set token=C
1.060  c2-n3 ok release token=C
1.059  n3 life deleted old=C by=c2
9      c2 fail acquire session=c2/1
9      c1 end client
9      c2 end client
9.1    harness end run cause=completed`
	got := judge(newRecord(tale(t, held)), verdict.FaultTolerance)
	if got.Cause != verdict.LeftKeys || !strings.HasSuffix(got.Because, "met keys on n1 and n2 that attempts of c1 had left there") {
		t.Errorf("%s: %s", got.Cause, got.Because)
	}
}
