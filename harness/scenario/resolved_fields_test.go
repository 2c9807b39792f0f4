package scenario

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/nemesis"
)

// allFieldsFile defines scenarios that together use each field at least once.
const allFieldsFile = requiredKeys + `
tags: [a]
tier: quorum
debate: {antirez: affirms}
cures: [other]
topology: {server: etcd, nodes: 3, sizes: 3.. odd, persistence: always, expiry: monotonic, replicas: 1, down-after: 1s, image: redis:7, addresses: [n1, n1, n3]}
lock: {kind: broken, mistake: plain-del, tries: 4, ask: sequential, fence: true, extends: 2, options: {how: loudly}}
clients:
  c1: {start: 1s, reach: [n1, n3], think: 1ms..2ms, hold: 1s..2s, cycles: 7}
  c2: {start: {client: c1, event: acquired, nth: 2, after: 5ms}, cancel-after: 1s}
  c3: {ttl: 5s}
workload: {keys: 2, fence: token, prepare: 1ms..2ms, cancel-after: 2s, extend: 400ms, reenter: 3, cycles: 5, for: 20s, writes: 2, check: false}
plan:
  - {when: {at: 1s}, fault: {kind: cut, targets: [c1-n1], mode: hold, for: 1s, way: reply}}
  - {when: {client: c1, event: released, every: true, after: 1s, before: 9s}, fault: {kind: clock-jump, targets: [n1], by: 5s, until: {client: c2, event: wrote, nth: 2, after: 1s}}}
  - {when: {client: c1, event: released, nth: 2}, fault: {kind: clock-rate, targets: [n1], rate: 1.1}}
  - {when: {client: c1, point: before-release, nth: 3}, fault: {kind: kill, targets: [n1], for: 2s, timer: {rate: 2, step: 1s}}}
  - {when: {link: c2-n3, message: set, of: reply, nth: 2}, fault: {kind: delay, targets: [c2], delay: 1ms..2ms, share: 50%}}
  - {when: {at: 2s}, fault: {kind: throttle, targets: [c1], bandwidth: 1000}}
  - {when: {at: 3s}, fault: {kind: gc, targets: [c1], every: 1s..2s, lasts: 1ms..1s}}
  - {when: {at: 4s}, fault: {kind: starve, targets: [n1], cpu: 0.5, memory: 8MB}}
expect: {mutual-exclusion: {violated: overwritten, node: n2}, bounded-hold: any, numbers: {grants: '>= 3', unavailable-share: '< 0.5 * other'}, vacuous: allowed}
limits: {extensions: 4, hold: 7s}
limit: 30s
exact: true
scale: 0.5
variants: {other: {set: {lock.tries: 3}, expect: {numbers: {grants: '>= 3', unavailable-share: '< 0.5 * base'}}}}
`

const randomPlanFile = requiredKeys + `
workload: {for: 100s}
plan: {random: {faults: [cut, lose, pause], within: assumptions, every: 1s..5s, lasts: 10ms..5s, safety: 60%, modes: [hold], shapes: [one-way]}}
`

// place is the location of a value in a scenario.
type place struct {
	field string // with [] for list items and {} for map entries
	value reflect.Value
}

// placesIn lists the values within v that can be set, including map entries.
func placesIn(field string, v reflect.Value) (all []place) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			all = append(all, placesIn(field+"."+name, v.Field(i))...)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			all = placesIn(field, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, placesIn(field+"[]", v.Index(i))...)
		}
	case reflect.Map:
		for _, key := range sortedKeys(v) {
			item := reflect.New(v.Type().Elem()).Elem()
			item.Set(v.MapIndex(key))
			all = append(all, placesIn(field+"{}", item)...)
		}
	default:
		all = []place{{field, v}}
	}
	return all
}

func sortedKeys(m reflect.Value) []reflect.Value {
	return slices.SortedFunc(slices.Values(m.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
}

// fieldsOf lists the fields of a type in the format of place.field.
func fieldsOf(field string, t reflect.Type) (all []string) {
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			all = append(all, fieldsOf(field+"."+name, t.Field(i).Type)...)
		}
	case reflect.Pointer:
		all = fieldsOf(field, t.Elem())
	case reflect.Slice:
		all = fieldsOf(field+"[]", t.Elem())
	case reflect.Map:
		all = fieldsOf(field+"{}", t.Elem())
	default:
		all = []string{field}
	}
	return all
}

var longText = strings.Repeat("x", 1<<20)

// extremeValues returns values that are too extreme for any run.
func extremeValues(k reflect.Kind) []any {
	switch k {
	case reflect.String:
		return []any{"../../x", "x\x00y", "/", "a b", longText}
	case reflect.Int:
		return []any{-1, math.MinInt64, math.MaxInt64, 1 << 40}
	case reflect.Int64: // durations
		return []any{-1, 1, math.MinInt64, math.MaxInt64, int(25 * time.Hour)}
	case reflect.Float64:
		return []any{-1.0, 1e300, -1e300, math.SmallestNonzeroFloat64, 1e9}
	}
	return nil
}

// acceptedExtremes lists the extreme values that are accepted, and why.
var acceptedExtremes = []struct{ field, value, because string }{
	{`^scenario\.(claim|source)$`, `.`, "free text, which reports show verbatim but truncated"},
	{`^scenario\.scale$`, `^5e-324$`, "factor that is applied when a run is selected; the result is checked"},
	{`\.(rate|share|drift|safety)$`, `^5e-324$`, "nearly zero, and not repeated"},
	{`\.(delay|after|at|step|(think|hold|prepare)\.(min|max))$`, `^1$`, "a single delay, which may be 0"},
	{`^scenario\.lock\.prefix$`, `^[ -~]{1,100}$`, "the library's own key prefix, which reports show"},
	{`^scenario\.numbers\{\}\.value$`, `.`, "any value can be compared with a measured number"},
}

// fieldsReportedElsewhere lists fields whose extreme values are reported at another field, and why.
var fieldsReportedElsewhere = []struct{ field, at, because string }{
	{`^scenario\.lock\.retry(Min|Max)$`, `^scenario\.lock\.retryMin\.\.retryMax$`, "a range in a file"},
	{`\.(every|lasts|delay|think|hold|prepare)\.(min|max)$`, `\.(every|lasts|delay|think|hold|prepare)$`, "a range in a file"},
	{`^scenario\.numbers\{\}\.`, `^scenario\.numbers\.[a-z-]+$`, "a bound in a file"},
	{`^scenario\.limits\.hold$`, `^scenario\.limits\.extensions$`, "a scenario with one of these limits needs both"},
	{`^scenario\.random\.safety$`, `^scenario\.random\.lasts$`, "the faults no longer fit"},
	{`\.follows$`, `^scenario\.expect\.`, "files don't contain expectations that follow from others"},
}

// isReportedAt reports whether an error at one field is the expected error for a bad value of
// another field.
func isReportedAt(field, at string) bool {
	if regexp.MustCompile(`^` + strings.ReplaceAll(regexp.QuoteMeta(field), `\{\}`, `\.[a-z-]+`) + `$`).MatchString(at) {
		return true
	}
	for _, b := range fieldsReportedElsewhere {
		if regexp.MustCompile(b.field).MatchString(field) && regexp.MustCompile(b.at).MatchString(at) {
			return true
		}
	}
	return false
}

var itemIndex = regexp.MustCompile(`\[\d+\]`)

// Replacing any value of a scenario by an extreme value makes Check return an error that names the
// field, unless the value is listed as acceptable. The test fails if a new field is not used by the
// scenarios here or not written by the writer.
func TestCheckEveryField(t *testing.T) {
	seen, used := map[string]bool{}, map[int]bool{}
	for _, base := range []Scenario{parse(t, allFieldsFile)[1], parse(t, randomPlanFile)[0]} {
		s := readBack(t, base)
		if err := s.Check(testNames); err != nil {
			t.Fatal(err)
		}
		for i, p := range placesIn("scenario", reflect.ValueOf(&s).Elem()) {
			if !p.value.IsZero() {
				seen[p.field] = true
			}
			for _, x := range extremeValues(p.value.Kind()) {
				hostile := readBack(t, base)
				setPlace(t, &hostile, i, x)
				err := hostile.Check(testNames)
				var e *Error
				if errors.As(err, &e) && e.Hint != "" && len(e.Error()) < 2000 && isReportedAt(p.field, itemIndex.ReplaceAllString(e.Field, "[]")) {
					continue
				}
				if err != nil {
					t.Errorf("%s: %.40q: unexpected error %.200v", p.field, fmt.Sprint(x), err)
					continue
				}
				isAccepted := false
				for j, h := range acceptedExtremes {
					if regexp.MustCompile(h.field).MatchString(p.field) && regexp.MustCompile(h.value).MatchString(fmt.Sprint(x)) {
						isAccepted, used[j] = true, true
					}
				}
				if !isAccepted {
					t.Errorf("%s: %.40q was accepted", p.field, fmt.Sprint(x))
				}
			}
		}
	}
	for _, field := range fieldsOf("scenario", reflect.TypeFor[Scenario]()) {
		if !seen[field] && !notInFiles.MatchString(field) {
			t.Errorf("no scenario here uses %s: add it to one, and to the writer", field)
		}
	}
	for j, h := range acceptedExtremes {
		if !used[j] {
			t.Errorf("the exception for %s at %s is not needed", h.value, h.field)
		}
	}
}

// notInFiles matches fields that files can't contain: drawn and implied, and every, which only
// triggers of steps support.
var notInFiles = regexp.MustCompile(`\.(drawn|implied)$|\.(start|until)\.every$`)

// setPlace sets the i-th place of a scenario. It puts changed map entries back into their maps.
func setPlace(t *testing.T, s *Scenario, i int, x any) {
	t.Helper()
	n := 0
	var walk func(v reflect.Value) bool
	walk = func(v reflect.Value) bool {
		switch v.Kind() {
		case reflect.Struct:
			for f := range v.NumField() {
				if walk(v.Field(f)) {
					return true
				}
			}
		case reflect.Pointer:
			return !v.IsNil() && walk(v.Elem())
		case reflect.Slice:
			for k := range v.Len() {
				if walk(v.Index(k)) {
					return true
				}
			}
		case reflect.Map:
			for _, key := range sortedKeys(v) {
				item := reflect.New(v.Type().Elem()).Elem()
				item.Set(v.MapIndex(key))
				if walk(item) {
					v.SetMapIndex(key, item)
					return true
				}
			}
		default:
			if n++; n == i+1 {
				v.Set(reflect.ValueOf(x).Convert(v.Type()))
				return true
			}
		}
		return false
	}
	if !walk(reflect.ValueOf(s).Elem()) {
		t.Fatalf("the scenario has no place %d", i)
	}
}

func TestCheckRejectsWhatParseRejects(t *testing.T) {
	d := func(d time.Duration) *time.Duration { return &d }
	for _, c := range []struct {
		set    string
		change func(*Scenario)
	}{
		{"topology.nodes=0", func(s *Scenario) { s.Topology.Nodes = 0 }},
		{"topology.nodes=100", func(s *Scenario) { s.Topology.Nodes = 100 }},
		{"topology.persistence=never", func(s *Scenario) { s.Topology.Persistence = "never" }},
		{"lock.kind=redlok", func(s *Scenario) { s.Lock.Kind, s.Lock.Mistake = "redlok", "" }},
		{"lock.ttl=1ns", func(s *Scenario) { s.Lock.TTL = 1 }},
		{"lock.ttl=8760h", func(s *Scenario) { s.Lock.TTL = 365 * 24 * time.Hour }},
		{"lock.timeout=5s", func(s *Scenario) { s.Lock.Timeout = 5 * time.Second }},
		{"lock.retry=2s..1s", func(s *Scenario) { s.Lock.RetryMin, s.Lock.RetryMax = 2*time.Second, time.Second }},
		{"lock.retry=0s", func(s *Scenario) { s.Lock.RetryMin, s.Lock.RetryMax = 0, 0 }},
		{"lock.drift=50%", func(s *Scenario) { s.Lock.Drift = 0.5 }},
		{"lock.tries=2000000", func(s *Scenario) { s.Lock.Tries = 2_000_000 }},
		{"clients=1000", func(s *Scenario) { s.Clients = manyClients(1000) }},
		{"clients={../../x: {}}", func(s *Scenario) { s.Clients[0].Name = "../../x" }},
		{"clients={c1: {}, c1: {}}", func(s *Scenario) { s.Clients[1].Name = "c1" }},
		{"clients={c0: {}}", func(s *Scenario) { s.Clients[0].Name = "c0" }},
		{"clients.c1.reach=[n9]", func(s *Scenario) { s.Clients[0].Reach = []string{"n9"} }},
		{"clients.c1.cycles=0", func(s *Scenario) { s.Clients[0].Cycles = new(int) }},
		{"workload.keys=0", func(s *Scenario) { s.Workload.Keys = 0 }},
		{"workload.keys=1000000", func(s *Scenario) { s.Workload.Keys = 1_000_000 }},
		{"workload.writes=1000000", func(s *Scenario) { s.Workload.Writes = 1_000_000 }},
		{"workload.cycles=1000000", func(s *Scenario) { s.Workload.Cycles = 1_000_000 }},
		{"workload.extend=1ns", func(s *Scenario) { s.Workload.Extend = 1 }},
		{"workload.think=-1s", func(s *Scenario) { s.Workload.Think.Min = -time.Second }},
		{"workload.fence=fence", func(s *Scenario) { s.Workload.Fence = "fence" }},
		{"workload.for=1h", func(s *Scenario) { s.Workload.For = time.Hour }},
		{"limit=8760h", func(s *Scenario) { s.Limit = 365 * 24 * time.Hour }},
		{"limit=0s", func(s *Scenario) { s.Limit = 0 }},
		{"limits.hold=0s", func(s *Scenario) { s.Limits.Hold = 0 }},
		{"plan.1.when={at: 1h}", func(s *Scenario) { s.Plan[0].When.At = d(time.Hour) }},
		{"plan.1.when={}", func(s *Scenario) { s.Plan[0].When.At = nil }},
		{"plan.1.when={at: 1s, point: before-release, client: c1}", func(s *Scenario) {
			s.Plan[0].When.Point = &nemesis.OnPoint{Client: "c1", Point: "before-release", Nth: 1}
		}},
		{"plan.1.fault.kind=flood", func(s *Scenario) { s.Plan[0].Fault.Kind = "flood" }},
		{"plan.1.fault.targets=[c1-n9]", func(s *Scenario) { s.Plan[0].Fault.Targets[0] = "c1-n9" }},
		{"plan.1.fault.for=0s", func(s *Scenario) { s.Plan[0].Fault.For = d(0) }},
		{"plan.1.fault.mode=soft", func(s *Scenario) { s.Plan[0].Fault.Mode = "soft" }},
		{"plan.7.fault.every=0s", func(s *Scenario) { s.Plan[6].Fault.Every = nemesis.Span{} }},
		{"plan.7.fault.every=1ns", func(s *Scenario) { s.Plan[6].Fault.Every = nemesis.Span{Min: 1, Max: 1} }},
		{"plan.8.fault.memory=1MB", func(s *Scenario) { s.Plan[7].Fault.Memory = 1 << 20 }},
		{"plan.8.fault.cpu=0.001", func(s *Scenario) { s.Plan[7].Fault.CPU = 0.001 }},
		{"plan=" + "[" + strings.Repeat("{when: {at: 1s}, fault: {kind: pause, targets: [c1], for: 1s}}, ", maxItems+1) + "]", func(s *Scenario) {
			for len(s.Plan) <= maxItems {
				s.Plan = append(s.Plan, s.Plan[0])
			}
		}},
		{"scale=1000", func(s *Scenario) { s.Scale = 1000 }},
	} {
		if _, err := ParseWithOptions("f.yaml", []byte(allFieldsFile), testNames, ParseOptions{Overrides: []string{c.set}}, nil); err == nil {
			t.Errorf("%.60s: was accepted in a file", c.set)
		}
		s := readBack(t, parse(t, allFieldsFile)[0])
		c.change(&s)
		if err := s.Check(testNames); err == nil {
			t.Errorf("%.60s: was accepted in a run.json", c.set)
		}
	}
}

func manyClients(n int) (all []Client) {
	for _, name := range names("c", n) {
		all = append(all, Client{Name: name})
	}
	return all
}

func TestWorkLimitErrorsHavePlaceAndHint(t *testing.T) {
	for text, want := range map[string]string{
		"workload: {extend: 1ms, for: 1h}\nlimit: 23h":                                                  "f.yaml:4:20",
		"plan: [{when: {at: 1s}, fault: {kind: gc, targets: [c1], every: 1ms, lasts: 1ms}}]\nlimit: 1h": "f.yaml:4:",
		"clients: 999\ntopology: {nodes: 99}":                                                           "f.yaml:4:",
		"clients: {c1: {}, c2: {cycles: 400000}}\nworkload: {writes: 2}":                                "f.yaml:4:",
		"workload: {cycles: 300000}":                                                                    "f.yaml:4:",
		"topology: {nodes: 5, addresses: [" + strings.Repeat("n1, ", 999) + "n2]}\nclients: 11":         "f.yaml:5:",
	} {
		_, err := Parse("f.yaml", []byte(requiredKeys+text), testNames)
		var e *Error
		if !errors.As(err, &e) || e.Hint == "" || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.80s: got %v, want an error at %s", text, err, want)
		}
	}
}

func TestManifestErrorsHavePlaceAndHint(t *testing.T) {
	s := parse(t, allFieldsFile)[0]
	for name, c := range map[string]struct {
		change func(*Manifest)
		want   string
	}{
		"client":  {func(m *Manifest) { m.Scenario.Clients[0].Name = "../../x" }, `run.json: scenario.clients[0].name: "../../x" is not a valid name for a client`},
		"extend":  {func(m *Manifest) { m.Scenario.Workload.Extend = 1 }, `run.json: scenario.workload.extend: "1ns" is too short`},
		"fault":   {func(m *Manifest) { m.Scenario.Plan[6].Fault.Every.Min = 0 }, `run.json: scenario.plan[6].fault.every: "0s" is too short`},
		"event":   {func(m *Manifest) { m.Scenario.Plan[1].When.Event.Nth = 0 }, `run.json: scenario.plan[1].when.event.nth: "0" is not allowed here`},
		"endless": {func(m *Manifest) { m.Scenario.Workload.Cycles, m.Scenario.Workload.For = 0, 0 }, `run.json: scenario.workload.cycles: a scenario file can't express this value: none`},
		"backend": {func(m *Manifest) { m.Backend = "../../x" }, `run.json: backend: unknown backend "../../x"`},
		"schema":  {func(m *Manifest) { m.Schema = 2 }, `run.json: schema: this is not a run.json of this version`},
		"share":   {func(m *Manifest) { m.Scenario.Lock.Drift = -0.05 }, `run.json: scenario.lock.drift: "-5%" is not allowed here`},
		"back":    {func(m *Manifest) { m.Scenario.Plan[1].Fault.By = -25 * time.Hour }, `run.json: scenario.plan[1].fault.by: "-25h0m0s" is too long`},
		"retry":   {func(m *Manifest) { m.Scenario.Lock.RetryMax = -1 }, `run.json: scenario.lock.retryMin..retryMax: "-1ns" is negative`},
		"number":  {func(m *Manifest) { m.Scenario.Numbers["grants"] = Bound{Operator: ">=", Value: -1, Variant: "other"} }, `run.json: scenario.numbers.grants: the factor "-1" is not positive`},
		"variant": {func(m *Manifest) { m.Scenario.Variant = "../x" }, `run.json: scenario.variant: "../x" is not a valid name for a variant`},
	} {
		m := Manifest{Schema: 1, Scenario: readBack(t, s), Backend: "sim", Seed: 1}
		c.change(&m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ReadManifest("run.json", text, testNames)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !strings.Contains(err.Error(), "\nhint: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
