package checker

import (
	"strings"
	"testing"

	"lockpick/checker/verdict"
)

// In heldLock, c1 holds a lock that no other client wants.
const heldLock = `params clients=c1,c2 nodes=n1,n2,n3 quorum=2 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rate=0.01 rounds=10
0      harness begin run
0.001  c1 begin client
0.001  c2 begin client
0.010  c1 invoke acquire session=c1/1
0.012  c1-n1,n2,n3 ok set token=A
0.011  n1,n2,n3 life set value=A by=c1 sent=0.010 command=set
0.013  c1 ok acquire session=c1/1 token=A until=9.9
`

// A call that does not return is the lock's fault if its client kept running and reached a majority
// for ten rounds plus a TTL, here 12.1 s. For an acquire, the limit is ten rounds during which no
// client held the lock.
func TestHungCalls(t *testing.T) {
	for name, row := range map[string]struct {
		events, cause string
	}{
		"a release without return":      {heldLock + "1 c1 invoke release session=c1/1\n30 harness end run", verdict.Hung},
		"a release that returns late":   {heldLock + "1 c1 invoke release session=c1/1\n13.2 c1 ok release session=c1/1\n13.3 c1 end client\n30 harness end run", verdict.WaitedLong},
		"a release that returns sooner": {heldLock + "1 c1 invoke release session=c1/1\n13 c1 ok release session=c1/1\n13.3 c1 end client\n30 harness end run", ""},
		"an extension":                  {heldLock + "1 c1 invoke extend session=c1/1\n30 harness end run", verdict.Hung},
		"a write":                       {heldLock + "1 c1 invoke write session=c1/1 value=v version=0\n30 harness end run", ""},
		"a release by a client that dies": {heldLock + "1 c1 invoke release session=c1/1\n" +
			"12 nemesis begin kill node=c1 step=1\n30 harness end run", ""},
		"a release by a client that is paused": {heldLock + "1 c1 invoke release session=c1/1\n" +
			"12 nemesis begin pause node=c1 step=1\n30 nemesis end pause node=c1 step=1\n30 harness end run", ""},
		"a release without a majority": {heldLock + "1 c1 invoke release session=c1/1\n" +
			"2 nemesis begin kill node=n1 step=1\n2 nemesis begin kill node=n2 step=1\n30 harness end run", ""},
		"an acquire with a single attempt": {heldLock + "1 c1 invoke release session=c1/1\n1.1 c1 ok release session=c1/1\n" +
			"1.1 n1,n2,n3 life deleted old=A by=c1 sent=1.099\n1.1 c1-n1,n2,n3 ok release token=A\n1.2 c1 end client\n" +
			"0.9 c2 invoke acquire session=c2/1\n0.91 c2-n1,n2,n3 fail set token=B\n30 harness end run", verdict.Hung},
		"an acquire that pauses and then gets the lock": {heldLock + "1 c1 invoke release session=c1/1\n1.1 c1 ok release session=c1/1\n" +
			"1.1 n1,n2,n3 life deleted old=A by=c1 sent=1.099\n1.1 c1-n1,n2,n3 ok release token=A\n1.2 c1 end client\n" +
			"0.9 c2 invoke acquire session=c2/1\n0.91 c2-n1,n2,n3 fail set token=B\n9 c2-n1,n2,n3 ok set token=C sent=8.99\n" +
			"8.995 n1,n2,n3 life set value=C by=c2 sent=8.99\n9.1 c2 ok acquire session=c2/1 token=C until=18\n30 harness end run", verdict.WaitedLong},
		"an acquire that keeps trying": {heldLock + "1 c1 invoke release session=c1/1\n1.1 c1 ok release session=c1/1\n" +
			"1.1 n1,n2,n3 life deleted old=A by=c1 sent=1.099\n1.1 c1-n1,n2,n3 ok release token=A\n1.2 c1 end client\n" +
			"0.9 c2 invoke acquire session=c2/1\n0.91 c2-n1,n2,n3 fail set token=B\n2.9 c2-n1,n2,n3 fail set token=C\n4.6 c2-n1,n2,n3 fail set token=D\n5 harness end run", verdict.TurnedAway},
	} {
		got := judge(newRecord(parseHistory(t, row.events)), verdict.FaultTolerance)
		if violated := got.Outcome == verdict.Violated; violated != (row.cause != "") || got.Cause != row.cause || violated && (got.Witness == nil || got.Incidents != 1) {
			t.Errorf("%s: %s (%s), %d incidents: %s", name, got.Outcome, got.Cause, got.Incidents, got.Because)
		}
	}
}

// Links that lose a few messages do not excuse an acquire that never retries. Links that lose half
// or more of the messages may.
func TestHungAcquireOnLossyLinks(t *testing.T) {
	const lossyLinks = heldLock + `0.5 nemesis begin lose node=c2-n1
0.5  nemesis begin lose node=c2-n2
0.5  nemesis begin lose node=c2-n3
1    c1 invoke release session=c1/1
1.1  n1,n2,n3 life deleted old=A by=c1 sent=1.099
1.1  c1-n1,n2,n3 ok release token=A
1.1  c1 ok release session=c1/1
1.2  c1 end client
0.9  c2 invoke acquire session=c2/1
SETS
30   harness end run`
	for sets, cause := range map[string]string{
		"0.91 c2-n1,n2 fail set token=B\n1 c2-n3 fail set token=B answered=0":                                       verdict.Hung,
		"0.91 c2-n1 fail set token=B\n1 c2-n2,n3 info set token=B answered=0":                                       "",
		"0.91 c2-n1,n2,n3 fail set token=B\n1 c2-n1,n2,n3 info set token=C answered=0":                              "",
		"0.91 c2-n1,n2,n3 fail set token=B\n1 c2-n1,n2,n3 info set token=C answered=0\n2 c2-n1,n2 fail set token=D": verdict.Hung,
	} {
		got := judge(newRecord(parseHistory(t, strings.Replace(lossyLinks, "SETS", sets, 1))), verdict.FaultTolerance)
		if violated := got.Outcome == verdict.Violated; violated != (cause != "") || got.Cause != cause {
			t.Errorf("%s\n%s (%s): %s", sets, got.Outcome, got.Cause, got.Because)
		}
	}
}
