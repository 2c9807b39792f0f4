// Package locktest puts a lock under lockpick's scenarios from a test of its author's:
//
//	var kind = lock.Kind{Name: "fair", New: New, OneNode: true, Can: lock.Powers{Extend: true}}
//
//	func TestLock(t *testing.T) { locktest.Run(t, kind, locktest.Options{}) }
//
// The lock may be in any module, which as long as lockpick isn't published needs a copy of it:
//
//	go mod edit -require=lockpick@v0.0.0 -replace=lockpick=../lockpick
//	go mod tidy
//
// testdata/example is one, whole.
//
// # The lock
//
// New is a lock.Factory. It connects to the nodes that it is given by Env.Dial, and that is all
// that ties it to the simulation. It should read Env.Now before it asks and again when it has the
// answers, and take its values from Env.Token, so that a seed gives one run. One that calls
// time.Now or time.Sleep, or whose library does, sets OwnTime; one that draws its own values
// OwnTokens. The rest of the Kind says what else the lock is, and it is held to that and to no
// more: scenarios that want what it can't do are skipped, and so are, in the simulation, those
// of faults that only real servers have.
//
// A lock that its holder can acquire again is asked to by a scenario of its author's, which says
// workload: {reenter: 2} and stands in Options.Scenarios by its file: none of lockpick's own does.
//
// Simulated nodes know the commands that locks use. Where one is missing, the failure names it;
// Options.Backend has real servers, which know all. Faults that hit the message by which a lock
// is set, extended or released find it by its command, or by what its script does. A script
// that is taken for something else names it in its first line: -- lockpick:set, extend or release.
// Its first key is the lock's, and its first argument the value.
//
// # What comes of it
//
// Each scenario, with each of its variants, is a subtest. It runs in virtual time, beside the
// same with lockpick's own lock, the control. One that fails says which property was violated
// and why, draws the sequence of events, and names the command that shows it again; the same
// seed gives the same run. With go test -artifacts its record and report.html are kept in the
// subtest's ArtifactDir. What a scenario is about, lockpick show NAME says, and lockpick help
// properties what is judged. Undecided is no pass: the run showed nothing.
//
// What a lock is held to, the scenario's tier says. "every" is for each lock: its faults hit
// clients and links, or few nodes. "quorum" is for those that count votes, which are all but a
// OneNode. Where a lock has no tier, or a property none, what came is logged.
//
// # How it works
//
// Simulated runs are done by processes of their own, which are this test's binary again: a
// lock that spins, panics or waits for ever ends one, and is the failure of one subtest, with
// the lock's goroutines. Such a process comes to Run as the test itself does, so what a test
// or its TestMain does before is done there, too; from Run it never returns. What the lock
// prints is logged. Coverage counts nothing of it.
//
// On real servers each client is a process, which Process makes of the test's binary.
//
// The lock needs no line in the table of package lock/kinds. The backends, and the clients'
// processes, are given the table by which they find a lock: here it has lockpick's own kinds,
// for the control, and the lock under test. So nothing is registered anywhere, and two tests
// may call their locks the same.
//
// Deliberately missing: containers, and locks that are not in Go.
package locktest

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/process"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/nemesis"
	"lockpick/reports/sequence"
	"lockpick/scenarios"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// Backends.
const (
	Simulation = "sim"     // virtual time, in any place that Go runs in
	Servers    = "process" // redis-server processes in real time, on Linux; see Process
)

// Options say what a lock is put under. The zero value is each scenario that has a tier for
// it, once, in the simulation.
type Options struct {
	// Scenarios are names as lockpick run takes them, or files: baseline is that with its
	// variants, baseline/ it alone, gc-pause-after-acquire/fenced a variant; globs work. Those
	// that are named run whether they have a tier or not; without one nothing is expected.
	Scenarios []string
	// Tags: only scenarios that have all of these, such as ci, clock, kleppmann.
	Tags []string
	// Seed is what is random is drawn from, 0 for 1. Seeds is how many from it on each scenario
	// runs with, 0 for one.
	Seed  uint64
	Seeds int
	// Without are scenarios to leave out, NAME or NAME/VARIANT, each with the reason, by which it
	// is skipped.
	Without map[string]string
	// Backend is Simulation, if it is "", or Servers.
	Backend string
	// Scale is the factor of all durations on real servers; 0: the scenario's, or a tenth. A
	// library with delays of its own that can't be set may need 1.
	Scale float64
	// Nodes is how many there are, for a lock that is made for another number than the
	// scenario has, mostly 5. Scenarios with faults of certain nodes are skipped then. 0: as many as there.
	Nodes int
	// NoDrift: the lock leaves no margin for clocks that run fast or slow. Nothing is expected
	// of it where one does.
	NoDrift bool
	// Set are values of the kind's own Options.
	Set map[string]string
	// Patience is how long one simulated run may take of real time; 0: 20 s. Most take
	// milliseconds. One that takes longer stands still.
	Patience time.Duration
}

// Run puts the lock under the scenarios, each in a subtest. In the simulation these are
// parallel, so they run when the calling test has returned.
func Run(t *testing.T, kind lock.Kind, o Options) {
	t.Helper()
	r := &run{Options: o, kind: kind, test: t.Name()}
	if err := r.complete(); err != nil {
		t.Fatalf("locktest: %v", err)
	}
	if os.Getenv(workerEnv) != "" {
		r.work()
	}
	all, err := r.chosen()
	if err != nil {
		t.Fatalf("locktest: %v", err)
	}
	if err := r.start(t); err != nil {
		t.Fatalf("locktest: %v", err)
	}
	for _, c := range all {
		for n := range uint64(r.Seeds) {
			name := c.name()
			if r.Seeds > 1 {
				name += fmt.Sprintf("/seed=%d", r.Seed+n)
			}
			t.Run(name, func(t *testing.T) { r.do(t, c, r.Seed+n) })
		}
	}
}

// run is one call of Run.
type run struct {
	Options
	kind  lock.Kind
	table map[string]lock.Kind
	known scenario.Known
	test  string // its name

	backend harness.Backend // of real servers; nil: workers
	able    campaign.Abilities
	workers campaign.Workers
	hung    atomic.Int32
	store   string
}

// complete fills in what was left out, and says what can't be.
func (r *run) complete() error {
	r.kind = named(r.kind)
	r.Backend, r.Seed, r.Seeds = cmp.Or(r.Backend, Simulation), cmp.Or(r.Seed, 1), cmp.Or(r.Seeds, 1)
	r.Patience = cmp.Or(r.Patience, 20*time.Second)
	if err := checkKind(r.kind); err != nil {
		return err
	}
	switch {
	case r.Seeds < 0 || r.Nodes < 0 || r.Scale < 0 || r.Patience < 0:
		return fmt.Errorf("an option is negative: %+v", r.Options)
	case r.Backend != Simulation && r.Backend != Servers:
		return fmt.Errorf("there is no backend %q: use %q or %q", r.Backend, Simulation, Servers)
	case r.Backend == Simulation && r.Scale != 0:
		return fmt.Errorf("a scale is for real servers: the simulation has all the time it needs")
	case r.Backend == Servers && !slices.ContainsFunc(clients, func(k lock.Kind) bool { return named(k).Name == r.kind.Name }):
		return fmt.Errorf("the clients on real servers are processes of this test's binary: add\n\n\tfunc TestMain(m *testing.M) { locktest.Process(m, kind) }\n\nwith the kind that is called %q", r.kind.Name)
	}
	for name, value := range r.Set {
		i := slices.IndexFunc(r.kind.Options, func(o lock.Option) bool { return o.Name == name })
		if i < 0 || !slices.Contains(r.kind.Options[i].Values, value) {
			return fmt.Errorf("the kind %s has no option %s=%s", r.kind.Name, name, value)
		}
	}
	r.table = tableWith(r.kind)
	r.known = campaign.KnownLocks(r.table)
	r.known.Backends = []string{Simulation, Servers}
	return nil
}

// named is the kind with a name.
func named(k lock.Kind) lock.Kind {
	k.Name = cmp.Or(k.Name, "lock")
	return k
}

func checkKind(k lock.Kind) error {
	_, known := kinds.All[k.Name]
	switch {
	case k.New == nil:
		return fmt.Errorf("the kind %s has no factory: set New", k.Name)
	case known:
		return fmt.Errorf("lockpick itself has a kind %s: call this one otherwise (Name)", k.Name)
	case strings.Trim(k.Name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return fmt.Errorf("the kind's name %q has more than lower-case letters, digits and hyphens", k.Name)
	}
	return nil
}

// tableWith is lockpick's own kinds, for the control, and more.
func tableWith(more ...lock.Kind) map[string]lock.Kind {
	table := maps.Clone(kinds.All)
	for _, k := range more {
		table[named(k).Name] = k
	}
	return table
}

// start gets ready what the subtests share.
func (r *run) start(t *testing.T) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the test's binary: %w", err)
	}
	var b harness.Backend = sim.New(r.table)
	if r.Backend == Servers {
		if _, err := exec.LookPath("redis-server"); err != nil {
			t.Skip("redis-server is not on PATH: apt-get install redis-server")
		}
		b = process.New(process.Config{Self: append([]string{self, clientVerb}, ownFlags()...)})
		r.backend = b
	}
	r.able = campaign.Probe(t.Context(), b)
	if c := r.able.Of(harness.CanRun); !c.Available {
		t.Skipf("%s: %s: %s", b.Name(), c.Reason, c.Remedy)
	}
	r.store = t.TempDir()
	r.hire(t, self)
	return nil
}

// do is one subtest.
func (r *run) do(t *testing.T, c choice, seed uint64) {
	if why := cmp.Or(r.Without[c.ID()], r.Without[c.Name], c.skip, r.lacks(t, c.Scenario)); why != "" {
		t.Skip(why)
	}
	j := campaign.Job{Scenario: c.Scenario, Seed: seed, Backend: r.Backend, Store: r.store, Keep: campaign.KeepUnexpected, Reports: campaign.KeepNone,
		Command: again(t.Name()), Control: &c.own}
	if keepsArtifacts() {
		j.Reports = campaign.KeepAll
	}
	if r.backend != nil {
		j.Live, j.Retries = true, mostTries
		r.tell(t, c, campaign.Execute(t.Context(), r.backend, j), "")
		return
	}
	t.Parallel()
	o, said := r.simulate(t, j)
	if o.Code == outcome.ExitUndecided && slices.ContainsFunc(c.Plan, scenario.DuringAcquire) {
		t.Skipf("this lock does not look at Env.Now twice in an acquire (one that calls time.Now sets OwnTime), and so never comes to the point %s: %s",
			client.DuringAcquire, o.Judgements[0].Because)
	}
	r.tell(t, c, o, said)
}

// mostTries is how often a run is tried again that showed nothing. In the simulation that is
// with other seeds: dice may spare a lock that asks little, and the same ones always do.
const mostTries = 5

// simulate has a job done by a worker. said is what the lock has printed.
func (r *run) simulate(t *testing.T, j campaign.Job) (o outcome.Outcome, said string) {
	w := <-r.workers.Idle
	defer func() { r.workers.Idle <- w }()
	for range mostTries {
		if r.hung.Load() >= mostHung {
			t.Skipf("%d runs before did not end", mostHung)
		}
		o, said = w.Do(t.Context(), j), w.Said()
		if o.Error != "" { // goroutines may be left of it
			w.Stop()
		}
		if strings.HasPrefix(o.Error, campaign.TooLong) {
			r.hung.Add(1)
		}
		if o.Error != "" || o.Code != outcome.ExitUndecided {
			break
		}
		j.Seed += uint64(r.Seeds)
	}
	return o, said
}

// mostHung is how many runs may take all of their time. A lock that stands still once does so
// in most of them.
const mostHung = 3

// lacks is what a scenario needs that can't be had here, "" for nothing. Where that could not be
// found out, the test fails.
func (r *run) lacks(t *testing.T, s scenario.Scenario) string {
	var lacks []string
	for _, c := range r.able.Missing(s, r.table) {
		if c.Unknown {
			t.Fatalf("%s: %s: %s", c.Name, c.Reason, c.Remedy)
		}
		lacks = append(lacks, c.Name+": "+c.Reason)
	}
	return strings.Join(lacks, "; ")
}

// again is the command that runs one subtest again, in its package's folder.
func again(test string) string {
	command := fmt.Sprintf("go test -run '%s' -artifacts .", pattern(test))
	for _, own := range ownFlags() {
		command += fmt.Sprintf(" '%s'", own)
	}
	return command
}

// choice is one variant of a scenario, with the lock under test.
type choice struct {
	scenario.Scenario
	own  scenario.Scenario // with its own lock
	skip string            // why it is not for this lock; "": it is
}

// name is that of the subtest. Without a word for the base, -run could not name it alone.
func (c choice) name() string {
	if c.Variant == "" {
		return c.Name + "/" + scenario.BaseVariant
	}
	return c.ID()
}

// chosen are the scenarios that the options ask for, in the order of the catalogue.
func (r *run) chosen() ([]choice, error) {
	all, _, err := scenarios.Choose(r.Scenarios, r.Tags, r.known, nil)
	if err != nil {
		return nil, unknown(err)
	}
	var out []choice
	for _, f := range all {
		if r.Scenarios != nil || r.tiered(f.Scenario) {
			out = append(out, r.choice(f.Scenario))
		}
	}
	for name := range r.Without {
		if _, err := scenarios.Find(name, r.known, nil); err != nil {
			return nil, unknown(err)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no scenario is chosen by names %q and tags %q: see lockpick list", r.Scenarios, r.Tags)
	}
	return out, nil
}

func unknown(err error) error { return fmt.Errorf("%w: see lockpick list", err) }

// tiered says whether a scenario is one of those that the lock is put under where none is named.
func (r *run) tiered(s scenario.Scenario) bool {
	return s.Lock.Mistake == "" && (s.Tier == scenario.TierEvery || s.Tier == scenario.TierQuorum && !r.kind.OneNode)
}

// choice puts the lock under a scenario, or says why it is not for it.
func (r *run) choice(own scenario.Scenario) choice {
	c := choice{Scenario: own, own: own}
	s, err := own.With(r.kind.Name, r.kind)
	if err == nil && r.Nodes != 0 && s.Topology.Nodes != r.Nodes && !r.kind.OneNode {
		s, err = resized(s, r.Nodes)
	}
	if err == nil {
		s = s.Having(r.kind, r.Set)
		if r.kind.OwnTime && r.Backend == Simulation {
			s, _ = s.Unturned()
		}
		if r.NoDrift {
			s = undrifted(s)
		}
		if r.Backend == Servers {
			factor := cmp.Or(r.Scale, s.Scale, campaign.RealScale)
			s, c.own = s.Scaled(factor), own.Scaled(factor)
		}
		err = s.Check(r.known)
	}
	if err != nil {
		c.skip = err.Error()
		return c
	}
	c.Scenario = s
	return c
}

// resized is the scenario with another number of nodes, unless that would change what it is
// about: two nodes are few of five, and most of three.
func resized(s scenario.Scenario, nodes int) (scenario.Scenario, error) {
	names := s.NodeNames()
	of := func(target string) bool {
		_, end, isLink := nemesis.SplitLink(target)
		return slices.Contains(names, target) || isLink && slices.Contains(names, end)
	}
	certain := len(s.Topology.Addresses) > 0 ||
		slices.ContainsFunc(s.Clients, func(c scenario.Client) bool { return c.Reach != nil }) ||
		slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool {
			return slices.ContainsFunc(st.Fault.Targets, of) || st.When.Message != nil && of(st.When.Message.Link)
		})
	if certain {
		return s, fmt.Errorf("it is about certain ones of %d nodes, and here are %d", len(names), nodes)
	}
	s.Topology.Nodes = nodes
	return s, nil
}

// undrifted is the scenario for a lock that claims no margin for clocks that run fast or slow:
// dice leave them alone, and where the plan has one, nothing is expected.
func undrifted(s scenario.Scenario) scenario.Scenario {
	drifts := func(k nemesis.Kind) bool { return k.Power == nemesis.PowerClock && !k.Sets }
	if s.Random != nil {
		random, _ := s.Random.Without(func(c nemesis.Choice) bool { return drifts(c.Kind) })
		s.Random = &random
	}
	if slices.ContainsFunc(s.Plan, func(st nemesis.Step) bool {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		return drifts(kind)
	}) {
		s.Expect = maps.Clone(s.Expect)
		for property := range s.Expect {
			s.Expect[property] = scenario.Expectation{Want: outcome.AnyOutcome}
		}
	}
	return s
}

// tell reports what came of a subtest: an error of the test where it was not as expected.
func (r *run) tell(t *testing.T, c choice, o outcome.Outcome, said string) {
	t.Helper()
	if o.Code == outcome.ExitOK {
		t.Log(strings.Join(append(judged(o.Judgements, outcome.Judgement.Tells), printed(said)...), "\n"))
		return
	}
	parts := []string{fmt.Sprintf("%s, seed %d: %s", o.Scenario, o.Seed, c.Claim)}
	parts = append(parts, judged(o.Judgements, func(j outcome.Judgement) bool { return !j.AsExpected })...)
	if o.Error != "" {
		parts = append(parts, failed(o, stacks(said, packageOf(r.kind.New))))
	} else {
		parts = append(append(parts, r.diagram(o)...), printed(said)...)
	}
	for _, earlier := range o.Retried {
		parts = append(parts, "an earlier try did not count: "+earlier)
	}
	t.Errorf("\n%s\n\nrun again: %s\n%s", strings.Join(parts, "\n\n"), o.Command, keep(t, o.Dir))
}

// judged are judgements in words, those that are wanted. What has one reason stands together.
func judged(all []outcome.Judgement, wanted func(outcome.Judgement) bool) (out []string) {
	var because string
	for _, j := range all {
		if !wanted(j) || j.Follows != "" && j.AsExpected {
			continue
		}
		if n := len(out); n > 0 && j.Because == because {
			out[n-1] = strings.TrimSuffix(out[n-1], ": "+because) + "\n"
		} else {
			out = append(out, "")
		}
		because = j.Because
		out[len(out)-1] += j.String() + ": " + because
	}
	return out
}

// mostWhy bounds what is told of an error: each client may have one, with its stack.
const mostWhy = 2000

// failed is why a run could not be judged, and where the lock stood.
func failed(o outcome.Outcome, where string) string {
	why, _, _ := strings.Cut(o.Error, "; its stacks are in ")
	if len(why) > mostWhy {
		why = why[:mostWhy] + " …"
	}
	if strings.HasPrefix(why, campaign.TooLong) {
		why += "\nVirtual time goes on while goroutines wait for each other, for their timers or for the nodes. It stands still while one computes,\n" +
			"or waits for what is not in the simulation: a connection that Env.Dial did not make, or a channel or mutex from before New."
	}
	return strings.TrimSpace(why + "\n\n" + where)
}

// diagram draws the violation that was not expected, or else what happened.
func (r *run) diagram(o outcome.Outcome) []string {
	s, err := campaign.OpenStored(o.Dir, r.known)
	if err != nil {
		return []string{"no diagram: " + err.Error()}
	}
	v := checker.Check(s.History)
	for _, j := range o.Judgements {
		if x := v.Result(j.Property); x != nil && !j.AsExpected && x.Outcome == verdict.Violated && x.Witness != nil {
			return []string{drawn(sequence.Of(s.History, x))}
		}
	}
	return []string{drawn(sequence.Tell(s.History, v))}
}

func drawn(d sequence.Diagram) string {
	return strings.TrimSpace(sequence.Text(d, sequence.DefaultWidth))
}

// mostPrinted bounds what is repeated of what the lock has printed: the end counts.
const mostPrinted = 4000

func printed(said string) []string {
	if said = strings.TrimSpace(said); said == "" {
		return nil
	}
	return []string{"The lock has printed:\n" + said[max(0, len(said)-mostPrinted):]}
}

// keepsArtifacts says whether this test was run with -artifacts.
func keepsArtifacts() bool {
	f := flag.Lookup("test.artifacts")
	return f != nil && f.Value.String() == "true"
}

// keep leaves a run's folder among the test's artifacts, where these are kept, and says where.
func keep(t *testing.T, dir string) string {
	t.Helper()
	if dir == "" {
		return ""
	}
	if !keepsArtifacts() {
		return "-artifacts keeps its record and report.html"
	}
	to := t.ArtifactDir()
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		return "its record could not be kept: " + err.Error()
	}
	return "record and report.html: " + to
}
