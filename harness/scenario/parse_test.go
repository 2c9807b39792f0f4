package scenario

import (
	"reflect"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/lock"
	"lockpick/nemesis"
)

const ms = time.Millisecond

func ptr[T any](v T) *T { return &v }

func parse(t *testing.T, text string, sets ...string) []Scenario {
	t.Helper()
	all, err := ParseWithOptions("f.yaml", []byte(text), testNames, ParseOptions{Overrides: sets}, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]Scenario, len(all))
	for i, p := range all {
		out[i] = p.Scenario
	}
	return out
}

// A user's own file needs only a name and a claim.
func TestSmallestFile(t *testing.T) {
	s := parse(t, "name: x\nclaim: Something.\n")[0]
	if s.Source != "" || s.Topology.Nodes != 5 || len(s.Clients) != 2 {
		t.Errorf("%+v", s)
	}
	if err := s.Check(testNames); err != nil {
		t.Error(err)
	}
}

func checkSame(t *testing.T, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s:\ngot  %+v\nwant %+v", what, got, want)
	}
}

func TestParseDefaults(t *testing.T) {
	checkSame(t, "scenario", parse(t, requiredKeys), []Scenario{{
		Name: "x", Claim: "Something.", Source: "nobody",
		Topology: Topology{Nodes: 5, Persistence: "none"},
		Lock: lock.Settings{
			Kind: "redlock", TTL: 10 * time.Second, Timeout: 50 * ms, Drift: 0.01, RetryMin: 50 * ms, RetryMax: 250 * ms,
		},
		Clients: []Client{{Name: "c1"}, {Name: "c2"}},
		Workload: Workload{
			Kind: "read-modify-write", Keys: 1, Fence: "none", Cycles: 3, Writes: 1,
			Think: client.Range{Min: 50 * ms, Max: 500 * ms}, Hold: client.Range{Min: 100 * ms, Max: 2 * time.Second},
		},
		Limit: 2 * time.Minute,
		Expect: map[string]Expectation{
			"mutual-exclusion": {Want: "holds", Implied: true}, "resource-safety": {Want: "holds", Implied: true},
			"lease-linearizable": linearizableExpectation("holds"),
		},
	}})
}

func TestParseEveryKey(t *testing.T) {
	s := parse(t, requiredKeys+`
tags: [a, b-2]
topology: {nodes: 3, persistence: no, image: localhost:5000/valkey/valkey:8-alpine}
lock: {kind: broken, mistake: plain-del, ttl: 1s, drift: 2.5%, timeout: 20ms, retry: 30ms, tries: 4, ask: sequential, fence: true, extends: 2}
clients:
  c2: {start: 1s, reach: [n1, n3]}
  c1: {start: {client: c2, event: acquired, nth: 2, after: 5ms}, think: 0s, hold: 1s..2s, cycles: 7}
workload: {kind: read-modify-write, keys: 2, fence: token, think: 1ms..2ms, hold: 3ms, extend: 400ms, for: 20s, writes: 2, check: false}
plan:
  - {when: {at: 0s}, fault: {kind: cut, targets: [c1-n2, c2-r1, n1]}}
  - {when: {client: c1, event: released, every: true, after: 1s}, fault: {kind: pause, targets: [c1], for: 2s}}
  - {when: {client: c1, point: before-release, nth: 3}, fault: {kind: pause, targets: [c1, c2], until: {client: c2, event: wrote}}}
  - {when: {link: c2-n3, message: set, of: reply, nth: 2}, fault: {kind: hold, for: 1s}}
expect: {mutual-exclusion: {violated: overwritten, node: n2}, resource-safety: any, deadlock-freedom: violated, vacuous: allowed}
limits: {extensions: 4, hold: 7s}
limit: 30s
scale: 1
`)[0]
	checkSame(t, "lock", s.Lock, lock.Settings{
		Kind: "broken", Mistake: "plain-del", TTL: time.Second, Drift: 0.025, Timeout: 20 * ms, RetryMin: 30 * ms, RetryMax: 30 * ms,
		Tries: 4, Ask: "sequential", Fence: true, Extends: 2, Prefix: "b:", Votes: 3, NoLossNotice: true, Reenter: true,
	})
	checkSame(t, "clients", s.Clients, []Client{
		{Name: "c2", Delay: time.Second, Reach: []string{"n1", "n3"}},
		{
			Name: "c1", Start: &nemesis.Event{Client: "c2", Event: "acquired", Nth: 2, After: 5 * ms},
			Think: &client.Range{}, Hold: &client.Range{Min: time.Second, Max: 2 * time.Second}, Cycles: ptr(7),
		},
	})
	checkSame(t, "workload", s.Workload, Workload{
		Kind: "read-modify-write", Keys: 2, Fence: "token", Think: client.Range{Min: ms, Max: 2 * ms},
		Hold: client.Range{Min: 3 * ms, Max: 3 * ms}, Extend: 400 * ms, For: 20 * time.Second, Writes: 2, NoCheck: true,
	})
	checkSame(t, "plan", s.Plan, nemesis.Plan{
		{
			When:  nemesis.Trigger{At: ptr(time.Duration(0))},
			Fault: nemesis.Fault{Kind: "cut", Targets: []string{"c1-n2", "c2-r1", "n1"}, Mode: "hold"},
		},
		{
			When:  nemesis.Trigger{Event: &nemesis.Event{Client: "c1", Event: "released", Nth: 1, Every: true, After: time.Second}},
			Fault: nemesis.Fault{Kind: "pause", Targets: []string{"c1"}, For: ptr(2 * time.Second)},
		},
		{
			When:  nemesis.Trigger{Point: &nemesis.OnPoint{Client: "c1", Point: "before-release", Nth: 3}},
			Fault: nemesis.Fault{Kind: "pause", Targets: []string{"c1", "c2"}, Until: &nemesis.Event{Client: "c2", Event: "wrote", Nth: 1}},
		},
		{
			When:  nemesis.Trigger{Message: &nemesis.OnMessage{Link: "c2-n3", Message: "set", Of: "reply", Nth: 2}},
			Fault: nemesis.Fault{Kind: "hold", For: ptr(time.Second)},
		},
	})
	checkSame(t, "expect", s.Expect, map[string]Expectation{
		"mutual-exclusion":   {Want: "violated", Cause: "overwritten", Node: "n2"},
		"lease-linearizable": linearizableExpectation("violated"),
		"resource-safety":    {Want: "any"}, "deadlock-freedom": {Want: "violated"},
	})
	checkSame(t, "other fields", []any{s.Tags, s.Topology, s.Limits, s.Limit, s.Scale, s.MayBeVacuous},
		[]any{[]string{"a", "b-2"}, Topology{Nodes: 3, Persistence: "no", Image: "localhost:5000/valkey/valkey:8-alpine"}, Limits{4, 7 * time.Second}, 30 * time.Second, 1.0, true})
}

const variantsFile = requiredKeys + `
lock: {kind: redlock, ttl: 10s}
plan:
  - {when: {at: 1s}, fault: {kind: pause, targets: [c1], for: 2s}}
expect: {mutual-exclusion: holds, resource-safety: {violated: overrun}}
variants:
  zulu: {set: {lock.ttl: 4s, plan.1.fault.for: 3s}, expect: {resource-safety: holds, deadlock-freedom: any}}
  alpha:
    claim: Something else.
    set: {plan: [], clients: {c1: {}, c3: {}}, clients.c3.cycles: 9, workload.keys: 2}
`

func TestVariants(t *testing.T) {
	all := parse(t, variantsFile)
	if len(all) != 3 {
		t.Fatalf("%d scenarios, want base, zulu and alpha", len(all))
	}
	base, zulu, alpha := all[0], all[1], all[2]
	checkSame(t, "identity", []string{base.ID(), zulu.ID(), alpha.ID(), base.Claim, zulu.Claim, alpha.Claim},
		[]string{"x", "x/zulu", "x/alpha", "Something.", "Something.", "Something else."})
	checkSame(t, "ttl", []time.Duration{base.Lock.TTL, zulu.Lock.TTL, alpha.Lock.TTL},
		[]time.Duration{10 * time.Second, 4 * time.Second, 10 * time.Second})
	checkSame(t, "pause", []time.Duration{*base.Plan[0].Fault.For, *zulu.Plan[0].Fault.For}, []time.Duration{2 * time.Second, 3 * time.Second})
	checkSame(t, "clients", [][]string{base.ClientNames(), alpha.ClientNames()}, [][]string{{"c1", "c2"}, {"c1", "c3"}})
	if len(alpha.Plan) != 0 || *alpha.Clients[1].Cycles != 9 || alpha.Workload.Keys != 2 {
		t.Errorf("alpha: %+v", alpha)
	}
	checkSame(t, "expectations of base", base.Expect, map[string]Expectation{
		"mutual-exclusion": {Want: "holds"}, "lease-linearizable": linearizableExpectation("holds"),
		"resource-safety": {Want: "violated", Cause: "overrun"},
	})
	checkSame(t, "expectations of zulu", zulu.Expect, map[string]Expectation{
		"mutual-exclusion": {Want: "holds"}, "lease-linearizable": linearizableExpectation("holds"),
		"resource-safety": {Want: "holds"}, "deadlock-freedom": {Want: "any"},
	})
	checkSame(t, "expectations of alpha", alpha.Expect, base.Expect)
}

func TestOverridesWinOverVariants(t *testing.T) {
	all := parse(t, variantsFile, "lock.ttl=7s", "workload.hold=1s..2s", "topology={nodes: 3}")
	for _, s := range all {
		if s.Lock.TTL != 7*time.Second || s.Workload.Hold.Max != 2*time.Second || s.Topology.Nodes != 3 {
			t.Errorf("%s: %+v", s.ID(), s)
		}
	}
}

func TestScaled(t *testing.T) {
	before := parse(t, requiredKeys+`
clients:
  c1: {hold: 8s, ttl: 7777ms}
  c2: {start: {client: c1, event: acquired, after: 10ms}, reach: [n1, n2, n3], think: 1s, cycles: 1}
  c3: {start: 5s}
workload: {for: 30s, extend: 3s}
limits: {extensions: 5, hold: 40s}
plan:
  - {when: {at: 3s}, fault: {kind: pause, targets: [c1], for: 15s}}
  - {when: {client: c1, event: acquired, after: 10ms}, fault: {kind: cut, targets: [c1-n1], until: {client: c1, event: read, after: 2s}}}
`)[0]
	want := parse(t, requiredKeys+`
lock: {ttl: 1s, timeout: 50ms, retry: 5ms..25ms}
limit: 12s
clients:
  c1: {hold: 800ms, ttl: 778ms} # in whole milliseconds, as Redis counts
  c2: {start: {client: c1, event: acquired, after: 1ms}, reach: [n1, n2, n3], think: 100ms, cycles: 1}
  c3: {start: 500ms}
workload: {for: 3s, think: 5ms..50ms, hold: 10ms..200ms, extend: 300ms}
limits: {extensions: 5, hold: 4s}
plan:
  - {when: {at: 300ms}, fault: {kind: pause, targets: [c1], for: 1500ms}}
  - {when: {client: c1, event: acquired, after: 1ms}, fault: {kind: cut, targets: [c1-n1], until: {client: c1, event: read, after: 200ms}}}
`)[0]
	got := before.ScaledCopy(0.1)
	checkSame(t, "a tenth", got, want)

	// Changes to the copy don't affect the original.
	*got.Plan[0].When.At, *got.Clients[1].Cycles, got.Clients[1].Reach[0] = 0, 0, "n5"
	got.Plan[1].Fault.Until.Client, got.Plan[0].Fault.Targets[0] = "c3", "c3"
	got.Expect["mutual-exclusion"] = Expectation{}
	checkSame(t, "a second copy", before.ScaledCopy(0.1), want)
}

// Scaling doesn't lower the node timeout below MinTimeout, and never raises it to MinTimeout.
func TestScaledTimeout(t *testing.T) {
	for _, c := range []struct {
		timeout time.Duration
		f       float64
		want    time.Duration
	}{
		{50 * ms, 0.1, MinTimeout}, {4 * time.Second, 0.1, 400 * ms}, {50 * ms, 2, 100 * ms}, {10 * ms, 1, 10 * ms}, {10 * ms, 0.5, 10 * ms},
	} {
		s := Scenario{Lock: lock.Settings{Timeout: c.timeout}}
		if got := s.ScaledCopy(c.f).Lock.Timeout; got != c.want {
			t.Errorf("%v × %g: %v, want %v", c.timeout, c.f, got, c.want)
		}
	}
}

// linearizableExpectation returns the expectation for lease-linearizable if the file doesn't list
// the property.
func linearizableExpectation(want string) Expectation {
	return Expectation{Want: want, Implied: true, LeadProperty: "mutual-exclusion"}
}

func TestExplicitExpectationIsNotOverridden(t *testing.T) {
	s := parse(t, requiredKeys+"expect: {mutual-exclusion: holds, lease-linearizable: {violated: overrun}}\n")[0]
	checkSame(t, "expect", s.Expect["lease-linearizable"], Expectation{Want: "violated", Cause: "overrun"})
}

func TestVariantWithOwnClaimInheritsNoDebate(t *testing.T) {
	const text = requiredKeys + `
debate: {kleppmann: affirms, redis: denies}
variants:
  same:  {set: {lock.ttl: 4s}}
  other: {claim: Something else., set: {lock.ttl: 4s}}
  own:   {claim: Something else., debate: {antirez: denies}, set: {lock.ttl: 4s}}
`
	all := parse(t, text)
	bothStances := map[string]string{"kleppmann": stanceAffirms, "redis": stanceDenies}
	checkSame(t, "debate", []map[string]string{all[0].Debate, all[1].Debate, all[2].Debate, all[3].Debate},
		[]map[string]string{bothStances, bothStances, nil, {"antirez": stanceDenies}})
}
