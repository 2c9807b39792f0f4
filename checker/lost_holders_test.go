package checker

import (
	"strings"
	"testing"
)

// A client that dies may have held more than what it asked for last.
func TestDeathOfWhoHoldsMore(t *testing.T) {
	const dies = `params clients=c1,c2 nodes=n1 quorum=1 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rounds=10
1 c1 begin client
1 c2 begin client
1 c1 invoke acquire session=c1/1
1.01 c1-n1 ok set token=A sent=1.001 applied=1.005 answered=1.01
1.01 c1 ok acquire session=c1/1 token=A until=10
2 c2 invoke acquire session=c2/1
MORE
4 nemesis begin kill node=c1 step=1
60 harness end run`
	const givenUp = "2.5 c1 invoke release session=c1/1\n2.6 c1 info release session=c1/1\n"
	for name, row := range map[string]struct {
		more string
		want Outcome
		text string
	}{
		"nothing more":                              {"", Violated, "11."},
		"a release that nobody knows of":            {givenUp, Violated, "11."},
		"a release that its node knows of":          {givenUp + "2.7 c1-n1 ok release token=A sent=2.5 applied=2.65", NotExercised, "no client died"},
		"a release that its node knows of too late": {givenUp + "2.7 c1-n1 ok release token=A sent=2.5 applied=4.65", Violated, "11."},
		"then another lock is wanted":               {givenUp + "3 c1 invoke acquire session=c1/2 key=lock-2", Violated, "11."},
		"then the same lock is wanted":              {givenUp + "3 c1 invoke acquire session=c1/2", Violated, "11."},
		"another lock is held, too":                 {"3 c1 invoke acquire session=c1/2 key=lock-2\n3.01 c1-n1 ok set token=B sent=3.001 applied=3.005 answered=3.01\n3.01 c1 ok acquire session=c1/2 key=lock-2 token=B until=12", Violated, "11."},
		"it was given back":                         {"2.5 c1 invoke release session=c1/1\n2.5 c1-n1 ok release token=A\n2.6 c1 ok release session=c1/1\n3 c1 invoke acquire session=c1/2 key=lock-2", NotExercised, "no client died"},
		"it was given back, and nothing is wanted":  {"2.5 c1 invoke release session=c1/1\n2.5 c1-n1 ok release token=A\n2.6 c1 ok release session=c1/1", NotExercised, "no client died"},
	} {
		res := judge(newRecord(tale(t, strings.Replace(dies, "MORE", row.more, 1))), DeadlockFreedom)
		if res.Outcome != row.want || !strings.Contains(res.Because, row.text) || row.want == Violated && res.Incidents != 1 {
			t.Errorf("%s: %s, %d incidents: %s", name, res.Outcome, res.Incidents, res.Because)
		}
	}
}

// A client that was paused may have the lock again before others want it: those wait for its new hold,
// which may be long.
func TestLostHolderHasItAgain(t *testing.T) {
	const paused = `params clients=c1,c2 nodes=n1 quorum=1 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rounds=10
1 c1 begin client
1 c2 begin client
1 c1 invoke acquire session=c1/1
1.01 c1-n1 ok set token=A sent=1.001 applied=1.005 answered=1.01
1.01 c1 ok acquire session=c1/1 token=A until=10
CALLED
3 nemesis begin pause node=c1 step=1
20 nemesis end pause node=c1 step=1
20 c1 invoke release session=c1/1
20.1 c1 fail release session=c1/1
AGAIN
39 c1 invoke release session=c1/2
39.1 c1-n1 ok release token=B sent=39 applied=39.05 answered=39.1
39.1 c1 ok release session=c1/2
39.2 c2-n1 ok set token=C sent=39.15 applied=39.18 answered=39.2
39.2 c2 ok acquire session=c2/1 token=C until=49
60 harness end run`
	const (
		again = "21 c1 invoke acquire session=c1/2\n21.01 c1-n1 ok set token=B sent=21.001 applied=21.005 answered=21.01\n21.01 c1 ok acquire session=c1/2 token=B until=30\n"
		later = "22 c2 invoke acquire session=c2/1\n29 c1-n1 ok extend token=B sent=29 applied=29.01 answered=29.02\n29.02 c1 ok extend session=c1/2 until=39"
		late  = "35 c1 invoke acquire session=c1/2\n35.01 c1-n1 ok set token=B sent=35.001 applied=35.005 answered=35.01\n35.01 c1 ok acquire session=c1/2 token=B until=44"
		waits = "2 c2 invoke acquire session=c2/1"
	)
	for name, row := range map[string]struct {
		called, again string
		want          Outcome
	}{
		"others want it later":         {"", again + later, NotExercised},
		"others want it all along":     {waits, late, Violated},
		"others don't get it, it does": {waits, again[:len(again)-1], Violated},
	} {
		res := judge(newRecord(tale(t, strings.NewReplacer("CALLED\n", strings.TrimLeft(row.called+"\n", "\n"), "AGAIN", row.again).Replace(paused))), DeadlockFreedom)
		if res.Outcome != row.want {
			t.Errorf("%s: %s: %s", name, res.Outcome, res.Because)
		}
	}
}
