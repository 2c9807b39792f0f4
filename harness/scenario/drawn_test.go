package scenario

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"time"
)

const randomFile = requiredKeys + `clients: 3
limit: 30s
workload: {for: 27s}
plan:
  random: {faults: [pause-client, kill, cut, hold], every: 500ms..2s, lasts: 10ms..5s, safety: 50%, within: assumptions}
lock: {ttl: 2s}
expect: {deadlock-freedom: holds}
`

func randomScenario(t *testing.T) Scenario {
	t.Helper()
	all, err := Parse("f.yaml", []byte(randomFile), testNames)
	if err != nil {
		t.Fatal(err)
	}
	return all[0]
}

// The result has a fixed plan, so a stored run can be repeated whatever happens to the generator or
// the seed.
func TestWithRandomPlan(t *testing.T) {
	s := randomScenario(t)
	a, b := s.WithRandomPlan(1), s.WithRandomPlan(2)
	if len(a.Plan) == 0 || a.Random != nil || reflect.DeepEqual(a.Plan, b.Plan) {
		t.Fatalf("seed 1: %v, seed 2: %v", a.Plan, b.Plan)
	}
	if !reflect.DeepEqual(a, s.WithRandomPlan(1)) || !reflect.DeepEqual(a, a.WithRandomPlan(2)) {
		t.Error("the plan was drawn a second time")
	}
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	var stored Scenario
	if err := json.Unmarshal(text, &stored); err != nil || !reflect.DeepEqual(stored.WithRandomPlan(3).Plan, a.Plan) {
		t.Errorf("after storing and reading: error %v, plan\n%v\nwant\n%v", err, stored.Plan, a.Plan)
	}
	if s.Plan != nil || s.Random == nil {
		t.Error("WithRandomPlan modified the original scenario")
	}
}

// A seed draws the same plan whether the scenario is scaled before or after drawing.
func TestRandomPlanScales(t *testing.T) {
	s := randomScenario(t)
	for seed := range uint64(50) {
		before, after := s.WithRandomPlan(seed).ScaledCopy(0.1).Plan, s.ScaledCopy(0.1).WithRandomPlan(seed).Plan
		if len(before) != len(after) {
			t.Fatalf("seed %d: %d steps, but %d steps if scaled before drawing", seed, len(before), len(after))
		}
		for i := range before {
			a, b := before[i], after[i]
			if a.When.At != nil && (*a.When.At-*b.When.At).Abs() > time.Microsecond || !slices.Equal(a.Fault.Targets, b.Fault.Targets) || a.Fault.Kind != b.Fault.Kind {
				t.Errorf("seed %d step %d: %v %+v, but %v %+v if scaled before drawing", seed, i+1, a.When, a.Fault, b.When, b.Fault)
			}
		}
	}
}

// The required capabilities include those of everything that may be drawn, because a plan must not
// depend on the backend.
func TestRandomPlanCapabilities(t *testing.T) {
	s := randomScenario(t)
	checkSame(t, "required capabilities", s.RequiredCapabilities(), []string{"cut-link", "hold-message", "kill-client", "kill-node", "pause-client"})
	for seed := range uint64(20) {
		for _, need := range s.WithRandomPlan(seed).RequiredCapabilities() {
			if !slices.Contains(s.RequiredCapabilities(), need) {
				t.Errorf("seed %d requires %s, too", seed, need)
			}
		}
	}
}

// Properties may pass unexercised because chance decides what a random plan exercises.
func TestRandomPlanAllowsUnexercisedProperties(t *testing.T) {
	for property, e := range randomScenario(t).Expect {
		if !e.Implied {
			t.Errorf("%s must be exercised: %+v", property, e)
		}
	}
}
