package checker

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/internal/bruteforce"
	"lockpick/internal/histories"
)

// In unnotifiedLock, a lock has no deadline and reports no loss. c1 holds it, and c2 gets it at 12
// s.
const unnotifiedLock = `params clients=c1,c2 nodes=n1 quorum=1 ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rate=0.01 rounds=10 life noLossNotice
0      harness begin run
0.001  c1 begin client
0.001  c2 begin client
1.000  c1 invoke acquire session=c1/1
1.012  c1-n1 ok set token=A ttl=10 sent=1.010 applied=1.011
1.011  n1 life set value=A by=c1 sent=1.010 command=set
1.013  c1 ok acquire session=c1/1 token=A
1.020  c2 invoke acquire session=c2/1
END
12.010 c2-n1 ok set token=B ttl=10 sent=12.008 applied=12.009
12.009 n1 life set value=B by=c2 sent=12.008 command=set
12.011 c2 ok acquire session=c2/1 token=B
13     c2 invoke release session=c2/1
13.001 c2-n1 ok release token=B
13.001 n1 life deleted old=B by=c2 sent=13 command=del
13.002 c2 ok release session=c2/1
14     harness end run
`

// If the key lived for its TTL, the lock broke no promise. If the key was deleted earlier, the lock
// is broken.
func TestHolderNotified(t *testing.T) {
	expiry, deletion := "11.011 n1 life expired old=A", "5.011 n1 life deleted old=A by=c2 sent=5 command=del"
	withoutReports := regexp.MustCompile(`(?m)^\S+ +n1 life .*\n|^END| life\b`).ReplaceAllString(unnotifiedLock, "")
	for name, row := range map[string]struct {
		text                       string
		exclusion, notified, lease verdict.Outcome
	}{
		"the key expired after its TTL":      {strings.Replace(unnotifiedLock, "END", expiry, 1), verdict.NotExercised, verdict.Violated, verdict.Holds},
		"another client deleted it":          {strings.ReplaceAll(strings.Replace(unnotifiedLock, "END", deletion, 1), "12.0", "6.0"), verdict.Violated, verdict.Holds, verdict.Holds},
		"the end of the key is not recorded": {strings.Replace(unnotifiedLock, "END", "", 1), verdict.Violated, verdict.Holds, verdict.Holds},
		"the nodes report nothing":           {withoutReports, verdict.NotExercised, verdict.Violated, verdict.Holds},
		"the holder checked the lock":        {strings.Replace(unnotifiedLock, "END", expiry+"\n12 c1 info lost session=c1/1", 1), verdict.NotExercised, verdict.Holds, verdict.Holds},
		"the host stalled for as long as the overlap": {strings.Replace(unnotifiedLock, "END", expiry+"\n11.1 nemesis begin stall node=machine\n12 nemesis end stall node=machine\n12.911 c1 info lost session=c1/1", 1),
			verdict.NotExercised, verdict.Undecided, verdict.Holds},
		"the lock was released before": {strings.Replace(unnotifiedLock, "END", "9 c1 invoke release session=c1/1\n9.001 c1-n1 ok release token=A\n"+
			"9.001 n1 life deleted old=A by=c1 sent=9 command=del\n9.1 c1 ok release session=c1/1", 1), verdict.NotExercised, verdict.Holds, verdict.Holds},
	} {
		v := Check(parseHistory(t, row.text))
		for property, want := range map[string]verdict.Outcome{verdict.MutualExclusion: row.exclusion, verdict.HolderNotified: row.notified, verdict.LeaseLinearizable: row.lease} {
			got := v.Result(property)
			if got == nil || got.Outcome != want && (want != verdict.NotExercised || got.Outcome == verdict.Violated) {
				t.Errorf("%s: %s: %+v, want %s", name, property, got, want)
			}
		}
		if v.Disagreement != "" {
			t.Errorf("%s: %s", name, v.Disagreement)
		}
	}
	if v := Check(parseHistory(t, strings.Replace(strings.Replace(unnotifiedLock, " noLossNotice", "", 1), "END", expiry, 1))); v.Result(verdict.HolderNotified) != nil || v.Result(verdict.MutualExclusion).Outcome != verdict.Violated {
		t.Errorf("a lock that notifies its holder: %+v", v.Results)
	}
}

// Each overlap that brute force finds violates exactly one of the two properties, and no judge
// contradicts another.
func TestHolderNotifiedAgainstBruteForce(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	numOverlaps, numCases := 0, histories.NumCases(3000)
	for range numCases {
		h := histories.Random(rnd)
		h.Params.NoLossNotice, h.Params.ReportsKeys = true, rnd.IntN(2) == 0
		r := newRecord(h)
		want := bruteforce.FindOverlaps(h, histories.Beat).Incidents
		exclusion, notification := judge(r, verdict.MutualExclusion), judge(r, verdict.HolderNotified)
		if exclusion.Incidents+notification.Incidents != want || (exclusion.Incidents > 0) != (exclusion.Outcome == verdict.Violated) || (notification.Incidents > 0) != (notification.Outcome == verdict.Violated) {
			t.Fatalf("%d and %d overlaps, %s and %s, want %d in total:\n%s", exclusion.Incidents, notification.Incidents, exclusion.Outcome, notification.Outcome, want, histories.FormatLines(h))
		}
		if v := Check(h); v.Disagreement != "" {
			t.Fatalf("%s:\n%s", v.Disagreement, histories.FormatLines(h))
		}
		for _, property := range []string{verdict.MutualExclusion, verdict.HolderNotified} {
			all, shown := Incidents(h, property, 100), judge(r, property)
			if len(all) != shown.Incidents {
				t.Fatalf("%d incidents of %s:\n%s", len(all), property, histories.FormatLines(h))
			}
			for _, x := range all { // ordered by time
				longer := (x.Witness.To - x.Witness.From) - (shown.Witness.To - shown.Witness.From)
				if longer > 0 || longer == 0 && x.Witness.From < shown.Witness.From {
					t.Fatalf("%s shows the overlap from %d to %d instead of %d to %d:\n%s", property,
						shown.Witness.From, shown.Witness.To, x.Witness.From, x.Witness.To, histories.FormatLines(h))
				}
			}
		}
		numOverlaps += min(want, 1)
	}
	if numOverlaps < numCases/6 || !slices.Contains(Properties(), verdict.HolderNotified) {
		t.Errorf("%d of %d histories have overlaps; the comparison is one-sided", numOverlaps, numCases)
	}
}
