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
	Drift float64       `json:"drift"` // share of the TTL allowed for clock drift, in addition to 2 ms
	Fence bool          `json:"fence"` // the resource rejects tokens lower than the highest one it has seen
	// Retry is the time between two attempts. Timeout is the time limit for a request to one node.
	Retry   client.Range  `json:"retry"`
	Timeout time.Duration `json:"timeout"`
	// OneWay is the one-way latency of a message.
	OneWay client.Range `json:"oneWay"`
}

// unit is the unit of a dimension's values.
type unit string

const (
	seconds   unit = "s"
	rate      unit = "rate" // of a clock, where 1 is right
	nodeCount unit = "nodes"
)

// Dimension is a kind of fault with a variable magnitude.
type Dimension struct {
	Name        string
	Doc         string // describes the value, as in "… up to X"
	Property    string // a property of the checker, or availability
	Unit        unit
	LessIsWorse bool // lower values are worse, as for the time a node stays away
	// Span returns the range of values to try, and the resolution of the search.
	Span func(EnvelopeSetting) (low, high, step float64)
	// Edge returns the value at which the property should break in theory, or nil if it should
	// never break.
	Edge func(EnvelopeSetting) *predictedEdge
	// base returns the scenario without its faults, and plan returns its plan, both in the format
	// of a scenario file.
	base func(EnvelopeSetting) string
	plan func(s EnvelopeSetting, value float64) string
}

// noFault returns the value that stands for no fault at all.
func (d Dimension) noFault() float64 {
	switch {
	case d.Unit == rate:
		return 1
	case d.LessIsWorse:
		return -1 // 0 is a node that returns at once, which is a fault
	}
	return 0
}

// availability means that some client acquires the lock. The checker has no such property.
const availability = "availability"

// predictedEdge is the range of values in which a property should start to break in theory. The
// property should hold in every run up to Safe, and break in every run from AlwaysBreaks on. If
// lower values are worse, AlwaysBreaks is less than Safe.
type predictedEdge struct {
	// Nominal is the edge with zero message latency and no waiting between attempts.
	Nominal      float64 `json:"sum"`
	Safe         float64 `json:"safe"`
	AlwaysBreaks float64 `json:"certain"`
	Formula      string  `json:"formula"` // formula of Nominal, for people
}

// envelopePoint is the result for one value.
type envelopePoint struct {
	Value  float64 `json:"value"`
	Runs   int     `json:"runs"`
	Broken int     `json:"broke"`
	// NotExercised counts the runs in which the property had no chance to break. Failed counts the
	// runs that could not be judged.
	NotExercised int `json:"idle,omitempty"`
	Failed       int `json:"failed,omitempty"`
	// Seed is the first seed that broke the property, or 0 if none did. Cause is the cause in that
	// run.
	Seed  uint64 `json:"seed,omitempty"`
	Cause string `json:"cause,omitempty"`
	Error string `json:"error,omitempty"`
}

// Envelope is the result in one dimension.
type Envelope struct {
	Dimension   string          `json:"dimension"`
	Doc         string          `json:"doc"`
	Property    string          `json:"property"`
	Unit        unit            `json:"unit"`
	LessIsWorse bool            `json:"less,omitempty"`
	Setting     EnvelopeSetting `json:"setting"`
	Seeds       int             `json:"seeds"`
	// HoldsAt and BreaksAt are adjacent values: the last one at which the property held with all
	// seeds, and the first one at which it did not. Either is nil if no such value was tried.
	HoldsAt      *float64        `json:"held"`
	BreaksAt     *float64        `json:"broke"`
	Edge         *predictedEdge  `json:"edge"` // nil if the property must not break
	Agrees       bool            `json:"agrees"`
	Points       []envelopePoint `json:"points"`          // sorted by value
	Minimized    *MinimizedRun   `json:"small,omitempty"` // counterexample at the first value that breaks; nil if there is none
	NotMinimized string          `json:"why,omitempty"`   // why there is no minimized counterexample
}

// envelopeSearch finds the largest value of a dimension at which a property still holds.
type envelopeSearch struct {
	Known scenario.Known
	// Run runs a scenario with a seed. It is called concurrently.
	Run     func(ctx context.Context, s scenario.Scenario, seed uint64) outcome.Outcome
	Workers int
	Seed    uint64 // the first seed
	Seeds   int
	// Prepare changes the scenario before a run, for example to use another lock; nil means no
	// change.
	Prepare func(scenario.Scenario) (scenario.Scenario, error)
}

// gridSize is the number of evenly spaced values to try first. They reveal a property that breaks
// at some value but holds again at a worse one.
const gridSize = 9

// find finds the edge in one dimension. It calls report with the result for each value tried.
func (x envelopeSearch) find(ctx context.Context, d Dimension, s EnvelopeSetting, report func(envelopePoint)) (Envelope, error) {
	r := Envelope{Dimension: d.Name, Doc: d.Doc, Property: d.Property, Unit: d.Unit, LessIsWorse: d.LessIsWorse, Setting: s, Seeds: x.Seeds, Edge: d.Edge(s)}
	low, high, step := d.Span(s)
	snap := func(v float64) float64 { return math.Round(math.Round(v/step)*step*1e6) / 1e6 }
	try := func(v float64) error {
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
	n := min(gridSize-1, int(math.Round((high-low)/step)))
	for i := range n + 1 {
		if err := try(snap(low + (high-low)*float64(i)/float64(n))); err != nil {
			return r, err
		}
	}
	// The search ends early if no run at the value in the middle exercised the property.
	for tried := 0; len(r.Points) > tried && r.HoldsAt != nil && r.BreaksAt != nil && math.Abs(*r.BreaksAt-*r.HoldsAt) > 1.5*step; {
		tried = len(r.Points)
		if err := try(snap((*r.HoldsAt + *r.BreaksAt) / 2)); err != nil {
			return r, err
		}
	}
	if r.BreaksAt != nil { // sample beyond the edge, where violations turn from occasional to certain
		for i := range 6 {
			v := snap(*r.BreaksAt + d.direction()*step*math.Pow(2, float64(i)))
			if v < low || v > high {
				break
			}
			if err := try(v); err != nil {
				return r, err
			}
		}
	}
	r.Agrees = r.matchesPrediction(step)
	slices.SortFunc(r.Points, func(a, b envelopePoint) int { return int(math.Copysign(1, a.Value-b.Value)) })
	return r, nil
}

// direction is the sign of the change that makes the fault worse.
func (d Dimension) direction() float64 {
	if d.LessIsWorse {
		return -1
	}
	return 1
}

// compareSeverity orders values by severity, the mildest first.
func (d Dimension) compareSeverity(a, b float64) int {
	return int(math.Copysign(1, d.direction()*(a-b)))
}

// locateEdge finds the first value at which the property breaks, and the last value before that at
// which it holds. The points must be sorted by severity.
func (r *Envelope) locateEdge() {
	r.HoldsAt, r.BreaksAt = nil, nil
	for _, p := range r.Points {
		switch {
		case p.Broken > 0:
			r.BreaksAt = &p.Value
			return
		case p.decided():
			r.HoldsAt = &p.Value
		}
	}
}

// decided reports whether any run exercised the property and could be judged.
func (p envelopePoint) decided() bool { return p.Runs > p.NotExercised+p.Failed }

// matchesPrediction reports whether the measured edge matches the predicted one, within a step.
func (r *Envelope) matchesPrediction(step float64) bool {
	d := Dimension{LessIsWorse: r.LessIsWorse}
	switch sign := d.direction(); {
	case r.Edge == nil:
		return r.BreaksAt == nil
	case r.BreaksAt == nil: // the edge may be beyond the values tried
		return sign*(r.worstPoint().Value-r.Edge.AlwaysBreaks) < step*1.5
	default: // also if the property holds at no value
		return sign*(*r.BreaksAt-r.Edge.Safe) > -step/2 && (r.HoldsAt == nil || sign*(*r.BreaksAt-r.Edge.AlwaysBreaks) < step*1.5)
	}
}

// worstPoint returns the result for the most severe value tried.
func (r *Envelope) worstPoint() envelopePoint {
	return slices.MaxFunc(r.Points, func(a, b envelopePoint) int {
		return Dimension{LessIsWorse: r.LessIsWorse}.compareSeverity(a.Value, b.Value)
	})
}

// undecided reports whether no value broke the property and the most severe value did not exercise
// it.
func (r *Envelope) undecided() bool {
	return r.BreaksAt == nil && !r.worstPoint().decided()
}

func (r *Envelope) pointAt(value float64) envelopePoint {
	return r.Points[slices.IndexFunc(r.Points, func(p envelopePoint) bool { return p.Value == value })]
}

// runAt runs the scenario for a value with all seeds.
func (x envelopeSearch) runAt(ctx context.Context, d Dimension, s EnvelopeSetting, value float64) (envelopePoint, error) {
	sc, err := d.Scenario(s, value, x.Known)
	if err == nil && x.Prepare != nil {
		sc, err = x.Prepare(sc)
	}
	p := envelopePoint{Value: value, Runs: x.Seeds}
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

// Predicted edges. In each, times count from the start of the holder's attempt. Before the grant,
// it may open a new connection, so its request is applied after one to three one-way latencies and
// answered after at most four. The lease ends at TTL - margin, where margin is drift·TTL + 2 ms.
// The holder's key ends a TTL after it was applied, by the clock of its node, in whole
// milliseconds. The other client has the lock when it receives the reply to its first attempt that
// finds the key gone.

// expiryTick is the resolution of expiry in Redis, in seconds.
const expiryTick = 0.001

func (s EnvelopeSetting) minOneWay() float64 { return s.OneWay.Min.Seconds() }
func (s EnvelopeSetting) maxOneWay() float64 { return s.OneWay.Max.Seconds() }

// retryGap is the longest time between two attempts of the other client. In between, the client
// learns that the first attempt failed, releases the nodes that voted for it, and waits.
func (s EnvelopeSetting) retryGap() float64 { return s.Retry.Max.Seconds() + 4*s.maxOneWay() }

func neverBreaks(EnvelopeSetting) *predictedEdge { return nil }

func exactEdge(n int, formula string) *predictedEdge {
	return &predictedEdge{Nominal: float64(n), Safe: float64(n) - 0.5, AlwaysBreaks: float64(n), Formula: formula}
}

// jumpEdge: the key expires at applied + TTL - v. Both clients hold the lock if the other one
// receives its reply before the first one's lease ends: v > margin + applied + wait + reply.
func jumpEdge(s EnvelopeSetting) *predictedEdge {
	return &predictedEdge{Nominal: s.margin(), Formula: "drift·TTL + 2 ms",
		Safe: s.margin() + 2*s.minOneWay() - expiryTick, AlwaysBreaks: s.margin() + s.retryGap() + 4*s.maxOneWay() + expiryTick}
}

// driftEdge: the key expires at applied + TTL/v. Both clients hold the lock if the other one
// receives its reply before the first one's lease ends.
func driftEdge(s EnvelopeSetting) *predictedEdge {
	return &predictedEdge{Nominal: s.ttl() / s.lease(), Formula: "TTL ÷ (TTL − drift·TTL − 2 ms)",
		Safe: s.ttl() / (s.lease() - 2*s.minOneWay() + expiryTick), AlwaysBreaks: s.ttl() / (s.lease() - s.retryGap() - 4*s.maxOneWay() - expiryTick)}
}

// returnEdge: the node is back, without data, at granted + v + delay. After its absence it answers
// attempts late, because clients need a new connection. The specification requires an outage of one
// TTL, but an outage for the rest of the lease is sufficient.
func returnEdge(delay time.Duration, what string) func(EnvelopeSetting) *predictedEdge {
	return func(s EnvelopeSetting) *predictedEdge {
		left := s.lease() - delay.Seconds()
		return &predictedEdge{Nominal: left, Formula: "TTL − drift·TTL − 2 ms − " + what,
			Safe: left - 3*s.minOneWay(), AlwaysBreaks: left - s.retryGap() - s.Timeout.Seconds() - 7*s.maxOneWay()}
	}
}

// lateWriteEdge: the holder checked its lease at most 8 one-way latencies after its start, and
// writes as soon as it resumes. The write does damage if the next holder has already read the
// resource. The next holder acquires the lock when the key has expired, and may need a new
// connection to read.
func lateWriteEdge(s EnvelopeSetting) *predictedEdge {
	if s.Fence {
		return nil
	}
	return &predictedEdge{Nominal: s.ttl(), Formula: "TTL", Safe: s.ttl() - 9*s.maxOneWay() - expiryTick, AlwaysBreaks: s.ttl() + s.retryGap() + 8*s.maxOneWay() + expiryTick}
}

// delayedWriteEdge is like lateWriteEdge, but the holder still runs when its lease ends, and
// releases the lock.
func delayedWriteEdge(s EnvelopeSetting) *predictedEdge {
	if s.Fence {
		return nil
	}
	return &predictedEdge{Nominal: s.lease(), Formula: "TTL − drift·TTL − 2 ms", Safe: s.lease() - 9*s.maxOneWay(), AlwaysBreaks: s.lease() + s.retryGap() + 8*s.maxOneWay()}
}

// unsyncedEdge: with fsync everysec, Redis syncs a write at the first of its ten ticks per second
// that is at least a second after the last sync. The time that the disk takes comes on top (Redis
// documentation, "Redis persistence": you may lose one second of data).
func unsyncedEdge(s EnvelopeSetting) *predictedEdge {
	return &predictedEdge{Nominal: 1, Formula: "1 s", Safe: 1.11, AlwaysBreaks: 1 - faultDelay.Seconds() - 8*s.maxOneWay()}
}

func (p *envelopePoint) add(property string, seed uint64, o outcome.Outcome) {
	got, cause := propertyOutcome(property, o)
	switch got {
	case verdict.Violated:
		p.Broken++
		if p.Broken == 1 {
			p.Seed, p.Cause = seed, cause
		}
	case verdict.NotExercised:
		p.NotExercised++
	case verdict.Holds:
	default:
		p.Failed++
		if p.Error == "" {
			p.Error = o.Error
		}
	}
}

// propertyOutcome returns the outcome of a property in a run.
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

// format formats a value with its unit.
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

// String summarizes the measurement in a sentence.
func (r Envelope) String() string {
	of := " at TTL " + r.Setting.TTL.String()
	if r.Unit == nodeCount {
		of = fmt.Sprintf(" of %d", r.Setting.Nodes)
	}
	if r.undecided() {
		return fmt.Sprintf("%s: inconclusive for the largest %s", r.Property, strings.TrimSuffix(r.Doc, ","))
	}
	if r.BreaksAt == nil {
		return fmt.Sprintf("%s holds for %s, with all values tried: %s to %s%s", r.Property, strings.TrimSuffix(r.Doc, ","), r.Unit.format(r.Points[0].Value), r.Unit.format(r.Points[len(r.Points)-1].Value), of)
	}
	holds, broke := "holds for no "+r.Doc, r.pointAt(*r.BreaksAt)
	if r.HoldsAt != nil {
		holds = fmt.Sprintf("holds for %s up to %s%s", r.Doc, r.Unit.format(*r.HoldsAt), of)
		if r.LessIsWorse {
			holds = fmt.Sprintf("holds for %s from %s on%s", r.Doc, r.Unit.format(*r.HoldsAt), of)
		}
	}
	cause := ""
	if broke.Cause != "" {
		cause = " (" + broke.Cause + ")"
	}
	return fmt.Sprintf("%s %s; breaks at %s%s, with %d of %d seeds", r.Property, holds, r.Unit.format(broke.Value), cause, broke.Broken, broke.Runs)
}

// describePrediction describes the predicted edge and whether the measurement agrees.
func (r Envelope) describePrediction() string {
	text := "it never breaks"
	if e := r.Edge; e != nil {
		low, high := e.Safe, e.AlwaysBreaks
		if r.LessIsWorse {
			low, high = high, low
		}
		text = fmt.Sprintf("it breaks at %s (%s)", r.Unit.format(e.Nominal), e.Formula)
		if r.Unit != nodeCount {
			text += fmt.Sprintf(", with messages and retries between %s and %s", r.Unit.format(low), r.Unit.format(high))
		}
	}
	if r.Agrees {
		return "theory agrees: " + text
	}
	return "THEORY DISAGREES: " + text
}

// fileName is the base name of the result's files.
func (r Envelope) fileName() string { return r.Dimension + "-" + r.Property }

// EnvelopeFinder measures the envelope of a lock in several dimensions.
type EnvelopeFinder struct {
	Simulator
	Store   string // for the results
	Lock    string // the user's name for the lock
	Setting EnvelopeSetting
	Seed    uint64 // the first seed
	Seeds   int
	Prepare func(scenario.Scenario) (scenario.Scenario, error) // see envelopeSearch
	Log     io.Writer                                          // for progress output

	mu     sync.Mutex // protects the fields below
	live   *display.Progress
	status string
	runs   int
}

// EnvelopeResult is the content of a lock's envelope.json.
type EnvelopeResult struct {
	Code    int             `json:"code"` // exit code of the whole search
	Lock    string          `json:"lock"`
	Results []*Envelope     `json:"results"`
	Schema  int             `json:"schema"`
	Seed    uint64          `json:"seed"` // the first seed
	Seeds   int             `json:"seeds"`
	Setting EnvelopeSetting `json:"setting"`
	Version string          `json:"version"` // of lockpick

	folder string
}

// Run measures the envelopes, calls found with each one, and writes the result to a new folder in
// the store.
func (x *EnvelopeFinder) Run(ctx context.Context, dimensions []Dimension, found func(*Envelope)) (*EnvelopeResult, error) {
	all := &EnvelopeResult{Lock: x.Lock, Schema: 1, Seed: x.Seed, Seeds: x.Seeds, Setting: x.Setting, Version: x.Version,
		folder: filepath.Join(x.Store, envelopesFolder, suites.Stamp(time.Now()))}
	if err := os.MkdirAll(all.folder, 0o755); err != nil {
		return nil, withKind(storeFailed, err)
	}
	x.live = &display.Progress{W: x.Log, Mu: &x.mu, Started: time.Now(), Text: func(passed time.Duration) string {
		return fmt.Sprintf("%s, %s, %.0f s", x.status, display.Plural(x.runs, "run"), passed.Seconds())
	}}
	defer x.live.Start()()
	search := envelopeSearch{Known: x.Known, Run: x.Simulator.Run, Workers: cap(x.Idle), Seed: x.Seed, Seeds: x.Seeds, Prepare: x.Prepare}
	for _, d := range dimensions {
		r, err := search.find(ctx, d, x.Setting, func(p envelopePoint) {
			x.mu.Lock()
			defer x.mu.Unlock()
			x.runs += p.Runs
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
		x.minimize(ctx, &r, d, all.folder)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := r.writeFigure(all.folder); err != nil {
			return nil, withKind(storeFailed, err)
		}
		x.mu.Lock()
		x.live.Erase()
		found(&r)
		x.mu.Unlock()
		all.Results, all.Code = append(all.Results, &r), outcome.WorseCode(all.Code, r.Code())
	}
	return all, withKind(storeFailed, writeJSON(all.folder, "envelope.json", all))
}

// Print prints a summary.
func (r *EnvelopeResult) Print(w io.Writer) {
	agree := slices.DeleteFunc(slices.Clone(r.Results), func(e *Envelope) bool { return e.Code() != outcome.ExitOK })
	fmt.Fprintf(w, "%s; %s for each value\n%d of %d match theory: %s\n", r.Setting, display.Plural(r.Seeds, "seed"), len(agree), len(r.Results), r.folder)
}

// minimize minimizes the scenario for the first value that broke the property. It skips
// availability, which the checker does not judge.
func (x *EnvelopeFinder) minimize(ctx context.Context, r *Envelope, d Dimension, folder string) {
	if r.BreaksAt == nil || r.Property == availability {
		return
	}
	p := r.pointAt(*r.BreaksAt)
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

// writeFigure writes the figure to a folder as SVG and PNG.
func (r *Envelope) writeFigure(folder string) error {
	var values []float64
	var rates []figures.Rate
	for _, p := range r.Points {
		values, rates = append(values, p.Value), append(rates, figures.Rate{K: p.Broken, N: p.Runs})
	}
	var must *figures.Limits
	if e := r.Edge; e != nil {
		must = &figures.Limits{Nominal: e.Nominal, AlwaysSafe: e.Safe, AlwaysBreaks: e.AlwaysBreaks}
	}
	fig := figures.Edge(r.fileName(), fmt.Sprintf("%s: %s", r.Property, strings.TrimSuffix(r.Doc, ",")), fmt.Sprintf("%s (%s)", r.Dimension, r.Unit), r.Unit == nodeCount, values, rates, must)
	if fig == nil {
		return nil
	}
	image, err := fig.PNG()
	if err != nil {
		return err
	}
	return errors.Join(files.WriteIn(folder, fig.Name+".svg", fig.SVG()), files.WriteIn(folder, fig.Name+".png", image))
}

// firstFailure returns the first point that has a failed run, or nil.
func (r *Envelope) firstFailure() *envelopePoint {
	if i := slices.IndexFunc(r.Points, func(p envelopePoint) bool { return p.Error != "" }); i >= 0 {
		return &r.Points[i]
	}
	return nil
}

// Code returns the exit code of a result.
func (r *Envelope) Code() int {
	switch {
	case r.firstFailure() != nil:
		return outcome.ExitBackend
	case r.undecided():
		return outcome.ExitUndecided
	case !r.Agrees:
		return outcome.ExitUnexpected
	}
	return outcome.ExitOK
}

// Print prints the measured and the predicted edge.
func (r *Envelope) Print(w io.Writer) {
	in := display.Good
	if r.Code() != outcome.ExitOK {
		in = display.Bad
	}
	fmt.Fprintln(w, display.Wrap(display.Width(w), 0, 2, r.String()))
	fmt.Fprintln(w, "  "+display.Paint(w, in, display.Wrap(display.Width(w), 2, 4, r.describePrediction())))
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
