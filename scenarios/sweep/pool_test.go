package sweep

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/scenarios/outcome"
	"lockpick/scenarios/suite"
)

// TestMain makes the test binary double as a worker that does what the job's
// scenario is named after.
func TestMain(m *testing.M) {
	if os.Getenv("SWEEP_TEST_WORKER") == "" {
		os.Exit(m.Run())
	}
	for d := json.NewDecoder(os.Stdin); ; {
		var j suite.Job
		if d.Decode(&j) != nil {
			os.Exit(0)
		}
		switch j.Scenario.Name {
		case "dies":
			panic("a goroutine of the run panicked")
		case "freezes":
			<-time.After(time.Hour)
		case "babbles":
			os.Stdout.WriteString("what?\n")
			continue
		}
		json.NewEncoder(os.Stdout).Encode(outcome.Outcome{Scenario: j.Scenario.Name, Seed: j.Seed})
	}
}

// What kills or stops a worker is the outcome of that one job; the others are done.
func TestPoolTellsWhichRunKilledItsWorker(t *testing.T) {
	t.Setenv("SWEEP_TEST_WORKER", "1")
	var jobs []suite.Job
	for i, name := range []string{"fine", "dies", "fine", "freezes", "fine", "babbles", "fine"} {
		jobs = append(jobs, suite.Job{Scenario: harness.Scenario{Name: name}, Seed: uint64(i)})
	}
	pool := Pool{Command: []string{os.Args[0]}, Size: 2, Patience: time.Second}
	got := make([]outcome.Outcome, len(jobs))
	pool.Run(t.Context(), len(jobs), func(i int) suite.Job { return jobs[i] }, func(i int, o outcome.Outcome) { got[i] = o })
	for i, want := range []struct {
		code int
		said string
	}{{0, ""}, {70, "a goroutine of the run panicked"}, {0, ""}, {70, "goroutine "}, {0, ""}, {70, "makes no sense"}, {0, ""}} {
		o := got[i]
		if o.Code != want.code || !strings.Contains(o.Error, want.said) || o.Seed != uint64(i) || o.Scenario != jobs[i].Scenario.Name {
			t.Errorf("job %d (%s): %+v", i, jobs[i].Scenario.Name, o)
		}
	}
}

func TestPoolStopsWhenItIsInterrupted(t *testing.T) {
	t.Setenv("SWEEP_TEST_WORKER", "1")
	ctx, cancel := context.WithCancel(t.Context())
	jobs := []suite.Job{{Scenario: harness.Scenario{Name: "fine"}}, {Scenario: harness.Scenario{Name: "freezes"}}, {Scenario: harness.Scenario{Name: "fine"}}}
	pool := Pool{Command: []string{os.Args[0]}, Size: 1, Patience: time.Minute}
	done := 0
	pool.Run(ctx, len(jobs), func(i int) suite.Job { return jobs[i] }, func(int, outcome.Outcome) { done++; cancel() })
	if done != 1 {
		t.Errorf("%d jobs were reported, want 1", done)
	}
}

func TestPoolTellsThatNoWorkerStarts(t *testing.T) {
	pool := Pool{Command: []string{"/nowhere/lockpick"}, Size: 1, Patience: time.Second}
	var got outcome.Outcome
	pool.Run(t.Context(), 1, func(int) suite.Job { return suite.Job{} }, func(_ int, o outcome.Outcome) { got = o })
	if got.Code != 70 || !strings.Contains(got.Error, "start worker") {
		t.Errorf("%+v", got)
	}
}
