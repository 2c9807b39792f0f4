package suites

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockpick/checker"
	"lockpick/internal/files"
	"lockpick/scenarios/outcome"
)

// mostRuns bounds the runs of an index: what is older is still in the store.
const mostRuns = 1000

//go:embed index.html.tmpl
var indexTemplate string

var indexPage = template.Must(template.New("index").Funcs(texts).Parse(indexTemplate))

// index is what the index of a store says.
type index struct {
	Cards     []entry
	Suites    []entry
	Scenarios []shelf
	Runs      int // in the store
	Shown     int
	Undrawn   int // of those shown
	Backends  []string
	States    []string
}

// shelf is the runs of one scenario, the newest first.
type shelf struct {
	Scenario string
	Runs     []entry
}

// entry is one run, or one suite.
type entry struct {
	Time, Backend, Seed, State, Symbol, Href, Scenario string
	Size, Counts, Violated, Took                       string // of a suite
	name, dir                                          string
}

// Index writes the index of a store: what lies there now, suites first. Another
// lockpick may write it at the same time; whoever wrote last looks once more, so that
// what both have done is in it in the end.
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

// drawIndex draws the index; served is for who draws a run's page when it is asked for it.
func drawIndex(store string, served bool) ([]byte, error) {
	x, err := list(store, served)
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	if err := indexPage.Execute(&page, x); err != nil {
		return nil, fmt.Errorf("draw index: %w", err)
	}
	return page.Bytes(), nil
}

// list reads the names in a store, and the heads of the newest.
func list(store string, served bool) (index, error) {
	runs, err := runsOf(store)
	if err != nil {
		return index{}, err
	}
	x := index{Runs: len(runs)}
	// Names begin with the time.
	slices.SortStableFunc(runs, func(a, b entry) int { return strings.Compare(b.name, a.name) })
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
		h := head(dir)
		e := entry{Time: when(filepath.Base(dir)), Backend: h.text("backend"), Seed: h.number("seed").String(), Scenario: h.text("command"), Size: h.number("size").String(),
			Counts: strings.Join(outcome.Counted(h.counts("counts")), ", "), Took: h.took(),
			Href: Folder + "/" + escaped(filepath.Base(dir)) + "/" + PageFile}
		if seeds, _ := h.number("seeds").Int64(); seeds > 1 {
			e.Seed = fmt.Sprintf("%d seeds from %s", seeds, e.Seed)
		}
		violated := h.counts("violated")
		for _, p := range checker.Properties() {
			if n := violated[p]; n > 0 {
				e.Violated += fmt.Sprintf(", %s %d", p, n)
			}
		}
		e.Violated = strings.TrimPrefix(e.Violated, ", ")
		e.mark(h.state())
		x.Suites = append(x.Suites, e)
		backends[e.Backend], states[e.State] = true, true
	}
	x.Backends, x.States = slices.Sorted(maps.Keys(backends)), slices.Sorted(maps.Keys(states))
	return x, nil
}

// Runs lists the run directories of a store, the newest first, after the links to the
// newest of each scenario.
func Runs(store string) []string {
	runs, err := runsOf(store)
	if err != nil {
		return nil
	}
	slices.SortStableFunc(runs, func(a, b entry) int { return strings.Compare(b.name, a.name) })
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

// runsOf lists the run directories of a store by their names alone.
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
			continue // removed meanwhile, or not ours to read
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
	return out, nil
}

// page is the file to open of a run's directory, "" where nothing is drawn yet.
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

// symbols of states.
var symbols = map[string]string{"as expected": "✓", "nothing expected": "○", "unexpected": "!", "undecided": "?", "failed": "!", "interrupted": "?", "skipped": "–"}

func (e *entry) mark(state string) {
	e.State, e.Symbol = state, symbols[state]
	if e.Symbol == "" {
		e.Symbol = "…"
	}
}

// when reads the time off a directory's name.
func when(name string) string {
	t, err := time.Parse(stampForm, name[:min(len(name), len(stampForm))])
	if err != nil {
		return name
	}
	return stamp(t)
}
