package outcome

import (
	"cmp"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/checker/verdict"
)

// Tally summarizes runs by scenario, property and cause. It keeps only the runs that a report may
// quote, so a million runs take no more memory than a few. The zero value is ready to use.
type Tally struct {
	Counts map[string]int // outcomes by state, including skipped runs
	Rows   []*Row         // in the order of their first runs
}

// Row summarizes a scenario's runs on a backend.
type Row struct {
	Scenario string `json:"-"`
	Backend  string `json:"-"`

	Skipped      string         `json:"skipped,omitempty"` // why it was not run
	Runs         int            `json:"runs"`              // excluding skipped runs
	Counts       map[string]int `json:"counts,omitempty"`  // runs by state
	RetryReasons []string       `json:"retried,omitempty"` // why attempts were discarded: the first few reasons
	Retries      int            `json:"retries,omitempty"` // number of discarded attempts
	Errors       []string       `json:"errors,omitempty"`  // the first few
	Cells        []Cell         `json:"properties,omitempty"`
	Dir          string         `json:"dir,omitempty"`     // directory of ShownRun, or ""
	Command      string         `json:"command,omitempty"` // repeats ShownRun
	Causes       []Cause        `json:"causes,omitempty"`  // violations by cause

	ShownRun   Outcome   `json:"-"` // the run that best represents the row
	QuotedRuns []Outcome `json:"-"` // the first few runs for each reason to quote a run
	Seconds    float64   `json:"-"`
	// ReportedProperties lists the properties that deserve a line in a report, in order of appearance. It
	// contains wholeRun if there is something to report about a run as a whole.
	ReportedProperties []string `json:"-"`
	// WholeRuns counts the reports about a run as a whole. WholeRunsFailed counts the failures
	// among them.
	WholeRuns, WholeRunsFailed int `json:"-"`

	quoteCounts map[string]int // number of quoted runs by reason
}

// wholeRun stands for a run as a whole in Row.ReportedProperties.
const wholeRun = "run"

// Cell summarizes a property or a bounded number over all runs of a scenario. Got, Cause, Node and
// Because are those of the run that Seed and Command identify.
type Cell struct {
	Property       string          `json:"property"`
	Expected       string          `json:"expected"` // as text; "" for no expectation
	Got            verdict.Outcome `json:"got"`
	Cause          string          `json:"cause,omitempty"`
	Node           string          `json:"node,omitempty"`
	Because        string          `json:"because"`
	Seed           uint64          `json:"seed"`
	Command        string          `json:"command,omitempty"`
	NumDecided     int             `json:"decided"`                // runs that decided whether the property holds
	NumViolated    int             `json:"violated"`               // runs with a violation
	NumUnexercised int             `json:"notExercised,omitempty"` // runs that did not exercise the property
	NumUnexpected  int             `json:"unexpected,omitempty"`   // runs with an unexpected result
	ImpliedBy      string          `json:"follows,omitempty"`      // the property that implies the expectation
	Number         string          `json:"number,omitempty"`       // the measured number, as text

	ShownJudgement  Judgement         `json:"-"` // the judgement of that run
	UndecidedReason string            `json:"-"` // from the last run that left the property undecided
	Results         map[ResultKey]int `json:"-"` // number of runs by result

	rank int
}

// ResultKey is a judgement without its texts, for counting equal results.
type ResultKey struct {
	Judgement
	Waiting bool // whether the judgement is pending
}

// Cause summarizes the runs that violated a property for the same cause. First has the smallest
// seed, and Shortest shows the violation after the fewest events.
type Cause struct {
	Property string  `json:"property"`
	Cause    string  `json:"cause"`
	Runs     int     `json:"runs"`
	First    Example `json:"first"`
	Shortest Example `json:"shortest"`
}

type Example struct {
	Seed    uint64 `json:"seed"`
	Events  int    `json:"events"` // how many it takes to prove the violation
	Command string `json:"command"`
}

// Limits on the runs in a row.
const (
	MaxQuoted  = 5  // quoted runs per reason
	MaxRetries = 20 // retried or stopped runs; one more is kept to show that there are more
)

func (t *Tally) Add(o Outcome) {
	if t.Counts == nil {
		t.Counts = map[string]int{}
	}
	t.Counts[o.State()]++
	GetOrAdd(&t.Rows, func(r *Row) bool { return r.Scenario == o.Scenario && r.Backend == o.Backend }, Row{}).Add(o)
}

func (r *Row) Add(o Outcome) {
	o.Verdict = verdict.Verdict{} // its witness references the whole history
	r.Scenario, r.Backend = o.Scenario, o.Backend
	r.Seconds += o.Seconds
	r.quote(o)
	if o.Skipped != "" {
		r.Skipped = o.Skipped
		r.reportWholeRun(o.Code != ExitOK)
		return
	}
	if r.Counts == nil {
		r.Counts = map[string]int{}
	}
	r.Runs++
	r.Counts[o.State()]++
	if r.Runs == 1 || moreRelevant(o, r.ShownRun) {
		r.ShownRun, r.Dir, r.Command = o, o.Dir, o.Command
	}
	if o.Error != "" && len(r.Errors) < MaxQuoted {
		r.Errors = append(r.Errors, o.Error)
	}
	r.Retries += len(o.RetryReasons)
	r.RetryReasons = append(r.RetryReasons, o.RetryReasons[:min(len(o.RetryReasons), MaxQuoted-len(r.RetryReasons))]...)
	for _, j := range o.Judgements {
		c := r.Cell(j.Property)
		if c == nil {
			r.Cells = append(r.Cells, Cell{Property: j.Property, rank: -1})
			c = &r.Cells[len(r.Cells)-1]
		}
		c.add(j, o)
		if j.Reportable() {
			r.addReported(j.Property)
		}
	}
	if o.Unexercised() != nil {
		r.reportWholeRun(true)
	}
	if o.Unexplained() {
		r.reportWholeRun(o.Code != ExitOK)
	} else if len(r.ReportedProperties) == 0 {
		r.reportWholeRun(false)
	}
	r.addCauses(o)
}

func (r *Row) addReported(property string) {
	if !slices.Contains(r.ReportedProperties, property) {
		r.ReportedProperties = append(r.ReportedProperties, property)
	}
}

// reportWholeRun notes that there is something to report about a run as a whole.
func (r *Row) reportWholeRun(failed bool) {
	r.addReported(wholeRun)
	if r.WholeRuns++; failed {
		r.WholeRunsFailed++
	}
}

// quote keeps a run if a report may quote it, unless it already has enough runs for the same reason.
func (r *Row) quote(o Outcome) {
	if r.quoteCounts == nil {
		r.quoteCounts = map[string]int{}
	}
	shouldQuote := false
	addReason := func(why string, limit int) {
		if r.quoteCounts[why] < limit {
			r.quoteCounts[why]++
			shouldQuote = true
		}
	}
	switch {
	case o.Code != ExitOK:
		addReason("not as expected", MaxQuoted)
	case o.Violated():
		addReason("violated", 1)
	}
	if o.Code != ExitOK && o.Unexplained() {
		addReason("failed", MaxQuoted)
	}
	if len(o.RetryReasons) > 0 || o.StopReason != "" {
		addReason("retried", MaxRetries+1)
	}
	for _, j := range o.Judgements {
		switch {
		case !j.AsExpected && !j.Pending():
			addReason(string(j.Got)+" "+j.Property, MaxQuoted)
		case j.isViolation():
			addReason(j.Property, 1)
		}
	}
	if shouldQuote {
		r.QuotedRuns = append(r.QuotedRuns, o)
	}
}

// FailedRuns returns up to limit quoted runs that were not as expected, including required runs
// that were skipped.
func (r *Row) FailedRuns(limit int) []Outcome {
	all := slices.DeleteFunc(slices.Clone(r.QuotedRuns), func(o Outcome) bool { return o.Code == ExitOK })
	return all[:min(len(all), limit)]
}

// Cell returns a property's cell, or nil.
func (r *Row) Cell(property string) *Cell {
	if i := slices.IndexFunc(r.Cells, func(c Cell) bool { return c.Property == property }); i >= 0 {
		return &r.Cells[i]
	}
	return nil
}

// State returns the worst state of the runs, or "" if there are none.
func (r *Row) State() string {
	for _, s := range StatesBySeverity() {
		if r.Counts[s] > 0 {
			return s
		}
	}
	if r.Skipped != "" {
		return StateSkipped
	}
	return ""
}

// moreRelevant reports whether to show outcome a rather than b: the one with the worse state, a
// violation, or the smaller seed.
func moreRelevant(a, b Outcome) bool {
	severity := func(o Outcome) int {
		rank := 2 * slices.Index(StatesBySeverity(), o.State())
		if !o.Violated() {
			rank++
		}
		return rank
	}
	return cmp.Or(cmp.Compare(severity(a), severity(b)), cmp.Compare(a.Seed, b.Seed)) < 0
}

func (c *Cell) add(j Judgement, o Outcome) {
	if c.Results == nil {
		c.Results = map[ResultKey]int{}
	}
	c.Results[ResultKey{Judgement{Expected: j.Expected, Got: j.Got, AsExpected: j.AsExpected, Missed: j.Missed, Comparison: j.Comparison}, j.Pending()}]++
	switch j.Got {
	case verdict.Violated:
		c.NumViolated++
		c.NumDecided++
	case verdict.Holds:
		c.NumDecided++
	case verdict.NotExercised:
		c.NumUnexercised++
	}
	rank := 1
	switch {
	case j.Pending():
	case !j.AsExpected:
		c.NumUnexpected++
		rank = 4
		if j.Unresolved() {
			rank = 3
		}
	case j.Got == verdict.Violated:
		rank = 2
	case j.Got == verdict.NotExercised:
		rank = 0
	}
	if rank > c.rank || rank == c.rank && o.Seed < c.Seed {
		c.rank, c.ShownJudgement, c.Seed, c.Command = rank, j, o.Seed, o.Command
		c.Expected, c.Got, c.Cause, c.Node, c.Because, c.ImpliedBy = j.Expected, j.Got, j.Cause, j.Node, j.Because, j.ImpliedBy
		if j.Number != nil {
			c.Number = j.String()
		}
	}
	if j.Reportable() && (j.Pending() || j.Got == verdict.NotExercised && !j.Missed) {
		c.UndecidedReason = j.Because
	}
}

// Count counts the reportable results that match.
func (c *Cell) Count(match func(ResultKey) bool) (n int) {
	for w, k := range c.Results {
		if w.Reportable() && match(w) {
			n += k
		}
	}
	return n
}

// Unresolved reports whether the shown result neither meets nor contradicts the expectation.
func (c Cell) Unresolved() bool {
	return c.Got == verdict.Undecided || c.Got == verdict.NotExercised && !strings.HasPrefix(c.Expected, string(verdict.Violated))
}

// minRuns is how many decided runs it takes for a meaningful rate.
const minRuns = 20

// HasRate reports whether the share of violations is meaningful as a rate. That requires
// independent trials, as in the simulation. Other backends retry runs without their expected
// violation.
func (c Cell) HasRate(backend string) bool { return backend == "sim" && c.NumDecided >= minRuns }

// addCauses adds a run's violations to Causes. The order of the runs does not matter.
func (r *Row) addCauses(o Outcome) {
	for _, j := range o.Judgements {
		if !j.isViolation() {
			continue
		}
		example := Example{o.Seed, j.Length, o.Command}
		i := slices.IndexFunc(r.Causes, func(x Cause) bool { return x.Property == j.Property && x.Cause == j.Cause })
		if i < 0 {
			r.Causes = append(r.Causes, Cause{Property: j.Property, Cause: j.Cause, First: example, Shortest: example})
			i = len(r.Causes) - 1
		}
		x := &r.Causes[i]
		x.Runs++
		if example.Seed < x.First.Seed {
			x.First = example
		}
		if cmp.Or(cmp.Compare(example.Events, x.Shortest.Events), cmp.Compare(example.Seed, x.Shortest.Seed)) < 0 {
			x.Shortest = example
		}
	}
	slices.SortFunc(r.Causes, func(a, b Cause) int {
		propertyIndex := func(x Cause) int { return slices.Index(checker.Properties(), x.Property) }
		return cmp.Or(cmp.Compare(propertyIndex(a), propertyIndex(b)), cmp.Compare(b.Runs, a.Runs), cmp.Compare(a.Cause, b.Cause))
	})
}
