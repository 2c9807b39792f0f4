package checker

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/internal/bruteforce"
	"lockpick/internal/histories"
)

// boundedPrelude grants c1 the lock at 1 s, with a deadline at 11 s.
const boundedPrelude = `
params clients=c1,c2 nodes=n1 %s
1 c1 invoke acquire session=c1/1
1 c1 ok acquire session=c1/1 until=11
`

// extensions returns n extensions, one every 3 s, each of which extends the lock by 10 s.
func extensions(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d c1 invoke extend session=c1/1\n%d c1 ok extend session=c1/1 until=%d\n", 4+3*i, 4+3*i, 14+3*i)
	}
	return b.String()
}

var boundedRows = []struct {
	name, params, history string
	outcome               verdict.Outcome
	cause                 string
	occasions             int
	because               string
}{
	{"no extension", "maxExtends=3 maxHold=20s", "", verdict.NotExercised, "", 0, "no client extended a lock"},
	{"no extension and no limits", "", "", verdict.NotExercised, "", 0, "no client extended a lock"},
	{"no limits", "", extensions(1), verdict.Undecided, "", 1, "sets no limits"},
	{"only one limit, not exceeded", "maxExtends=3", extensions(3), verdict.Undecided, "", 1, "sets no limits"},
	{"only the limit on extensions, exceeded", "maxExtends=2", extensions(3), verdict.Violated, verdict.ExtendedTooOften, 1, "c1 extended its hold of lock-1 3 times (limit 2) and held it from 1 s to 20 s (19 s)"},
	{"only the limit on the hold, exceeded", "maxHold=18s", extensions(3), verdict.Violated, verdict.HeldTooLong, 1, "3 times and held it from 1 s to 20 s (19 s) (limit 18 s)"},
	{"up to both limits", "maxExtends=3 maxHold=19s", extensions(3), verdict.Holds, "", 1, "the most extended hold had 3 extensions (limit 3), and the longest lasted 19 s (limit 19 s)"},
	{"one too many", "maxExtends=2 maxHold=19s", extensions(3), verdict.Violated, verdict.ExtendedTooOften, 1, ""},
	{"too long", "maxExtends=3 maxHold=18999ms", extensions(3), verdict.Violated, verdict.HeldTooLong, 1, ""},
	{"too long by less than the timestamp error", "maxExtends=3 maxHold=18999ms stampError=1ms", extensions(3), verdict.Holds, "", 1, ""},
	{"too long by the error of two timestamps", "maxExtends=3 maxHold=18s stampError=500ms", extensions(3), verdict.Holds, "", 1, ""},
	{"too long by as much as the host stalled", "maxExtends=3 maxHold=18s", extensions(3) + "5.1 nemesis begin stall node=machine\n6.1 nemesis end stall node=machine\n",
		verdict.Undecided, "", 1, "the host stalled for 1 s in the meantime"},
	{"the first limit exceeded", "maxExtends=2 maxHold=8s", extensions(3), verdict.Violated, verdict.HeldTooLong, 1, ""},
	{"the first limit exceeded, in the other order", "maxExtends=1 maxHold=12s", extensions(3), verdict.Violated, verdict.ExtendedTooOften, 1, ""},
	{"both limits at the same instant", "maxExtends=1 maxHold=6s", extensions(2), verdict.Violated, verdict.ExtendedTooOften, 1, ""},
	{"two holds that exceed it at the same instant", "maxExtends=1", "2 c2 invoke acquire session=c2/1 key=lock-2\n2 c2 ok acquire session=c2/1 key=lock-2 until=12\n" +
		"3 c2 invoke extend session=c2/1\n3 c2 ok extend session=c2/1 until=13\n7 c2 invoke extend session=c2/1\n7 c2 ok extend session=c2/1 until=17\n" +
		extensions(2), verdict.Violated, verdict.ExtendedTooOften, 2, "c1 extended its hold of lock-1 2 times"},
	{"too long without any extension", "maxExtends=3 maxHold=9s", "", verdict.Violated, verdict.HeldTooLong, 1, "c1 extended its hold of lock-1 0 times"},
	{"a release ends it", "maxExtends=3 maxHold=9s", "5 c1 invoke release session=c1/1\n5 c1 ok release session=c1/1\n", verdict.NotExercised, "", 0, ""},
	{"only granted extensions count", "maxExtends=1 maxHold=20s", extensions(1) +
		"7 c1 invoke extend session=c1/1\n8 c1 info extend session=c1/1\n9 c1 invoke extend session=c1/1\n10 c1 fail extend session=c1/1\n", verdict.Holds, "", 1,
		"the most extended hold had 1 extension (limit 1), and the longest lasted 9 s"},
	{"an inner release is no extension", "maxExtends=1 maxHold=20s", extensions(1) +
		"7 c1 invoke extend session=c1/1 value=release\n7 c1 ok extend session=c1/1 value=release until=14\n", verdict.Holds, "", 1, "the most extended hold had 1 extension (limit 1)"},
	{"the answer that the lock is held is no extension", "maxExtends=1 maxHold=20s", extensions(1) +
		"15 c1 invoke extend session=c1/1 value=check\n15 c1 ok extend session=c1/1 value=check until=20\n", verdict.Holds, "", 1, "the most extended hold had 1 extension (limit 1)"},
	{"a repeated acquire is an extension", "maxExtends=1 maxHold=20s", extensions(1) +
		"7 c1 invoke extend session=c1/1 value=acquire\n7 c1 ok extend session=c1/1 value=acquire until=14\n", verdict.Violated, verdict.ExtendedTooOften, 1, "2 times"},
	{"each hold by itself", "maxExtends=2 maxHold=20s", extensions(2) + "8 c1 invoke release session=c1/1\n8 c1 ok release session=c1/1\n" +
		"9 c2 invoke acquire session=c2/1\n9 c2 ok acquire session=c2/1 until=19\n10 c2 invoke extend session=c2/1\n10 c2 ok extend session=c2/1 until=20\n", verdict.Holds, "", 2,
		"the most extended hold had 2 extensions"},
	{"the first of two holds that exceed it", "maxExtends=1", "2 c2 invoke acquire session=c2/1 key=lock-2\n2 c2 ok acquire session=c2/1 key=lock-2 until=12\n" +
		"3 c2 invoke extend session=c2/1\n3 c2 ok extend session=c2/1 until=13\n4 c2 invoke extend session=c2/1\n4 c2 ok extend session=c2/1 until=14\n" +
		extensions(2), verdict.Violated, verdict.ExtendedTooOften, 2, "c2 extended its hold of lock-2 2 times"},
	{"an acquire of unknown outcome that an extension confirms", "maxExtends=1", "20 c1 invoke release session=c1/1\n20 c1 ok release session=c1/1\n" +
		"21 c1 invoke acquire session=c1/2\n22 c1 info acquire session=c1/2\n23 c1 invoke extend session=c1/2\n23 c1 ok extend session=c1/2 until=30\n" +
		"24 c1 invoke extend session=c1/2\n24 c1 ok extend session=c1/2 until=31\n", verdict.Violated, verdict.ExtendedTooOften, 1, "c1 extended its hold of lock-1 2 times"},
	{"extensions without belief", "maxExtends=1", "20 c1 invoke release session=c1/1\n20 c1 ok release session=c1/1\n" +
		"21 c1 invoke acquire session=c1/2\n22 c1 info acquire session=c1/2\n23 c1 invoke extend session=c1/2\n23 c1 fail extend session=c1/2\n", verdict.NotExercised, "", 0, "no client extended"},
	{"a late extension belongs to the same hold", "maxExtends=2 maxHold=20s",
		"10 c1 invoke extend session=c1/1\n15 c1 ok extend session=c1/1 until=22\n", verdict.Violated, verdict.HeldTooLong, 1, "from 1 s to 22 s"},
}

func TestBoundedHold(t *testing.T) {
	for _, row := range boundedRows {
		t.Run(row.name, func(t *testing.T) {
			res := judge(newRecord(parseHistory(t, fmt.Sprintf(boundedPrelude, row.params)+row.history+"40 harness end run")), verdict.BoundedHold)
			if res.Outcome != row.outcome || res.Cause != row.cause || res.Occasions != row.occasions || !strings.Contains(res.Because, row.because) {
				t.Errorf("got %s %s, %d occasions: %s\nwant %s %s, %d: %s", res.Outcome, res.Cause, res.Occasions, res.Because,
					row.outcome, row.cause, row.occasions, row.because)
			}
			if (res.Witness != nil) != (res.Outcome == verdict.Violated) {
				t.Errorf("got witness %+v for a result that is %s", res.Witness, res.Outcome)
			}
		})
	}
}

// A witness stays short and ends with the first extension beyond the limit.
func TestLongWitness(t *testing.T) {
	h := parseHistory(t, fmt.Sprintf(boundedPrelude, "maxExtends=50")+extensions(60)+"400 harness end run")
	w := judge(newRecord(h), verdict.BoundedHold).Witness
	if last := w.Events[len(w.Events)-1]; len(w.Events) != 2+maxShownExtensions || last != 2+2*51 {
		t.Errorf("got witness %v, want %d events up to %d", w.Events, 2+maxShownExtensions, 2+2*51)
	}
}

// TestBoundedHoldAgainstNaive compares the incidents with those of a judge that checks at each
// instant whether the client believed that it held the lock.
func TestBoundedHoldAgainstNaive(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	numViolated, n := 0, histories.NumCases(10_000)
	for i := range n {
		h := histories.Random(rnd)
		h.Params.MaxExtends, h.Params.MaxHold = 1+rnd.IntN(2), time.Duration(histories.Beat*int64(3+rnd.IntN(12)))
		got, want := judge(newRecord(h), verdict.BoundedHold), naiveBounded(h)
		if got.Incidents != want || (got.Outcome == verdict.Violated) != (want > 0) {
			t.Fatalf("history %d: %s with %d incidents, want %d: %s\n%s", i, got.Outcome, got.Incidents, want, got.Because, histories.FormatLines(h))
		}
		if want > 0 {
			numViolated++
		}
	}
	if numViolated < n/10 || numViolated > 9*n/10 {
		t.Errorf("%d of %d histories are violated; the comparison is one-sided", numViolated, n)
	}
}

func naiveBounded(h *history.History) int {
	end := h.Events[len(h.Events)-1].T
	incidents := 0
	for _, e := range h.Events {
		if e.Op != history.OpAcquire || e.Type != history.Invoke {
			continue
		}
		granted := false
		numExtensions, first, last := 0, int64(-1), int64(-1)
		for _, x := range h.Events {
			if x.Session == e.Session && x.Type == history.OK {
				switch x.Op {
				case history.OpExtend:
					numExtensions++
				case history.OpAcquire:
					granted = true
				}
			}
		}
		for at := int64(0); at <= end; at += histories.Beat {
			if bruteforce.BelievedHolder(h, e.Session, at+histories.Beat/2) {
				if first < 0 {
					first = at
				}
				last = min(at+histories.Beat, end)
			}
		}
		if !granted && first < 0 { // the client never believed that it held the lock
			continue
		}
		if numExtensions > h.Params.MaxExtends || last-first-2*int64(h.Params.StampError) > int64(h.Params.MaxHold) {
			incidents++
		}
	}
	return incidents
}

func TestValidityLeft(t *testing.T) {
	r := newRecord(parseHistory(t, `params clients=c1
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 until=5
6 c1 invoke acquire session=c1/2
7 c1 ok acquire session=c1/2
8 c1 invoke acquire session=c1/3
9 c1 ok acquire session=c1/3 until=8
9 c1 invoke acquire session=c1/4
9 c1 ok acquire session=c1/4 until=11
12 harness end run`))
	if n, _ := numbers(r); n["validity-left-min"] != -1 || n["validity-left-p50"] != 2 {
		t.Errorf("got smallest %g and median %g, want -1 and 2", n["validity-left-min"], n["validity-left-p50"])
	}
	n, _ := numbers(newRecord(parseHistory(t, "params clients=c1\n12 harness end run")))
	if n, ok := n["validity-left-min"]; ok {
		t.Errorf("got %g although there is no acquire", n)
	}
}
