package timeline

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
)

func TestScriptIsShort(t *testing.T) {
	if n := strings.Count(Script, "\n"); n > 440 {
		t.Errorf("script has %d lines, want at most 440", n)
	}
	for _, banned := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "http://www.w3.org/1999"} {
		if strings.Contains(Script, banned) {
			t.Errorf("script contains %q", banned)
		}
	}
}

// Names are escaped in the markup and in the data.
func TestUntrustedNamesAreEscaped(t *testing.T) {
	h := readHistory(t, "../../checker/testdata/restart-forgets.txt")
	evil := `</script><script>alert(1)</script><img src=x onerror="alert(2)">` + "\x00\u202e" + strings.Repeat("A", 1<<20)
	for i := range h.Events {
		h.Events[i].Cause += evil
		h.Events[i].Key = evil
	}
	v := checker.Check(h)
	v.Results = append(v.Results, verdict.Result{Property: evil, Outcome: verdict.Violated, Because: evil, Witness: &verdict.Witness{Events: []int64{1}, To: 5}})
	html, err := New(h, v).Fragment()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(html), "</script"); n != 1 {
		t.Errorf("%d closing script tags, want 1", n)
	}
	for _, bad := range []string{"<img", "alert(1)</", "\x00", "\u202e"} {
		if strings.Contains(string(html), bad) {
			t.Errorf("fragment contains %q", bad)
		}
	}
	if len(html) > 1<<20 {
		t.Errorf("fragment has %d bytes, want at most 1 MiB", len(html))
	}
}

func TestEmptyHistory(t *testing.T) {
	for _, h := range []*history.History{nil, {}, {Params: history.Params{Clients: []string{"c1", "c1"}, Nodes: []string{"n1", "n1"}}}} {
		if _, err := New(h, verdict.Verdict{}).Fragment(); err != nil {
			t.Error(err)
		}
	}
}

// The timeline of a run with a hundred thousand events and an overlap in the middle is folded.
func TestLongRunIsFolded(t *testing.T) {
	h := longRun(100_000)
	v := verdict.Verdict{Results: []verdict.Result{overlap(t, h)}}
	tl := checkLayoutOf(t, h, v)
	data, err := json.Marshal(tl)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 2_500_000 || len(tl.Items) > 2*maxItems {
		t.Errorf("timeline is too long: %d bytes, %d items", len(data), len(tl.Items))
	}
	html, err := tl.Fragment()
	if err != nil || len(html) > 600_000 || !bytes.Equal(decompress(t, string(html)), data) {
		t.Errorf("fragment has %d bytes for %d bytes of data, or contains other data: %v", len(html), len(data), err)
	}
	if v := tl.Views[0]; tl.CompleteSpan[0] > v.From || tl.CompleteSpan[1] < v.To || tl.CompleteSpan[1]-tl.CompleteSpan[0] >= tl.End {
		t.Errorf("complete span is %v, want a part of the run that includes %d to %d", tl.CompleteSpan, v.From, v.To)
	}
	if !strings.Contains(tl.Omitted, "omitted") {
		t.Errorf("Omitted is %q", tl.Omitted)
	}
	isDrawn := map[int64]bool{}
	for _, i := range tl.Items {
		for _, n := range i.Events {
			isDrawn[n] = true
		}
	}
	for _, n := range tl.Views[0].Events {
		if !isDrawn[n] {
			t.Errorf("event %d of the witness is not drawn", n)
		}
	}
}

// decompress returns the data of a timeline long enough to be compressed.
func decompress(t *testing.T, html string) []byte {
	t.Helper()
	_, rest, _ := strings.Cut(html, `class="tl-data">`)
	text, _, _ := strings.Cut(rest, "</script>")
	var compressed []byte
	if err := json.Unmarshal([]byte(text), &compressed); err != nil {
		t.Fatalf("decode data: %v in %.80s", err, text)
	}
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// overlap returns the first two overlapping beliefs as a violation. The checker would take seconds,
// because it would run porcupine on the history.
func overlap(t *testing.T, h *history.History) verdict.Result {
	t.Helper()
	all := facts.Read(h).AllWindows()
	for i, b := range all[1:] {
		if a := all[i]; b.From < a.To {
			return verdict.Result{Property: verdict.MutualExclusion, Outcome: verdict.Violated,
				Witness: &verdict.Witness{Events: []int64{a.OpenEvent.N, b.OpenEvent.N}, From: b.From, To: min(a.To, b.To)}}
		}
	}
	t.Fatal("no beliefs overlap")
	return verdict.Result{}
}

// longRun returns a history of two clients that take turns holding the lock. Once, both hold it.
func longRun(n int) *history.History {
	h := &history.History{Params: history.Params{Clients: []string{"c1", "c2"}, Nodes: []string{"n1", "n2", "n3"}, Quorum: 2, TTL: 10e9, Resource: "r1", Fence: "none"}}
	at := int64(0)
	put := func(e history.Event) {
		at += 1e6
		e.T, e.N, e.Key = at, int64(len(h.Events)+1), "lock-1"
		if e.Node != "" {
			e.SentAt, e.AppliedAt, e.AnsweredAt = at-3e5, at-2e5, at
		}
		h.Events = append(h.Events, e)
	}
	put(history.Event{Process: history.Harness, Type: history.Begin, Op: history.OpRun})
	for _, c := range h.Params.Clients {
		put(history.Event{Process: c, Type: history.Begin, Op: history.OpClient})
	}
	for k := 1; len(h.Events) < n; k++ {
		c := h.Params.Clients[k%2]
		s := fmt.Sprintf("%s/%d", c, k)
		put(history.Event{Process: c, Type: history.Invoke, Op: history.OpAcquire, Session: s})
		for _, node := range h.Params.Nodes {
			put(history.Event{Process: c + "-" + node, Node: node, Type: history.OK, Op: history.OpSet, Token: s, TTL: 10e9})
		}
		put(history.Event{Process: c, Type: history.OK, Op: history.OpAcquire, Session: s, Token: s, ValidUntil: at + 9e9})
		if len(h.Events) > n/2 && len(h.Events) < n/2+12 {
			continue // without a release
		}
		put(history.Event{Process: c, Type: history.Invoke, Op: history.OpRelease, Session: s})
		for _, node := range h.Params.Nodes {
			put(history.Event{Process: c + "-" + node, Node: node, Type: history.OK, Op: history.OpRelease, Token: s})
		}
		put(history.Event{Process: c, Type: history.OK, Op: history.OpRelease, Session: s})
	}
	put(history.Event{Process: history.Harness, Type: history.End, Op: history.OpRun})
	return h
}
