//go:build long && !windows

package main

import (
	"context"
	"flag"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
	"lockpick/scenarios/campaign"
)

// storm returns a scenario with five clients and many kinds of fault, often at the same time. The
// plan depends only on the seed.
func storm(t *testing.T, seed uint64) scenario.Scenario {
	t.Helper()
	picks, err := choice{names: []string{"baseline/"}, overrides: []string{
		"workload={think: 5ms..200ms, hold: 10ms..500ms, for: 15s}", "lock.ttl=2s"}}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	s := picks[0].Scenario
	s.Name, s.Limit = "storm", 40*time.Second
	r := rand.New(rand.NewPCG(seed, 0))
	randomDuration := func(limit time.Duration) *time.Duration { d := time.Duration(r.Int64N(int64(limit))); return &d }
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	client := func() string { return pick("c1", "c2", "c3", "c4", "c5") }
	server := func() string { return pick("n1", "n2", "n3", "n4", "n5") }
	addStep := func(w nemesis.Trigger, f nemesis.Fault) { s.Plan = append(s.Plan, nemesis.Step{When: w, Fault: f}) }
	for range 6 {
		addStep(nemesis.Trigger{At: randomDuration(15 * time.Second)}, nemesis.Fault{Kind: "pause", Targets: []string{client()}, For: randomDuration(3 * time.Second)})
		addStep(nemesis.Trigger{At: randomDuration(15 * time.Second)}, nemesis.Fault{Kind: "kill", Targets: []string{server()}, For: randomDuration(2 * time.Second)})
		addStep(nemesis.Trigger{At: randomDuration(15 * time.Second)}, nemesis.Fault{Kind: "cut", Targets: []string{pick(client(), server(), "r1")}, For: randomDuration(2 * time.Second)})
		messageTrigger := &nemesis.OnMessage{Link: client() + "-" + server(), Message: pick("set", "release"), Of: pick("request", "reply"), Nth: 1 + r.IntN(20)}
		addStep(nemesis.Trigger{Message: messageTrigger}, nemesis.Fault{Kind: pick("hold", "cut"), Targets: []string{messageTrigger.Link}, For: randomDuration(3 * time.Second)})
		messageTrigger = &nemesis.OnMessage{Link: client() + "-r1", Message: "write", Of: pick("request", "reply"), Nth: 1 + r.IntN(10)}
		addStep(nemesis.Trigger{Message: messageTrigger}, nemesis.Fault{Kind: "pause", Targets: []string{client()}, For: randomDuration(3 * time.Second)})
		eventTrigger := &nemesis.Event{Client: client(), Event: pick("acquiring", "acquired", "writing", "releasing"), Nth: 1 + r.IntN(8), After: *randomDuration(time.Second)}
		addStep(nemesis.Trigger{Event: eventTrigger}, nemesis.Fault{Kind: "pause", Targets: slices.Compact([]string{client(), client()}), For: randomDuration(time.Second)})

		at := func() nemesis.Trigger { return nemesis.Trigger{At: randomDuration(15 * time.Second)} }
		randomTargets := func() []string { return []string{pick(client(), server(), client()+"-r1")} }
		direction := pick("", "", "request", "reply")
		addStep(at(), nemesis.Fault{Kind: "cut", Mode: pick("hold", "drop"), Way: direction, Targets: randomTargets(), For: randomDuration(2 * time.Second)})
		addStep(at(), nemesis.Fault{Kind: "cut", Mode: pick("reset", "refuse"), Targets: randomTargets(), For: randomDuration(2 * time.Second)})
		addStep(at(), nemesis.Fault{Kind: "delay", Mode: pick("even", "heavy-tailed"), Delay: nemesis.Span{Min: time.Millisecond, Max: *randomDuration(time.Second) + time.Millisecond},
			Share: r.Float64(), Way: direction, Targets: randomTargets(), For: randomDuration(3 * time.Second)})
		addStep(at(), nemesis.Fault{Kind: "throttle", Bandwidth: 500 + r.IntN(5000), Way: direction, Targets: randomTargets(), For: randomDuration(3 * time.Second)})
		addStep(at(), nemesis.Fault{Kind: "lose", Share: 0.3 * r.Float64(), Way: direction, Targets: randomTargets(), For: randomDuration(3 * time.Second)})
		lostMessage := &nemesis.OnMessage{Link: client() + "-" + server(), Message: pick("set", "release"), Of: pick("request", "reply"), Nth: 1 + r.IntN(20)}
		addStep(nemesis.Trigger{Message: lostMessage}, nemesis.Fault{Kind: "drop"})
	}
	addStep(nemesis.Trigger{At: randomDuration(15 * time.Second)}, nemesis.Fault{Kind: "kill", Targets: []string{"c5"}})
	addStep(nemesis.Trigger{At: randomDuration(15 * time.Second)}, nemesis.Fault{Kind: "kill", Targets: []string{client()}})
	return s
}

// Numbers of seeds and random plans to run twice.
var (
	numSeedPairs = flag.Uint64("pairs", map[bool]uint64{false: 1, true: 5}[night], "number of seeds to run twice for each scenario; for storms, eight times as many")
	numPlans     = flag.Uint64("plans", map[bool]uint64{false: 75, true: 1000}[night], "number of random plans to run twice")
)

// TestEverySeedTwice runs every scenario and variant, and storms, twice per seed: on one processor,
// and on two with a garbage collector that runs all the time. The results must be identical, down
// to the times of messages.
func TestEverySeedTwice(t *testing.T) {
	picks, err := choice{}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	runTwice(t, func(run func(scenario.Scenario, uint64)) {
		for seed := uint64(1); seed <= *numSeedPairs; seed++ {
			for _, p := range picks {
				run(p.Scenario, seed)
			}
		}
		for seed := uint64(1); seed <= 8**numSeedPairs; seed++ {
			run(storm(t, seed), seed)
			run(withLibrary(storm(t, seed), "redsync", false), seed)
			if seed <= *numSeedPairs { // these runs take ten times as long
				run(withLibrary(storm(t, seed), "redsync", true), seed)
			}
		}
	})
}

// TestLibrariesTwice runs storms on the other libraries and configurations twice, like
// TestEverySeedTwice. It omits rueidislock with client-side caching: if an invalidation arrives
// while a timer fires or a context ends, a select in the library chooses randomly, which can't be
// seeded. On two processors, the library's goroutines race, too.
func TestLibrariesTwice(t *testing.T) {
	runTwice(t, func(run func(scenario.Scenario, uint64)) {
		for _, kind := range libraries() {
			if kind == "redsync" || strings.HasPrefix(kind, "rueidis-") {
				continue
			}
			for seed := uint64(1); seed <= 4**numSeedPairs; seed++ {
				run(withLibrary(storm(t, seed), kind, false), seed)
			}
			run(withLibrary(storm(t, 1), kind, true), 1)
		}
	})
}

// TestHardenedTwice runs the hardened lock twice, like TestEverySeedTwice, because it works in the
// background after its calls return. It uses scenarios with a fault at a client's point (in nightly
// runs, all scenarios), and storms with and without think time.
func TestHardenedTwice(t *testing.T) {
	f := runFlags{backend: simulation, lock: "hardened", scale: 1}
	picks, _, err := f.chooseScenarios()
	if err != nil {
		t.Fatal(err)
	}
	picks = slices.DeleteFunc(picks, func(p pick) bool {
		return !night && !slices.ContainsFunc(p.Plan, func(st nemesis.Step) bool { return st.When.Point != nil })
	})
	runTwice(t, func(run func(scenario.Scenario, uint64)) {
		for seed := uint64(1); seed <= *numSeedPairs; seed++ {
			for _, p := range picks {
				run(p.Scenario, seed)
			}
			s := withLibrary(storm(t, seed), "hardened", false)
			run(s, seed)
			s.Workload.Think = client.Range{}
			run(s, seed)
		}
	})
}

// withLibrary returns s with a library's lock. If skewed is set, clients' clocks run fast or slow, so
// each client needs its own synctest bubble; otherwise one bubble contains the whole run.
func withLibrary(s scenario.Scenario, kind string, skewed bool) scenario.Scenario {
	s.Lock.Kind, s.Name = kind, s.Name+"-on-"+kind
	for i, client := range s.ClientNames() {
		if start, duration := time.Duration(i)*2*time.Second, 7*time.Second; skewed {
			s.Plan = append(s.Plan, nemesis.Step{When: nemesis.Trigger{At: &start}, Fault: nemesis.Fault{
				Kind: "clock-rate", Targets: []string{client}, Rate: 0.6 + 0.25*float64(i), For: &duration}})
		}
	}
	return s
}

// TestRandomPlansTwice runs random plans twice, half of them within the assumptions. For every third
// seed it adds a short plan with settings that make faults take effect quickly.
func TestRandomPlansTwice(t *testing.T) {
	picks, err := choice{names: []string{"random-faults/", "random-within-assumptions/", "random-settings"}}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	short := picks[2:]
	runTwice(t, func(run func(scenario.Scenario, uint64)) {
		for seed := uint64(1); seed <= *numPlans; seed++ {
			run(picks[seed%2].Scenario, seed)
			if seed%3 == 0 {
				run(short[seed/3%uint64(len(short))].Scenario, seed)
			}
		}
	})
}

// runTwice runs each scenario that all passes to run, in two processes that differ in GOMAXPROCS and
// GOGC, and compares the results. There is a pair of processes for each processor.
func runTwice(t *testing.T, forEach func(run func(scenario.Scenario, uint64))) {
	t.Helper()
	jobs := make(chan campaign.Job)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
		wg.Go(func() {
			if err := runPair(ctx, t, jobs); err != nil {
				t.Error(err)
				stop()
			}
		})
	}
	n := 0
	forEach(func(s scenario.Scenario, seed uint64) {
		select {
		case jobs <- campaign.Job{Scenario: s, Seed: seed}:
			n++
		case <-ctx.Done():
		}
	})
	close(jobs)
	wg.Wait()
	t.Logf("%d runs, each twice", n)
}

// runPair starts two processes, runs each job in both, and compares the results.
func runPair(ctx context.Context, t *testing.T, jobs <-chan campaign.Job) error {
	tracer1, err := startTracer(ctx, "GOMAXPROCS=1", "GOGC=100")
	if err != nil {
		return err
	}
	defer tracer1.stop()
	tracer2, err := startTracer(ctx, "GOMAXPROCS=2", "GOGC=5")
	if err != nil {
		return err
	}
	defer tracer2.stop()
	for j := range jobs {
		a, err := tracer1.trace(j)
		if err != nil {
			return err
		}
		b, err := tracer2.trace(j)
		if err != nil {
			return err
		}
		if d := a.diff(b); d != "" {
			t.Errorf("%s, seed %d: two runs differ in %s", j.Scenario.ID(), j.Seed, d)
		}
	}
	return nil
}
