package sequence

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/checker"
	"lockpick/internal/histories"
)

// TestDrawCheckerHistories compares the text drawings of the checker's test histories with the files
// in testdata/drawn.
func TestDrawCheckerHistories(t *testing.T) {
	files, err := filepath.Glob("../../checker/testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no histories: %v", err)
	}
	drawnPaths := map[string]bool{}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		h, err := histories.Parse(string(a.Files[0].Data))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".txt")
		h.Params.Scenario, h.Params.Backend = name, "story"
		got := []byte(Text(ForVerdict(h, checker.Check(h)), 120))
		path := filepath.Join("testdata", "drawn", filepath.Base(file))
		drawnPaths[path] = true
		if *update {
			if err := os.WriteFile(path, got, 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs (%v): check the drawing and, if it is right, run with -update:\n%s", name, err, got)
		}
	}
	existing, err := filepath.Glob("testdata/drawn/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range existing {
		if !drawnPaths[path] {
			t.Errorf("no history for %s", path)
		}
	}
}
