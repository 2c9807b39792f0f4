package locktest

import (
	"cmp"
	"flag"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/harness/lock"
	"lockpick/harness/lock/kinds"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// renamedKind returns one of lockpick's kinds under a different name, as if it came from elsewhere.
func renamedKind(name string) lock.Kind {
	k := kinds.All[name]
	k.Name = "mine"
	return k
}

// TestRunsScenarios runs a few scenarios against different kinds of locks, with two seeds each.
func TestRunsScenarios(t *testing.T) {
	for _, name := range []string{"redlock", "redislock"} {
		t.Run(name, func(t *testing.T) {
			Run(t, renamedKind(name), Options{Scenarios: []string{"baseline/", "foreign-release/"}, Seeds: 2})
		})
	}
}

// -run selects subtests by their names.
func TestPatternSelectsSubtest(t *testing.T) {
	for name, want := range map[string]string{
		"TestX":                           "^TestX$",
		"TestX/of_a_kind/baseline/seed=7": "^TestX$/^of_a_kind$/^baseline$/^seed=7$",
		"TestX/a+b":                       `^TestX$/^a\+b$`,
	} {
		if got := pattern(name); got != want {
			t.Errorf("%s: pattern %s, want %s", name, got, want)
		}
	}
}

// Invalid options are reported immediately, with a hint.
func TestRejectsInvalidOptions(t *testing.T) {
	kind := lock.Kind{New: renamedKind("single").New, Options: []lock.Option{{Name: "speed", Values: []string{"low", "high"}}}}
	for want, tt := range map[string]struct {
		kind lock.Kind
		o    Options
	}{
		"has no factory": {lock.Kind{}, Options{}},
		`lockpick already has a kind named "redsync"`: {lock.Kind{Name: "redsync", New: kind.New}, Options{}},
		`invalid kind name "My Lock"`:                 {lock.Kind{Name: "My Lock", New: kind.New}, Options{}},
		"an option is negative":                       {kind, Options{Seeds: -1}},
		"a key without expiry":                        {kind, Options{TTL: -1}},
		"no try, or no limit":                         {kind, Options{Tries: -1}},
		"use at most 99":                              {kind, Options{Nodes: 100}},
		"invalid with Tries 10000000: ":               {kind, Options{Tries: 10_000_000}},
		"invalid with TTL 1ms: a node timeout":        {kind, Options{TTL: time.Millisecond}},
		`unknown backend "docker"`:                    {kind, Options{Backend: "docker"}},
		"Scale is only for real servers":              {kind, Options{Scale: 2}},
		"locktest.Process(m, kind)":                   {kind, Options{Backend: Servers}},
		"no option speed=medium":                      {kind, Options{Set: map[string]string{"speed": "medium"}}},
		"no option colour=red":                        {kind, Options{Set: map[string]string{"colour": "red"}}},
		`no scenario or file "basline": see`:          {kind, Options{Scenarios: []string{"basline"}}},
		`no scenario matches`:                         {kind, Options{Tags: []string{"nowhere"}}},
		`no scenario or file "nobody"`:                {kind, Options{Without: map[string]string{"nobody": "why"}}},
	} {
		r := &run{Options: tt.o, kind: tt.kind}
		err := r.complete()
		if err == nil {
			_, err = r.chooseScenarios()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v; want %q", tt.o, err, want)
		}
	}
}

// choicesByName returns the choices for a kind, by name.
func choicesByName(t *testing.T, k lock.Kind, o Options) map[string]choice {
	t.Helper()
	r := &run{Options: o, kind: k}
	if err := r.complete(); err != nil {
		t.Fatal(err)
	}
	all, err := r.chooseScenarios()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]choice{}
	for _, c := range all {
		out[c.name()] = c
	}
	return out
}

// By default, a lock runs the scenarios that have a tier for it.
func TestTiersSelectScenarios(t *testing.T) {
	single, quorum := choicesByName(t, renamedKind("single"), Options{}), choicesByName(t, renamedKind("redlock"), Options{})
	if len(single) < 20 || len(quorum) < len(single)+20 {
		t.Errorf("%d scenarios for a lock on one node, %d for a lock that counts votes", len(single), len(quorum))
	}
	for name, c := range quorum {
		_, inSingle := single[name]
		if quorum := c.Tier == scenario.TierQuorum; quorum == inSingle {
			t.Errorf("%s: tier %q, for a lock on one node: %v", name, c.Tier, inSingle)
		}
		if own := c.Comparison; own != nil && (own.Lock.Mistake != "" || own.Lock.Kind == "mine") {
			t.Errorf("%s: the comparison run has the lock %+v", name, own.Lock)
		}
		if !inSingle && c.skipReason != "" {
			t.Errorf("%s is skipped: %s", name, c.skipReason)
		}
	}
	if c := single["gc-pause-after-acquire/fenced"]; c.skipReason != "this lock has no fencing tokens" {
		t.Errorf("fenced: %q", c.skipReason)
	}
}

// Scenarios are selected by names, globs, variants, files and tags. Named scenarios don't need a
// tier.
func TestScenarioSelection(t *testing.T) {
	text, err := os.ReadFile("../../scenarios/baseline.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/own.yaml"
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "name: baseline", "name: own", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		o    Options
		want string
	}{
		{Options{Scenarios: []string{"baseline/", "baseline/", "lost-reply/"}}, "baseline/base lost-reply/base"},
		{Options{Scenarios: []string{"gc-pause-after-acquire/fenced"}}, "gc-pause-after-acquire/fenced"},
		{Options{Scenarios: []string{"power-loss-*/"}}, "power-loss-always/base power-loss-everysec/base power-loss-no-fsync/base"},
		{Options{Scenarios: []string{file + "/"}}, "own/base"},
		{Options{Scenarios: []string{"clock-*/"}, Tags: []string{"kleppmann", "ci"}}, "clock-jump/base"},
	} {
		all := choicesByName(t, renamedKind("redlock"), tt.o)
		var names []string
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("%+v: scenarios %s, want %s", tt.o, got, tt.want)
		}
	}
}

// Another number of nodes applies to the comparison run, too, and the requirements stay. Scenarios
// that make no sense with it are skipped.
func TestOtherNumberOfNodes(t *testing.T) {
	standard := choicesByName(t, renamedKind("redlock"), Options{})
	for _, nodes := range []int{3, 4} {
		suitable := 0
		for name, c := range choicesByName(t, renamedKind("redlock"), Options{Nodes: nodes}) {
			own := standard[name].Topology.Nodes
			switch {
			case c.skipReason == "" && c.Topology.Nodes != min(own, nodes) && c.Topology.Nodes != nodes:
				t.Errorf("%s: %d of %d nodes", name, c.Topology.Nodes, nodes)
			case c.skipReason == "" && (c.Comparison.Topology.Nodes != c.Topology.Nodes || !reflect.DeepEqual(c.Expect, standard[name].Expect)):
				t.Errorf("%s: %d nodes in the comparison run, expected %v, usually %v", name, c.Comparison.Topology.Nodes, c.Expect, standard[name].Expect)
			case c.skipReason == "" && own > 1:
				suitable++
			case c.skipReason != "" && own == nodes:
				t.Errorf("%s has %d nodes, but is skipped: %s", name, own, c.skipReason)
			}
		}
		if suitable < 40 {
			t.Errorf("only %d scenarios make sense with %d nodes", suitable, nodes)
		}
	}
	if c := choicesByName(t, renamedKind("redlock"), Options{Nodes: 3})["split-vote/base"]; !strings.HasPrefix(c.skipReason, "needs ") {
		t.Errorf("split-vote with 3 nodes: %q", c.skipReason)
	}
	if c := choicesByName(t, renamedKind("single"), Options{Nodes: 3})["minority-down/base"]; c.Topology.Nodes > 1 {
		t.Errorf("a lock on one node: %+v", c.Topology)
	}
}

// The options TTL and Tries replace the settings of all scenarios and their comparison runs. What the
// scenarios require is then required only if the scenarios' own locks achieve it. Scenarios that have
// no such TTL are skipped.
func TestOtherSettings(t *testing.T) {
	standard := choicesByName(t, renamedKind("redlock"), Options{})
	for _, o := range []Options{{TTL: 8 * time.Second}, {TTL: 1500 * time.Millisecond}, {Tries: 3}, {TTL: time.Minute, Tries: 1, Nodes: 3}} {
		chosen := 0
		for name, c := range choicesByName(t, renamedKind("redlock"), o) {
			if c.skipReason != "" {
				continue
			}
			chosen++
			want, wantTries := cmp.Or(o.TTL, standard[name].Lock.TTL), cmp.Or(o.Tries, standard[name].Lock.Tries)
			for _, s := range []scenario.Scenario{c.Scenario, *c.Comparison} {
				if s.Lock.TTL != want || s.Lock.Tries != wantTries {
					t.Errorf("%+v: %s: TTL %v, %d tries", o, name, s.Lock.TTL, s.Lock.Tries)
				}
			}
			j := c.selection.Job(c.Pick, 1)
			for property, e := range c.Expect {
				if usual := standard[name].Expect[property]; o.Nodes == 0 && e.Want != usual.Want {
					t.Errorf("%+v: %s: %s is expected to be %s, usually %s", o, name, property, e.Want, usual.Want)
				}
				if (e.Want == "holds") != slices.Contains(j.RelativeProperties, property) {
					t.Errorf("%+v: %s: %s must be %s; relative are %v", o, name, property, e.Want, j.RelativeProperties)
				}
			}
		}
		if chosen < 50 {
			t.Errorf("%+v: only %d scenarios", o, chosen)
		}
	}
	if c := choicesByName(t, renamedKind("redlock"), Options{TTL: 8 * time.Second})["slow-acquire/base"]; c.skipReason != "invalid with TTL 8s: a node timeout of 4s is too long for a TTL of 8s" {
		t.Errorf("slow-acquire: %q", c.skipReason)
	}
	for ttl, want := range map[time.Duration]string{0: "", 8 * time.Second: "its clients have different TTLs, but Options.TTL says that the lock always uses 8s"} {
		if c := choicesByName(t, renamedKind("redlock"), Options{TTL: ttl})["different-ttls/base"]; c.skipReason != want {
			t.Errorf("different-ttls with TTL %v: %q", ttl, c.skipReason)
		}
	}
}

// In scenarios with clock drift, nothing is required of a lock without a drift margin. In all other
// scenarios, such a lock must meet the usual requirements.
func TestNoDriftRequirements(t *testing.T) {
	all := choicesByName(t, renamedKind("redlock"), Options{NoDrift: true})
	for name, required := range map[string]bool{"ntp-slew/base": false, "baseline/base": true, "random-within-assumptions/base": true} {
		c := all[name]
		if got := c.Expect["mutual-exclusion"].Want == "holds"; got != required {
			t.Errorf("%s: expected %+v", name, c.Expect)
		}
		if c.Random != nil && slices.ContainsFunc(c.Random.Choices(), func(x nemesis.Choice) bool { return x.Kind.Name == "clock-rate" || x.Kind.Name == "clock-slew" }) {
			t.Errorf("%s: the random plan may include clock drift", name)
		}
	}
}

// On real servers, all durations are scaled, including those in the comparison run.
func TestScaleOfComparisonRun(t *testing.T) {
	defer func() { clients = nil }()
	clients = []lock.Kind{renamedKind("single")}
	for scale, want := range map[float64]time.Duration{0: time.Second, 0.5: 5 * time.Second} {
		c := choicesByName(t, renamedKind("single"), Options{Backend: Servers, Scale: scale, Scenarios: []string{"baseline/"}})["baseline/base"]
		if c.Lock.TTL != want || c.Comparison.Lock.TTL != want {
			t.Errorf("scale %v: TTL %v, and %v in the comparison run", scale, c.Lock.TTL, c.Comparison.Lock.TTL)
		}
	}
}

// If redis-server is not installed, the test is skipped with a hint.
func TestSkipsWithoutServers(t *testing.T) {
	defer func() { clients = nil }()
	clients = []lock.Kind{renamedKind("single")}
	t.Setenv("PATH", "")
	t.Run("none", func(t *testing.T) {
		t.Cleanup(func() {
			if !t.Skipped() {
				t.Error("the test was not skipped")
			}
		})
		Run(t, renamedKind("single"), Options{Backend: Servers})
	})
}

// The stacks include only the lock's goroutines.
func TestStacksOfTheLock(t *testing.T) {
	dump := "the lock says this\nSIGQUIT: quit\nPC=0x40e26c m=0 sigcode=0\n\ngoroutine 1 gp=0x3a01b447a960 m=nil [chan receive]:\nmain.main()\n\tmain.go:3 +0x1 fp=0x1 sp=0x2 pc=0x3\n\n" +
		"goroutine 7 [running]:\nexample.org/fair.(*fair).Acquire(0x1)\n\tfair.go:9 +0x1\n\ngoroutine 9 [select]:\nlockpick/harness/locktest.(*run).work(0x1)\nexample.org/fair.TestLock()\n"
	want := "the lock says this\nSIGQUIT: quit\n\ngoroutines in example.org/fair (1 of 1):\n\ngoroutine 7 [running]:\nexample.org/fair.(*fair).Acquire(0x1)\n\tfair.go:9 +0x1"
	if got := goroutineStacks(dump, "example.org/fair"); got != want {
		t.Errorf("got %q", got)
	}
	if got := goroutineStacks(dump, "example.org/fa"); !strings.Contains(got, "none of them in example.org/fa (2 of 2)") {
		t.Errorf("got %q", got)
	}
	if got := goroutineStacks(" no dump\n", "x"); got != "no dump" {
		t.Errorf("got %q", got)
	}
	if got := packageOf(kinds.All["redsync"].New); got != strings.TrimSuffix(packageOf(renamedKind("single").New), "single")+"redsync" {
		t.Errorf("package %q", got)
	}
}

var message = flag.String("message", "", "what the lock in TestFlags prints")

// TestFlags is run by TestWorkersGetFlags.
func TestFlags(t *testing.T) {
	if *message == "" {
		t.Skip("run by TestWorkersGetFlags")
	}
	k := renamedKind("single")
	Run(t, lock.Kind{Name: "talks", OneNode: true, New: func(env lock.Env) (lock.Lock, error) {
		os.Stdout.WriteString("the message is " + *message + "\n")
		return k.New(env)
	}}, Options{Scenarios: []string{"baseline/"}, Without: map[string]string{"lost-reply": "not asked for"}})
}

// Workers get the test's own flags, and the lock's output is shown.
func TestWorkersGetFlags(t *testing.T) {
	out, err := exec.Command(os.Args[0], "-test.run", "^TestFlags$", "-test.v", "-message=some text").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "Output of the lock:\n        the message is some text") || !strings.Contains(string(out), "mutual-exclusion holds: ") {
		t.Errorf("%v\n%s", err, out)
	}
}
