package checker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockpick/checker/verdict"
)

// In renewedLock, a lock on one node, c1 holds the lock from 0.1 s and c2 tries to acquire it from
// 1 s on. RENEWALS extend c1's key, which expires 5 s after the last of them.
const renewedLock = `params clients=c1,c2 nodes=n1 quorum=1 ttl=5s nodeTimeout=100ms retryMax=100ms slack=100ms rate=0.01 rounds=10 life
0      harness begin run
0.001  c1 begin client
0.001  c2 begin client
0.090  c1 invoke acquire session=c1/1
0.095  c1-n1 ok set token=A ttl=5 sent=0.091 applied=0.094
0.094  n1 life set value=A by=c1 sent=0.091 command=set
0.100  ACQUIRED
1.000  c2 invoke acquire session=c2/1
CLIENT
RENEWALS
40     harness end run`

// renewals returns a command with c1's token every second between from and to.
func renewals(from, to float64, op string) string {
	var b strings.Builder
	for at := from; at < to; at++ {
		fmt.Fprintf(&b, "%f c1-n1 ok %s token=A ttl=5 sent=%f applied=%f\n", at+0.003, op, at, at+0.002)
		what := "expiry value=A"
		if op == "set" {
			what = "set value=A old=A command=set"
		}
		fmt.Fprintf(&b, "%f n1 life %s by=c1 sent=%f\n", at+0.002, what, at)
	}
	return b.String()
}

// failedAttempts returns a failed attempt by c2 every second until to.
func failedAttempts(to float64) string {
	var b strings.Builder
	for at := 1.5; at < to; at++ {
		fmt.Fprintf(&b, "%f c2-n1 fail set token=B%d sent=%f\n", at+0.003, int(at), at)
	}
	return b.String()
}

// If a lock renews its key after its client has given up the lock, the lock is to blame: the key no
// longer represents a hold, however long it exists.
func TestRenewalAfterGivingUp(t *testing.T) {
	const grantedAcquire, unknownAcquire = "c1 ok acquire session=c1/1 token=A until=5", "c1 info acquire session=c1/1"
	const unknownRelease = "1.2 c1 invoke release session=c1/1\n1.6 c1 info release session=c1/1"
	const okRelease = "1.2 c1 invoke release session=c1/1\n1.6 c1 ok release session=c1/1"
	retries := unknownRelease + "\n3 c1 invoke acquire session=c1/2\n3.1 c1 fail acquire session=c1/2\n9 c1 invoke acquire session=c1/3\n9.1 c1 info acquire session=c1/3"
	for name, row := range map[string]struct {
		acquired, client, renewals string
		free                       float64 // c2 gets the lock half a second later, in time; 0 means not in time
	}{
		"a failed release":                              {grantedAcquire, unknownRelease, renewals(2, 30, "extend"), 0},
		"a failed release, renewed by sets":             {grantedAcquire, unknownRelease, renewals(2, 30, "set"), 0},
		"a failed release, and the client keeps trying": {grantedAcquire, retries, renewals(2, 30, "extend"), 0},
		"a failed release that is repeated":             {grantedAcquire, unknownRelease + "\n2 c1 invoke release session=c1/1\n2.4 c1 info release session=c1/1", renewals(3, 30, "extend"), 0},
		"a release that it reports as successful":       {grantedAcquire, okRelease, renewals(2, 30, "extend"), 0},
		"an acquire of unknown outcome":                 {unknownAcquire, "", renewals(1, 30, "extend"), 0},
		"a client that has died":                        {grantedAcquire, "1.2 nemesis begin kill node=c1", renewals(2, 30, "extend"), 0},
		"a failed release, and no renewal":              {grantedAcquire, unknownRelease, "", 6},
		"a failed release, and the last renewal":        {grantedAcquire, unknownRelease, renewals(1.65, 2, "extend"), 7},
		"a release in progress":                         {grantedAcquire, "1.2 c1 invoke release session=c1/1\n6 c1 info release session=c1/1", renewals(2, 6, "extend"), 11},
		"a failed release, and the client extends":      {grantedAcquire, unknownRelease + "\n3 c1 invoke extend session=c1/1\n3.01 c1 ok extend session=c1/1 until=39", renewals(3, 30, "extend"), 35},
		"a holder that tries to reacquire":              {grantedAcquire, "3 c1 invoke acquire session=c1/2\n3.1 c1 fail acquire session=c1/2", renewals(1, 30, "extend"), 35},
		"a holder that has not released":                {grantedAcquire, "", renewals(1, 30, "extend"), 35},
	} {
		want, freeTime := verdict.Holds, row.free
		if row.free == 0 {
			want, freeTime = verdict.Violated, 34.5
		}
		got := fmt.Sprintf("%f c2-n1 ok set token=B sent=%f applied=%[2]f\n%[1]f n1 life set value=B by=c2 sent=%[2]f command=set\n%[3]f c2 ok acquire session=c2/1 token=B until=39", freeTime+0.501, freeTime+0.5, freeTime+0.502)
		text := strings.NewReplacer("ACQUIRED", row.acquired, "CLIENT", row.client, "RENEWALS", row.renewals+failedAttempts(freeTime)+got).Replace(renewedLock)
		r := newRecord(parseHistory(t, text))
		res := judge(r, verdict.FaultTolerance)
		if res.Outcome != want || r.Defect != "" {
			t.Errorf("%s: %s (%s), want %s: %s %s", name, res.Outcome, res.Cause, want, res.Because, r.Defect)
		}
	}
}

// A call that never returns is judged even if it makes the run vacuous: steps or clients may wait
// for the call, or a fault may have had no effect.
func TestHungCallsInVacuousRuns(t *testing.T) {
	const evenVotes = `params clients=c1,c2 nodes=n1,n2 quorum=2 ttl=4s nodeTimeout=300ms retryMax=250ms slack=250ms rate=0.01 rounds=10 life
step 1 delay c1-n2,c2-n1 at 0s
0      harness begin run
0      nemesis begin delay node=c1-n2 step=1
0      nemesis begin delay node=c2-n1 step=1
0.001  c1 begin client
C2
0.010  c1 invoke acquire session=c1/1
0.013  c1-n1 ok set token=A ttl=4 sent=0.011 applied=0.012
0.012  n1 life set value=A by=c1 sent=0.011 command=set
0.313  c1-n2 fail set token=A ttl=4 sent=0.011 applied=0.162
4.012  n1 life expired old=A
20     nemesis FAILS delay node=c1-n2 step=1 cause=it hit nothing
20     harness end run`
	const c2 = `0.001  c2 begin client
0.010  c2 invoke acquire session=c2/1
0.013  c2-n2 ok set token=B ttl=4 sent=0.011 applied=0.012
0.012  n2 life set value=B by=c2 sent=0.011 command=set
0.313  c2-n1 fail set token=B ttl=4 sent=0.011 applied=0.162
4.012  n2 life expired old=B`
	requests := "\n6 c1-n1 ok set token=C ttl=4 sent=5.9 applied=5.95\n12 c1-n1 ok set token=D ttl=4 sent=11.9 applied=11.95\n18 c1-n1 ok set token=E ttl=4 sent=17.9 applied=17.95"
	for name, row := range map[string]struct {
		text  string
		delay time.Duration
		hangs bool
	}{
		"both hang":                        {strings.NewReplacer("C2", c2, "FAILS", "fail").Replace(evenVotes), 150 * time.Millisecond, true},
		"the other client waits for it":    {strings.NewReplacer("C2", "", "FAILS", "end").Replace(evenVotes), 150 * time.Millisecond, true},
		"it keeps sending requests":        {strings.NewReplacer("C2", "", "FAILS", "end").Replace(evenVotes) + requests, 150 * time.Millisecond, false},
		"the client is stopped":            {strings.NewReplacer("C2", "", "FAILS", "end").Replace(evenVotes) + "\n1 nemesis begin pause node=c1\n19 nemesis end pause node=c1", 150 * time.Millisecond, false},
		"its link carries nothing":         {strings.NewReplacer("C2", "", "FAILS", "end").Replace(evenVotes) + "\n1 nemesis begin cut node=c1-n2\n19 nemesis end cut node=c1-n2", 150 * time.Millisecond, false},
		"the delay is longer than a round": {strings.NewReplacer("C2", "", "FAILS", "end").Replace(evenVotes), 9 * time.Second, false},
	} {
		h := parseHistory(t, row.text)
		h.Params.Steps[0].Delay = row.delay
		v := Check(h)
		res := v.Result(verdict.FaultTolerance)
		if hangs := res.Outcome == verdict.Violated && res.Cause == verdict.Hung; hangs != row.hangs || hangs != (v.Assumption == "") {
			t.Errorf("%s: %s (%s), assumption %q: %s", name, res.Outcome, res.Cause, v.Assumption, res.Because)
		}
	}
}
