package suites

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/internal/files"
)

// fullStore creates a store with three suites, one per day, and an unfinished run. Each suite has two
// runs and refers to one of them.
func fullStore(t *testing.T) string {
	t.Helper()
	store := t.TempDir()
	for day := 1; day <= 3; day++ {
		name := func(second int) string { return fmt.Sprintf("2026010%dT03040%d.000Z", day, second) }
		for i, scenario := range []string{"pause", "pause+fenced"} {
			dir := filepath.Join(store, scenario, name(i+1)+"-sim-1")
			write(t, filepath.Join(dir, "run.json"), "{}")
			write(t, filepath.Join(dir, OutcomeFile), "{}")
			write(t, filepath.Join(dir, "history.jsonl.gz"), strings.Repeat("x", 1000))
			os.Remove(filepath.Join(store, scenario, "latest"))
			if err := os.Symlink(filepath.Base(dir), filepath.Join(store, scenario, "latest")); err != nil {
				t.Fatal(err)
			}
		}
		write(t, filepath.Join(store, Folder, name(0), OutcomeFile), `{"scenarios": [{"dir": "../../pause+fenced/`+name(2)+`-sim-1"}]}`)
	}
	write(t, filepath.Join(store, "long", "20260101T000000.000Z-process-1", "history.jsonl"), "{}")
	write(t, filepath.Join(store, "notes", "mine.txt"), "not part of the store")
	return store
}

func TestFindExcess(t *testing.T) {
	first := []string{"suites/20260101T030400.000Z", "pause/20260101T030401.000Z-sim-1", "pause+fenced/20260101T030402.000Z-sim-1"}
	second := []string{"suites/20260102T030400.000Z", "pause/20260102T030401.000Z-sim-1", "pause+fenced/20260102T030402.000Z-sim-1"}
	third := []string{"suites/20260103T030400.000Z", "pause/20260103T030401.000Z-sim-1", "pause+fenced/20260103T030402.000Z-sim-1"}
	in, err := files.OpenFolder(fullStore(t))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	size, _, err := in.Measure(".")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		b    Retention
		want []string
	}{
		"newest one":   {Retention{MaxCount: 1}, slices.Concat(first, second)},
		"newest two":   {Retention{MaxCount: 2}, first},
		"newest three": {Retention{MaxCount: 3}, nil},
		"older":        {Retention{MinStart: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}, first},
		// The suite and its first run started before that time. The run it refers to started later and stays.
		"between its runs": {Retention{MinStart: time.Date(2026, 1, 1, 3, 4, 1, 5e8, time.UTC)}, first[:2]},
		"slightly smaller": {Retention{MaxBytes: size - 40}, first[:1]},
		"much smaller":     {Retention{MaxBytes: 2500}, slices.Concat(first, second)},
		"zero bytes":       {Retention{}, slices.Concat(first, second, third)},
	} {
		store := fullStore(t)
		got, err := FindExcess(store, c.b)
		if err != nil {
			t.Fatal(err)
		}
		var dirs []string
		for _, e := range got {
			dirs = append(dirs, e.Dir)
		}
		if !slices.Equal(dirs, c.want) {
			t.Errorf("%s: excess is %v, want %v", name, dirs, c.want)
		}
		if err := Remove(store, got); err != nil {
			t.Fatal(err)
		}
		for _, dir := range slices.Concat(first, second, third) {
			if _, err := os.Stat(filepath.Join(store, dir)); (err == nil) == slices.Contains(c.want, dir) {
				t.Errorf("%s: after Remove, stat of %s: %v", name, dir, err)
			}
		}
		left, err := filepath.Glob(filepath.Join(store, "*", "latest"))
		if err != nil || len(c.want) == 9 && len(left) > 0 {
			t.Errorf("%s: remaining links: %v, %v", name, left, err)
		}
		for _, link := range left {
			if to, err := os.Readlink(link); err != nil || !strings.HasPrefix(to, "20260103") {
				t.Errorf("%s: %s links to %s, %v", name, link, to, err)
			}
		}
		for _, path := range []string{"long/20260101T000000.000Z-process-1/history.jsonl", "notes/mine.txt"} {
			if _, err := os.Stat(filepath.Join(store, path)); err != nil {
				t.Errorf("%s: Remove deleted a file that must stay: %v", name, err)
			}
		}
	}
}

// A run without an outcome becomes excess when it has not been written to for a while. An unreadable
// suite may refer to any run, so FindExcess fails.
func TestFindExcessWithUnfinishedRunsAndUnreadableSuites(t *testing.T) {
	store := fullStore(t)
	unfinishedRun := filepath.Join(store, "long", "20260101T000000.000Z-process-1")
	ago := time.Now().Add(-2 * liveWindow)
	for _, path := range []string{filepath.Join(unfinishedRun, "history.jsonl"), unfinishedRun} {
		if err := os.Chtimes(path, ago, ago); err != nil {
			t.Fatal(err)
		}
	}
	got, err := FindExcess(store, Retention{MaxBytes: 0, MinStart: time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)})
	if err != nil || len(got) != 1 || got[0].Dir != "long/20260101T000000.000Z-process-1" {
		t.Errorf("with an old unfinished run: excess is %v, error %v", got, err)
	}
	if err := Remove(store, got); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(store, "long")); err == nil {
		t.Error("Remove left an empty folder")
	}
	if err := os.Remove(filepath.Join(store, Folder, "20260103T030400.000Z", OutcomeFile)); err != nil {
		t.Fatal(err)
	}
	if got, err := FindExcess(store, Retention{MaxCount: 1}); err == nil || !strings.Contains(err.Error(), "20260103T030400.000Z") {
		t.Errorf("with an unreadable suite: excess is %v, error %v", got, err)
	}
}
