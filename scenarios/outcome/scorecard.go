package outcome

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// CardSchema is the version of the JSON format.
const CardSchema = 1

// Card is a lock's scorecard.
type Card struct {
	Lock              string              `json:"lock"` // KIND or KIND:OPTION=VALUE,…
	Doc               string              `json:"doc,omitempty"`
	Backend           string              `json:"backend"`
	SecondBackend     string              `json:"beside,omitempty"`   // a second backend with columns of its own, or ""
	Settings          []string            `json:"settings"`           // overrides, as in lock.ttl=5s; without any, the catalog's settings
	Scale             float64             `json:"scale,omitempty"`    // factor for durations on real backends, or 0 for the default
	Topology          string              `json:"topology,omitempty"` // such as "5 nodes"
	Servers           []string            `json:"servers,omitempty"`  // what the nodes ran, such as "simulated Redis 7.0"
	Seed              uint64              `json:"seed"`
	RetryBackend      string              `json:"triedOn,omitempty"`    // where violations were retried, or ""
	Runs              int                 `json:"runs"`                 // runs of the catalog on Backend
	SecondBackendRuns int                 `json:"runsBeside,omitempty"` // runs of the catalog on SecondBackend
	Columns           []string            `json:"columns"`              // kinds of failure on each backend, see ColumnOn
	Rows              []CardRow           `json:"rows"`
	Measurements      []*Measurement      `json:"measured"`
	RandomPlans       *RandomPlans        `json:"dice,omitempty"` // nil if there were none
	Findings          []CardFinding       `json:"findings"`       // violations of required properties first
	Undecided         []undecidedProperty `json:"open,omitempty"` // required properties that runs left undecided
	Skipped           []*cardSkip         `json:"skipped,omitempty"`
	Errors            []string            `json:"errors,omitempty"`

	kind        lock.Kind
	topologies  map[string]int // number of runs on Backend with each topology
	cases       []*cardCase
	skipReasons map[string]string // why scenarios were skipped, by column
}

// CardRow holds the results for one property.
type CardRow struct {
	Property string `json:"property"`
	// Claim is what the lock's documentation promises about the property, or "".
	Claim string     `json:"claim,omitempty"`
	Cells []CardCell `json:"cells"` // one for each column
}

// CardCell counts the results for a property under one kind of failure.
type CardCell struct {
	Mark                  Mark   `json:"mark"`
	NumHolds              int    `json:"kept,omitempty"`        // runs where it was required and held
	NumFailed             int    `json:"failed,omitempty"`      // runs where it was required but violated
	NumUnconfirmed        int    `json:"unconfirmed,omitempty"` // failed runs whose violation was not confirmed on real servers
	NumComparisonHolds    int    `json:"alone,omitempty"`       // runs where it was violated without being required, unlike in the comparison run
	NumComparisonViolated int    `json:"alike,omitempty"`       // runs where it was violated without being required, as by any lock of its kind
	NumHoldsUnrequired    int    `json:"free,omitempty"`        // runs where it held without being required
	NumUndecided          int    `json:"open,omitempty"`        // runs where it was required but undecided or not exercised
	Why                   string `json:"why,omitempty"`         // why it was not tested
}

// Measurement compares the numbers for the lock under test with those for the scenarios' own locks,
// under one kind of failure.
type Measurement struct {
	Column     string      `json:"column"`
	Lock       CardNumbers `json:"lock"`
	Comparison CardNumbers `json:"own"`
}

// CardNumbers holds numbers measured in one or several runs. For several runs, MaxUnavailable is the
// maximum and the other fields are sums.
type CardNumbers struct {
	Grants         float64 `json:"grants"`
	MaxUnavailable float64 `json:"longest"` // longest time without a grant while a client tried, in seconds
	OrphanKeys     float64 `json:"orphans"` // keys left on nodes
}

func cardNumbers(numbers map[string]float64) CardNumbers {
	return CardNumbers{numbers[verdict.Grants], numbers[verdict.UnavailableMax], numbers[verdict.OrphanKeys]}
}

func (n *CardNumbers) add(o CardNumbers) {
	n.Grants, n.OrphanKeys, n.MaxUnavailable = n.Grants+o.Grants, n.OrphanKeys+o.OrphanKeys, max(n.MaxUnavailable, o.MaxUnavailable)
}

// undecidedProperty is a required property that a run did not decide.
type undecidedProperty struct {
	Scenario string `json:"scenario"`
	Property string `json:"property"`
	Column   string `json:"column"`
	Because  string `json:"because"`
}

// cardSkip lists the scenarios that were skipped for the same reason.
type cardSkip struct {
	Why       string   `json:"why"`
	Scenarios []string `json:"scenarios"`
}

// Columns other than kinds of failure.
const (
	NoFailure    = "none"
	otherKind    = "other"   // a fault of no particular kind
	SeveralKinds = "several" // more than one kind
	randomPlan   = "random"  // for findings from random plans
)

// CardColumn returns a scenario's kind of failure, or another column if it does not have exactly
// one.
func CardColumn(s scenario.Scenario) string {
	switch models := s.FaultModels(); {
	case len(models) > 1:
		return SeveralKinds
	case len(models) == 1:
		return models[0]
	case len(s.Plan) > 0 || s.Random != nil:
		return otherKind
	}
	return NoFailure
}

// ColumnOn returns the column for a kind of failure on a backend.
func (c *Card) ColumnOn(kind, backend string) string {
	if backend == c.Backend {
		return kind
	}
	return kind + onSeparator + backend
}

const onSeparator = " on "

// SplitColumn returns a column's kind of failure, and whether the column is for the second backend.
func SplitColumn(column string) (kind string, second bool) {
	kind, _, second = strings.Cut(column, onSeparator)
	return kind, second
}

// NewCard returns an empty card. claims holds the promises in the lock's documentation, by property.
func NewCard(name string, kind lock.Kind, claims map[string]string, backend string, seed uint64) *Card {
	c := &Card{Lock: name, Doc: kind.Doc, Backend: backend, Seed: seed, kind: kind, topologies: map[string]int{}, skipReasons: map[string]string{}, Settings: []string{}, Findings: []CardFinding{}}
	for _, p := range checker.Properties() {
		c.Rows = append(c.Rows, CardRow{Property: p, Claim: claims[p]})
	}
	return c
}

// CardEntry is a run to add to a card.
type CardEntry struct {
	Scenario scenario.Scenario
	Outcome  Outcome
	FaultSet *FaultSet // faults of the random plan, or nil for the scenario's own plan
	// RunID identifies the run to the caller.
	RunID int
}

// Add adds a run of a scenario in the catalog.
func (c *Card) Add(e CardEntry) {
	o := e.Outcome
	column := c.ColumnOn(CardColumn(e.Scenario), o.Backend)
	if o.Backend == c.Backend {
		c.Runs++
		c.topologies[topologyText(e.Scenario.Topology)]++
	} else {
		c.SecondBackendRuns++
	}
	if o.Error != "" {
		first, _, _ := strings.Cut(o.Error, "\n")
		c.Errors = append(c.Errors, o.Scenario+": "+first)
	}
	c.addServer(o.Backend, o.Server)
	c.ensureColumn(column)
	m := GetOrAdd(&c.Measurements, func(m *Measurement) bool { return m.Column == column }, Measurement{Column: column})
	m.Lock.add(cardNumbers(o.Numbers))
	if o.Comparison != nil {
		m.Comparison.add(cardNumbers(o.Comparison.Numbers))
	} else {
		m.Comparison.add(cardNumbers(o.Numbers)) // the scenario's own lock is under test
	}
	for _, j := range o.Judgements {
		if j.Number == nil {
			c.judge(column, j, e)
		}
	}
}

// topologyText describes a scenario's nodes.
func topologyText(t scenario.Topology) string {
	text := fmt.Sprintf("%d nodes", t.Nodes)
	switch {
	case t.Server != "":
		text = fmt.Sprintf("a cluster of %d %s servers", t.Nodes, t.Server)
	case t.Nodes == 1:
		text = "one node"
	}
	switch {
	case t.Replicas > 0 && t.Nodes == 1:
		text += " with a replica"
	case t.Replicas > 0:
		text += " with a replica each"
	}
	if t.DownAfter > 0 {
		text += " and sentinels"
	}
	return text
}

// describeTopology describes the topology of most runs, followed by those of the others.
func (c *Card) describeTopology() string {
	all := slices.SortedFunc(maps.Keys(c.topologies), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.topologies[b], c.topologies[a]), cmp.Compare(a, b))
	})
	if len(all) == 0 {
		return ""
	}
	var others []string
	for _, t := range all[1:] {
		others = append(others, fmt.Sprintf("%s (%d)", t, c.topologies[t]))
	}
	if len(others) == 0 {
		return all[0]
	}
	return all[0] + "; in some scenarios " + strings.Join(others, ", ")
}

// simulatedServer is the server whose behavior simulated nodes have.
const simulatedServer = "simulated Redis 7.0"

// DescribeServer says what the nodes of a run ran, or returns "" if the backend did not report it.
func DescribeServer(backend, server string) string {
	switch {
	case backend == "sim":
		return simulatedServer
	case server == "":
		return ""
	}
	return server + " on " + backend
}

func (c *Card) addServer(backend, server string) {
	if server = DescribeServer(backend, server); server != "" && !slices.Contains(c.Servers, server) {
		c.Servers = append(c.Servers, server)
	}
}

// Mark shows a cell's state in one symbol. Cards made by earlier versions contain other marks, but
// the same counts.
type Mark string

// Marks, most serious first.
const (
	MarkViolated           Mark = "✗"
	MarkComparisonViolated Mark = "○"
	MarkHolds              Mark = "✓"
	MarkNotTested          Mark = "–"
)

func (c *Card) row(property string) *CardRow {
	i := slices.IndexFunc(c.Rows, func(r CardRow) bool { return r.Property == property })
	return &c.Rows[i]
}

// ensureColumn returns a column's index. It inserts the column in order if the card lacks it.
func (c *Card) ensureColumn(name string) int {
	if i := slices.Index(c.Columns, name); i >= 0 {
		return i
	}
	rank := func(column string) int { return slices.Index([]string{NoFailure, "", otherKind, SeveralKinds}, column) }
	i, _ := slices.BinarySearchFunc(c.Columns, name, func(a, b string) int {
		order := func(s string) int {
			s, _ = SplitColumn(s)
			if r := rank(s); r >= 0 {
				return r
			}
			return 1 // kinds of failure, in alphabetical order
		}
		return cmp.Or(cmp.Compare(order(a), order(b)), cmp.Compare(a, b))
	})
	c.Columns = slices.Insert(c.Columns, i, name)
	for r := range c.Rows {
		c.Rows[r].Cells = slices.Insert(c.Rows[r].Cells, i, CardCell{})
	}
	return i
}

// cardCase groups the runs that violated a property for the same cause under the same kind of
// failure, shortest run first.
type cardCase struct {
	Property, Column, Cause string
	Required                bool // whether the property was required
	Runs                    []ShownRun
	reproduction            *Reproduction
}

// ShownRun is a run that shows a violation.
type ShownRun struct {
	CardEntry
	Judgement Judgement
}

func isRequired(j Judgement) bool { return j.Expected == string(verdict.Holds) }

// unsupportedReason explains why a property can't be required of the lock, or returns "".
func (c *Card) unsupportedReason(property string) string {
	switch {
	case property == verdict.BoundedHold && !c.kind.Can.Limit:
		return "the lock does not limit its extensions"
	case property == verdict.FencingOrder && !c.kind.Can.Fence:
		return "the lock does not issue fencing tokens"
	}
	return ""
}

// judge adds a judgement to its property's cell.
func (c *Card) judge(column string, j Judgement, e CardEntry) {
	if c.unsupportedReason(j.Property) != "" {
		return
	}
	x := &c.row(j.Property).Cells[c.ensureColumn(column)]
	required := isRequired(j)
	switch {
	case j.Got == verdict.Violated && required:
		x.NumFailed++
		c.addViolation(column, j, e, true)
	case j.ComparisonDiffers():
		x.NumComparisonHolds++
		c.addViolation(column, j, e, false)
	case j.Got == verdict.Violated:
		x.NumComparisonViolated++
	case j.Got == verdict.Holds && required:
		x.NumHolds++
	case j.Got == verdict.Holds:
		x.NumHoldsUnrequired++
	case required && (j.Got == verdict.Undecided || !j.AsExpected):
		x.NumUndecided++
		c.Undecided = append(c.Undecided, undecidedProperty{e.Outcome.Scenario, j.Property, column, j.Because})
	}
}

// addViolation adds a run to the case of its violation.
func (c *Card) addViolation(column string, j Judgement, e CardEntry, required bool) {
	x := GetOrAdd(&c.cases, func(x *cardCase) bool {
		return x.Property == j.Property && x.Column == column && x.Cause == j.Cause && x.Required == required
	}, cardCase{Property: j.Property, Column: column, Cause: j.Cause, Required: required})
	x.Runs = append(x.Runs, ShownRun{e, j})
	slices.SortStableFunc(x.Runs, func(a, b ShownRun) int {
		return cmp.Or(cmp.Compare(a.Judgement.Length, b.Judgement.Length), cmp.Compare(a.Outcome.Seed, b.Outcome.Seed))
	})
}

// Skip records that a scenario was not run on a backend. Unless the scenario is about a broken
// lock, its column's cells show the reason.
func (c *Card) Skip(s scenario.Scenario, backend, why string) {
	x := GetOrAdd(&c.Skipped, func(x *cardSkip) bool { return x.Why == why }, cardSkip{Why: why})
	if !slices.Contains(x.Scenarios, s.ID()) {
		x.Scenarios = append(x.Scenarios, s.ID())
	}
	if s.Lock.Mistake == "" {
		column := c.ColumnOn(CardColumn(s), backend)
		c.ensureColumn(column)
		if c.skipReasons[column] == "" {
			c.skipReasons[column] = why
		}
	}
}

func (c *Card) setMarks() {
	ran := map[string]bool{}
	for _, m := range c.Measurements {
		ran[m.Column] = true
	}
	for i := range c.Rows {
		for k := range c.Rows[i].Cells {
			x := &c.Rows[i].Cells[k]
			x.Mark, x.Why = x.State(), ""
			if x.Mark != MarkNotTested {
				continue
			}
			if x.Why = c.unsupportedReason(c.Rows[i].Property); x.Why == "" && !ran[c.Columns[k]] {
				x.Why = c.skipReasons[c.Columns[k]]
			}
			x.Why = x.Untested()
		}
	}
}

// State returns the mark for the most serious of the cell's results. It depends on the counts alone.
func (x CardCell) State() Mark {
	switch {
	case x.NumFailed+x.NumComparisonHolds > 0:
		return MarkViolated
	case x.NumComparisonViolated > 0:
		return MarkComparisonViolated
	case x.NumHolds > 0:
		return MarkHolds
	}
	return MarkNotTested
}

// Count returns how many runs had the result that the cell's mark shows, and how many runs decided
// whether the property holds.
func (x CardCell) Count() (count, decided int) {
	violated := x.NumFailed + x.NumComparisonHolds
	decided = violated + x.NumComparisonViolated + x.NumHolds + x.NumHoldsUnrequired
	switch x.State() {
	case MarkViolated:
		return violated, decided
	case MarkComparisonViolated:
		return x.NumComparisonViolated, decided
	case MarkHolds:
		return x.NumHolds, decided
	}
	return 0, decided
}

// Notes on violations.
const (
	NoteUnconfirmed = "not confirmed" // on real servers, in any run
	NoteNotRequired = "not required"
)

// Note qualifies a violation, or is "".
func (x CardCell) Note() string {
	switch {
	case x.NumUnconfirmed > 0 && x.NumUnconfirmed == x.NumFailed:
		return NoteUnconfirmed
	case x.NumFailed == 0 && x.NumComparisonHolds > 0:
		return NoteNotRequired
	}
	return ""
}

// Untested says why a property was not tested.
func (x CardCell) Untested() string {
	switch {
	case x.Why != "":
		return x.Why
	case x.NumUndecided > 0:
		return "inconclusive"
	case x.NumHoldsUnrequired > 0:
		return "held, but not required"
	}
	return "not exercised"
}

// MinSeeds is the least number of random plans per fault set that says something about the rate of
// violations: if none of 20 runs violates a property, the rate is at most 16%, with 95% confidence.
const MinSeeds = 20

// RandomPlans holds the results of random plans with different sets of faults: all, each kind of
// failure alone, and all kinds but one.
type RandomPlans struct {
	Scenario  string           `json:"scenario"`
	Seeds     int              `json:"seeds"` // per fault set
	FaultSets []FaultSet       `json:"draws"`
	Rows      []RandomPlansRow `json:"rows"`
}

// FaultSet is a set of faults that random plans may use.
type FaultSet struct {
	Kind   string   `json:"sort,omitempty"`  // kind of failure, or "" for all kinds
	Only   bool     `json:"alone,omitempty"` // whether the set is that kind rather than all others
	Faults []string `json:"faults"`          // names of nemesis.Choices
}

// RandomPlansRow holds the results for one property.
type RandomPlansRow struct {
	Property string  `json:"property"`
	Required bool    `json:"held"`   // whether the property was required
	Shares   []Share `json:"shares"` // one per fault set
}

// Share counts the runs that violated a property. Low and High are the 95% confidence bounds of
// the rate.
type Share struct {
	Runs               int     `json:"runs"` // runs that decided whether the property holds
	Violated           int     `json:"violated"`
	NotExercised       int     `json:"notExercised,omitempty"`
	ComparisonViolated int     `json:"own"` // comparison runs that violated the property
	Low                float64 `json:"low"`
	High               float64 `json:"high"`
}

// FaultSets returns the fault sets for a scenario's random plans: all faults, each kind of failure
// alone, and all kinds but one.
func FaultSets(s scenario.Scenario) []FaultSet {
	names := func(include func(kind string) bool) (out []string) {
		for _, c := range s.Random.Choices() {
			if include(failureKind(c)) {
				out = append(out, c.Name)
			}
		}
		return out
	}
	sets := []FaultSet{{Faults: names(func(string) bool { return true })}}
	var kinds []string
	for _, c := range s.Random.Choices() {
		if kind := failureKind(c); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		sets = append(sets,
			FaultSet{kind, true, names(func(w string) bool { return w == kind })},
			FaultSet{kind, false, names(func(w string) bool { return w != kind })})
	}
	return slices.DeleteFunc(sets, func(d FaultSet) bool { return len(d.Faults) == 0 })
}

func failureKind(c nemesis.Choice) string {
	if c.Kind.Model == "" {
		return otherKind
	}
	return c.Kind.Model
}

// AddRandom adds a run of a random plan with one of the fault sets.
func (c *Card) AddRandom(e CardEntry, seeds int, sets []FaultSet) {
	if c.RandomPlans == nil {
		c.RandomPlans = &RandomPlans{Scenario: e.Outcome.Scenario, Seeds: seeds, FaultSets: sets}
	}
	d := c.RandomPlans
	setIndex := slices.IndexFunc(d.FaultSets, func(x FaultSet) bool { return x.Kind == e.FaultSet.Kind && x.Only == e.FaultSet.Only })
	c.addServer(e.Outcome.Backend, e.Outcome.Server)
	if e.Outcome.Error != "" {
		c.Errors = append(c.Errors, e.Outcome.Command+": "+e.Outcome.Error)
	}
	for _, j := range e.Outcome.Judgements {
		if j.Number != nil || c.unsupportedReason(j.Property) != "" {
			continue
		}
		i := slices.IndexFunc(d.Rows, func(r RandomPlansRow) bool { return r.Property == j.Property })
		if i < 0 {
			i = len(d.Rows)
			d.Rows = append(d.Rows, RandomPlansRow{Property: j.Property, Shares: make([]Share, len(d.FaultSets))})
		}
		d.Rows[i].Required = d.Rows[i].Required || isRequired(j)
		d.Rows[i].Shares[setIndex].add(j)
		if j.Got == verdict.Violated && isRequired(j) {
			c.addViolation(randomPlan, j, e, true)
		}
	}
}

func (s *Share) add(j Judgement) {
	switch j.Got {
	case verdict.Violated:
		s.Violated++
		s.Runs++
	case verdict.Holds:
		s.Runs++
	default:
		s.NotExercised++
	}
	if j.Comparison == verdict.Violated {
		s.ComparisonViolated++
	}
	s.Low, s.High = Wilson(s.Violated, s.Runs)
}

// Causes returns the kinds of failure that cause violations of a property. A kind is sufficient if
// it caused violations alone. It is necessary if violations are significantly rarer without it: the
// confidence intervals with and without it do not overlap.
func (d *RandomPlans) Causes(property string) (sufficient, necessary []string) {
	i := slices.IndexFunc(d.Rows, func(r RandomPlansRow) bool { return r.Property == property })
	if i < 0 {
		return nil, nil
	}
	all := d.Rows[i].Shares[0]
	for k, s := range d.Rows[i].Shares {
		switch w := d.FaultSets[k]; {
		case w.Only && s.Violated > 0:
			sufficient = append(sufficient, w.Kind)
		case w.Kind != "" && !w.Only && s.High < all.Low:
			necessary = append(necessary, w.Kind)
		}
	}
	return sufficient, necessary
}

// CardFinding is a run that shows one or more violations. For the first one, no shorter run shows the
// same property, kind of failure and cause.
type CardFinding struct {
	Scenario   string      `json:"scenario"`
	Claim      string      `json:"claim"` // the scenario's claim
	Column     string      `json:"column"`
	Backend    string      `json:"backend"`
	Seed       uint64      `json:"seed"`
	FaultSet   *FaultSet   `json:"draw,omitempty"`
	Command    string      `json:"command"`
	Events     int         `json:"events"` // how many it takes to prove the first violation
	Violations []Violation `json:"harms"`
	// Required means that at least one of the violated properties was required.
	Required      bool               `json:"held"`
	Numbers       CardNumbers        `json:"numbers"`
	Comparison    *ComparisonNumbers `json:"control,omitempty"`   // nil if the scenario's own lock was under test
	Run           string             `json:"run,omitempty"`       // the run's directory relative to the card, or "" if repeating the run gave a different result
	ConfirmingRun string             `json:"elsewhere,omitempty"` // directory of the run that confirmed it on the other backend
	RunID         int                `json:"-"`                   // see CardEntry
}

// ComparisonNumbers holds the comparison run's numbers.
type ComparisonNumbers struct {
	Lock    string      `json:"lock"`
	Error   string      `json:"error,omitempty"`
	Numbers CardNumbers `json:"numbers"`
}

// Violation is a violated property.
type Violation struct {
	Property     string          `json:"property"`
	Cause        string          `json:"cause"`
	Because      string          `json:"because"`
	Required     bool            `json:"held"`              // whether the property was required
	Comparison   verdict.Outcome `json:"control,omitempty"` // the outcome in the comparison run
	Also         []string        `json:"also,omitempty"`    // other scenarios that show the same violation
	Reproduction *Reproduction   `json:"try,omitempty"`     // nil if not retried
}

// Reproduction is the result of retrying a violation on another backend.
type Reproduction struct {
	Backend string            `json:"backend"`
	State   ReproductionState `json:"state"`
	Runs    int               `json:"runs,omitempty"` // number of runs
	Why     string            `json:"why,omitempty"`  // why it can't be run or was not confirmed
	Cause   string            `json:"cause,omitempty"`
	Command string            `json:"command,omitempty"`
	Server  string            `json:"server,omitempty"` // what the nodes ran, if the backend reports it
	// RunID identifies the run that showed the violation to the caller.
	RunID int `json:"-"`
}

type ReproductionState string

// States of a Reproduction.
const (
	ReproductionConfirmed    ReproductionState = "confirmed"
	ReproductionNotConfirmed ReproductionState = "not confirmed"
	ReproductionImpossible   ReproductionState = "can't be run there"
)

// Finalize computes the marks and findings after all runs were added.
func (c *Card) Finalize() {
	slices.SortStableFunc(c.cases, func(a, b *cardCase) int {
		propertyIndex := func(x *cardCase) int { return slices.Index(checker.Properties(), x.Property) }
		columnIndex := func(x *cardCase) int { // random plans last
			if x.Column == randomPlan {
				return len(c.Columns)
			}
			return slices.Index(c.Columns, x.Column)
		}
		requiredFirst := func(x *cardCase) int {
			if x.Required {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(requiredFirst(a), requiredFirst(b)), cmp.Compare(columnIndex(a), columnIndex(b)),
			cmp.Compare(propertyIndex(a), propertyIndex(b)), cmp.Compare(a.Cause, b.Cause))
	})
	c.Findings = []CardFinding{}
	for i := range c.Rows {
		for k := range c.Rows[i].Cells {
			c.Rows[i].Cells[k].NumUnconfirmed = 0
		}
	}
	finding := func(s ShownRun) int {
		return slices.IndexFunc(c.Findings, func(f CardFinding) bool { return f.RunID == s.RunID })
	}
	for _, x := range c.cases {
		if k := slices.IndexFunc(x.Runs, func(s ShownRun) bool { return finding(s) >= 0 }); k > 0 && x.reproduction == nil { // one run may show several violations
			shown := x.Runs[k]
			x.Runs = slices.Insert(slices.Delete(x.Runs, k, k+1), 0, shown)
		}
		first := x.Runs[0]
		i := finding(first)
		if i < 0 {
			i = len(c.Findings)
			c.Findings = append(c.Findings, newCardFinding(x.Column, first))
		}
		f := &c.Findings[i]
		f.Required = f.Required || x.Required
		h := Violation{Property: x.Property, Cause: first.Judgement.Cause, Because: first.Judgement.Because, Required: x.Required, Comparison: first.Judgement.Comparison, Reproduction: x.reproduction}
		for _, s := range x.Runs[1:] {
			if x.Column != randomPlan && !slices.Contains(h.Also, s.Outcome.Scenario) {
				h.Also = append(h.Also, s.Outcome.Scenario)
			}
		}
		f.Violations = append(f.Violations, h)
		if x.Required && x.reproduction != nil && x.reproduction.State != ReproductionConfirmed && x.Column != randomPlan {
			c.row(x.Property).Cells[c.ensureColumn(x.Column)].NumUnconfirmed += len(x.Runs)
		}
	}
	c.Topology = c.describeTopology()
	c.setMarks()
}

func newCardFinding(column string, s ShownRun) CardFinding {
	o := s.Outcome
	f := CardFinding{Scenario: o.Scenario, Claim: s.Scenario.Claim, Column: column, Backend: o.Backend, Seed: o.Seed, FaultSet: s.FaultSet, Command: o.Command,
		Events: s.Judgement.Length, Numbers: cardNumbers(o.Numbers), RunID: s.RunID}
	if comparison := o.Comparison; comparison != nil {
		f.Comparison = &ComparisonNumbers{Lock: comparison.Lock, Error: comparison.Error, Numbers: cardNumbers(comparison.Numbers)}
	}
	return f
}

// Confirmed reports whether a required property was violated, and the violation was confirmed on
// the other backend or not retried there.
func (f CardFinding) Confirmed() bool {
	return slices.ContainsFunc(f.Violations, func(h Violation) bool {
		return h.Required && (h.Reproduction == nil || h.Reproduction.State == ReproductionConfirmed)
	})
}

// maxReproduced limits how many runs of a case are retried on the other backend. If the shortest
// one does not show the violation there, another may.
const maxReproduced = 3

// Reproduce retries the violations of required properties on another backend, shortest runs first.
// A confirmed run becomes the one that is shown. Violations on the second backend are not retried.
func (c *Card) Reproduce(reproduce func(ShownRun) Reproduction) {
	for _, x := range c.cases {
		if _, second := SplitColumn(x.Column); !x.Required || second {
			continue
		}
		runs := 0
		for i, s := range x.Runs[:min(len(x.Runs), maxReproduced)] {
			t := reproduce(s)
			runs += t.Runs
			c.addServer(t.Backend, t.Server)
			if x.reproduction == nil || t.State == ReproductionConfirmed || x.reproduction.State == ReproductionImpossible {
				x.reproduction = &t
			}
			if t.State == ReproductionConfirmed {
				x.Runs[0], x.Runs[i] = x.Runs[i], x.Runs[0]
				break
			}
		}
		x.reproduction.Runs = runs
	}
	c.Finalize()
}

func (c *Card) Code() int {
	code := ExitOK
	if len(c.Undecided) > 0 {
		code = ExitUndecided
	}
	if len(c.Errors) > 0 {
		code = WorseCode(code, ExitBackend)
	}
	for _, f := range c.Findings {
		switch {
		case !f.Required:
		case f.Confirmed():
			code = WorseCode(code, ExitUnexpected)
		default:
			code = WorseCode(code, ExitUndecided)
		}
	}
	return code
}
