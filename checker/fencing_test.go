package checker

import (
	"fmt"
	"strings"
	"testing"

	"lockpick/checker/verdict"
)

// fencingPrelude defines three clients and two nodes. Each row adds client events.
const fencingPrelude = "\nparams clients=c1,c2,c3 nodes=n1,n2"

// fencingRows contain the tokens of a lock whose resource does not check them.
var fencingRows = []struct {
	name      string
	history   string
	outcome   verdict.Outcome
	cause     string
	incidents int
	because   string
}{
	{"no tokens", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1`, verdict.NotExercised, "", 0, "issued no fencing tokens"},
	{"rising tokens", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=1
3 c2 invoke acquire session=c2/1
4 c2 ok acquire session=c2/1 fence=7`, verdict.Holds, "", 0, "2 tokens rose"},
	{"falling tokens", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=7
3 c2 invoke acquire session=c2/1
4 c2 ok acquire session=c2/1 fence=1`, verdict.Violated, verdict.TokenOrder, 1, "c2 got token 1 with lock-1 at 4 s, but c1 had got token 7 by 2 s, before that attempt began at 3 s"},
	{"one token twice", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=7
3 c2 invoke acquire session=c2/1
4 c2 ok acquire session=c2/1 fence=7`, verdict.Violated, verdict.TokenTwice, 1, "c1 and c2 both got token 7"},
	{"one token twice at the same time", `
1 c1 invoke acquire session=c1/1
1 c2 invoke acquire session=c2/1
4 c1 ok acquire session=c1/1 fence=7
4 c2 ok acquire session=c2/1 fence=7`, verdict.Violated, verdict.TokenTwice, 1, "c1 and c2 both got token 7"},
	{"two tokens of one client", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=7
3 c1 invoke acquire session=c1/2
4 c1 ok acquire session=c1/2 fence=6`, verdict.Violated, verdict.TokenOrder, 1, "c1 got token 6"},
	{"tokens of two locks", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=7
3 c2 invoke acquire session=c2/1 key=lock-2
4 c2 ok acquire session=c2/1 key=lock-2 fence=7`, verdict.NotExercised, "", 0, "no key had tokens from two sessions to compare"},
	{"called at the instant of a return", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=7
2 c2 invoke acquire session=c2/1
4 c2 ok acquire session=c2/1 fence=1`, verdict.Holds, "", 0, ""},
	{"called before, first set after", `
1 c1 invoke acquire session=c1/1
1 c2 invoke acquire session=c2/1
2 c1 ok acquire session=c1/1 fence=7
3 c2-n1 ok set token=B sent=2.5 applied=2.7
4 c2 ok acquire session=c2/1 token=B fence=1`, verdict.Violated, verdict.TokenOrder, 1, "before that attempt began at 2.5 s"},
	{"called before, one set before", `
1 c1 invoke acquire session=c1/1
1 c2 invoke acquire session=c2/1
2 c1 ok acquire session=c1/1 fence=7
3 c2-n1 ok set token=B sent=2.5 applied=2.7
3 c2-n2 fail set token=B sent=1.5 applied=2.7
4 c2 ok acquire session=c2/1 token=B fence=1`, verdict.Holds, "", 0, ""},
	{"sets of another attempt, client and lock", `
1 c1 invoke acquire session=c1/1
1 c2 invoke acquire session=c2/1
1.7 c2-n1 ok set token=A sent=1.5 applied=1.6
1.7 c3-n1 ok set token=B sent=1.5 applied=1.6
1.7 c2-n1 ok set token=B sent=1.5 applied=1.6 key=lock-2
2 c1 ok acquire session=c1/1 fence=7
3 c2-n1 ok set token=B sent=2.5 applied=2.7
4 c2 ok acquire session=c2/1 token=B fence=1`, verdict.Violated, verdict.TokenOrder, 1, "before that attempt began at 2.5 s"},
	{"a set without a known time", `
1 c1 invoke acquire session=c1/1
1 c2 invoke acquire session=c2/1
2 c1 ok acquire session=c1/1 fence=7
3 c2-n1 ok set token=B sent=2.5 applied=2.7
3 c2-n2 ok set token=B sent=0 applied=2.7
4 c2 ok acquire session=c2/1 token=B fence=1`, verdict.Holds, "", 0, ""},
	{"the lock does not report its token", `
1 c1 invoke acquire session=c1/1
1 c2 invoke acquire session=c2/1
2 c1 ok acquire session=c1/1 fence=7
3 c2-n1 ok set token=B sent=2.5 applied=2.7
4 c2 ok acquire session=c2/1 fence=1`, verdict.Holds, "", 0, ""},
	{"a cut record that may lack the first set", `
cut here
1 c1 invoke acquire session=c1/1
1 c2 invoke acquire session=c2/1
2 c1 ok acquire session=c1/1 fence=7
3 c2-n1 ok set token=B sent=2.5 applied=2.7
4 c2 ok acquire session=c2/1 token=B fence=1`, verdict.Holds, "", 0, ""},
	{"one token for all attempts and acquires", `
1 c2 invoke acquire session=c2/1
1.3 c2-n1 ok set token=B sent=1.1 applied=1.2
1.4 c2 ok acquire session=c2/1 token=B fence=3
1.5 c1 invoke acquire session=c1/1
1.6 c2 invoke acquire session=c2/2
2 c1 ok acquire session=c1/1 fence=7
3 c2-n1 ok set token=B sent=2.5 applied=2.7
4 c2 ok acquire session=c2/2 token=B fence=6`, verdict.Violated, verdict.TokenOrder, 1, "before that attempt began at 2.5 s"},
	{"a failed acquire between", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=7
3 c2 invoke acquire session=c2/1
4 c2 info acquire session=c2/1 fence=1
5 c3 invoke acquire session=c3/1
6 c3 ok acquire session=c3/1 fence=8`, verdict.Holds, "", 0, "2 tokens rose"},
}

func TestFencingOrder(t *testing.T) {
	for _, row := range fencingRows {
		t.Run(row.name, func(t *testing.T) {
			res := judge(newRecord(parseHistory(t, fencingPrelude+row.history+"\n12 harness end run")), verdict.FencingOrder)
			if res.Outcome != row.outcome || res.Cause != row.cause || res.Incidents != row.incidents || !strings.Contains(res.Because, row.because) {
				t.Errorf("got %s %s, %d incidents: %s\nwant %s %s, %d: %s", res.Outcome, res.Cause, res.Incidents, res.Because,
					row.outcome, row.cause, row.incidents, row.because)
			}
		})
	}
}

// If a token is issued several times, each later holder is compared with the first one.
func TestTokenIssuedThreeTimes(t *testing.T) {
	all := Incidents(parseHistory(t, fencingPrelude+`
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=7
3 c2 invoke acquire session=c2/1
4 c2 ok acquire session=c2/1 fence=7
5 c3 invoke acquire session=c3/1
6 c3 ok acquire session=c3/1 fence=7
12 harness end run`), verdict.FencingOrder, 9)
	for i, want := range []string{"c1 and c2 both got token 7", "c1 and c3 both got token 7"} {
		if len(all) != 2 || !strings.Contains(all[i].Because, want) {
			t.Fatalf("got %+v, want %q", all, want)
		}
	}
}

// In fencedPrelude, c1 believes it holds the lock from 0.2 s to 5 s, and c2 from 5.2 s to 10 s,
// with tokens 1 and 2. c3's lease, with token 3, ended before.
const fencedPrelude = `
params clients=c1,c2,c3 nodes=n1 %s
0.01 c3 invoke acquire session=c3/1
0.02 c3 ok acquire session=c3/1 until=0.05
0.1 c1 invoke acquire session=c1/1
0.2 c1 ok acquire session=c1/1 until=5
5.1 c2 invoke acquire session=c2/1
5.2 c2 ok acquire session=c2/1 until=10
6.0 c2 invoke read session=c2/1
6.9 c2 ok read session=c2/1
7.0 c2 invoke write session=c2/1 value=y
7.9 c2 ok write session=c2/1`

var fencedLogs = []struct {
	name      string
	params    string
	log       string
	outcome   verdict.Outcome
	cause     string
	incidents int
	because   string
}{
	{"in order", "fence=token", `
r1 ok log session=c1/1 fence=1 applied=1 cause=read
r1 ok log session=c1/1 fence=1 value=x applied=2 cause=write
r1 ok log session=c2/1 fence=2 applied=6.1 cause=read
r1 fail log session=c1/1 fence=1 value=x2 applied=6.2 cause=write
r1 ok log session=c2/1 fence=2 value=y applied=7.1 cause=write`, verdict.Holds, "", 0, "the resource enforced them in 5 answers"},
	{"a write below a read", "fence=token", `
r1 ok log session=c2/1 fence=2 applied=6.1 cause=read
r1 ok log session=c1/1 fence=1 value=x applied=6.2 cause=write`, verdict.Violated, verdict.StaleAccepted, 1,
		"c1's write with token 1 was accepted at 6.2 s; the highest token before that was 2, from c2 at 6.1 s"},
	{"the first of two with the highest token is named", "fence=token", `
r1 ok log session=c2/1 fence=2 applied=6.1 cause=read
r1 ok log session=c2/1 fence=2 value=y applied=7.1 cause=write
r1 ok log session=c1/1 fence=1 value=x applied=7.2 cause=write`, verdict.Violated, verdict.StaleAccepted, 1, "the highest token before that was 2, from c2 at 6.1 s"},
	{"a read below a read", "fence=token", `
r1 ok log session=c2/1 fence=2 applied=6.1 cause=read
r1 ok log session=c1/1 fence=1 applied=6.2 cause=read`, verdict.Violated, verdict.StaleAccepted, 1, "c1's read with token 1 was accepted"},
	{"a refused access does not raise the highest token", "fence=token", `
r1 ok log session=c2/1 fence=2 applied=6.1 cause=read
r1 fail log session=c1/1 fence=1 applied=6.2 cause=read
r1 fail log session=c3/1 fence=3 applied=6.3 cause=read
r1 ok log session=c2/1 fence=2 value=y applied=7.1 cause=write`, verdict.Violated, verdict.FreshRefused, 1,
		"c3's read with token 3 was refused at 6.3 s; the highest token before that was 2, from c2"},
	{"the first access is refused", "fence=token", `
r1 fail log session=c1/1 fence=1 applied=1 cause=read`, verdict.Violated, verdict.FreshRefused, 1, "no token had been accepted before"},
	{"refused with the highest token", "fence=token", `
r1 ok log session=c1/1 fence=1 applied=1 cause=read
r1 fail log session=c1/1 fence=1 value=x applied=2 cause=write`, verdict.Violated, verdict.FreshRefused, 1, "c1's write with token 1 was refused at 2 s; the highest token before that was 1"},
	{"the valid holder refused because of an earlier one's token", "fence=token", `
r1 ok log session=c3/1 fence=3 applied=0.03 cause=read
r1 fail log session=c2/1 fence=2 value=y applied=7.1 cause=write`, verdict.Violated, verdict.HolderRefused, 1,
		"c2 held lock-1 when its write with token 2 was refused at 7.1 s; the highest token before that was 3, from c3"},
	{"the valid holder's read", "fence=token", `
r1 ok log session=c3/1 fence=3 applied=0.03 cause=read
r1 fail log session=c2/1 fence=2 applied=6.1 cause=read`, verdict.Violated, verdict.HolderRefused, 1, "its read with token 2"},
	{"possibly answered after its lease", "fence=token", `
r1 ok log session=c3/1 fence=3 applied=0.03 cause=read
r1 fail log session=c2/1 fence=2 value=y applied=10.1 cause=write`, verdict.Holds, "", 0, ""},
	{"the same, within the timestamp error", "fence=token stampError=200ms", `
r1 ok log session=c3/1 fence=3 applied=0.03 cause=read
r1 fail log session=c2/1 fence=2 value=y applied=9.7 cause=write`, verdict.Holds, "", 0, ""},
	{"the timestamp error keeps the order of one client", "fence=token stampError=200ms\n7.95 c2 invoke release session=c2/1", `
r1 ok log session=c3/1 fence=3 applied=0.03 cause=read
r1 fail log session=c2/1 fence=2 value=y applied=7.85 cause=write`, verdict.Violated, verdict.HolderRefused, 1, "refused at 7.85 s"},
	{"refused at an unknown time", "fence=token", `
r1 ok log session=c3/1 fence=3 applied=0.03 cause=read
r1 fail log session=c2/1 fence=2 value=z cause=write`, verdict.Holds, "", 0, ""},
	{"refused at a time that only the client knows", "fence=token", `
r1 ok log session=c3/1 fence=3 applied=0.03 cause=read
r1 fail log session=c2/1 fence=2 cause=read
r1 fail log session=c2/1 fence=2 value=y cause=write`, verdict.Violated, verdict.HolderRefused, 2, "c2 held lock-1 when its read with token 2"},
	{"refused because of a later holder's token, the lock's fault", "fence=token", `
r1 ok log session=c2/1 fence=2 applied=4 cause=read
r1 fail log session=c1/1 fence=1 value=x applied=4.5 cause=write`, verdict.Holds, "", 0, ""},
	{"refused because of an unknown session's token", "fence=token", `
r1 ok log session=c9/1 fence=9 applied=4 cause=read
r1 fail log session=c2/1 fence=2 value=y applied=7.1 cause=write`, verdict.Violated, verdict.HolderRefused, 1, "from session c9/1"},
	{"each lock has its own highest token", "fence=token", `
r1 ok log session=c2/1 fence=2 applied=6.1 cause=read
r1 ok log session=c1/1 key=lock-2 fence=1 applied=6.2 cause=read`, verdict.NotExercised, "", 0, ""},
	{"claims without tokens", "fence=check-and-set", `
r1 ok log session=c1/1 applied=1 cause=claim
r1 ok log session=c3/1 applied=6 cause=claim
r1 fail log session=c2/1 value=y applied=7.1 cause=write`, verdict.NotExercised, "", 0, "issued no fencing tokens"},
	{"the log is missing", "fence=token", "", verdict.Undecided, "", 0, "was not read back"},
	{"an incomplete log", "fence=token\ncut in the middle", `
r1 ok log session=c1/1 fence=1 applied=1 cause=read`, verdict.Undecided, "", 0, "may be incomplete"},
	{"an incomplete log that suffices", "fence=token\ncut in the middle", `
r1 ok log session=c2/1 fence=2 applied=6.1 cause=read
r1 ok log session=c1/1 fence=1 applied=6.2 cause=read`, verdict.Violated, verdict.StaleAccepted, 1, ""},
}

func TestFencedResource(t *testing.T) {
	for _, row := range fencedLogs {
		t.Run(row.name, func(t *testing.T) {
			text := fmt.Sprintf(fencedPrelude, row.params) + strings.ReplaceAll(row.log, "\nr1", "\n11 r1") + "\n12 harness end run"
			res := judge(newRecord(parseHistory(t, text)), verdict.FencingOrder)
			if res.Outcome != row.outcome || res.Cause != row.cause || res.Incidents != row.incidents || !strings.Contains(res.Because, row.because) {
				t.Errorf("got %s %s, %d incidents: %s\nwant %s %s, %d: %s", res.Outcome, res.Cause, res.Incidents, res.Because,
					row.outcome, row.cause, row.incidents, row.because)
			}
		})
	}
}

// With check-and-set, a late claim makes the resource refuse the valid holder. Such refusals are
// measured but not judged.
func TestRefusedHolders(t *testing.T) {
	for _, row := range []struct {
		fence string
		want  float64
	}{{"check-and-set", 1}, {"token", 1}, {"none", 0}} {
		text := fmt.Sprintf(fencedPrelude, "fence="+row.fence) + `
11 r1 fail log session=c2/1 value=y applied=7.1 cause=write
11 r1 fail log session=c1/1 value=x applied=7.2 cause=write
12 harness end run`
		all, _ := numbers(newRecord(parseHistory(t, text)))
		if n, ok := all["refused-holders"]; n != row.want || ok != (row.fence != "none") {
			t.Errorf("%s: %g, %v; want %g", row.fence, n, ok, row.want)
		}
	}
}
