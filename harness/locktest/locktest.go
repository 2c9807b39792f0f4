// Package locktest runs lockpick's scenarios against your lock from a Go test:
//
//	var kind = lock.Kind{Name: "fair", New: New, OneNode: true, Can: lock.Features{Extend: true}}
//
//	func TestLock(t *testing.T) { locktest.Run(t, kind, locktest.Options{}) }
//
// The lock may be in any module. To keep that module's dependencies unchanged, put the test into a
// module of its own. In the folder of the lock's module, run
//
//	mkdir locktest
//	cd locktest
//	go mod init example.org/app/locktest
//	go mod edit -require=example.org/app@v0.0.0 -replace=example.org/app=..
//	go mod edit -require=lockpick@v0.0.0 -replace=lockpick=../../lockpick
//
// with your module's path in place of example.org/app, and the path of your copy of lockpick in place
// of ../../lockpick. Write the test, and run go mod tidy and go test in the new folder. The lock's
// module keeps its go.mod and go.sum, and its go test ./... skips the folder. If both modules need
// the same dependency, the test uses the newer of the two versions.
//
// testdata/app is a module with such a test, and testdata/example is a complete example of a lock.
// redsync_test.go and redislock_test.go show three ways of wrapping a library: with its own settings,
// with those of the scenario, and with Env.ForLibrary.
//
// # The lock
//
// New is a lock.Factory. It must connect to the given nodes with Env.Dial, which is the only
// requirement of the simulation. It should read Env.Now before it sends requests and again when it
// has the answers, and take its values from Env.Token and its delays from Env.Delay, so that a seed
// always produces the same run. Set OwnTime if the lock or its library calls time.Now or time.Sleep,
// and OwnTokens if it draws its own values. The other fields of Kind describe further properties.
// Scenarios that need unsupported features are skipped. The simulation skips scenarios with faults
// that affect only real servers, too.
//
// None of lockpick's own scenarios tests reentrancy. To test it, write a scenario file with
// workload: {reenter: 2} and list it in Options.Scenarios.
//
// Simulated nodes support the commands that locks use. If a command is missing, the result names
// it. In that case, use real servers (Options.Backend), which support all commands. Some faults
// affect messages that set, extend or release a lock. lockpick recognizes these messages by their
// command, or by the effect of their script. If it misclassifies a script, add a first line to the
// script: -- lockpick:set, -- lockpick:extend or -- lockpick:release. The script's first key must
// then be the lock's key, and its first argument the value.
//
// # Settings
//
// Every scenario has its own Settings for the lock, such as its TTL. If the lock ignores them, set
// Options.TTL to its own TTL and Options.Tries to its number of tries, if it has one. Otherwise the
// scenario expects keys to expire earlier or later than they do.
//
// Take care of zeros when you pass Settings to a library. If Tries is 0, Acquire must try until its
// context is done, but redsync.WithTries(0) never tries, and redislock doesn't retry without a
// RetryStrategy or after a delay of 0. Obtain of redislock gives up after one TTL, unless its
// context has a deadline. A Drift of 0 means no margin, also to redsync. Env.ForLibrary replaces each
// zero that means a default.
//
// # Results
//
// Each scenario, and each of its variants, is a subtest. It runs in virtual time, together with a
// comparison run of the same scenario with lockpick's own lock. A subtest fails only if the lock
// violates a required property, panics, hangs or can't be created, or if the machine fails. The
// failure reports the violated property and its cause, draws the sequence of events, and prints the
// command to reproduce it. The same seed always produces the same run, unless the lock draws random
// numbers itself. With go test -artifacts, the history and report.html are saved in the subtest's
// ArtifactDir. lockpick show NAME describes a scenario, and lockpick help properties explains the
// properties.
//
// An inconclusive run shows nothing about the lock, for example because no client acquired it. Its
// subtest is skipped with the reason, which is not a pass. Often the lock gave up: its Acquire
// returned an error although its client still waited. The reason then includes these errors and the
// number of tries. If all subtests are skipped, the test fails.
//
// The scenario's tier decides what is required of a lock. Tier "every" applies to every lock: its
// faults hit clients, links, or a few nodes. Tier "quorum" applies to locks that count votes, which
// means all locks without OneNode. If the scenario has no tier for the lock, or the tier does not
// require the property, the result is logged and can't fail the test. With Options.TTL or Tries,
// a property is required only if it holds in the comparison run with the same settings.
//
// # How it works
//
// Separate processes of this test's binary execute simulated runs. A lock that spins, panics or
// hangs thus ends only its own process and fails a single subtest, which prints the lock's
// goroutines. Each of these processes runs the test itself until it reaches Run, so it executes
// code before Run, and in TestMain, too. Run never returns in these processes. The lock's output is
// logged. Coverage doesn't include these processes.
//
// On real servers, each client is a process of the test's binary; see Process.
//
// The lock needs no entry in the table of package lock/kinds. Backends and client processes look up
// locks in a table of kinds that is passed to them. Here that table contains lockpick's own kinds,
// for the comparison runs, and the lock under test. Nothing is registered globally, so two tests
// may use the same name for their locks.
//
// Deliberately missing: containers, and locks that are not written in Go.
package locktest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/process"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/nemesis"
	"lockpick/scenarios"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// Possible values of Options.Backend.
const (
	Simulation = "sim"     // virtual time, wherever Go runs
	Servers    = "process" // redis-server processes in real time, on Linux; see Process
)

// Options selects the scenarios and settings. With the zero value, each scenario that has a tier
// for the lock runs once in the simulation.
type Options struct {
	// Scenarios lists names as in lockpick run, or files: baseline includes its variants,
	// baseline/ is the base alone, and gc-pause-after-acquire/fenced is a variant. Globs are
	// supported. Named scenarios run even without a tier, but then nothing is required of the
	// lock.
	Scenarios []string
	// Tags selects scenarios that have all these tags, such as ci, clock or kleppmann.
	Tags []string
	// Seed is the first random seed; 0 means 1. Seeds is the number of consecutive seeds for each
	// scenario; 0 means 1.
	Seed  uint64
	Seeds int
	// Without lists scenarios to skip, as NAME or NAME/VARIANT, with the reasons.
	Without map[string]string
	// Backend is Simulation or Servers. The default is Simulation.
	Backend string
	// Scale multiplies all durations on real servers. The default is the scenario's own factor, or
	// 0.1. A library with fixed delays may need 1.
	Scale float64
	// TTL replaces Settings.TTL in all scenarios, as in lockpick run --set lock.ttl=8s. Set it if the
	// lock has a TTL of its own. On real servers it is scaled, so such a lock needs a Scale of 1.
	// Scenarios that are invalid with this TTL are skipped. 0 means the scenario's TTL. It never means
	// a key without expiry, as in some libraries: every scenario expects keys to expire.
	TTL time.Duration
	// Tries replaces Settings.Tries in all scenarios. Set it if the lock's Acquire always gives up
	// after a number of tries. 0 means the scenario's value, which usually is 0, too: in Settings, that
	// means no limit. It never means no try at all, as in some libraries.
	Tries int
	// Nodes is the number of nodes, for a lock that can't use the scenario's number, which is usually
	// 5; 0 means the scenario's number. Scenarios with a single node keep it, and those that make no
	// sense with this number are skipped; see lockpick help scenario-format.
	Nodes int
	// NoDrift means that the lock has no safety margin for clocks that run fast or slow. In
	// scenarios with clock drift, nothing is then required of the lock.
	NoDrift bool
	// Set contains values for the kind's Options.
	Set map[string]string
	// Patience limits the real time that a simulated run may take; 0 means 20 s. Most runs take
	// milliseconds. A run that exceeds the limit counts as hung.
	Patience time.Duration
}

// Run runs the scenarios against the lock, each in a subtest. In the simulation, the subtests are
// parallel, so they run after the calling test has returned.
func Run(t *testing.T, kind lock.Kind, o Options) {
	t.Helper()
	r := &run{Options: o, kind: kind, testName: t.Name()}
	if err := r.complete(); err != nil {
		t.Fatalf("locktest: %v", err)
	}
	if os.Getenv(workerEnv) != "" {
		r.work()
	}
	selected, err := r.chooseScenarios()
	if err != nil {
		t.Fatalf("locktest: %v", err)
	}
	if err := r.start(t); err != nil {
		t.Fatalf("locktest: %v", err)
	}
	t.Cleanup(func() { r.requireExercise(t, len(selected)*r.Seeds) })
	for _, c := range selected {
		for n := range uint64(r.Seeds) {
			name := c.name()
			if r.Seeds > 1 {
				name += fmt.Sprintf("/seed=%d", r.Seed+n)
			}
			t.Run(name, func(t *testing.T) { r.runSubtest(t, c, r.Seed+n) })
		}
	}
}

// run is the state of one call of Run.
type run struct {
	Options
	kind       lock.Kind
	kindTable  map[string]lock.Kind
	knownLocks scenario.KnownNames
	testName   string // the test's name

	backend           harness.Backend // for real servers; nil in the simulation, which uses workers
	capabilities      campaign.Capabilities
	workers           campaign.Workers
	hungRuns          atomic.Int32
	finished, skipped atomic.Int32 // number of subtests
	storeDir          string
}

// complete fills in defaults and rejects invalid options.
func (r *run) complete() error {
	r.kind = withName(r.kind)
	r.Backend, r.Seed, r.Seeds = cmp.Or(r.Backend, Simulation), cmp.Or(r.Seed, 1), cmp.Or(r.Seeds, 1)
	r.Patience = cmp.Or(r.Patience, 20*time.Second)
	if err := checkKind(r.kind); err != nil {
		return err
	}
	switch {
	case r.Seeds < 0 || r.Nodes < 0 || r.Scale < 0 || r.Patience < 0:
		return fmt.Errorf("an option is negative: %+v", r.Options)
	case r.TTL < 0:
		return fmt.Errorf("option TTL is %v: use the lock's TTL, or 0 for the scenario's. In some libraries, 0 or less means a key without expiry, but every scenario expects keys to expire", r.TTL)
	case r.Tries < 0:
		return fmt.Errorf("option Tries is %d: use the number of tries after which Acquire gives up, or 0 for the scenario's number, usually no limit. In some libraries, 0 or less means no try, or no limit", r.Tries)
	case r.Nodes > scenario.MaxNodes:
		return fmt.Errorf("option Nodes is %d: use at most %d", r.Nodes, scenario.MaxNodes)
	case r.Backend != Simulation && r.Backend != Servers:
		return fmt.Errorf("unknown backend %q: use %q or %q", r.Backend, Simulation, Servers)
	case r.Backend == Simulation && r.Scale != 0:
		return fmt.Errorf("option Scale is only for real servers: the simulation runs in virtual time")
	case r.Backend == Servers && !slices.ContainsFunc(clients, func(k lock.Kind) bool { return withName(k).Name == r.kind.Name }):
		return fmt.Errorf("on real servers, the clients are processes of this test's binary: add\n\n\tfunc TestMain(m *testing.M) { locktest.Process(m, kind) }\n\nfor the kind named %q", r.kind.Name)
	}
	for name, value := range r.Set {
		i := slices.IndexFunc(r.kind.Options, func(o lock.Option) bool { return o.Name == name })
		if i < 0 || !slices.Contains(r.kind.Options[i].Values, value) {
			return fmt.Errorf("kind %q has no option %s=%s", r.kind.Name, name, value)
		}
	}
	r.kindTable = tableWith(r.kind)
	r.knownLocks = campaign.KnownLocks(r.kindTable)
	r.knownLocks.Backends = []string{Simulation, Servers}
	return nil
}

// withName returns the kind with a default name if it has none.
func withName(k lock.Kind) lock.Kind {
	k.Name = cmp.Or(k.Name, "lock")
	return k
}

func checkKind(k lock.Kind) error {
	_, known := kinds.All[k.Name]
	switch {
	case k.New == nil:
		return fmt.Errorf("kind %q has no factory: set New", k.Name)
	case known:
		return fmt.Errorf("lockpick already has a kind named %q: set another Name", k.Name)
	case strings.Trim(k.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return fmt.Errorf("invalid kind name %q: use lowercase letters, digits and hyphens", k.Name)
	}
	return nil
}

// tableWith returns a table of the given kinds and lockpick's own kinds, for comparison runs.
func tableWith(added ...lock.Kind) map[string]lock.Kind {
	table := maps.Clone(kinds.All)
	for _, k := range added {
		table[withName(k).Name] = k
	}
	return table
}

// start prepares what the subtests share.
func (r *run) start(t *testing.T) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the test's binary: %w", err)
	}
	var b harness.Backend = sim.New(r.kindTable)
	if r.Backend == Servers {
		if _, err := exec.LookPath("redis-server"); err != nil {
			t.Skip("redis-server is not on PATH: apt-get install redis-server")
		}
		b = process.New(process.Config{Self: append([]string{self, clientVerb}, customFlags()...)})
		r.backend = b
	}
	r.capabilities = campaign.Probe(t.Context(), b)
	if c := r.capabilities.Capability(harness.RunCapability); !c.Available {
		t.Skipf("%s: %s: %s", b.Name(), c.Reason, c.Remedy)
	}
	r.storeDir = t.TempDir()
	r.startWorkers(t, self)
	return nil
}

func (r *run) runSubtest(t *testing.T, c choice, seed uint64) {
	defer r.count(t)
	if reason := cmp.Or(r.Without[c.ID()], r.Without[c.Name], c.skipReason, r.unmetNeeds(t, c.Scenario)); reason != "" {
		t.Skip(reason)
	}
	j := c.selection.Job(c.Pick, seed)
	j.Store, j.Keep, j.Reports, j.Command = r.storeDir, campaign.KeepUnexpected, campaign.KeepNone, rerunCommand(t.Name())
	if keepsArtifacts() {
		j.Reports = campaign.KeepAll
	}
	if r.backend != nil {
		r.report(t, c, campaign.Execute(t.Context(), r.backend, j), "")
		return
	}
	t.Parallel()
	o, output := r.simulate(t, j)
	r.report(t, c, o, output)
}

// maxRuns is how often an inconclusive run is repeated. In the simulation each run uses a different seed,
// because a seed always gives the same result, and with some seeds all faults miss a lock that
// sends few requests.
const maxRuns = 5

// simulate runs a job on a worker. output is what the lock printed.
func (r *run) simulate(t *testing.T, j campaign.Job) (o outcome.Outcome, output string) {
	w := <-r.workers.Idle
	defer func() { r.workers.Idle <- w }()
	for range maxRuns {
		if r.hungRuns.Load() >= maxHung {
			t.Skipf("%d earlier runs hung", maxHung)
		}
		o, output = w.Do(t.Context(), j), w.Output()
		if o.Error != "" { // the run's goroutines may still exist
			w.Stop()
		}
		if strings.HasPrefix(o.Error, campaign.TimeoutMessage) {
			r.hungRuns.Add(1)
		}
		if o.Error != "" || o.Code != outcome.ExitUndecided {
			break
		}
		j.Seed += uint64(r.Seeds)
	}
	return o, output
}

// maxHung is how many runs may hang before the remaining runs are skipped. A lock that hangs in one
// run usually hangs in most of them.
const maxHung = 3

// unmetNeeds lists what the scenario needs but is unavailable here, or returns "". It fails the
// test if that can't be determined.
func (r *run) unmetNeeds(t *testing.T, s scenario.Scenario) string {
	var reasons []string
	for _, c := range r.capabilities.Missing(s, r.kindTable) {
		if c.Unknown {
			t.Fatalf("%s: %s: %s", c.Name, c.Reason, c.Remedy)
		}
		reasons = append(reasons, c.Name+": "+c.Reason)
	}
	return strings.Join(reasons, "; ")
}

// rerunCommand returns the command that repeats one subtest, for use in the package's folder.
func rerunCommand(test string) string {
	command := fmt.Sprintf("go test -run '%s' -artifacts .", pattern(test))
	for _, flag := range customFlags() {
		command += fmt.Sprintf(" '%s'", flag)
	}
	return command
}

// choice is one variant of a scenario, adapted to the lock under test.
type choice struct {
	campaign.Pick
	selection  campaign.Selection
	skipReason string // why the scenario doesn't apply to the lock under test, or ""
}

// name returns the subtest's name. The base has a name of its own so that -run can select it alone.
func (c choice) name() string {
	if c.Variant == "" {
		return c.Name + "/" + scenario.BaseVariant
	}
	return c.ID()
}

// chooseScenarios returns the scenarios selected by the options, in catalog order. It returns an
// error if the options make all of them invalid.
func (r *run) chooseScenarios() (out []choice, err error) {
	found, _, err := scenarios.Choose(r.Scenarios, r.Tags, r.knownLocks, scenario.ParseOptions{})
	if err != nil {
		return nil, withListHint(err)
	}
	var invalid error // the first scenario's
	valid := false
	for _, f := range found {
		if r.Scenarios == nil && !r.hasTier(f.Scenario) {
			continue
		}
		c, err := r.choice(f)
		if err != nil {
			invalid = cmp.Or(invalid, fmt.Errorf("%s: %w", f.ID(), err))
			c.skipReason = err.Error()
		} else {
			valid = true
		}
		out = append(out, c)
	}
	for name := range r.Without {
		if _, err := scenarios.Find(name, r.knownLocks, scenario.ParseOptions{}); err != nil {
			return nil, withListHint(err)
		}
	}
	switch {
	case len(out) == 0:
		return nil, fmt.Errorf("no scenario matches names %q and tags %q: see lockpick list", r.Scenarios, r.Tags)
	case !valid:
		return nil, invalid
	}
	return out, nil
}

func withListHint(err error) error { return fmt.Errorf("%w: see lockpick list", err) }

// hasTier reports whether a scenario runs if the options name no scenarios.
func (r *run) hasTier(s scenario.Scenario) bool {
	return s.Lock.Mistake == "" && (s.Tier == scenario.TierEvery || s.Tier == scenario.TierQuorum && !r.kind.OneNode)
}

// choice applies a scenario to the lock under test, or sets skipReason if that isn't possible. It
// returns an error if the options don't fit the scenario.
func (r *run) choice(f scenarios.Found) (choice, error) {
	c := choice{Pick: campaign.Pick{Found: f}}
	c.selection = campaign.Selection{Names: []string{f.ExactName()}, Lock: r.kind.Name, Nodes: r.Nodes, Overrides: r.overrides(), Backend: r.Backend, Scale: r.Scale}
	selected, err := c.selection.Choose(r.knownLocks)
	switch {
	case err != nil:
		if e, ok := errors.AsType[*scenario.Error](err); ok {
			err = errors.New(strings.TrimPrefix(e.Message, "in variant "+f.Variant+": ")) // the position and the hint refer to the file
		}
		return c, fmt.Errorf("invalid%s: %w", r.describeChanges(), err)
	case len(selected.Skipped) > 0:
		c.skipReason = selected.Skipped[0].Reason.Error()
		return c, nil
	}
	c.Pick = selected.Picks[0]
	if r.TTL != 0 && slices.ContainsFunc(c.Clients, func(client scenario.Client) bool { return client.TTL != 0 }) {
		c.skipReason = fmt.Sprintf("its clients have different TTLs, but Options.TTL says that the lock always uses %v", r.TTL)
		return c, nil
	}
	s := c.WithOptions(r.kind, r.Set)
	if r.NoDrift {
		s = withoutDriftFaults(s)
	}
	if err := s.Check(r.knownLocks); err != nil {
		c.skipReason = err.Error()
		return c, nil
	}
	c.Scenario = s
	return c, nil
}

// overrides returns the settings that the options change in each scenario.
func (r *run) overrides() (out []string) {
	if r.TTL != 0 {
		out = append(out, "lock.ttl="+r.TTL.String())
	}
	if r.Tries != 0 {
		out = append(out, "lock.tries="+strconv.Itoa(r.Tries))
	}
	return out
}

// describeChanges lists the options that change scenarios.
func (r *run) describeChanges() string {
	var changes []string
	if r.TTL != 0 {
		changes = append(changes, fmt.Sprintf("TTL %v", r.TTL))
	}
	if r.Tries != 0 {
		changes = append(changes, fmt.Sprintf("Tries %d", r.Tries))
	}
	if r.Nodes != 0 {
		changes = append(changes, fmt.Sprintf("Nodes %d", r.Nodes))
	}
	if r.Scale != 0 {
		changes = append(changes, fmt.Sprintf("Scale %g", r.Scale))
	}
	if len(changes) == 0 {
		return ""
	}
	return " with " + strings.Join(changes, ", ")
}

// withoutDriftFaults returns the scenario for a lock without a margin for clock drift. In the
// result, random plans don't change clock rates, and nothing is required of the lock if a fixed
// plan does.
func withoutDriftFaults(s scenario.Scenario) scenario.Scenario {
	changesRate := func(k nemesis.Kind) bool { return k.CapabilityName == nemesis.ClockCapability && !k.SetsClock }
	if s.Random != nil {
		random, _ := s.Random.Without(func(c nemesis.Choice) bool { return changesRate(c.Kind) })
		s.Random = &random
	}
	if slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		return changesRate(kind)
	}) {
		s.Expect = maps.Clone(s.Expect)
		for property := range s.Expect {
			s.Expect[property] = scenario.Expectation{Want: outcome.AnyOutcome}
		}
	}
	return s
}
