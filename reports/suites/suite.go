package suites

import (
	"cmp"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockpick/checker"
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
	Name    string         `json:"name"`
	Variant string         `json:"variant,omitempty"`
	Claim   string         `json:"claim"`
	Source  string         `json:"source"`
	Tags    []string       `json:"tags,omitempty"`
	Expect  []string       `json:"expect,omitempty"` // in words
	Skipped string         `json:"skipped,omitempty"`
	Runs    int            `json:"runs"`
	Counts  map[string]int `json:"counts,omitempty"`
	Retried []string       `json:"retried,omitempty"` // why tries did not count, the first few
	Retries int            `json:"retries,omitempty"` // how many there were
	Errors  []string       `json:"errors,omitempty"`  // the first few
	Cells   []Cell         `json:"properties,omitempty"`
	// Dir is the directory of the run that is shown, "" where none was kept.
	Dir string `json:"dir,omitempty"`
	// Command runs the one that is shown again.
	Command string `json:"command,omitempty"`

	// Causes are what broke in many seeds, how often, and with which seed it is seen.
	Causes []Cause `json:"causes,omitempty"`
	// States is how each of many seeds came out, a letter each from the suite's first on:
	// see the grid.
	States string `json:"states,omitempty"`
	// Kept is where the runs of many seeds lie that the store has, by their seeds.
	Kept map[uint64]string `json:"kept,omitempty"`
	// Seeds is the picture of many seeds, one cell each, in the suite's directory.
	Seeds string `json:"seeds,omitempty"`

	shown outcome.Outcome
}

// Cell is what came of one property, or of a number that has a bound, in all runs of
// a scenario. Got, Cause, Node and Because are those of one run, whose seed and command stand
// with them.
type Cell struct {
	Property   string          `json:"property"`
	Expected   string          `json:"expected"` // in words; "" if nothing was
	Got        checker.Outcome `json:"got"`
	Cause      string          `json:"cause,omitempty"`
	Node       string          `json:"node,omitempty"`
	Because    string          `json:"because"`
	Seed       uint64          `json:"seed"`
	Command    string          `json:"command,omitempty"`
	Decided    int             `json:"decided"`                // runs that decided it
	Violated   int             `json:"violated"`               // runs that violated it
	Idle       int             `json:"notExercised,omitempty"` // runs that gave no occasion to violate it
	Unexpected int             `json:"unexpected,omitempty"`   // runs in which it was not as expected
	Follows    string          `json:"follows,omitempty"`      // the property it comes out as
	Number     string          `json:"number,omitempty"`       // what was measured, in words

	rank int
}

// mostKept bounds what is kept word by word of many runs of one scenario.
const mostKept = 5

// ID is the name with its variant.
func (c *Scenario) ID() string {
	if c.Variant == "" {
		return c.Name
	}
	return c.Name + "/" + c.Variant
}

// Cell returns what came of a property, or nil.
func (c *Scenario) Cell(property string) *Cell {
	for i := range c.Cells {
		if c.Cells[i].Property == property {
			return &c.Cells[i]
		}
	}
	return nil
}

// State is what became of a scenario: the worst state of its runs, "" if there are none.
func (c *Scenario) State() string {
	for _, s := range outcome.WorstFirst() {
		if c.Counts[s] > 0 {
			return s
		}
	}
	if c.Skipped != "" {
		return outcome.Skipped
	}
	return ""
}

// Add takes an outcome that is settled: nothing in it waits for another run.
func (s *Suite) Add(o outcome.Outcome) {
	o.Verdict = checker.Verdict{} // its witness holds the whole history
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
	if o.State() == outcome.Skipped {
		c.Skipped = o.Skipped
	} else {
		s.Runs++
		c.Add(o)
		if s.Seeds > 1 {
			c.Note(o)
			c.mark(o, s)
		}
	}
	if s.Seeds <= 1 || o.Code != outcome.ExitOK && c.Runs-outcome.Fine(c.Counts) <= mostKept {
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

// Add takes the outcome of one run.
func (c *Scenario) Add(o outcome.Outcome) {
	if c.Counts == nil {
		c.Counts = map[string]int{}
	}
	c.Runs++
	c.Counts[o.State()]++
	if c.Runs == 1 || before(o, c.shown) {
		c.shown, c.Dir, c.Command = o, o.Dir, o.Command
	}
	if o.Error != "" && len(c.Errors) < mostKept {
		c.Errors = append(c.Errors, o.Error)
	}
	c.Retries += len(o.Retried)
	c.Retried = append(c.Retried, o.Retried[:min(len(o.Retried), mostKept-len(c.Retried))]...)
	for _, j := range o.Judgements {
		cell := c.Cell(j.Property)
		if cell == nil {
			c.Cells = append(c.Cells, Cell{Property: j.Property, rank: -1})
			cell = &c.Cells[len(c.Cells)-1]
		}
		cell.add(j, o)
	}
}

// before reports whether one outcome tells more than another: what nobody expected
// first, then what violates a property, and among equals the smaller seed.
func before(a, b outcome.Outcome) bool {
	worst := func(o outcome.Outcome) int {
		rank := 2 * slices.Index(outcome.WorstFirst(), o.State())
		if !o.Violated() {
			rank++
		}
		return rank
	}
	return cmp.Or(cmp.Compare(worst(a), worst(b)), cmp.Compare(a.Seed, b.Seed)) < 0
}

func (c *Cell) add(j outcome.Judgement, o outcome.Outcome) {
	switch j.Got {
	case checker.Violated:
		c.Violated++
		c.Decided++
	case checker.Holds:
		c.Decided++
	case checker.NotExercised:
		c.Idle++
	}
	rank := 1
	switch {
	case !j.AsExpected:
		c.Unexpected++
		rank = 4
		if j.Open() {
			rank = 3
		}
	case j.Got == checker.Violated:
		rank = 2
	case j.Got == checker.NotExercised:
		rank = 0
	}
	if rank > c.rank || rank == c.rank && o.Seed < c.Seed {
		c.rank, c.Seed, c.Command = rank, o.Seed, o.Command
		c.Expected, c.Got, c.Cause, c.Node, c.Because, c.Follows = j.Expected, j.Got, j.Cause, j.Node, j.Because, j.Follows
		if j.Number != nil {
			c.Number = j.String()
		}
	}
}

// open reports whether what is shown is neither what was expected nor found to be otherwise.
func (c Cell) open() bool {
	return c.Got == checker.Undecided || c.Got == checker.NotExercised && !strings.HasPrefix(c.Expected, string(checker.Violated))
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
	Name  string
	Write func(io.Writer) error
}
