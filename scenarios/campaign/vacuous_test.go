package campaign_test

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"lockpick/checker"
	"lockpick/checker/verdict"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/harness/sim"
	"lockpick/nemesis"
	"lockpick/scenarios/campaign"
	"lockpick/scenarios/outcome"
)

// faultCase describes when a kind of fault takes effect and when it can't.
type faultCase struct {
	when        string // "" means 100 ms after c1 has acquired the lock
	fault       string
	topology    string // in addition to the nodes
	readBack    string // regular expression for the read-back that proves the fault active
	ineffective map[string]ineffectivePlan
}

// ineffectivePlan is a plan without effect, and the reason that the run must give for being
// undecided.
type ineffectivePlan struct {
	steps    []string
	topology string
	reason   string               // regular expression
	change   func(*nemesis.Fault) // changes the first fault in a way that files can't
}

// makeTiny makes a fault smaller than scenario files allow, as a small scale factor may.
func makeTiny(f *nemesis.Fault) {
	const scale = 20
	f.By /= scale
	f.Delay = nemesis.Span{Min: f.Delay.Min / scale, Max: f.Delay.Max / scale}
}

const (
	beforeStart  = "{at: 20ms}" // c1 starts at 100 ms
	acquired     = "{client: c1, event: acquired, after: 100ms}"
	later        = "{client: c1, event: acquired, after: 200ms}"
	afterRelease = "{client: c1, event: released, after: 200ms}" // c2 holds the lock
)

func planStep(when, fault string) string { return fmt.Sprintf("{when: %s, fault: {%s}}", when, fault) }

var n1Down = planStep(acquired, "kind: kill, targets: [n1]")

var faultCases = map[string]faultCase{
	"pause": {
		fault: "kind: pause, targets: [c1], for: 300ms", readBack: `^c1 is stopped, its clock shows `,
		ineffective: map[string]ineffectivePlan{
			"a client that has ended":   {steps: []string{planStep(afterRelease, "kind: pause, targets: [c1], for: 100ms")}, reason: `step 1 .* failed on c1: .*it has ended`},
			"a node that is down":       {steps: []string{n1Down, planStep(later, "kind: pause, targets: [n1], for: 100ms")}, reason: `step 2 .* failed on n1: .*it is down`},
			"a client before it begins": {steps: []string{planStep(beforeStart, "kind: pause, targets: [c1], for: 20ms")}, reason: `step 1 .* hit nothing: c1 neither wanted nor held a lock in the meantime`},
			"an unused node":            {steps: []string{planStep(beforeStart, "kind: pause, targets: [n1], for: 20ms")}, reason: `step 1 .* hit nothing: n1 received no request`},
		},
	},
	"gc": {
		fault: "kind: gc, targets: [c1], every: 10ms..50ms, lasts: 1ms..50ms", readBack: `^c1 is stopped, its clock shows `,
		ineffective: map[string]ineffectivePlan{
			"a client that has ended":    {steps: []string{planStep(afterRelease, "kind: gc, targets: [c1], every: 10ms..50ms, lasts: 1ms..50ms")}, reason: `step 1 .* never started`},
			"a client before it begins":  {steps: []string{planStep(beforeStart, "kind: gc, targets: [c1], every: 1ms..5ms, lasts: 1ms..2ms, for: 30ms")}, reason: `step 1 .* hit nothing: c1 neither wanted nor held a lock in the meantime`},
			"rarer than the fault lasts": {steps: []string{planStep(acquired, "kind: gc, targets: [c1], every: 1s..2s, lasts: 1ms..50ms, for: 500ms")}, reason: `step 1 .* never started`},
		},
	},
	"kill": {
		fault: "kind: kill, targets: [n1], for: 300ms", readBack: `^run_id \w+ \(keys: \d\) was killed; PING: refused$`,
		ineffective: map[string]ineffectivePlan{
			"a node that is down":      {steps: []string{n1Down, planStep(later, "kind: kill, targets: [n1]")}, reason: `step 2 .* failed on n1: .*it is down already`},
			"an unused node":           {steps: []string{planStep(beforeStart, "kind: kill, targets: [n1], for: 20ms")}, reason: `step 1 .* hit nothing: n1 received no request in the meantime and had no lock's key`},
			"a client that has ended":  {steps: []string{planStep(afterRelease, "kind: kill, targets: [c1]")}, reason: `step 1 .* failed on c1: .*it has ended`},
			"a client that is dead":    {steps: []string{planStep(acquired, "kind: kill, targets: [c1]"), planStep(later, "kind: kill, targets: [c1]")}, reason: `step 2 .* failed on c1: .*it was killed: it has ended`},
			"a pause of a dead client": {steps: []string{planStep(acquired, "kind: kill, targets: [c1]"), planStep(later, "kind: pause, targets: [c1]")}, reason: `step 2 .* failed on c1: .*it was killed: it has ended`},
		},
	},
	"shutdown": {
		fault: "kind: shutdown, targets: [n1], for: 300ms", readBack: `^run_id \w+ \(keys: \d\) was shut down; PING: refused$`,
		ineffective: map[string]ineffectivePlan{
			"a node that is down": {steps: []string{n1Down, planStep(later, "kind: shutdown, targets: [n1]")}, reason: `step 2 .* failed on n1: .*it is down already`},
			"an unused node":      {steps: []string{planStep(beforeStart, "kind: shutdown, targets: [n1], for: 20ms")}, reason: `step 1 .* hit nothing: n1 received no request`},
		},
	},
	"power-loss": {
		fault: "kind: power-loss, targets: [n1], for: 300ms", topology: "persistence: no",
		readBack: `^run_id \w+ \(keys: \d\) has no power, its disk lost [1-9]\d* records; PING: no answer$`,
		ineffective: map[string]ineffectivePlan{
			"a node that is down": {steps: []string{n1Down, planStep(later, "kind: power-loss, targets: [n1]")}, reason: `step 2 .* failed on n1: .*it is down already`},
			"nothing is unsynced": {steps: []string{planStep(beforeStart, "kind: power-loss, targets: [n1], for: 300ms")}, topology: "persistence: no", reason: `step 1 .* hit nothing: its disk lost 0 records`},
			"an unused node":      {steps: []string{planStep(beforeStart, "kind: power-loss, targets: [n1], for: 20ms")}, topology: "persistence: always", reason: `step 1 .* hit nothing: n1 received no request`},
		},
	},
	"cut": {
		fault: "kind: cut, targets: [c2-n1], way: reply, for: 300ms", readBack: `^PING through c2-n1: no answer, though the node gave one: PONG$`,
		ineffective: map[string]ineffectivePlan{
			"a link without traffic":            {steps: []string{planStep(acquired, "kind: cut, targets: [c1-n1], for: 300ms")}, reason: `step 1 .* hit nothing: c1-n1 carried no traffic in the meantime`},
			"a refusing link without traffic":   {steps: []string{planStep(acquired, "kind: cut, targets: [c1], mode: refuse, for: 300ms")}, reason: `step 1 .* hit nothing: c1-n1 carried no traffic in the meantime`},
			"an unused link to the resource":    {steps: []string{planStep(later, "kind: cut, targets: [c1-r1], for: 300ms")}, reason: `step 1 .* hit nothing: c1-r1 carried no traffic in the meantime`},
			"a link of a client that has ended": {steps: []string{planStep(afterRelease, "kind: cut, targets: [c1-n1]")}, reason: `step 1 .* hit nothing: c1-n1 carried no traffic in the meantime`},
			"a link to a node that is down":     {steps: []string{n1Down, planStep(later, "kind: cut, targets: [c2-n1]")}, reason: `step 2 .* hit nothing: n1 was down the whole time`},
			"replication of nothing":            {steps: []string{planStep(acquired, "kind: cut, targets: [n1-replica], for: 100ms")}, topology: "replicas: 1", reason: `step 1 .* hit nothing: n1 had nothing to replicate`},
			"a link that is cut in another way": {
				steps:  []string{planStep(acquired, "kind: cut, targets: [c1-n1], mode: drop"), planStep(later, "kind: cut, targets: [c1-n1]")},
				reason: `step 2 .* failed on c1-n1: .*in force already, in another way`},
		},
	},
	"delay": {
		fault: "kind: delay, targets: [c1-n1], delay: 5ms..10ms", readBack: `^all messages are late by 5ms to 10ms; PING through c1-n1: PONG after 1\d\.`,
		ineffective: map[string]ineffectivePlan{
			"too little to notice": {steps: []string{planStep(beforeStart, "kind: delay, targets: [c1], delay: 1ms")}, change: makeTiny, reason: `step 1 .* failed on c1-n1: it hit nothing: none was late by as much as 100µs`},
			"no message passes":    {steps: []string{planStep(acquired, "kind: delay, targets: [c1], delay: 5ms, for: 100ms")}, reason: `step 1 .* failed on c1-n1: it hit nothing: it hit 0 of 0 messages`},
		},
	},
	"throttle": {
		fault: "kind: throttle, targets: [c1-n1], bandwidth: 10000", readBack: `^all messages pass at 10000 bytes/s; PING through c1-n1: PONG after \d`,
		ineffective: map[string]ineffectivePlan{
			"above the traffic": {steps: []string{planStep(beforeStart, "kind: throttle, targets: [c1], bandwidth: 1000000000")}, reason: `step 1 .* failed on c1-n1: it hit nothing: none was late by as much as 100µs`},
			"no message passes": {steps: []string{planStep(acquired, "kind: throttle, targets: [c1], bandwidth: 10000, for: 100ms")}, reason: `step 1 .* failed on c1-n1: it hit nothing: it hit 0 of 0 messages`},
		},
	},
	"lose": {
		fault: "kind: lose, targets: [c1-n1], share: 100%", readBack: `^all messages are lost$`,
		ineffective: map[string]ineffectivePlan{
			"no message passes": {steps: []string{planStep(acquired, "kind: lose, targets: [c1], share: 90%, for: 100ms")}, reason: `step 1 .* failed on c1-n1: it hit nothing: it hit 0 of 0 messages`},
		},
	},
	"hold": {
		when: "{link: c1-n1, message: release, of: request}", fault: "kind: hold, for: 300ms", readBack: `^the message was matched on c1-n1$`,
		ineffective: map[string]ineffectivePlan{
			"a message that never comes": {steps: []string{planStep("{link: c1-n1, message: extend, of: request}", "kind: hold, for: 300ms")}, reason: `step 1 .* never started`},
		},
	},
	"drop": {
		when: "{link: c1-n1, message: release, of: reply}", fault: "kind: drop", readBack: `^the message was matched on c1-n1$`,
		ineffective: map[string]ineffectivePlan{
			"a message that never comes": {steps: []string{planStep("{link: c1-n1, message: set, of: reply, nth: 2}", "kind: drop")}, reason: `step 1 .* never started`},
		},
	},
	"clock-jump": {
		fault: "kind: clock-jump, targets: [n1], by: 3s", readBack: `^TIME shows .*, 3s ahead, rate 1$`,
		ineffective: map[string]ineffectivePlan{
			"by a negligible amount":            {steps: []string{planStep(acquired, "kind: clock-jump, targets: [n1], by: 1ms")}, change: makeTiny, reason: `step 1 .* hit nothing: the clock of n1 was wrong by less than 100µs`},
			"corrected before it is read":       {steps: []string{planStep(beforeStart, "kind: clock-jump, targets: [n1], by: 3s, for: 20ms")}, reason: `step 1 .* hit nothing: n1 received no request`},
			"of a client before it begins":      {steps: []string{planStep(beforeStart, "kind: clock-jump, targets: [c1], by: 3s, for: 20ms")}, reason: `step 1 .* hit nothing: c1 neither wanted nor held a lock in the meantime`},
			"a client that has ended":           {steps: []string{planStep(afterRelease, "kind: clock-jump, targets: [c1], by: 3s")}, reason: `step 1 .* failed on c1: .*it has ended`},
			"a node that stays down":            {steps: []string{n1Down, planStep(later, "kind: clock-jump, targets: [n1], by: 3s")}, reason: `step 2 .* hit nothing: n1 was down the whole time`},
			"corrected before the node is back": {steps: []string{planStep(acquired, "kind: kill, targets: [n1], for: 400ms"), planStep(later, "kind: clock-jump, targets: [n1], by: 3s, for: 100ms")}, reason: `step 2 .* hit nothing: n1 was down the whole time`},
		},
	},
	"clock-rate": {
		fault: "kind: clock-rate, targets: [c1], rate: 1.1", readBack: `^wall clock shows .*, rate 1.1 of both clocks`,
		ineffective: map[string]ineffectivePlan{
			"correct":                 {steps: []string{planStep(acquired, "kind: clock-rate, targets: [c1], rate: 1")}, reason: `step 1 .* hit nothing: the clock of c1 was wrong by less than 100µs`},
			"almost correct":          {steps: []string{planStep(acquired, "kind: clock-rate, targets: [n1, n2], rate: 1.00001")}, reason: `step 1 .* hit nothing: the clock of n1 was wrong by less than 100µs`},
			"a client that has ended": {steps: []string{planStep(afterRelease, "kind: clock-rate, targets: [c1], rate: 1.1")}, reason: `step 1 .* failed on c1: .*it has ended`},
			"a node that stays down":  {steps: []string{n1Down, planStep(later, "kind: clock-rate, targets: [n1], rate: 1.1")}, reason: `step 2 .* hit nothing: n1 was down the whole time`},
		},
	},
	"clock-slew": {
		fault: "kind: clock-slew, targets: [n1], by: 1ms", readBack: `^TIME shows .*, rate 1.0005`,
		ineffective: map[string]ineffectivePlan{
			"by a negligible amount":  {steps: []string{planStep(acquired, "kind: clock-slew, targets: [n1], by: -1ms")}, change: makeTiny, reason: `step 1 .* hit nothing: the clock of n1 was wrong by less than 100µs`},
			"a client that has ended": {steps: []string{planStep(afterRelease, "kind: clock-slew, targets: [c1], by: -1ms")}, reason: `step 1 .* failed on c1: .*it has ended`},
			"a node that stays down":  {steps: []string{n1Down, planStep(later, "kind: clock-slew, targets: [n1], by: 1ms")}, reason: `step 2 .* hit nothing: n1 was down the whole time`},
		},
	},
	"clock-strobe": {
		fault: "kind: clock-strobe, targets: [n1], by: 1s, every: 50ms..100ms", readBack: `^TIME shows .*, 1s ahead, rate 1$`,
		ineffective: map[string]ineffectivePlan{
			"by a negligible amount":     {steps: []string{planStep(acquired, "kind: clock-strobe, targets: [n1], by: 1ms, every: 50ms..100ms")}, change: makeTiny, reason: `step 1 .* hit nothing: the clock of n1 was wrong by less than 100µs`},
			"a client that has ended":    {steps: []string{planStep(afterRelease, "kind: clock-strobe, targets: [c1], by: 1s, every: 50ms")}, reason: `step 1 .* never started`},
			"rarer than the fault lasts": {steps: []string{planStep(acquired, "kind: clock-strobe, targets: [n1], by: 1s, every: 1s, for: 500ms")}, reason: `step 1 .* never started`},
		},
	},
	"slow-disk": {
		fault: "kind: slow-disk, targets: [n1]", topology: "persistence: always", readBack: `^disk of n1: write: ok, fsync: does not come back, \d+ records not synced$`,
		ineffective: map[string]ineffectivePlan{
			"a node that is down":      {steps: []string{n1Down, planStep(later, "kind: slow-disk, targets: [n1]")}, topology: "persistence: always", reason: `step 2 .* failed on n1: .*it is down`},
			"a node that never syncs":  {steps: []string{planStep(acquired, "kind: slow-disk, targets: [n1]")}, topology: "persistence: no", reason: `step 1 .* failed on n1: it hit nothing`},
			"nothing is written there": {steps: []string{planStep(acquired, "kind: slow-disk, targets: [n1], for: 100ms")}, topology: "persistence: always", reason: `step 1 .* failed on n1: it hit nothing`},
		},
	},
	"full-disk": {
		fault: "kind: full-disk, targets: [n1]", topology: "persistence: everysec", readBack: `^disk of n1: write: No space left on device, fsync: ok, `,
		ineffective: map[string]ineffectivePlan{
			"a node that is down":      {steps: []string{n1Down, planStep(later, "kind: full-disk, targets: [n1]")}, topology: "persistence: always", reason: `step 2 .* failed on n1: .*it is down`},
			"nothing is written there": {steps: []string{planStep(acquired, "kind: full-disk, targets: [n1], for: 100ms")}, topology: "persistence: always", reason: `step 1 .* failed on n1: it hit nothing`},
		},
	},
	"failover": {
		fault: "kind: failover, targets: [n1]", topology: "replicas: 1", readBack: `^run_id \w+ \(keys: \d\) was killed; now run_id \w+ \(keys: \d\), changes not replicated: 0; PING: PONG$`,
		ineffective: map[string]ineffectivePlan{
			"its master is down": {steps: []string{n1Down, planStep(later, "kind: failover, targets: [n1]")}, topology: "replicas: 1", reason: `step 2 .* failed on n1: .*its master is down already`},
			"its master paused only for a moment": {
				steps:    []string{planStep(acquired, "kind: failover, targets: [n1], mode: sentinel-pause"), planStep(later, "kind: kill, targets: [n1], for: 300ms")},
				topology: "replicas: 1", reason: `step 1 .* failed on n1: .*its sentinels promoted no replica because its master came back`},
			"no replica left": {steps: []string{planStep(acquired, "kind: failover, targets: [n1]"), planStep(later, "kind: failover, targets: [n1]")}, topology: "replicas: 1", reason: `step 2 .* failed on n1: .*it has no replica`},
		},
	},
	"touch": {
		fault: "kind: touch, targets: [n1]", topology: "persistence: everysec", readBack: `^n1 has touched = 1; run_id \w+ \(keys: \d\)$`,
		ineffective: map[string]ineffectivePlan{
			"a node without persistence": {steps: []string{planStep(acquired, "kind: touch, targets: [n1]")}, reason: `step 1 .* hit nothing: the nodes keep nothing on disk`},
			"a node that is down":        {steps: []string{n1Down, planStep(later, "kind: touch, targets: [n1]")}, reason: `step 2 .* failed on n1: .*it is down`},
			"a paused node": {
				steps:  []string{planStep(acquired, "kind: pause, targets: [n1], for: 500ms"), planStep(later, "kind: touch, targets: [n1]")},
				reason: `step 2 .* failed on n1: .*it does not answer`},
		},
	},
}

// testedElsewhere names the tests of ineffective faults that the simulation does not support.
var testedElsewhere = map[string]string{
	"unplug": "checker, TestFaultWithoutEffect",
	"starve": "docker, TestStarvedNode",
}

// neverTriggers contains triggers that do not fire before the end of the run.
var neverTriggers = map[string]string{
	"its trigger never comes":         "{client: c1, event: acquired, nth: 9}",
	"its trigger comes after the end": "{client: c2, event: released, after: 50ms}",
}

// skipUnsupported skips the test if the simulation does not support a fault.
func skipUnsupported(t *testing.T, k nemesis.Kind) {
	t.Helper()
	if c := campaign.Probe(t.Context(), sim.New(nil)).Capability(k.Capability(k.TargetTypes[0])); !c.Available && c.Remedy != "" {
		t.Skipf("%s; to run it: %s", c.Reason, c.Remedy)
	}
}

func TestEveryFaultTakesEffect(t *testing.T) {
	for _, k := range nemesis.Kinds {
		t.Run(k.Name, func(t *testing.T) {
			skipUnsupported(t, k)
			c, ok := faultCases[k.Name]
			if !ok || c.fault == "" || c.readBack == "" || len(c.ineffective) == 0 {
				t.Fatal("no case for this fault: add one to faultCases")
			}
			if c.when == "" {
				c.when = acquired
			}
			h, v, js := runSteps(t, c.topology, nil, planStep(c.when, c.fault))
			if code := outcome.CodeOf(js); code != outcome.ExitOK {
				t.Errorf("exit code %d: %v (%s)", code, js, v.Assumption)
			}
			begins := 0
			for _, e := range h.Events {
				if e.Process == history.Nemesis && e.Type == history.Begin && e.Op == k.RecordedName() && e.Step == 1 {
					begins++
					if !regexp.MustCompile(c.readBack).MatchString(e.Cause) {
						t.Errorf("read back as %q, want %s", e.Cause, c.readBack)
					}
				}
			}
			if begins == 0 {
				t.Error("the fault never began")
			}
		})
	}
}

func TestIneffectiveFaultIsUndecided(t *testing.T) {
	for _, k := range nemesis.Kinds {
		c := faultCases[k.Name]
		if _, elsewhere := testedElsewhere[k.Name]; len(c.ineffective) == 0 && !elsewhere {
			t.Errorf("no test for an ineffective %s: add one to faultCases or testedElsewhere", k.Name)
		}
		all := map[string]ineffectivePlan{}
		for name, v := range c.ineffective {
			all[name] = v
		}
		if c.fault != "" && c.when == "" { // faults on messages have no other trigger
			for name, when := range neverTriggers {
				all[name] = ineffectivePlan{steps: []string{planStep(when, c.fault)}, topology: c.topology, reason: `step 1 .* never started`}
			}
		}
		for name, x := range all {
			t.Run(k.Name+"/"+strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
				_, v, js := runSteps(t, x.topology, x.change, x.steps...)
				if code := outcome.CodeOf(js); code != outcome.ExitUndecided {
					t.Errorf("exit code %d: %v", code, js)
				}
				if v.Assumption == "" || !regexp.MustCompile(x.reason).MatchString(v.Assumption) {
					t.Errorf("undecided because of %q, want %s", v.Assumption, x.reason)
				}
				for _, r := range v.Results {
					if r.Outcome != verdict.Undecided || !strings.Contains(r.Because, v.Assumption) {
						t.Errorf("%s %s: %s", r.Property, r.Outcome, r.Because)
					}
				}
			})
		}
	}
}

// runSteps runs and judges a small scenario: c1 holds the lock for a second, then c2 does.
func runSteps(t *testing.T, topology string, change func(*nemesis.Fault), steps ...string) (*history.History, verdict.Verdict, []outcome.Judgement) {
	t.Helper()
	nodes := "nodes: 3"
	if topology != "" {
		nodes += ", " + topology
	}
	if !strings.Contains(nodes, "persistence") {
		nodes += ", persistence: none"
	}
	text := `
name: trial
claim: A fault without effect tests nothing.
source: the harness itself
topology: {` + nodes + `}
lock: {kind: redlock, ttl: 10s, drift: 1%, timeout: 50ms, retry: 50ms..250ms}
clients:
  c1: {hold: 1s, start: 100ms}
  c2: {hold: 1s, start: {client: c1, event: acquired}}
workload: {kind: read-modify-write, keys: 1, fence: none, think: 0s, cycles: 1}
limit: 20s
plan:
  - ` + strings.Join(steps, "\n  - ") + `
expect:
  mutual-exclusion: holds
  resource-safety: holds
`
	all, err := scenario.Parse("trial.yaml", []byte(text), campaign.KnownLocks(kinds.All))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&all[0].Plan[0].Fault)
	}
	var record bytes.Buffer
	if err := harness.Run(t.Context(), sim.New(kinds.All), all[0], 1, history.NewRecorder(&record)); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(&record)
	if err != nil {
		t.Fatal(err)
	}
	v := checker.Check(h)
	return h, v, campaign.Judge(all[0].Expect, v)
}

func TestFaultCasesNameKinds(t *testing.T) {
	for _, name := range slices.Concat(slices.Collect(maps.Keys(faultCases)), slices.Collect(maps.Keys(testedElsewhere))) {
		if !slices.ContainsFunc(nemesis.Kinds, func(k nemesis.Kind) bool { return k.Name == name }) {
			t.Errorf("%s is not a kind of fault", name)
		}
	}
}
