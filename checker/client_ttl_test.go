package checker

import (
	"fmt"
	"strings"
	"testing"

	"lockpick/checker/verdict"
)

// Limits that depend on a TTL use the TTL of the client whose keys or calls they limit. Each history is
// judged with a long TTL for c1 and a short one for c2, and the other way around. Either client may be
// the one with a TTL of its own.
func TestClientsWithDifferentTTLs(t *testing.T) {
	const held = `0 harness begin run
0.001 c1 begin client
0.001 c2 begin client
0.010 c1 invoke acquire session=c1/1
0.012 c1-n1,n2,n3 ok set token=A
0.011 n1,n2,n3 life set value=A by=c1 sent=0.010 command=set
0.013 c1 ok acquire session=c1/1 token=A until=1.9
`
	const orphaned = held + `0.020 c2 invoke acquire session=c2/1
1 nemesis begin kill node=c1 step=1
`
	refusals := ""
	for i := range 100 {
		refusals += fmt.Sprintf("%.3f c2-n1,n2,n3 fail set token=B%d\n", 0.05+0.15*float64(i), i)
	}
	unnotified := "0 harness begin run\n0.001 c1 begin client\n0.001 c2 begin client\n1 c1 invoke acquire session=c1/1\n1.01 c1 ok acquire session=c1/1\n" +
		"8 nemesis begin stall node=machine\n9.5 nemesis end stall node=machine\n" +
		"12 c2 invoke acquire session=c2/1\n12.1 c2 ok acquire session=c2/1\n13 c2 invoke release session=c2/1\n13.1 c2 ok release session=c2/1\n20 harness end run"
	for _, row := range []struct {
		name, events, property string
		long, short            verdict.Outcome // with a long or short TTL for c1
		text                   string          // of the violation
	}{
		{"a dead client's keys block another client for 5 s", orphaned + "4.998 n1,n2,n3 life expired old=A\n4.999 n1,n2,n3 life set value=B by=c2 sent=4.998 command=set\n5 c2-n1,n2,n3 ok set token=B\n" +
			"5 c2 ok acquire session=c2/1 token=B until=6\n60 harness end run", verdict.DeadlockFreedom, verdict.Holds, verdict.Violated, "free again by 2.431 s"},
		{"a dead client's keys never expire", orphaned + refusals + "14.9 harness end run", verdict.DeadlockFreedom, verdict.Violated, verdict.Violated, "existed after their TTL of C1: c1"},
		{"a release takes 7 s", held + "1 c1 invoke release session=c1/1\n8 c1 ok release session=c1/1\n8.1 c1 end client\n60 harness end run",
			verdict.FaultTolerance, verdict.Holds, verdict.Violated, "c1 called release"},
		{"an acquire fails 5 s before another client's", "0 harness begin run\n0.001 c1 begin client\n0.001 c2 begin client\n0.010 c1 invoke acquire session=c1/1\n0.1 c1 fail acquire session=c1/1\n" +
			"5 c2 invoke acquire session=c2/1\n5.1 c2 ok acquire session=c2/1 token=B until=6\n60 harness end run", verdict.MutualExclusion, verdict.Holds, verdict.NotExercised, ""},
		{"the host stalled 3 s before two clients held a lock without deadlines", unnotified, verdict.HolderNotified, verdict.Undecided, verdict.Violated, ""},
	} {
		for _, ttls := range []struct {
			c1, c2 string
			want   verdict.Outcome
		}{{"10s", "2s", row.long}, {"2s", "10s", row.short}} {
			for _, params := range []string{"ttl=" + ttls.c1 + " PARAMS\nttl c2 " + ttls.c2, "ttl=" + ttls.c2 + " PARAMS\nttl c1 " + ttls.c1} {
				params = strings.Replace(params, "PARAMS", "clients=c1,c2 nodes=n1,n2,n3 quorum=2 nodeTimeout=100ms retryMax=100ms slack=100ms rate=0.01 rounds=10", 1)
				if row.property == verdict.HolderNotified {
					params = strings.Replace(params, "\n", " noLossNotice\n", 1)
				}
				res := judge(newRecord(parseHistory(t, "params "+params+"\n"+row.events)), row.property)
				text := strings.Replace(row.text, "C1", strings.TrimSuffix(ttls.c1, "s")+" s", 1)
				if res.Outcome != ttls.want || res.Outcome == verdict.Violated && !strings.Contains(res.Because, text) {
					t.Errorf("%s, %q: %s: %s", row.name, params, res.Outcome, res.Because)
				}
			}
		}
	}
}

// Keys that refuse another client count as orphaned once the TTL of the client that set them is over.
func TestOrphanKeysOfClientTTL(t *testing.T) {
	for own, want := range map[string]float64{"ttl c1 2s": 1, "ttl c1 20s": 0, "ttl c2 2s": 0} {
		v := Check(parseHistory(t, "params clients=c1,c2 nodes=n1 quorum=1 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rate=0.01 rounds=10\n"+own+`
0 harness begin run
0.001 c1 begin client
0.001 c2 begin client
0.010 c1 invoke acquire session=c1/1
0.012 c1-n1 ok set token=A
0.013 c1 ok acquire session=c1/1 token=A until=1.9
4 c2 invoke acquire session=c2/1
4.1 c2-n1 fail set token=B
4.2 c2 fail acquire session=c2/1
5 harness end run`))
		if got := v.Numbers[verdict.OrphanKeys]; got != want {
			t.Errorf("%s: %g orphaned keys, want %g", own, got, want)
		}
	}
}

// A lock must allow for the drift of the holder's own TTL: a node's clock that gained less is not the cause of an
// overlap, and one that gained more is.
func TestDriftOfClientTTL(t *testing.T) {
	for own, row := range map[string]struct{ expiry, local, cause string }{
		"ttl c1 10s": {"9.951", "10.012", verdict.GivenShorter}, // 60 ms of 102 ms
		"ttl c1 2s":  {"1.951", "2.012", verdict.ExpiredEarly},  // 60 ms of 22 ms
	} {
		h := parseHistory(t, strings.NewReplacer("OWN", own, "EXPIRY", row.expiry, "LOCAL", row.local, "CLAIM", strings.Replace(row.expiry, "951", "999", 1)).Replace(`
params clients=c1,c2 nodes=n1 quorum=1 ttl=20s drift=204ms nodeTimeout=100ms retryMax=100ms slack=100ms rate=0.01 rounds=10
OWN
0 harness begin run
0.001 c1 begin client
0.001 c2 begin client
0.010 c1 invoke acquire session=c1/1
0.012 c1-n1 ok set token=A
0.011 n1 life set value=A by=c1 sent=0.010 command=set
0.013 c1 ok acquire session=c1/1 token=A until=CLAIM
0.02 c2 invoke acquire session=c2/1
EXPIRY n1 life expired old=A local=LOCAL
EXPIRY n1 life set value=B by=c2 sent=1.940 command=set local=LOCAL
EXPIRY c2-n1 ok set token=B
EXPIRY c2 ok acquire session=c2/1 token=B until=11
60 harness end run`))
		if res := judge(newRecord(h), verdict.MutualExclusion); res.Cause != row.cause {
			t.Errorf("%s: %s: %s", own, res.Cause, res.Because)
		}
	}
}
