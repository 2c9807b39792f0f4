package suites

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"lockpick/harness/files"
	"lockpick/harness/owned"
	"lockpick/scenarios/outcome"
)

// Names in a store.
const (
	Folder      = "suites" // of a store
	PageFile    = "suite.html"
	TextFile    = "suite.md"
	OutcomeFile = "outcome.json"
	IndexFile   = "index.html" // of a store
)

// stampForm is how a directory is named by its time.
const stampForm = "20060102T150405.000Z"

// suiteName tells a suite's directory from those of a scenario that is called suites.
var suiteName = regexp.MustCompile(`^\d{8}T\d{6}\.\d{3}Z(-\d+)?$`)

// File is one more file of a suite's directory, which somebody else makes.
type File struct {
	Name  string
	Write func(io.Writer) error
}

// Write writes a suite into a directory of its own in the store. It appears by
// rename once all its files are there, more of others' too, and `latest` beside it
// then leads to it.
func Write(s *Suite, more ...File) (dir string, err error) {
	s.Schema = Schema
	s.sorted()
	parent := filepath.Join(s.Store, Folder)
	if err := os.MkdirAll(s.Store, 0o755); err != nil {
		return "", fmt.Errorf("create suite directory: %w; choose another with --store", err)
	}
	shelf, err := files.MakeFolder(parent)
	if err != nil {
		return "", fmt.Errorf("create suite directory: %w; choose another with --store", err)
	}
	defer shelf.Close()
	tmp, err := owned.Unfinished.MakeDir(parent)
	if err != nil {
		return "", fmt.Errorf("create suite directory: %w; choose another with --store", err)
	}
	defer os.RemoveAll(tmp) // it has its name by then, unless something failed
	pictures, err := s.pictures()
	if err != nil {
		return "", err
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write suite: %w", err)
	}
	if err := replace(tmp, OutcomeFile, append(text, '\n')); err != nil {
		return "", err
	}
	if err := draw(tmp, s); err != nil {
		return "", err
	}
	for _, f := range slices.Concat(pictures, more) {
		var text bytes.Buffer
		if err := f.Write(&text); err != nil {
			return "", err
		}
		if err := replace(tmp, f.Name, text.Bytes()); err != nil {
			return "", err
		}
	}
	name := s.Started.UTC().Format(stampForm)
	if dir, err = settle(tmp, filepath.Join(parent, name)); err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // not before: what others may enter is not swept
		return "", fmt.Errorf("create suite directory: %w", err)
	}
	latest(parent, filepath.Base(dir))
	return dir, nil
}

// settle gives a directory its name, or the next that is free.
func settle(tmp, name string) (string, error) {
	for n := 1; ; n++ {
		dir := name
		if n > 1 {
			dir += fmt.Sprintf("-%d", n)
		}
		// A rename onto a directory that isn't empty fails, so of two that want one name one gets it.
		err := os.Rename(tmp, dir)
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrExist) || n >= 1000 {
			return "", fmt.Errorf("create suite directory: %w", err)
		}
	}
}

// latest points a link beside the suites at the newest; where links can't be made,
// there is none.
func latest(parent, name string) {
	own, err := owned.Unfinished.Name()
	tmp := filepath.Join(parent, own)
	if err == nil && os.Symlink(name, tmp) == nil && os.Rename(tmp, filepath.Join(parent, "latest")) != nil {
		os.Remove(tmp)
	}
}

// Draw draws a stored suite again, from its outcome.json alone: nothing is judged anew. It
// sweeps its store before.
func Draw(dir string) (*Suite, error) {
	s, err := Open(dir)
	if err != nil {
		return nil, err
	}
	if err := Sweep(s.Store); err != nil {
		return nil, err
	}
	return s, draw(dir, s)
}

// draw writes a suite's reports into a directory of store/suites.
func draw(dir string, s *Suite) error {
	store, err := files.OpenFolder(s.Store)
	if err != nil {
		return fmt.Errorf("draw suite: %w", err)
	}
	defer store.Close()
	has := func(name string) bool { return store.Has(path.Join(Folder, "this", name)) } // as seen from here
	v := look(s, beside(s), has)
	var page, text bytes.Buffer
	if err := writePage(&page, v); err != nil {
		return err
	}
	writeMarkdown(&text, v)
	if err := replace(dir, PageFile, page.Bytes()); err != nil {
		return err
	}
	return replace(dir, TextFile, text.Bytes())
}

// beside are the latest suites of other backends in the same store.
func beside(s *Suite) []*Suite {
	newest := map[string]*Suite{}
	for _, dir := range Stored(s.Store) {
		backend := head(dir).backend
		if backend == "" || backend == s.Backend || newest[backend] != nil {
			continue
		}
		if o, err := Open(dir); err == nil {
			newest[backend] = o
		}
	}
	var out []*Suite
	for _, o := range newest {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b *Suite) int { return cmp.Compare(a.Backend, b.Backend) })
	return out
}

// Stored lists the directories of a store's suites, the newest first.
func Stored(store string) []string {
	in, err := files.OpenFolder(filepath.Join(store, Folder))
	if err != nil {
		return nil
	}
	defer in.Close()
	entries, err := in.Entries()
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && suiteName.MatchString(e.Name()) {
			out = append(out, filepath.Join(store, Folder, e.Name()))
		}
	}
	slices.Reverse(out)
	return out
}

// mostJSON bounds the outcome.json of a suite.
const mostJSON = 64 << 20

// Open reads the outcome.json of a suite's directory.
func Open(dir string) (*Suite, error) {
	text, err := files.ReadIn(dir, OutcomeFile, mostJSON)
	if err != nil {
		return nil, fmt.Errorf("open suite: %w", err)
	}
	s, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, OutcomeFile), err)
	}
	s.Store = filepath.Join(dir, "..", "..") // `latest` lies beside what it leads to
	return s, nil
}

// parse reads a suite's outcome.json, and says what of it can't be right. A run's has
// no scenarios.
func parse(text []byte) (*Suite, error) {
	s := &Suite{}
	if err := files.JSON(text, s); err != nil {
		return nil, err
	}
	if s.Schema != Schema || s.Scenarios == nil || slices.Contains(s.Scenarios, nil) {
		return nil, errors.New("it is no suite of this version")
	}
	counts := []int{s.Seeds, s.Planned, s.Runs}
	for _, c := range s.Scenarios {
		counts = append(counts, c.Runs, c.Retries)
		for _, cell := range c.Cells {
			counts = append(counts, cell.Decided, cell.Violated, cell.Unexpected)
		}
	}
	for _, n := range counts {
		if n < 0 || n > mostCounted {
			return nil, fmt.Errorf("it counts %d of something: at most %d from 0", n, mostCounted)
		}
	}
	if !outcome.KnownCode(s.Code) {
		return nil, fmt.Errorf("code: %d is no exit code", s.Code)
	}
	for _, picture := range append(pictures(s), s.Rates...) {
		if strings.ContainsAny(picture, `/\:`) {
			return nil, fmt.Errorf("a picture of it is called %q, which is not beside it", picture)
		}
	}
	for i := range s.Outcomes {
		if err := s.Outcomes[i].Check(); err != nil {
			return nil, fmt.Errorf("outcomes[%d]: %w", i, err)
		}
	}
	return s, nil
}

// pictures are those of scenarios of many seeds.
func pictures(s *Suite) (all []string) {
	for _, c := range s.Scenarios {
		all = append(all, c.Seeds)
	}
	return all
}

// mostCounted is more than all runs of all scenarios.
const mostCounted = 1 << 40

// replace writes a file that appears under its name when it is whole.
func replace(dir, name string, text []byte) error {
	in, err := files.OpenFolder(dir)
	if err == nil {
		defer in.Close()
		err = in.Write(name, text)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w; make room, or choose another folder with --store", name, err)
	}
	return nil
}
