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

// simulation is the name of the backend that runs in virtual time.
const simulation = "sim"

// MaxSeeds is the maximum number of seeds in a campaign: about a day's work for a large machine.
const MaxSeeds = 10_000_000

// RealScale is the factor by which all durations are multiplied on real servers, so that a TTL of
// 10 s becomes one second. A scenario or a Selection may override it.
const RealScale = 0.1

// realRetries is the maximum number of times that an inconclusive run on real servers is repeated.
// Simulated runs are not repeated, because their results would be the same.
const realRetries = 5

// Selection selects the scenarios to run, the lock and settings to run them with, and what to
// expect of them.
type Selection struct {
	Names          []string          // as accepted by scenarios.Find; none means the whole catalog
	Tags           []string          // only scenarios with all of these tags
	Scenarios      []scenarios.Found // scenarios to run instead of those with these names and tags
	Lock           string            // KIND or KIND:OPTION=VALUE,… to replace each scenario's own lock; "" keeps it
	Adapter        string            // the user's name for the program that implements the lock; "" if lockpick does
	TTLUnit        time.Duration     // the lock accepts only TTLs that are multiples of this unit; 0 means any TTL
	Nodes          int               // number of nodes for scenarios with several; 0 means the scenario's own
	Sets           []string          // overrides, as in lock.ttl=5s; they void the scenario's expectations
	Expects        []string          // as in mutual-exclusion=holds
	DefaultExpects []string          // weaker than Expects, and silently ignored where they can't be judged
	Backend        string            // name of the backend
	Scale          float64           // factor by which durations are multiplied in real time; 0 means the scenario's factor, or RealScale
}

// Pick is a selected scenario, ready to run.
type Pick struct {
	scenarios.Found
	// Comparison is the scenario with its own lock if another lock is under test, or nil.
	Comparison *scenario.Scenario `json:"control,omitempty"`
}

// Skip is a scenario that is skipped, with the reason.
type Skip struct {
	scenario.Scenario
	Why     error
	Missing []harness.Capability // missing capabilities; LockUnsupported if the scenario does not apply to the lock
}

// Choice is a resolved Selection.
type Choice struct {
	Picks          []Pick
	Skipped        []Skip
	ExcludedFaults []string // faults that random plans leave out because the lock does not support them
}

// SelectionError reports an invalid field of a Selection.
type SelectionError struct {
	Field   string   // the invalid field, possibly with the part that is invalid: Lock, Lock.Mistake or Lock.Option
	Invalid []string // invalid values in that field
	Valid   []string // the valid values
	Err     error
}

func (e *SelectionError) Error() string { return e.Err.Error() }
func (e *SelectionError) Unwrap() error { return e.Err }

func invalid(field, text string, of ...any) *SelectionError {
	return &SelectionError{Field: field, Err: fmt.Errorf(text, of...)}
}

func (s *Selection) realTime() bool { return s.Backend != simulation }

// Choose resolves the selection. It also normalizes Lock and Sets: it moves an override of
// lock.kind to Lock, and turns a lock with a mistake into overrides.
func (s *Selection) Choose(known scenario.Known) (c Choice, err error) {
	kind, options, err := s.resolveLock(known)
	if err != nil {
		return c, err
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
			c.Skipped = append(c.Skipped, Skip{f.Scenario, err, []harness.Capability{{Name: LockUnsupported, Reason: err.Error()}}})
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

// Find reads the selected scenarios from their files and applies the overrides.
func (s *Selection) Find(known scenario.Known) ([]scenarios.Found, error) {
	if s.Nodes < 0 || s.Nodes > scenario.MaxNodes {
		return nil, invalid("Nodes", "%d nodes are out of range", s.Nodes)
	}
	if i := slices.IndexFunc(s.Sets, setsNodes); s.Nodes > 0 && i >= 0 {
		return nil, invalid("Sets", "--nodes and --set %s both choose a number of nodes", s.Sets[i])
	}
	if s.Scenarios != nil {
		return s.Scenarios, nil
	}
	all, failed, err := scenarios.Choose(s.Names, s.Tags, known, scenario.Overrides{Sets: s.Sets, Nodes: s.Nodes})
	if err != nil {
		return nil, &SelectionError{"Names", []string{failed}, scenarios.Names(), err}
	}
	if len(all) == 0 {
		return nil, &SelectionError{Field: "Tags", Invalid: s.Tags, Err: errors.New("no scenario selected")}
	}
	return all, nil
}

// brokenLock is the kind of lock that has a planted mistake. It requires the name of the mistake.
const brokenLock = "broken"

// Kind returns the kind of lock that replaces the scenarios' own locks, or "" if no lock does.
func (s Selection) Kind(known scenario.Known) (string, error) {
	kind, _, err := s.resolveLock(known)
	return kind, err
}

// Mistake returns the mistake that Sets specifies for the lock "broken", or "" for any other lock.
func (s *Selection) Mistake() string {
	for _, set := range s.Sets {
		if mistake, ok := strings.CutPrefix(set, "lock.mistake="); ok && s.Lock == brokenLock {
			return mistake
		}
	}
	return ""
}

// resolveLock treats an override of lock.kind as the choice of a lock under test, so that scenarios
// that do not apply to that lock are skipped. For the kind "broken" it remains an override.
func (s *Selection) resolveLock(known scenario.Known) (kind string, options map[string]string, err error) {
	twoLocks := func(one string) error {
		if i := slices.IndexFunc(s.Sets, setsKind); one != "" && i >= 0 {
			return invalid("Sets", "%s and --set %s both choose a lock", one, s.Sets[i])
		}
		return nil
	}
	if err := twoLocks(cmp.Or(s.Adapter, s.Lock)); err != nil {
		return "", nil, err
	}
	if s.Mistake() != "" {
		s.Lock, s.Sets = "", append([]string{"lock.kind=" + brokenLock}, s.Sets...)
	}
	s.Sets = slices.DeleteFunc(slices.Clone(s.Sets), func(set string) bool {
		_, named, _ := strings.Cut(set, "=")
		named = strings.TrimSpace(named)
		if _, is := known.Kinds[named]; !setsKind(set) || !is || named == brokenLock {
			return false
		}
		s.Lock = named
		return true
	})
	if s.Lock == "" {
		return "", nil, nil
	}
	if err := twoLocks("--set lock.kind=" + s.Lock); err != nil {
		return "", nil, err
	}
	s.moveOptions()
	kind, text, _ := strings.Cut(s.Lock, ":")
	k, is := known.Kinds[kind]
	switch {
	case kind == brokenLock:
		return "", nil, invalid("Lock.Mistake", "--lock broken needs a mistake")
	case !is:
		return "", nil, &SelectionError{"Lock", []string{kind}, known.Locks, fmt.Errorf("no lock kind %q", kind)}
	}
	options, err = lockOptions(kind, k, text)
	return kind, options, err
}

var kindKey = regexp.MustCompile(`(^|[{,\s"'])kind["']?\s*:`)

// setsKind reports whether an override sets the kind of lock, either directly or by setting the
// whole lock section.
func setsKind(set string) bool {
	key, value, _ := strings.Cut(set, "=")
	key = strings.TrimSpace(key)
	return key == "lock.kind" || key == "lock" && kindKey.MatchString(value)
}

// setsNodes reports whether an override sets the number of nodes.
func setsNodes(set string) bool {
	key, value, _ := strings.Cut(set, "=")
	key = strings.TrimSpace(key)
	return key == "topology.nodes" || key == "topology" && nodesKey.MatchString(value)
}

var nodesKey = regexp.MustCompile(`(^|[{,\s"'])nodes["']?\s*:`)

// optionKey is the prefix of overrides that set an option of the lock.
const optionKey = "lock.options."

// moveOptions moves overrides of lock options to Lock. They apply to the lock under test, and the
// scenarios' own locks may not have these options.
func (s *Selection) moveOptions() {
	s.Sets = slices.DeleteFunc(s.Sets, func(set string) bool {
		key, value, _ := strings.Cut(set, "=")
		option, is := strings.CutPrefix(strings.TrimSpace(key), optionKey)
		if !is {
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
func (s *Selection) Options() (sets []string) {
	_, text, _ := strings.Cut(s.Lock, ":")
	for option := range strings.SplitSeq(text, ",") {
		if option != "" {
			sets = append(sets, optionKey+option)
		}
	}
	return sets
}

// lockOptions parses the options of a lock kind, which are written as OPTION=VALUE,…
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
		return nil, invalid("Lock.Option", "lock %s has no options: %q", name, text)
	}
	for part := range strings.SplitSeq(text, ",") {
		option, value, _ := strings.Cut(part, "=")
		i := slices.IndexFunc(kind.Options, func(o lock.Option) bool { return o.Name == option })
		if i < 0 || !slices.Contains(kind.Options[i].Values, value) {
			return nil, &SelectionError{Field: "Lock.Option", Valid: all, Err: fmt.Errorf("lock %s has no option %q", name, part)}
		}
		options[option] = value
	}
	return options, nil
}

// withLock replaces a scenario's lock. It also returns the faults that the scenario's random plans
// must not use with the new lock.
func (s *Selection) withLock(original scenarios.Found, name string, options map[string]string, chosen []scenarios.Found, known scenario.Known) (p Pick, excluded []string, err error) {
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

// comparableNumbers returns the bounds on numbers for a scenario that keeps its own lock. It leaves
// out those that refer to a variant whose lock is being replaced.
func comparableNumbers(original scenarios.Found, kind string, chosen []scenarios.Found) map[string]scenario.Bound {
	if original.Lock.Kind != kind {
		return nil
	}
	numbers := maps.Clone(original.Numbers)
	maps.DeleteFunc(numbers, func(_ string, b scenario.Bound) bool {
		return slices.ContainsFunc(chosen, func(o scenarios.Found) bool {
			return o.From == original.From && cmp.Or(o.Variant, scenario.BaseVariant) == b.Variant && o.Lock.Kind != kind
		})
	})
	return numbers
}

// expect applies Sets, Demands and Expects to the expectations. A scenario's bounds on numbers and
// expected violations are valid only for its own settings, so they are dropped if Sets changes the
// settings. If a lock is under test, the guarantees required of it are still expected; otherwise
// only the safety properties are.
func (s *Selection) expect(p *Pick, kind string) error {
	if len(s.Sets) > 0 {
		p.Numbers = nil
		if kind == "" {
			p.Expect = defaultExpectations()
		} else {
			p.Expect = scenario.Guarantees(p.Expect)
		}
		if own := p.Comparison; own != nil {
			own.Expect, own.Numbers = scenario.Guarantees(own.Expect), nil
		}
	}
	for _, e := range slices.Concat(s.DefaultExpects, s.Expects) {
		name, want, ok := strings.Cut(e, "=")
		if !ok || !slices.Contains(checker.Properties(), name) || !slices.Contains([]string{wantHolds, wantViolated, wantAny}, want) {
			return &SelectionError{"Expects", []string{name}, checker.Properties(), fmt.Errorf("invalid --expect %q", e)}
		}
		p.Expect[name] = scenario.Expectation{Want: want}
	}
	scenario.AddImplied(p.Expect, p.Tier)
	return nil
}

// requireLimits drops bounded-hold from the expectations of scenarios that set no limits, because
// the property cannot be judged without them. It returns an error if Expects names the property and
// no scenario sets limits.
func (s *Selection) requireLimits(picks []Pick) error {
	limited := false
	for _, p := range picks {
		if p.Limits == (scenario.Limits{}) {
			delete(p.Expect, verdict.BoundedHold)
		} else {
			limited = true
		}
	}
	if s.hasExpectation(verdict.BoundedHold) && !limited {
		return invalid("Expects.Limits", "%s can't be judged: no selected scenario has limits", verdict.BoundedHold)
	}
	return nil
}

// scale scales the durations of a scenario for a backend in real time.
func (s *Selection) scale(p *Pick, known scenario.Known) error {
	if !s.realTime() {
		return nil
	}
	factor := cmp.Or(s.Scale, p.Scale, RealScale)
	if unit, ttl := s.TTLUnit, p.Lock.TTL; unit != 0 && ttl != 0 { // round up to the next TTL that the lock accepts
		scaled := time.Duration(float64(ttl) * factor)
		factor = float64((scaled+unit-1)/unit*unit) / float64(ttl)
	}
	p.Scenario = p.Scaled(factor)
	if own := p.Comparison; own != nil {
		*own = own.Scaled(factor)
	}
	err := p.Check(known)
	wrong, _ := errors.AsType[*scenario.Error](err)
	switch l := p.Lock; {
	case l.TTL <= 2*l.Timeout:
		return invalid("Scale.TTL", "scale %g makes the TTL of %s %v, which is too short for a node timeout of %v", factor, p.ID(), l.TTL, l.Timeout)
	case wrong != nil:
		return invalid("Scale", "scale %g makes %s invalid: %s: %s", factor, p.ID(), wrong.Field, wrong.What)
	}
	return nil
}

// Job returns the job that runs a pick once, or repeatedly until a run is decisive.
func (s *Selection) Job(p Pick, seed uint64) Job {
	j := Job{Scenario: p.Scenario, Seed: seed, Backend: s.Backend, Keep: KeepAll, Sets: s.Sets, Comparison: p.Comparison}
	if s.realTime() {
		j.Live, j.Retries = true, realRetries
	}
	if j.Comparison != nil && len(s.Sets) > 0 {
		for _, property := range checker.Properties() {
			if p.Expect[property].Want == wantHolds && !s.hasExpectation(property) {
				j.Relative = append(j.Relative, property)
			}
		}
	}
	return j
}

// hasExpectation reports whether Expects names a property.
func (s *Selection) hasExpectation(property string) bool {
	return slices.ContainsFunc(s.Expects, func(e string) bool { return strings.HasPrefix(e, property+"=") })
}

// Capabilities holds the capabilities of a backend on this machine, by name.
type Capabilities map[string]harness.Capability

// Probe finds out what a backend can do on this machine.
func Probe(ctx context.Context, b harness.Backend) Capabilities {
	a := Capabilities{}
	for _, c := range b.Probe(ctx) {
		a[c.Name] = c
	}
	return a
}

// Capability returns the named capability. If the backend does not know it, the result is a missing
// capability.
func (a Capabilities) Capability(name string) harness.Capability {
	c, known := a[name]
	if !known {
		c = harness.Capability{Name: name, Reason: cmp.Or(scenario.ExplainUnsatisfiable(name), "this backend does not have it")}
	}
	return c
}

// Missing returns the capabilities that a scenario needs but the backend does not have.
func (a Capabilities) Missing(s scenario.Scenario, kinds map[string]lock.Kind) []harness.Capability {
	var out []harness.Capability
	for _, need := range append([]string{harness.CanRun}, s.NeedsForLock(kinds[s.Lock.Kind])...) {
		if c := a.Capability(need); !c.Available {
			out = append(out, c)
		}
	}
	return out
}

// LockUnsupported is the name of the capability that is reported as missing if a scenario does not
// apply to the lock under test.
const LockUnsupported = "lock"

// MissingReasons explains why capabilities are missing.
func MissingReasons(cs []harness.Capability) string {
	var out []string
	for _, c := range cs {
		if scenario.ExplainUnsatisfiable(c.Name) != "" { // the reason already names it
			out = append(out, c.Reason)
		} else {
			out = append(out, c.Name+": "+c.Reason)
		}
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// Restrict moves the scenarios that a backend with these capabilities can't run from Picks to
// Skipped.
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
