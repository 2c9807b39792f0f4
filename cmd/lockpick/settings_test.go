package main

import (
	"fmt"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/sim"
	"lockpick/reports/suites"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// runWithLock runs scenarios in the simulation like "run --lock KIND", with the overrides that
// overridesFor returns for each, and returns the outcomes by scenario.
func runWithLock(t *testing.T, kind string, names []string, overridesFor func(pick) []string) map[string]outcome.Outcome {
	t.Helper()
	all, err := choice{names: names}.scenarios()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]outcome.Outcome{}
	for _, s := range all {
		f := &runFlags{backend: simulation, seed: 1, seeds: 1, lock: kind, settings: overridesFor(s)}
		picks, _, err := f.chooseScenarios(s.ExactName())
		if err != nil {
			t.Fatalf("%s with %s and %q: %v", s.ID(), kind, f.settings, err)
		}
		for _, p := range picks {
			j := f.job(p, 0)
			j.Keep = campaign.KeepNone
			out[p.ID()] = campaign.Execute(t.Context(), sim.New(kinds.All), j)
		}
	}
	return out
}

// verdicts returns a run's exit code and the outcome of each property as text.
func verdicts(o outcome.Outcome) string {
	text := fmt.Sprintf("exit %d %s", o.Code, o.Error)
	for _, j := range o.Judgements {
		if j.Number == nil {
			text += fmt.Sprintf("; %s %s %s %s %v", j.Property, j.Got, j.Cause, j.Node, j.AsExpected)
		}
	}
	return text
}

func noOverrides(pick) []string { return nil }

func currentTTL(p pick) []string { return []string{"lock.ttl=" + p.Lock.TTL.String()} }

// checkSameVerdicts checks that an override that sets the TTL to its current value changes no verdict.
func checkSameVerdicts(t *testing.T, names ...string) {
	runs, numViolating := 0, 0
	for kind := range kinds.All {
		if kind == "broken" {
			continue
		}
		plainOutcomes, setOutcomes := runWithLock(t, kind, names, noOverrides), runWithLock(t, kind, names, currentTTL)
		if len(plainOutcomes) != len(setOutcomes) {
			t.Errorf("%s: %d scenarios, %d with --set", kind, len(plainOutcomes), len(setOutcomes))
		}
		for id, o := range plainOutcomes {
			if got, want := verdicts(setOutcomes[id]), verdicts(o); got != want {
				t.Errorf("%s with --lock %s\n--set: %s\nplain: %s", id, kind, got, want)
			}
			if runs++; o.Code == outcome.ExitUnexpected {
				numViolating++
			}
		}
	}
	if numViolating == 0 {
		t.Errorf("none of %d runs is unexpected, so the test proves nothing", runs)
	}
}

func TestUnchangedSettingsKeepVerdicts(t *testing.T) {
	checkSameVerdicts(t, "cancelled-acquire/", "restart-forgets/", "gc-pause-after-acquire/fenced")
}

// TestOtherSettingsKeepRequirements checks that, with --set, a lock must guarantee whatever the
// tier requires and the scenario's own lock guarantees under the same settings.
func TestOtherSettingsKeepRequirements(t *testing.T) {
	for name, row := range map[string]struct {
		kind, scenario string
		sets           []string
		property       string
		cause          string
		code           int
	}{
		"the lock fails alone":            {"redsync", "cancelled-acquire/", []string{"lock.ttl=24s"}, verdict.FaultTolerance, "left-keys", outcome.ExitUnexpected},
		"both fail":                       {"redsync", "clean-restart/", []string{"topology.persistence=none"}, verdict.MutualExclusion, "restarted-and-forgot", outcome.ExitOK},
		"the scenario's own, which fails": {"redlock", "clean-restart/", []string{"topology.persistence=none"}, verdict.MutualExclusion, "restarted-and-forgot", outcome.ExitUnexpected},
	} {
		t.Run(name, func(t *testing.T) {
			for id, o := range runWithLock(t, row.kind, []string{row.scenario}, func(pick) []string { return row.sets }) {
				j := o.JudgementOf(row.property)
				if j == nil || j.Got != verdict.Violated || j.Cause != row.cause || o.Code != row.code {
					t.Errorf("%s: %s", id, verdicts(o))
				}
				if output := strings.Join(suites.DescribeResults(o), "; "); !strings.Contains(output, row.property) || !strings.Contains(output, " violated (") {
					t.Errorf("%s is violated but not printed: %s", row.property, output)
				}
			}
		})
	}
}

// TestViolationsArePrinted checks that a violation is printed even if the property's expected
// outcome follows another property, which is not violated.
func TestViolationsArePrinted(t *testing.T) {
	newJudgement := func(property, follows string, got verdict.Outcome) outcome.Judgement {
		return outcome.Judgement{Property: property, Expected: outcome.AnyOutcome, Got: got, ImpliedBy: follows, AsExpected: true}
	}
	for _, row := range []struct {
		lead, follower verdict.Outcome
		want           bool
	}{
		{verdict.Holds, verdict.Violated, true}, {verdict.NotExercised, verdict.Violated, true},
		{verdict.Violated, verdict.Violated, false}, {verdict.Holds, verdict.Holds, false},
	} {
		o := outcome.Outcome{Judgements: []outcome.Judgement{newJudgement(verdict.MutualExclusion, "", row.lead), newJudgement(verdict.LeaseLinearizable, verdict.MutualExclusion, row.follower)}}
		if output := strings.Join(suites.DescribeResults(o), "; "); strings.Contains(output, verdict.LeaseLinearizable) != row.want {
			t.Errorf("%s, with %s, which follows it: %q", row.lead, row.follower, output)
		}
	}
}
