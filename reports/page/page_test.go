package page

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/reports/display"
	"lockpick/reports/sequence"
	"lockpick/scenarios/outcome"
)

// overlapRun returns a short run with additional events before the end: c1 is paused, and then both
// clients believe they hold the lock.
func overlapRun(more ...history.Event) *history.History {
	p := &history.Params{Schema: history.Schema, Scenario: "tale", Backend: "sim", Seed: 7, Clients: []string{"c1", "c2"}, Nodes: []string{"n1"},
		Resource: "r1", Quorum: 1, Lock: "redlock", TTL: 1e10, NodeTimeout: 5e7, RetryMax: 2e8, Fence: "none",
		Steps: []history.PlannedStep{{Step: 1, Fault: "pause", Targets: []string{"c1"}, Trigger: "at 2s"}}}
	events := []history.Event{
		{Process: history.Harness, Type: history.Begin, Op: history.OpRun, Params: p},
		{T: 1e6, Process: "c1", Type: history.Begin, Op: history.OpClient},
		{T: 2e6, Process: "c2", Type: history.Begin, Op: history.OpClient},
		{T: 1e9, Process: "c1", Type: history.Invoke, Op: history.OpAcquire, Key: "k", Session: "c1/1"},
		{T: 1.1e9, Process: "c1", Type: history.OK, Op: history.OpAcquire, Key: "k", Session: "c1/1", Token: "a", ValidUntil: 9e9},
		{T: 2e9, Process: history.Nemesis, Type: history.Invoke, Op: "pause", Node: "c1", Step: 1},
		{T: 2e9, Process: history.Nemesis, Type: history.Begin, Op: "pause", Node: "c1", Step: 1, Cause: "c1 is stopped"},
		{T: 3e9, Process: "c2", Type: history.Invoke, Op: history.OpAcquire, Key: "k", Session: "c2/1"},
		{T: 3.1e9, Process: "c2", Type: history.OK, Op: history.OpAcquire, Key: "k", Session: "c2/1", Token: "b", ValidUntil: 11e9},
		{T: 5e9, Process: history.Nemesis, Type: history.End, Op: "pause", Node: "c1", Step: 1, Cause: "c1 runs again"},
	}
	events = append(append(events, more...), history.Event{T: 12e9, Process: history.Harness, Type: history.End, Op: history.OpRun})
	for i := range events {
		events[i].N = int64(i + 1)
	}
	h, err := history.New(events)
	if err != nil {
		panic(err)
	}
	return h
}

// checkedRun returns a history with its verdict. want is the outcome expected for mutual exclusion.
func checkedRun(h *history.History, want string) outcome.Run {
	v := checker.Check(h)
	r := outcome.Run{History: h, Verdict: v, Manifest: &scenario.Manifest{Command: "lockpick run tale", Version: "1", Go: "go1", OS: "linux", Arch: "amd64", CPUs: 2,
		Scenario: scenario.Scenario{Claim: "At most one client holds the lock at a time.", Source: "A book, https://example.org/a?b=1&c, javascript:alert(1), data:text/html,x."}}}
	for _, res := range v.Results {
		j := outcome.Judgement{Property: res.Property, Got: res.Outcome, Because: res.Because, Cause: res.Cause, AsExpected: true}
		if res.Property == verdict.MutualExclusion {
			j.Expected, j.AsExpected = want, want == string(res.Outcome)
		}
		r.Outcome.Judgements = append(r.Outcome.Judgements, j)
	}
	r.Outcome.Code = outcome.CodeOf(r.Outcome.Judgements)
	return r
}

func render(t *testing.T, r outcome.Run) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, Page{Run: r, Diagram: sequence.ForVerdict(r.History, r.Verdict), Files: []string{"history.jsonl"}}); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestHeaderSentences(t *testing.T) {
	quiet := overlapRun()
	quiet.Params.Steps = nil
	quiet.Events = append(quiet.Events[:7:7], quiet.Events[9:]...) // without c2's acquire
	vacuousHistory := vacuousRun()
	both := "C2 acquired k while c1 still held it."
	for _, c := range []struct {
		h                       *history.History
		want, say, states, tone string
	}{
		{overlapRun(), "violated", both, "mutual-exclusion was violated as expected; lease-linearizable was violated (informational).", ""},
		{overlapRun(), "holds", both, "mutual-exclusion was violated unexpectedly; lease-linearizable was violated (informational).", "unexpected"},
		{quiet, "holds", "No violation found in this run, which had no planned faults.", "", ""},
		{quiet, "violated", "No violation found in this run", "", ""},
		{vacuousHistory, "holds", "Inconclusive: step 2 (kill n1) never started", "", ""},
	} {
		r := checkedRun(c.h, c.want)
		if got := leadSentence(Page{Run: r, Diagram: sequence.ForVerdict(r.History, r.Verdict)}); !strings.Contains(strings.ToLower(got), strings.ToLower(c.say)) {
			t.Errorf("lead sentence is %q, want %q in it", got, c.say)
		}
		if got := violationSummary(r); got != c.states {
			t.Errorf("violationSummary is %q, want %q", got, c.states)
		}
		if got := tone(r); got != c.tone {
			t.Errorf("tone is %q, want %q", got, c.tone)
		}
	}
}

// Violations come first, and properties that were not exercised last.
func TestPropertyOrder(t *testing.T) {
	var got []string
	for _, x := range resultRows(checkedRun(overlapRun(), "holds"), nil) {
		got = append(got, x.Got)
	}
	if first, last := got[0], got[len(got)-1]; first != "violated" || last != "not exercised" {
		t.Errorf("outcomes are %q, want \"violated\" first and \"not exercised\" last", got)
	}
	if i := slices.Index(got, "not exercised"); slices.ContainsFunc(got[i:], func(s string) bool { return s != "not exercised" }) {
		t.Errorf("outcomes are %q, want every \"not exercised\" at the end", got)
	}
}

// vacuousRun returns overlapRun with c2's acquire failing and with another step, which is never
// injected.
func vacuousRun() *history.History {
	h := overlapRun()
	for i, e := range h.Events {
		if e.Process == "c2" && e.Op == history.OpAcquire && e.Type == history.OK {
			h.Events[i].Type = history.Fail
		}
	}
	h.Events[0].Params.Steps = append(h.Events[0].Params.Steps, history.PlannedStep{Step: 2, Fault: "kill", Targets: []string{"n1"}})
	h.Params = *h.Events[0].Params
	return h
}

// TestGolden compares page bodies with golden files, for an expected violation, an unexpected
// violation and an inconclusive run. It ignores styles and scripts, because they can change without
// affecting the content.
func TestGolden(t *testing.T) {
	vacuousHistory := vacuousRun()
	for name, r := range map[string]outcome.Run{
		"expected": checkedRun(overlapRun(), "violated"), "unexpected": checkedRun(overlapRun(), "holds"), "undecided": checkedRun(vacuousHistory, "holds"),
	} {
		page := render(t, r)
		got := page[strings.Index(page, "<body"):strings.LastIndex(page, "<script")]
		path := filepath.Join("testdata", name+".html")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || got != string(want) {
			t.Errorf("%s differs from the page: check the change and, if it is right, run with -update (%v)", path, err)
		}
	}
}

var update = flag.Bool("update", false, "rewrite the golden files")

// Each internal link has exactly one target, and of the text from a scenario only web addresses
// become links.
func TestLinks(t *testing.T) {
	page := render(t, checkedRun(overlapRun(), "violated"))
	for _, m := range regexp.MustCompile(`href="#([^"]+)"`).FindAllStringSubmatch(page, -1) {
		if n := strings.Count(page, `id="`+m[1]+`"`); n != 1 {
			t.Errorf("id %s occurs %d times, want once", m[1], n)
		}
	}
	for _, m := range regexp.MustCompile(`href="([^"#][^"]*)"`).FindAllStringSubmatch(page, -1) {
		if m[1] != "https://example.org/a?b=1&amp;c" && m[1] != "history.jsonl" && m[1] != "data:," {
			t.Errorf("unexpected link to %s", m[1])
		}
	}
	for _, id := range []string{"verdict", "story", "faults", "numbers", "history", "again", "limits", "p-mutual-exclusion", "e1", "e11"} {
		if !strings.Contains(page, `id="`+id+`"`) {
			t.Errorf("no element has the id %q", id)
		}
	}
}

func TestPageIsDeterministic(t *testing.T) {
	if a, b := render(t, checkedRun(overlapRun(), "holds")), render(t, checkedRun(overlapRun(), "holds")); a != b {
		t.Error("the same run produced two different pages")
	}
}

func TestPageOfBareTruncatedHistory(t *testing.T) {
	r := checkedRun(overlapRun(), "holds")
	r.Manifest, r.Outcome.Judgements = nil, nil
	r.Verdict.Cut = "line 9 is cut in its middle"
	page := render(t, r)
	for _, want := range []string{"This is a bare history", "The record is truncated", `id="p-mutual-exclusion"`} {
		if !strings.Contains(page, want) {
			t.Errorf("page does not contain %q", want)
		}
	}
	render(t, outcome.Run{History: &history.History{}}) // an empty run must not panic
}

// The page of a long history lists the cited events and the events around the violation, and states
// how many events it omits.
func TestLongHistory(t *testing.T) {
	var more []history.Event
	for i := range 20_000 {
		more = append(more, history.Event{T: 6e9 + int64(i)*1e5, Process: "c1-n1", Type: history.Fail, Op: history.OpSet, Key: "k", Node: "n1", Token: "x",
			SentAt: 6e9 + int64(i)*1e5 - 1000, AppliedAt: 6e9 + int64(i)*1e5 - 500, AnsweredAt: 6e9 + int64(i)*1e5})
	}
	r := checkedRun(overlapRun(more...), "violated")
	l := newListing(r, sequence.ForVerdict(r.History, r.Verdict))
	if len(l.HasRow) > maxRows || len(l.HasRow)+l.NumOmitted != len(r.History.Events) {
		t.Errorf("%d of %d events have rows and %d are omitted", len(l.HasRow), len(r.History.Events), l.NumOmitted)
	}
	for _, n := range r.Verdict.Result(verdict.MutualExclusion).Witness.Events {
		if !l.HasRow[n] {
			t.Errorf("event %d of the witness has no row", n)
		}
	}
	if page := render(t, r); !strings.Contains(page, fmt.Sprintf("%s omitted", display.Plural(l.NumOmitted, "event"))) && !strings.Contains(page, "omitted") {
		t.Error("the page does not state how many events it omits")
	}
}

func BenchmarkWrite(b *testing.B) {
	var more []history.Event
	for i := range 2000 {
		more = append(more, history.Event{T: 6e9 + int64(i)*1e5, Process: "c1-n1", Type: history.Fail, Op: history.OpSet, Key: "k", Node: "n1", Token: "x", SentAt: 6e9, AppliedAt: 6e9, AnsweredAt: 6e9})
	}
	r := checkedRun(overlapRun(more...), "violated")
	p := Page{Run: r, Diagram: sequence.ForVerdict(r.History, r.Verdict)}
	for b.Loop() {
		if err := Write(&bytes.Buffer{}, p); err != nil {
			b.Fatal(err)
		}
	}
}
