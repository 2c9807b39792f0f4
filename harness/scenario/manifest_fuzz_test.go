package scenario

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

// An accepted run.json is within a run's limits, and doesn't change when it is written and read
// back.
func FuzzManifest(f *testing.F) {
	add := func(s Scenario) {
		text, err := json.Marshal(NewManifest(s, "sim", 1, "v1", "lockpick run x"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, text := range []string{requiredKeys, allFieldsFile, randomPlanFile} {
		all, err := Parse("f.yaml", []byte(text), testNames)
		if err != nil {
			f.Fatal(err)
		}
		for _, s := range all {
			add(s)
			add(s.ScaledCopy(0.5).WithRandomPlan(1))
		}
	}
	for _, text := range []string{"", "{}", "[]", "null", `{"schema":1}`, `{"schema":1,"backend":"sim","scenario":{"name":"x"}}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := ReadManifest("run.json", text, testNames)
		if err != nil {
			if m != nil || err.Error() == "" || len(err.Error()) > 5000 {
				t.Fatalf("got manifest %v and an error of %d bytes", m, len(err.Error()))
			}
			return
		}
		s := m.Scenario
		if n := len(s.Clients); n < 1 || n > maxClients || s.Topology.Nodes < 1 || s.Topology.Nodes > MaxNodes || s.Limit <= 0 || s.Limit > maxDuration ||
			s.Workload.Keys < 1 || s.Workload.Keys > maxKeys || s.Workload.Extend < 0 || s.Workload.Extend == time.Nanosecond || len(s.Plan) > maxDrawnSteps ||
			s.Workload.Cycles == 0 && s.Workload.For == 0 || s.Lock.Timeout >= s.Lock.TTL/2 {
			t.Fatalf("an impossible scenario was accepted: %+v", s)
		}
		for _, c := range s.Clients {
			if !clientPattern.MatchString(c.Name) {
				t.Fatalf("a client is named %q", c.Name)
			}
		}
		if !namePattern.MatchString(s.Name) || s.Variant != "" && !namePattern.MatchString(s.Variant) {
			t.Fatalf("the scenario is named %q", s.ID())
		}
		second, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ReadManifest("run.json", second, testNames)
		if err != nil || !reflect.DeepEqual(normalizedJSON(t, m), normalizedJSON(t, back)) {
			t.Fatalf("after writing and reading: %v", err)
		}
		s.WithRandomPlan(m.Seed)
	})
}

// normalizedJSON returns a manifest as JSON, which doesn't distinguish empty lists from nil.
func normalizedJSON(t *testing.T, m *Manifest) string {
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
