// Package suites renders the outcomes of many runs: as the safety report of a suite, the index of a
// store, scorecards, JUnit XML, and annotations and a summary for GitHub Actions.
//
// A Suite is one call of lockpick for several scenarios. Add takes outcomes as they arrive and sums
// them up by scenario and property, so that a million seeds take no more room than one. Write puts
// suite.html, suite.md and outcome.json into a folder of store/suites; outcome.json alone is enough
// to draw the others again. Index rewrites store/index.html, and Server shows a store to a browser
// on this machine.
//
// Console prints outcomes on a terminal, or as JSON, while they arrive.
//
// Scorecards is the cards of one call, on one page, as Markdown and as JSON. JUnit has one case for
// each property of a scenario, whatever the number of seeds; undecided is an error there, because
// JUnit calls a wrong answer a failure and a missing one an error. GitHub keeps no more outcomes
// than it will show: the summary is cut below GitHub's limit of 1 MiB, and a step shows ten
// annotations.
//
// Not here: judging, and the reports of single runs.
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

// schema is the version of a suite's outcome.json.
const schema = 1

// Suite is the outcome.json of a suite. Directories in it are relative to its own.
type Suite struct {
	Schema      int            `json:"schema"`
	Code        int            `json:"code"` // exit code of all
	Backend     string         `json:"backend"`
	Seed        uint64         `json:"seed"`    // the first
	Seeds       int            `json:"seeds"`   // of each scenario
	Planned     int            `json:"planned"` // runs, without those that are skipped
	Runs        int            `json:"runs"`    // that ended
	Interrupted bool           `json:"interrupted,omitempty"`
	AnyOutcome  bool           `json:"anyOutcome,omitempty"` // nothing was expected of any run
	Size        int            `json:"size"`                 // scenarios, each variant counted
	Counts      map[string]int `json:"counts"`               // outcomes by state, skipped ones too
	Violated    map[string]int `json:"violated,omitempty"`   // runs that violated a property, by its name
	Started     time.Time      `json:"started"`              // UTC
	Seconds     float64        `json:"seconds"`              // of wall clock
	Command     string         `json:"command"`              // runs it again
	Version     string         `json:"version"`              // of lockpick
	Go          string         `json:"go"`
	OS          string         `json:"os"`
	Arch        string         `json:"arch"`
	CPUs        int            `json:"cpus"`
	Sets        []string       `json:"sets,omitempty"` // overrides
	Scenarios   []*Scenario    `json:"scenarios"`
	// Outcomes are all of them; of many seeds those that were not as expected, the first few of each scenario.
	Outcomes []outcome.Outcome `json:"outcomes"`
	// Rates are the pictures of how often properties were violated in many seeds.
	Rates []string `json:"rates,omitempty"`

	// Store is the folder that the runs' directories lie in.
	Store string `json:"-"`
}

// Scenario is one scenario, or a variant of one, and the sum of its runs.
type Scenario struct {
	Name    string   `json:"name"`
	Variant string   `json:"variant,omitempty"`
	Claim   string   `json:"claim"`
	Source  string   `json:"source"`
	Tags    []string `json:"tags,omitempty"`
	Expect  []string `json:"expect,omitempty"` // in words
	outcome.Row

	// States is how each of many seeds came out, a letter each from the suite's first on:
	// see the grid.
	States string `json:"states,omitempty"`
	// Kept is where the runs of many seeds lie that the store has, by their seeds.
	Kept map[uint64]string `json:"kept,omitempty"`
	// Seeds is the picture of many seeds, one cell each, in the suite's directory.
	Seeds string `json:"seeds,omitempty"`
}

// ID is the name with its variant.
func (c *Scenario) ID() string {
	if c.Variant == "" {
		return c.Name
	}
	return c.Name + "/" + c.Variant
}

// Add takes an outcome that is settled: nothing in it waits for another run.
func (s *Suite) Add(o outcome.Outcome) {
	o.Verdict = verdict.Verdict{} // its witness holds the whole history
	o.Dir = s.relative(o.Dir)
	o.Retried = slices.Clone(o.Retried)
	for i, why := range o.Retried {
		o.Retried[i] = strings.ReplaceAll(why, "("+filepath.Clean(s.Store)+string(filepath.Separator), "("+toStore)
	}
	c := s.scenario(o.Scenario)
	if s.Counts == nil {
		s.Counts = map[string]int{}
	}
	s.Counts[o.State()]++
	c.Add(o)
	if o.State() != outcome.Skipped {
		s.Runs++
		if s.Seeds > 1 {
			c.mark(o, s)
		} else {
			c.Causes = nil // its one run says it all
		}
	}
	if s.Seeds <= 1 || o.Code != outcome.ExitOK && c.Runs-outcome.Fine(c.Counts) <= outcome.MostQuoted {
		s.Outcomes = append(s.Outcomes, o)
	}
}

// toStore leads from a suite's directory to the store.
const toStore = "../../"

// relative is a directory of the store as seen from that of a suite.
func (s *Suite) relative(dir string) string {
	if dir == "" {
		return ""
	}
	rel, err := filepath.Rel(s.Store, dir)
	if err != nil || !filepath.IsLocal(rel) {
		return ""
	}
	return toStore + filepath.ToSlash(rel)
}

// scenario returns the scenario of an ID, and makes one if nobody announced it.
func (s *Suite) scenario(id string) *Scenario {
	name, variant, _ := strings.Cut(id, "/")
	return outcome.Entry(&s.Scenarios, func(c *Scenario) bool { return c.ID() == id }, Scenario{Name: name, Variant: variant})
}

// sorted puts the outcomes into the order of the scenarios, whatever order they ended in.
func (s *Suite) sorted() {
	at := map[string]int{}
	for i, c := range s.Scenarios {
		at[c.ID()] = i
	}
	slices.SortStableFunc(s.Outcomes, func(a, b outcome.Outcome) int {
		return cmp.Or(cmp.Compare(at[a.Scenario], at[b.Scenario]), cmp.Compare(a.Seed, b.Seed))
	})
}

// File is one more file of a suite's directory, which somebody else makes.
type File struct {
	Name string
	Text []byte
}

// view is what a suite's report says, in either form: texts, marks and links.
type view struct {
	Headline string
	Title    string
	Found    []found
	Grids    []gridded
	Tone     string // of the headline: good, calm where nothing was expected of what was violated, or none
	Columns  []string
	Backends []string
	States   []string  // of the rows
	Wrong    []*family // otherwise than expected, then undecided
	Skipped  []*skip
	Fine     []*family
	Undrawn  int     // rows of a run that is kept, and has no report
	Troubles []group // retries and errors
	Facts    [][2]string
	Hidden   []string // properties without a column
	Rates    []string // pictures of many seeds
	Seeds    []string // and of these, which text can show
	More     []string // what else there is to say of the matrix
	Index    string
}

// look makes the report of a suite, with the latest ones of other backends beside it.
func look(s *Suite, others []*Suite, has there) view {
	all := append([]*Suite{s}, others...)
	_, broke := s.free()
	v := view{Headline: s.Headline(), Index: toStore + "index.html"}
	switch {
	case s.Code != outcome.ExitOK || s.Interrupted:
	case broke:
		v.Tone = "calm"
	default:
		v.Tone = "good"
	}
	v.Title = display.Clip(v.Headline, 120)
	v.Columns, v.Hidden = columns(all)
	v.Found, v.Grids = s.founds(has), s.grids(has)
	v.Rates, v.Seeds = s.Rates, slices.Clone(s.Rates)
	for _, c := range s.Scenarios {
		if c.Seeds != "" {
			v.Seeds = append(v.Seeds, c.Seeds)
		}
	}
	for _, x := range all {
		v.Backends = append(v.Backends, x.Backend)
	}
	v.fill(all, has)
	for _, c := range s.Scenarios {
		if t := c.troubles(); len(t) > 0 {
			v.Troubles = append(v.Troubles, group{c.ID(), has.page(c.Dir, "#verdict"), t})
		}
	}
	for _, x := range others {
		v.More = append(v.More, fmt.Sprintf("The rows of %s are those of its suite of %s: %s", x.Backend, stamp(x.Started), x.Headline()))
	}
	v.Facts = s.facts()
	return v
}

// troubles are the tries that did not count, and the errors.
func (c *Scenario) troubles() []string {
	var out []string
	for _, why := range c.Retried {
		out = append(out, "tried again: "+why)
	}
	if more := c.Retries - len(c.Retried); more > 0 {
		out = append(out, fmt.Sprintf("tried again %d more times", more))
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
		{"begun", stamp(s.Started)}, {"wall clock", fmt.Sprintf("%.1f s", s.Seconds)},
		{"lockpick", s.Version}, {"built with", s.Go}, {"host", fmt.Sprintf("%s/%s, %s", s.OS, s.Arch, display.Plural(s.CPUs, "CPU"))},
		{"exit code", fmt.Sprint(s.Code)},
	}
	if len(s.Sets) > 0 {
		f = append(f, [2]string{"overrides", strings.Join(s.Sets, ", ") + " (expected violations and numbers no longer apply)"})
	}
	return f
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

//go:embed suite.html.tmpl
var suiteTemplate string

//go:embed style.css
var style string

// Style is that of all pages but a run's: colours, texts and tables.
var Style = display.ColorsCSS + style

//go:embed filter.js
var filter template.JS

// texts are the functions of both pages.
var texts = template.FuncMap{
	"text":   visible,
	"filter": func() template.JS { return filter },
	"rated": func(picture string) string {
		return "how often " + visible(strings.TrimSuffix(strings.TrimPrefix(picture, "rates-"), ".svg")) + " was violated in each scenario"
	},
	"table": func(f *family, several bool, wide int) tabled { return tabled{f, several, wide} },
	"style": func() template.CSS { return template.CSS(Style + gridStyle) },
}

// parsed returns the template of a page, which is parsed on first use: most commands draw none.
func parsed(name, text string) func() *template.Template {
	return sync.OnceValue(func() *template.Template { return template.Must(template.New(name).Funcs(texts).Parse(text)) })
}

var suitePage = parsed("suite", suiteTemplate)

// writePage writes suite.html.
func writePage(w io.Writer, v view) error {
	if err := suitePage().Execute(w, v); err != nil {
		return fmt.Errorf("draw suite: %w", err)
	}
	return nil
}

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
			if err := files.WriteIn(dir, f.Name, f.Text); err != nil {
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
		h := head(dir)
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
	if err := files.JSON(verdict.CanonicalJSON(text), s); err != nil {
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

// heads is what the beginning of an outcome.json says, of a run or a suite.
type heads struct {
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

// head reads the beginning of the outcome.json in a directory, of a run or a suite, and
// nothing that grows with the run. A file that is no such thing says nothing.
func head(dir string) *heads {
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
		if name == "judgements" || name == "scenarios" || d.Decode(&value) != nil {
			break // the head is over, or too long
		}
		fields[fmt.Sprint(name)] = value
	}
	h := &heads{}
	text, err := json.Marshal(fields)
	if err == nil {
		json.Unmarshal(text, h) // a field of another type says nothing
	}
	return h
}

// state is what became of it, as far as its head tells.
func (h *heads) state() string {
	switch {
	case h == nil || h.Code == nil || h.Backend == "" || h.Seed == "":
		return "no outcome"
	case len(h.Counts) == 1 && h.Counts[outcome.Skipped] > 0:
		return outcome.Skipped
	}
	return outcome.Outcome{Code: *h.Code, NothingExpected: h.AnyOutcome}.State()
}
