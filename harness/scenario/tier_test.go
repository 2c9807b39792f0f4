package scenario

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"lockpick/harness/lock"
	"lockpick/nemesis"
)

const tieredFile = requiredKeys + `
tier: every
lock: {kind: redlock, ask: sequential, extends: 3}
clients: {c1: {reach: [n1, n2, n3]}, c2: {reach: [n3, n4, n5]}}
workload: {extend: 1s}
limits: {extensions: 3, hold: 40s}
plan:
  - {when: {at: 1s}, fault: {kind: cut, targets: [c1-n1, c1-n2], for: 1s}}
  - {when: {link: c1-n1, message: set, of: reply, nth: 1}, fault: {kind: drop}}
  - {when: {link: c1-n2, message: set, of: reply, nth: 1}, fault: {kind: drop}}
  - {when: {at: 3s}, fault: {kind: kill, targets: [n3, n4], for: 1s}}
expect: {mutual-exclusion: holds, resource-safety: {violated: overrun}, bounded-hold: holds}
`

func TestForLock(t *testing.T) {
	s := parse(t, tieredFile)[0]
	oneNode, err := s.ForLock("single", lock.Kind{OneNode: true, Can: lock.Features{Extend: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := oneNode.Check(testNames); err != nil {
		t.Error(err)
	}
	if oneNode.Topology.Nodes != 1 || oneNode.Clients[0].Reach != nil || oneNode.Lock.Kind != "single" || oneNode.Lock.Ask != "" || oneNode.Lock.Extends != 0 {
		t.Errorf("topology %+v, clients %+v, lock %+v", oneNode.Topology, oneNode.Clients, oneNode.Lock)
	}
	var plan []string
	for _, st := range oneNode.Plan {
		plan = append(plan, st.Fault.Kind+" "+strings.Join(oneNode.Targets(st), " "))
	}
	if want := []string{"cut c1-n1", "drop c1-n1", "kill n1"}; !slices.Equal(plan, want) {
		t.Errorf("plan %q, want %q", plan, want)
	}
	for property, want := range map[string]string{"mutual-exclusion": "holds", "lease-linearizable": "holds", "resource-safety": "any", "bounded-hold": "any"} {
		if got := oneNode.Expect[property].String(); got != want {
			t.Errorf("%s: %q, want %q", property, got, want)
		}
	}
	unchanged := parse(t, tieredFile)[0]
	if s.Topology.Nodes != 5 || len(s.Clients[0].Reach) != 3 || s.Plan[1].When.Message.Link != unchanged.Plan[1].When.Message.Link || len(s.Expect) != len(unchanged.Expect) {
		t.Errorf("the original scenario was changed to %+v", s)
	}
	if own, err := s.ForLock("redlock", lock.Kind{}); err != nil || own.Lock.Extends != 3 || own.Expect["resource-safety"].Want != "violated" {
		t.Errorf("with the scenario's own lock: %+v, %v", own.Expect, err)
	}
}

func TestForLockRejectsUnsupportedScenario(t *testing.T) {
	fullKind := lock.Kind{Can: lock.Features{Extend: true, Limit: true, Fence: true, Sequential: true, Reenter: true}}
	for name, tt := range map[string]struct {
		change func(*Scenario)
		kind   func(*lock.Kind)
		why    string
	}{
		"mistake":    {func(s *Scenario) { s.Lock.Kind, s.Lock.Mistake = "broken", "plain-del" }, nil, "deliberately broken"},
		"option":     {func(s *Scenario) { s.Lock.Kind, s.Lock.Options = "hardened", map[string]string{"repair": "yes"} }, nil, "option"},
		"votes":      {func(s *Scenario) { s.Tier = TierQuorum }, func(k *lock.Kind) { k.OneNode = true }, "votes"},
		"fence":      {func(s *Scenario) { s.Lock.Fence = true }, func(k *lock.Kind) { k.Can.Fence = false }, "fencing tokens"},
		"extend":     {nil, func(k *lock.Kind) { k.Can.Extend = false }, "extended"},
		"reenter":    {func(s *Scenario) { s.Workload.Reenter = 1 }, func(k *lock.Kind) { k.Can.Reenter = false }, "not reentrant"},
		"sequential": {func(s *Scenario) { s.Tier = "" }, func(k *lock.Kind) { k.Can.Sequential = false }, "sequentially"},
		"point": {func(s *Scenario) {
			s.Plan = nemesis.Plan{{When: nemesis.Trigger{Point: &nemesis.OnPoint{Client: "c1", Point: "during-acquire"}}}}
		}, func(k *lock.Kind) { k.OwnTime = true }, "during-acquire"},
	} {
		s, k := parse(t, tieredFile)[0], fullKind
		if tt.change != nil {
			tt.change(&s)
		}
		if _, err := s.ForLock("redsync", fullKind); name != "mistake" && name != "option" && err != nil {
			t.Errorf("%s: a lock that supports the scenario was rejected: %v", name, err)
		}
		if tt.kind != nil {
			tt.kind(&k)
		}
		if _, err := s.ForLock("redsync", k); err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: got %v, want an error containing %q", name, err, tt.why)
		}
	}
}

func TestForLockWithoutTierExpectsNothing(t *testing.T) {
	s := parse(t, strings.Replace(tieredFile, "tier: every", "", 1))[0]
	other, err := s.ForLock("other", lock.Kind{Can: lock.Features{Extend: true, Limit: true, Sequential: true}})
	if err != nil {
		t.Fatal(err)
	}
	for property, e := range other.Expect {
		if e.Want != wantAny {
			t.Errorf("unexpected expectation %s: %s", property, e)
		}
	}
}

// WithoutClientClockSteps omits only faults that set the clocks of clients.
func TestWithoutClientClockSteps(t *testing.T) {
	s := parse(t, randomPlanFile)[0]
	s.Random.Faults = []string{"clock-jump", "clock-rate", "pause"}
	got, omitted := s.WithoutClientClockSteps()
	if want := []string{"clock-jump-client"}; !slices.Equal(omitted, want) {
		t.Errorf("omitted: %q, want %q", omitted, want)
	}
	for _, c := range got.Random.Choices() {
		if c.Kind.SetsClock && c.TargetType == nemesis.Client {
			t.Errorf("%s may be drawn", c.Name)
		}
	}
	if a, b := len(s.Random.Choices()), len(got.Random.Choices()); a != b+1 || len(s.Random.Faults) != 3 {
		t.Errorf("%d choices were reduced to %d; the original scenario's faults are %q", a, b, s.Random.Faults)
	}
	if plain, omitted := parse(t, tieredFile)[0].WithoutClientClockSteps(); omitted != nil || plain.Random != nil {
		t.Errorf("with a fixed plan, omitted %q", omitted)
	}
}

// A lock kind's own quorum becomes part of the scenario, and thus of the history.
func TestLockKindQuorum(t *testing.T) {
	s := parse(t, strings.Replace(tieredFile, "tier: every", "tier: quorum", 1)+"\n")[0]
	s.Expect = map[string]Expectation{"mutual-exclusion": {Want: wantHolds}, "fault-tolerance": {Want: wantHolds}}
	features := lock.Features{Extend: true, Limit: true, Sequential: true}
	for name, row := range map[string]struct {
		kind   lock.Kind
		quorum int
		claims string // expectation for fault-tolerance
	}{
		"a majority": {lock.Kind{Can: features}, 3, wantHolds},
		"all nodes":  {lock.Kind{Can: features, Quorum: func(nodes int) int { return nodes }}, 5, wantAny},
	} {
		other, err := s.ForLock("other", row.kind)
		if err != nil || other.Quorum() != row.quorum || other.Expect["fault-tolerance"].Want != row.claims || other.Expect["mutual-exclusion"].Want != wantHolds {
			t.Errorf("%s: quorum %d, expectations %v, error %v", name, other.Quorum(), other.Expect, err)
		}
	}
	if _, err := s.ForLock("other", lock.Kind{Can: features, Quorum: func(int) int { return 1 }}); err == nil || !strings.Contains(err.Error(), "this lock needs only one") {
		t.Errorf("for a lock with a quorum of one: error %v", err)
	}
}

// Options are merged with the scenario's own options, which they override. The expectations for
// properties that they forgo are dropped.
func TestWithOptions(t *testing.T) {
	k := lock.Kind{Options: []lock.Option{{Name: "quarantine", Values: []string{"no", "yes"}, Forgoes: []string{"fault-tolerance"}}, {Name: "repair", Values: []string{"no", "yes"}}}}
	for _, tt := range []struct {
		own, set, want map[string]string
		expected       string
	}{
		{nil, nil, nil, wantHolds},
		{map[string]string{"quarantine": "yes"}, nil, map[string]string{"quarantine": "yes"}, wantHolds}, // the scenario's own options don't change its expectations
		{nil, map[string]string{"repair": "yes"}, map[string]string{"repair": "yes"}, wantHolds},
		{nil, map[string]string{"quarantine": "no"}, map[string]string{"quarantine": "no"}, wantHolds},
		{nil, map[string]string{"quarantine": "yes"}, map[string]string{"quarantine": "yes"}, wantAny},
		{map[string]string{"quarantine": "yes"}, map[string]string{"repair": "yes"}, map[string]string{"quarantine": "yes", "repair": "yes"}, wantHolds},
		{map[string]string{"repair": "no"}, map[string]string{"repair": "yes"}, map[string]string{"repair": "yes"}, wantHolds},
	} {
		s := Scenario{Expect: map[string]Expectation{"fault-tolerance": {Want: wantHolds}}}
		s.Lock.Options = tt.own
		got := s.WithOptions(k, tt.set)
		if !maps.Equal(got.Lock.Options, tt.want) || got.Expect["fault-tolerance"].Want != tt.expected || s.Expect["fault-tolerance"].Want != wantHolds {
			t.Errorf("%v with %v: options %v, expectations %v", tt.own, tt.set, got.Lock.Options, got.Expect)
		}
	}
}

// Two lock kinds may have an option of the same name with different values. Each accepts its own
// values.
func TestKindsWithSameOptionName(t *testing.T) {
	two := testNames
	two.Kinds = maps.Clone(testNames.Kinds)
	two.Kinds["single"] = lock.Kind{Options: []lock.Option{{Name: "fail-fast", Values: []string{"defaults", "none"}}}}
	for option, fits := range map[string]string{"yes": "redsync", "none": "single", "often": ""} {
		for _, kind := range []string{"redsync", "single"} {
			_, err := ParseWithOptions("f.yaml", []byte(requiredKeys+"lock: {kind: "+kind+", options: {fail-fast: "+option+"}}\n"), two, ParseOptions{}, nil)
			if (err == nil) != (kind == fits) {
				t.Errorf("%s with fail-fast=%s: error %v", kind, option, err)
			}
		}
	}
}

// A property that the tier requires is expected of each lock that promises it, whether or not the
// file lists it, and is not written to files.
func TestTierRequiresProperties(t *testing.T) {
	s := parse(t, tieredFile)[0]
	if e := s.Expect[validOnReturn]; e != impliedExpectation {
		t.Fatalf("expectation for the scenario's own lock: %+v", e)
	}
	for belief, want := range map[lock.Belief]string{lock.ByDeadline: wantHolds, lock.ByNothing: wantAny, lock.BySignal: wantAny} {
		other, err := s.ForLock("other", lock.Kind{Belief: belief, Can: lock.Features{Extend: true, Limit: true, Sequential: true}})
		if got := other.Expect[validOnReturn].Want; err != nil || got != want {
			t.Errorf("expectation for a lock with belief %q: %q, error %v", belief, got, err)
		}
	}
	text, err := Write(s, "", testNames)
	if err != nil || strings.Contains(string(text), validOnReturn) {
		t.Errorf("error %v; the required property was written:\n%s", err, text)
	}
	delete(s.Expect, validOnReturn)
	if err := s.Check(testNames); err != nil {
		t.Errorf("for a run.json without the required property: %v", err)
	}
	named := parse(t, strings.Replace(tieredFile, "expect: {", "expect: {valid-on-return: any, ", 1))[0]
	if e := named.Expect[validOnReturn]; e.Want != wantAny {
		t.Errorf("with an explicit expectation: %+v", e)
	}
	if quorum := parse(t, strings.Replace(tieredFile, "tier: every", "tier: quorum", 1))[0]; len(quorum.Expect[validOnReturn].Want) > 0 {
		t.Error("the tier quorum requires the property, too")
	}
}
