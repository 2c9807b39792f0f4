package timeline

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/checker"
	"lockpick/harness/history"
	"lockpick/internal/histories"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestLayouts compares the layouts of some of the checker's test histories with golden files.
func TestLayouts(t *testing.T) {
	for _, name := range []string{"pause-overrun", "restart-forgets", "clock-jump", "delayed-release-deletes", "client-clock-steps-back", "fenced"} {
		t.Run(name, func(t *testing.T) {
			h := readHistory(t, "../../checker/testdata/"+name+".txt")
			got := formatTimeline(New(h, checker.Check(h)))
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(file); err != nil || got != string(want) {
				t.Errorf("%s differs (%v): check the change and, if it is right, run with -update:\n%s", name, err, got)
			}
		})
	}
}

// readHistory reads one of the checker's test histories.
func readHistory(t testing.TB, file string) *history.History {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	h, err := histories.Parse(string(a.Files[0].Data))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return h
}

// formatTimeline formats a layout as text, with a paragraph for each lane and a line for each item.
func formatTimeline(t Timeline) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s, opens at %s to %s\n", at(t.End), at(t.InitialView[0]), at(t.InitialView[1]))
	for _, v := range t.Views {
		fmt.Fprintf(&s, "%s %s to %s\n", v.Property, at(v.From), at(v.To))
	}
	if t.Omitted != "" {
		fmt.Fprintf(&s, "not drawn: %s\n", t.Omitted)
	}
	for l, lane := range t.Lanes {
		fmt.Fprintf(&s, "\n%s (%s) %d+%d\n", lane.Name, lane.Role, lane.Y, lane.H)
		for r, row := range t.Rows {
			if row.Lane != l {
				continue
			}
			for _, line := range t.Lines {
				if line.Row == r {
					for _, p := range line.Points {
						fmt.Fprintf(&s, "  %s holders %d\n", at(p[0]), p[1])
					}
				}
			}
			for _, i := range t.Items {
				if i.Row == r {
					s.WriteString("  " + formatItem(t, i) + "\n")
				}
			}
		}
	}
	return s.String()
}

func formatItem(t Timeline, i item) string {
	s := at(i.From)
	if i.To > i.From {
		s += "–" + at(i.To)
	}
	s += " " + t.Kinds[i.Kind].Class
	for _, text := range []int{i.Label, i.Session} {
		if text > 0 {
			s += " [" + t.Texts[text] + "]"
		}
	}
	if i.Detail > 0 {
		s += " " + t.Texts[i.Detail]
	}
	return s + " " + strings.ReplaceAll(fmt.Sprint(i.Events), " ", ",")
}

func at(µs int64) string { return fmt.Sprintf("%.3f", float64(µs)/1e6) }
