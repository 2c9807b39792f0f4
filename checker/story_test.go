package checker

import (
	"flag"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/facts"
	"lockpick/internal/histories"
)

var update = flag.Bool("update", false, "update the verdicts in testdata")

// TestStories compares the verdicts on the histories in testdata with the expected verdicts. Each
// file contains a history and its verdict. After a change run `go test -update` and read the diff.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("find histories: %v, %d files", err, len(files))
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			h, err := histories.Parse(string(a.Files[0].Data))
			if err != nil {
				t.Fatal(err)
			}
			got := formatVerdict(h, Check(h))
			if second := formatVerdict(h, Check(h)); second != got {
				t.Errorf("a second check gives a different verdict:\n%s", second)
			}
			if *update {
				a.Files = append(a.Files[:1], txtar.File{Name: "verdict", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(a), 0o666); err != nil {
					t.Fatal(err)
				}
				return
			}
			if len(a.Files) != 2 || string(a.Files[1].Data) != got {
				t.Errorf("the verdict differs; got:\n%s", got)
			}
		})
	}
}

// testdataHistories yields each file in testdata with its history.
func testdataHistories(t *testing.T) iter.Seq2[string, *history.History] {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("find histories: %v, %d files", err, len(files))
	}
	return func(yield func(string, *history.History) bool) {
		for _, file := range files {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			h, err := histories.Parse(string(a.Files[0].Data))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if !yield(file, h) {
				return
			}
		}
	}
}

// formatVerdict formats a verdict for testdata.
func formatVerdict(h *history.History, v verdict.Verdict) string {
	var b strings.Builder
	if v.Assumption != "" {
		fmt.Fprintf(&b, "assumption: %s\n", v.Assumption)
	}
	if v.Disagreement != "" {
		fmt.Fprintf(&b, "disagreement: %s\n", v.Disagreement)
	}
	for _, r := range v.Results {
		fmt.Fprintf(&b, "%s: %s", r.Property, r.Outcome)
		if r.Cause != "" {
			fmt.Fprintf(&b, " (%s)", strings.TrimSpace(r.Cause+" "+r.Node))
		}
		fmt.Fprintf(&b, "\n  %s\n", r.Because)
		if r.Outcome != verdict.Undecided {
			fmt.Fprintf(&b, "  occasions %d, incidents %d\n", r.Occasions, r.Incidents)
		}
		if r.Stalled > 0 {
			fmt.Fprintf(&b, "  a stall of %g s may be why\n", r.Stalled)
		}
		for _, l := range r.Losses {
			fmt.Fprintf(&b, "  on %s: %s, steps %v\n", l.Node, l.Cause, l.Steps)
		}
		if w := r.Witness; w != nil {
			fmt.Fprintf(&b, "  witness: %s of %s, %s to %s\n", strings.Join(w.Sessions, " and "), w.Key, facts.Seconds(w.From), facts.Seconds(w.To))
			for _, n := range w.Events {
				i := slices.IndexFunc(h.Events, func(e history.Event) bool { return e.N == n })
				e := h.Events[i]
				if l := e.Life; l != nil {
					e.Cause = string(l.Kind) + " " + l.OldValue + "→" + l.Value
				}
				fmt.Fprintf(&b, "    %s\n", strings.Join(strings.Fields(fmt.Sprintf("%.3f %s %s %s %s %s %s", history.Seconds(e.T), e.Process, e.Type, e.Op, e.Node, e.Session, e.Cause)), " "))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Numbers)) {
		fmt.Fprintf(&b, "%s %s\n", name, strings.TrimSpace(strconv.FormatFloat(v.Numbers[name], 'g', 6, 64)+" "+v.Reasons[name]))
	}
	return b.String()
}
