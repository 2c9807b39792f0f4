package campaign

import (
	"encoding/json"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/scenarios/outcome"
)

// An accepted outcome.json yields valid values.
func FuzzOutcome(f *testing.F) {
	valid, err := json.Marshal(outcome.Outcome{Schema: 1, Scenario: "a/b", Backend: "sim", Seed: 1, Code: 1, Error: "e", RetryReasons: []string{"r"}, Seconds: 1.5, Events: 3,
		Numbers:    map[string]float64{"grants": 3},
		Judgements: []outcome.Judgement{{Property: verdict.MutualExclusion, Expected: "holds", Got: verdict.Violated}, {Property: "grants", Number: &outcome.Number{Value: 2}}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	for _, text := range []string{"", "{}", "null", `{"schema":1,"code":-1}`, `{"schema":1,"seconds":1e308}`, `{"schema":1,"judgements":[{}]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		o, err := parseOutcome(text)
		if err != nil {
			return
		}
		if o.State() == "" || o.Events < 0 || o.Seconds < 0 || !outcome.KnownCode(outcome.WorseCode(o.Code, outcome.CodeOf(o.Judgements))) {
			t.Errorf("impossible outcome accepted: %+v", o)
		}
		for _, j := range o.Judgements {
			_ = j.String()
		}
		o.PendingVariants()
	})
}
