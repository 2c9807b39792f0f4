package main

import (
	"testing"

	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// TestEnvelopeCodes: what nobody could decide, or judge, is no agreement.
func TestEnvelopeCodes(t *testing.T) {
	at := func(v float64) *float64 { return &v }
	edge := &campaign.EnvelopeEdge{Sum: 2, Safe: 1.5, Certain: 2}
	for name, x := range map[string]struct {
		campaign.Envelope
		code int
	}{
		"agrees":           {campaign.Envelope{Held: at(1), Broke: at(2), Edge: edge, Agrees: true, Points: []campaign.EnvelopePoint{{Value: 1, Runs: 2}, {Value: 2, Runs: 2, Broke: 1}}}, outcome.ExitOK},
		"elsewhere":        {campaign.Envelope{Held: at(0), Broke: at(1), Edge: edge, Points: []campaign.EnvelopePoint{{Value: 0, Runs: 2}, {Value: 1, Runs: 2, Broke: 1}}}, outcome.ExitUnexpected},
		"no occasion":      {campaign.Envelope{Agrees: true, Points: []campaign.EnvelopePoint{{Value: 0, Runs: 2, Idle: 2}, {Value: 1, Runs: 2, Idle: 2}}}, outcome.ExitUndecided},
		"not for the most": {campaign.Envelope{Held: at(0), Agrees: true, Points: []campaign.EnvelopePoint{{Value: 0, Runs: 2}, {Value: 1, Runs: 2, Idle: 2}}}, outcome.ExitUndecided},
		"nor where less is worse": {campaign.Envelope{Held: at(1), Less: true, Agrees: true,
			Points: []campaign.EnvelopePoint{{Value: 0, Runs: 2, Idle: 2}, {Value: 1, Runs: 2}}}, outcome.ExitUndecided},
		"failed": {campaign.Envelope{Held: at(0), Broke: at(1), Agrees: true, Points: []campaign.EnvelopePoint{{Value: 0, Runs: 2, Failed: 1, Error: "no"}, {Value: 1, Runs: 2, Broke: 1}}}, outcome.ExitBackend},
	} {
		if got := (&found{Envelope: x.Envelope}).code(); got != x.code {
			t.Errorf("%s: exit code %d, want %d", name, got, x.code)
		}
	}
}
