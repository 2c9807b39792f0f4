package campaign

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/scenarios"
	"lockpick/scenarios/outcome"
)

// failingBackend runs scenarios and then fails.
type failingBackend struct {
	harness.Backend
	err error
}

func (e failingBackend) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) error {
	return errors.Join(e.Backend.Run(ctx, s, seed, rec, body), e.err)
}

// A lock that can't be used at all is not blamed for a violation. Other errors do not hide a
// violation.
func TestUnusableLockIsNotBlamed(t *testing.T) {
	text, err := scenarios.Read("baseline")
	if err != nil {
		t.Fatal(err)
	}
	all, err := scenario.Parse("baseline", text, KnownLocks(kinds.All))
	if err != nil {
		t.Fatal(err)
	}
	s := all[0]
	s.Expect = map[string]scenario.Expectation{verdict.MutualExclusion: {Want: string(verdict.Violated)}}
	for _, c := range []struct {
		err  error
		code int
	}{
		{nil, outcome.ExitUnexpected},
		{errors.New("disk full"), outcome.ExitUnexpected},
		{fmt.Errorf("run client c1: %w", lock.ErrBroken), outcome.ExitBackend},
	} {
		o := Execute(t.Context(), failingBackend{sim.New(kinds.All), c.err}, Job{Scenario: s, Seed: 1, Keep: KeepNone})
		if o.Code != c.code {
			t.Errorf("error %v: code %d, want %d (%s)", c.err, o.Code, c.code, o.Error)
		}
	}
}
