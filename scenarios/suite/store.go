package suite

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/history/edn"
	"lockpick/harness/owned"
	"lockpick/reports"
	"lockpick/scenarios/outcome"
)

// Files of a run directory.
const (
	ManifestFile = "run.json"
	HistoryFile  = "history.jsonl"
	verdictFile  = "verdict.json"
	outcomeFile  = "outcome.json"
)

// runDir is one run's place in the store.
type runDir struct {
	store, path string
	manifest    harness.Manifest
}

// create makes the directory; it appears under its name once run.json is in it.
func (d *runDir) create() error {
	m := d.manifest
	id := strings.ReplaceAll(m.Scenario.ID(), "/", "+")
	stamp := m.Started.Format("20060102T150405.000Z")
	parent := filepath.Join(d.store, id)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return fmt.Errorf("create run directory: %w", err)
	}
	tmp, err := owned.Unfinished.MakeDir(parent)
	if err != nil {
		return fmt.Errorf("create run directory: %w", err)
	}
	defer os.RemoveAll(tmp) // it has its name by then, unless something failed
	if err := writeJSON(filepath.Join(tmp, ManifestFile), m); err != nil {
		return err
	}
	name := fmt.Sprintf("%s-%s-%d", stamp, m.Backend, m.Seed)
	for n := 1; ; n++ {
		d.path = filepath.Join(parent, name)
		if n > 1 {
			d.path += fmt.Sprintf("-%d", n)
		}
		if _, err := os.Lstat(d.path); err == nil && n < 1000 {
			continue // somebody else began in the same millisecond
		}
		if err := os.Rename(tmp, d.path); err != nil {
			return fmt.Errorf("create run directory: %w", err)
		}
		break
	}
	if err := os.Chmod(d.path, 0o755); err != nil { // not before: what others may enter is not swept
		return fmt.Errorf("create run directory: %w", err)
	}
	latest(parent, filepath.Base(d.path))
	return nil
}

// latest points a link beside the runs at the newest; where links can't be
// made, there is none.
func latest(parent, name string) {
	own, err := owned.Unfinished.Name()
	if tmp := filepath.Join(parent, own); err == nil && os.Symlink(name, tmp) == nil {
		if os.Rename(tmp, filepath.Join(parent, "latest")) != nil {
			os.Remove(tmp)
		}
	}
}

// CanWrite sees that runs can be kept in a store, before any is run.
func CanWrite(store string) error {
	if err := os.MkdirAll(store, 0o755); err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	probe, err := owned.Unfinished.MakeDir(store)
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	return os.Remove(probe)
}

// live makes the directory now and opens the history in it.
func (d *runDir) live() (*os.File, error) {
	if err := d.create(); err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(d.path, HistoryFile))
	if err != nil {
		return nil, fmt.Errorf("write history: %w", err)
	}
	return f, nil
}

// write writes what isn't there yet.
func (d *runDir) write(facts []byte, h *history.History, o outcome.Outcome) error {
	if d.path == "" {
		if err := d.create(); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(d.path, HistoryFile), facts, 0o644); err != nil {
			return fmt.Errorf("write history: %w", err)
		}
	}
	if h == nil {
		return nil
	}
	if d.manifest.Server = h.Params.Server; d.manifest.Server != "" {
		if err := d.again(); err != nil {
			return err
		}
	}
	if err := writeJSON(filepath.Join(d.path, verdictFile), o.Verdict); err != nil {
		return err
	}
	return reports.Write(d.path, outcome.Run{Manifest: &d.manifest, History: h, Verdict: o.Verdict, Outcome: o})
}

// again replaces run.json by what is known now, at once: somebody may be reading it.
func (d *runDir) again() error {
	own, err := owned.Unfinished.Name()
	if err != nil {
		return fmt.Errorf("write run.json: %w", err)
	}
	tmp := filepath.Join(filepath.Dir(d.path), own) // where it is swept
	defer os.Remove(tmp)                            // it has its name by then, unless something failed
	if err := writeJSON(tmp, d.manifest); err != nil {
		return err
	}
	if err := os.Rename(tmp, filepath.Join(d.path, ManifestFile)); err != nil {
		return fmt.Errorf("write run.json: %w", err)
	}
	return nil
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return err // it names the file
	}
	return nil
}

// ReadOutcome reads the outcome.json of a run directory.
func ReadOutcome(dir string) (outcome.Outcome, error) {
	var o outcome.Outcome
	text, err := os.ReadFile(filepath.Join(dir, outcomeFile))
	if err != nil {
		return o, fmt.Errorf("read outcome: %w", err)
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return o, fmt.Errorf("read outcome %s: %w", filepath.Join(dir, outcomeFile), err)
	}
	return o, nil
}

// Stored is a run as it lies on disk.
type Stored struct {
	Dir      string
	Manifest *harness.Manifest // nil for a bare history
	History  *history.History
	Notes    []string // what was assumed of a history of Jepsen's, or passed over; nil for one of ours
}

// Open reads a run directory, a bare history.jsonl, or Jepsen's history of a
// lock, whose name ends in .edn.
func Open(path string) (Stored, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Stored{}, fmt.Errorf("open run: %w", err)
	}
	s := Stored{Dir: path}
	file := path
	if info.IsDir() {
		file = filepath.Join(path, HistoryFile)
		if s.Manifest, err = readManifest(filepath.Join(path, ManifestFile)); err != nil {
			return s, err
		}
	}
	// Anything else, such as a pipe, might never end.
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return s, fmt.Errorf("read history %s: it is no regular file", file)
	}
	if !info.IsDir() && filepath.Ext(file) == ".edn" {
		s.History, s.Notes, err = edn.ReadFile(file)
		return s, err
	}
	s.History, err = history.ReadFile(file)
	return s, err
}

func readManifest(path string) (*harness.Manifest, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("open run: %w", err)
	}
	m := &harness.Manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if m.Schema != 1 || m.Scenario.Name == "" || m.Backend == "" {
		return nil, fmt.Errorf("read %s: it is no run.json of this version; its history.jsonl can still be judged alone", path)
	}
	return m, nil
}
