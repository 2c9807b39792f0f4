package suites

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockpick/checker"
	"lockpick/internal/files"
)

// maxRuns limits the runs listed in an index. Older ones remain in the store.
const mostRuns = 1000

//go:embed index.html.tmpl
var indexTemplate string

var indexPage = parsed("index", indexTemplate)

// index is the content of a store's index.
type index struct {
	Cards     []entry
	Suites    []entry
	Scenarios []shelf
	Runs      int // number of runs in the store
	Shown     int
	Undrawn   int // number of listed runs without a report
	Backends  []string
	States    []string
}

// scenarioRuns lists the runs of one scenario, newest first.
type shelf struct {
	Scenario string
	Runs     []entry
}

// entry is a run or a suite.
type entry struct {
	Time, Backend, Seed, State, Symbol, Href, Scenario string
	Size, Counts, Violated, Took                       string // suites only
	name, dir                                          string
}

// Index writes the index of a store: its current content, suites first. Other lockpick processes may
// write the index at the same time. Index checks once more after writing, so that the final index
// includes the work of all.
func Index(store string) error {
	var before []byte
	for range 5 {
		page, err := drawIndex(store, false)
		if err != nil {
			return err
		}
		if bytes.Equal(page, before) {
			break
		}
		if err := files.WriteIn(store, IndexFile, page); err != nil {
			return unwritten(err)
		}
		before = page
	}
	return nil
}

// drawIndex renders the index. served is true for a server that draws a run's page on request.
func drawIndex(store string, served bool) ([]byte, error) {
	x, err := list(store, served)
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	if err := indexPage().Execute(&page, x); err != nil {
		return nil, fmt.Errorf("draw index: %w", err)
	}
	return page.Bytes(), nil
}

// readIndex lists the store and reads the outcome headers of the newest runs.
func list(store string, served bool) (index, error) {
	runs, err := runsOf(store)
	if err != nil {
		return index{}, err
	}
	x := index{Runs: len(runs)}
	runs = runs[:min(len(runs), mostRuns)]
	x.Shown = len(runs)
	shelves := map[string][]entry{}
	backends, states := map[string]bool{}, map[string]bool{}
	for _, r := range runs {
		h := head(filepath.Join(store, r.dir))
		r.mark(h.state())
		switch name := page(filepath.Join(store, r.dir)); {
		case name != "":
			r.Href = escaped(r.dir + "/" + name)
		case served:
			r.Href = escaped(r.dir + "/" + runPage)
		default:
			x.Undrawn++
		}
		shelves[r.Scenario] = append(shelves[r.Scenario], r)
		backends[r.Backend], states[r.State] = true, true
	}
	for _, name := range slices.Sorted(maps.Keys(shelves)) {
		x.Scenarios = append(x.Scenarios, shelf{name, shelves[name]})
	}
	for _, dir := range storedIn(store, ScoreFolder) {
		if name := filepath.Base(dir); len(x.Cards) < mostRuns {
			x.Cards = append(x.Cards, entry{Time: when(name), Href: ScoreFolder + "/" + escaped(name) + "/" + ScoreFile})
		}
	}
	for _, dir := range Stored(store) {
		if len(x.Suites) == mostRuns {
			break
		}
		h := cmp.Or(head(dir), &heads{})
		e := entry{Time: when(filepath.Base(dir)), Backend: h.Backend, Seed: h.Seed.String(), Scenario: h.Command, Size: h.Size.String(),
			Counts: strings.Join(stateCounts(h.Counts), ", "), Href: Folder + "/" + escaped(filepath.Base(dir)) + "/" + PageFile}
		if s := h.Seconds; s != nil && *s >= 0 && *s <= 1e9 {
			e.Took = fmt.Sprintf("%.1f s", *s)
		}
		if h.Seeds > 1 {
			e.Seed = fmt.Sprintf("%d seeds from %s", h.Seeds, e.Seed)
		}
		var violated []string
		for _, p := range checker.Properties() {
			if n := h.Violated[p]; n > 0 {
				violated = append(violated, fmt.Sprintf("%s %d", p, n))
			}
		}
		e.Violated = strings.Join(violated, ", ")
		e.mark(h.state())
		x.Suites = append(x.Suites, e)
		backends[e.Backend], states[e.State] = true, true
	}
	x.Backends, x.States = slices.Sorted(maps.Keys(backends)), slices.Sorted(maps.Keys(states))
	return x, nil
}

// Runs lists the run directories of a store, newest first, preceded by the `latest` link of each
// scenario.
func Runs(store string) []string {
	runs, err := runsOf(store)
	if err != nil {
		return nil
	}
	var latest, all []string
	for _, r := range runs {
		link := filepath.Join(store, filepath.Dir(r.dir), "latest")
		if !slices.Contains(latest, link) {
			latest = append(latest, link)
		}
		all = append(all, filepath.Join(store, r.dir))
	}
	return append(latest, all...)
}

// listRuns lists the run directories of a store, newest first, using only their names, which begin
// with the start time.
func runsOf(store string) ([]entry, error) {
	in, err := files.OpenFolder(store)
	if err != nil {
		return nil, fmt.Errorf("list store: %w", err)
	}
	defer in.Close()
	folders, err := in.Entries()
	if err != nil {
		return nil, fmt.Errorf("list store: %w", err)
	}
	var out []entry
	for _, f := range folders {
		if !f.IsDir() || strings.HasPrefix(f.Name(), ".") {
			continue
		}
		runs, err := in.EntriesOf(f.Name())
		if err != nil {
			continue // removed in the meantime, or not readable
		}
		for _, r := range runs {
			m := runName.FindStringSubmatch(r.Name())
			if m == nil || !r.IsDir() {
				continue
			}
			out = append(out, entry{Time: when(m[1]), Backend: m[2], Seed: m[3], Scenario: strings.ReplaceAll(f.Name(), "+", "/"),
				name: r.Name(), dir: f.Name() + "/" + r.Name()})
		}
	}
	slices.SortStableFunc(out, func(a, b entry) int { return strings.Compare(b.name, a.name) })
	return out, nil
}

// reportFile returns the file to open in a run's directory; "" if no report is drawn yet.
func page(dir string) string {
	in, err := files.OpenFolder(dir)
	if err != nil {
		return ""
	}
	defer in.Close()
	for _, name := range []string{runPage, runText} {
		if in.Has(name) {
			return name
		}
	}
	return ""
}

// symbols maps states to symbols.
var symbols = map[string]string{"as expected": "✓", "nothing expected": "○", "unexpected": "!", "undecided": "?", "failed": "!", "interrupted": "?", "skipped": "–"}

func (e *entry) mark(state string) {
	e.State, e.Symbol = state, symbols[state]
	if e.Symbol == "" {
		e.Symbol = "…"
	}
}

// parseStamp reads the start time from a directory name.
func when(name string) string {
	t, err := time.Parse(stampForm, name[:min(len(name), len(stampForm))])
	if err != nil {
		return name
	}
	return stamp(t)
}

// group is a scenario with notes on it.
type group struct {
	ID, Href string
	Texts    []string
}

// existsFunc reports whether a report of a run exists, to avoid dead links.
type there func(path string) bool

const (
	runManifest = "run.json"
	runPage     = "report.html"
	runText     = "sequence.txt"
)

// page returns a link to a run's report or, if it is not drawn yet, to its diagram.
func (has there) page(dir, anchor string) string {
	switch {
	case !linkable(dir):
		return ""
	case has(dir + "/" + runPage):
		return escaped(dir+"/"+runPage) + anchor
	case has(dir + "/" + runText):
		return escaped(dir + "/" + runText)
	}
	return ""
}

// linkable reports whether dir is inside the store. An outcome.json from elsewhere may name anything
// as its directory.
func linkable(dir string) bool {
	rest, ok := strings.CutPrefix(dir, toStore)
	return ok && rest != "" && !strings.Contains("/"+rest+"/", "/../") && !strings.Contains(dir, "\\")
}

func escaped(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// Retention limits what a store keeps. Exactly one field is set.
type Bound struct {
	Newest int       // number of suites, and of runs per scenario
	Since  time.Time // keep what started at this time or later
	Bytes  int64     // keep the newest items up to this total size
}

// Excess is a suite or a run that exceeds the retention of a store.
type Excess struct {
	Dir   string // relative to the store
	Bytes int64
}

// liveWindow is how long after its last write a run without an outcome may still be running.
const stillOn = time.Hour

// storedItem is a suite or a run of a store.
type stored struct {
	Excess
	begun string          // its name, which begins with the start time
	rank  int             // position among the suites, or the scenario's runs, newest first
	live  bool            // a run without an outcome that was written to recently
	runs  map[string]bool // the runs that a suite refers to; nil for a run
}

// FindExcess lists what exceeds the retention of a store, oldest first. A run is kept as long as a
// suite that refers to it, or while it may still be running.
func Beyond(store string, b Bound) ([]Excess, error) {
	all, err := everything(store)
	if err != nil {
		return nil, err
	}
	refers := map[string]int{} // number of kept suites that refer to a run
	total := int64(0)
	for _, s := range all {
		total += s.Bytes
		for dir := range s.runs {
			refers[dir]++
		}
	}
	var out []Excess
	for _, s := range all { // a suite precedes its runs, which start later
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

// listStored lists the suites and runs of a store, oldest first.
func everything(store string) ([]*stored, error) {
	runs, err := runsOf(store)
	if err != nil {
		return nil, err
	}
	var all []*stored
	for _, folder := range []string{Folder, ScoreFolder} {
		for i, dir := range storedIn(store, folder) {
			refers := map[string]bool{} // a scorecard contains its runs
			if folder == Folder {
				if refers, err = runsIn(dir); err != nil {
					return nil, fmt.Errorf("%w: cannot determine which runs the suite refers to; remove it manually", err)
				}
			}
			all = append(all, &stored{Excess: Excess{Dir: folder + "/" + filepath.Base(dir)}, begun: filepath.Base(dir), rank: i, runs: refers})
		}
	}
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

// runReference matches a run directory in a suite's outcome.json, as a value or within text.
var reference = regexp.MustCompile(`\.\./\.\./([^"()\s\\/]+/\d{8}T\d{6}\.\d{3}Z-[a-z0-9]+-\d+(?:-\d+)?)`)

// referencedRuns returns the runs that a suite refers to.
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
