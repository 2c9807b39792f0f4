package scenario

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"lockpick/harness/lock"
	"lockpick/nemesis"
)

const tiered = head + `
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
	s := parse(t, tiered)[0]
	alone, err := s.ForLock("single", lock.Kind{OneNode: true, Can: lock.Features{Extend: true}})
	if err != nil {
		t.Fatal(err)
	}
	if err := alone.Check(known); err != nil {
		t.Error(err)
	}
	if alone.Topology.Nodes != 1 || alone.Clients[0].Reach != nil || alone.Lock.Kind != "single" || alone.Lock.Ask != "" || alone.Lock.Extends != 0 {
		t.Errorf("topology %+v, clients %+v, lock %+v", alone.Topology, alone.Clients, alone.Lock)
	}
	var plan []string
	for _, st := range alone.Plan {
		plan = append(plan, st.Fault.Kind+" "+strings.Join(alone.Targets(st), " "))
	}
	if want := []string{"cut c1-n1", "drop c1-n1", "kill n1"}; !slices.Equal(plan, want) {
		t.Errorf("plan %q, want %q", plan, want)
	}
	for property, want := range map[string]string{"mutual-exclusion": "holds", "lease-linearizable": "holds", "resource-safety": "any", "bounded-hold": "any"} {
		if got := alone.Expect[property].String(); got != want {
			t.Errorf("%s: %q, want %q", property, got, want)
		}
	}
	unchanged := parse(t, tiered)[0]
	if s.Topology.Nodes != 5 || len(s.Clients[0].Reach) != 3 || s.Plan[1].When.Message.Link != unchanged.Plan[1].When.Message.Link || len(s.Expect) != len(unchanged.Expect) {
		t.Errorf("the original scenario was changed to %+v", s)
	}
	if own, err := s.ForLock("redlock", lock.Kind{}); err != nil || own.Lock.Extends != 3 || own.Expect["resource-safety"].Want != "violated" {
		t.Errorf("with the scenario's own lock: %+v, %v", own.Expect, err)
	}
}

func TestForLockRejectsUnsupported(t *testing.T) {
	able := lock.Kind{Can: lock.Features{Extend: true, Limit: true, Fence: true, Sequential: true, Reenter: true}}
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
		s, k := parse(t, tiered)[0], able
		if tt.change != nil {
			tt.change(&s)
		}
		if _, err := s.ForLock("redsync", able); name != "mistake" && name != "option" && err != nil {
			t.Errorf("%s: rejected a lock that supports it: %v", name, err)
		}
		if tt.kind != nil {
			tt.kind(&k)
		}
		if _, err := s.ForLock("redsync", k); err == nil || !strings.Contains(err.Error(), tt.why) {
			t.Errorf("%s: %v, want an error containing %q", name, err, tt.why)
		}
	}
}

// Without a tier nothing is expected of other locks.
func TestNoTierExpectsNothing(t *testing.T) {
	s := parse(t, strings.Replace(tiered, "tier: every", "", 1))[0]
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

// WithoutClientClockSteps only omits faults that set the clocks of clients.
func TestWithoutClientClockSteps(t *testing.T) {
	s := parse(t, drawing)[0]
	s.Random.Faults = []string{"clock-jump", "clock-rate", "pause"}
	got, left := s.WithoutClientClockSteps()
	if want := []string{"clock-jump-client"}; !slices.Equal(left, want) {
		t.Errorf("omitted: %q, want %q", left, want)
	}
	for _, c := range got.Random.Choices() {
		if c.Kind.SetsClock && c.On == nemesis.Client {
			t.Errorf("%s may be drawn", c.Name)
		}
	}
	if a, b := len(s.Random.Choices()), len(got.Random.Choices()); a != b+1 || len(s.Random.Faults) != 3 {
		t.Errorf("%d choices became %d; the original scenario's faults: %q", a, b, s.Random.Faults)
	}
	if plain, left := parse(t, tiered)[0].WithoutClientClockSteps(); left != nil || plain.Random != nil {
		t.Errorf("with a fixed plan: %q", left)
	}
}

// A kind's own quorum becomes part of the scenario, and thus of the history.
func TestLockKindQuorum(t *testing.T) {
	s := parse(t, strings.Replace(tiered, "tier: every", "tier: quorum", 1)+"\n")[0]
	s.Expect = map[string]Expectation{"mutual-exclusion": {Want: wantHolds}, "fault-tolerance": {Want: wantHolds}}
	able := lock.Features{Extend: true, Limit: true, Sequential: true}
	for name, row := range map[string]struct {
		kind   lock.Kind
		quorum int
		claims string // expectation for fault-tolerance while a minority is down
	}{
		"a majority": {lock.Kind{Can: able}, 3, wantHolds},
		"all nodes":  {lock.Kind{Can: able, Quorum: func(nodes int) int { return nodes }}, 5, wantAny},
	} {
		other, err := s.ForLock("other", row.kind)
		if err != nil || other.Quorum() != row.quorum || other.Expect["fault-tolerance"].Want != row.claims || other.Expect["mutual-exclusion"].Want != wantHolds {
			t.Errorf("%s: quorum %d, expects %v, %v", name, other.Quorum(), other.Expect, err)
		}
	}
	if _, err := s.ForLock("other", lock.Kind{Can: able, Quorum: func(int) int { return 1 }}); err == nil || !strings.Contains(err.Error(), "this lock needs only one") {
		t.Errorf("a lock with a quorum of one: %v", err)
	}
}

// Options are merged with the scenario's own and override them. Properties that they forgo are
// not expected.
func TestWithOptions(t *testing.T) {
	k := lock.Kind{Options: []lock.Option{{Name: "quarantine", Values: []string{"no", "yes"}, Forgoes: []string{"fault-tolerance"}}, {Name: "repair", Values: []string{"no", "yes"}}}}
	for _, tt := range []struct {
		own, set, want map[string]string
		expected       string
	}{
		{nil, nil, nil, wantHolds},
		{map[string]string{"quarantine": "yes"}, nil, map[string]string{"quarantine": "yes"}, wantHolds}, // own options don't change the expectations
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
			t.Errorf("%v with %v: options %v, expected %v", tt.own, tt.set, got.Lock.Options, got.Expect)
		}
	}
}

// Two kinds may have an option of the same name with different values. Each accepts its own.
func TestSameOptionOfTwoKinds(t *testing.T) {
	two := known
	two.Kinds = maps.Clone(known.Kinds)
	two.Kinds["single"] = lock.Kind{Options: []lock.Option{{Name: "fail-fast", Values: []string{"defaults", "none"}}}}
	for option, fits := range map[string]string{"yes": "redsync", "none": "single", "often": ""} {
		for _, kind := range []string{"redsync", "single"} {
			_, err := ParseWith("f.yaml", []byte(head+"lock: {kind: "+kind+", options: {fail-fast: "+option+"}}\n"), two, Overrides{}, nil)
			if (err == nil) != (kind == fits) {
				t.Errorf("%s with fail-fast=%s: %v", kind, option, err)
			}
		}
	}
}

// A property that the tier requires is expected of each lock that promises it, whether the file
// lists it or not, and is not written to files.
func TestTierRequiresProperties(t *testing.T) {
	s := parse(t, tiered)[0]
	if e := s.Expect[validOnReturn]; e != implied {
		t.Fatalf("expectation for the scenario's own lock: %+v", e)
	}
	for belief, want := range map[lock.Belief]string{lock.ByDeadline: wantHolds, lock.ByNothing: wantAny, lock.BySignal: wantAny} {
		other, err := s.ForLock("other", lock.Kind{Belief: belief, Can: lock.Features{Extend: true, Limit: true, Sequential: true}})
		if got := other.Expect[validOnReturn].Want; err != nil || got != want {
			t.Errorf("expectation for a lock with belief %q: %q, %v", belief, got, err)
		}
	}
	text, err := Write(s, "", known)
	if err != nil || strings.Contains(string(text), validOnReturn) {
		t.Errorf("%v; the required property was written:\n%s", err, text)
	}
	delete(s.Expect, validOnReturn)
	if err := s.Check(known); err != nil {
		t.Errorf("a run.json of a version that didn't require it: %v", err)
	}
	named := parse(t, strings.Replace(tiered, "expect: {", "expect: {valid-on-return: any, ", 1))[0]
	if e := named.Expect[validOnReturn]; e.Want != wantAny {
		t.Errorf("with an explicit expectation: %+v", e)
	}
	if quorum := parse(t, strings.Replace(tiered, "tier: every", "tier: quorum", 1))[0]; len(quorum.Expect[validOnReturn].Want) > 0 {
		t.Error("another tier requires the property, too")
	}
}
