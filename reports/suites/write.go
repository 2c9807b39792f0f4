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
	"path/filepath"
	"regexp"
	"slices"

	"lockpick/harness/owned"
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
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("create suite directory: %w; choose another with --store", err)
	}
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
	if err := replace(filepath.Join(tmp, OutcomeFile), append(text, '\n')); err != nil {
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
		if err := replace(filepath.Join(tmp, f.Name), text.Bytes()); err != nil {
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
	has := func(path string) bool {
		_, err := os.Stat(filepath.Join(dir, filepath.FromSlash(path)))
		return err == nil
	}
	v := look(s, beside(s), has)
	var page, text bytes.Buffer
	if err := writePage(&page, v); err != nil {
		return err
	}
	writeMarkdown(&text, v)
	if err := replace(filepath.Join(dir, PageFile), page.Bytes()); err != nil {
		return err
	}
	return replace(filepath.Join(dir, TextFile), text.Bytes())
}

// beside are the latest suites of other backends in the same store.
func beside(s *Suite) []*Suite {
	newest := map[string]*Suite{}
	for _, dir := range Stored(s.Store) {
		backend := head(filepath.Join(dir, OutcomeFile)).backend
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
	entries, err := os.ReadDir(filepath.Join(store, Folder))
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

// Open reads the outcome.json of a suite's directory.
func Open(dir string) (*Suite, error) {
	path := filepath.Join(dir, OutcomeFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("open suite: %w", err)
	}
	// A run's outcome.json has no scenarios.
	s := &Suite{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if s.Schema != Schema || s.Scenarios == nil || slices.Contains(s.Scenarios, nil) {
		return nil, fmt.Errorf("read %s: it is no suite of this version", path)
	}
	real, err := filepath.EvalSymlinks(dir) // `latest`
	if err != nil {
		return nil, fmt.Errorf("open suite: %w", err)
	}
	s.Store = filepath.Dir(filepath.Dir(real))
	return s, nil
}

// replace writes a file that appears under its name when it is whole.
func replace(path string, text []byte) error {
	own, err := owned.Unfinished.Name()
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	f, err := os.OpenFile(filepath.Join(filepath.Dir(path), own), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	defer os.Remove(f.Name()) // it has its name by then, unless something failed
	_, err = f.Write(text)
	err = cmp.Or(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
