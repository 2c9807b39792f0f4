package main

import (
	"html"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"lockpick/reports"
	"lockpick/reports/suites"
)

var pageLink = regexp.MustCompile(` (?:href|src)="([^"]*)"`)

// checkLinks checks that each link of each page in a store leads to a file, and that each run's page links
// to the index. It returns the number of pages.
func checkLinks(t *testing.T, store string) (pages int) {
	t.Helper()
	err := filepath.WalkDir(store, func(path string, e fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".html" || e.Name() == "porcupine.html" { // porcupine's own page
			return err
		}
		pages++
		page, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if e.Name() == reports.PageFile && !strings.Contains(string(page), `index.html">All results</a>`) {
			t.Errorf("%s has no link to the index", path)
		}
		for _, m := range pageLink.FindAllStringSubmatch(string(page), -1) {
			u, err := url.Parse(html.UnescapeString(m[1]))
			if err != nil || u.Scheme != "" || u.Path == "" {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), filepath.FromSlash(u.Path))); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// TestLinks checks the links of a store's pages after commands that add pages, move runs, draw pages again
// and remove suites.
func TestLinks(t *testing.T) {
	t.Setenv("LOCKPICK_STORE", filepath.Join(t.TempDir(), "store"))
	store := os.Getenv("LOCKPICK_STORE")
	lockpick(t, "run", "gc-pause-after-acquire/")
	lockpick(t, "run", "gc-pause-after-acquire", "baseline/", "--reports", "all")
	lockpick(t, "run", "random-faults/", "--seeds", "10")
	lockpick(t, "scorecard", "redlock", "--tag", "score")
	lockpick(t, "minimize", "gc-pause-after-acquire/")
	for range 2 {
		lockpick(t, "report", filepath.Join(store, "gc-pause-after-acquire", "latest"))
		lockpick(t, "report")
		if n := checkLinks(t, store); n < 8 {
			t.Errorf("%d pages, want at least 8", n)
		}
		lockpick(t, "gc", "--keep", "1")
	}
	if dirs := suites.SuiteDirs(store); len(dirs) != 1 {
		t.Errorf("suites %v, want 1", dirs)
	}
	page, err := os.ReadFile(filepath.Join(store, "gc-pause-after-acquire", "latest", reports.PageFile))
	if err != nil || strings.Contains(string(page), suites.PageFile) {
		t.Errorf("a page links to a suite that gc removed: %v", err)
	}
}
