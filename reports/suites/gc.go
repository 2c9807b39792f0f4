package suites

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockpick/harness/files"
	"lockpick/harness/owned"
)

// Bound is what a store may keep: one of its fields is set.
type Bound struct {
	Newest int       // so many suites, and so many runs of each scenario
	Since  time.Time // what began then or later
	Bytes  int64     // what is newest and has at most so many in sum
}

// Excess is a suite or a run that a store keeps beyond its bound.
type Excess struct {
	Dir   string // in the store
	Bytes int64
}

// stillOn is how long after the last sign of it a run without an outcome may go on.
const stillOn = time.Hour

// stored is a suite or a run of a store.
type stored struct {
	Excess
	begun string          // its name, which begins with the time
	rank  int             // among its suites, or its scenario's runs, from the newest on
	live  bool            // it may not have ended
	runs  map[string]bool // what a suite refers to
}

// Beyond says what of a store is beyond a bound, the oldest first. A run that a suite refers
// to stays as long as that, and one that may still go on stays.
func Beyond(store string, b Bound) ([]Excess, error) {
	all, err := everything(store)
	if err != nil {
		return nil, err
	}
	refers := map[string]int{} // how many suites that stay refer to a run
	total := int64(0)
	for _, s := range all {
		total += s.Bytes
		for dir := range s.runs {
			refers[dir]++
		}
	}
	var out []Excess
	for _, s := range all { // a suite before its runs, which begin after it
		goes := total > b.Bytes
		switch {
		case s.live || refers[s.Dir] > 0:
			continue
		case b.Newest > 0:
			goes = s.rank >= b.Newest
		case !b.Since.IsZero():
			goes = s.begun < b.Since.UTC().Format(stampForm)
		}
		if !goes {
			continue
		}
		out, total = append(out, s.Excess), total-s.Bytes
		for dir := range s.runs {
			refers[dir]--
		}
	}
	return out, nil
}

// everything lists the suites and runs of a store, the oldest first.
func everything(store string) ([]*stored, error) {
	runs, err := runsOf(store)
	if err != nil {
		return nil, err
	}
	var all []*stored
	for i, dir := range Stored(store) {
		refers, err := runsIn(dir)
		if err != nil {
			return nil, fmt.Errorf("%w: which runs it refers to is not known; remove it by hand", err)
		}
		all = append(all, &stored{Excess: Excess{Dir: Folder + "/" + filepath.Base(dir)}, begun: filepath.Base(dir), rank: i, runs: refers})
	}
	slices.SortStableFunc(runs, func(a, b entry) int { return strings.Compare(b.name, a.name) })
	ranks := map[string]int{}
	for _, r := range runs {
		all = append(all, &stored{Excess: Excess{Dir: r.dir}, begun: r.name, rank: ranks[r.Scenario], live: mayGoOn(filepath.Join(store, r.dir))})
		ranks[r.Scenario]++
	}
	for _, s := range all {
		if s.Bytes, err = bytesIn(filepath.Join(store, s.Dir)); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(all, func(a, b *stored) int { return strings.Compare(a.begun, b.begun) })
	return all, nil
}

// reference is a run's directory as a suite's outcome.json has it, as a value or in a text.
var reference = regexp.MustCompile(`\.\./\.\./([^"()\s\\/]+/\d{8}T\d{6}\.\d{3}Z-[a-z0-9]+-\d+(?:-\d+)?)`)

// runsIn are the runs that a suite refers to.
func runsIn(dir string) (map[string]bool, error) {
	text, err := files.ReadIn(dir, OutcomeFile, mostJSON)
	if err != nil {
		return nil, fmt.Errorf("read suite: %w", err)
	}
	out := map[string]bool{}
	for _, m := range reference.FindAllSubmatch(text, -1) {
		out[string(m[1])] = true
	}
	return out, nil
}

// mayGoOn reports whether a run has no outcome, and has been written to a short time ago.
func mayGoOn(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, OutcomeFile)); err == nil {
		return false
	}
	recent := false
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) < stillOn {
			recent = true
		}
		return nil
	})
	return recent
}

func bytesIn(dir string) (sum int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() {
			sum += info.Size()
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) { // somebody else has removed it
		err = nil
	}
	return sum, err
}

// Remove removes suites and runs from a store. Each loses its name at once, so that nobody
// meets half of it, and `latest` beside it leads to the newest that is left.
func Remove(store string, what []Excess) error {
	root, err := os.OpenRoot(store)
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	defer root.Close()
	shelves := map[string]bool{}
	for _, e := range what {
		name, err := owned.Unfinished.Name()
		if err != nil {
			return fmt.Errorf("remove %s: %w", e.Dir, err)
		}
		shelf := filepath.Dir(filepath.FromSlash(e.Dir))
		shelves[shelf] = true
		tmp := filepath.Join(shelf, name)
		err = root.Rename(filepath.FromSlash(e.Dir), tmp)
		if err = cmp.Or(err, root.Chmod(tmp, 0o700), root.RemoveAll(tmp)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove %s: %w", filepath.Join(store, e.Dir), err)
		}
	}
	for shelf := range shelves {
		if err := relink(root, shelf); err != nil {
			return fmt.Errorf("remove from %s: %w", filepath.Join(store, shelf), err)
		}
	}
	return nil
}

// relink lets `latest` lead to what is newest on a shelf, and removes a shelf that is empty.
func relink(root *os.Root, shelf string) error {
	const latest = "latest"
	entries, err := fs.ReadDir(root.FS(), filepath.ToSlash(shelf))
	if err != nil {
		return err
	}
	newest, more := "", false
	for _, e := range entries {
		switch {
		case e.IsDir() && (runName.MatchString(e.Name()) || suiteName.MatchString(e.Name())):
			newest = e.Name()
		case e.Name() != latest:
			more = true
		}
	}
	link := filepath.Join(shelf, latest)
	switch to, err := root.Readlink(link); {
	case err != nil || to == newest: // no link, as where none can be made
	case newest != "":
		if err := cmp.Or(root.Remove(link), root.Symlink(newest, link)); err != nil {
			return err
		}
	default:
		if err := root.Remove(link); err != nil {
			return err
		}
	}
	if newest == "" && !more {
		root.Remove(shelf) // not empty: somebody else has begun a run
	}
	return nil
}
