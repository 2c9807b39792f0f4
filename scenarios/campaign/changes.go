package campaign

import (
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// changeFunc looks for a change of the settings that makes a hazard harmless. It returns nil if
// there is none.
type changeFunc func(ctx context.Context, s changeSearch) (*outcome.Change, error)

// changeSearch is a search for changes that make one hazard harmless.
type changeSearch struct {
	x      *Assessor
	hazard hazard
	conditions
	row *outcome.HazardRow
}

// maxChanges is the number of changes to suggest for a hazard.
const maxChanges = 2

// findChanges searches for changes that make a hazard harmless.
func findChanges(ctx context.Context, x *Assessor, h hazard, c conditions, row *outcome.HazardRow) error {
	if row.Verdict != outcome.HazardAtRisk {
		return nil
	}
	x.setStatus(h.title + ": searching for a change that helps")
	for _, find := range h.changes {
		if x.late() || len(row.Changes) == maxChanges {
			return nil
		}
		row.NumTried++
		change, err := find(ctx, changeSearch{x, h, c, row})
		if err != nil {
			return err
		}
		if change != nil {
			row.Changes = append(row.Changes, *change)
		}
	}
	return nil
}

// combineChanges makes the first change for each hazard, and tests all hazards and random combinations
// of them with the result. If that is not enough, it adds what protects against most hazards.
func combineChanges(ctx context.Context, x *Assessor, c conditions, assumed []hazard) error {
	if !x.simulated() {
		return nil
	}
	d := c.Deployment
	for _, r := range x.result.Hazards {
		if len(r.Changes) > 0 {
			d = merge(c.Deployment, d, r.Changes[0].Deployment)
		}
	}
	synced, fenced := d, d
	synced.Persistence = scenario.PersistAlways
	fenced.Persistence, fenced.Lock, fenced.Fence = scenario.PersistAlways, hardenedLock, true
	for _, candidate := range []outcome.Deployment{d, synced, fenced} {
		if candidate == c.Deployment || x.Base.Adapter != "" && candidate.Lock == hardenedLock {
			continue
		}
		if x.late() {
			return nil
		}
		x.setStatus("all changes together")
		combined, err := testCombination(ctx, x, c, candidate, assumed)
		if err != nil || x.cutShort {
			return err
		}
		x.result.Combined = combined
		if len(combined.Remaining) == 0 && combined.Violated == 0 {
			break
		}
	}
	return nil
}

// testCombination tests a deployment with all hazards.
func testCombination(ctx context.Context, x *Assessor, c conditions, d outcome.Deployment, assumed []hazard) (*outcome.Combination, error) {
	combined := &outcome.Combination{Flags: changedFlags(c.Deployment, d)}
	c.Deployment = d
	var names []string
	for _, h := range assumed {
		result, n, err := changeSearch{x, h, c, nil}.verify(ctx, d)
		if err != nil {
			return nil, err
		}
		if combined.Runs += n; result != outcome.HazardSafe {
			combined.Remaining = append(combined.Remaining, h.title)
		}
		names = append(names, h.name)
	}
	random, err := x.randomPlans(ctx, c, names, true)
	if _, ok := errors.AsType[notApplicable](err); ok {
		return combined, nil
	}
	combined.Runs, combined.Violated = combined.Runs+random.Runs, random.Violated
	return combined, err
}

// merge applies the difference between two deployments to a third. Of two values of a setting, the
// larger one counts.
func merge(base, d, changed outcome.Deployment) outcome.Deployment {
	if changed.Lock != base.Lock {
		d.Lock = changed.Lock
	}
	if changed.Persistence != base.Persistence {
		d.Persistence = changed.Persistence
	}
	d.TTL, d.Drift, d.RestartDelay = max(d.TTL, changed.TTL), max(d.Drift, changed.Drift), max(d.RestartDelay, changed.RestartDelay)
	d.Fence = d.Fence || changed.Fence
	return d
}

// changedFlags returns the flags that make the difference between two deployments.
func changedFlags(base, d outcome.Deployment) string {
	var flags []string
	add := func(changed bool, text string) {
		if changed {
			flags = append(flags, text)
		}
	}
	add(d.Lock != base.Lock, "--lock "+d.Lock)
	add(d.Fence != base.Fence, "--fence")
	add(d.TTL != base.TTL, "--ttl "+d.TTL.String())
	add(d.Drift != base.Drift, "--drift "+outcome.FormatPercent(100*d.Drift))
	add(d.Persistence != base.Persistence, "--persistence "+d.Persistence)
	add(d.RestartDelay != base.RestartDelay, "--restart-delay "+d.RestartDelay.String())
	return strings.Join(flags, " ")
}

// verify tests a hazard with other settings: at its limit, and in the scenarios of the catalog that
// count against it.
func (s changeSearch) verify(ctx context.Context, d outcome.Deployment) (result string, runs int, err error) {
	c := s.conditions
	c.Deployment = d
	row := &outcome.HazardRow{}
	all, err := s.x.testLimit(ctx, s.hazard, c, row)
	for _, m := range all {
		runs += m.bound.Runs()
	}
	if err != nil || row.Verdict != outcome.HazardSafe {
		return row.Verdict, runs, err
	}
	var names []string
	for _, f := range s.x.catalog.failed[s.hazard.name] {
		names = append(names, f.ExactName())
	}
	if len(names) == 0 {
		return row.Verdict, runs, nil
	}
	selection, choice, err := s.x.catalog.choose(s.x, d, names)
	if err != nil {
		return row.Verdict, runs, err
	}
	for _, o := range s.x.catalog.runPicks(ctx, s.x, selection, choice.Picks, KeepNone) {
		if len(safetyViolations(o, d.Fence)) > 0 {
			return outcome.HazardAtRisk, runs, nil
		}
		runs++
	}
	return row.Verdict, runs, ctx.Err()
}

// verifyChange returns the change if it makes the hazard harmless.
func (s changeSearch) verifyChange(ctx context.Context, d outcome.Deployment, text, flags string) (*outcome.Change, error) {
	if d == s.Deployment {
		return nil, nil
	}
	result, runs, err := s.verify(ctx, d)
	if err != nil || result != outcome.HazardSafe {
		return nil, err
	}
	return &outcome.Change{Text: text, Flags: flags, Runs: runs, Deployment: d}, nil
}

func addFence(ctx context.Context, s changeSearch) (*outcome.Change, error) {
	if !s.x.Known.Kinds[s.kind()].Can.Fence {
		return nil, nil
	}
	d := s.Deployment
	d.Fence = true
	return s.verifyChange(ctx, d, "fencing tokens", "--fence")
}

func syncAlways(ctx context.Context, s changeSearch) (*outcome.Change, error) {
	d := s.Deployment
	d.Persistence = scenario.PersistAlways
	return s.verifyChange(ctx, d, "appendfsync always", "--persistence always")
}

// hardenedLock is the kind of the lock recommended by package redlock.
const hardenedLock = "hardened"

// useHardened suggests the lock recommended by package redlock, with fencing tokens, if no setting of
// the present lock helps.
func useHardened(ctx context.Context, s changeSearch) (*outcome.Change, error) {
	if len(s.row.Changes) > 0 || s.kind() == hardenedLock && s.Fence || s.x.Base.Adapter != "" {
		return nil, nil
	}
	d := s.Deployment
	d.Lock, d.Fence = hardenedLock, true
	return s.verifyChange(ctx, d, "another lock: package redlock's recommended one (hardened), with fencing tokens", "--lock hardened --fence")
}

// knob is a setting with a size.
type knob struct {
	text, flag string
	value      func(outcome.Deployment) float64
	set        func(d *outcome.Deployment, v float64)
	format     func(float64) string
	step, max  float64
}

func raiseTTL(ctx context.Context, s changeSearch) (*outcome.Change, error) {
	return s.raise(ctx, knob{text: "a TTL of ", flag: "--ttl ", step: 0.05, max: MaxTTL.Seconds(), format: outcome.UnitSeconds.Format,
		value: func(d outcome.Deployment) float64 { return d.TTL.Seconds() }, set: func(d *outcome.Deployment, v float64) { d.TTL = toDuration(v) }})
}

func raiseDrift(ctx context.Context, s changeSearch) (*outcome.Change, error) {
	return s.raise(ctx, knob{text: "a drift allowance of ", flag: "--drift ", step: 0.01, max: 100 * MaxDrift, format: outcome.FormatPercent,
		value: func(d outcome.Deployment) float64 { return 100 * d.Drift }, set: func(d *outcome.Deployment, v float64) { d.Drift = v / 100 }})
}

func raiseRestartDelay(ctx context.Context, s changeSearch) (*outcome.Change, error) {
	return s.raise(ctx, knob{text: "a restart delay of ", flag: "--restart-delay ", step: 0.05, max: 2 * s.ttl(), format: outcome.UnitSeconds.Format,
		value: func(d outcome.Deployment) float64 { return d.RestartDelay.Seconds() }, set: func(d *outcome.Deployment, v float64) { d.RestartDelay = toDuration(v) }})
}

// Largest settings that an assessment tests.
const (
	MaxTTL   = 10 * time.Minute
	MaxDrift = 0.49 // a scenario allows less than a half
)

func toDuration(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds*1e6)) * time.Microsecond
}

// raise finds the smallest value of a setting that makes a hazard harmless, and rounds it up to two
// significant digits. Half the change must not be enough, or the hazard would be blamed on a setting
// that has nothing to do with it.
func (s changeSearch) raise(ctx context.Context, k knob) (*outcome.Change, error) {
	if !s.x.simulated() {
		return nil, nil // a search takes too long
	}
	test := func(v float64) (result string, runs int, err error) {
		d := s.Deployment
		k.set(&d, v)
		return s.verify(ctx, d)
	}
	current := k.value(s.Deployment)
	unsafe, enough := current, current
	for delta := k.step; enough == unsafe; delta *= 2 {
		v := min(current+delta, k.max)
		result, _, err := test(v)
		switch {
		case err != nil || s.x.late():
			return nil, err
		case result == outcome.HazardSafe:
			enough = v
		case v >= k.max:
			return nil, nil
		default:
			unsafe, enough = v, v
		}
	}
	for enough-unsafe > max(k.step/10, 0.01*(enough-current)) {
		middle := math.Round((enough+unsafe)/2*1e4) / 1e4
		result, _, err := test(middle)
		if err != nil || s.x.late() {
			return nil, err
		}
		if result == outcome.HazardSafe {
			enough = middle
		} else {
			unsafe = middle
		}
	}
	for _, v := range []float64{min(roundUp(enough), k.max), enough} {
		result, runs, err := test(v)
		if err != nil {
			return nil, err
		}
		half := (current + v) / 2
		halfResult, _, err := test(half)
		if err != nil {
			return nil, err
		}
		if result == outcome.HazardSafe && halfResult == outcome.HazardAtRisk {
			d := s.Deployment
			k.set(&d, v)
			return &outcome.Change{Text: k.text + k.format(v), Flags: k.flag + k.format(v), Runs: runs, Insufficient: k.format(half), Deployment: d}, nil
		}
	}
	return nil, nil
}

// roundUp rounds a positive number up to two significant digits.
func roundUp(v float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(v))-1)
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(math.Ceil(v/unit-1e-9)*unit, 'g', 6, 64), 64)
	return rounded
}
