package suites

import (
	"bytes"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lockpick/internal/files"
)

// backLine matches the line of a run's page that links to the pages that list the run.
var backLine = regexp.MustCompile(`<p class="back" id="back">[^\n]*</p>`)

// maxRunPage limits the size of a run's page, in bytes. It is ten times that of the longest.
const maxRunPage = 32 << 20

// BackLinks returns links from a run's page to the pages that list the run, as HTML: the store's index, and
// the run's suite, assessment or scorecards. It omits pages that do not exist, and returns "" for a run
// outside a store.
func BackLinks(dir string) template.HTML {
	dir, err := uniqueDir(dir)
	if err != nil {
		return ""
	}
	store, scores := filepath.Join(dir, "../.."), filepath.Join(dir, "../..")
	isCardRun := filepath.Base(filepath.Dir(dir)) == RunFolder && suiteDirPattern.MatchString(filepath.Base(scores)) && filepath.Base(filepath.Dir(scores)) == ScoreFolder
	if isCardRun {
		store = filepath.Join(scores, "../..")
	} else if !runDirPattern.MatchString(filepath.Base(dir)) {
		return ""
	}
	in, err := files.OpenFolder(store)
	if err != nil {
		return ""
	}
	defer in.Close()
	back, err := filepath.Rel(dir, store)
	if err != nil {
		return ""
	}
	var out []string
	add := func(name, text string) {
		if in.Has(name) {
			out = append(out, fmt.Sprintf(`<a href="%s">%s</a>`, escapePath(path.Join(filepath.ToSlash(back), name)), template.HTMLEscapeString(text)))
		}
	}
	add(IndexFile, "All results")
	if isCardRun {
		add(path.Join(ScoreFolder, filepath.Base(scores), ScoreFile), "Scorecards of this run")
	} else {
		run := filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir)
		add(path.Join(Folder, listingOf(store, Folder, run), PageFile), "Suite of this run")
		add(path.Join(AssessmentFolder, listingOf(store, AssessmentFolder, run), AssessmentPage), "Assessment with this run")
	}
	return template.HTML(strings.Join(out, " ")) // all text in it is escaped
}

// uniqueDir returns an absolute path, in which the target of the link `latest` replaces the link.
func uniqueDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if to, linkErr := os.Readlink(dir); err == nil && linkErr == nil && to == filepath.Base(to) {
		dir = filepath.Join(filepath.Dir(dir), to)
	}
	return dir, err
}

// maxCandidates limits the number of directories in which listingOf looks for a run.
const maxCandidates = 16

// listingOf returns the name of the suite or assessment, in a folder of the store, that a run such as
// "baseline/20260102T030405.000Z-sim-1" belongs to, or "". It starts shortly before its runs, or after them
// if it is a suite merged from shards.
func listingOf(store, folder, run string) string {
	var before, after []string // nearest first
	for _, dir := range listFolder(store, folder) {
		if filepath.Base(dir) > path.Base(run) {
			after = append(after, dir)
		} else {
			before = append(before, dir)
		}
	}
	slices.Reverse(after)
	for _, dir := range slices.Concat(before[:min(len(before), maxCandidates)], after[:min(len(after), maxCandidates)]) {
		text, err := readReferences(dir) // much faster to search than to match with runReference
		if err == nil && (bytes.Contains(text, []byte(storePrefix+run+`"`)) || bytes.Contains(text, []byte(storePrefix+run+")"))) {
			return filepath.Base(dir)
		}
	}
	return ""
}

// LinkRun updates the links at the top of a run's page after a page that lists the run was written or
// removed. It does nothing if the run has no page.
func LinkRun(dir string) error {
	in, err := files.OpenFolder(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed in the meantime
	}
	if err != nil {
		return fmt.Errorf("link run: %w", err)
	}
	defer in.Close()
	page, err := in.Read(runPage, maxRunPage)
	if err != nil {
		return nil // there is none, or lockpick did not write it
	}
	at, line := backLine.FindIndex(page), backLineOf(dir)
	if at == nil || string(page[at[0]:at[1]]) == line {
		return nil // of an earlier version of lockpick, or up to date
	}
	if err := in.Write(runPage, slices.Concat(page[:at[0]], []byte(line), page[at[1]:])); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("link run: %w", err)
	}
	return nil
}

func backLineOf(dir string) string {
	return fmt.Sprintf(`<p class="back" id="back">%s</p>`, BackLinks(dir))
}

// linkRunsOf makes the pages of a suite's or an assessment's runs, which were written before it, link to it.
func linkRunsOf(store, dir string) error {
	runs, err := referencedRuns(dir)
	if err != nil {
		return err
	}
	return linkRuns(store, runs)
}

// linkRuns updates the pages of runs, which are given relative to the store.
func linkRuns(store string, runs map[string]bool) error {
	var errs []error
	for run := range runs {
		errs = append(errs, LinkRun(filepath.Join(store, filepath.FromSlash(run))))
	}
	return errors.Join(errs...)
}
