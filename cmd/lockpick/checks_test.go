package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	slowTag  = regexp.MustCompile(`(?m)^//go:build.*\b(long|processes|containers|nightly)\b`)
	testName = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	listedAs = regexp.MustCompile(`(?m)^\| (Test\w+(?:, Test\w+)*) \|`)
)

// The table of the longer tests says of each what it proves, and names no others.
func TestTableOfChecks(t *testing.T) {
	const table = "../../.ci/README.md"
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, m := range listedAs.FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			listed[name] = true
		}
	}
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil || !slowTag.Match(source) {
			return err
		}
		for _, m := range testName.FindAllStringSubmatch(string(source), -1) {
			if name := m[1]; name != "TestMain" && !listed[name] {
				t.Errorf("%s of %s is not in the table of %s: say what it proves, and when it runs", name, path, table)
			}
			delete(listed, m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range listed {
		t.Errorf("%s is in the table of %s, and no file with a tag has it", name, table)
	}
}
