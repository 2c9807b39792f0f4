package checker

import (
	"strings"
	"testing"

	"lockpick/checker/verdict"
)

// A client that dies may have held other locks than the one it acquired last.
func TestDeathOfClientWithSeveralLocks(t *testing.T) {
	const deadHolder = `params clients=c1,c2 nodes=n1 quorum=1 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rounds=10
1 c1 begin client
1 c2 begin client
1 c1 invoke acquire session=c1/1
1.01 c1-n1 ok set token=A sent=1.001 applied=1.005 answered=1.01
1.01 c1 ok acquire session=c1/1 token=A until=10
2 c2 invoke acquire session=c2/1
MORE
4 nemesis begin kill node=c1 step=1
60 harness end run`
	const unansweredRelease = "2.5 c1 invoke release session=c1/1\n2.6 c1 info release session=c1/1\n"
	for name, row := range map[string]struct {
		more string
		want verdict.Outcome
		text string
	}{
		"no other lock":                                  {"", verdict.Violated, "11."},
		"an unconfirmed release":                         {unansweredRelease, verdict.Violated, "11."},
		"a release that its node confirms":               {unansweredRelease + "2.7 c1-n1 ok release token=A sent=2.5 applied=2.65", verdict.NotExercised, "no client was killed"},
		"a release that its node executes too late":      {unansweredRelease + "2.7 c1-n1 ok release token=A sent=2.5 applied=4.65", verdict.Violated, "11."},
		"then it wants another lock":                     {unansweredRelease + "3 c1 invoke acquire session=c1/2 key=lock-2", verdict.Violated, "11."},
		"another client calls late, and gets it in time": {"2.5 c2 fail acquire session=c2/1\n20 c2 invoke acquire session=c2/2\n20.3 c2-n1 ok set token=C\n20.3 c2 ok acquire session=c2/2 token=C until=30", verdict.Holds, "after 1 holder death"},
		"the waiting client leaves":                      {"9 c2 end client", verdict.NotExercised, "no client was killed"},
		"two holds, of which one key lives longer": {unansweredRelease + "3.6 c1-n1 ok extend token=A sent=2.65 applied=3.5\n3 c1 invoke acquire session=c1/2\n" +
			"3.01 c1-n1 ok set token=B sent=3.001 applied=3.005 answered=3.01\n3.01 c1 ok acquire session=c1/2 token=B until=12.9", verdict.Violated, "free again by 13.9 s"},
		"then it wants the same lock":            {unansweredRelease + "3 c1 invoke acquire session=c1/2", verdict.Violated, "11."},
		"it holds another lock too":              {"3 c1 invoke acquire session=c1/2 key=lock-2\n3.01 c1-n1 ok set token=B sent=3.001 applied=3.005 answered=3.01\n3.01 c1 ok acquire session=c1/2 key=lock-2 token=B until=12", verdict.Violated, "11."},
		"it was released":                        {"2.5 c1 invoke release session=c1/1\n2.5 c1-n1 ok release token=A\n2.6 c1 ok release session=c1/1\n3 c1 invoke acquire session=c1/2 key=lock-2", verdict.NotExercised, "no client was killed"},
		"it was released, and no lock is wanted": {"2.5 c1 invoke release session=c1/1\n2.5 c1-n1 ok release token=A\n2.6 c1 ok release session=c1/1", verdict.NotExercised, "no client was killed"},
	} {
		res := judge(newRecord(parseHistory(t, strings.Replace(deadHolder, "MORE", row.more, 1))), verdict.DeadlockFreedom)
		if res.Outcome != row.want || !strings.Contains(res.Because, row.text) || row.want == verdict.Violated && res.Incidents != 1 {
			t.Errorf("%s: %s, %d incidents: %s", name, res.Outcome, res.Incidents, res.Because)
		}
	}
}

// A client that was paused may reacquire the lock in time, or before others want it. Others then
// wait for its new hold, which may be long. If it gets the lock with its old key, the lock was not
// free.
func TestLostHolderReacquires(t *testing.T) {
	const pausedHolder = `params clients=c1,c2 nodes=n1 quorum=1 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rounds=10
1 c1 begin client
1 c2 begin client
1 c1 invoke acquire session=c1/1
1.01 c1-n1 ok set token=A sent=1.001 applied=1.005 answered=1.01
1.01 c1 ok acquire session=c1/1 token=A until=10
2 CALL
3 nemesis begin pause node=c1 step=1
11.1 nemesis end pause node=c1 step=1
11.1 c1 invoke release session=c1/1
11.15 c1 fail release session=c1/1
BACK c1 invoke acquire session=c1/2
BACK c1-n1 ok set token=B
BACK c1 ok acquire session=c1/2 token=TOKEN until=30
29 CALL
39 c1 invoke release session=c1/2
39.1 c1-n1 ok release token=B
39.1 c1 ok release session=c1/2
39.2 c2-n1 ok set token=C
39.2 c2 ok acquire session=c2/1 token=C until=49
60 harness end run`
	const call = "c2 invoke acquire session=c2/1"
	for name, row := range map[string]struct {
		called, back, token string
		want                verdict.Outcome
	}{
		"others want it later":                      {"29", "20", "B", verdict.NotExercised},
		"it reacquires in time":                     {"2", "11.2", "B", verdict.Holds},
		"no client gets it in time":                 {"2", "20", "B", verdict.Violated},
		"it gets it with its old key":               {"2", "11.2", "A", verdict.Violated},
		"it gets it with its old key, wanted later": {"29", "20", "A", verdict.Violated},
	} {
		text := strings.NewReplacer(row.called+" CALL", row.called+" "+call, "BACK", row.back, "TOKEN", row.token).Replace(pausedHolder)
		var lines []string
		for line := range strings.Lines(text) {
			if keys := strings.HasSuffix(line, "token=B\n") && strings.Contains(line, "c1-n1"); !strings.HasSuffix(line, " CALL\n") && (!keys || row.token == "B") {
				lines = append(lines, line)
			}
		}
		res := judge(newRecord(parseHistory(t, strings.Join(lines, ""))), verdict.DeadlockFreedom)
		if res.Outcome != row.want {
			t.Errorf("%s: %s: %s", name, res.Outcome, res.Because)
		}
	}
}

// A call does not hang if its client has disappeared.
func TestCallOfDepartedClient(t *testing.T) {
	for text, want := range map[string]verdict.Outcome{"30 c1 end client": verdict.Violated, "12 c1 end client": verdict.Holds} {
		h := parseHistory(t, heldLock+"1 c1 invoke release session=c1/1\n"+text+"\n30 harness end run")
		if got := judge(newRecord(h), verdict.FaultTolerance); got.Outcome != want {
			t.Errorf("%s: %s, want %s: %s", text, got.Outcome, want, got.Because)
		}
	}
}
