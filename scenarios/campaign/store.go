package campaign

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
	"slices"
	"strings"
	"time"

	"lockpick/checker"
	"lockpick/checker/mutex"
	"lockpick/checker/verdict"
	"lockpick/harness/history"
	"lockpick/harness/history/edn"
	"lockpick/harness/history/facts"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/reports"
	"lockpick/reports/suites"
	"lockpick/scenarios/outcome"
)

// Files in a run directory.
const (
	ManifestFile = "run.json"
	HistoryFile  = "history.jsonl"    // during a live run, and left over if lockpick was killed
	PackedFile   = "history.jsonl.gz" // after the run
	verdictFile  = "verdict.json"
	outcomeFile  = "outcome.json"
)

// Folders in a store that hold results of campaigns rather than single runs.
const (
	fuzzFolder   = "hunts"
	CorpusFolder = "corpus"

	ShrunkFolder = "shrunk"
)

// Folders lists the folders in a store that do not hold single runs.
func Folders() []string {
	return []string{suites.Folder, suites.ScoreFolder, fuzzFolder, CorpusFolder, shardFolder, suites.AssessmentFolder, ShrunkFolder}
}

type runDir struct {
	store, path string
	manifest    scenario.Manifest
}

// create creates the directory. It appears under its final name only once it contains run.json.
func (d *runDir) create() (err error) {
	m := d.manifest
	name := fmt.Sprintf("%s-%s-%d", m.StartTime.Format("20060102T150405.000Z"), m.Backend, m.Seed)
	d.path, err = files.CreateUnique(d.store, strings.ReplaceAll(m.Scenario.ID(), "/", "+"), name, func(dir string) error {
		return writeJSON(dir, ManifestFile, m)
	})
	return err
}

// CanWrite checks that a store can be written to, so that callers find out before the first run.
func CanWrite(store string) error {
	if err := os.MkdirAll(store, 0o755); err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	probe, err := files.Unfinished.MakeDir(store)
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	return os.Remove(probe)
}

// createHistory creates the directory before a live run, and the history file in it.
func (d *runDir) createHistory() (*os.File, error) {
	if err := d.create(); err != nil {
		return nil, err
	}
	f, err := files.OpenFolder(d.path)
	if err != nil {
		return nil, fmt.Errorf("write history: %w", err)
	}
	defer f.Close()
	return f.Create(HistoryFile)
}

// compress replaces a history written during the run with a compressed one.
func (d *runDir) compress(live *os.File) error {
	if _, err := live.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("compress history: %w", err)
	}
	if err := packHistory(d.path, live); err != nil {
		return err
	}
	dir, err := files.OpenFolder(d.path)
	if err != nil {
		return fmt.Errorf("compress history: %w", err)
	}
	defer dir.Close()
	return dir.Remove(HistoryFile)
}

func packHistory(path string, text io.Reader) error {
	dir, err := files.OpenFolder(path)
	if err != nil {
		return fmt.Errorf("write history: %w", err)
	}
	defer dir.Close()
	return dir.WriteFunc(PackedFile, func(to io.Writer) error { return history.Pack(to, text) })
}

// write writes the files that are still missing, except outcome.json. Reports are optional: they
// take more time and space than the rest of the run, and can be generated from the history at any
// time.
func (d *runDir) write(events []history.Event, h *history.History, o outcome.Outcome, withReports bool) error {
	if d.path == "" {
		if err := d.create(); err != nil {
			return err
		}
		lines, err := history.Lines(events)
		if err != nil {
			return err
		}
		if err := packHistory(d.path, bytes.NewReader(lines)); err != nil {
			return err
		}
	}
	if h == nil {
		return nil
	}
	if d.manifest.Server = h.Params.Server; d.manifest.Server != "" {
		if err := writeJSON(d.path, ManifestFile, d.manifest); err != nil { // atomic, because someone may be reading it
			return err
		}
	}
	if err := writeJSON(d.path, verdictFile, o.Verdict); err != nil || !withReports {
		return err
	}
	if _, err := os.Stat(filepath.Join(d.store, suites.IndexFile)); errors.Is(err, fs.ErrNotExist) { // the page links to it
		if err := suites.Index(d.store); err != nil {
			return err
		}
	}
	return reports.Write(d.path, outcome.Run{Manifest: &d.manifest, History: h, Verdict: o.Verdict, Outcome: o})
}

func writeJSON(dir, name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(dir, name), err)
	}
	return files.WriteIn(dir, name, append(text, '\n')) // atomic; its error names the file
}

// maxJSON limits the size of run.json and outcome.json. The longest plan takes a tenth of that.
const maxJSON = 8 << 20

// ReadOutcome reads and validates the outcome.json in a run directory.
func ReadOutcome(dir string) (outcome.Outcome, error) {
	var o outcome.Outcome
	text, err := files.ReadIn(dir, outcomeFile, maxJSON)
	if err != nil {
		return o, fmt.Errorf("read outcome: %w", err)
	}
	if o, err = parseOutcome(text); err != nil {
		return o, fmt.Errorf("read %s: %w", filepath.Join(dir, outcomeFile), err)
	}
	return o, nil
}

func parseOutcome(text []byte) (o outcome.Outcome, err error) {
	if err = files.JSON(verdict.CanonicalJSON(text), &o); err == nil {
		err = o.Check()
	}
	return o, err
}

// IsRun reports whether a directory contains a history or a manifest, valid or not.
func IsRun(dir string) bool {
	for _, name := range []string{PackedFile, HistoryFile, ManifestFile} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// HistoryText returns the uncompressed history in a run directory.
func HistoryText(path string) ([]byte, error) {
	dir, err := files.OpenFolder(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := openHistory(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := history.Unpack(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return io.ReadAll(text)
}

// openHistory opens the compressed history in a run directory or, without one, the uncompressed
// history. If both exist, lockpick was killed before it removed one of them, and they are equal.
func openHistory(dir *files.Folder) (*os.File, error) {
	f, err := dir.Open(PackedFile, history.MaxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return dir.Open(HistoryFile, history.MaxFileBytes)
	}
	return f, err
}

// StoredRun is a run in a store.
type StoredRun struct {
	Dir      string
	Manifest *scenario.Manifest // nil for a bare history
	History  *history.History   // nil if Model has no handles
	Model    Model              // for a Jepsen history
	Notes    []string           // assumptions about a Jepsen history, and what was skipped

	operations []facts.Operation
}

// Models of locks with handles, in addition to those of package mutex. A Jepsen history does not say
// whether the lock uses leases. By default, holds are assumed not to expire, so that two holders at
// once are not excused by an expiry that may not exist.
const (
	Handle = "handle"
	Lease  = "lease"
)

// Model is the kind of lock that a Jepsen history is assumed to come from.
type Model struct {
	Name string        // one of Models()
	TTL  time.Duration // lease duration; 0 if unknown
}

func Models() []string { return append(mutex.Models(), Handle, Lease) }

// HasHandles reports whether clients hold the lock through handles.
func (m Model) HasHandles() bool { return !slices.Contains(mutex.Models(), m.Name) }

func (m Model) String() string {
	switch {
	case m.Name == mutex.Mutex:
		return "mutex: held or free, and any process may release it"
	case m.Name == mutex.OwnerMutex:
		return "owner-mutex: held or free, and only its holder may release it"
	case m.TTL > 0:
		return fmt.Sprintf("lease: held through a handle until released, for at most %v", m.TTL)
	case m.Name == Lease:
		return "lease: held through a handle until released, for a limited but unknown time"
	}
	return "handle: held through a handle until released, without a time limit"
}

// OpenJepsen reads a Jepsen history to be judged by a model.
func OpenJepsen(path string, m Model) (s StoredRun, err error) {
	s = StoredRun{Dir: path, Model: m}
	ttl := m.TTL
	switch {
	case !m.HasHandles():
		s.operations, s.Notes, err = edn.OperationsFile(path)
		return s, err
	case m.Name == Handle:
		ttl = edn.NoDeadline
	case ttl == 0:
		ttl = edn.UnknownTTL
	}
	s.History, s.Notes, err = edn.ReadFile(path, ttl)
	return s, err
}

// Judge checks a run and compares the verdict with the expectations.
func (s StoredRun) Judge() (verdict.Verdict, []outcome.Judgement) {
	v := s.check()
	return v, s.judgements(v)
}

// check checks the run. A Jepsen history shows neither when keys were free nor when leases ended,
// just the earliest time that a lease could end. So for leases, check skips liveness, and acquires
// that return after their deadline prove nothing.
func (s StoredRun) check() verdict.Verdict {
	if !s.Model.HasHandles() {
		return mutex.Check(s.Model.Name, s.operations)
	}
	v := checker.Check(s.History, slices.DeleteFunc(checker.Properties(), func(name string) bool {
		return s.Model.Name == Lease && (name == verdict.ValidOnReturn || checker.Liveness(name))
	})...)
	v.Model = s.Model.Name
	return v
}

// Run judges the run and adds what only outcome.json contains, such as the reasons for retries.
func (s StoredRun) Run() outcome.Run {
	p := s.History.Params
	o := outcome.Outcome{Schema: 1, Scenario: p.Scenario, Backend: p.Backend, Seed: p.Seed}
	o.Verdict, o.Judgements = s.Judge()
	if p.Variant != "" {
		o.Scenario += "/" + p.Variant
	}
	if n := len(s.History.Events); n > 0 {
		o.Events, o.VirtualSeconds = n, history.Seconds(s.History.Events[n-1].T)
	}
	stored, err := ReadOutcome(s.Dir)
	if err == nil { // a run that was killed has no outcome
		o.RetryReasons, o.Command, o.Error, o.StopReason, o.Numbers = stored.RetryReasons, stored.Command, stored.Error, stored.StopReason, stored.Numbers
		o.Seconds = stored.Seconds
	}
	if s.Manifest != nil {
		o.Command = cmp.Or(o.Command, s.Manifest.Command)
	}
	o.Code, o.Informational = outcome.CodeOf(o.Judgements), outcome.NoExpectation(o.Judgements)
	if stored.Error != "" {
		o.Code = outcome.WorseCode(o.Code, stored.Code)
	}
	if o.Verdict.Disagreement != "" {
		o.Code = outcome.ExitBug
	}
	return outcome.Run{Manifest: s.Manifest, History: s.History, Verdict: o.Verdict, Outcome: o}
}

// OpenStored reads a run directory, a lone history.jsonl, compressed or not, or a Jepsen
// history.edn. It rejects a run.json that no run could have written.
func OpenStored(path string, known scenario.KnownNames) (StoredRun, error) {
	s := StoredRun{Dir: path}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return s, fmt.Errorf("open run: %w", err)
	case info.IsDir():
		return openDir(path, known)
	case filepath.Ext(path) == ".edn":
		return OpenJepsen(path, Model{Name: Handle})
	}
	if s.History, err = history.ReadFile(path); err == nil {
		err = checkSize(path, s.History)
	}
	return s, err
}

// checkSize rejects a history that exceeds the limits for runs.
func checkSize(path string, h *history.History) error {
	if err := scenario.CheckHistorySize(h); err != nil {
		return fmt.Errorf("read history %s: %w", path, err)
	}
	return nil
}

func openDir(path string, known scenario.KnownNames) (StoredRun, error) {
	s := StoredRun{Dir: path}
	dir, err := files.OpenFolder(path)
	if err != nil {
		return s, fmt.Errorf("open run: %w", err)
	}
	defer dir.Close()
	text, err := dir.Read(ManifestFile, maxJSON)
	if err != nil {
		return s, fmt.Errorf("open run: %w", err)
	}
	if s.Manifest, err = scenario.ReadManifest(filepath.Join(path, ManifestFile), text, known); err != nil {
		return s, err
	}
	f, err := openHistory(dir)
	if err != nil {
		return s, fmt.Errorf("read history: %w", err)
	}
	defer f.Close()
	file := filepath.Join(path, filepath.Base(f.Name()))
	if s.History, err = history.FromFile(f); err != nil {
		return s, fmt.Errorf("read history %s: %w", file, err)
	}
	return s, checkSize(file, s.History)
}
