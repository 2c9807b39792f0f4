package reports

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lockpick/checker"
	"lockpick/internal/histories"
	"lockpick/scenarios/outcome"
)

func loadRun(t *testing.T, name string) outcome.Run {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("../checker/testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	h, err := histories.Parse(string(a.Files[0].Data))
	if err != nil {
		t.Fatal(err)
	}
	v := checker.Check(h)
	o := outcome.Outcome{Schema: 1, Scenario: name, Backend: "sim", Seconds: 1.5, Dir: "somewhere"}
	for _, r := range v.Results {
		o.Judgements = append(o.Judgements, outcome.Judgement{Property: r.Property, Got: r.Outcome, Because: r.Because, AsExpected: true})
	}
	return outcome.Run{History: h, Verdict: v, Outcome: o}
}

// Write creates all files, and the page links to them. A second call produces the same bytes, except
// for porcupine's drawing.
func TestWrite(t *testing.T) {
	for name, picture := range map[string]bool{"restart-forgets": true, "fenced": false, "vacuous": false, "malformed": false} {
		r := loadRun(t, name)
		first, second := t.TempDir(), t.TempDir()
		for _, dir := range []string{first, second} {
			if err := Write(dir, r); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		page, err := os.ReadFile(filepath.Join(first, PageFile))
		if err != nil {
			t.Fatal(err)
		}
		files := []string{PageFile, SequenceFile, svgFile, mermaidFile, JUnitFile, ednFile}
		if picture {
			files = append(files, porcupineFile)
		}
		for _, file := range files {
			a, err := os.ReadFile(filepath.Join(first, file))
			b, _ := os.ReadFile(filepath.Join(second, file))
			if err != nil || len(a) == 0 || file != porcupineFile && !bytes.Equal(a, b) {
				t.Errorf("%s: %s is missing, empty, or differs between two calls: %v", name, file, err)
			}
			if file != PageFile && !strings.Contains(string(page), `href="`+file+`"`) {
				t.Errorf("%s: the page has no link to %s", name, file)
			}
		}
		if _, err := os.Stat(filepath.Join(first, porcupineFile)); (err == nil) != picture {
			t.Errorf("%s: %s: %v", name, porcupineFile, err)
		}
	}
	if err := Write(filepath.Join(t.TempDir(), "gone"), loadRun(t, "fenced")); err == nil {
		t.Error("no error for a missing directory")
	}
}

// Write embeds the figures in the page. Only WriteImages creates image files.
func TestFigures(t *testing.T) {
	dir, r := t.TempDir(), loadRun(t, "restart-forgets")
	if err := Write(dir, r); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, PageFile))
	if err != nil {
		t.Fatal(err)
	}
	inline := bytes.Count(page, []byte(`class="fig"`))
	if _, err := os.Stat(filepath.Join(dir, FigureDir)); err == nil || inline < 2 || bytes.Contains(page, []byte("<img")) {
		t.Errorf("page has %d figures (want at least 2), or there are image files or <img> elements: %v", inline, err)
	}
	if err := WriteImages(dir, r); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{"*.svg", "*.png"} {
		if files, _ := filepath.Glob(filepath.Join(dir, FigureDir, form)); len(files) != inline {
			t.Errorf("%d files match %s, want %d", len(files), form, inline)
		}
	}
}
