package campaign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockpick/checker/verdict"
	"lockpick/harness/client"
	"lockpick/harness/scenario"
	"lockpick/internal/files"
	"lockpick/reports/display"
	"lockpick/reports/figures"
	"lockpick/reports/suites"
	"lockpick/scenarios/outcome"
)

// EnvelopeSetting describes the lock, its clients and the network.
type EnvelopeSetting struct {
	TTL   time.Duration `json:"ttl"`
	Nodes int           `json:"nodes"`
	Drift float64       `json:"drift"` // drift allowance as a share of the TTL; the lock adds 2 ms
	Fence bool          `json:"fence"` // the resource rejects a token lower than the highest it has seen
	// Retry is the wait between two attempts. Timeout limits a request to one node.
	Retry   client.Range  `json:"retry"`
	Timeout time.Duration `json:"timeout"`
	// OneWay is the message latency in one direction.
	OneWay client.Range `json:"oneWay"`
}

type unit string

const (
	seconds   unit = "s"
	rate      unit = "rate" // clock rate; 1 is correct
	nodeCount unit = "nodes"
)

// Dimension is a kind of fault whose magnitude can be varied.
type Dimension struct {
	Name        string
	Doc         string // completes "The lock tolerates …"
	Property    string // a checker property or availability
	Unit        unit
	LessIsWorse bool // lower values are worse, as for a node's downtime
	// Range returns the range of values to try and the search resolution.
	Range func(EnvelopeSetting) (low, high, step float64)
	// Edge predicts where the property breaks, or returns nil if it should never break.
	Edge func(EnvelopeSetting) *predictedEdge
	// base returns the scenario without faults, and plan returns the faults, both as text for a
	// scenario file.
	base func(EnvelopeSetting) string
	plan func(s EnvelopeSetting, value float64) string
}

// noFault returns the value that means no fault.
func (d Dimension) noFault() float64 {
	switch {
	case d.Unit == rate:
		return 1
	case d.LessIsWorse:
		return -1 // 0 is a fault: the node restarts at once
	}
	return 0
}

// availability means that some client acquires the lock. The checker does not judge it.
const availability = "availability"

// predictedEdge predicts where a property starts to break: it holds in every run up to SafeLimit
// and breaks in every run from FailureLimit on. If lower values are worse, FailureLimit is less than
// SafeLimit.
type predictedEdge struct {
	// Nominal is the edge if messages took no time and clients retried without waiting.
	Nominal      float64 `json:"sum"`
	SafeLimit    float64 `json:"safe"`
	FailureLimit float64 `json:"certain"`
	Formula      string  `json:"formula"` // formula for Nominal, as shown to people
}

// envelopePoint holds the results of the runs with one value.
type envelopePoint struct {
	Value       float64 `json:"value"`
	NumRuns     int     `json:"runs"`
	NumViolated int     `json:"broke"`
	// NumUnexercised counts the runs that gave the property no chance to break. NumFailed counts
	// the runs that could not be judged.
	NumUnexercised int `json:"idle,omitempty"`
	NumFailed      int `json:"failed,omitempty"`
	// Seed is the first seed that broke the property, or 0. Cause is the cause reported for it.
	Seed  uint64 `json:"seed,omitempty"`
	Cause string `json:"cause,omitempty"`
	Error string `json:"error,omitempty"`
}

// Envelope is the measured limit of a lock in one dimension.
type Envelope struct {
	Dimension   string          `json:"dimension"`
	Doc         string          `json:"doc"`
	Property    string          `json:"property"`
	Unit        unit            `json:"unit"`
	LessIsWorse bool            `json:"less,omitempty"`
	Setting     EnvelopeSetting `json:"setting"`
	Seeds       int             `json:"seeds"`
	// FirstUnsafe is the mildest value that broke the property with some seed. LastSafe is the value
	// before it, where the property held with all seeds. Either is nil if there is none.
	LastSafe     *float64        `json:"held"`
	FirstUnsafe  *float64        `json:"broke"`
	Edge         *predictedEdge  `json:"edge"` // nil if the property should never break
	AsPredicted  bool            `json:"agrees"`
	Points       []envelopePoint `json:"points"`          // sorted by value
	Minimized    *MinimizedRun   `json:"small,omitempty"` // counterexample for FirstUnsafe, or nil
	NotMinimized string          `json:"why,omitempty"`   // why Minimized is nil
}

// envelopeSearch finds the worst value at which a property still holds.
type envelopeSearch struct {
	Known scenario.KnownNames
	// Run runs a scenario. It must be safe for concurrent use.
	Run     func(ctx context.Context, s scenario.Scenario, seed uint64) outcome.Outcome
	Workers int
	Seed    uint64 // the first seed
	Seeds   int
	// Prepare adapts the scenario, for example to another lock. It may be nil.
	Prepare func(scenario.Scenario) (scenario.Scenario, error)
}

// gridSize is the number of evenly spaced values to try first. They reveal a property that breaks at
// one value but holds at a worse one, which bisection alone would miss.
const gridSize = 9

// find measures the edge in one dimension and reports each value it tries.
func (x envelopeSearch) find(ctx context.Context, d Dimension, s EnvelopeSetting, report func(envelopePoint)) (Envelope, error) {
	r := Envelope{Dimension: d.Name, Doc: d.Doc, Property: d.Property, Unit: d.Unit, LessIsWorse: d.LessIsWorse, Setting: s, Seeds: x.Seeds, Edge: d.Edge(s)}
	low, high, step := d.Range(s)
	snap := func(v float64) float64 { return math.Round(math.Round(v/step)*step*1e6) / 1e6 }
	measure := func(v float64) error {
		if slices.ContainsFunc(r.Points, func(p envelopePoint) bool { return math.Abs(p.Value-v) < step/2 }) {
			return nil
		}
		p, err := x.runAt(ctx, d, s, v)
		if err == nil {
			report(p)
			r.Points = append(r.Points, p)
			slices.SortFunc(r.Points, func(a, b envelopePoint) int { return d.compareSeverity(a.Value, b.Value) })
			r.locateEdge()
		}
		return err
	}
	intervals := min(gridSize-1, int(math.Round((high-low)/step)))
	for i := range intervals + 1 {
		if err := measure(snap(low + (high-low)*float64(i)/float64(intervals))); err != nil {
			return r, err
		}
	}
	// Stop when the middle value adds nothing, because no run exercised the property.
	for numPoints := 0; len(r.Points) > numPoints && r.LastSafe != nil && r.FirstUnsafe != nil && math.Abs(*r.FirstUnsafe-*r.LastSafe) > 1.5*step; {
		numPoints = len(r.Points)
		if err := measure(snap((*r.LastSafe + *r.FirstUnsafe) / 2)); err != nil {
			return r, err
		}
	}
	if r.FirstUnsafe != nil { // sample beyond the edge, where violations become certain
		for i := range 6 {
			v := snap(*r.FirstUnsafe + d.direction()*step*math.Pow(2, float64(i)))
			if v < low || v > high {
				break
			}
			if err := measure(v); err != nil {
				return r, err
			}
		}
	}
	r.AsPredicted = r.matchesPrediction(step)
	slices.SortFunc(r.Points, func(a, b envelopePoint) int { return int(math.Copysign(1, a.Value-b.Value)) })
	return r, nil
}

// direction returns 1 if higher values are worse, otherwise -1.
func (d Dimension) direction() float64 {
	if d.LessIsWorse {
		return -1
	}
	return 1
}

// compareSeverity orders values from mildest to worst.
func (d Dimension) compareSeverity(a, b float64) int {
	return int(math.Copysign(1, d.direction()*(a-b)))
}

// locateEdge sets LastSafe and FirstUnsafe. The points must be sorted by severity.
func (r *Envelope) locateEdge() {
	r.LastSafe, r.FirstUnsafe = nil, nil
	for _, p := range r.Points {
		switch {
		case p.NumViolated > 0:
			r.FirstUnsafe = &p.Value
			return
		case p.decided():
			r.LastSafe = &p.Value
		}
	}
}

// decided reports whether any run exercised the property and could be judged.
func (p envelopePoint) decided() bool { return p.NumRuns > p.NumUnexercised+p.NumFailed }

// matchesPrediction reports whether the measured edge is within a step of the predicted one.
func (r *Envelope) matchesPrediction(step float64) bool {
	d := Dimension{LessIsWorse: r.LessIsWorse}
	switch sign := d.direction(); {
	case r.Edge == nil:
		return r.FirstUnsafe == nil
	case r.FirstUnsafe == nil: // the predicted edge may be beyond the values tried
		return sign*(r.worstPoint().Value-r.Edge.FailureLimit) < step*1.5
	default: // including a property that holds at no value
		return sign*(*r.FirstUnsafe-r.Edge.SafeLimit) > -step/2 && (r.LastSafe == nil || sign*(*r.FirstUnsafe-r.Edge.FailureLimit) < step*1.5)
	}
}

func (r *Envelope) worstPoint() envelopePoint {
	return slices.MaxFunc(r.Points, func(a, b envelopePoint) int {
		return Dimension{LessIsWorse: r.LessIsWorse}.compareSeverity(a.Value, b.Value)
	})
}

// undecided reports whether no value broke the property and the worst value did not exercise it.
func (r *Envelope) undecided() bool {
	return r.FirstUnsafe == nil && !r.worstPoint().decided()
}

func (r *Envelope) pointAt(value float64) envelopePoint {
	return r.Points[slices.IndexFunc(r.Points, func(p envelopePoint) bool { return p.Value == value })]
}

// runAt runs the scenario for one value with all seeds.
func (x envelopeSearch) runAt(ctx context.Context, d Dimension, s EnvelopeSetting, value float64) (envelopePoint, error) {
	sc, err := d.Scenario(s, value, x.Known)
	if err == nil && x.Prepare != nil {
		sc, err = x.Prepare(sc)
	}
	p := envelopePoint{Value: value, NumRuns: x.Seeds}
	if err != nil {
		return p, err
	}
	outcomes := make([]outcome.Outcome, x.Seeds)
	Each(ctx, x.Workers, x.Seeds, func(i int) { outcomes[i] = x.Run(ctx, sc, x.Seed+uint64(i)) })
	if ctx.Err() != nil {
		return p, ctx.Err()
	}
	for i, o := range outcomes {
		p.add(d.Property, x.Seed+uint64(i), o)
	}
	return p, nil
}

// Predicted edges. All times count from the start of the holder's attempt. The holder may have to
// open a connection first, so a node applies its request after one to three one-way latencies, and
// the reply arrives after at most four. The lease ends at TTL - margin, where margin is
// drift·TTL + 2 ms. The key expires one TTL after the request was applied, by the node's clock and
// in whole milliseconds. The other client has the lock once it receives the reply to its first
// attempt after that.

// expiryTick is the precision of key expiry in Redis, in seconds.
const expiryTick = 0.001

func (s EnvelopeSetting) minOneWay() float64 { return s.OneWay.Min.Seconds() }
func (s EnvelopeSetting) maxOneWay() float64 { return s.OneWay.Max.Seconds() }

// retryGap is the longest time between two attempts of the other client: it learns that the first
// one failed, releases the nodes that voted for it, and waits.
func (s EnvelopeSetting) retryGap() float64 { return s.Retry.Max.Seconds() + 4*s.maxOneWay() }

func neverBreaks(EnvelopeSetting) *predictedEdge { return nil }

func exactEdge(n int, formula string) *predictedEdge {
	return &predictedEdge{Nominal: float64(n), SafeLimit: float64(n) - 0.5, FailureLimit: float64(n), Formula: formula}
}

// jumpEdge: the key expires at applied + TTL - v. Both clients hold the lock if the second receives
// its reply before the first one's lease ends: v > margin + applied + wait + reply.
func jumpEdge(s EnvelopeSetting) *predictedEdge {
	return &predictedEdge{Nominal: s.margin(), Formula: "drift·TTL + 2 ms",
		SafeLimit: s.margin() + 2*s.minOneWay() - expiryTick, FailureLimit: s.margin() + s.retryGap() + 4*s.maxOneWay() + expiryTick}
}

// driftEdge: the key expires at applied + TTL/v. Both clients hold the lock if the second receives
// its reply before the first one's lease ends.
func driftEdge(s EnvelopeSetting) *predictedEdge {
	return &predictedEdge{Nominal: s.ttl() / s.lease(), Formula: "TTL ÷ (TTL − drift·TTL − 2 ms)",
		SafeLimit: s.ttl() / (s.lease() - 2*s.minOneWay() + expiryTick), FailureLimit: s.ttl() / (s.lease() - s.retryGap() - 4*s.maxOneWay() - expiryTick)}
}

// returnEdge: the node is back, without data, at granted + v + delay. Its first answers come late,
// because clients must reconnect. The specification requires a node to stay down for a TTL, but the
// rest of the lease is enough.
func returnEdge(delay time.Duration, subtrahend string) func(EnvelopeSetting) *predictedEdge {
	return func(s EnvelopeSetting) *predictedEdge {
		remaining := s.lease() - delay.Seconds()
		return &predictedEdge{Nominal: remaining, Formula: "TTL − drift·TTL − 2 ms − " + subtrahend,
			SafeLimit: remaining - 3*s.minOneWay(), FailureLimit: remaining - s.retryGap() - s.Timeout.Seconds() - 7*s.maxOneWay()}
	}
}

// lateWriteEdge: the holder checks its lease at most 8 one-way latencies after its start, pauses,
// and writes as soon as it resumes. The write does damage if the next holder has already read the
// resource. That holder acquires the lock after the key expires, and may need a new connection to
// read.
func lateWriteEdge(s EnvelopeSetting) *predictedEdge {
	if s.Fence {
		return nil
	}
	return &predictedEdge{Nominal: s.ttl(), Formula: "TTL", SafeLimit: s.ttl() - 9*s.maxOneWay() - expiryTick, FailureLimit: s.ttl() + s.retryGap() + 8*s.maxOneWay() + expiryTick}
}

// delayedWriteEdge is like lateWriteEdge, but the holder is running when its lease ends, so it
// releases the lock then.
func delayedWriteEdge(s EnvelopeSetting) *predictedEdge {
	if s.Fence {
		return nil
	}
	return &predictedEdge{Nominal: s.lease(), Formula: "TTL − drift·TTL − 2 ms", SafeLimit: s.lease() - 9*s.maxOneWay(), FailureLimit: s.lease() + s.retryGap() + 8*s.maxOneWay()}
}

// unsyncedEdge: with fsync everysec, Redis checks ten times per second whether the last sync was at
// least a second ago, and then syncs, which takes the disk some more time (Redis documentation,
// "Redis persistence": you may lose one second of data).
func unsyncedEdge(s EnvelopeSetting) *predictedEdge {
	return &predictedEdge{Nominal: 1, Formula: "1 s", SafeLimit: 1.11, FailureLimit: 1 - faultDelay.Seconds() - 8*s.maxOneWay()}
}

func (p *envelopePoint) add(property string, seed uint64, o outcome.Outcome) {
	got, cause := propertyOutcome(property, o)
	switch got {
	case verdict.Violated:
		p.NumViolated++
		if p.NumViolated == 1 {
			p.Seed, p.Cause = seed, cause
		}
	case verdict.NotExercised:
		p.NumUnexercised++
	case verdict.Holds:
	default:
		p.NumFailed++
		if p.Error == "" {
			p.Error = o.Error
		}
	}
}

// propertyOutcome returns a property's outcome in a run and the cause of its violation.
func propertyOutcome(property string, o outcome.Outcome) (got verdict.Outcome, cause string) {
	if property == availability {
		grants, measured := o.Numbers["grants"]
		switch {
		case !measured:
			return verdict.Undecided, ""
		case grants == 0:
			return verdict.Violated, ""
		}
		return verdict.Holds, ""
	}
	for _, j := range o.Judgements {
		if j.Property == property && j.Number == nil {
			return j.Got, j.Cause
		}
	}
	return verdict.Undecided, ""
}

func (u unit) format(v float64) string {
	switch u {
	case seconds:
		return time.Duration(v*1e9 + 0.5).Round(100 * time.Microsecond).String()
	case rate:
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func (s EnvelopeSetting) String() string {
	fence := "no fence"
	if s.Fence {
		fence = "fencing tokens"
	}
	return fmt.Sprintf("TTL %v, drift %g %% + 2 ms, %d nodes, %s; retries after %v to %v, messages take %v to %v",
		s.TTL, 100*s.Drift, s.Nodes, fence, s.Retry.Min, s.Retry.Max, s.OneWay.Min, s.OneWay.Max)
}

func (r Envelope) String() string {
	suffix := " at TTL " + r.Setting.TTL.String()
	if r.Unit == nodeCount {
		suffix = fmt.Sprintf(" of %d", r.Setting.Nodes)
	}
	if r.undecided() {
		return fmt.Sprintf("%s: inconclusive for the largest %s", r.Property, strings.TrimSuffix(r.Doc, ","))
	}
	if r.FirstUnsafe == nil {
		return fmt.Sprintf("%s holds for %s at all values tried: %s to %s%s", r.Property, strings.TrimSuffix(r.Doc, ","), r.Unit.format(r.Points[0].Value), r.Unit.format(r.Points[len(r.Points)-1].Value), suffix)
	}
	holds, firstUnsafe := "holds for no "+r.Doc, r.pointAt(*r.FirstUnsafe)
	if r.LastSafe != nil {
		holds = fmt.Sprintf("holds for %s up to %s%s", r.Doc, r.Unit.format(*r.LastSafe), suffix)
		if r.LessIsWorse {
			holds = fmt.Sprintf("holds for %s from %s on%s", r.Doc, r.Unit.format(*r.LastSafe), suffix)
		}
	}
	cause := ""
	if firstUnsafe.Cause != "" {
		cause = " (" + firstUnsafe.Cause + ")"
	}
	return fmt.Sprintf("%s %s; breaks at %s%s, with %d of %d seeds", r.Property, holds, r.Unit.format(firstUnsafe.Value), cause, firstUnsafe.NumViolated, firstUnsafe.NumRuns)
}

// describePrediction describes the predicted edge and says whether the measurement agrees with it.
func (r Envelope) describePrediction() string {
	prediction := "it never breaks"
	if e := r.Edge; e != nil {
		low, high := e.SafeLimit, e.FailureLimit
		if r.LessIsWorse {
			low, high = high, low
		}
		prediction = fmt.Sprintf("it breaks at %s (%s)", r.Unit.format(e.Nominal), e.Formula)
		if r.Unit != nodeCount {
			prediction += fmt.Sprintf(", with messages and retries between %s and %s", r.Unit.format(low), r.Unit.format(high))
		}
	}
	if r.AsPredicted {
		return "theory agrees: " + prediction
	}
	return "THEORY DISAGREES: " + prediction
}

// fileName returns the name of the result's files, without extension.
func (r Envelope) fileName() string { return r.Dimension + "-" + r.Property }

// EnvelopeFinder measures how much of each fault a lock tolerates.
type EnvelopeFinder struct {
	Simulator
	Store   string // folder for the results
	Lock    string // the lock, as the user named it
	Setting EnvelopeSetting
	Seed    uint64 // the first seed
	Seeds   int
	Prepare func(scenario.Scenario) (scenario.Scenario, error) // see envelopeSearch.Prepare
	Log     io.Writer                                          // receives progress messages

	mu           sync.Mutex // protects the fields below
	liveProgress *display.Progress
	status       string
	runs         int
}

// EnvelopeResult is stored as envelope.json.
type EnvelopeResult struct {
	Code    int             `json:"code"` // exit code of the search
	Lock    string          `json:"lock"`
	Results []*Envelope     `json:"results"`
	Schema  int             `json:"schema"`
	Seed    uint64          `json:"seed"` // the first seed
	Seeds   int             `json:"seeds"`
	Setting EnvelopeSetting `json:"setting"`
	Version string          `json:"version"` // of lockpick

	folder string
}

// Run measures an envelope in each dimension and calls found with each. It writes the results to a
// new folder in the store.
func (x *EnvelopeFinder) Run(ctx context.Context, dimensions []Dimension, found func(*Envelope)) (*EnvelopeResult, error) {
	result := &EnvelopeResult{Lock: x.Lock, Schema: 1, Seed: x.Seed, Seeds: x.Seeds, Setting: x.Setting, Version: x.Version,
		folder: filepath.Join(x.Store, envelopesFolder, suites.Stamp(time.Now()))}
	if err := os.MkdirAll(result.folder, 0o755); err != nil {
		return nil, withKind(storeFailed, err)
	}
	x.liveProgress = &display.Progress{W: x.Log, Mu: &x.mu, StartTime: time.Now(), Text: func(elapsed time.Duration) string {
		return fmt.Sprintf("%s, %s, %.0f s", x.status, display.Plural(x.runs, "run"), elapsed.Seconds())
	}}
	defer x.liveProgress.Start()()
	search := envelopeSearch{Known: x.Known, Run: x.Simulator.Run, Workers: cap(x.Idle), Seed: x.Seed, Seeds: x.Seeds, Prepare: x.Prepare}
	for _, d := range dimensions {
		r, err := search.find(ctx, d, x.Setting, func(p envelopePoint) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.runs += p.NumRuns
			x.status = fmt.Sprintf("%s: %s", d.Name, d.Unit.format(p.Value))
		})
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return nil, withKind(NotMeasurable, fmt.Errorf("%s: %w", d.Name, err))
		}
		x.mu.Lock()
		x.status = d.Name + ": minimizing the counterexample"
		x.mu.Unlock()
		x.minimize(ctx, &r, d, result.folder)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := r.writeFigure(result.folder); err != nil {
			return nil, withKind(storeFailed, err)
		}
		x.mu.Lock()
		x.liveProgress.Erase()
		found(&r)
		x.mu.Unlock()
		result.Results, result.Code = append(result.Results, &r), outcome.WorseCode(result.Code, r.Code())
	}
	return result, withKind(storeFailed, writeJSON(result.folder, "envelope.json", result))
}

// Print prints the settings, the number of edges that match theory, and the folder of the results.
func (r *EnvelopeResult) Print(w io.Writer) {
	matching := slices.DeleteFunc(slices.Clone(r.Results), func(e *Envelope) bool { return e.Code() != outcome.ExitOK })
	fmt.Fprintf(w, "%s; %s for each value\n%d of %d match theory: %s\n", r.Setting, display.Plural(r.Seeds, "seed"), len(matching), len(r.Results), r.folder)
}

// minimize minimizes the scenario for the mildest value that broke the property. It skips
// availability, which the checker does not judge.
func (x *EnvelopeFinder) minimize(ctx context.Context, r *Envelope, d Dimension, folder string) {
	if r.FirstUnsafe == nil || r.Property == availability {
		return
	}
	p := r.pointAt(*r.FirstUnsafe)
	s, err := d.Scenario(r.Setting, p.Value, x.Known)
	if err == nil {
		s, err = x.Prepare(s)
	}
	if err == nil {
		var m Minimized
		if m, err = x.Minimizer(0).Minimize(ctx, s, p.Seed, Bug{Property: r.Property, Cause: p.Cause}); err == nil {
			r.Minimized, err = x.SaveMinimized(ctx, m, r.fileName(), filepath.Join(folder, r.fileName()+".yaml"), x.Store)
		}
	}
	if err != nil {
		r.NotMinimized = display.FirstLine(err.Error())
	}
}

// writeFigure writes the figure as SVG and PNG.
func (r *Envelope) writeFigure(folder string) error {
	var values []float64
	var rates []figures.Rate
	for _, p := range r.Points {
		values, rates = append(values, p.Value), append(rates, figures.Rate{K: p.NumViolated, N: p.NumRuns})
	}
	var limits *figures.Limits
	if e := r.Edge; e != nil {
		limits = &figures.Limits{Nominal: e.Nominal, AlwaysSafe: e.SafeLimit, AlwaysBreaks: e.FailureLimit}
	}
	fig := figures.ThresholdFigure(r.fileName(), fmt.Sprintf("%s: %s", r.Property, strings.TrimSuffix(r.Doc, ",")), fmt.Sprintf("%s (%s)", r.Dimension, r.Unit), r.Unit == nodeCount, values, rates, limits)
	if fig == nil {
		return nil
	}
	image, err := fig.PNG()
	if err != nil {
		return err
	}
	return errors.Join(files.WriteIn(folder, fig.Name+".svg", fig.SVG()), files.WriteIn(folder, fig.Name+".png", image))
}

// firstFailure returns the first point with a failed run, or nil.
func (r *Envelope) firstFailure() *envelopePoint {
	if i := slices.IndexFunc(r.Points, func(p envelopePoint) bool { return p.Error != "" }); i >= 0 {
		return &r.Points[i]
	}
	return nil
}

// Code returns the exit code for this dimension.
func (r *Envelope) Code() int {
	switch {
	case r.firstFailure() != nil:
		return outcome.ExitBackend
	case r.undecided():
		return outcome.ExitUndecided
	case !r.AsPredicted:
		return outcome.ExitUnexpected
	}
	return outcome.ExitOK
}

// Print prints the measured and the predicted edge, and how to reproduce the violation.
func (r *Envelope) Print(w io.Writer) {
	style := display.GoodText
	if r.Code() != outcome.ExitOK {
		style = display.BadText
	}
	fmt.Fprintln(w, display.Wrap(display.Width(w), 0, 2, r.String()))
	fmt.Fprintln(w, "  "+display.Paint(w, style, display.Wrap(display.Width(w), 2, 4, r.describePrediction())))
	if p := r.firstFailure(); p != nil {
		fmt.Fprintf(w, "  a run failed at %s: %s\n", r.Unit.format(p.Value), display.FirstLine(p.Error))
	}
	switch {
	case r.Minimized != nil:
		fmt.Fprintf(w, "  shown by: %s\n", r.Minimized.Command)
	case r.NotMinimized != "":
		fmt.Fprintf(w, "  not minimized: %s\n", r.NotMinimized)
	}
	fmt.Fprintln(w)
}
