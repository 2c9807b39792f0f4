package outcome

import (
	"cmp"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/checker/verdict"
)

// Tally sums up runs by scenario, and within each by property and cause. A million runs take no more
// memory than a few: of single runs it keeps only those that a report may quote. Its zero value is ready.
type Tally struct {
	Counts map[string]int // outcomes by state, skipped ones too
	Rows   []*Row         // in the order in which the scenarios came
}

// Row is the sum of a scenario's runs on one backend.
type Row struct {
	Scenario string `json:"-"`
	Backend  string `json:"-"`

	Skipped string         `json:"skipped,omitempty"` // why it was not run
	Runs    int            `json:"runs"`              // without skipped ones
	Counts  map[string]int `json:"counts,omitempty"`  // of these runs, by state
	Retried []string       `json:"retried,omitempty"` // why tries did not count, the first few
	Retries int            `json:"retries,omitempty"` // how many there were
	Errors  []string       `json:"errors,omitempty"`  // the first few
	Cells   []Cell         `json:"properties,omitempty"`
	Dir     string         `json:"dir,omitempty"`     // of the run that is shown, "" where none was kept
	Command string         `json:"command,omitempty"` // runs the one that is shown again
	Causes  []Cause        `json:"causes,omitempty"`  // what broke, how often, and with which seed it is seen

	Shown   Outcome   `json:"-"` // the run that a reader should see
	Quoted  []Outcome `json:"-"` // runs that a report may quote: for each reason the first few
	Seconds float64   `json:"-"`
	// Reported lists the properties that are worth a line of a report, in the order in which they became so,
	// and wholeRun where a run as a whole is.
	Reported []string `json:"-"`
	// Whole counts what is reported of runs as a whole, WholeFailed what of it is a failure.
	Whole, WholeFailed int `json:"-"`

	quoted map[string]int // how many runs by reason
}

// wholeRun stands for a run as a whole among the properties.
const wholeRun = "run"

// Cell is what came of one property, or of a number that has a bound, in all runs of
// a scenario. Got, Cause, Node and Because are those of one run, whose seed and command stand
// with them.
type Cell struct {
	Property   string          `json:"property"`
	Expected   string          `json:"expected"` // in words; "" if nothing was
	Got        verdict.Outcome `json:"got"`
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

	Shown    Judgement   `json:"-"` // of the run that is shown
	NoAnswer string      `json:"-"` // why the last run without an answer had none
	Ways     map[Way]int `json:"-"` // runs by how they came out

	rank int
}

// Way is how a property came out in a run: a judgement without its texts, so that equal ones can be counted.
type Way struct {
	Judgement
	Waiting bool // another run decides
}

// Cause is one way in which a property was violated in a scenario's runs, with the
// first seed that shows it, and the one in which it is seen after the fewest events.
type Cause struct {
	Property string  `json:"property"`
	Cause    string  `json:"cause"`
	Runs     int     `json:"runs"`
	First    Example `json:"first"`
	Shortest Example `json:"shortest"`
}

// Example is a run that shows a violation.
type Example struct {
	Seed    uint64 `json:"seed"`
	Events  int    `json:"events"` // up to the last one that proves it
	Command string `json:"command"`
}

// What a row keeps of its runs at most.
const (
	MostQuoted  = 5  // runs for one reason
	MostRetries = 20 // runs that were tried again or stopped, of which one more is kept
)

// Add adds the outcome of one run.
func (t *Tally) Add(o Outcome) {
	if t.Counts == nil {
		t.Counts = map[string]int{}
	}
	t.Counts[o.State()]++
	Entry(&t.Rows, func(r *Row) bool { return r.Scenario == o.Scenario && r.Backend == o.Backend }, Row{}).Add(o)
}

// Add adds the outcome of one more run of the scenario.
func (r *Row) Add(o Outcome) {
	o.Verdict = verdict.Verdict{} // its witness holds the whole history
	r.Scenario, r.Backend = o.Scenario, o.Backend
	r.Seconds += o.Seconds
	r.quote(o)
	if o.Skipped != "" {
		r.Skipped = o.Skipped
		r.whole(o.Code != ExitOK)
		return
	}
	if r.Counts == nil {
		r.Counts = map[string]int{}
	}
	r.Runs++
	r.Counts[o.State()]++
	if r.Runs == 1 || moreTelling(o, r.Shown) {
		r.Shown, r.Dir, r.Command = o, o.Dir, o.Command
	}
	if o.Error != "" && len(r.Errors) < MostQuoted {
		r.Errors = append(r.Errors, o.Error)
	}
	r.Retries += len(o.Retried)
	r.Retried = append(r.Retried, o.Retried[:min(len(o.Retried), MostQuoted-len(r.Retried))]...)
	for _, j := range o.Judgements {
		c := r.Cell(j.Property)
		if c == nil {
			r.Cells = append(r.Cells, Cell{Property: j.Property, rank: -1})
			c = &r.Cells[len(r.Cells)-1]
		}
		c.add(j, o)
		if j.Tells() {
			r.report(j.Property)
		}
	}
	if o.Unmet() != nil {
		r.whole(true)
	}
	if o.Unexplained() {
		r.whole(o.Code != ExitOK)
	} else if len(r.Reported) == 0 {
		r.whole(false)
	}
	r.addCauses(o)
}

func (r *Row) report(property string) {
	if !slices.Contains(r.Reported, property) {
		r.Reported = append(r.Reported, property)
	}
}

// whole reports a run as a whole.
func (r *Row) whole(failed bool) {
	r.report(wholeRun)
	if r.Whole++; failed {
		r.WholeFailed++
	}
}

// quote keeps a run if it is one of the first few for some reason.
func (r *Row) quote(o Outcome) {
	if r.quoted == nil {
		r.quoted = map[string]int{}
	}
	keep := false
	note := func(why string, most int) {
		if r.quoted[why] < most {
			r.quoted[why]++
			keep = true
		}
	}
	switch {
	case o.Code != ExitOK:
		note("not as expected", MostQuoted)
	case o.Violated():
		note("violated", 1)
	}
	if o.Code != ExitOK && o.Unexplained() {
		note("failed", MostQuoted)
	}
	if len(o.Retried) > 0 || o.Stopped != "" {
		note("tried again", MostRetries+1)
	}
	for _, j := range o.Judgements {
		switch {
		case !j.AsExpected && !j.Waits():
			note(string(j.Got)+" "+j.Property, MostQuoted)
		case j.harms():
			note(j.Property, 1)
		}
	}
	if keep {
		r.Quoted = append(r.Quoted, o)
	}
}

// NotFine are the first runs that were not as expected, at most MostQuoted, and skipped ones too that had to be run.
func (r *Row) NotFine(most int) []Outcome {
	all := slices.DeleteFunc(slices.Clone(r.Quoted), func(o Outcome) bool { return o.Code == ExitOK })
	return all[:min(len(all), most)]
}

// Cell returns what came of a property, or nil.
func (r *Row) Cell(property string) *Cell {
	if i := slices.IndexFunc(r.Cells, func(c Cell) bool { return c.Property == property }); i >= 0 {
		return &r.Cells[i]
	}
	return nil
}

// State is what became of a scenario: the worst state of its runs, "" if there are none.
func (r *Row) State() string {
	for _, s := range WorstFirst() {
		if r.Counts[s] > 0 {
			return s
		}
	}
	if r.Skipped != "" {
		return Skipped
	}
	return ""
}

// moreTelling reports whether a reader should see one outcome rather than another: what nobody expected
// first, then what violates a property, and among equals the smaller seed.
func moreTelling(a, b Outcome) bool {
	worst := func(o Outcome) int {
		rank := 2 * slices.Index(WorstFirst(), o.State())
		if !o.Violated() {
			rank++
		}
		return rank
	}
	return cmp.Or(cmp.Compare(worst(a), worst(b)), cmp.Compare(a.Seed, b.Seed)) < 0
}

func (c *Cell) add(j Judgement, o Outcome) {
	if c.Ways == nil {
		c.Ways = map[Way]int{}
	}
	c.Ways[Way{Judgement{Expected: j.Expected, Got: j.Got, AsExpected: j.AsExpected, Missed: j.Missed, Control: j.Control}, j.Waits()}]++
	switch j.Got {
	case verdict.Violated:
		c.Violated++
		c.Decided++
	case verdict.Holds:
		c.Decided++
	case verdict.NotExercised:
		c.Idle++
	}
	rank := 1
	switch {
	case j.Waits():
	case !j.AsExpected:
		c.Unexpected++
		rank = 4
		if j.Open() {
			rank = 3
		}
	case j.Got == verdict.Violated:
		rank = 2
	case j.Got == verdict.NotExercised:
		rank = 0
	}
	if rank > c.rank || rank == c.rank && o.Seed < c.Seed {
		c.rank, c.Shown, c.Seed, c.Command = rank, j, o.Seed, o.Command
		c.Expected, c.Got, c.Cause, c.Node, c.Because, c.Follows = j.Expected, j.Got, j.Cause, j.Node, j.Because, j.Follows
		if j.Number != nil {
			c.Number = j.String()
		}
	}
	if j.Tells() && (j.Waits() || j.Got == verdict.NotExercised && !j.Missed) {
		c.NoAnswer = j.Because
	}
}

// Count counts the runs that came out in some ways, of those that are worth a line of a report.
func (c *Cell) Count(is func(Way) bool) (n int) {
	for w, k := range c.Ways {
		if w.Tells() && is(w) {
			n += k
		}
	}
	return n
}

// Open reports whether what is shown is neither what was expected nor found to be otherwise.
func (c Cell) Open() bool {
	return c.Got == verdict.Undecided || c.Got == verdict.NotExercised && !strings.HasPrefix(c.Expected, string(verdict.Violated))
}

// leastRuns are the runs of which a rate says anything.
const leastRuns = 20

// Rated reports whether a share of the runs on a backend is a rate. That takes independent
// trials, which only the simulation has: on others a run that missed its violation is
// tried again.
func (c Cell) Rated(backend string) bool { return backend == "sim" && c.Decided >= leastRuns }

// addCauses adds what a run violated. The result does not depend on the order of the runs.
func (r *Row) addCauses(o Outcome) {
	for _, j := range o.Judgements {
		if !j.harms() {
			continue
		}
		this := Example{o.Seed, j.Length, o.Command}
		i := slices.IndexFunc(r.Causes, func(x Cause) bool { return x.Property == j.Property && x.Cause == j.Cause })
		if i < 0 {
			r.Causes = append(r.Causes, Cause{Property: j.Property, Cause: j.Cause, First: this, Shortest: this})
			i = len(r.Causes) - 1
		}
		x := &r.Causes[i]
		x.Runs++
		if this.Seed < x.First.Seed {
			x.First = this
		}
		if cmp.Or(cmp.Compare(this.Events, x.Shortest.Events), cmp.Compare(this.Seed, x.Shortest.Seed)) < 0 {
			x.Shortest = this
		}
	}
	slices.SortFunc(r.Causes, func(a, b Cause) int {
		at := func(x Cause) int { return slices.Index(checker.Properties(), x.Property) }
		return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Cause, b.Cause))
	})
}
