package checker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/checker/bruteforce"
	"lockpick/harness/history"
)

// Three clients, one lock, two nodes; what is said of c1 and c2 is put between.
const fencingPrelude = "\nparams clients=c1,c2,c3 nodes=n1,n2"

// fencingRows is what tokens may be, where the resource doesn't ask for them.
var fencingRows = []struct {
	name      string
	history   string
	outcome   Outcome
	cause     string
	incidents int
	because   string
}{
	{"no tokens", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1`, NotExercised, "", 0, "gave no fencing tokens"},
	{"they rise", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=1
3 c2 invoke acquire session=c2/1
4 c2 ok acquire session=c2/1 fence=7`, Holds, "", 0, "2 tokens rose"},
	{"they fall", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=7
3 c2 invoke acquire session=c2/1
4 c2 ok acquire session=c2/1 fence=1`, Violated, TokenOrder, 1, "c2 got token 1 with lock-1 at 4 s, though c1 had got 7 by 2 s, before that attempt began at 3 s"},
	{"one twice", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=7
3 c2 invoke acquire session=c2/1
4 c2 ok acquire session=c2/1 fence=7`, Violated, TokenTwice, 1, "c1 and c2 both got token 7"},
	{"one twice at once", `
1 c1 invoke acquire session=c1/1
1 c2 invoke acquire session=c2/1
4 c1 ok acquire session=c1/1 fence=7
4 c2 ok acquire session=c2/1 fence=7`, Violated, TokenTwice, 1, "c1 and c2 both got token 7"},
	{"one client's own", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=7
3 c1 invoke acquire session=c1/2
4 c1 ok acquire session=c1/2 fence=6`, Violated, TokenOrder, 1, "c1 got token 6"},
	{"of two locks", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=7
3 c2 invoke acquire session=c2/1 key=lock-2
4 c2 ok acquire session=c2/1 key=lock-2 fence=7`, NotExercised, "", 0, "none to compare it with"},
	{"called at the instant of a return", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=7
2 c2 invoke acquire session=c2/1
4 c2 ok acquire session=c2/1 fence=1`, Holds, "", 0, ""},
	{"called before, asked after", `
1 c1 invoke acquire session=c1/1
1 c2 invoke acquire session=c2/1
2 c1 ok acquire session=c1/1 fence=7
3 c2-n1 ok set token=B sent=2.5 applied=2.7
4 c2 ok acquire session=c2/1 token=B fence=1`, Violated, TokenOrder, 1, "before that attempt began at 2.5 s"},
	{"called before, one node asked before", `
1 c1 invoke acquire session=c1/1
1 c2 invoke acquire session=c2/1
2 c1 ok acquire session=c1/1 fence=7
3 c2-n1 ok set token=B sent=2.5 applied=2.7
3 c2-n2 fail set token=B sent=1.5 applied=2.7
4 c2 ok acquire session=c2/1 token=B fence=1`, Holds, "", 0, ""},
	{"another attempt's set, another client's, another lock's", `
1 c1 invoke acquire session=c1/1
1 c2 invoke acquire session=c2/1
1.7 c2-n1 ok set token=A sent=1.5 applied=1.6
1.7 c3-n1 ok set token=B sent=1.5 applied=1.6
1.7 c2-n1 ok set token=B sent=1.5 applied=1.6 key=lock-2
2 c1 ok acquire session=c1/1 fence=7
3 c2-n1 ok set token=B sent=2.5 applied=2.7
4 c2 ok acquire session=c2/1 token=B fence=1`, Violated, TokenOrder, 1, "before that attempt began at 2.5 s"},
	{"a set that nobody knows the time of", `
1 c1 invoke acquire session=c1/1
1 c2 invoke acquire session=c2/1
2 c1 ok acquire session=c1/1 fence=7
3 c2-n1 ok set token=B sent=2.5 applied=2.7
3 c2-n2 ok set token=B sent=0 applied=2.7
4 c2 ok acquire session=c2/1 token=B fence=1`, Holds, "", 0, ""},
	{"the lock does not tell its token", `
1 c1 invoke acquire session=c1/1
1 c2 invoke acquire session=c2/1
2 c1 ok acquire session=c1/1 fence=7
3 c2-n1 ok set token=B sent=2.5 applied=2.7
4 c2 ok acquire session=c2/1 fence=1`, Holds, "", 0, ""},
	{"the record is cut, and may lack the first set", `
cut here
1 c1 invoke acquire session=c1/1
1 c2 invoke acquire session=c2/1
2 c1 ok acquire session=c1/1 fence=7
3 c2-n1 ok set token=B sent=2.5 applied=2.7
4 c2 ok acquire session=c2/1 token=B fence=1`, Holds, "", 0, ""},
	{"one token for all attempts and acquires", `
1 c2 invoke acquire session=c2/1
1.3 c2-n1 ok set token=B sent=1.1 applied=1.2
1.4 c2 ok acquire session=c2/1 token=B fence=3
1.5 c1 invoke acquire session=c1/1
1.6 c2 invoke acquire session=c2/2
2 c1 ok acquire session=c1/1 fence=7
3 c2-n1 ok set token=B sent=2.5 applied=2.7
4 c2 ok acquire session=c2/2 token=B fence=6`, Violated, TokenOrder, 1, "before that attempt began at 2.5 s"},
	{"a failed acquire between", `
1 c1 invoke acquire session=c1/1
2 c1 ok acquire session=c1/1 fence=7
3 c2 invoke acquire session=c2/1
4 c2 info acquire session=c2/1 fence=1
5 c3 invoke acquire session=c3/1
6 c3 ok acquire session=c3/1 fence=8`, Holds, "", 0, "2 tokens rose"},
}

func TestFencingOrder(t *testing.T) {
	for _, row := range fencingRows {
		t.Run(row.name, func(t *testing.T) {
			res := judge(newRecord(tale(t, fencingPrelude+row.history+"\n12 harness end run")), FencingOrder)
			if res.Outcome != row.outcome || res.Cause != row.cause || res.Incidents != row.incidents || !strings.Contains(res.Because, row.because) {
				t.Errorf("got %s %s, %d incidents: %s\nwant %s %s, %d: %s", res.Outcome, res.Cause, res.Incidents, res.Because,
					row.outcome, row.cause, row.incidents, row.because)
			}
		})
	}
}

// c1 believes from 0.2 s to 5 s and c2 from 5.2 s to 10 s, with tokens 1 and 2; c3's
// lease, with token 3, ended before.
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

// fencedLogs is what the resource's log may hold.
var fencedLogs = []struct {
	name      string
	params    string
	log       string
	outcome   Outcome
	cause     string
	incidents int
	because   string
}{
	{"in order", "fence=token", `
r1 ok log session=c1/1 fence=1 applied=1 cause=read
r1 ok log session=c1/1 fence=1 value=x applied=2 cause=write
r1 ok log session=c2/1 fence=2 applied=6.1 cause=read
r1 fail log session=c1/1 fence=1 value=x2 applied=6.2 cause=write
r1 ok log session=c2/1 fence=2 value=y applied=7.1 cause=write`, Holds, "", 0, "the resource went by them in 5 answers"},
	{"a write below a read", "fence=token", `
r1 ok log session=c2/1 fence=2 applied=6.1 cause=read
r1 ok log session=c1/1 fence=1 value=x applied=6.2 cause=write`, Violated, StaleAccepted, 1,
		"c1's write with token 1 was accepted at 6.2 s, and the highest before was 2, of c2 at 6.1 s"},
	{"a read below a read", "fence=token", `
r1 ok log session=c2/1 fence=2 applied=6.1 cause=read
r1 ok log session=c1/1 fence=1 applied=6.2 cause=read`, Violated, StaleAccepted, 1, "c1's read with token 1 was accepted"},
	{"a refused one sets no mark", "fence=token", `
r1 ok log session=c2/1 fence=2 applied=6.1 cause=read
r1 fail log session=c1/1 fence=1 applied=6.2 cause=read
r1 fail log session=c3/1 fence=3 applied=6.3 cause=read
r1 ok log session=c2/1 fence=2 value=y applied=7.1 cause=write`, Violated, FreshRefused, 1,
		"c3's read with token 3 was refused at 6.3 s, and the highest before was 2, of c2"},
	{"the first of all is refused", "fence=token", `
r1 fail log session=c1/1 fence=1 applied=1 cause=read`, Violated, FreshRefused, 1, "none had been accepted before"},
	{"as high as the highest, and refused", "fence=token", `
r1 ok log session=c1/1 fence=1 applied=1 cause=read
r1 fail log session=c1/1 fence=1 value=x applied=2 cause=write`, Violated, FreshRefused, 1, "c1's write with token 1 was refused at 2 s, and the highest before was 1"},
	{"the valid holder, by an earlier one's token", "fence=token", `
r1 ok log session=c3/1 fence=3 applied=0.03 cause=read
r1 fail log session=c2/1 fence=2 value=y applied=7.1 cause=write`, Violated, HolderRefused, 1,
		"c2 held lock-1 when its write with token 2 was refused at 7.1 s, and the highest before was 3, of c3"},
	{"the valid holder's read", "fence=token", `
r1 ok log session=c3/1 fence=3 applied=0.03 cause=read
r1 fail log session=c2/1 fence=2 applied=6.1 cause=read`, Violated, HolderRefused, 1, "its read with token 2"},
	{"one that may have been answered after its lease", "fence=token", `
r1 ok log session=c3/1 fence=3 applied=0.03 cause=read
r1 fail log session=c2/1 fence=2 value=y applied=10.1 cause=write`, Holds, "", 0, ""},
	{"the same, by the error of the stamps", "fence=token stampError=200ms", `
r1 ok log session=c3/1 fence=3 applied=0.03 cause=read
r1 fail log session=c2/1 fence=2 value=y applied=9.7 cause=write`, Holds, "", 0, ""},
	{"the error of the stamps leaves a client's own order", "fence=token stampError=200ms\n7.95 c2 invoke release session=c2/1", `
r1 ok log session=c3/1 fence=3 applied=0.03 cause=read
r1 fail log session=c2/1 fence=2 value=y applied=7.85 cause=write`, Violated, HolderRefused, 1, "refused at 7.85 s"},
	{"nobody knows when", "fence=token", `
r1 ok log session=c3/1 fence=3 applied=0.03 cause=read
r1 fail log session=c2/1 fence=2 value=z cause=write`, Holds, "", 0, ""},
	{"only the client knows when", "fence=token", `
r1 ok log session=c3/1 fence=3 applied=0.03 cause=read
r1 fail log session=c2/1 fence=2 cause=read
r1 fail log session=c2/1 fence=2 value=y cause=write`, Violated, HolderRefused, 2, "c2 held lock-1 when its read with token 2"},
	{"by the token of who was granted it since: the lock's fault", "fence=token", `
r1 ok log session=c2/1 fence=2 applied=4 cause=read
r1 fail log session=c1/1 fence=1 value=x applied=4.5 cause=write`, Holds, "", 0, ""},
	{"by a stranger's token", "fence=token", `
r1 ok log session=c9/1 fence=9 applied=4 cause=read
r1 fail log session=c2/1 fence=2 value=y applied=7.1 cause=write`, Violated, HolderRefused, 1, "of session c9/1"},
	{"each lock has marks of its own", "fence=token", `
r1 ok log session=c2/1 fence=2 applied=6.1 cause=read
r1 ok log session=c1/1 key=lock-2 fence=1 applied=6.2 cause=read`, NotExercised, "", 0, ""},
	{"by claims there are no tokens", "fence=check-and-set", `
r1 ok log session=c1/1 applied=1 cause=claim
r1 ok log session=c3/1 applied=6 cause=claim
r1 fail log session=c2/1 value=y applied=7.1 cause=write`, NotExercised, "", 0, "gave no fencing tokens"},
	{"the log is missing", "fence=token", "", Undecided, "", 0, "was not read back"},
	{"the log may go on", "fence=token\ncut in the middle", `
r1 ok log session=c1/1 fence=1 applied=1 cause=read`, Undecided, "", 0, "may not be whole"},
	{"the log may go on, but what is there suffices", "fence=token\ncut in the middle", `
r1 ok log session=c2/1 fence=2 applied=6.1 cause=read
r1 ok log session=c1/1 fence=1 applied=6.2 cause=read`, Violated, StaleAccepted, 1, ""},
}

func TestFencedResource(t *testing.T) {
	for _, row := range fencedLogs {
		t.Run(row.name, func(t *testing.T) {
			text := fmt.Sprintf(fencedPrelude, row.params) + strings.ReplaceAll(row.log, "\nr1", "\n11 r1") + "\n12 harness end run"
			res := judge(newRecord(tale(t, text)), FencingOrder)
			if res.Outcome != row.outcome || res.Cause != row.cause || res.Incidents != row.incidents || !strings.Contains(res.Because, row.because) {
				t.Errorf("got %s %s, %d incidents: %s\nwant %s %s, %d: %s", res.Outcome, res.Cause, res.Incidents, res.Because,
					row.outcome, row.cause, row.incidents, row.because)
			}
		})
	}
}

// Under check-and-set a claim that comes late makes the resource refuse the valid
// holder. It is measured, not judged.
func TestRefusedHolders(t *testing.T) {
	for _, row := range []struct {
		fence string
		want  float64
	}{{"check-and-set", 1}, {"token", 1}, {"none", 0}} {
		text := fmt.Sprintf(fencedPrelude, "fence="+row.fence) + `
11 r1 fail log session=c2/1 value=y applied=7.1 cause=write
11 r1 fail log session=c1/1 value=x applied=7.2 cause=write
12 harness end run`
		if n, ok := numbers(newRecord(tale(t, text)))[RefusedHolders]; n != row.want || ok != (row.fence != "none") {
			t.Errorf("%s: %g, %v; want %g", row.fence, n, ok, row.want)
		}
	}
}

// TestFencingAgainstDumb compares the counts with those of a judge that looks at
// every pair and every entry anew.
func TestFencingAgainstDumb(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	seen := map[string]int{}
	for i := range 20_000 {
		h := randomFenced(rnd)
		r := newRecord(h)
		got := map[string]int{}
		for _, x := range slices.Concat(disorders(r, r.fencedGrants()), refusals(r)) {
			got[x.class]++
		}
		want := dumbFencing(h)
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("history %d: got %v, want %v:\n%s", i, got, want, lines(h))
		}
		for class := range want {
			seen[class]++
		}
		if len(want) == 0 {
			seen["holds"]++
		}
	}
	for _, class := range []string{"holds", HolderRefused, StaleAccepted, FreshRefused, TokenOrder, TokenTwice} {
		if seen[class] < 200 {
			t.Errorf("%s in %d of 20000 histories: the comparison is one-sided (%v)", class, seen[class], seen)
		}
	}
}

// randomFenced adds tokens, sets and a resource's log to a random history.
func randomFenced(rnd *rand.Rand) *history.History {
	h := randomHistory(rnd)
	h.Params.Fence, h.Params.StampError = "token", time.Duration(beat*int64(rnd.IntN(4)/3))
	var granted []history.Event
	for i := range h.Events {
		e := &h.Events[i]
		if e.Op != history.OpAcquire || e.Type != history.OK {
			continue
		}
		e.Fence, e.Token = max(0, int64(len(granted)+rnd.IntN(4)-1)), []string{"", e.Session, "shared"}[rnd.IntN(3)]
		granted = append(granted, *e)
	}
	add := func(e history.Event) {
		e.N, e.Key = int64(len(h.Events)+1), "k"
		h.Events = append(h.Events, e)
	}
	end := h.Events[len(h.Events)-1].T
	for _, g := range granted {
		for range rnd.IntN(3) {
			at := max(0, g.T-beat*int64(rnd.IntN(6)-1))
			add(history.Event{T: end, Process: g.Process + "-n1", Node: "n1", Type: history.OK, Op: history.OpSet, Token: g.Token, Sent: at})
		}
	}
	top := int64(0)
	for range rnd.IntN(5) {
		if len(granted) == 0 {
			break
		}
		g := granted[rnd.IntN(len(granted))]
		e := history.Event{T: end, Process: "r1", Type: history.OK, Op: history.OpLog, Cause: history.OpWrite, Session: g.Session,
			Fence: int64(rnd.IntN(6)), Applied: g.T + beat/2 + beat*int64(rnd.IntN(6))}
		if right := rnd.IntN(6) > 0; right == (e.Fence < top) { // mostly the resource does as it should
			e.Type = history.Fail
		} else {
			top = max(top, e.Fence)
		}
		add(e)
	}
	return h
}

// dumbFencing counts what fails by class, as the doc of fencingOrder says it.
func dumbFencing(h *history.History) map[string]int {
	counts := map[string]int{}
	margin := 2 * int64(h.Params.StampError)
	var grants []*fencedGrant
	for i := range h.Events {
		if e := &h.Events[i]; e.Op == history.OpAcquire && e.Type == history.OK && e.Fence != 0 {
			grants = append(grants, &fencedGrant{session: &session{Acquire: operation{Call: dumbCall(h, e.Session), Return: e}}, fence: e.Fence, begin: dumbBegin(h, e), end: e.T})
		}
	}
	// Of two that have one token, the one that began later has it twice; of equals, that which returned later.
	slices.SortStableFunc(grants, func(a, b *fencedGrant) int { return int(a.begin - b.begin) })
	for i, g := range grants {
		higher, same := false, false
		for j, o := range grants {
			higher = higher || o.end+margin < g.begin && o.fence > g.fence
			same = same || j < i && o.fence == g.fence
		}
		if higher {
			counts[TokenOrder]++
		} else if same {
			counts[TokenTwice]++
		}
	}
	var before []history.Event
	for _, e := range h.Events {
		if e.Op != history.OpLog {
			continue
		}
		var top *history.Event
		for i, b := range before {
			if b.Type == history.OK && (top == nil || b.Fence > top.Fence) {
				top = &before[i]
			}
		}
		before = append(before, e)
		switch below := top != nil && e.Fence < top.Fence; {
		case e.Type == history.OK && below:
			counts[StaleAccepted]++
		case e.Type == history.Fail && !below:
			counts[FreshRefused]++
		case e.Type == history.Fail && dumbHolder(h, e.Session, e.Applied, top.Session, margin):
			counts[HolderRefused]++
		}
	}
	return counts
}

func dumbCall(h *history.History, session string) *history.Event {
	i := slices.IndexFunc(h.Events, func(e history.Event) bool { return e.Session == session && e.Op == history.OpAcquire })
	return &h.Events[i]
}

// dumbBegin is the earliest set with the winning token that can belong to the acquire.
func dumbBegin(h *history.History, ret *history.Event) int64 {
	call, margin := dumbCall(h, ret.Session).T, 2*int64(h.Params.StampError)
	begin := int64(never)
	for _, e := range h.Events {
		if e.Op != history.OpSet || e.Process != ret.Process+"-n1" || ret.Token == "" || e.Token != ret.Token {
			continue
		}
		if e.Sent == 0 {
			begin = min(begin, call)
		} else if call <= e.Sent+margin && e.Sent <= ret.T+margin {
			begin = min(begin, e.Sent)
		}
	}
	if begin == never {
		return call
	}
	return begin
}

// dumbHolder asks of each instant who believed: the refused session without a
// break from its grant until it was refused, and the other only before that.
func dumbHolder(h *history.History, session string, refused int64, other string, margin int64) bool {
	if session == other {
		other = ""
	}
	end := h.Events[len(h.Events)-1].T
	in := func(s string, at int64) bool { return at < end && bruteforce.Believes(h, s, at) }
	var from int64
	for _, e := range h.Events {
		if e.Op == history.OpAcquire && e.Type == history.OK {
			if e.Session == session {
				from = e.T
			}
		}
	}
	for at := from; at < refused+margin; at += beat {
		if !in(session, at+beat/2) {
			return false
		}
	}
	if other == "" {
		return true
	}
	var to int64
	for to = from; in(session, to+beat/2); to += beat {
	}
	for _, e := range h.Events {
		if e.Op == history.OpAcquire && e.Type == history.OK && e.Session == other && e.T+margin >= from {
			return false
		}
	}
	for at := int64(0); at <= end; at += beat {
		if in(other, at+beat/2) && at < to+margin && at+beat+margin > from {
			return false
		}
	}
	return true
}
