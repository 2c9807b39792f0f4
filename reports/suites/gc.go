package suites

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockpick/internal/files"
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
	live  bool            // a run without an outcome, which has been written to a short time ago
	runs  map[string]bool // what a suite refers to; nil for a run
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
	for i, dir := range storedIn(store, ScoreFolder) { // which has its runs in it
		all = append(all, &stored{Excess: Excess{Dir: ScoreFolder + "/" + filepath.Base(dir)}, begun: filepath.Base(dir), rank: i, runs: map[string]bool{}})
	}
	slices.SortStableFunc(runs, func(a, b entry) int { return strings.Compare(b.name, a.name) })
	ranks := map[string]int{}
	for _, r := range runs {
		all = append(all, &stored{Excess: Excess{Dir: r.dir}, begun: r.name, rank: ranks[r.Scenario]})
		ranks[r.Scenario]++
	}
	in, err := files.OpenFolder(store)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	for _, s := range all {
		var last time.Time
		if s.Bytes, last, err = in.Measure(s.Dir); err != nil {
			return nil, err
		}
		s.live = s.runs == nil && time.Since(last) < stillOn && head(filepath.Join(store, s.Dir)) == nil
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

// Remove removes suites and runs from a store.
func Remove(store string, what []Excess) error {
	shelves := map[string][]string{}
	for _, e := range what {
		shelf, name, _ := strings.Cut(e.Dir, "/")
		shelves[shelf] = append(shelves[shelf], name)
	}
	for _, shelf := range slices.Sorted(maps.Keys(shelves)) {
		if err := files.Displace(store, shelf, shelves[shelf], func(name string) bool { return runName.MatchString(name) || suiteName.MatchString(name) }); err != nil {
			return err
		}
	}
	return nil
}
