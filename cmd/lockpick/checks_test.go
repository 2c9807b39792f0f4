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
	tableRow = regexp.MustCompile(`(?m)^\| (Test\w+(?:, Test\w+)*) \|`)
)

// TestTableOfChecks checks that the tables in .ci/README.md list every longer test, and no test that
// does not exist. Quick tests need not be listed.
func TestTableOfChecks(t *testing.T) {
	const table = "../../.ci/README.md"
	text, err := os.ReadFile(table)
	if err != nil {
		t.Fatal(err)
	}
	listedTests, existingTests := map[string]bool{}, map[string]bool{}
	for _, m := range tableRow.FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			listedTests[name] = true
		}
	}
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		longer := slowTag.Match(source)
		for _, m := range testName.FindAllStringSubmatch(string(source), -1) {
			if name := m[1]; longer && name != "TestMain" && !listedTests[name] {
				t.Errorf("%s of %s is not in the table of %s: add what it proves and when it runs", name, path, table)
			}
			existingTests[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range listedTests {
		if !existingTests[name] {
			t.Errorf("%s is in the table of %s, but there is no such test", name, table)
		}
	}
}
