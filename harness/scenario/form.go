package scenario

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"lockpick/harness/client"
	"lockpick/harness/lock"
	"lockpick/nemesis"
)

// Known lists the names that a scenario may use and that this package can't
// know. Faults, events, points and message kinds it takes from packages nemesis
// and client.
type Known struct {
	Locks      []string             // kinds of locks
	Kinds      map[string]lock.Kind // their options, and what follows from the kind; Check takes one that isn't here to be as its settings say
	Mistakes   []string             // of the lock kind broken
	Properties []string             // that can be expected
	Causes     []string             // causes and classes of a violation
	// CanonicalCause returns the current spelling of a cause. If nil, no cause has a former one.
	CanonicalCause func(string) string
	Numbers        []string // that are measured, and can be expected
	Backends       []string // that a run.json may name; no scenario does
	Folders        []string // that a store has for other things, so that no scenario can be called so
}

// With returns k for scenarios that may name these kinds of locks, with the settings of their own.
func (k Known) With(kinds map[string]lock.Kind) Known {
	k.Locks, k.Kinds = slices.Sorted(maps.Keys(kinds)), kinds
	return k
}

// brokenLock is the lock kind that takes a mistake.
const brokenLock = "broken"

// reading is a scenario while it is read, or written.
type reading struct {
	scenario  Scenario
	variants  []variation
	unit      time.Duration // the least duration that isn't nothing
	mostSteps int           // of a plan
}

func newReading(unit time.Duration, variant string) *reading {
	expect := map[string]Expectation{mutualExclusion: implied, resourceSafety: implied}
	return &reading{scenario: Scenario{Variant: variant, Expect: expect}, unit: unit, mostSteps: maxItems}
}

// variation is one entry of the section variants, before it is applied.
type variation struct {
	Name                       string
	Claim, Debate, Set, Expect *yaml.Node
}

// defaultCycles is how often a client works if neither cycles nor for is given, and
// defaultClients how many do.
const (
	defaultCycles  = 3
	defaultClients = 2
)

// form describes a scenario file: every key is in this table or one of those below.
func (r *reading) form(k Known) object {
	expect := r.expectForm(k)
	return object{"the scenario", []field{
		{key: "name", doc: "what the command line calls it", shape: named("scenario"), required: true},
		{key: "claim", doc: "what the run shows, in one plain sentence", shape: prose, required: true},
		{key: "source", doc: "who says so, and where", shape: prose, required: true},
		{key: "tags", doc: "words to select it by", shape: wordsOf("tags", named("tag"))},
		{key: "debate", doc: "whose claim it is: who affirms it, and who denies it", shape: debateForm()},
		{key: "tier", doc: "which locks of other kinds are held to what it expects: every one, or those of a quorum; none, if it isn't given", shape: oneOf("tier", tiers()...)},
		{key: "cures", doc: "scenarios whose harm this one is free of, by doing one thing otherwise", shape: wordsOf("cures", named("scenario"))},
		{key: "topology", doc: "the lock servers", shape: topologyForm(r.unit)},
		{key: "lock", doc: "the lock under test and its settings", shape: lockForm(k, r.unit)},
		{key: "clients", doc: "how many contend, or who, from when, reaching what", shape: clientsForm(r.unit)},
		{key: "workload", doc: "what each client does", shape: workloadForm(r.unit)},
		{key: "plan", doc: "what goes wrong, and when", shape: planForm(r.unit, r.mostSteps), at: whole},
		{key: "limits", doc: "how much of the lock one hold may have, whatever the lock allows; bounded-hold is judged by it", shape: limitsForm(r.unit)},
		{key: "expect", doc: "what comes of it; a safety property that isn't listed must hold", shape: expect},
		{key: "limit", doc: "the run is stopped after this time", shape: duration(r.unit), defaultText: "2m0s"},
		{key: "exact", doc: "whether things must fall on one microsecond, as only virtual time can have it", shape: truth},
		{key: "scale", doc: "factor of all durations on real backends, where the scenario must pin it", shape: pace},
		{key: "variants", doc: "the same scenario with some keys set otherwise", to: &r.variants, shape: dict{"variants", named("variant"), maxVariants, object{"a variant", []field{
			{key: "set", doc: "keys (lock.ttl) or whole sections (plan) and what they are here", shape: later{scalar{jsonSchema: setSchema()}}, required: true},
			{key: "claim", doc: "instead of the scenario's", shape: later{prose}},
			{key: "debate", doc: "of its own claim", shape: later{debateForm()}},
			{key: "expect", doc: "where it differs from the scenario's", shape: later{expect}},
		}}}},
	}}
}

func debateForm() object {
	o := object{name: "debate"}
	for _, party := range parties() {
		o.fields = append(o.fields, field{key: party, doc: "what they say of the claim", shape: oneOf("stance", affirms, denies)})
	}
	return o
}

func topologyForm(unit time.Duration) object {
	return object{"topology", []field{
		{key: "nodes", doc: "number of independent lock servers", shape: integer(1, maxNodes), defaultText: "5"},
		{key: "server", doc: "what the servers run besides Redis, as one store of several members; for locks that are on it", shape: oneOf("server", lock.Servers()...)},
		{key: "persistence", doc: "what survives a restart: the append-only file's fsync policy, or none", shape: oneOf("persistence", PersistNone, "everysec", PersistAlways, "no"), defaultText: PersistNone},
		{key: "expiry", doc: "the clock that keys expire by: the wall clock, as Redis does it, or one that nobody sets", shape: oneOf("clock", "wall", ExpiryMonotonic)},
		{key: "replicas", doc: "asynchronous replicas of each server", shape: integer(0, 1)},
		{key: "down-after", at: "downAfter", doc: "how long a master is out of reach until its sentinels take it for dead; 1s if it isn't given", shape: duration(unit)},
		{key: "image", doc: "what the servers run where they are containers, as in redis:7", shape: imageName},
		{key: "addresses", doc: "the servers as they stand in the lock's configuration, where that is wrong", shape: sequence{"addresses", 1, maxItems, nodeName, false}},
	}}
}

func lockForm(k Known, unit time.Duration) object {
	retry := between(unit)
	span := retry.show
	retry.store = func(to reflect.Value, v any) {
		l, r := to.Addr().Interface().(*lock.Settings), v.(client.Range)
		l.RetryMin, l.RetryMax = r.Min, r.Max
	}
	retry.show = func(v reflect.Value) string {
		l := v.Interface().(lock.Settings)
		return span(reflect.ValueOf(client.Range{Min: l.RetryMin, Max: l.RetryMax}))
	}
	return object{"lock", []field{
		{key: "kind", doc: "which lock", shape: oneOf("lock kind", k.Locks...), defaultText: "redlock"},
		{key: "mistake", doc: "what the lock kind broken does wrong", shape: oneOf("mistake", k.Mistakes...)},
		{key: "ttl", doc: "a key's time to live", shape: duration(unit), defaultText: "10s"},
		{key: "drift", doc: "clock drift that is allowed for, as a share of the TTL", shape: percent(0.5), defaultText: "1%"},
		{key: "timeout", doc: "bound of one request to one node, below half of the TTL", shape: duration(unit), defaultText: "50ms"},
		{key: "retry", doc: "bounds of the random delay between attempts", shape: retry, at: whole, stored: "retryMin..retryMax", defaultText: "50ms..250ms"},
		{key: "tries", doc: "attempts in one acquire; 0: no limit", shape: integer(0, maxCount)},
		{key: "ask", doc: "nodes all at once, or one after another", shape: oneOf("way to ask", "multiplexed", askSequential)},
		{key: "fence", doc: "whether it hands out fencing tokens", shape: truth},
		{key: "extends", doc: "most extensions of one hold; 0: as many as the lock takes by itself", shape: integer(0, maxCount)},
		{key: "options", doc: "what only this kind of lock has", shape: optionsForm(k)},
	}}
}

// optionsForm has the options of all kinds. Two kinds may give one name different values, so a field takes
// the values of both. checkOptions refuses those of other kinds.
func optionsForm(k Known) object {
	o := object{name: "options"}
	values := map[string][]string{}
	for _, kind := range slices.Sorted(maps.Keys(k.Kinds)) {
		for _, option := range k.Kinds[kind].Options {
			doc := "of " + kind + ": " + option.Doc
			if i := slices.IndexFunc(o.fields, func(f field) bool { return f.key == option.Name }); i >= 0 {
				doc = o.fields[i].doc + "; " + doc
				o.fields = slices.Delete(o.fields, i, i+1)
			}
			for _, v := range option.Values {
				if !slices.Contains(values[option.Name], v) {
					values[option.Name] = append(values[option.Name], v)
				}
			}
			o.fields = append(o.fields, field{key: option.Name, doc: doc, shape: oneOf("value of "+option.Name, values[option.Name]...)})
		}
	}
	return o
}

// clientsForm is how many clients there are, or who they are.
func clientsForm(unit time.Duration) shape {
	number := integer(1, maxClients)
	number.store = func(to reflect.Value, n any) { to.Set(reflect.ValueOf(clientsNamed(n.(int)))) }
	start := either{
		{field: field{key: "delay", shape: duration(0)}},
		{field{key: "start", shape: object{"start", eventFields("")}}, section, "start"},
	}
	one := object{"a client", []field{
		{key: "start", doc: "when it begins: a time, or an event of another client", shape: start, at: whole},
		{key: "reach", doc: "the nodes it can talk to; the others refuse it", shape: wordsOf("reach", nodeName)},
		{key: "think", doc: "instead of the workload's", shape: between(0)},
		{key: "hold", doc: "instead of the workload's", shape: between(0)},
		{key: "cycles", doc: "instead of the workload's", shape: integer(1, maxCount)},
		{key: "cancel-after", at: "cancelAfter", doc: "instead of the workload's", shape: duration(unit)},
	}}
	return either{
		{field: field{at: whole, shape: number}},
		{field{at: whole, shape: dict{"clients", clientName, maxClients, one}}, section, whole},
	}
}

func clientsNamed(n int) (all []Client) {
	for _, name := range names("c", n) {
		all = append(all, Client{Name: name})
	}
	return all
}

func workloadForm(unit time.Duration) object {
	check := truth
	check.store = func(to reflect.Value, v any) { to.SetBool(!v.(bool)) }
	check.show = func(v reflect.Value) string { return strconv.FormatBool(!v.Bool()) }
	return object{"workload", []field{
		{key: "kind", doc: "what a critical section does", shape: oneOf("workload", "read-modify-write"), defaultText: "read-modify-write"},
		{key: "keys", doc: "number of locks that each client works on in turn", shape: integer(1, maxKeys), defaultText: "1"},
		{key: "fence", doc: "what the resource refuses", shape: oneOf("fence mode", client.FenceNone, client.FenceToken, client.FenceCounter, client.FenceCheckSet), defaultText: client.FenceNone},
		{key: "think", doc: "pause before each cycle", shape: between(0), defaultText: "50ms..500ms"},
		{key: "hold", doc: "work between the read and the check before the write", shape: between(0), defaultText: "100ms..2s"},
		{key: "prepare", doc: "work between the check and the write", shape: between(0)},
		{key: "cancel-after", at: "cancelAfter", doc: "how long a client waits for its lock before it cancels the acquire", shape: duration(unit)},
		{key: "extend", doc: "how often a client extends its lock while it works", shape: duration(unit)},
		{key: "reenter", doc: "how many times a client acquires again what it holds, and gives it back", shape: integer(1, maxReenter)},
		{key: "cycles", doc: "how often each client works", shape: integer(1, maxCount)},
		{key: "for", doc: "no cycle starts later than this", shape: duration(unit)},
		{key: "writes", doc: "writes in one critical section", shape: integer(1, maxWrites), defaultText: "1"},
		{key: "check", at: "noCheck", doc: "whether a client looks at its deadline before it writes", shape: check},
	}}
}

func limitsForm(unit time.Duration) object {
	return object{"limits", []field{
		{key: "extensions", doc: "most extensions of one hold; 0: as many as the lock takes by itself", shape: integer(1, maxCount), required: true},
		{key: "hold", doc: "longest hold, from the grant to the end of belief", shape: duration(unit), required: true},
	}}
}

// expectForm has the properties, and what else of a scenario is said there.
func (r *reading) expectForm(k Known) object {
	outcome := oneOf("outcome", wantHolds, wantViolated, wantAny)
	cause := oneOf("cause", k.Causes...)
	if k.CanonicalCause != nil {
		parse := cause.parse
		cause.parse = func(s string) (any, string, string) { return parse(k.CanonicalCause(s)) }
	}
	violated := field{at: whole, shape: object{"the expected violation", []field{
		{key: "violated", at: "cause", doc: "cause or class of the violation", shape: cause, required: true},
		{key: "node", doc: "the node to blame", shape: nodeName},
	}}}
	o := object{name: "expect"}
	for _, property := range k.Properties {
		want := field{key: "want", shape: outcome, required: true}
		if property == mutualExclusion || property == resourceSafety {
			want.defaultText = wantHolds
		}
		o.fields = append(o.fields, field{key: property, doc: "what the property comes out as", shape: either{{field: want}, {violated, section, "cause"}}})
	}
	numbers := object{name: "numbers"}
	for _, name := range k.Numbers {
		numbers.fields = append(numbers.fields, field{key: name, doc: "bound of what is measured", shape: bound})
	}
	if len(k.Numbers) > 0 {
		o.fields = append(o.fields, field{key: "numbers", doc: "bounds of what is measured", shape: numbers, to: &r.scenario.Numbers})
	}
	vacuous := oneOf("permission", "allowed")
	vacuous.store = func(to reflect.Value, _ any) { to.SetBool(true) }
	vacuous.show = func(reflect.Value) string { return "allowed" }
	o.fields = append(o.fields, field{key: "vacuous", doc: "nobody need acquire", shape: vacuous, to: &r.scenario.Vacuous})
	return o
}

// sections are the parts of a scenario that variants and overrides may set.
var sections = []string{"tier", "topology", "lock", "clients", "workload", "plan", "limits", "limit", "scale"}

func setSchema() map[string]any {
	return map[string]any{
		"type": "object", "minProperties": 1,
		"propertyNames": map[string]any{"pattern": `^(` + strings.Join(sections, "|") + `)(\.[a-z0-9-]+)*$`},
	}
}

// planForm is a list of steps, or how a seed draws them.
func planForm(unit time.Duration, most int) shape {
	random := object{"plan", []field{{key: "random", doc: "each seed draws its own plan, in this way", shape: randomForm(unit), required: true}}}
	steps := sequence{"plan", 0, most, object{"a step", []field{
		{key: "when", doc: "what sets the fault off", shape: triggerForm(unit), required: true},
		{key: "fault", doc: "what is done to whom", shape: faultForm(unit), required: true},
		{key: "drawn", doc: "whether it counts as drawn by dice: it need not come, nor meet anything", shape: truth},
	}}, false}
	return either{{field: field{key: "plan", shape: steps}}, {field{at: whole, shape: random}, has("random"), "random"}}
}

func triggerForm(unit time.Duration) shape {
	before := field{key: "before", doc: "later it sets nothing off, and it need not come", shape: duration(unit)}
	form := func(key string, fields ...field) form {
		return form{field{at: whole, shape: object{"when", fields}, required: true}, has(key), key}
	}
	return trigger{either{
		form("at", field{key: "at", doc: "time since the run began", shape: duration(0), required: true}),
		form("event", append(eventFields("event."), field{key: "every", at: "event.every", doc: "each time instead of the nth", shape: truth}, before)...),
		form("point",
			field{key: "client", at: "point.client", doc: "whose", shape: clientName, required: true},
			field{key: "point", at: "point.point", doc: "place in the client's program, where it waits for the fault", shape: oneOf("point", client.Points...), required: true},
			field{key: "nth", at: "point.nth", doc: "which time, from 1", shape: integer(1, maxCount), defaultText: "1"},
			before),
		form("message",
			field{key: "link", at: "message.link", doc: "between a client and a node or the resource, as in c1-n3", shape: target, required: true},
			field{key: "message", at: "message.message", doc: "command on the wire", shape: oneOf("message", nemesis.MessageKinds...), required: true},
			field{key: "of", at: "message.of", doc: "its request or its reply", shape: oneOf("direction", nemesis.Request, nemesis.Reply), required: true},
			field{key: "nth", at: "message.nth", doc: "which one on the link, from 1", shape: integer(1, maxCount), defaultText: "1"},
			before),
	}}
}

// eventFields has the keys of an event whose fields have paths that begin with below.
func eventFields(below string) []field {
	return []field{
		{key: "client", at: below + "client", doc: "whose", shape: clientName, required: true},
		{key: "event", at: below + "event", doc: "what is seen in the history", shape: oneOf("event", nemesis.EventNames()...), required: true},
		{key: "nth", at: below + "nth", doc: "which time, from 1", shape: integer(1, maxCount), defaultText: "1"},
		{key: "after", at: below + "after", doc: "and this much later", shape: duration(0)},
	}
}

func faultForm(unit time.Duration) object {
	var kinds, modes []string
	for _, k := range nemesis.Kinds {
		kinds, modes = append(kinds, k.Name), append(modes, k.Modes...)
	}
	timer := object{"timer", []field{
		{key: "rate", doc: "how fast it runs; 1 is right", shape: rate},
		{key: "step", doc: "how far it is set forward meanwhile", shape: duration(0)},
	}}
	return object{"fault", []field{
		{key: "kind", doc: "which fault", shape: oneOf("fault", kinds...), required: true},
		{key: "targets", doc: "clients, nodes or links", shape: wordsOf("targets", target)},
		{key: "mode", doc: "how", shape: oneOf("mode", modes...)},
		{key: "for", doc: "how long it lasts", shape: duration(unit)},
		{key: "until", doc: "the event that ends it", shape: object{"until", eventFields("")}},
		{key: "way", doc: "of a link; both if it isn't given", shape: oneOf("way", nemesis.Request, nemesis.Reply)},
		{key: "by", doc: "how far a clock goes wrong, as in 11s or -5s", shape: signed(unit)},
		{key: "rate", doc: "how fast a clock runs; 1 is right", shape: rate},
		{key: "delay", doc: "how late messages are", shape: between(unit)},
		{key: "share", doc: "of the messages; all if it isn't given", shape: upToAll},
		{key: "bandwidth", doc: "bytes a second", shape: integer(1, 1<<30)},
		{key: "cpu", doc: "share of one processor that a node may use", shape: processor},
		{key: "memory", doc: "bytes that it may use", shape: size},
		{key: "every", doc: "of what comes again and again: the time between", shape: between(unit)},
		{key: "lasts", doc: "and how long each one lasts; most are short, some long", shape: between(unit)},
		{key: "timer", doc: "the clock that counts `for`, where it is wrong", shape: timer},
	}}
}

// randomForm is how a seed draws its plan.
func randomForm(unit time.Duration) object {
	var modes []string
	for _, k := range nemesis.Kinds {
		modes = append(modes, nemesis.Random{}.ModesOf(k)...)
	}
	return object{"random", []field{
		{key: "faults", doc: "what may be drawn; a seed uses about half of them", shape: wordsOf("faults", oneOf("fault", nemesis.Choices()...)), required: true},
		{key: "within", doc: "keeps clocks and restarts within what Redlock assumes", shape: oneOf("bound", nemesis.Assumptions)},
		{key: "every", doc: "time between two faults of a kind: where a seed's mean lies", shape: between(unit), defaultText: "1s..5s"},
		{key: "lasts", doc: "the shortest fault, and the longest; most are short", shape: between(unit), defaultText: "10ms..20s"},
		{key: "safety", doc: "share of the limit after which all is healed, and somebody must acquire", shape: percent(1), defaultText: "60%"},
		{key: "modes", doc: "of faults that have several; all if it isn't given", shape: wordsOf("modes", oneOf("mode", modes...))},
		{key: "shapes", doc: "of what hits links; all if it isn't given", shape: wordsOf("shapes", oneOf("shape", nemesis.Shapes...))},
	}}
}

// Drawn returns the scenario with the plan that its dice give for a seed, and
// without dice: what is drawn once stays. A scenario without dice is itself.
func (s Scenario) Drawn(seed uint64) Scenario {
	if s.Random == nil {
		return s
	}
	clients, begin := steady(s)
	linked := func(name, node string) bool {
		return slices.ContainsFunc(s.Clients, func(c Client) bool { return c.Name == name && c.reaches(node) })
	}
	w := nemesis.World{
		Clients: clients, Begin: begin, Nodes: s.NodeNames(), Resource: ResourceName, Linked: linked,
		Limit: s.Limit, TTL: s.Lock.TTL, Margin: margin(s),
		Persists: s.Topology.Persistence != PersistNone, Durable: s.Topology.Persistence == PersistAlways,
		Dice: func(names ...string) uint64 { return client.Random(seed, append([]string{"plan"}, names...)...) },
	}
	s.Plan = s.Random.Draw(w)
	s.Random = nil
	return s
}

// margin is what the lock allows clocks to differ by in a TTL, without the 2 ms
// that Redis' expiry takes up.
func margin(s Scenario) time.Duration { return time.Duration(s.Lock.Drift * float64(s.Lock.TTL)) }

// latestStart is the share of the limit in which a client has to have started to be
// drawn as a target.
const latestStart = 0.1

// steady are the clients that run from an early time on, and work to the end: those that are
// drawn as targets. begin is when they all run.
func steady(s Scenario) (clients []string, begin time.Duration) {
	for _, c := range s.Clients {
		if c.Start == nil && c.Delay <= time.Duration(latestStart*float64(s.Limit)) && c.Cycles == nil {
			clients, begin = append(clients, c.Name), max(begin, c.Delay)
		}
	}
	return clients, begin
}

// MinTimeout is the shortest node timeout that scaling makes. On a busy machine
// a real Redis that is well may wait tens of milliseconds for a processor; a
// shorter bound would take it for dead and measure the machine.
const MinTimeout = 50 * time.Millisecond

// MinDownAfter is likewise the shortest time that scaling gives a master to answer
// its sentinels. To reach one that they have just promoted may take them half of it,
// and a busy machine some of the rest.
const MinDownAfter = time.Second

// Scaled returns a deep copy in which every duration is multiplied by f, so
// that a scenario of minutes runs in seconds of real time. The node timeout is
// not made shorter than MinTimeout, unless it was shorter from the start, and the
// patience of sentinels not shorter than MinDownAfter.
func (s Scenario) Scaled(f float64) Scenario {
	is := s
	scale(reflect.ValueOf(&s).Elem(), f)
	s.Lock.Timeout = max(s.Lock.Timeout, min(is.Lock.Timeout, MinTimeout))
	s.Lock.TTL = s.Lock.TTL.Round(time.Millisecond) // Redis counts in milliseconds
	s.Topology.DownAfter = max(s.Topology.DownAfter, min(is.Topology.DownAfter, MinDownAfter))
	return s
}

// scale multiplies every duration in a value, and leaves it nothing in common with others.
func scale(v reflect.Value, f float64) {
	own := v
	switch v.Kind() {
	case reflect.Int64:
		if d, ok := v.Interface().(time.Duration); ok {
			v.SetInt(int64(float64(d) * f))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			scale(v.Field(i), f)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			own = reflect.New(v.Type().Elem())
			own.Elem().Set(v.Elem())
			scale(own.Elem(), f)
		}
	case reflect.Slice:
		if !v.IsNil() {
			own = reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(own, v)
			for i := range v.Len() {
				scale(own.Index(i), f)
			}
		}
	case reflect.Map: // none has durations
		if !v.IsNil() {
			own = reflect.MakeMap(v.Type())
			for _, key := range v.MapKeys() {
				own.SetMapIndex(key, v.MapIndex(key))
			}
		}
	}
	v.Set(own)
}
