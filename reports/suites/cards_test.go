package suites

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The index links to a store's scorecards, and retention applies to them.
func TestScorecardsInStore(t *testing.T) {
	store := fullStore(t)
	const older, newer = "20260101T050000.000Z", "20260102T050000.000Z"
	for _, name := range []string{older, newer} {
		write(t, filepath.Join(store, ScoreFolder, name, ScoreFile), "a page")
		write(t, filepath.Join(store, ScoreFolder, name, "runs", "1-1-baseline", "run.json"), "{}")
	}
	if err := Index(store); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(store, IndexFile))
	if err != nil || !strings.Contains(string(page), `href="scores/`+older+`/score.html"`) || !strings.Contains(string(page), newer) {
		t.Errorf("the index does not link to both scorecards: %v", err)
	}
	out, err := FindExcess(store, Retention{MaxCount: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := Remove(store, out); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{older: false, newer: true} {
		if _, err := os.Stat(filepath.Join(store, ScoreFolder, name)); (err == nil) != there {
			t.Errorf("%s exists: %v, want %v", name, err == nil, there)
		}
	}
}
