package checker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutantsAreListed holds the table in the package's doc to the patches.
func TestMutantsAreListed(t *testing.T) {
	patches, err := filepath.Glob("testdata/mutants/*.patch")
	if err != nil || len(patches) < 12 {
		t.Fatalf("%d patches: %v", len(patches), err)
	}
	var table strings.Builder
	for _, path := range patches {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".patch")
		table.WriteString("//\t" + name + strings.Repeat(" ", max(1, 25-len(name))) + firstLine(text) + "\n")
	}
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	const head = "TestMutants).\n"
	before, rest, _ := strings.Cut(string(doc), head+"//\n//\t")
	_, after, ok := strings.Cut(rest, "\n//\n")
	if want := before + head + "//\n" + table.String() + "//\n" + after; !ok || want != string(doc) {
		if !*update {
			t.Fatalf("doc.go lists other mutants than there are (-update writes it):\n%s", table.String())
		}
		if err := os.WriteFile("doc.go", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func firstLine(text []byte) string {
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
