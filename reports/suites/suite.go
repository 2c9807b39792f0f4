// Package suites renders reports on many runs: a suite's safety report, a store's index, scorecards,
// JUnit XML, and annotations and a summary for GitHub Actions.
//
// A Suite represents an invocation of lockpick for several scenarios. Add adds up outcomes by scenario
// and property as they arrive, so that a million seeds take no more memory than one. Write creates
// suite.html, suite.md and outcome.json in a new folder in store/suites. outcome.json contains
// everything needed to render the other two again. Index rewrites store/index.html, and NewServer serves
// a store to browsers on the same machine. BackLinks links a run's page to the pages that list the run, and
// NewExport copies a page and the pages of its runs into one file.
//
// Console prints outcomes as they arrive, for a terminal or as JSON.
//
// Scorecards renders scorecards as a page, as Markdown and as JSON, and WriteAssessment does the same
// for an assessment. The JUnit file has one test case for
// each property of a scenario, regardless of the number of seeds. An inconclusive property is an error
// there, because in JUnit a wrong result is a failure and a missing result is an error. The GitHub
// reports observe GitHub's limits: 1 MiB for the summary and ten annotations per step.
//
// The package does not judge runs and does not create the reports for single runs.
package suites

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"lockpick/checker/verdict"
	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/scenarios/outcome"
)

// schema is the format version of a suite's outcome.json.
const schema = 1

// Suite is the content of a suite's outcome.json. Directories are relative to the suite's directory.
type Suite struct {
	Schema      int            `json:"schema"`
	Code        int            `json:"code"` // exit code
	Backend     string         `json:"backend"`
	FirstSeed   uint64         `json:"seed"`    // first seed
	Seeds       int            `json:"seeds"`   // seeds per scenario
	PlannedRuns int            `json:"planned"` // number of planned runs, excluding skipped scenarios
	Runs        int            `json:"runs"`    // number of completed runs
	Interrupted bool           `json:"interrupted,omitempty"`
	AnyOutcome  bool           `json:"anyOutcome,omitempty"` // all runs are informational
	Size        int            `json:"size"`                 // number of scenarios, where variants count separately
	Counts      map[string]int `json:"counts"`               // number of outcomes by state, including skipped scenarios
	Violated    map[string]int `json:"violated,omitempty"`   // number of violating runs by property
	StartTime   time.Time      `json:"started"`              // UTC
	Seconds     float64        `json:"seconds"`              // duration by the wall clock
	Command     string         `json:"command"`              // command to rerun the suite
	Version     string         `json:"version"`              // of lockpick
	Go          string         `json:"go"`
	OS          string         `json:"os"`
	Arch        string         `json:"arch"`
	CPUs        int            `json:"cpus"`
	Overrides   []string       `json:"sets,omitempty"` // overrides
	Scenarios   []*Scenario    `json:"scenarios"`
	// Outcomes contains all outcomes or, if there are several seeds, each scenario's first few
	// outcomes that were not as expected.
	Outcomes []outcome.Outcome `json:"outcomes"`
	// Rates lists the file names of the images that show violation rates.
	Rates []string `json:"rates,omitempty"`

	// Store is the directory that contains the runs' directories.
	Store string `json:"-"`
}

// Scenario is a scenario or variant with the totals of its runs.
type Scenario struct {
	Name    string   `json:"name"`
	Variant string   `json:"variant,omitempty"`
	Claim   string   `json:"claim"`
	Source  string   `json:"source"`
	Tags    []string `json:"tags,omitempty"`
	Expect  []string `json:"expect,omitempty"` // as text
	outcome.Row

	// States has a letter for each seed's result, beginning with the suite's first seed. See the cell
	// constants.
	States string `json:"states,omitempty"`
	// RunDirs maps seeds to run directories in the store.
	RunDirs map[uint64]string `json:"kept,omitempty"`
	// Seeds is the name of the image file that shows the results by seed.
	Seeds string `json:"seeds,omitempty"`
}

// ID returns the name, followed by a slash and the variant if there is one.
func (c *Scenario) ID() string {
	if c.Variant == "" {
		return c.Name
	}
	return c.Name + "/" + c.Variant
}

// Add adds an outcome, which must be final: no number may depend on a future run.
func (s *Suite) Add(o outcome.Outcome) {
	o.Verdict = verdict.Verdict{} // its witness references the whole history
	o.Dir = s.relativeDir(o.Dir)
	o.RetryReasons = slices.Clone(o.RetryReasons)
	for i, why := range o.RetryReasons {
		o.RetryReasons[i] = strings.ReplaceAll(why, "("+filepath.Clean(s.Store)+string(filepath.Separator), "("+storePrefix)
	}
	c := s.scenario(o.Scenario)
	if s.Counts == nil {
		s.Counts = map[string]int{}
	}
	s.Counts[o.State()]++
	c.Add(o)
	if o.State() != outcome.StateSkipped {
		s.Runs++
		if s.Seeds > 1 {
			c.addSeed(o, s)
		} else {
			c.Causes = nil // the outcome of a single run says it all
		}
	}
	if s.Seeds <= 1 || o.Code != outcome.ExitOK && c.Runs-outcome.CountPassed(c.Counts) <= outcome.MaxQuoted {
		s.Outcomes = append(s.Outcomes, o)
	}
}

// storePrefix is the path from a suite's directory to the store.
const storePrefix = "../../"

// relativeDir returns a run directory relative to the suite's directory, or "" if the run directory is
// not in the store.
func (s *Suite) relativeDir(dir string) string {
	if dir == "" {
		return ""
	}
	rel, err := filepath.Rel(s.Store, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return storePrefix + filepath.ToSlash(rel)
}

// scenario returns the scenario with the given ID. It adds the scenario if it does not exist.
func (s *Suite) scenario(id string) *Scenario {
	name, variant, _ := strings.Cut(id, "/")
	return outcome.GetOrAdd(&s.Scenarios, func(c *Scenario) bool { return c.ID() == id }, Scenario{Name: name, Variant: variant})
}

func (s *Suite) sortOutcomes() {
	at := map[string]int{}
	for i, c := range s.Scenarios {
		at[c.ID()] = i
	}
	slices.SortStableFunc(s.Outcomes, func(a, b outcome.Outcome) int {
		return cmp.Or(cmp.Compare(at[a.Scenario], at[b.Scenario]), cmp.Compare(a.Seed, b.Seed))
	})
}

// File is an additional file for a suite's directory.
type File struct {
	Name string
	Text []byte
}

// view is the content of a suite's report, for rendering as HTML and Markdown.
type view struct {
	Headline           string
	Title              string
	Verdict            string // the headline without the counts
	Where              string // backend, seeds and time
	Counters           []counter
	Cards              []card // scenarios that are not as expected
	NumMoreCards       int    // number of such scenarios without a card
	ExpectedViolations []card // scenarios whose violations are expected or informational
	ExpectedTitle      string
	IsLong             bool // the table is folded
	Causes             []foundCause
	Grids              []seedGrid
	Tone               string // CSS class of the headline: good, calm if all violations are informational, or ""
	Columns            []string
	Backends           []string
	States             []string  // states of the rows, for the filter
	UnexpectedFamilies []*family // unexpected, then inconclusive
	Skipped            []*skipGroup
	ExpectedFamilies   []*family
	NumUndrawn         int     // number of rows with a run directory but no report
	Problems           []group // retries and errors
	Facts              [][2]string
	HiddenProperties   []string // properties without a column
	Rates              []string // image files with violation rates
	Seeds              []string // all image files, for Markdown
	Notes              []string // notes on the matrix
	Index              string
}

// newView returns the report on a suite and on the latest suites of other backends.
func newView(s *Suite, others []*Suite, has existsFunc) view {
	all := append([]*Suite{s}, others...)
	v := view{Headline: s.Headline(), Index: storePrefix + "index.html"}
	switch {
	case s.Code != outcome.ExitOK || s.Interrupted:
	case violatesInformational(s):
		v.Tone = "calm"
	default:
		v.Tone = "good"
	}
	v.Title, v.Verdict, v.Counters = display.TruncateBytes(v.Headline, 120), s.verdictText(), countersOf(s)
	v.Where = fmt.Sprintf("Backend %s, %s, started %s, %.1f s.", s.Backend, s.SeedRange(), formatTime(s.StartTime), s.Seconds)
	v.Columns, v.HiddenProperties = columns(all)
	v.Causes, v.Grids = s.foundCauses(has), s.newGrids(has)
	v.fillCards(s, has)
	v.Rates, v.Seeds = s.Rates, slices.Clone(s.Rates)
	for _, c := range s.Scenarios {
		if c.Seeds != "" {
			v.Seeds = append(v.Seeds, c.Seeds)
		}
	}
	for _, x := range all {
		v.Backends = append(v.Backends, x.Backend)
	}
	v.fillTable(all, has)
	for _, c := range s.Scenarios {
		if t := c.problems(); len(t) > 0 {
			v.Problems = append(v.Problems, group{c.ID(), has.page(c.Dir, "#verdict"), t})
		}
	}
	for _, x := range others {
		v.Notes = append(v.Notes, fmt.Sprintf("The rows for %s are from its suite started %s: %s", x.Backend, formatTime(x.StartTime), x.Headline()))
	}
	v.Facts = s.facts()
	return v
}

// problems lists discarded attempts and errors.
func (c *Scenario) problems() []string {
	var out []string
	for _, why := range c.RetryReasons {
		out = append(out, "retried: "+why)
	}
	if more := c.Retries - len(c.RetryReasons); more > 0 {
		out = append(out, fmt.Sprintf("retried %d more times", more))
	}
	for _, e := range c.Errors {
		out = append(out, "error: "+e)
	}
	if len(out) > 0 && c.Command != "" {
		out = append(out, "run again: "+c.Command)
	}
	return out
}

func (s *Suite) facts() [][2]string {
	f := [][2]string{
		{"command", s.Command}, {"backend", s.Backend}, {"seeds", s.SeedRange()},
		{"started", formatTime(s.StartTime)}, {"wall clock", fmt.Sprintf("%.1f s", s.Seconds)},
		{"lockpick", s.Version}, {"built with", s.Go}, {"host", fmt.Sprintf("%s/%s, %s", s.OS, s.Arch, display.Plural(s.CPUs, "CPU"))},
		{"exit code", fmt.Sprint(s.Code)},
	}
	if len(s.Overrides) > 0 {
		f = append(f, [2]string{"overrides", strings.Join(s.Overrides, ", ") + " (the expected violations and numbers no longer apply)"})
	}
	return f
}

func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

//go:embed suite.html.tmpl
var suiteTemplate string

//go:embed style.css
var style string

// Style is the style sheet for all pages except a single run's page.
var Style = display.ColorsCSS + style

//go:embed filter.js
var filterScript template.JS

var templateFuncs = template.FuncMap{
	"text":        sanitize,
	"randomText":  randomText,
	"catalogText": catalogText,
	"report":      runReport,
	"state":       outcome.StateText,
	"filter":      func() template.JS { return filterScript },
	"rated": func(picture string) string {
		return "violation rate of " + sanitize(strings.TrimSuffix(strings.TrimPrefix(picture, "rates-"), ".svg")) + " in each scenario"
	},
	"table": func(f *family, several bool, wide int) familyTable { return familyTable{f, several, wide} },
	"style": func() template.CSS { return template.CSS(Style + gridStyle) },
}

// parseOnce returns a function that parses a template when it is first called, because most commands
// need no template.
func parseOnce(name, text string) func() *template.Template {
	return sync.OnceValue(func() *template.Template { return template.Must(template.New(name).Funcs(templateFuncs).Parse(text)) })
}

var suitePage = parseOnce("suite", suiteTemplate)

func writePage(w io.Writer, v view) error {
	if err := suitePage().Execute(w, v); err != nil {
		return fmt.Errorf("render suite: %w", err)
	}
	return nil
}

// Names in a store.
const (
	Folder      = "suites" // in a store
	PageFile    = "suite.html"
	TextFile    = "suite.md"
	OutcomeFile = "outcome.json"
	IndexFile   = "index.html" // in a store
	ScoreFolder = "scores"     // in a store; contains scorecards
	ScoreFile   = "score.html" // page with scorecards
)

// stampLayout is the time format used in directory names.
const stampLayout = "20060102T150405.000Z"

// Stamp formats a start time for a directory name.
func Stamp(t time.Time) string { return t.UTC().Format(stampLayout) }

// suiteDirPattern matches the directory names of suites, but not of runs of a scenario named "suites".
var suiteDirPattern = regexp.MustCompile(`^\d{8}T\d{6}\.\d{3}Z(-\d+)?$`)

// runDirPattern matches the directory names of runs: TIME-BACKEND-SEED, followed by a number if several
// runs started at the same time.
var runDirPattern = regexp.MustCompile(`^(\d{8}T\d{6}\.\d{3}Z)-([a-z0-9]+)-(\d+)(-\d+)?$`)

// Write writes a suite and additional files into a new directory in the store, which it renames into
// place when all files are written. It then links `latest` to the directory.
func Write(s *Suite, more ...File) (dir string, err error) {
	s.Schema, s.AnyOutcome, s.Size, s.Violated = schema, s.allInformational(), len(s.Scenarios), s.violationCounts()
	s.sortOutcomes()
	pictures := s.drawImages()
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", fmt.Errorf("write suite: %w", err)
	}
	dir, err = files.CreateUnique(s.Store, Folder, Stamp(s.StartTime), func(dir string) error {
		if err := files.WriteIn(dir, OutcomeFile, append(text, '\n')); err != nil {
			return err
		}
		for _, f := range slices.Concat(pictures, more) {
			if err := files.WriteIn(dir, f.Name, f.Text); err != nil {
				return err
			}
		}
		return writeReports(dir, s)
	})
	if err == nil {
		err = linkRunsOf(s.Store, dir)
	}
	return dir, storeWriteError(err)
}

// storeWriteError adds advice to an error that occurred when writing to the store.
func storeWriteError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write to store: %w; free up disk space or choose another folder with --store", err)
}

// Rerender renders a stored suite's reports again, using only outcome.json. It does not judge anything
// again. Before rendering, it removes files that killed processes left in the store.
func Rerender(dir string) (*Suite, error) {
	s, err := Open(dir)
	if err != nil {
		return nil, err
	}
	if err := Sweep(s.Store); err != nil {
		return nil, err
	}
	return s, storeWriteError(cmp.Or(writeReports(dir, s), linkRunsOf(s.Store, dir)))
}

// writeReports writes a suite's reports into its directory in store/suites.
func writeReports(dir string, s *Suite) error {
	store, err := files.OpenFolder(s.Store)
	if err != nil {
		return fmt.Errorf("render suite: %w", err)
	}
	defer store.Close()
	has := func(name string) bool { return store.Has(path.Join(Folder, "this", name)) } // name is relative to the suite's directory
	v := newView(s, otherBackends(s), has)
	var page, text bytes.Buffer
	if err := writePage(&page, v); err != nil {
		return err
	}
	writeMarkdown(&text, v)
	return cmp.Or(files.WriteIn(dir, PageFile, page.Bytes()), files.WriteIn(dir, TextFile, text.Bytes()))
}

// otherBackends returns the latest suite in the same store for each other backend.
func otherBackends(s *Suite) []*Suite {
	newest := map[string]*Suite{}
	for _, dir := range SuiteDirs(s.Store) {
		h := readHeader(dir)
		if h == nil || h.Backend == "" || h.Backend == s.Backend || newest[h.Backend] != nil {
			continue
		}
		if o, err := Open(dir); err == nil {
			newest[h.Backend] = o
		}
	}
	var out []*Suite
	for _, o := range newest {
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b *Suite) int { return cmp.Compare(a.Backend, b.Backend) })
	return out
}

// SuiteDirs lists the suite directories in a store, newest first.
func SuiteDirs(store string) []string { return listFolder(store, Folder) }

// listFolder lists the directories in a folder of suites or scorecards, newest first.
func listFolder(store, folder string) []string {
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
		if e.IsDir() && suiteDirPattern.MatchString(e.Name()) {
			out = append(out, filepath.Join(store, folder, e.Name()))
		}
	}
	slices.Reverse(out)
	return out
}

// maxJSON limits the size of a suite's outcome.json, in bytes.
const maxJSON = 64 << 20

// Open reads a suite's outcome.json.
func Open(dir string) (*Suite, error) {
	text, err := files.ReadIn(dir, OutcomeFile, maxJSON)
	if err != nil {
		return nil, fmt.Errorf("open suite: %w", err)
	}
	s, err := parseSuite(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(dir, OutcomeFile), err)
	}
	s.Store = filepath.Join(dir, "..", "..") // works for `latest` too, which is in the same folder as its target
	return s, nil
}

// parseSuite parses and validates a suite's outcome.json. It rejects a run's outcome.json, which contains
// no scenarios.
func parseSuite(text []byte) (*Suite, error) {
	s := &Suite{}
	if err := files.JSON(verdict.CanonicalJSON(text), s); err != nil {
		return nil, err
	}
	if s.Schema != schema || s.Scenarios == nil || slices.Contains(s.Scenarios, nil) {
		return nil, errors.New("not the outcome.json of a suite, or from another version of lockpick")
	}
	images := slices.Clone(s.Rates)
	counts := []int{s.Seeds, s.PlannedRuns, s.Runs, s.Size}
	for _, c := range s.Scenarios {
		images = append(images, c.Seeds)
		counts = append(counts, c.Runs, c.Retries)
		for _, x := range c.Causes {
			counts = append(counts, x.Runs, x.First.Events, x.Shortest.Events)
		}
		if len(c.States) > maxCells || strings.Trim(c.States, cellAlphabet) != "" {
			return nil, fmt.Errorf("scenario %q: invalid seed states", c.ID())
		}
		for _, cell := range c.Cells {
			counts = append(counts, cell.NumDecided, cell.NumViolated, cell.NumUnexpected)
		}
	}
	for _, n := range counts {
		if n < 0 || n > maxCount {
			return nil, fmt.Errorf("count %d is out of range [0, %d]", n, maxCount)
		}
	}
	if !outcome.KnownCode(s.Code) {
		return nil, fmt.Errorf("code: %d is not an exit code", s.Code)
	}
	for _, picture := range images {
		if strings.ContainsAny(picture, `/\:`) {
			return nil, fmt.Errorf("image name %q contains a path", picture)
		}
	}
	for i := range s.Outcomes {
		if err := s.Outcomes[i].Check(); err != nil {
			return nil, fmt.Errorf("outcomes[%d]: %w", i, err)
		}
	}
	return s, nil
}

// maxCount is more than any realistic number of runs.
const maxCount = 1 << 40

// Sweep removes unfinished files and folders that killed lockpick processes left in a store, both inside
// runs and suites and next to them.
func Sweep(store string) error {
	return files.Unfinished.SweepTree(store, func(path string) bool {
		name := filepath.Base(path)
		switch strings.Count(filepath.ToSlash(path), "/") {
		case 0:
			return !strings.HasPrefix(name, ".")
		case 1:
			return runDirPattern.MatchString(name) || suiteDirPattern.MatchString(name)
		}
		return name == "figures"
	})
}

// headerSize limits how much of an outcome.json is read for its header, in bytes.
const headerSize = 16 << 10

// outcomeHeader contains the first fields in the outcome.json of a run or suite.
type outcomeHeader struct {
	Code       *int
	Backend    string
	Seed       json.Number
	Seeds      int
	Size       json.Number
	Counts     map[string]int
	Violated   map[string]int
	Seconds    *float64
	Command    string
	AnyOutcome bool
}

// readHeader reads the first fields of an outcome.json, before any that grow with the run. It returns nil if
// the file is missing or invalid.
func readHeader(dir string) *outcomeHeader { return readHeaderOf(dir, OutcomeFile) }

// readHeaderOf is like readHeader, but for the file with the given name.
func readHeaderOf(dir, name string) *outcomeHeader {
	in, err := files.OpenFolder(dir)
	if err != nil {
		return nil
	}
	defer in.Close()
	f, err := in.Open(name, maxJSON)
	if err != nil {
		return nil
	}
	defer f.Close()
	d := json.NewDecoder(io.LimitReader(f, headerSize))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	fields := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil
		}
		var value json.RawMessage
		if name == "judgements" || name == "scenarios" || name == "scorecards" || d.Decode(&value) != nil {
			break // end of the header, or the header is too long
		}
		fields[fmt.Sprint(name)] = value
	}
	h := &outcomeHeader{}
	text, err := json.Marshal(fields)
	if err == nil {
		json.Unmarshal(text, h) // ignores fields of a different type
	}
	return h
}

func (h *outcomeHeader) state() string {
	switch {
	case h == nil || h.Code == nil || h.Backend == "" || h.Seed == "":
		return "no outcome"
	case len(h.Counts) == 1 && h.Counts[outcome.StateSkipped] > 0:
		return outcome.StateSkipped
	}
	return outcome.Outcome{Code: *h.Code, Informational: h.AnyOutcome}.State()
}
