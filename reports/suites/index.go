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
	"lockpick/scenarios/outcome"
)

// maxRuns limits the number of runs listed in an index. Older runs remain in the store.
const maxRuns = 1000

//go:embed index.html.tmpl
var indexTemplate string

var indexPage = parseOnce("index", indexTemplate)

// index is the content of a store's index page.
type index struct {
	Cards      []entry
	Suites     []entry
	Scenarios  []scenarioRuns
	Runs       int // number of runs in the store
	Shown      int
	NumUndrawn int // number of listed runs without a report
	Backends   []string
	States     []string
}

// scenarioRuns lists the runs of one scenario, newest first.
type scenarioRuns struct {
	Scenario string
	Runs     []entry
}

// entry is a run, suite or scorecard in the index.
type entry struct {
	Time, Backend, Seed, State, Symbol, Href, Scenario string
	Size, Counts, Violated, Duration                   string // suites only
	name, dir                                          string
}

// Index writes a store's index, which lists the suites, scorecards and runs. Because other lockpick
// processes may write the index at the same time, Index reads the store again after writing, and starts
// over if anything changed.
func Index(store string) error {
	var before []byte
	for range 5 {
		page, err := renderIndex(store, false)
		if err != nil {
			return err
		}
		if bytes.Equal(page, before) {
			break
		}
		if err := files.WriteIn(store, IndexFile, page); err != nil {
			return storeWriteError(err)
		}
		before = page
	}
	return nil
}

// renderIndex renders the index. served means that a server will render missing reports on request.
func renderIndex(store string, served bool) ([]byte, error) {
	x, err := readIndex(store, served)
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	if err := indexPage().Execute(&page, x); err != nil {
		return nil, fmt.Errorf("render index: %w", err)
	}
	return page.Bytes(), nil
}

// readIndex lists the store and reads the headers of the newest runs' outcomes.
func readIndex(store string, served bool) (index, error) {
	runs, err := listRuns(store)
	if err != nil {
		return index{}, err
	}
	x := index{Runs: len(runs)}
	runs = runs[:min(len(runs), maxRuns)]
	x.Shown = len(runs)
	byScenario := map[string][]entry{}
	backends, states := map[string]bool{}, map[string]bool{}
	for _, r := range runs {
		h := readHeader(filepath.Join(store, r.dir))
		r.setState(h.state())
		switch name := reportFile(filepath.Join(store, r.dir)); {
		case name != "":
			r.Href = escapePath(r.dir + "/" + name)
		case served:
			r.Href = escapePath(r.dir + "/" + runPage)
		default:
			x.NumUndrawn++
		}
		byScenario[r.Scenario] = append(byScenario[r.Scenario], r)
		backends[r.Backend], states[r.State] = true, true
	}
	for _, name := range slices.Sorted(maps.Keys(byScenario)) {
		x.Scenarios = append(x.Scenarios, scenarioRuns{name, byScenario[name]})
	}
	for _, dir := range listFolder(store, ScoreFolder) {
		if name := filepath.Base(dir); len(x.Cards) < maxRuns {
			x.Cards = append(x.Cards, entry{Time: parseStamp(name), Href: ScoreFolder + "/" + escapePath(name) + "/" + ScoreFile})
		}
	}
	for _, dir := range SuiteDirs(store) {
		if len(x.Suites) == maxRuns {
			break
		}
		h := cmp.Or(readHeader(dir), &outcomeHeader{})
		e := entry{Time: parseStamp(filepath.Base(dir)), Backend: h.Backend, Seed: h.Seed.String(), Scenario: h.Command, Size: h.Size.String(),
			Counts: strings.Join(outcome.DescribeCounts(h.Counts), ", "), Href: Folder + "/" + escapePath(filepath.Base(dir)) + "/" + PageFile}
		if s := h.Seconds; s != nil && *s >= 0 && *s <= 1e9 {
			e.Duration = fmt.Sprintf("%.1f s", *s)
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
		e.setState(h.state())
		x.Suites = append(x.Suites, e)
		backends[e.Backend], states[e.State] = true, true
	}
	x.Backends, x.States = slices.Sorted(maps.Keys(backends)), slices.Sorted(maps.Keys(states))
	return x, nil
}

// Runs lists a store's run directories, newest first, after the `latest` links of the scenarios.
func Runs(store string) []string {
	runs, err := listRuns(store)
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

// listRuns lists a store's run directories, newest first. It reads only their names, which start with
// the start time.
func listRuns(store string) ([]entry, error) {
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
			continue // removed in the meantime, or unreadable
		}
		for _, r := range runs {
			m := runDirPattern.FindStringSubmatch(r.Name())
			if m == nil || !r.IsDir() {
				continue
			}
			out = append(out, entry{Time: parseStamp(m[1]), Backend: m[2], Seed: m[3], Scenario: strings.ReplaceAll(f.Name(), "+", "/"),
				name: r.Name(), dir: f.Name() + "/" + r.Name()})
		}
	}
	slices.SortStableFunc(out, func(a, b entry) int { return strings.Compare(b.name, a.name) })
	return out, nil
}

// reportFile returns the name of the report in a run directory, or "" if no report has been rendered yet.
func reportFile(dir string) string {
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

var symbols = map[string]string{"as expected": "✓", "nothing expected": "○", "unexpected": "!", "undecided": "?", "failed": "!", "interrupted": "?", "skipped": "–"}

func (e *entry) setState(state string) {
	e.State, e.Symbol = state, symbols[state]
	if e.Symbol == "" {
		e.Symbol = "…"
	}
}

// parseStamp parses and formats the start time in a directory name.
func parseStamp(name string) string {
	t, err := time.Parse(stampLayout, name[:min(len(name), len(stampLayout))])
	if err != nil {
		return name
	}
	return formatTime(t)
}

// group is a list of notes on a scenario.
type group struct {
	ID, Href string
	Texts    []string
}

// existsFunc reports whether a run's report exists. It helps avoid dead links.
type existsFunc func(path string) bool

const (
	runManifest = "run.json"
	runPage     = "report.html"
	runText     = "sequence.txt"
)

// page returns a link to a run's report or, if there is none yet, to the run's diagram. It returns "" if
// there is neither.
func (has existsFunc) page(dir, anchor string) string {
	switch {
	case !isLinkable(dir):
		return ""
	case has(dir + "/" + runPage):
		return escapePath(dir+"/"+runPage) + anchor
	case has(dir + "/" + runText):
		return escapePath(dir + "/" + runText)
	}
	return ""
}

// isLinkable reports whether dir is inside the store. An outcome.json from an untrusted source may name
// any directory.
func isLinkable(dir string) bool {
	rest, ok := strings.CutPrefix(dir, storePrefix)
	return ok && rest != "" && !strings.Contains("/"+rest+"/", "/../") && !strings.Contains(dir, "\\")
}

func escapePath(path string) string { return (&url.URL{Path: path}).EscapedPath() }

// Retention states what to keep in a store. Exactly one field must be set.
type Retention struct {
	MaxCount int       // keep this many suites, and this many runs of each scenario, newest first
	MinStart time.Time // keep what started at this time or later
	MaxBytes int64     // keep the newest items, up to this total size
}

// Excess is a suite or run that exceeds the retention limit.
type Excess struct {
	Dir   string // relative to the store
	Bytes int64
}

// liveWindow is how long after its last write a run without an outcome is assumed to be in progress.
const liveWindow = time.Hour

// storedItem is a suite, scorecard or run in a store.
type storedItem struct {
	Excess
	startStamp string          // directory name, which starts with the start time
	rank       int             // index among the suites or the scenario's runs, newest first
	isLive     bool            // run without an outcome that was written to recently
	runs       map[string]bool // runs a suite refers to; nil for a run
}

// FindExcess lists what exceeds a store's retention limit, oldest first. It does not list a run that may
// be in progress, or that a suite in the store refers to unless it lists that suite.
func FindExcess(store string, b Retention) ([]Excess, error) {
	all, err := listStored(store)
	if err != nil {
		return nil, err
	}
	references := map[string]int{} // number of remaining suites that refer to each run
	total := int64(0)
	for _, s := range all {
		total += s.Bytes
		for dir := range s.runs {
			references[dir]++
		}
	}
	var out []Excess
	for _, s := range all { // suites come before their runs, which started later
		excess := total > b.MaxBytes
		switch {
		case s.isLive || references[s.Dir] > 0:
			continue
		case b.MaxCount > 0:
			excess = s.rank >= b.MaxCount
		case !b.MinStart.IsZero():
			excess = s.startStamp < b.MinStart.UTC().Format(stampLayout)
		}
		if !excess {
			continue
		}
		out, total = append(out, s.Excess), total-s.Bytes
		for dir := range s.runs {
			references[dir]--
		}
	}
	return out, nil
}

// listStored lists a store's suites, scorecards and runs, oldest first.
func listStored(store string) ([]*storedItem, error) {
	runs, err := listRuns(store)
	if err != nil {
		return nil, err
	}
	var all []*storedItem
	for _, folder := range []string{Folder, ScoreFolder} {
		for i, dir := range listFolder(store, folder) {
			references := map[string]bool{} // empty for scorecards, whose runs are in their own directory
			if folder == Folder {
				if references, err = referencedRuns(dir); err != nil {
					return nil, fmt.Errorf("%w: cannot determine which runs the suite refers to; remove the suite manually", err)
				}
			}
			all = append(all, &storedItem{Excess: Excess{Dir: folder + "/" + filepath.Base(dir)}, startStamp: filepath.Base(dir), rank: i, runs: references})
		}
	}
	ranks := map[string]int{}
	for _, r := range runs {
		all = append(all, &storedItem{Excess: Excess{Dir: r.dir}, startStamp: r.name, rank: ranks[r.Scenario]})
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
		s.isLive = s.runs == nil && time.Since(last) < liveWindow && readHeader(filepath.Join(store, s.Dir)) == nil
	}
	slices.SortStableFunc(all, func(a, b *storedItem) int { return strings.Compare(a.startStamp, b.startStamp) })
	return all, nil
}

// runReference matches a run directory in a suite's outcome.json, as a value or in text.
var runReference = regexp.MustCompile(`\.\./\.\./([^"()\s\\/]+/\d{8}T\d{6}\.\d{3}Z-[a-z0-9]+-\d+(?:-\d+)?)`)

// referencedRuns returns the runs a suite refers to.
func referencedRuns(dir string) (map[string]bool, error) {
	text, err := files.ReadIn(dir, OutcomeFile, maxJSON)
	if err != nil {
		return nil, fmt.Errorf("read suite: %w", err)
	}
	out := map[string]bool{}
	for _, m := range runReference.FindAllSubmatch(text, -1) {
		out[string(m[1])] = true
	}
	return out, nil
}

// Remove removes suites and runs from a store, and the links to them from the pages of other runs.
func Remove(store string, items []Excess) error {
	byFolder, linked := map[string][]string{}, map[string]bool{}
	for _, e := range items {
		folder, name, _ := strings.Cut(e.Dir, "/")
		byFolder[folder] = append(byFolder[folder], name)
		if folder != Folder {
			continue
		}
		if runs, err := referencedRuns(filepath.Join(store, filepath.FromSlash(e.Dir))); err == nil {
			maps.Copy(linked, runs)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(byFolder)) {
		if err := files.RemoveUnique(store, folder, byFolder[folder], func(name string) bool { return runDirPattern.MatchString(name) || suiteDirPattern.MatchString(name) }); err != nil {
			return err
		}
	}
	return linkRuns(store, linked)
}
