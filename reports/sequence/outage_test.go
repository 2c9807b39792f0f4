package sequence

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/harness/lock/broken"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/internal/histories"
	"lockpick/reports/display"
	"lockpick/scenarios"
)

// knownNames returns the names that scenarios in the catalog may use.
func knownNames() scenario.KnownNames {
	k := scenario.KnownNames{Properties: checker.Properties(), Causes: verdict.Causes(), Numbers: checker.Numbers()}.WithKinds(kinds.All)
	for _, m := range broken.Mistakes() {
		k.Mistakes = append(k.Mistakes, m.Name)
	}
	return k
}

// simulate runs a scenario from the catalog and returns its history.
func simulate(t *testing.T, name string, seed uint64) *history.History {
	t.Helper()
	all, _, err := scenarios.Choose([]string{name}, nil, knownNames(), scenario.ParseOptions{})
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %d scenarios, %v", name, len(all), err)
	}
	var record bytes.Buffer
	if err := harness.Run(t.Context(), sim.New(kinds.All), all[0].Scenario, seed, history.NewRecorder(&record)); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(&record)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// drawScenario simulates a scenario and returns its history, diagram and caption.
func drawScenario(t *testing.T, name string, seed uint64) (*history.History, Diagram, string) {
	t.Helper()
	h := simulate(t, name, seed)
	d := ForVerdict(h, checker.Check(h))
	return h, d, plainSpaces(strings.Join(d.Caption, " "))
}

func plainSpaces(s string) string { return strings.ReplaceAll(s, display.NoBreak, " ") }

// failedTokens returns the tokens of a client's failed attempts that set a key between from and to.
func failedTokens(h *history.History, client string, from, to int64) (tokens []string) {
	won := map[string]bool{}
	for _, e := range h.Events {
		if e.Op == history.OpAcquire && e.Type == history.OK {
			won[e.Token] = true
		}
	}
	for _, e := range h.Events {
		if e.Op == history.OpSet && strings.HasPrefix(e.Process, client+"-") && from <= e.SentAt && e.SentAt < to && !won[e.Token] && !slices.Contains(tokens, e.Token) {
			tokens = append(tokens, e.Token)
		}
	}
	return tokens
}

// keyTimes returns when keys with the given value were set and when they expired, according to the
// nodes.
func keyTimes(h *history.History, value string) (setTimes, expiryTimes []int64) {
	for _, e := range h.Events {
		if l := e.Life; l != nil && l.Kind == history.KeySet && l.Value == value {
			setTimes = append(setTimes, e.T)
			expiryTimes = append(expiryTimes, e.T+l.Expiry-e.Local)
		}
	}
	return setTimes, expiryTimes
}

// If a canceled acquire caused an outage, the drawing starts with that acquire and shows the keys it
// left, which client they blocked, and for how long.
func TestOutageOfCanceledAcquire(t *testing.T) {
	h, d, caption := drawScenario(t, "cancelled-acquire/undone-by-the-callers-context", 1)
	w := ShownResult(checker.Check(h)).Witness
	var first string
	var failed []history.Event
	for _, e := range h.Events {
		if e.Life != nil && first == "" {
			first = e.Life.Value
		}
		if e.Process == "c1" && e.Op == history.OpAcquire && e.Type == history.Fail {
			failed = append(failed, e)
		}
	}
	put, gone := keyTimes(h, first)
	if len(put) != 5 || len(failed) != 2 {
		t.Fatalf("%d keys, %d failed acquires", len(put), len(failed))
	}
	tried := failedTokens(h, "c2", w.From, w.To)
	for _, want := range []string{
		fmt.Sprintf("n1–n5 set c1's key %s and kept it %s, when it expired; c1 sent no release of it there.", formatInstants("at", put), formatInstants("until", gone)),
		fmt.Sprintf("c1's acquire failed twice %s: %s.", display.Interval(failed[0].T, failed[1].T), failed[0].Cause),
		fmt.Sprintf("c2 tried %d times without success", len(tried)), "refused by n1–n5 because of c1's key",
		fmt.Sprintf("Nobody acquired lock-1 %s, for %s; the bound is 12.75 s.", display.Interval(w.From, w.To), display.Duration(w.To-w.From)),
		"c2 acquired lock-1 at " + display.Seconds(w.To),
	} {
		if !strings.Contains(caption, plainSpaces(want)) {
			t.Errorf("caption does not contain %q:\n%s", want, caption)
		}
	}
	if !slices.ContainsFunc(d.Bars, func(b bar) bool {
		return b.State == stateLeftoverKey && b.From == slices.Max(put) && b.To == slices.Min(gone)
	}) {
		t.Errorf("no bar shows the keys: %+v", d.Bars)
	}
	if len(d.Bands) != 1 || d.Bands[0].From != w.From || d.Lanes[0].Name != "c1" || first == "" {
		t.Errorf("bands %+v, lanes %+v", d.Bands, d.Lanes)
	}
}

// The explanation of an outage names the client that left keys or whose call hung, and what the client
// did about the keys.
func TestOutageExplanations(t *testing.T) {
	for name, patterns := range map[string][]string{
		"lost-reply/release-only-acknowledged": {`^c1's key stayed on n1–n3 after a failed attempt, so nobody acquired lock-1 from `,
			`n1–n3 set c1's key [^.]*\.\d+ s and kept it [^;]*, when it expired; c1 sent no release of it there\.`, `c1 sent a release of its key to n4 and n5 `},
		"abandoned-set/goes-on": {`^c1's key stayed on n1–n3 after an abandoned attempt, `,
			`It asked n1–n3 for lock-1 again at 7\.000 s\. n1–n3 set c1's key at 7\.001 s`},
		"no-answer/waits-for-all": {`^c1's acquire sent no request after 0\.003 s and had not returned by 60\.200 s, so nobody acquired `,
			`with 4 of 5 votes \(3 are a majority\): no reply from n1\.`},
		"no-answer/release-waits-for-all": {`^c1's release had not returned by 60\.200 s, for 59\.688 s; the bound is 13\.25 s\. `},
		"failed-release/renews-on":        {`; c1 renewed it 11 times, last `, `; c1's release, sent at 5\.513 s, never arrived\.`},
	} {
		_, d, text := drawScenario(t, name, 1)
		text = plainSpaces(d.Summary) + ". " + text
		for _, s := range patterns {
			if !regexp.MustCompile(s).MatchString(text) {
				t.Errorf("%s: no match for %s in:\n%s", name, s, text)
			}
		}
	}
}

// If nodes lost keys at different times, each loss is reported with its own time, whether there was one
// fault or several.
func TestLossesAreReportedWithTheirTimes(t *testing.T) {
	losses := 0
	for _, seed := range []uint64{900040, 900119} {
		h, _, caption := drawScenario(t, "random-faults/", seed)
		node := ""
		for _, s := range strings.Split(caption, ". ") {
			m := regexp.MustCompile(`^(n\d|It|[\w ]+) (lost|let) (c\d)'s key (?:expire early )?at (\d+\.\d{3}) s`).FindStringSubmatch(s)
			if n := regexp.MustCompile(`^n\d `).FindString(s); n != "" {
				node = strings.TrimSpace(n)
			}
			if m == nil {
				continue
			}
			losses++
			if !slices.ContainsFunc(h.Events, func(e history.Event) bool {
				return e.Life != nil && e.Process == node && display.Decimal(e.T, 3) == m[4] && e.Life.Kind != history.KeySet
			}) {
				t.Errorf("seed %d: %s lost no key at the reported time: %s", seed, node, s)
			}
		}
	}
	if losses != 6 {
		t.Errorf("%d losses reported, want 6", losses)
	}
}

// parseEvents parses the events of a run with one node. Times are in milliseconds.
func parseEvents(t *testing.T, text string) *history.History {
	t.Helper()
	h := &history.History{Params: history.Params{Clients: []string{"c1", "c2", "c3"}, Nodes: []string{"n1"}, Resource: "r1", Quorum: 1, TTL: time.Second, NodeTimeout: 50 * time.Millisecond, ReportsKeys: true}}
	for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
		e := history.Event{N: int64(i + 1)}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		e.T, e.SentAt, e.AppliedAt, e.AnsweredAt = e.T*1e6, e.SentAt*1e6, e.AppliedAt*1e6, e.AnsweredAt*1e6
		if e.ValidUntil *= 1e6; e.Life != nil {
			e.Local = 1 + e.T
			e.Life.Expiry = e.Local + 1e9
		}
		h.Events = append(h.Events, e)
	}
	return h
}

// In expiryHistory, c1's lock reports neither a deadline nor a token, and its key's TTL is a second.
const expiryHistory = `
{"t":10,"process":"c1","type":"invoke","op":"acquire","key":"k","session":"c1/1"}
{"t":11,"process":"n1","type":"info","op":"life","key":"k","sent":10,"life":{"what":"set","seq":1,"value":"x","by":"c1-n1"}}
{"t":12,"process":"c1-n1","type":"ok","op":"set","key":"k","token":"x","node":"n1","sent":10,"applied":11,"answered":12}
{"t":13,"process":"c1","type":"ok","op":"acquire","key":"k","session":"c1/1"}
{"t":PAUSE,"process":"nemesis","type":"invoke","op":"pause","node":"c1","step":1}
{"t":PAUSE,"process":"nemesis","type":"begin","op":"pause","node":"c1","step":1}
{"t":RESUME,"process":"nemesis","type":"end","op":"pause","node":"c1","step":1}
{"t":2010,"process":"c2","type":"invoke","op":"acquire","key":"k","session":"c2/1"}
{"t":2011,"process":"n1","type":"info","op":"life","key":"k","sent":2010,"life":{"what":"set","seq":2,"value":"y","by":"c2-n1"}}
{"t":2012,"process":"c2-n1","type":"ok","op":"set","key":"k","token":"y","node":"n1","sent":2010,"applied":2011,"answered":2012}
{"t":2013,"process":"c2","type":"ok","op":"acquire","key":"k","session":"c2/1"}
{"t":3000,"process":"c2","type":"invoke","op":"release","key":"k","session":"c2/1"}
{"t":3001,"process":"c2","type":"ok","op":"release","key":"k","session":"c2/1"}
{"t":4000,"process":"c1","type":"invoke","op":"release","key":"k","session":"c1/1"}
{"t":4001,"process":"c1","type":"ok","op":"release","key":"k","session":"c1/1"}`

// A pause is drawn if the client's key reached its expiry during the pause, because a paused client
// renews no keys. A pause that ended long before is counted but not drawn.
func TestPauseDuringKeyExpiry(t *testing.T) {
	r := &verdict.Result{Property: verdict.MutualExclusion, Outcome: verdict.Violated, Cause: verdict.NotifiedLate, Node: "n1",
		Witness: &verdict.Witness{Sessions: []string{"c1/1", "c2/1"}, Key: "k", From: 2013e6, To: 3000e6},
		Losses:  []verdict.Loss{{Node: "n1", Cause: verdict.NotifiedLate, First: "c1/1", Second: "c2/1"}}}
	for _, c := range []struct {
		pause, resume string
		drawn         bool
	}{{"500", "1500", true}, {"500", "990", true}, {"500", "600", false}} {
		d := ForResult(parseEvents(t, strings.NewReplacer("PAUSE", c.pause, "RESUME", c.resume).Replace(expiryHistory)), r)
		caption := plainSpaces(strings.Join(d.Caption, " "))
		if got := slices.ContainsFunc(d.Bars, func(b bar) bool { return b.State == statePaused }); got != c.drawn || strings.Contains(caption, "without effect") == c.drawn {
			t.Errorf("paused from %s to %s ms: drawn is %v\n%s", c.pause, c.resume, got, caption)
		}
		if want := "key on n1 reached its expiry at 1.011 s."; !strings.Contains(caption, want) {
			t.Errorf("caption does not contain %q:\n%s", want, caption)
		}
	}
}

// If a release deletes a key before the acquire that set the key has returned, the release is still
// the cause, so the release and its client are drawn.
func TestDeleterIsDrawn(t *testing.T) {
	h := parseEvents(t, `
{"t":1,"process":"c3","type":"invoke","op":"acquire","key":"k","session":"c3/1"}
{"t":2,"process":"c3","type":"fail","op":"acquire","key":"k","session":"c3/1"}
{"t":10,"process":"c1","type":"invoke","op":"acquire","key":"k","session":"c1/1"}
{"t":11,"process":"n1","type":"info","op":"life","key":"k","sent":10,"life":{"what":"set","seq":1,"value":"x","by":"c1-n1"}}
{"t":12,"process":"n1","type":"info","op":"life","key":"k","sent":9,"life":{"what":"deleted","seq":2,"old":"x","by":"c3-n1","command":"del"}}
{"t":13,"process":"c3-n1","type":"ok","op":"release","key":"k","token":"z","node":"n1","sent":9,"applied":12,"answered":13}
{"t":14,"process":"c1-n1","type":"ok","op":"set","key":"k","token":"x","node":"n1","sent":10,"applied":11,"answered":14}
{"t":15,"process":"c1","type":"ok","op":"acquire","key":"k","session":"c1/1","token":"x","validUntil":900}
{"t":20,"process":"c2","type":"invoke","op":"acquire","key":"k","session":"c2/1"}
{"t":21,"process":"n1","type":"info","op":"life","key":"k","sent":20,"life":{"what":"set","seq":3,"value":"y","by":"c2-n1"}}
{"t":22,"process":"c2-n1","type":"ok","op":"set","key":"k","token":"y","node":"n1","sent":20,"applied":21,"answered":22}
{"t":23,"process":"c2","type":"ok","op":"acquire","key":"k","session":"c2/1","token":"y","validUntil":910}`)
	d := ForResult(h, &verdict.Result{Property: verdict.MutualExclusion, Outcome: verdict.Violated, Cause: verdict.DeletedByOther, Node: "n1",
		Witness: &verdict.Witness{Sessions: []string{"c1/1", "c2/1"}, Key: "k", From: 23e6, To: 900e6},
		Losses:  []verdict.Loss{{Node: "n1", Cause: verdict.DeletedByOther, First: "c1/1", Second: "c2/1", Fact: 5}}})
	if !strings.Contains(d.Summary, "a release by c3 deleted c1's key on n1") {
		t.Errorf("summary is %q", d.Summary)
	}
	if !slices.ContainsFunc(d.Lanes, func(l lane) bool { return l.Name == "c3" }) || !slices.ContainsFunc(d.Arrows, func(a arrow) bool { return a.Mark == crossSymbol && a.Label == "release" }) {
		t.Errorf("c3's release is not drawn: %+v", d.Arrows)
	}
	if want := "A release by c3 that was sent at 0.009 s reached n1 at 0.012 s and deleted c1's key there."; !strings.Contains(plainSpaces(strings.Join(d.Caption, " ")), want) {
		t.Errorf("missing: %s\n%s", want, d.Caption)
	}
}

// A lock's deadline is shown even if the client is notified of a loss before the deadline.
func TestDeadlineOfLostLock(t *testing.T) {
	h := parseEvents(t, `
{"t":10,"process":"c1","type":"invoke","op":"acquire","key":"k","session":"c1/1"}
{"t":13,"process":"c1","type":"ok","op":"acquire","key":"k","session":"c1/1","validUntil":900}
{"t":500,"process":"c1","type":"info","op":"lost","key":"k","session":"c1/1"}
{"t":600,"process":"c1","type":"invoke","op":"release","key":"k","session":"c1/1"}`)
	text := plainSpaces(Text(ForResult(h, nil), 100))
	if !strings.Contains(text, "with 887 ms left") || !strings.Contains(text, "c1 holds k until 0.900 s") || strings.Contains(text, "no deadline") {
		t.Errorf("got:\n%s", text)
	}
}

// If nobody gets the lock in a run, all failures are reported with the lock's error messages.
func TestRunWithoutGrants(t *testing.T) {
	h := &history.History{Params: history.Params{Scenario: "s", Clients: []string{"c1"}, Nodes: []string{"n1"}}}
	for i := range int64(25) {
		call := history.Event{N: 2*i + 1, T: (i + 1) * 1e8, Process: "c1", Type: history.Invoke, Op: history.OpAcquire, Key: "k", Session: fmt.Sprintf("c1/%d", i+1)}
		ret := call
		ret.N, ret.T, ret.Type, ret.Cause = call.N+1, call.T+1e6, history.Fail, "the lock needs Redis 9"
		if i == 7 {
			ret.Cause = "timed out"
		}
		h.Events = append(h.Events, call, ret)
	}
	text := plainSpaces(strings.Join(ForResult(h, nil).Caption, " "))
	if want := "c1's acquire failed 24 times from 0.101 s to 2.501 s: the lock needs Redis 9. Its acquire failed at 0.801 s: timed out."; text != want {
		t.Errorf("%s, want %s", text, want)
	}
}

func parseRun(t *testing.T, text string) *history.History {
	t.Helper()
	h, err := histories.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// If the acquire that ended an outage was slow, the drawing shows which nodes it waited for and how
// long. It did not wait for any node if all had replied.
func TestWaitOfWinningAcquire(t *testing.T) {
	const head = `params clients=c1,c2 nodes=n1,n2,n3 quorum=2 ttl=10s nodeTimeout=50ms retryMax=200ms slack=500ms rate=0.01 rounds=10
0.010 c1 invoke acquire session=c1/1
`
	const tail = `5.004 c1 ok acquire session=c1/1 token=A until=9.900
6     harness end run`
	const two = "0.012 c1-n2,n3 ok set token=A\n"
	for name, c := range map[string]struct{ sets, caption, drawn string }{
		"no reply":      {two + "5.003 c1-n1 info set token=A sent=0.010 applied=0 answered=0\n", "c1 had 2 of 3 votes at 0.012 s, and waited for n1 until 5.004 s.", "c1 has 2 of 3 votes, and waits for n1 until 5.004 s"},
		"late reply":    {two + "5.003 c1-n1 ok set token=A sent=0.010 applied=5.002\n", "c1 had 2 of 3 votes at 0.012 s, and waited for n1 until 5.003 s.", "c1 has 2 of 3 votes, and waits for n1 until 5.003 s"},
		"no connection": {two, "c1 had 2 of 3 votes at 0.012 s, and waited for n1 until 5.004 s.", "c1 has 2 of 3 votes, and waits for n1 until 5.004 s"},
		"in turn":       {"0.012 c1-n1 ok set token=A\n4.900 c1-n2 info set token=A sent=0.013 applied=0 answered=0\n4.903 c1-n3 ok set token=A\n", "c1 had 1 of 3 votes at 0.013 s, and waited for n2 until 4.901 s.", "c1 has 1 of 3 votes, and waits for n2 until 4.901 s"},
		"first of all":  {"4.900 c1-n1 info set token=A sent=0.010 applied=0 answered=0\n4.903 c1-n2,n3 ok set token=A\n", "c1 waited for n1 from 0.010 s to 4.901 s.", "c1 waits for n1 until 4.901 s"},
		"all replied":   {"0.012 c1-n1,n2,n3 ok set token=A\n", "", ""},
	} {
		h := parseRun(t, head+c.sets+tail)
		d := ForResult(h, &verdict.Result{Property: verdict.FaultTolerance, Outcome: verdict.Violated, Cause: verdict.WaitedLong, Bound: 3e9,
			Witness: &verdict.Witness{Sessions: []string{"c1/1"}, Key: "lock-1", From: 10e6, To: 5004e6}})
		caption, text := plainSpaces(strings.Join(d.Caption, " ")), plainSpaces(Text(d, 200))
		if c.caption == "" {
			if regexp.MustCompile("wait(s|ed) for").MatchString(caption + text + d.Summary) {
				t.Errorf("%s: a wait is shown, want none: %s\n%s", name, caption, text)
			}
			continue
		}
		if !strings.Contains(caption, c.caption) || !strings.Contains(text, c.drawn) || !strings.Contains(Mermaid(d), c.drawn) {
			t.Errorf("%s: want %q and %q in %s\n%s", name, c.caption, c.drawn, caption, text)
		}
		if who := plainSpaces(d.Summary); !strings.HasPrefix(who, "c1 waited for n") || !strings.Contains(who, ", so nobody acquired lock-1 ") {
			t.Errorf("%s: summary is %q", name, who)
		}
		if i := slices.IndexFunc(d.Arrows, func(a arrow) bool { return a.Answer && a.Arrived < 1e9 }); (name == "no reply" || name == "no connection") == (i < 0) {
			t.Errorf("%s: want early replies, drawn when they arrived, only after requests to all nodes in parallel: %+v", name, d.Arrows)
		}
	}
}

// The time when a key is due to expire is computed from its node's clock. An event that ended the key
// is drawn once, at its own time.
func TestKeyExpiryByNodeClock(t *testing.T) {
	const head = `params clients=c1,c2 nodes=n1 quorum=1 ttl=10s nodeTimeout=50ms epoch=1000
0.010 c1 invoke acquire session=c1/1
0.011 n1 life set value=A by=c1 sent=0.010 command=set
0.012 c1-n1 ok set token=A
0.013 c1 ok acquire session=c1/1 token=A until=14.013
`
	const tail = `13.000 c2 invoke acquire session=c2/1
13.002 n1 life set value=B by=c2 sent=13.001 command=set
13.003 c2-n1 ok set token=B
13.004 c2 ok acquire session=c2/1 token=B until=22
13.500 c2 invoke release session=c2/1
13.501 c2 ok release session=c2/1
14     harness end run`
	for name, c := range map[string]struct {
		life  string
		fact  int64
		drawn string
	}{
		"right":   {"10.012 n1 life expired old=A", 0, "10.011 c1's key is due to expire on n1, 4.002 s of true time before the client stops believing in it"},
		"slow":    {"2 nemesis info clock node=n1 local=1002 wall drift=-200000000\n12.020 n1 life expired old=A local=1010.016", 0, "12.014 c1's key is due to expire on n1, 1.999 s of true time before the client stops believing in it"},
		"forward": {"2 nemesis info clock node=n1 local=1012 wall\n2.050 n1 life expired old=A local=1012.050", 6, "2.050 n1 let c1's key expire early"},
		"gone":    {"2.050 n1 life lost old=A", 0, "2.050 n1 lost c1's key"},
	} {
		h := parseRun(t, head+c.life+"\n"+tail)
		d := ForResult(h, &verdict.Result{Property: verdict.MutualExclusion, Outcome: verdict.Violated, Cause: verdict.GivenShorter, Node: "n1",
			Witness: &verdict.Witness{Sessions: []string{"c1/1", "c2/1"}, Key: "lock-1", From: 13004e6, To: 13500e6},
			Losses:  []verdict.Loss{{Node: "n1", Cause: verdict.GivenShorter, First: "c1/1", Second: "c2/1", Fact: endEventOf(h, c.fact)}}})
		text := strings.Join(strings.Fields(plainSpaces(strings.Map(func(r rune) rune {
			if strings.ContainsRune("│┃✗", r) {
				return ' '
			}
			return r
		}, Text(d, 200)))), " ")
		if !strings.Contains(text, c.drawn) || strings.Count(text, "c1's key is due")+strings.Count(text, "n1 let c1's key expire early ")+strings.Count(text, "n1 lost c1's key ") > 2 {
			t.Errorf("%s: missing, or a key's end is drawn more than once: %s\n%s", name, c.drawn, Text(d, 200))
		}
		if due := strings.Contains(text, "due to expire"); due != (c.fact == 0 && name != "gone") {
			t.Errorf("%s: \"due to expire\" is shown: %t\n%s", name, due, Text(d, 200))
		}
	}
}

// endEventOf returns the number of the event that ended a key, or 0 if wanted is 0.
func endEventOf(h *history.History, wanted int64) int64 {
	if wanted == 0 {
		return 0
	}
	return h.Events[slices.IndexFunc(h.Events, func(e history.Event) bool { return e.Life != nil && e.Life.Kind == history.KeyExpired })].N
}

// The summary states why a write was late: a fault on its link or, if there was none, the time the
// write took. If there are too many faults to draw, that fault is still drawn, and each omitted fault
// is counted once.
func TestDelayOfWriteInSummary(t *testing.T) {
	const run = `params clients=c1,c2 nodes=n1 quorum=1 ttl=10s nodeTimeout=50ms epoch=1000
step 1 clock-jump c1 after
step 2 LINK c1-r1 after
0.010 c1 invoke acquire session=c1/1
0.012 c1-n1 ok set token=A
0.013 c1 ok acquire session=c1/1 token=A until=9.900 local=1000.013 wall
0.014 c1 invoke read session=c1/1
0.015 c1 ok read session=c1/1 version=0
1.000 nemesis invoke clock-jump node=c1 step=1
1.001 nemesis begin clock-jump node=c1 step=1
PAUSES2.000 nemesis invoke LINK node=c1-r1 step=2
2.001 nemesis begin LINK node=c1-r1 step=2
3.000 c1 invoke write session=c1/1 value=c1/1:write1 version=0
UNTIL nemesis end LINK node=c1-r1 step=2
10.500 c2 invoke acquire session=c2/1
10.502 c2-n1 ok set token=B
10.503 c2 ok acquire session=c2/1 token=B until=20.4
10.600 c2 invoke write session=c2/1 value=c2/1:write1 version=0
10.603 c2 ok write session=c2/1 value=c2/1:write1 version=1
13.000 c1-r1 ok write session=c1/1 value=c1/1:write1 version=0 sent=3.000 applied=12.999
13.001 c1 ok write session=c1/1 value=c1/1:write1 version=2
14.000 nemesis end clock-jump node=c1 step=1
15     r1 ok log session=c2/1 value=c2/1:write1 version=0 applied=10.602 cause=write
15     r1 ok log session=c1/1 value=c1/1:write1 version=0 applied=12.999 cause=write
15     harness end run`
	pauses := ""
	for i := range 13 {
		pauses += fmt.Sprintf("1.%d nemesis invoke pause node=n1 step=%d\n1.%d1 nemesis begin pause node=n1 step=%d\n1.%d2 nemesis end pause node=n1 step=%d\n", i+10, i+3, i+10, i+3, i+10, i+3)
	}
	for _, c := range []struct{ link, until, summary string }{
		{"hold", "12.998", "the write from c1 to r1 was held by the network for 11 s, so c1 overran its lease and overwrote c2's write"},
		{"delay", "5.000", "c1's write took 10 s to reach r1, so c1 overran its lease and overwrote c2's write"},
	} {
		h := parseRun(t, strings.NewReplacer("LINK", c.link, "UNTIL", c.until, "PAUSES", pauses).Replace(run))
		d := ForResult(h, &verdict.Result{Property: verdict.ResourceSafety, Outcome: verdict.Violated, Cause: verdict.Overrun,
			Witness: &verdict.Witness{Sessions: []string{"c2/1", "c1/1"}, Key: "lock-1", From: 10603e6, To: 13001e6}})
		if got := plainSpaces(d.Summary); got != c.summary {
			t.Errorf("summary is %q, want %q\n%s", got, c.summary, Text(d, 120))
		}
		if drawn := strings.Contains(Mermaid(d), "the network holds the write from c1 to r1"); d.Omitted != "Not shown: 3 other faults." || drawn != (c.link == "hold") {
			t.Errorf("%s: Omitted is %q, hold drawn: %t", c.link, d.Omitted, drawn)
		}
	}
}

// Several messages to one node take the plural, one message to each of several nodes the singular.
func TestMessagePlurals(t *testing.T) {
	for _, c := range []struct {
		held, want string
		targets    []string
	}{
		{"reply to release", "the replies from n4 to c3's releases were lost by the network", []string{"n4", "n4"}},
		{"reply to release", "the replies from n3 and n5 to c3's release were lost by the network", []string{"n3", "n5"}},
		{"reply to release", "the reply from n4 to c3's release was lost by the network", []string{"n4"}},
		{"release", "the releases from c3 to n4 were lost by the network", []string{"n4", "n4"}},
	} {
		var g []*facts.Fault
		for _, n := range c.targets {
			g = append(g, &facts.Fault{Kind: "drop", Target: "c3-" + n})
		}
		if w := wordingFor(g, nodeList(c.targets), c.held); w.Subject+" "+w.PastPredicate != c.want {
			t.Errorf("%q %q, want %q", w.Subject, w.PastPredicate, c.want)
		}
	}
}

// A request that reached its link slightly more than a node timeout after the others still belongs to
// the round.
func TestLateRequestBelongsToItsRound(t *testing.T) {
	round, timeout := []*event{{SentAt: 1000e6}, {SentAt: 1001e6}}, int64(50e6)
	for sent, want := range map[int64]bool{1051e6: true, 1052e6: true, 1101e6: false} {
		if got := sameRound(round, &event{SentAt: sent}, timeout); got != want {
			t.Errorf("sent at %d: sameRound is %t", sent, got)
		}
	}
}
