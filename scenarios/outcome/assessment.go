package outcome

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockpick/checker/verdict"
)

// Deployment holds the settings of a lock and its servers that an assessment tests.
type Deployment struct {
	Lock         string        `json:"lock"` // KIND or KIND:OPTION=VALUE,…
	TTL          time.Duration `json:"ttl"`
	Nodes        int           `json:"nodes"`
	Persistence  string        `json:"persistence"`  // as in topology.persistence
	Drift        float64       `json:"drift"`        // the lock's allowance for clock drift, as a share of the TTL
	Fence        bool          `json:"fence"`        // the resource rejects a fencing token lower than the highest it has seen
	RestartDelay time.Duration `json:"restartDelay"` // how long a node stays down after a crash or a power loss
}

// FormatPercent formats a percentage with at most four decimal places.
func FormatPercent(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64) + "%"
}

// Assessment answers whether a lock is safe with given settings if given hazards occur.
type Assessment struct {
	Schema       int             `json:"schema"`
	Headline     string          `json:"headline"`
	Code         int             `json:"code"` // exit code
	Deployment   Deployment      `json:"deployment"`
	Topology     string          `json:"topology"` // as text
	Server       string          `json:"server"`   // software on the nodes, as text
	Backend      string          `json:"backend"`
	Scale        float64         `json:"scale,omitempty"` // factor for all durations on a real backend
	Named        bool            `json:"named"`           // the user named the hazards
	Hazards      []*HazardRow    `json:"hazards"`
	Alternatives []string        `json:"alternatives,omitempty"` // settings of the additional columns, as in ttl=30s
	Catalog      *CatalogSummary `json:"catalog,omitempty"`      // nil if the catalog was not run
	RandomPlans  []RandomRuns    `json:"randomPlans,omitempty"`
	Combined     *Combination    `json:"combined,omitempty"`      // nil if nothing needs to change, or if it was not tested
	Disagreement []string        `json:"disagreements,omitempty"` // bounds that contradict the prediction
	Notes        []string        `json:"notes,omitempty"`         // what was left out, and why
	FirstSeed    uint64          `json:"seed"`
	Seeds        int             `json:"seeds"` // seeds per value
	Runs         int             `json:"runs"`
	Seconds      float64         `json:"seconds"`
	Command      string          `json:"command"`
	Version      string          `json:"version"`
}

// AssessmentSchema is the version of the JSON format.
const AssessmentSchema = 1

// Verdicts on a hazard.
const (
	HazardSafe         = "safe"
	HazardAtRisk       = "at risk"
	HazardInconclusive = "inconclusive"
	HazardNotTested    = "not tested"
	HazardNotAssumed   = "not assumed"
)

// HazardRow is what an assessment says about one hazard.
type HazardRow struct {
	Name    string  `json:"name"`
	Title   string  `json:"title"`
	Assumed string  `json:"assumed,omitempty"` // the size that the user expects, as text
	Limit   float64 `json:"limit"`             // the same as a number
	Verdict string  `json:"verdict"`
	Reason  string  `json:"reason,omitempty"` // why it was not tested, or is inconclusive
	Bound   *Bound  `json:"bound,omitempty"`  // nil if not measured
	// Fenced is the bound of the same settings with fencing tokens. If it is nil, NotFenced says why.
	Fenced    *Bound `json:"fenced,omitempty"`
	NotFenced string `json:"notFenced,omitempty"`
	// Changes lists changes that make the hazard harmless. If there is none, Advice says what would.
	Changes      []Change `json:"changes,omitempty"`
	NumTried     int      `json:"tried,omitempty"` // kinds of changes that were tried
	Advice       string   `json:"advice,omitempty"`
	Alternatives []*Bound `json:"alternatives,omitempty"` // in the order of Assessment.Alternatives; nil if not tested
	// CatalogViolations lists scenarios of the catalog in which this lock fails although the
	// scenario's own lock does not.
	CatalogViolations []CatalogViolation `json:"catalogViolations,omitempty"`
}

// Change is a change of the settings, verified by the same runs.
type Change struct {
	Text  string `json:"text"`
	Flags string `json:"flags"` // flags to change or add
	Runs  int    `json:"runs"`  // runs that verified it
	// Deployment is the deployment with the change.
	Deployment Deployment `json:"deployment"`
	// Insufficient is the value halfway between the present and the suggested one, with which the
	// hazard still broke the lock. It is "" for a change that has no half.
	Insufficient string `json:"insufficient,omitempty"`
}

// Combination is what all changes together achieve.
type Combination struct {
	Flags     string   `json:"flags"`               // flags to change or add
	Remaining []string `json:"remaining,omitempty"` // hazards that still break the lock, by title
	Violated  int      `json:"violated,omitempty"`  // random combinations of hazards that still do
	Runs      int      `json:"runs"`
}

// CatalogSummary counts the runs of the catalog with the settings under test.
type CatalogSummary struct {
	Runs         int                `json:"runs"`
	Skipped      int                `json:"skipped"`
	Inconclusive int                `json:"inconclusive"`
	Violations   []CatalogViolation `json:"violations"` // violations of safety under faults that the user expects
	Outside      []CatalogViolation `json:"outside"`    // the others
}

// CatalogViolation is a violation of safety in a run of the catalog.
type CatalogViolation struct {
	Text string `json:"text"`
	Dir  string `json:"dir,omitempty"` // run directory, relative to the assessment's
}

// RandomRuns counts runs with random plans that combine several hazards.
type RandomRuns struct {
	Inside    bool   `json:"inside"` // all faults stay within what the user expects
	Runs      int    `json:"runs"`
	Violated  int    `json:"violated"`
	Undecided int    `json:"undecided,omitempty"`
	Reason    string `json:"reason,omitempty"`  // why the first of these was undecided
	Cause     string `json:"cause,omitempty"`   // of the first violation
	Command   string `json:"command,omitempty"` // repeats it
	Dir       string `json:"dir,omitempty"`     // its run directory, relative to the assessment's
}

// BoundUnit is the unit of a hazard's size.
type BoundUnit string

// Units of bounds.
const (
	UnitSeconds BoundUnit = "s"
	UnitPercent BoundUnit = "%"
	UnitNodes   BoundUnit = "nodes"
)

// Format formats a value with its unit.
func (u BoundUnit) Format(v float64) string {
	switch u {
	case UnitSeconds:
		return time.Duration(v*1e9 + 0.5).Round(100 * time.Microsecond).String()
	case UnitPercent:
		return FormatPercent(v)
	}
	if v == 1 {
		return "1 node"
	}
	return strconv.FormatFloat(v, 'f', -1, 64) + " nodes"
}

// PredictedEdge predicts where a property starts to break: it holds in every run up to SafeLimit
// and breaks in every run from FailureLimit on. If lower values are worse, FailureLimit is less than
// SafeLimit.
type PredictedEdge struct {
	// Nominal is the edge if messages took no time and clients retried without waiting.
	Nominal      float64 `json:"nominal"`
	SafeLimit    float64 `json:"safe"`
	FailureLimit float64 `json:"certain"`
	Formula      string  `json:"formula"` // formula for Nominal, as shown to people
}

// BoundPoint holds the results of the runs with one value.
type BoundPoint struct {
	Value       float64 `json:"value"`
	NumRuns     int     `json:"runs"`
	NumViolated int     `json:"violated"`
	// NumUnexercised counts the runs that gave the property no chance to break. NumFailed counts
	// the runs that could not be judged.
	NumUnexercised int `json:"notExercised,omitempty"`
	NumFailed      int `json:"failed,omitempty"`
	// Seed is the first seed that broke the property. Cause and Dir belong to its run.
	Seed  uint64 `json:"seed,omitempty"`
	Cause string `json:"cause,omitempty"`
	Dir   string `json:"dir,omitempty"`
	Error string `json:"error,omitempty"`
}

// Decided reports whether any run exercised the property and could be judged.
func (p BoundPoint) Decided() bool { return p.NumRuns > p.NumUnexercised+p.NumFailed }

// Bound is the measured limit of a lock for one hazard.
type Bound struct {
	Subject     string       `json:"subject"` // such as "clock jumps"
	Noun        string       `json:"noun"`    // what the value measures, such as "size of the jump"
	Property    string       `json:"property"`
	Unit        BoundUnit    `json:"unit"`
	LessIsWorse bool         `json:"lessIsWorse,omitempty"`
	Limit       float64      `json:"limit"`  // the worst value that the user expects
	Points      []BoundPoint `json:"points"` // sorted by severity, mildest first
	// FirstUnsafe is the mildest value that broke the property with some seed. LastSafe is the value
	// before it, where the property held with all seeds. Either is nil if there is none.
	LastSafe    *float64       `json:"lastSafe"`
	FirstUnsafe *float64       `json:"firstUnsafe"`
	Coarse      bool           `json:"coarse,omitempty"`    // only a few values were tried
	Predicted   bool           `json:"predicted,omitempty"` // Redlock's arithmetic applies
	Edge        *PredictedEdge `json:"edge,omitempty"`      // nil: nothing is predicted, or that it never breaks
	Agrees      bool           `json:"agrees,omitempty"`    // the measurement agrees with the prediction
	File        string         `json:"file,omitempty"`      // counterexample: scenario file, relative to the assessment
	Dir         string         `json:"dir,omitempty"`       // and its run directory
	Command     string         `json:"command,omitempty"`   // repeats it
}

// Direction returns 1 if higher values are worse, otherwise -1.
func (b *Bound) Direction() float64 {
	if b.LessIsWorse {
		return -1
	}
	return 1
}

// Add adds a point and updates LastSafe and FirstUnsafe.
func (b *Bound) Add(p BoundPoint) {
	b.Points = append(b.Points, p)
	slices.SortFunc(b.Points, func(x, y BoundPoint) int { return int(math.Copysign(1, b.Direction()*(x.Value-y.Value))) })
	b.LastSafe, b.FirstUnsafe = nil, nil
	for _, p := range b.Points {
		switch {
		case p.NumViolated > 0:
			b.FirstUnsafe = &p.Value
			return
		case p.Decided():
			b.LastSafe = &p.Value
		}
	}
}

// At returns the point for a value, or nil if it was not tried.
func (b *Bound) At(value float64) *BoundPoint {
	if i := slices.IndexFunc(b.Points, func(p BoundPoint) bool { return p.Value == value }); i >= 0 {
		return &b.Points[i]
	}
	return nil
}

// Runs counts the runs of all points.
func (b *Bound) Runs() (n int) {
	for _, p := range b.Points {
		n += p.NumRuns
	}
	return n
}

// Verdict says whether the lock is safe up to the limit that the user expects.
func (b *Bound) Verdict() string {
	atLimit := b.At(b.Limit)
	switch {
	case b.FirstUnsafe != nil && b.Direction()*(*b.FirstUnsafe-b.Limit) <= 0:
		return HazardAtRisk
	case atLimit == nil:
		return HazardNotTested
	case !atLimit.Decided() || atLimit.NumFailed > 0:
		return HazardInconclusive
	}
	return HazardSafe
}

// Failure returns the first error of a run at the limit, or "".
func (b *Bound) Failure() string {
	if p := b.At(b.Limit); p != nil {
		return p.Error
	}
	return ""
}

// MatchesPrediction reports whether the measured edge is within a step of the predicted one.
func (b *Bound) MatchesPrediction(step float64) bool {
	switch sign := b.Direction(); {
	case b.Edge == nil:
		return b.FirstUnsafe == nil
	case b.FirstUnsafe == nil: // the predicted edge may be beyond the values tried
		return len(b.Points) == 0 || sign*(b.Points[len(b.Points)-1].Value-b.Edge.FailureLimit) < step*1.5
	default: // including a property that holds at no value
		return sign*(*b.FirstUnsafe-b.Edge.SafeLimit) > -step/2 && (b.LastSafe == nil || sign*(*b.FirstUnsafe-b.Edge.FailureLimit) < step*1.5)
	}
}

// SafeText says up to which value the lock is safe.
func (b *Bound) SafeText() string {
	switch {
	case b.LastSafe == nil && b.FirstUnsafe == nil:
		return "?"
	case b.LastSafe == nil:
		return "not found"
	case b.FirstUnsafe == nil && b.LessIsWorse:
		return "any"
	case b.FirstUnsafe == nil:
		return "≥ " + b.Unit.Format(*b.LastSafe)
	case b.LessIsWorse:
		return "from " + b.Unit.Format(*b.LastSafe)
	}
	return b.Unit.Format(*b.LastSafe)
}

// BreakText says from which value on the lock breaks, with the number of runs that show it out of
// those with that value, or the number of all runs if none does.
func (b *Bound) BreakText() string {
	if b.FirstUnsafe == nil {
		return fmt.Sprintf("not found (%d)", b.Runs())
	}
	p, sign := b.At(*b.FirstUnsafe), ""
	if b.LessIsWorse {
		sign = "up to "
	}
	return fmt.Sprintf("%s%s (%d of %d)", sign, b.Unit.Format(p.Value), p.NumViolated, p.NumRuns)
}

// PredictionText returns the predicted edge, or "" if there is no prediction.
func (b *Bound) PredictionText() string {
	switch {
	case !b.Predicted:
		return ""
	case b.Edge == nil:
		return "never"
	case b.LessIsWorse:
		return "up to " + b.Unit.Format(b.Edge.Nominal)
	}
	return b.Unit.Format(b.Edge.Nominal)
}

// PredictionRange formats the range of the predicted edge. It returns "" if the edge is exact or if
// there is none.
func (b *Bound) PredictionRange() string {
	if b.Edge == nil || b.Unit == UnitNodes {
		return ""
	}
	low, high := b.Edge.SafeLimit, b.Edge.FailureLimit
	return b.Unit.Format(min(low, high)) + " to " + b.Unit.Format(max(low, high))
}

// propertyNames contains the properties as they begin a sentence.
var propertyNames = map[string]string{verdict.MutualExclusion: "Mutual exclusion", verdict.ResourceSafety: "The data"}

// Answer says in a sentence, without a period, what the lock tolerates.
func (b *Bound) Answer() string {
	what := propertyNames[b.Property]
	switch {
	case b.FirstUnsafe == nil && b.LastSafe == nil:
		return what + ": no conclusive run"
	case b.FirstUnsafe == nil && b.LessIsWorse:
		return fmt.Sprintf("%s survives %s at every %s tested, from %s", what, b.Subject, b.Noun, b.Unit.Format(b.Points[len(b.Points)-1].Value))
	case b.FirstUnsafe == nil:
		return fmt.Sprintf("%s survives %s of up to at least %s", what, b.Subject, b.Unit.Format(*b.LastSafe))
	case b.LastSafe == nil:
		return fmt.Sprintf("%s survives no %s", what, b.Subject)
	case b.LessIsWorse:
		return fmt.Sprintf("%s survives %s from a %s of %s on", what, b.Subject, b.Noun, b.Unit.Format(*b.LastSafe))
	case b.Unit == UnitNodes && *b.LastSafe == 0:
		return fmt.Sprintf("%s does not survive %s of %s", what, b.Subject, b.Unit.Format(*b.FirstUnsafe))
	}
	return fmt.Sprintf("%s survives %s of up to %s", what, b.Subject, b.Unit.Format(*b.LastSafe))
}

// Disagrees describes how the measurement contradicts the prediction, or returns "".
func (b *Bound) Disagrees() string {
	if !b.Predicted || b.Agrees || b.LastSafe == nil && b.FirstUnsafe == nil {
		return ""
	}
	prediction := "it should never break"
	if b.Edge != nil {
		prediction = fmt.Sprintf("it should break at %s (%s)", b.Unit.Format(b.Edge.Nominal), b.Edge.Formula)
		if between := b.PredictionRange(); between != "" {
			prediction += ", or with messages and retries between " + strings.ReplaceAll(between, " to ", " and ")
		}
	}
	return fmt.Sprintf("%s; by Redlock's arithmetic %s", b.Answer(), prediction)
}

// Row returns the row of a hazard by name, or nil.
func (a *Assessment) Row(name string) *HazardRow {
	if i := slices.IndexFunc(a.Hazards, func(r *HazardRow) bool { return r.Name == name }); i >= 0 {
		return a.Hazards[i]
	}
	return nil
}

// NeedsChange reports whether anything that can happen breaks the lock: a hazard, several at once, or a
// scenario of the catalog without any hazard.
func (a *Assessment) NeedsChange() bool {
	return slices.ContainsFunc(a.Hazards, func(r *HazardRow) bool { return r.Verdict == HazardAtRisk }) || a.combinationsBreak() || a.breaksWithoutHazard()
}

// breaksWithoutHazard reports whether a scenario of the catalog broke the lock within the environment.
// It matters only if no hazard is blamed for it.
func (a *Assessment) breaksWithoutHazard() bool {
	return a.Catalog != nil && len(a.Catalog.Violations) > 0
}

// combinationsBreak reports whether random combinations of the assumed hazards break the lock.
func (a *Assessment) combinationsBreak() bool {
	return slices.ContainsFunc(a.RandomPlans, func(p RandomRuns) bool { return p.Inside && p.Violated > 0 })
}

// Conclude sets Headline and Code from the results.
func (a *Assessment) Conclude() {
	count := map[string]int{}
	for _, r := range a.Hazards {
		count[r.Verdict]++
	}
	assumed := len(a.Hazards) - count[HazardNotAssumed]
	open := count[HazardInconclusive] + count[HazardNotTested]
	what := fmt.Sprintf("the %d hazards you said can happen", assumed)
	switch {
	case !a.Named:
		what = fmt.Sprintf("%d hazards", assumed)
	case assumed == 1:
		what = "the one hazard you said can happen"
	}
	switch {
	case count[HazardAtRisk] > 0 && assumed == 1:
		a.Code, a.Headline = ExitUnexpected, "With these settings your data is at risk from "+what+"."
	case count[HazardAtRisk] > 0:
		a.Code, a.Headline = ExitUnexpected, fmt.Sprintf("With these settings your data is at risk from %d of %s.", count[HazardAtRisk], what)
	case a.combinationsBreak():
		a.Code, a.Headline = ExitUnexpected, fmt.Sprintf("With these settings no single one of %s puts your data at risk, but several at once do.", what)
	case a.breaksWithoutHazard():
		a.Code, a.Headline = ExitUnexpected, "With these settings your data is at risk even without a hazard: see the violations in the catalog."
	case open > 0:
		a.Code, a.Headline = ExitUndecided, fmt.Sprintf("No violation found, but %d of %s could not be decided.", open, what)
		if assumed == 1 {
			a.Headline = "No violation found, but " + what + " could not be decided."
		}
		return
	default:
		a.Code, a.Headline = ExitOK, fmt.Sprintf("With these settings none of %s put your data at risk in %d runs.", what, a.Runs)
		if assumed == 1 {
			a.Headline = fmt.Sprintf("With these settings %s did not put your data at risk in %d runs.", what, a.Runs)
		}
		return
	}
	if open > 0 {
		a.Headline = strings.TrimSuffix(a.Headline, ".") + fmt.Sprintf("; %d could not be decided.", open)
	}
}
