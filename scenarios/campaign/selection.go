package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
	"lockpick/scenarios"
)

// simulation is the name of the simulated backend.
const simulation = "sim"

// MaxSeeds limits the seeds in a campaign to about a day's work for a large machine.
const MaxSeeds = 10_000_000

// RealScale is the default factor for all durations on real servers: a TTL of 10 s becomes 1 s. A
// scenario or a Selection may override it.
const RealScale = 0.1

// realRetries limits the retries of an inconclusive run on real servers. Simulated runs are not
// retried, because the result would be the same.
const realRetries = 5

// Selection says which scenarios to run, with which lock and settings, and what to expect.
type Selection struct {
	Names               []string          // as for scenarios.Find; none means the whole catalog
	Tags                []string          // select only scenarios with all of these tags
	Scenarios           []scenarios.Found // used instead of Names and Tags
	Lock                string            // KIND or KIND:OPTION=VALUE,…, replaces the scenarios' own locks; "" keeps them
	Adapter             string            // the program that implements the lock, as the user named it; "" if lockpick does
	TTLUnit             time.Duration     // every TTL must be a multiple of this; 0 means that any TTL is allowed
	Nodes               int               // number of nodes for scenarios with more than one; 0 means the scenario's own
	Overrides           []string          // overrides such as lock.ttl=5s; they void the scenarios' expectations
	SkipUnsuitable      bool              // skip scenarios that Overrides do not fit, instead of failing; not if they fit no scenario of the catalog
	Expectations        []string          // such as mutual-exclusion=holds
	DefaultExpectations []string          // overridden by Expectations, and ignored where they can't be judged
	Backend             string            // backend name
	Scale               float64           // factor for durations in real time; 0 means the scenario's factor or, without one, RealScale
}

// Pick is a selected scenario, ready to run.
type Pick struct {
	scenarios.Found
	// Comparison is the scenario with its own lock, if another lock is under test.
	Comparison *scenario.Scenario `json:"control,omitempty"`
}

// Skip is a skipped scenario with the reason.
type Skip struct {
	scenario.Scenario
	Reason  error
	Missing []harness.Capability // the missing capabilities
}

// Choice is a resolved Selection.
type Choice struct {
	Picks          []Pick
	Skipped        []Skip
	ExcludedFaults []string // faults left out of random plans because the lock does not support them
}

// SelectionError is an error in a Selection.
type SelectionError struct {
	Field   string   // what is invalid, such as Tags, Lock or Lock.Option
	Invalid []string // the invalid values
	Valid   []string // the valid values
	Err     error
}

func (e *SelectionError) Error() string { return e.Err.Error() }
func (e *SelectionError) Unwrap() error { return e.Err }

func invalid(field, text string, args ...any) *SelectionError {
	return &SelectionError{Field: field, Err: fmt.Errorf(text, args...)}
}

func (s *Selection) realTime() bool { return s.Backend != simulation }

// Choose resolves the selection. It moves an override of lock.kind to Lock, and turns a lock with a
// mistake into overrides.
func (s *Selection) Choose(known scenario.KnownNames) (c Choice, err error) {
	kind, options, err := s.resolveLock(known)
	if err != nil {
		return c, err
	}
	if known.Kinds[kind].OneNode {
		s.Nodes = 0
	}
	chosen, err := s.Find(known)
	if err != nil {
		return c, err
	}
	for _, f := range chosen {
		p, excluded, err := s.withLock(f, kind, options, chosen, known)
		if len(excluded) > 0 {
			c.ExcludedFaults = excluded
		}
		if err != nil {
			name := LockUnsupported
			if f.Unsuitable != "" {
				name = NodesUnsuitable
			}
			c.Skipped = append(c.Skipped, Skip{f.Scenario, err, []harness.Capability{{Name: name, Reason: err.Error()}}})
			continue
		}
		c.Picks = append(c.Picks, p)
	}
	for i := range c.Picks {
		if err := s.expect(&c.Picks[i], kind); err != nil {
			return Choice{}, err
		}
	}
	if err := s.requireLimits(c.Picks); err != nil {
		return Choice{}, err
	}
	for i := range c.Picks {
		if err := s.scale(&c.Picks[i], known); err != nil {
			return Choice{}, err
		}
	}
	return c, nil
}

// Find reads the selected scenarios and applies the overrides.
func (s *Selection) Find(known scenario.KnownNames) ([]scenarios.Found, error) {
	if s.Scenarios != nil {
		return s.Scenarios, nil
	}
	if s.Nodes < 0 || s.Nodes > scenario.MaxNodes {
		return nil, invalid("Nodes", "%d nodes are out of range", s.Nodes)
	}
	if i := slices.IndexFunc(s.Overrides, setsNodes); s.Nodes > 0 && i >= 0 {
		return nil, invalid("Sets", "--nodes and --set %s both choose a number of nodes", s.Overrides[i])
	}
	all, failed, err := scenarios.Choose(s.Names, s.Tags, known, scenario.ParseOptions{Overrides: s.Overrides, Nodes: s.Nodes})
	if err != nil && s.SkipUnsuitable {
		all, err = s.findSuitable(known, err)
	}
	if err != nil {
		return nil, &SelectionError{"Names", []string{failed}, scenarios.Names(), err}
	}
	if len(all) == 0 {
		return nil, &SelectionError{Field: "Tags", Invalid: s.Tags, Err: errors.New("no scenario selected")}
	}
	return all, nil
}

// findSuitable reads the selected scenarios one by one, and marks those that the overrides do not fit. If
// they fit no scenario of the catalog, it returns the given error.
func (s *Selection) findSuitable(known scenario.KnownNames, failure error) ([]scenarios.Found, error) {
	all, _, err := scenarios.Choose(s.Names, s.Tags, known, scenario.ParseOptions{Nodes: s.Nodes})
	if err != nil {
		return nil, err
	}
	fitsAny := len(s.Names) > 0
	for i, f := range all {
		if f.Unsuitable != "" {
			continue
		}
		found, _, err := scenarios.Choose([]string{f.ExactName()}, nil, known, scenario.ParseOptions{Overrides: s.Overrides, Nodes: s.Nodes})
		if err == nil {
			all[i] = found[0]
			fitsAny = fitsAny || all[i].Lock.Mistake == "" // scenarios about mistakes say nothing about other locks
			continue
		}
		reason := err.Error()
		if e, ok := errors.AsType[*scenario.Error](err); ok {
			if reason = e.Message; strings.HasPrefix(reason, "in variant ") { // the same for all variants
				_, reason, _ = strings.Cut(reason, ": ")
			}
		}
		all[i].Unsuitable = "doesn't fit the settings: " + reason
	}
	if !fitsAny {
		return nil, failure
	}
	return all, nil
}

// brokenLock is the kind of a lock with a planted mistake, which must be named.
const brokenLock = "broken"

// Kind returns the kind of the lock under test, or "" if the scenarios keep their own locks.
func (s Selection) Kind(known scenario.KnownNames) (string, error) {
	kind, _, err := s.resolveLock(known)
	return kind, err
}

// Mistake returns the mistake to plant if Lock is "broken". Otherwise it returns "".
func (s *Selection) Mistake() string {
	for _, set := range s.Overrides {
		if mistake, ok := strings.CutPrefix(set, "lock.mistake="); ok && s.Lock == brokenLock {
			return mistake
		}
	}
	return ""
}

// resolveLock makes a lock chosen by overriding lock.kind the lock under test, so that scenarios
// that do not apply to it are skipped. The kind "broken" remains an override.
func (s *Selection) resolveLock(known scenario.KnownNames) (kind string, options map[string]string, err error) {
	rejectSecondLock := func(chosen string) error {
		if i := slices.IndexFunc(s.Overrides, setsKind); chosen != "" && i >= 0 {
			return invalid("Sets", "%s and --set %s both choose a lock", chosen, s.Overrides[i])
		}
		return nil
	}
	if err := rejectSecondLock(cmp.Or(s.Adapter, s.Lock)); err != nil {
		return "", nil, err
	}
	if s.Mistake() != "" {
		s.Lock, s.Overrides = "", append([]string{"lock.kind=" + brokenLock}, s.Overrides...)
	}
	s.Overrides = slices.DeleteFunc(slices.Clone(s.Overrides), func(set string) bool {
		_, kindName, _ := strings.Cut(set, "=")
		kindName = strings.TrimSpace(kindName)
		if _, exists := known.Kinds[kindName]; !setsKind(set) || !exists || kindName == brokenLock {
			return false
		}
		s.Lock = kindName
		return true
	})
	if s.Lock == "" {
		return "", nil, nil
	}
	if err := rejectSecondLock("--set lock.kind=" + s.Lock); err != nil {
		return "", nil, err
	}
	s.moveOptions()
	kind, text, _ := strings.Cut(s.Lock, ":")
	k, exists := known.Kinds[kind]
	switch {
	case kind == brokenLock:
		return "", nil, invalid("Lock.Mistake", "--lock broken requires a mistake")
	case !exists:
		return "", nil, &SelectionError{"Lock", []string{kind}, known.Locks, fmt.Errorf("no lock kind %q", kind)}
	}
	options, err = lockOptions(kind, k, text)
	return kind, options, err
}

var kindKey = regexp.MustCompile(`(^|[{,\s"'])kind["']?\s*:`)

// setsKind reports whether an override sets the lock's kind, directly or as part of the lock
// section.
func setsKind(set string) bool {
	key, value, _ := strings.Cut(set, "=")
	key = strings.TrimSpace(key)
	return key == "lock.kind" || key == "lock" && kindKey.MatchString(value)
}

var nodesKey = regexp.MustCompile(`(^|[{,\s"'])nodes["']?\s*:`)

// setsNodes reports whether an override sets the number of nodes, directly or with the whole topology
// section.
func setsNodes(override string) bool {
	key, value, _ := strings.Cut(override, "=")
	key = strings.TrimSpace(key)
	return key == "topology.nodes" || key == "topology" && nodesKey.MatchString(value)
}

// optionKey starts the overrides of lock options.
const optionKey = "lock.options."

// moveOptions moves overrides of lock options to Lock, because the scenarios' own locks may not have
// these options.
func (s *Selection) moveOptions() {
	s.Overrides = slices.DeleteFunc(s.Overrides, func(set string) bool {
		key, value, _ := strings.Cut(set, "=")
		option, isOption := strings.CutPrefix(strings.TrimSpace(key), optionKey)
		if !isOption {
			return false
		}
		separator := ":"
		if strings.Contains(s.Lock, separator) {
			separator = ","
		}
		s.Lock += separator + option + "=" + strings.TrimSpace(value)
		return true
	})
}

// Options returns the options of the lock under test, as overrides.
func (s *Selection) Options() (overrides []string) {
	_, text, _ := strings.Cut(s.Lock, ":")
	for option := range strings.SplitSeq(text, ",") {
		if option != "" {
			overrides = append(overrides, optionKey+option)
		}
	}
	return overrides
}

// lockOptions parses and validates OPTION=VALUE,… for a lock kind.
func lockOptions(name string, kind lock.Kind, text string) (map[string]string, error) {
	options := map[string]string{}
	if text == "" {
		return options, nil
	}
	var all []string
	for _, o := range kind.Options {
		all = append(all, o.Name+"="+strings.Join(o.Values, "|"))
	}
	if len(all) == 0 {
		return nil, invalid("Lock.Option", "lock %q has no options: %q", name, text)
	}
	for part := range strings.SplitSeq(text, ",") {
		option, value, _ := strings.Cut(part, "=")
		i := slices.IndexFunc(kind.Options, func(o lock.Option) bool { return o.Name == option })
		if i < 0 || !slices.Contains(kind.Options[i].Values, value) {
			return nil, &SelectionError{Field: "Lock.Option", Valid: all, Err: fmt.Errorf("lock %q has no option %q", name, part)}
		}
		options[option] = value
	}
	return options, nil
}

// withLock replaces a scenario's lock. excluded lists the faults that the new lock rules out in
// random plans.
func (s *Selection) withLock(original scenarios.Found, name string, options map[string]string, chosen []scenarios.Found, known scenario.KnownNames) (p Pick, excluded []string, err error) {
	p.Found = original
	if original.Unsuitable != "" {
		return p, nil, errors.New(original.Unsuitable)
	}
	if name == "" {
		return p, nil, nil
	}
	kind := known.Kinds[name]
	p.Scenario, err = original.ForLock(name, kind)
	p.Numbers = comparableNumbers(original, name, chosen)
	if kind.OwnTime && !s.realTime() {
		p.Scenario, excluded = p.WithoutClientClockSteps()
	}
	if err == nil {
		p.Scenario = p.WithOptions(kind, options)
		err = p.Check(known)
	}
	if original.Lock.Kind != p.Lock.Kind || len(options) > 0 {
		p.Comparison = &original.Scenario
	}
	return p, excluded, err
}

// comparableNumbers returns a scenario's bounds on numbers if the scenario keeps its lock kind,
// without the bounds that refer to a variant with a different kind.
func comparableNumbers(original scenarios.Found, kind string, chosen []scenarios.Found) map[string]scenario.Bound {
	if original.Lock.Kind != kind {
		return nil
	}
	numbers := maps.Clone(original.Numbers)
	maps.DeleteFunc(numbers, func(_ string, b scenario.Bound) bool {
		return slices.ContainsFunc(chosen, func(o scenarios.Found) bool {
			return o.File == original.File && cmp.Or(o.Variant, scenario.BaseVariant) == b.Variant && o.Lock.Kind != kind
		})
	})
	return numbers
}

// expect sets the expectations of a pick. A scenario's bounds on numbers and its expected
// violations are valid only for its own settings, so overrides void them. After overrides, a lock
// under test must still give the scenario's guarantees. Without a lock under test, only safety is
// expected.
func (s *Selection) expect(p *Pick, kind string) error {
	if len(s.Overrides) > 0 {
		p.Numbers = nil
		if kind == "" {
			p.Expect = defaultExpectations()
		} else {
			p.Expect = scenario.Guarantees(p.Expect)
		}
		if comparison := p.Comparison; comparison != nil {
			comparison.Expect, comparison.Numbers = scenario.Guarantees(comparison.Expect), nil
		}
	}
	for _, e := range slices.Concat(s.DefaultExpectations, s.Expectations) {
		name, want, ok := strings.Cut(e, "=")
		if !ok || !slices.Contains(checker.Properties(), name) || !slices.Contains([]string{wantHolds, wantViolated, wantAny}, want) {
			return &SelectionError{"Expects", []string{name}, checker.Properties(), fmt.Errorf("invalid --expect %q", e)}
		}
		p.Expect[name] = scenario.Expectation{Want: want}
	}
	scenario.AddImplied(p.Expect, p.Tier)
	return nil
}

// requireLimits drops the expectation of bounded-hold from scenarios without limits, because it
// can't be judged there. It fails if the user expects bounded-hold but no scenario has limits.
func (s *Selection) requireLimits(picks []Pick) error {
	anyLimits := false
	for _, p := range picks {
		if p.Limits == (scenario.Limits{}) {
			delete(p.Expect, verdict.BoundedHold)
		} else {
			anyLimits = true
		}
	}
	if s.hasExpectation(verdict.BoundedHold) && !anyLimits {
		return invalid("Expects.Limits", "%s can't be judged: no selected scenario has limits", verdict.BoundedHold)
	}
	return nil
}

// scale scales a scenario's durations for a real-time backend.
func (s *Selection) scale(p *Pick, known scenario.KnownNames) error {
	if !s.realTime() {
		return nil
	}
	factor := cmp.Or(s.Scale, p.Scale, RealScale)
	if unit, ttl := s.TTLUnit, commonDivisor(scenario.TTLs(p.Scenario)); unit != 0 && ttl != 0 { // round the TTLs up to ones that the lock accepts
		scaled := time.Duration(float64(ttl) * factor)
		factor = float64((scaled+unit-1)/unit*unit) / float64(ttl)
	}
	p.Scenario = p.ScaledCopy(factor)
	if comparison := p.Comparison; comparison != nil {
		*comparison = comparison.ScaledCopy(factor)
	}
	err := p.Check(known)
	scenarioErr, _ := errors.AsType[*scenario.Error](err)
	switch shortest := scenario.TTLs(p.Scenario)[0]; {
	case shortest <= 2*p.Lock.Timeout:
		return invalid("Scale.TTL", "scale %g makes the TTL of %s %v, which is too short for a node timeout of %v", factor, p.ID(), shortest, p.Lock.Timeout)
	case scenarioErr != nil:
		return invalid("Scale", "scale %g makes %s invalid: %s: %s", factor, p.ID(), scenarioErr.Field, scenarioErr.Message)
	}
	return nil
}

// commonDivisor returns the longest duration of which all others are multiples.
func commonDivisor(all []time.Duration) time.Duration {
	var divisor time.Duration
	for _, d := range all {
		for d != 0 {
			divisor, d = d, divisor%d
		}
	}
	return divisor
}

// Job returns the job for a pick and a seed. On real-time backends, runs that do not count are
// retried.
func (s *Selection) Job(p Pick, seed uint64) Job {
	j := Job{Scenario: p.Scenario, Seed: seed, Backend: s.Backend, Keep: KeepAll, Overrides: s.Overrides, Comparison: p.Comparison}
	if s.realTime() {
		j.Live, j.Retries = true, realRetries
	}
	if j.Comparison != nil && len(s.Overrides) > 0 {
		for _, property := range checker.Properties() {
			if p.Expect[property].Want == wantHolds && !s.hasExpectation(property) {
				j.RelativeProperties = append(j.RelativeProperties, property)
			}
		}
	}
	return j
}

// hasExpectation reports whether Expectations contains a property.
func (s *Selection) hasExpectation(property string) bool {
	return slices.ContainsFunc(s.Expectations, func(e string) bool { return strings.HasPrefix(e, property+"=") })
}

// Capabilities holds a backend's capabilities on this machine, by name.
type Capabilities map[string]harness.Capability

// Probe determines what a backend can do on this machine.
func Probe(ctx context.Context, b harness.Backend) Capabilities {
	a := Capabilities{}
	for _, c := range b.Probe(ctx) {
		a[c.Name] = c
	}
	return a
}

// Capability returns the named capability, marked as missing if the backend does not know it.
func (a Capabilities) Capability(name string) harness.Capability {
	c, known := a[name]
	if !known {
		c = harness.Capability{Name: name, Reason: cmp.Or(scenario.ExplainMissingCapability(name), "this backend does not have it")}
	}
	return c
}

// Missing returns the capabilities that a scenario needs but the backend lacks.
func (a Capabilities) Missing(s scenario.Scenario, kinds map[string]lock.Kind) []harness.Capability {
	var out []harness.Capability
	for _, need := range append([]string{harness.RunCapability}, s.RequiredCapabilitiesForLock(kinds[s.Lock.Kind])...) {
		if c := a.Capability(need); !c.Available {
			out = append(out, c)
		}
	}
	return out
}

// Names of missing capabilities if a scenario does not apply to the lock under test, or makes no
// sense with the chosen number of nodes.
const (
	LockUnsupported = "lock"
	NodesUnsuitable = "nodes"
)

// MissingReasons joins the reasons why capabilities are missing.
func MissingReasons(cs []harness.Capability) string {
	var out []string
	for _, c := range cs {
		if scenario.ExplainMissingCapability(c.Name) != "" { // the reason already names it
			out = append(out, c.Reason)
		} else {
			out = append(out, c.Name+": "+c.Reason)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// Restrict moves picks that need unavailable capabilities to Skipped.
func (c *Choice) Restrict(available Capabilities, kinds map[string]lock.Kind) {
	var picks []Pick
	for _, p := range c.Picks {
		if missing := available.Missing(p.Scenario, kinds); len(missing) > 0 {
			c.Skipped = append(c.Skipped, Skip{p.Scenario, errors.New(MissingReasons(missing)), missing})
		} else {
			picks = append(picks, p)
		}
	}
	c.Picks = picks
}
