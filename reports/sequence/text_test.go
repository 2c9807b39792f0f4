package sequence

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/reports/display"
)

func readExample(t *testing.T, name string) *history.History {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := parseShortForm(string(a.Files[0].Data))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestNoEscapeSequences(t *testing.T) {
	if text := Text(ForResult(readExample(t, "gc-pause"), nil), 100); strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
}

func TestEveryPartHasEvents(t *testing.T) {
	for _, name := range []string{"gc-pause", "restart-forgets", "delayed-release", "holder-cut-off"} {
		h := readExample(t, name)
		last := h.Events[len(h.Events)-1].N
		d := ForResult(h, &verdict.Result{Outcome: verdict.Violated, Property: verdict.MutualExclusion,
			Witness: &verdict.Witness{Sessions: []string{"c1/1", "c2/1"}, To: math.MaxInt64}})
		var all [][]int64
		for _, a := range d.Arrows {
			all = append(all, a.Events)
		}
		for _, b := range d.Bars {
			all = append(all, b.Events)
		}
		for _, n := range d.Notes {
			all = append(all, n.Events)
		}
		for _, b := range d.Bands {
			all = append(all, b.Events)
		}
		for _, events := range all {
			if len(events) == 0 {
				t.Errorf("%s: a part without events", name)
			}
			for _, n := range events {
				if n < 1 || n > max(last, int64(len(h.Events))) {
					t.Errorf("%s: event %d does not exist", name, n)
				}
			}
		}
	}
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain – ok → µs":  "plain – ok → µs",
		"\x1b[31m\r\n\x00": `\x1b[31m\x0d\x0a\x00`,
		"\u202e\u200b\xad": `\u202e\u200b\ufffd`,
		"日a\u0301":         `\u65e5a\u0301`,
		"\u0085\U0001f600": `\x85\U0001f600`,
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		in          string
		width, most int
		want        []string
	}{
		{"", 10, 2, nil},
		{"one two three", 7, 3, []string{"one two", "three"}},
		{"one two three", 7, 1, []string{"one tw…"}},
		{"abcdefghij k", 4, 9, []string{"abcd", "efgh", "ij k"}},
		{"until 1.0" + display.NoBreak + "s", 8, 9, []string{"until", "1.0 s"}},
	} {
		got := wrap(c.in, c.width, c.most)
		if strings.Join(got, "|") != strings.Join(c.want, "|") {
			t.Errorf("wrap(%q, %d, %d) = %q, want %q", c.in, c.width, c.most, got, c.want)
		}
	}
}

func TestNodeRange(t *testing.T) {
	for in, want := range map[string]string{
		"n1": "n1", "n1 n2": "n1 n2", "n1 n2 n3": "n1–n3", "n1 n2 n4 n5": "n1 n2 n4 n5", "n1 n3 n4 n5": "n1 n3–n5", "a b": "a b",
	} {
		if got := nodeRange(strings.Fields(in)); got != want {
			t.Errorf("nodeRange(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestDifferentInstantsLookDifferent(t *testing.T) {
	rows := []row{{at: 1e9}, {at: 1e9 + 1}, {at: 1e9 + 2e6}, {at: 3e9}}
	d := decimalPlaces(rows)
	for at, want := range map[int64]int{1e9: 9, 1e9 + 1: 9, 1e9 + 2e6: 3, 3e9: 3} {
		if d[at] != want {
			t.Errorf("%d has %d decimal places, want %d", at, d[at], want)
		}
	}
}

func TestForVerdictDrawsFirstViolationWithWitness(t *testing.T) {
	h := readExample(t, "restart-forgets")
	v := verdict.Verdict{Results: []verdict.Result{
		{Property: verdict.DeadlockFreedom, Outcome: verdict.Undecided},
		{Property: verdict.MutualExclusion, Outcome: verdict.Violated, Cause: verdict.RestartedAndForgot, Node: "n3",
			Witness: &verdict.Witness{Sessions: []string{"c1/1", "c2/1"}, Key: "lock-1", From: 1058300000, To: 2065000000}},
	}}
	text := Text(ForVerdict(h, v), DefaultWidth)
	for _, want := range []string{"mutual-exclusion violated (restarted-and-forgot, n3)", "BOTH c1 and c2"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}
