package campaign

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/scenarios/outcome"
)

// idleBackend records nothing but the start and end of a run.
type idleBackend struct{}

func (idleBackend) Name() string                               { return "idle" }
func (idleBackend) Probe(context.Context) []harness.Capability { return nil }
func (idleBackend) Run(_ context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, _ harness.Body) error {
	rec.Record(history.Event{Process: history.Harness, Type: history.Begin, Op: history.OpRun,
		Params: &history.Params{Schema: history.Schema, Scenario: s.Name, Backend: "idle", Seed: seed, Clients: []string{"c1"}}})
	rec.Record(history.Event{T: 1, Process: history.Harness, Type: history.End, Op: history.OpRun, Cause: "completed"})
	return nil
}

// Discarded runs are stored with their outcomes.
func TestRetriedRunsAreStored(t *testing.T) {
	store := t.TempDir()
	o := Execute(t.Context(), idleBackend{}, Job{Scenario: scenario.Scenario{Name: "x", Expect: defaultExpectations()},
		Store: store, Keep: KeepAll, Live: true, Retries: 2})
	if o.Code != outcome.ExitUndecided || len(o.RetryReasons) != 2 {
		t.Errorf("code %d, retried %q", o.Code, o.RetryReasons)
	}
	all, err := filepath.Glob(filepath.Join(store, "x", "2*", outcomeFile))
	if err != nil || len(all) != 3 {
		t.Errorf("outcomes: %q, %v", all, err)
	}
	for _, path := range all {
		if text, err := os.ReadFile(path); err != nil || len(text) == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// cancelingBackend is an idleBackend that cancels the second run before it starts.
type cancelingBackend struct {
	idleBackend
	cancel context.CancelFunc
	runs   int
}

func (e *cancelingBackend) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) error {
	if e.runs++; e.runs == 1 {
		return e.idleBackend.Run(ctx, s, seed, rec, body)
	}
	e.cancel()
	return ctx.Err()
}

func TestCanceledRetryKeepsEarlierRun(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	store := t.TempDir()
	o := Execute(ctx, &cancelingBackend{cancel: end}, Job{Scenario: scenario.Scenario{Name: "x", Expect: defaultExpectations()},
		Store: store, Keep: KeepAll, Live: true, Retries: 2})
	if o.Error != "" || o.Events == 0 || len(o.RetryReasons) > 0 {
		t.Errorf("error %q, %d events, retried %q: want the first run", o.Error, o.Events, o.RetryReasons)
	}
	if all, err := filepath.Glob(filepath.Join(store, "x", "2*", outcomeFile)); err != nil || len(all) != 2 {
		t.Errorf("outcomes: %q, %v", all, err)
	}
}

// countingBackend is an idleBackend that counts the runs of each scenario.
type countingBackend struct {
	idleBackend
	runs map[string]int
}

func (c countingBackend) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) error {
	c.runs[s.Name]++
	return c.idleBackend.Run(ctx, s, seed, rec, body)
}

// A comparison run that does not meet its scenario's expectations is retried like any other run.
func TestComparisonRunIsRetried(t *testing.T) {
	b := countingBackend{runs: map[string]int{}}
	own := scenario.Scenario{Name: "own", Expect: defaultExpectations()}
	Execute(t.Context(), b, Job{Scenario: scenario.Scenario{Name: "other", Expect: map[string]scenario.Expectation{}}, Comparison: &own, Keep: KeepNone, Retries: 2})
	if b.runs["own"] != 3 || b.runs["other"] != 1 {
		t.Errorf("runs: %v, want 3 comparison runs", b.runs)
	}
}
