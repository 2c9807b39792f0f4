package main

import (
	"testing"

	"lockpick/scenarios/envelope"
	"lockpick/scenarios/outcome"
)

// TestEnvelopeCodes: what nobody could decide, or judge, is no agreement.
func TestEnvelopeCodes(t *testing.T) {
	at := func(v float64) *float64 { return &v }
	edge := &envelope.Edge{Sum: 2, Safe: 1.5, Certain: 2}
	for name, x := range map[string]struct {
		envelope.Result
		code int
	}{
		"agrees":           {envelope.Result{Held: at(1), Broke: at(2), Edge: edge, Agrees: true, Points: []envelope.Point{{Value: 1, Runs: 2}, {Value: 2, Runs: 2, Broke: 1}}}, outcome.ExitOK},
		"elsewhere":        {envelope.Result{Held: at(0), Broke: at(1), Edge: edge, Points: []envelope.Point{{Value: 0, Runs: 2}, {Value: 1, Runs: 2, Broke: 1}}}, outcome.ExitUnexpected},
		"no occasion":      {envelope.Result{Agrees: true, Points: []envelope.Point{{Value: 0, Runs: 2, Idle: 2}, {Value: 1, Runs: 2, Idle: 2}}}, outcome.ExitUndecided},
		"not for the most": {envelope.Result{Held: at(0), Agrees: true, Points: []envelope.Point{{Value: 0, Runs: 2}, {Value: 1, Runs: 2, Idle: 2}}}, outcome.ExitUndecided},
		"nor where less is worse": {envelope.Result{Held: at(1), Less: true, Agrees: true,
			Points: []envelope.Point{{Value: 0, Runs: 2, Idle: 2}, {Value: 1, Runs: 2}}}, outcome.ExitUndecided},
		"failed": {envelope.Result{Held: at(0), Broke: at(1), Agrees: true, Points: []envelope.Point{{Value: 0, Runs: 2, Failed: 1, Error: "no"}, {Value: 1, Runs: 2, Broke: 1}}}, outcome.ExitBackend},
	} {
		if got := (&found{Result: x.Result}).code(); got != x.code {
			t.Errorf("%s: exit code %d, want %d", name, got, x.code)
		}
	}
}
