package main

import (
	"testing"

	"lockpick/harness/lock/kinds"
	"lockpick/harness/sim"
	"lockpick/scenarios/outcome"
	"lockpick/scenarios/suite"
)

// BenchmarkMinute is a minute of virtual time with five clients and five nodes,
// history and verdict included.
func BenchmarkMinute(b *testing.B) {
	s, err := choice{names: []string{"baseline/"}, sets: []string{"workload={think: 50ms..500ms, hold: 100ms..2s, for: 60s}"}}.scenarios()
	if err != nil {
		b.Fatal(err)
	}
	for n := range b.N {
		o := suite.Execute(b.Context(), sim.New(kinds.All), suite.Job{Scenario: s[0].Scenario, Seed: uint64(n), Keep: suite.KeepNone})
		if o.Code != outcome.ExitOK || o.Virtual < 60 {
			b.Fatalf("%+v", o)
		}
		b.ReportMetric(float64(o.Events), "events")
	}
}
