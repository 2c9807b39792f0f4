package suites

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockpick/internal/files"
	"lockpick/scenarios/outcome"
)

// Names in a store.
const (
	Folder      = "suites" // of a store
	PageFile    = "suite.html"
	TextFile    = "suite.md"
	OutcomeFile = "outcome.json"
	IndexFile   = "index.html" // of a store
	ScoreFolder = "scores"     // of a store: scorecards
	ScoreFile   = "score.html" // their page
)

// stampForm is how a directory is named by its time.
const stampForm = "20060102T150405.000Z"

// Stamp is how a directory is called that was begun then.
func Stamp(t time.Time) string { return t.UTC().Format(stampForm) }

// suiteName tells a suite's directory from those of a scenario that is called suites.
var suiteName = regexp.MustCompile(`^\d{8}T\d{6}\.\d{3}Z(-\d+)?$`)

// runName is how a run's directory is called: TIME-BACKEND-SEED, with a number where
// two began at once.
var runName = regexp.MustCompile(`^(\d{8}T\d{6}\.\d{3}Z)-([a-z0-9]+)-(\d+)(-\d+)?$`)

// Write writes a suite into a directory of its own in the store. It appears by
// rename once all its files are there, more of others' too, and `latest` beside it
// then leads to it.
func Write(s *Suite, more ...File) (dir string, err error) {
	s.Schema, s.AnyOutcome, s.Size, s.Violated = schema, s.anyOutcome(), len(s.Scenarios), s.violated()
	s.sorted()
	pictures := s.pictures()
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write suite: %w", err)
	}
	dir, err = files.Place(s.Store, Folder, Stamp(s.Started), func(dir string) error {
		if err := files.WriteIn(dir, OutcomeFile, append(text, '\n')); err != nil {
			return err
		}
		for _, f := range slices.Concat(pictures, more) {
			var text bytes.Buffer
			if err := f.Write(&text); err != nil {
				return err
			}
			if err := files.WriteIn(dir, f.Name, text.Bytes()); err != nil {
				return err
			}
		}
		return draw(dir, s)
	})
	return dir, unwritten(err)
}

// unwritten says what to do about a store that nothing can be written to.
func unwritten(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write to store: %w; make room, or choose another folder with --store", err)
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
	return s, unwritten(draw(dir, s))
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
	return cmp.Or(files.WriteIn(dir, PageFile, page.Bytes()), files.WriteIn(dir, TextFile, text.Bytes()))
}

// beside are the latest suites of other backends in the same store.
func beside(s *Suite) []*Suite {
	newest := map[string]*Suite{}
	for _, dir := range Stored(s.Store) {
		backend := head(dir).text("backend")
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
func Stored(store string) []string { return storedIn(store, Folder) }

// storedIn lists the directories of a folder of suites or of scorecards.
func storedIn(store, folder string) []string {
	in, err := files.OpenFolder(filepath.Join(store, folder))
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
			out = append(out, filepath.Join(store, folder, e.Name()))
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
	if s.Schema != schema || s.Scenarios == nil || slices.Contains(s.Scenarios, nil) {
		return nil, errors.New("it is no suite of this version")
	}
	drawn := slices.Clone(s.Rates)
	counts := []int{s.Seeds, s.Planned, s.Runs, s.Size}
	for _, c := range s.Scenarios {
		drawn = append(drawn, c.Seeds)
		counts = append(counts, c.Runs, c.Retries)
		for _, x := range c.Causes {
			counts = append(counts, x.Runs, x.First.Events, x.Shortest.Events)
		}
		if len(c.States) > mostCells || strings.Trim(c.States, cellAlphabet) != "" {
			return nil, fmt.Errorf("the states of the seeds of %q are none", c.ID())
		}
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
	for _, picture := range drawn {
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

// mostCounted is more than all runs of all scenarios.
const mostCounted = 1 << 40

// Sweep removes what killed lockpicks have left in a store of files and folders that were
// not whole: beside runs and suites, and in them.
func Sweep(store string) error {
	return files.Unfinished.SweepTree(store, func(path string) bool {
		name := filepath.Base(path)
		switch strings.Count(filepath.ToSlash(path), "/") {
		case 0:
			return !strings.HasPrefix(name, ".")
		case 1:
			return runName.MatchString(name) || suiteName.MatchString(name)
		}
		return name == "figures"
	})
}

// headSize bounds what is read of an outcome.json to know what it is of.
const headSize = 16 << 10

// heads is what the beginning of an outcome.json says: values by their names.
type heads map[string]any

// head reads the beginning of the outcome.json in a directory, of a run or a suite, and
// nothing that grows with the run. A file that is no such thing says nothing.
func head(dir string) heads {
	in, err := files.OpenFolder(dir)
	if err != nil {
		return nil
	}
	defer in.Close()
	f, err := in.Open(OutcomeFile, mostJSON)
	if err != nil {
		return nil
	}
	defer f.Close()
	d := json.NewDecoder(io.LimitReader(f, headSize))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	h := heads{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil
		}
		if name == "judgements" || name == "scenarios" {
			break // the head is over
		}
		var value any
		if d.Decode(&value) != nil {
			break // too long for a head
		}
		h[fmt.Sprint(name)] = value
	}
	return h
}

// counts is an object of whole numbers.
func (h heads) counts(name string) map[string]int {
	all, _ := h[name].(map[string]any)
	out := map[string]int{}
	for key, value := range all {
		n, _ := value.(json.Number)
		i, _ := n.Int64()
		out[key] = int(i)
	}
	return out
}

// took is the time of a suite, in words.
func (h heads) took() string {
	s, err := h.number("seconds").Float64()
	if err != nil || s < 0 || s > 1e9 {
		return ""
	}
	return fmt.Sprintf("%.1f s", s)
}

func (h heads) text(name string) string {
	s, _ := h[name].(string)
	return s
}

func (h heads) number(name string) json.Number {
	n, _ := h[name].(json.Number)
	return n
}

// state is what became of it, as far as its head tells.
func (h heads) state() string {
	for _, name := range []string{"code", "backend", "seed"} {
		if _, there := h[name]; !there {
			return "no outcome"
		}
	}
	code, _ := h.number("code").Int64()
	free, _ := h["anyOutcome"].(bool)
	if counts := h.counts("counts"); len(counts) == 1 && counts[outcome.Skipped] > 0 {
		return outcome.Skipped
	}
	return outcome.Outcome{Code: int(code), NothingExpected: free}.State()
}
