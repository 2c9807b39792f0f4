//go:build unix

package main

import (
	"maps"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/lock/redlock"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// BenchmarkMinute measures a minute of virtual time with five clients and five nodes, including
// recording and checking the history.
func BenchmarkMinute(b *testing.B) {
	benchRuns(b, kinds.All, baseline(b, "workload={think: 50ms..500ms, hold: 100ms..2s, for: 60s}"))
}

// BenchmarkBaseline measures the scenario baseline with the hardened lock on each of its drivers.
func BenchmarkBaseline(b *testing.B) {
	for driver, wire := range map[string]string{"go-redis": "no", "wire": "yes"} {
		b.Run(driver, func(b *testing.B) {
			locks := maps.Clone(kinds.All)
			locks["redlock"] = lock.Kind{Can: kinds.All["redlock"].Can, New: func(env lock.Env) (lock.Lock, error) {
				env.Settings.Options = map[string]string{"wire": wire}
				return redlock.Hardened(env)
			}}
			benchRuns(b, locks, baseline(b))
		})
	}
}

// BenchmarkSecondCore compares sweeps of sixty runs with one worker and with two. It needs two idle
// cores.
func BenchmarkSecondCore(b *testing.B) {
	s, durations := baseline(b), map[int]time.Duration{}
	for b.Loop() {
		for _, workers := range []int{1, 2} {
			start := time.Now()
			campaign.Pool{Command: []string{"lockpick", workerVerb}, Size: workers, Timeout: defaultTimeout}.Run(b.Context(), 60, func(i int) campaign.Job {
				return campaign.Job{Scenario: s, Seed: uint64(i), Backend: simulation, Keep: campaign.KeepNone}
			}, func(_ int, o outcome.Outcome) {
				if o.Code != outcome.ExitOK {
					b.Errorf("%+v", o)
				}
			})
			durations[workers] += time.Since(start)
		}
	}
	b.ReportMetric(100*durations[1].Seconds()/durations[2].Seconds()/2, "%-of-two-cores")
}

func baseline(b *testing.B, overrides ...string) scenario.Scenario {
	picks, err := choice{names: []string{"baseline/"}, overrides: overrides}.scenarios()
	if err != nil {
		b.Fatal(err)
	}
	return picks[0].Scenario
}

// benchRuns runs a scenario with a new seed each time, in a process set up like a sweep's worker,
// and reports CPU time, which depends less on other load than wall-clock time. GODEBUG must set the
// stack size before the process starts, as in make bench.
func benchRuns(b *testing.B, locks map[string]lock.Kind, s scenario.Scenario) {
	b.ReportAllocs()
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	events, virtualSeconds, cycles, start := 0, 0.0, 0, cpuTime(b)
	for n := 0; b.Loop(); n++ {
		o := campaign.Execute(b.Context(), sim.New(locks), campaign.Job{Scenario: s, Seed: uint64(n), Keep: campaign.KeepNone})
		if o.Code != outcome.ExitOK {
			b.Fatalf("%+v", o)
		}
		events += o.Events
		virtualSeconds += o.VirtualSeconds
		cycles += s.Workload.Cycles * len(s.Clients)
	}
	cpuUsed := cpuTime(b) - start
	b.ReportMetric(float64(events)/float64(b.N), "events/op")
	b.ReportMetric(float64(cpuUsed.Nanoseconds())/float64(events), "cpu-ns/event")
	b.ReportMetric(virtualSeconds/cpuUsed.Seconds(), "×real-time/core")
	if cycles > 0 {
		b.ReportMetric(float64(cycles)/cpuUsed.Seconds(), "cycles/s/core")
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
