package checker

import (
	"strings"
	"testing"

	"lockpick/checker/verdict"
)

// In resentSets, c1's attempt is released immediately, but its driver resends the sets three
// seconds later. c2 wants the lock from then on.
const resentSets = `params clients=c1,c2 nodes=n1,n2,n3 quorum=2 ttl=10s nodeTimeout=50ms retryMax=200ms slack=500ms rate=0.01 rounds=20 mayBeIdle
0      harness begin run
0.001  c1 begin client
0.001  c2 begin client
0.010  c1 invoke acquire session=c1/1
0.061  c1-n1,n2 fail set token=A sent=0.011 applied=0 answered=0 cause=no answer
0.012  c1-n3 ok set token=A sent=0.011 applied=0.0115
0.064  c1-n1,n2 fail release token=A sent=0.062
0.064  c1-n3 ok release token=A sent=0.062
SESSION
SETS
3.100  c2 invoke acquire session=c2/1
3.110  c2-n1,n2 fail set token=B0
3.110  c2-n3 ok set token=B0
3.109  n3 life set value=B0 by=c2 sent=3.108 command=set
3.120  c2-n3 ok release token=B0
3.119  n3 life deleted old=B0 by=c2 sent=3.118 command=del
13.100 c2-n1,n2,n3 ok set token=B
13.099 n1,n2,n3 life set value=B by=c2 sent=13.098 command=set
13.101 c2 ok acquire session=c2/1 token=B until=22.998
13.2   c2 invoke release session=c2/1
13.202 c2-n1,n2,n3 ok release token=B
13.203 c2 ok release session=c2/1
14     harness end run
`

// resentSetFaults are faults that hit the resent sets.
var resentSetFaults = map[string]string{
	"no fault": `3 c1-n1,n2 ok set token=A
2.999 n1,n2 life set value=A by=c1 sent=2.998 command=set`,
	"a cut": `2.9 nemesis invoke cut node=c1-n1
2.9  nemesis begin cut node=c1-n1
2.9  nemesis invoke cut node=c1-n2
2.9  nemesis begin cut node=c1-n2
3.01 nemesis end cut node=c1-n1
3.01 nemesis end cut node=c1-n2
3 c1-n1,n2 info set token=A answered=0
2.999 n1,n2 life set value=A by=c1 sent=2.998 command=set`,
	"a held message": `2.9 nemesis invoke hold node=c1-n1
2.9  nemesis begin hold node=c1-n1
2.9  nemesis invoke hold node=c1-n2
2.9  nemesis begin hold node=c1-n2
3.06 nemesis end hold node=c1-n1
3.06 nemesis end hold node=c1-n2
3.062 c1-n1,n2 ok set token=A sent=2.95
3.061 n1,n2 life set value=A by=c1 sent=2.95 command=set`,
}

// faultToleranceOf judges fault tolerance in resentSets, given c1's other events and its resent
// sets.
func faultToleranceOf(t *testing.T, session, sets string) verdict.Result {
	t.Helper()
	v := Check(parseHistory(t, strings.NewReplacer("SESSION", session, "SETS", sets).Replace(resentSets)))
	for _, r := range v.Results {
		if r.Property == verdict.FaultTolerance {
			return r
		}
	}
	t.Fatalf("no result for fault-tolerance: %+v", v)
	return verdict.Result{}
}

// No fault excuses a set that was sent long after its attempt was over, whether or not its client
// has made another attempt by then.
func TestResentSets(t *testing.T) {
	for session, text := range map[string]string{
		"no other attempt": "0.070 c1 fail acquire session=c1/1",
		"another attempt": `0.2 c1-n1,n2 fail set token=C sent=0.15 applied=0 answered=0 cause=no answer
0.162 c1-n3 ok set token=C
0.21  c1-n1,n2 fail release token=C
0.21  c1-n3 ok release token=C
4.500 c1 fail acquire session=c1/1`,
		"another acquire": `0.070 c1 fail acquire session=c1/1
2.8   c1 invoke acquire session=c1/2
2.9   c1-n1,n2 fail set token=C sent=2.85 applied=0 answered=0 cause=no answer
2.862 c1-n3 ok set token=C
2.91  c1-n1,n2 fail release token=C
2.91  c1-n3 ok release token=C
4.500 c1 fail acquire session=c1/2`,
	} {
		for fault, sets := range resentSetFaults {
			if r := faultToleranceOf(t, text, sets); r.Outcome != verdict.Violated || r.Cause != "left-keys" {
				t.Errorf("%s, %s: %s (%s): %s", session, fault, r.Outcome, r.Cause, r.Because)
			}
		}
	}
}

// The same sets are a regular attempt if the lock uses one token for the whole acquire, or if they
// were sent just after their attempt was over. Then the fault is the reason why their keys stay.
func TestResentSetsInTime(t *testing.T) {
	for session, text := range map[string]string{
		"one token for all attempts":           "4.500 c1 fail acquire session=c1/1",
		"an acquire that has just ended":       "2.96 c1 fail acquire session=c1/1",
		"an acquire with the token of another": "0.070 c1 fail acquire session=c1/1\n2.8 c1 invoke acquire session=c1/2\n4.500 c1 fail acquire session=c1/2",
	} {
		for fault, sets := range resentSetFaults {
			if r := faultToleranceOf(t, text, sets); (r.Outcome == verdict.Violated) != (fault == "no fault") {
				t.Errorf("%s, %s: %s (%s): %s", session, fault, r.Outcome, r.Cause, r.Because)
			}
		}
	}
}

// A fault excuses the key of a lost set only if the node may have received the set.
func TestLostSetWithoutKey(t *testing.T) {
	const lostSet = `params clients=c1,c2 nodes=n1 quorum=1 ttl=10s nodeTimeout=50ms retryMax=200ms slack=500ms rate=0.01 rounds=10 mayBeIdle
0      harness begin run
0.001  c1 begin client
0.001  c2 begin client
0.005  nemesis begin lose node=c1-n1
0.010  c1 invoke acquire session=c1/1
0.061  c1-n1 info set token=A sent=0.011 applied=0 answered=0
0.070  c1 fail acquire session=c1/1
0.100  c2 invoke acquire session=c2/1
NODE
8      c2-n1 ok set token=B
7.999  n1 life set value=B by=c2
8.001  c2 ok acquire session=c2/1 token=B until=17
9      harness end run`
	for node, want := range map[string]verdict.Outcome{
		"": verdict.Violated,
		"0.012 n1 life set value=A by=c1 sent=0.011 command=set": verdict.NotExercised,
		"5     n1 life gap lo=3 hi=5":                            verdict.NotExercised,
	} {
		if got := judge(newRecord(parseHistory(t, strings.Replace(lostSet, "NODE", node, 1))), verdict.FaultTolerance); got.Outcome != want {
			t.Errorf("%q: %s (%s): %s", node, got.Outcome, got.Cause, got.Because)
		}
	}
}
