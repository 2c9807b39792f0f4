package suites

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockpick/checker"
	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// maxRuns limits the number of runs listed in an index. Older runs remain in the store.
const maxRuns = 1000

//go:embed index.html.tmpl
var indexTemplate string

var indexPage = parseOnce("index", indexTemplate)

// index is the content of a store's index page.
type index struct {
	Campaigns  []entry // suites, scorecards, assessments, fuzzing and model checks, newest first
	Entries    []entry // runs, newest first
	NumSuites  int
	Runs       int // number of runs in the store
	Shown      int
	NumUndrawn int // number of listed runs without a report
	Backends   []string
	States     []string
}

// entry is a run or a campaign in the index.
type entry struct {
	Time, Backend, Seed, State, Symbol, Href string
	Scenario                                 string // a campaign's command or title
	name, dir                                string // of a run

	// Campaigns only.
	Kind, Where, Counts, Violated, Duration string
	IsCommand                               bool // Scenario is a command
	Findings                                []finding
	ended                                   time.Time
}

// finding is a line about a campaign's result. Href and Minimized, which link to a run and to a minimized
// scenario, are "" if these do not exist.
type finding struct{ Text, Href, Minimized string }

// maxFindings limits the number of findings listed for a campaign.
const maxFindings = 8

// Index writes a store's index, which lists the runs and campaigns. Because other lockpick
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
	x := index{Runs: len(runs), NumSuites: len(SuiteDirs(store)), Campaigns: listCampaigns(store, runs, served)}
	x.Entries = runs[:min(len(runs), maxRuns)]
	x.Shown = len(x.Entries)
	backends, states := map[string]bool{}, map[string]bool{}
	for i := range x.Entries {
		r := &x.Entries[i]
		r.setState(readHeader(filepath.Join(store, r.dir)).state())
		if r.Href = runHref(store, r.dir, served); r.Href == "" {
			x.NumUndrawn++
		}
	}
	for _, e := range slices.Concat(x.Campaigns, x.Entries) {
		backends[e.Backend], states[e.State] = true, true
	}
	delete(backends, "")
	x.Backends, x.States = slices.Sorted(maps.Keys(backends)), slices.Sorted(maps.Keys(states))
	return x, nil
}

// runHref returns a link to a run's report, or "" if there is none yet. served means that a server will
// render a missing report.
func runHref(store, dir string, served bool) string {
	switch name := reportFile(filepath.Join(store, dir)); {
	case name != "":
		return escapePath(dir + "/" + name)
	case served:
		return escapePath(dir + "/" + runPage)
	}
	return ""
}

// Folders and files of campaigns in a store whose format belongs to other packages.
const (
	fuzzFolder   = "hunts"
	fuzzJSON     = "hunt.json"
	corpusFolder = "corpus"  // scenarios minimized by fuzzing
	modelFolder  = "exhaust" // scenario files, each of which has a run
)

// listCampaigns lists a store's suites, scorecards, assessments, fuzzing and model checks, by the time at
// which they ended, newest first.
func listCampaigns(store string, runs []entry, served bool) []entry {
	all := slices.Concat(listSuites(store), listScorecards(store), listAssessments(store), listFuzzing(store, served), listModelChecks(store, runs, served))
	slices.SortStableFunc(all, func(a, b entry) int { return b.ended.Compare(a.ended) })
	return all[:min(len(all), maxRuns)]
}

// newCampaign returns an entry for a directory whose name starts with its start time.
func newCampaign(kind, folder, dir, page string) entry {
	name := filepath.Base(dir)
	started, _ := time.Parse(stampLayout, name[:min(len(name), len(stampLayout))])
	return entry{Kind: kind, Time: parseStamp(name), Href: folder + "/" + escapePath(name) + "/" + page, ended: started}
}

func listSuites(store string) (all []entry) {
	for _, dir := range SuiteDirs(store) {
		if len(all) == maxRuns {
			break
		}
		h := cmp.Or(readHeader(dir), &outcomeHeader{})
		e := newCampaign("suite", Folder, dir, PageFile)
		e.Backend, e.Scenario, e.IsCommand = h.Backend, h.Command, true
		e.Counts = strings.Join(outcome.DescribeCounts(h.Counts), ", ")
		if s := h.Seconds; s != nil && *s >= 0 && *s <= 1e9 {
			e.Duration = fmt.Sprintf("%.1f s", *s)
			e.ended = e.ended.Add(time.Duration(*s * float64(time.Second)))
		}
		seeds := "seed " + h.Seed.String()
		if h.Seeds > 1 {
			seeds = fmt.Sprintf("%d seeds from %s", h.Seeds, h.Seed)
		}
		noun := "scenarios"
		if h.Size == "1" {
			noun = "scenario"
		}
		if h.Backend != "" {
			e.Where = fmt.Sprintf("%s %s on %s, %s", h.Size, noun, h.Backend, seeds)
		}
		var violated []string
		for _, p := range checker.Properties() {
			if n := h.Violated[p]; n > 0 {
				violated = append(violated, fmt.Sprintf("%s %d", p, n))
			}
		}
		if len(violated) > 0 {
			e.Violated = "violated: " + strings.Join(violated, ", ")
		}
		e.setState(h.state())
		all = append(all, e)
	}
	return all
}

func listScorecards(store string) (all []entry) {
	for _, dir := range listFolder(store, ScoreFolder) {
		if len(all) == maxRuns {
			break
		}
		e := newCampaign("scorecards", ScoreFolder, dir, ScoreFile)
		h := readHeaderOf(dir, CardJSON)
		e.Scenario, e.IsCommand = "scorecards", h != nil && h.Command != ""
		if e.IsCommand {
			e.Scenario = h.Command
		}
		e.setCode(h)
		all = append(all, e)
	}
	return all
}

// listAssessments lists the folders that contain a page. The title is the headline in the JSON file.
func listAssessments(store string) (all []entry) {
	for _, dir := range listFolder(store, AssessmentFolder) {
		if len(all) == maxRuns {
			break
		}
		in, err := files.OpenFolder(dir)
		if err != nil {
			continue
		}
		if in.Has(AssessmentPage) {
			e := newCampaign("assessment", AssessmentFolder, dir, AssessmentPage)
			e.Scenario = "assessment"
			var title struct{ Headline string }
			if text, err := in.Read(AssessmentJSON, maxJSON); err == nil && json.Unmarshal(text, &title) == nil && title.Headline != "" {
				e.Scenario = title.Headline
			}
			e.setCode(readHeaderOf(dir, AssessmentJSON))
			all = append(all, e)
		}
		in.Close()
	}
	return all
}

// setCode sets the state of a campaign that records its exit code.
func (e *entry) setCode(h *outcomeHeader) {
	if h == nil || h.Code == nil || !outcome.KnownCode(*h.Code) {
		e.State, e.Symbol = "no outcome", "–"
		return
	}
	e.setState(outcome.Outcome{Code: *h.Code}.State())
}

// listFuzzing lists the scenarios that were fuzzed, with links to a run of each finding.
func listFuzzing(store string, served bool) (all []entry) {
	in, err := files.OpenFolder(filepath.Join(store, fuzzFolder))
	if err != nil {
		return nil
	}
	defer in.Close()
	folders, _ := in.Entries()
	for _, f := range folders {
		var h struct {
			Scenarios []string
			Runs      int
			Failed    int
			Finds     []struct {
				Property, Cause, Dir, File string
				Runs                       int
				Held                       bool
			}
		}
		text, err := in.Read(f.Name()+"/"+fuzzJSON, maxJSON)
		if err != nil || json.Unmarshal(text, &h) != nil {
			continue
		}
		name := f.Name() // ends with a digest of the scenarios
		if i := strings.LastIndexByte(name, '-'); i > 0 {
			name = name[:i]
		}
		e := entry{Kind: "fuzzing", Backend: "sim", Scenario: name, Where: fmt.Sprintf("%s, %s", display.Plural(len(h.Scenarios), "scenario"), display.Plural(h.Runs, "run"))}
		if file, err := in.Open(f.Name()+"/"+fuzzJSON, maxJSON); err == nil {
			if info, err := file.Stat(); err == nil {
				e.ended = info.ModTime()
				e.Time = formatTime(e.ended)
			}
			file.Close()
		}
		code := outcome.ExitOK
		for _, x := range h.Finds {
			if x.Held {
				code = outcome.ExitUnexpected
			}
			text := strings.TrimSuffix(x.Property+" ("+x.Cause+")", " ()") + fmt.Sprintf(" in %s", display.Plural(x.Runs, "run"))
			line := finding{Text: text}
			if dir := runInStore(store, x.Dir); dir != "" {
				line.Href = runHref(store, dir, served)
			}
			if name := filepath.Base(x.File); x.File != "" && fileExists(filepath.Join(store, corpusFolder, name)) {
				line.Minimized = corpusFolder + "/" + escapePath(name)
			}
			if len(e.Findings) < maxFindings {
				e.Findings = append(e.Findings, line)
			}
		}
		if more := len(h.Finds) - maxFindings; more > 0 {
			e.Findings = append(e.Findings, finding{Text: fmt.Sprintf("%d more", more)})
		}
		if h.Failed > 0 {
			code = outcome.WorseCode(code, outcome.ExitBackend)
		}
		if len(h.Finds) == 0 {
			e.Counts = "no violation found"
		}
		e.setState(outcome.Outcome{Code: code, Informational: len(h.Finds) > 0}.State())
		all = append(all, e)
	}
	return all
}

// runInStore converts a run's directory, as a command recorded it, to one relative to the store. It returns
// "" if the store has no such run.
func runInStore(store, dir string) string {
	dir = filepath.ToSlash(filepath.Clean(dir))
	run := path.Base(path.Dir(dir)) + "/" + path.Base(dir)
	if !runDirPattern.MatchString(path.Base(dir)) || !fileExists(filepath.Join(store, filepath.FromSlash(run), runManifest)) {
		return ""
	}
	return run
}

func fileExists(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

// listModelChecks lists the violations that model checking found. Each is a scenario with a run.
func listModelChecks(store string, runs []entry, served bool) (all []entry) {
	in, err := files.OpenFolder(filepath.Join(store, modelFolder))
	if err != nil {
		return nil
	}
	defer in.Close()
	scenarios, _ := in.Entries()
	for _, f := range scenarios {
		name, isScenario := strings.CutSuffix(f.Name(), ".yaml")
		i := slices.IndexFunc(runs, func(r entry) bool { return r.Scenario == name })
		if !isScenario || i < 0 {
			continue
		}
		r := runs[i]
		e := entry{Kind: "model check", Backend: r.Backend, Scenario: name, Time: r.Time, State: "violation found", Symbol: "!"}
		e.ended, _ = time.Parse(stampLayout, r.name[:len(stampLayout)])
		e.Findings = []finding{{"the violation, replayed", runHref(store, r.dir, served), modelFolder + "/" + escapePath(f.Name())}}
		all = append(all, e)
	}
	return all
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

// storedItem is a suite, scorecard, assessment or run in a store.
type storedItem struct {
	Excess
	startStamp string          // directory name, which starts with the start time
	rank       int             // index among the suites or the scenario's runs, newest first
	isLive     bool            // run without an outcome that was written to recently
	runs       map[string]bool // runs a suite or an assessment refers to; nil for a run
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

// listStored lists a store's suites, scorecards, assessments and runs, oldest first.
func listStored(store string) ([]*storedItem, error) {
	runs, err := listRuns(store)
	if err != nil {
		return nil, err
	}
	var all []*storedItem
	for _, folder := range []string{Folder, ScoreFolder, AssessmentFolder} {
		for i, dir := range listFolder(store, folder) {
			references := map[string]bool{} // empty for scorecards, whose runs are in their own directory
			if folder != ScoreFolder {
				references, err = referencedRuns(dir)
				if folder == AssessmentFolder && errors.Is(err, fs.ErrNotExist) {
					continue // in progress
				}
				if err != nil {
					return nil, fmt.Errorf("%w: cannot determine which runs it refers to; remove the directory manually", err)
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

// runReference matches a run directory in the JSON file of a suite or an assessment, as a value or in text.
var runReference = regexp.MustCompile(`\.\./\.\./([^"()\s\\/]+/\d{8}T\d{6}\.\d{3}Z-[a-z0-9]+-\d+(?:-\d+)?)`)

// referencedRuns returns the runs that a suite or an assessment refers to.
func referencedRuns(dir string) (map[string]bool, error) {
	text, err := readReferences(dir)
	out := map[string]bool{}
	for _, m := range runReference.FindAllSubmatch(text, -1) {
		out[string(m[1])] = true
	}
	return out, err
}

// readReferences reads the JSON file of a suite or an assessment.
func readReferences(dir string) ([]byte, error) {
	name := OutcomeFile
	if filepath.Base(filepath.Dir(dir)) == AssessmentFolder {
		name = AssessmentJSON
	}
	text, err := files.ReadIn(dir, name, maxJSON)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, name), err)
	}
	return text, nil
}

// Remove removes suites and runs from a store, and the links to them from the pages of other runs.
func Remove(store string, items []Excess) error {
	byFolder, linked := map[string][]string{}, map[string]bool{}
	for _, e := range items {
		folder, name, _ := strings.Cut(e.Dir, "/")
		byFolder[folder] = append(byFolder[folder], name)
		if folder != Folder && folder != AssessmentFolder {
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
