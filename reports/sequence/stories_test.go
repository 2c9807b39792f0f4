package sequence

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/checker/verdict"
)

var update = flag.Bool("update", false, "update the drawings in testdata")

// Each txtar file in testdata is an example: a history in the short form, the violated result if there
// is one, and the drawing.
func TestGoldenText(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { checkExample(t, file) })
	}
}

// parseExample returns the parts of an example by name, and its diagram.
func parseExample(t *testing.T, a *txtar.Archive) (parts map[string]*txtar.File, d Diagram) {
	t.Helper()
	parts = map[string]*txtar.File{}
	for i := range a.Files {
		parts[a.Files[i].Name] = &a.Files[i]
	}
	h, err := parseShortForm(string(parts["history"].Data))
	if err != nil {
		t.Fatal(err)
	}
	var r *verdict.Result
	if f := parts["result"]; f != nil {
		r = &verdict.Result{Outcome: verdict.Violated}
		if err := json.Unmarshal(f.Data, r); err != nil {
			t.Fatalf("result: %v", err)
		}
	}
	return parts, ForResult(h, r)
}

func checkExample(t *testing.T, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parts, d := parseExample(t, a)
	for name, width := range map[string]int{"text": 120, "narrow": 72} {
		f := parts[name]
		if f == nil {
			continue
		}
		got := Text(d, width)
		if *update {
			f.Data = []byte(got)
		} else if got != string(f.Data) {
			t.Errorf("%s differs: check the drawing and, if it is right, run with -update:\n%s", name, got)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
