package checker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lockpick/checker/second"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

func parseHistory(t testing.TB, text string) *history.History {
	t.Helper()
	h, err := histories.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

const twoHolders = `
params clients=c1,c2 nodes=n1 quorum=1 ttl=10s
0     c1 begin client
0     c2 begin client
0.010 c1 invoke acquire session=c1/1
0.013 c1 ok acquire session=c1/1 until=5
0.020 c2 invoke acquire session=c2/1
0.023 c2 ok acquire session=c2/1 until=5
9     harness end run`

// A new property cannot hold without an occasion, whatever its search returns.
func TestNoOccasionDoesNotHold(t *testing.T) {
	defer func(old []property) { properties = old }(properties)
	describe := func() verdict.Result { return verdict.Result{Witness: &verdict.Witness{}} }
	for _, c := range []struct {
		finds verdict.Finding
		want  verdict.Result
	}{
		{verdict.Finding{}, verdict.Result{Outcome: verdict.Undecided}},
		{verdict.Finding{Occasions: 2}, verdict.Result{Outcome: verdict.Undecided, Occasions: 2}},
		{verdict.Finding{Because: "it looked"}, verdict.Result{Outcome: verdict.NotExercised}},
		{verdict.Finding{Because: "it looked", Occasions: 2}, verdict.Result{Outcome: verdict.Holds, Occasions: 2}},
		{verdict.Finding{Because: "it looked", Occasions: 2, Undecided: "or was it"}, verdict.Result{Outcome: verdict.Undecided, Occasions: 2}},
		{verdict.Finding{Because: "it looked", Occasions: 1, Undecided: "or was it", Incidents: []verdict.Incident{{Describe: describe}, {Describe: describe}}}, verdict.Result{Outcome: verdict.Violated, Occasions: 2}},
	} {
		properties = []property{{"new", livenessProperty, func(*record) verdict.Finding { return c.finds }}}
		h := parseHistory(t, twoHolders)
		if got := Check(h, "new").Results[0]; got.Outcome != c.want.Outcome || got.Occasions != c.want.Occasions {
			t.Errorf("%+v: got %+v", c.finds, got)
		}
		h.Truncation = "in the middle"
		if got := Check(h, "new").Results[0]; got.Outcome != c.want.Outcome {
			t.Errorf("cut, %+v: got %+v", c.finds, got)
		}
	}
}

func TestPanickingPropertyIsUndecided(t *testing.T) {
	defer func(old []property) { properties = old }(properties)
	properties = []property{{"broken", safetyProperty, func(r *record) verdict.Finding { return verdict.Finding{Because: r.SessionByName("nobody").Name()} }}}
	res := Check(parseHistory(t, twoHolders)).Result("broken")
	if res == nil || res.Outcome != verdict.Undecided || !strings.HasPrefix(res.Because, "the checker failed: ") {
		t.Errorf("got %+v", res)
	}
}

// A checker that panics outside a property, here because a witness is missing, decides nothing
// either.
func TestPanickingCheckerIsUndecided(t *testing.T) {
	defer func(old []property) { properties = old }(properties)
	properties = []property{{verdict.MutualExclusion, safetyProperty, func(*record) verdict.Finding {
		return verdict.Finding{Incidents: []verdict.Incident{{Describe: func() verdict.Result { return verdict.Result{} }}}}
	}}}
	res := Check(parseHistory(t, twoHolders)).Result(verdict.MutualExclusion)
	if res == nil || res.Outcome != verdict.Undecided || !strings.HasPrefix(res.Because, "the checker failed: ") {
		t.Errorf("got %+v", res)
	}
}

func TestNamedProperties(t *testing.T) {
	v := Check(parseHistory(t, twoHolders), verdict.DeadlockFreedom, "honesty")
	if len(v.Results) != 2 || v.Results[0].Property != verdict.DeadlockFreedom {
		t.Errorf("got %+v", v.Results)
	}
	if r := v.Result("honesty"); r == nil || r.Outcome != verdict.Undecided || !strings.Contains(r.Because, "known: mutual-exclusion") {
		t.Errorf("got %+v for an unknown property", r)
	}
	if v.Result(verdict.MutualExclusion) != nil {
		t.Error("got a result that was not requested")
	}
}

// A property is undecided if it needs a parameter or a resource that the history lacks.
func TestMissingParamsAreUndecided(t *testing.T) {
	h := parseHistory(t, twoHolders)
	h.Params.Resource, h.Params.TTL = "", 0
	v := Check(h)
	for name, reason := range map[string]string{verdict.ResourceSafety: "contains no resource", verdict.DeadlockFreedom: "contains no TTL"} {
		if r := v.Result(name); r.Outcome != verdict.Undecided || !strings.Contains(r.Because, reason) {
			t.Errorf("got %+v", r)
		}
	}
	if r := v.Result(verdict.MutualExclusion); r.Outcome != verdict.Violated {
		t.Errorf("got %+v", r)
	}
}

// TestMalformed checks histories that no recorder of sequential clients could have written.
func TestMalformed(t *testing.T) {
	rows := []struct{ history, want string }{
		{"1 c1 invoke acquire session=c1/1\n2 c1 invoke read session=c1/1", "c1 calls read (event 2) while its acquire (event 1) has not returned"},
		{"1 c1 ok acquire session=c1/1", "session c1/1 is used before its acquire is called (event 1)"},
		{"1 c1 invoke acquire session=c1/1\n2 c1 ok write session=c1/1", "c1 returns from write (event 2), which it had not called"},
		{"1 c1 invoke acquire session=c1/1\n2 c1 ok acquire\n3 c2 invoke read session=c1/1", "session c1/1 of c1 is used by c2 (event 3)"},
		{"1 c1 invoke acquire session=c1/1\n2 c1 ok acquire\n3 c1 invoke acquire session=c1/1", "session c1/1 is acquired twice (event 3)"},
		{"1 c1 invoke acquire", "c1 calls acquire without a session (event 1)"},
		{"1 c3 invoke acquire session=c3/1", "c3 acquires (event 1), but is not among the clients"},
		{"2 c1 invoke acquire session=c1/1\n1 c1 ok acquire", "time runs backwards in c1: event 1 is stamped 2 s, and the later event 2 is stamped 1 s"},
		{"1 c1 invoke acquire session=c1/1\n2 c1 ok check session=c1/1\n3 c1 info client\n4 c1 fail acquire", ""},
		{"1 c1 invoke acquire session=c1/1\n2 c2 invoke acquire session=c2/1\n2 c1-n1 ok set", ""},
		{"1 nemesis begin pause node=c1\n2 c1 invoke acquire session=c1/1\n3 nemesis end pause node=c1",
			"c1 does something at 2 s (event 2: acquire), but had been stopped since 1 s (event 1: pause)"},
		{"1 nemesis begin pause node=c1\n2 c1 invoke acquire session=c1/1", "c1 does something at 2 s (event 2: acquire), but had been stopped since 1 s (event 1: pause)"},
		{"1 nemesis begin kill node=c1\n2 c1 end client", "c1 does something (event 2: client) after it was seen to be killed (event 1)"},
		{"1 nemesis begin kill node=c1\n2 nemesis end kill node=c1\n3 c1 invoke acquire session=c1/1", "c1 does something (event 3: acquire) after it was seen to be killed (event 1)"},
		{"1 nemesis begin kill node=c1\n1 c1 end client", ""},
		{"1 c1 begin client\n2 c1 end client\n2 c1 begin client", "c1 does something (event 3: client) after its end (event 2)"},
		{"1 c1 end client\n2 c1 invoke acquire session=c1/1", "c1 does something (event 2: acquire) after its end (event 1)"},
		{"1 c1 invoke acquire session=c1/1 key=k\n2 c1 ok acquire key=l", "c1 calls acquire for k (event 1) but returns for l (event 2)"},
		{"1 c1 invoke acquire session=c1/1 key=k\n2 c1 ok acquire key=k\n3 c1 invoke release session=c1/1 key=l", "session c1/1 is for k, but event 3 says that it is for l"},
		{"1 c1 invoke acquire session=c1/1\n2 c1 ok acquire\n3 c1 invoke acquire session=c1/2\n4 c1 ok acquire\n5 c1 invoke release session=c1/1\n6 c1 ok release session=c1/2",
			"c1 calls release for session c1/1 (event 5) but returns for c1/2 (event 6)"},
		{"1 c1 invoke acquire session=c1/1\n2 c1 okay acquire", "event 2 of c1 has type \"okay\" and operation \"acquire\", which no recorder writes"},
		{"1 c1 invoke Acquire session=c1/1", "event 1 of c1 has type \"invoke\" and operation \"Acquire\", which no recorder writes"},
		{"1 c1 invoke acquire session=c1/1\n1 nemesis begin pause node=c1\n2 c2 begin client\n3 nemesis end pause node=c1\n3 c1 ok acquire", ""},
		{"2 c1-n1 ok set sent=3 applied=2", "event 1 on c1-n1 was sent at 3 s, applied at 2 s and answered at 2 s"},
		{"3 c1-n1 ok set sent=1 applied=3 answered=2", "event 1 on c1-n1 was sent at 1 s, applied at 3 s and answered at 2 s"},
		{"3 c1-n1 info set sent=1 answered=3", ""},
	}
	for _, row := range rows {
		if got := malformedReason(parseHistory(t, "params clients=c1,c2 nodes=n1\n"+row.history)); got != row.want {
			t.Errorf("%s\ngot  %q\nwant %q", row.history, got, row.want)
		}
	}
}

// TestVacuousReason checks which events a run must contain in order to prove anything.
func TestVacuousReason(t *testing.T) {
	const granted = "\n1 c1 begin client\n1 c1 invoke acquire session=c1/1\n2 c1 ok acquire until=3"
	rows := []struct{ history, want string }{
		{"params clients=c1,c2" + granted, "c2 never started"},
		{"params clients=c1\n1 c1 begin client", "nobody acquired a lock"},
		{"params clients=c1 mayBeIdle\n1 c1 begin client", ""},
		{"params clients=c1" + granted, ""},
		{"params clients=c1\nstep 1 pause c1 at 2s" + granted + "\n2 nemesis invoke pause node=c1 step=1", "step 1 (pause c1, when: at 2s) had no confirmed effect"},
		{"params clients=c1\nstep 1 kill n1,n2 at 2s" + granted + "\n2 nemesis begin kill node=n1 step=1", "step 1 (kill n1, n2, when: at 2s) had no confirmed effect on n2"},
		{"params clients=c1\nstep 1 kill n1,n2 at 2s" + granted + "\n2 nemesis begin kill node=n1 step=1\n2 nemesis begin kill node=n2 step=1", ""},
		{"params clients=c1\nstep 1 cut c1 at 2s" + granted + "\n2 nemesis begin cut node=c1-n1 step=1", ""},
		{"params clients=c1\nstep 1 pause holder at 2s" + granted + "\n2 nemesis begin pause node=c1 step=1", ""},
	}
	for _, row := range rows {
		if got := vacuousReason(facts.Read(parseHistory(t, row.history))); got != row.want {
			t.Errorf("%s\ngot  %q\nwant %q", row.history, got, row.want)
		}
	}
}

// An overlap within the timestamp error does not count.
func TestStampError(t *testing.T) {
	const turns = `
params clients=c1,c2 stampError=%s
0     c1 begin client
0     c2 begin client
0.010 c1 invoke acquire session=c1/1
0.013 c1 ok acquire session=c1/1 until=1.005
0.020 c2 invoke acquire session=c2/1
1.003 c2 ok acquire session=c2/1 until=5
9     harness end run`
	for ε, want := range map[string]verdict.Outcome{"0s": verdict.Violated, "900us": verdict.Violated, "1ms": verdict.Holds, "2s": verdict.NotExercised} {
		if got := Check(parseHistory(t, fmt.Sprintf(turns, ε))).Result(verdict.MutualExclusion); got.Outcome != want {
			t.Errorf("stamp error %s: %s, want %s: %s", ε, got.Outcome, want, got.Because)
		}
	}
}

// The second judge can contradict the first.
func TestDisagreement(t *testing.T) {
	h := parseHistory(t, strings.Replace(twoHolders, "c2 ok acquire session=c2/1 until=5", "c2 fail acquire session=c2/1", 1))
	withoutNotices := &history.History{Params: h.Params, Events: h.Events}
	withoutNotices.Params.NoLossNotice = true
	witness := func(r *record) *verdict.Witness {
		pair := []string{"c1/1", "c2/1"}
		return &verdict.Witness{Sessions: pair, Key: "lock-1", SessionFacts: []*facts.Session{r.SessionByName(pair[0]), r.SessionByName(pair[1])}}
	}
	r := newRecord(h)
	wrongResult := verdict.Result{Property: verdict.MutualExclusion, Outcome: verdict.Violated, Witness: witness(r)}
	if got := r.second.Contradiction(&wrongResult); !strings.Contains(got, "porcupine finds nothing wrong with the witness") {
		t.Errorf("got %q", got)
	}
	for _, row := range []struct {
		history       *history.History
		first, second verdict.Outcome
		want          string
	}{
		{h, verdict.Holds, verdict.Holds, ""},
		{h, verdict.Holds, verdict.Undecided, ""},
		{h, verdict.Undecided, verdict.Violated, ""},
		{withoutNotices, verdict.Violated, verdict.Undecided, "porcupine finds nothing wrong with the witness of lease-linearizable, sessions c1/1 and c2/1"},
		{h, verdict.Holds, verdict.Violated, "lease-linearizable: holds, but porcupine says violated"},
		{h, verdict.Violated, verdict.Holds, "porcupine finds nothing wrong with the witness of lease-linearizable, sessions c1/1 and c2/1"},
		{parseHistory(t, twoHolders), verdict.Violated, verdict.Holds, "lease-linearizable: violated, but porcupine says holds"},
		{parseHistory(t, twoHolders), verdict.Holds, verdict.Undecided, "lease-linearizable holds, but c1 and c2 must both have held lock-1 from 0.023 s to 5 s (4.977 s)"},
	} {
		r := newRecord(row.history)
		v := verdict.Verdict{Second: row.second, Results: []verdict.Result{{Property: verdict.LeaseLinearizable, Outcome: row.first, Witness: witness(r)}}}
		if got := disagreement(r, v); got != row.want {
			t.Errorf("%s, but porcupine says %s: got %q, want %q", row.first, row.second, got, row.want)
		}
	}
	if got := second.New(facts.Read(h)).Answer(time.Second); got != verdict.Holds {
		t.Errorf("one holder: the second judge says %s", got)
	}
	if got := second.New(facts.Read(parseHistory(t, twoHolders))).Answer(time.Second); got != verdict.Violated {
		t.Errorf("two holders: the second judge says %s", got)
	}
	if got := second.New(facts.Read(parseHistory(t, strings.Replace(twoHolders, "until=5", "until=0.015", 1)))).Answer(time.Second); got != verdict.Holds {
		t.Errorf("a lapsed lease: the second judge says %s", got)
	}
}

// TestDeadlockFreedom checks how a wait for a dead client's lock can end.
func TestDeadlockFreedom(t *testing.T) {
	const deadHolder = `
0     c1 begin client
0     c2 begin client
0.010 c1 invoke acquire session=c1/1
0.013 c1 ok acquire session=c1/1 until=5
0.020 c2 invoke acquire session=c2/1
1.000 nemesis invoke kill node=c1
1.001 nemesis begin kill node=c1
%s
%s harness end run`
	fullParams := "params clients=c1,c2 nodes=n1 ttl=10s nodeTimeout=50ms retryMax=200ms slack=500ms"
	rows := []struct {
		params, more, end string
		want              verdict.Outcome
		because           string
	}{
		{"params clients=c1,c2 nodes=n1 ttl=10s nodeTimeout=50ms", "", "40", verdict.Undecided, "the history contains no retry delay"},
		{fullParams, "", "40", verdict.Violated, "had not been granted again when the record ended at 40 s"},
		{fullParams, "", "11", verdict.Undecided, "had to be free again by 11.801 s, but the record ends at 11 s"},
		{fullParams, "", "11.801", verdict.Violated, "had to be free again by 11.801 s, but had not been granted again when the record ended at 11.801 s"},
		{fullParams, "", "11.800999999", verdict.Undecided, "had to be free again by 11.801 s"},
		{fullParams, "1.0005 c1 invoke release session=c1/1\n1.001 c1 ok release session=c1/1", "40", verdict.NotExercised, "no client was killed"},
		{fullParams, "1.0005 c1 invoke release session=c1/1\n1.001 c1 fail release session=c1/1", "40", verdict.NotExercised, "no client was killed"},
		{fullParams, "1.0005 c1 invoke release session=c1/1\n1.001 c1 info release session=c1/1", "40", verdict.Violated, "had not been granted again when the record ended at 40 s"},
		{fullParams, "5 c2 fail acquire session=c2/1", "40", verdict.NotExercised, "no client was killed"},
		{fullParams, "5 nemesis begin cut node=c2-n1\n20 nemesis end cut node=c2-n1", "40", verdict.NotExercised, "skipped because of other faults: 1"},
		{fullParams, "0.2 nemesis begin kill node=n1\n0.6 nemesis end kill node=n1", "40", verdict.NotExercised, "skipped because of other faults: 1"},
		{fullParams, "0.2 nemesis begin kill node=n1\n0.4 nemesis end kill node=n1", "40", verdict.Violated, ""},
		{fullParams, "5 nemesis begin cut node=c1-n1\n20 nemesis end cut node=c1-n1", "40", verdict.Violated, ""},
		{fullParams, "11.9 c2 ok acquire session=c2/1 until=20", "40", verdict.Violated, "not granted again until 11.9 s, to c2"},
		{fullParams, "0.1 c3 begin client\n0.1 c3 invoke acquire session=c3/1\n11.9 c2 ok acquire session=c2/1 until=20", "40", verdict.Holds, "after 1 holder death"},
		{strings.Replace(fullParams, "ttl=10s", "ttl=900ms", 1), "0.9 c1-n1 ok set", "40", verdict.Violated, ""},
		{strings.Replace(fullParams, "ttl=10s", "ttl=900ms", 1), "0.05 c1-n1 ok set sent=0.011", "40", verdict.NotExercised, "no client was killed"},
		{fullParams, "11.8 c2 ok acquire session=c2/1 until=20", "40", verdict.Holds, "in time after 1 holder death"},
		{fullParams, "11.5 nemesis begin stall node=machine\n12 nemesis end stall node=machine\n12.3 c2 ok acquire session=c2/1 until=20", "40", verdict.Undecided, "the host stalled or was slow, which may be why"},
		{fullParams, "11.5 nemesis begin stall node=machine\n11.7 nemesis end stall node=machine\n11.8 c2 ok acquire session=c2/1 until=20", "40", verdict.Holds, "in time after 1 holder death"},
	}
	for _, row := range rows {
		res := judge(newRecord(parseHistory(t, strings.Replace(row.params, "c1,c2", "c1,c2,c3", 1)+fmt.Sprintf(deadHolder, row.more, row.end))), verdict.DeadlockFreedom)
		if res.Outcome != row.want || !strings.Contains(res.Because, row.because) {
			t.Errorf("%s %s: got %s: %s\nwant %s: %s", row.params, row.more, res.Outcome, res.Because, row.want, row.because)
		}
	}
}

// BenchmarkCheck judges a long history of four clients that take turns. Each turn has an acquire, a
// write and a release. One release in twenty has no answer.
func BenchmarkCheck(b *testing.B) {
	h := turnTakingHistory(100_000)
	b.ReportMetric(float64(len(h.Events)), "events")
	for b.Loop() {
		if v := Check(h); v.Results[0].Outcome.Answer() != verdict.Holds {
			b.Fatal(v.Results[0].Because)
		}
	}
}

// BenchmarkReading reads a long history without judging it.
func BenchmarkReading(b *testing.B) {
	h := contention{operations: 1_000_000, keys: 10, unknownPercent: 5, seed: 1}.history()
	b.ReportAllocs()
	for b.Loop() {
		newRecord(h)
	}
}

func turnTakingHistory(n int) *history.History {
	h := &history.History{Params: history.Params{Clients: []string{"c1", "c2", "c3", "c4"}, TTL: 10 * time.Second}}
	at := int64(0)
	emit := func(e history.Event) {
		at += 1000
		e.T, e.N = at, int64(len(h.Events)+1)
		h.Events = append(h.Events, e)
	}
	for _, c := range h.Params.Clients {
		emit(history.Event{Process: c, Type: history.Begin, Op: history.OpClient})
	}
	for i := range n {
		c := h.Params.Clients[i%4]
		s := fmt.Sprintf("%s/%d", c, i)
		releaseOutcome := history.OK
		if i%20 == 0 {
			releaseOutcome = history.Info
		}
		for _, e := range []history.Event{
			{Op: history.OpAcquire, Type: history.Invoke}, {Op: history.OpAcquire, Type: history.OK, ValidUntil: at + 1e10},
			{Op: history.OpWrite, Type: history.Invoke, Value: s, Version: int64(i)}, {Op: history.OpWrite, Type: history.OK, Value: s},
			{Op: history.OpRelease, Type: history.Invoke}, {Op: history.OpRelease, Type: releaseOutcome},
		} {
			e.Process, e.Session, e.Key = c, s, "k"
			emit(e)
		}
	}
	return h
}

func malformedReason(h *history.History) string {
	return newRecord(h).Defect
}

// A run with a command that a simulated node does not support is undecided, even if the record was
// cut at a violation.
func TestUnsupportedCommandIsUndecided(t *testing.T) {
	for _, cut := range []string{"", "the watcher stopped it"} {
		h := parseHistory(t, twoHolders+"\n6 harness info lack node=n1 value=ZADD")
		h.Truncation = cut
		for _, res := range Check(h).Results {
			if res.Outcome != verdict.Undecided || !strings.Contains(res.Because, "does not support ZADD") {
				t.Errorf("cut %q: %s %s: %s", cut, res.Property, res.Outcome, res.Because)
			}
		}
	}
}

// A record without nodes is judged by the clients' answers.
func TestHistoryWithoutNodes(t *testing.T) {
	v := Check(parseHistory(t, `params clients=c1,c2 quorum=1 ttl=10s nodeTimeout=50ms retryMax=200ms slack=500ms
0 c1 begin client
0 c2 begin client
1 c1 invoke acquire session=c1/1
1.01 c1-n1 ok set token=A sent=1.001 applied=1.005 answered=1.01
1.02 c1 ok acquire session=c1/1 token=A until=9
1.03 c2 invoke acquire session=c2/1
1.04 c2 ok acquire session=c2/1 token=B until=9
3 c1 invoke release session=c1/1
4 c1 info release session=c1/1
40 harness end run`))
	if res := v.Result(verdict.MutualExclusion); res.Outcome != verdict.Violated {
		t.Errorf("%s: %s", res.Outcome, res.Because)
	}
	for _, res := range v.Results {
		if strings.Contains(res.Because, "checker failed") {
			t.Errorf("%s: %s", res.Property, res.Because)
		}
	}
}
