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

// KnownNames lists the names that a scenario may use but this package doesn't define. Faults,
// events, points and message kinds are defined by packages nemesis and client.
type KnownNames struct {
	Locks      []string             // lock kinds
	Kinds      map[string]lock.Kind // options and features of lock kinds; for a missing kind, Check derives them from the lock's settings
	Mistakes   []string             // mistakes of lock kind broken
	Properties []string             // properties that a scenario can set expectations for
	Causes     []string             // causes and classes of violations
	// CanonicalCause returns the current spelling of a cause. nil means that spellings never change.
	CanonicalCause func(string) string
	Numbers        []string // measured values that a scenario can bound
	Backends       []string // backends that a run.json can name
	Folders        []string // folders of a store, whose names scenarios can't have
}

// WithKinds returns a copy of k with the given lock kinds.
func (k KnownNames) WithKinds(kinds map[string]lock.Kind) KnownNames {
	k.Locks, k.Kinds = slices.Sorted(maps.Keys(kinds)), kinds
	return k
}

// brokenLock is the lock kind whose locks have a mistake.
const brokenLock = "broken"

// reader contains a scenario while it is read or written.
type reader struct {
	scenario    Scenario
	variants    []variantEntry
	unsuitable  string        // see Parsed
	minDuration time.Duration // minimum nonzero duration
	maxSteps    int           // maximum number of steps in a plan
}

func newReader(unit time.Duration, variant string) *reader {
	expect := map[string]Expectation{mutualExclusion: impliedExpectation, resourceSafety: impliedExpectation}
	return &reader{scenario: Scenario{Variant: variant, Expect: expect}, minDuration: unit, maxSteps: maxItems}
}

// variantEntry is an entry of the section variants before it is applied.
type variantEntry struct {
	Name                       string
	Claim, Debate, Set, Expect *yaml.Node
}

const (
	defaultCycles  = 3 // cycles per client if neither cycles nor for is given
	defaultClients = 2 // number of clients
	defaultNodes   = 5 // number of nodes
)

// form returns the description of a scenario file. Together with the functions below, it contains
// every key.
func (r *reader) form(k KnownNames) object {
	expect := r.expectForm(k)
	return object{"the scenario", []field{
		{key: "name", doc: "the name on the command line", shape: dashedName("scenario"), required: true},
		{key: "claim", doc: "the scenario's conclusion, in one plain sentence", shape: nonEmptyText, required: true},
		{key: "source", doc: "author and place of the claim", shape: nonEmptyText},
		{key: "tags", doc: "words for selecting scenarios", shape: distinctWords("tags", dashedName("tag"))},
		{key: "debate", doc: "who affirms the claim, and who denies it", shape: debateForm()},
		{key: "tier", doc: "other locks that must meet the expectations: every lock, or quorum locks; by default none", shape: oneOf("tier", tiers()...)},
		{key: "cures", doc: "scenarios whose damage this one avoids with a single change", shape: distinctWords("cures", dashedName("scenario"))},
		{key: "topology", doc: "the lock servers", shape: topologyForm(r.minDuration)},
		{key: "lock", doc: "the lock under test and its settings", shape: lockForm(k, r.minDuration)},
		{key: "clients", doc: "the number of clients, or each client with its start and the nodes it reaches", shape: clientsForm(r.minDuration)},
		{key: "workload", doc: "what each client does", shape: workloadForm(r.minDuration)},
		{key: "plan", doc: "what goes wrong, and when", shape: planForm(r.minDuration, r.maxSteps), goPath: wholeSection},
		{key: "limits", doc: "limits on a single hold, for bounded-hold, regardless of what the lock allows", shape: limitsForm(r.minDuration)},
		{key: "expect", doc: "the expected result; safety properties not listed must hold", shape: expect},
		{key: "limit", doc: "the run is stopped after this time", shape: duration(r.minDuration), defaultText: "2m0s"},
		{key: "exact", doc: "whether events must coincide to the microsecond, which is only possible in virtual time", shape: boolean},
		{key: "scale", doc: "factor by which all durations are multiplied on real backends, if it must be fixed", shape: scaleFactor},
		{key: "variants", doc: "the same scenario with different values for some keys", dest: &r.variants, shape: dict{"variants", dashedName("variant"), maxVariants, object{"a variant", []field{
			{key: "set", doc: "new values for keys (lock.ttl) or whole sections (plan)", shape: deferredShape{scalar{jsonSchema: setSchema()}}, required: true},
			{key: "claim", doc: "replaces the scenario's claim", shape: deferredShape{nonEmptyText}},
			{key: "debate", doc: "who affirms and denies the variant's own claim", shape: deferredShape{debateForm()}},
			{key: "expect", doc: "differences from the scenario's expectations", shape: deferredShape{expect}},
		}}}},
	}}
}

func debateForm() object {
	o := object{name: "debate"}
	for _, party := range parties() {
		o.fields = append(o.fields, field{key: party, doc: "this party's stance on the claim", shape: oneOf("stance", stanceAffirms, stanceDenies)})
	}
	return o
}

func topologyForm(unit time.Duration) object {
	return object{"topology", []field{
		{key: "nodes", doc: "number of independent lock servers", shape: integer(1, MaxNodes), defaultText: strconv.Itoa(defaultNodes)},
		{key: "sizes", doc: "the numbers of nodes for which the scenario makes sense, as in 4, 3.., 3..7, even, or 3.. odd; by default any", shape: nodeCounts},
		{key: "server", doc: "a store with several members that runs in place of Redis, for locks that use it", shape: oneOf("server", lock.Servers()...)},
		{key: "persistence", doc: "what survives a restart: the append-only file's fsync policy, or none", shape: oneOf("persistence", PersistNone, "everysec", PersistAlways, "no"), defaultText: PersistNone},
		{key: "expiry", doc: "the clock that expires keys: the wall clock, as in Redis, or a monotonic one", shape: oneOf("clock", "wall", ExpiryMonotonic)},
		{key: "replicas", doc: "asynchronous replicas of each server", shape: integer(0, 1)},
		{key: "down-after", goPath: "downAfter", doc: "how long a master must be unreachable before its sentinels consider it down; by default 1s", shape: duration(unit)},
		{key: "image", doc: "the image of the servers' containers, as in redis:7", shape: imageName},
		{key: "addresses", doc: "the servers as listed in the lock's configuration, if that is wrong", shape: sequence{"addresses", 1, maxItems, nodeName, false}},
	}}
}

func lockForm(k KnownNames, unit time.Duration) object {
	retry := durationRange(unit)
	formatRange := retry.format
	retry.assign = func(to reflect.Value, v any) {
		l, r := to.Addr().Interface().(*lock.Settings), v.(client.Range)
		l.RetryMin, l.RetryMax = r.Min, r.Max
	}
	retry.format = func(v reflect.Value) string {
		l := v.Interface().(lock.Settings)
		return formatRange(reflect.ValueOf(client.Range{Min: l.RetryMin, Max: l.RetryMax}))
	}
	return object{"lock", []field{
		{key: "kind", doc: "the lock to test", shape: oneOf("lock kind", k.Locks...), defaultText: "redlock"},
		{key: "mistake", doc: "the mistake, for kind broken", shape: oneOf("mistake", k.Mistakes...)},
		{key: "ttl", doc: "a key's time to live", shape: duration(unit), defaultText: "10s"},
		{key: "drift", doc: "the lock's allowance for clock drift, as a share of the TTL", shape: percent(0.5), defaultText: "1%"},
		{key: "timeout", doc: "timeout of a request to one node, less than half of the TTL", shape: duration(unit), defaultText: "50ms"},
		{key: "retry", doc: "range of the random delay between attempts", shape: retry, goPath: wholeSection, jsonPath: "retryMin..retryMax", defaultText: "50ms..250ms"},
		{key: "tries", doc: "attempts per acquire; 0: no limit", shape: integer(0, maxCount)},
		{key: "ask", doc: "whether to contact the nodes all at once or one after another", shape: oneOf("ask setting", "multiplexed", askSequential)},
		{key: "fence", doc: "whether the lock issues fencing tokens", shape: boolean},
		{key: "extends", doc: "maximum extensions per hold; 0: the lock's default", shape: integer(0, maxCount)},
		{key: "options", doc: "options specific to this kind of lock", shape: optionsForm(k)},
	}}
}

// optionsForm contains the options of all lock kinds. If two kinds have an option of the same name
// with different values, the field accepts the values of both, and checkOptions rejects those of
// other kinds.
func optionsForm(k KnownNames) object {
	o := object{name: "options"}
	values := map[string][]string{}
	for _, kind := range slices.Sorted(maps.Keys(k.Kinds)) {
		for _, option := range k.Kinds[kind].Options {
			doc := "for " + kind + ": " + option.Doc
			if i := slices.IndexFunc(o.fields, func(f field) bool { return f.key == option.Name }); i >= 0 {
				doc = o.fields[i].doc + "; " + doc
				o.fields = slices.Delete(o.fields, i, i+1)
			}
			for _, v := range option.Values {
				if !slices.Contains(values[option.Name], v) {
					values[option.Name] = append(values[option.Name], v)
				}
			}
			o.fields = append(o.fields, field{key: option.Name, doc: doc, shape: oneOf(option.Name+" setting", values[option.Name]...)})
		}
	}
	return o
}

// clientsForm describes either the number of clients or a list of clients.
func clientsForm(unit time.Duration) shape {
	number := integer(1, maxClients)
	number.assign = func(to reflect.Value, n any) { to.Set(reflect.ValueOf(newClients(n.(int)))) }
	start := alternatives{
		{field: field{key: "delay", shape: duration(0)}},
		{field{key: "start", shape: object{"start", eventFields("")}}, isSection, "start"},
	}
	clientForm := object{"a client", []field{
		{key: "start", doc: "when the client starts: a time, or another client's event", shape: start, goPath: wholeSection},
		{key: "reach", doc: "the nodes it can reach; the others refuse its connections", shape: distinctWords("reach", nodeOrSet)},
		{key: "ttl", doc: "overrides the lock's TTL for this client", shape: duration(unit)},
		{key: "think", doc: "overrides the workload's value", shape: durationRange(0)},
		{key: "hold", doc: "overrides the workload's value", shape: durationRange(0)},
		{key: "cycles", doc: "overrides the workload's value", shape: integer(1, maxCount)},
		{key: "cancel-after", goPath: "cancelAfter", doc: "overrides the workload's value", shape: duration(unit)},
	}}
	return alternatives{
		{field: field{goPath: wholeSection, shape: number}},
		{field{goPath: wholeSection, shape: dict{"clients", clientName, maxClients, clientForm}}, isSection, wholeSection},
	}
}

func newClients(n int) (all []Client) {
	for _, name := range names("c", n) {
		all = append(all, Client{Name: name})
	}
	return all
}

func workloadForm(unit time.Duration) object {
	check := boolean
	check.assign = func(to reflect.Value, v any) { to.SetBool(!v.(bool)) }
	check.format = func(v reflect.Value) string { return strconv.FormatBool(!v.Bool()) }
	return object{"workload", []field{
		{key: "kind", doc: "what a critical section does", shape: oneOf("workload", "read-modify-write"), defaultText: "read-modify-write"},
		{key: "keys", doc: "number of locks, which each client uses in turn", shape: integer(1, maxKeys), defaultText: "1"},
		{key: "fence", doc: "which writes the resource rejects", shape: oneOf("fence mode", client.FenceNone, client.FenceToken, client.FenceCounter, client.FenceCheckSet), defaultText: client.FenceNone},
		{key: "think", doc: "pause before each cycle", shape: durationRange(0), defaultText: "50ms..500ms"},
		{key: "hold", doc: "work between the read and the check before the write", shape: durationRange(0), defaultText: "100ms..2s"},
		{key: "prepare", doc: "work between the check and the write", shape: durationRange(0)},
		{key: "cancel-after", goPath: "cancelAfter", doc: "how long a client waits for its lock before it cancels the acquire", shape: duration(unit)},
		{key: "extend", doc: "how often a client extends its lock while it works", shape: duration(unit)},
		{key: "reenter", doc: "how many times a client reacquires and releases a lock that it holds", shape: integer(1, maxReenter)},
		{key: "cycles", doc: "cycles per client", shape: integer(1, maxCount)},
		{key: "for", doc: "no cycle starts later than this", shape: duration(unit)},
		{key: "writes", doc: "writes per critical section", shape: integer(1, maxWrites), defaultText: "1"},
		{key: "check", goPath: "noCheck", doc: "whether a client checks its deadline before it writes", shape: check},
	}}
}

func limitsForm(unit time.Duration) object {
	return object{"limits", []field{
		{key: "extensions", doc: "maximum extensions per hold", shape: integer(1, maxCount), required: true},
		{key: "hold", doc: "maximum hold, from the grant until the client stops believing that it holds the lock", shape: duration(unit), required: true},
	}}
}

// expectForm contains the properties and the other keys of the section expect.
func (r *reader) expectForm(k KnownNames) object {
	outcome := oneOf("outcome", wantHolds, wantViolated, wantAny)
	cause := oneOf("cause", k.Causes...)
	if k.CanonicalCause != nil {
		parse := cause.parse
		cause.parse = func(s string) (any, string, string) { return parse(k.CanonicalCause(s)) }
	}
	violated := field{goPath: wholeSection, shape: object{"the expected violation", []field{
		{key: "violated", goPath: "cause", doc: "cause or class of the violation", shape: cause, required: true},
		{key: "node", doc: "the node that causes it", shape: nodeOrSet},
	}}}
	o := object{name: "expect"}
	for _, property := range k.Properties {
		want := field{key: "want", shape: outcome, required: true}
		if property == mutualExclusion || property == resourceSafety {
			want.defaultText = wantHolds
		}
		o.fields = append(o.fields, field{key: property, doc: "the property's expected outcome", shape: alternatives{{field: want}, {violated, isSection, "cause"}}})
	}
	numbers := object{name: "numbers"}
	for _, name := range k.Numbers {
		numbers.fields = append(numbers.fields, field{key: name, doc: "bound on this number", shape: bound})
	}
	if len(k.Numbers) > 0 {
		o.fields = append(o.fields, field{key: "numbers", doc: "bounds on measured values", shape: numbers, dest: &r.scenario.Numbers})
	}
	vacuous := oneOf("vacuous setting", "allowed")
	vacuous.assign = func(to reflect.Value, _ any) { to.SetBool(true) }
	vacuous.format = func(reflect.Value) string { return "allowed" }
	o.fields = append(o.fields, field{key: "vacuous", doc: "whether the run is valid even if no client acquires the lock", shape: vacuous, dest: &r.scenario.MayBeVacuous})
	return o
}

// sections lists the parts of a scenario that variants and overrides may set.
var sections = []string{"tier", "topology", "lock", "clients", "workload", "plan", "limits", "limit", "scale"}

func setSchema() map[string]any {
	return map[string]any{
		"type": "object", "minProperties": 1,
		"propertyNames": map[string]any{"pattern": `^(` + strings.Join(sections, "|") + `)(\.[a-z0-9-]+)*$`},
	}
}

// planForm describes a list of steps, or the settings of a random plan.
func planForm(unit time.Duration, maxSteps int) shape {
	random := object{"plan", []field{{key: "random", doc: "each seed draws its own plan from these settings", shape: randomForm(unit), required: true}}}
	steps := sequence{"plan", 0, maxSteps, object{"a step", []field{
		{key: "when", doc: "trigger of the fault", shape: triggerForm(unit), required: true},
		{key: "fault", doc: "the fault and its targets", shape: faultForm(unit), required: true},
		{key: "drawn", doc: "whether it counts as drawn at random, and so may never occur or have no effect", shape: boolean},
	}}, false}
	return alternatives{{field: field{key: "plan", shape: steps}}, {field{goPath: wholeSection, shape: random}, hasKey("random"), "random"}}
}

func triggerForm(unit time.Duration) shape {
	before := field{key: "before", doc: "time after which the trigger is ignored; the trigger need not occur at all", shape: duration(unit)}
	form := func(key string, fields ...field) form {
		return form{field{goPath: wholeSection, shape: object{"when", fields}, required: true}, hasKey(key), key}
	}
	return trigger{alternatives{
		form("at", field{key: "at", doc: "time since the run began", shape: duration(0), required: true}),
		form("event", append(eventFields("event."), field{key: "every", goPath: "event.every", doc: "trigger on every occurrence, not only the nth", shape: boolean}, before)...),
		form("point",
			field{key: "client", goPath: "point.client", doc: "the client", shape: clientName, required: true},
			field{key: "point", goPath: "point.point", doc: "point in the client's program where it waits for the fault", shape: oneOf("point", client.Points...), required: true},
			field{key: "nth", goPath: "point.nth", doc: "number of the occurrence, from 1", shape: integer(1, maxCount), defaultText: "1"},
			before),
		form("message",
			field{key: "link", goPath: "message.link", doc: "link between a client and a node or the resource, as in c1-n3; a set of nodes, as in c1-all, makes one step for each", shape: target, required: true},
			field{key: "message", goPath: "message.message", doc: "command on the wire", shape: oneOf("message", nemesis.MessageKinds...), required: true},
			field{key: "of", goPath: "message.of", doc: "request or reply", shape: oneOf("direction", nemesis.Request, nemesis.Reply), required: true},
			field{key: "nth", goPath: "message.nth", doc: "number of the message on the link, from 1", shape: integer(1, maxCount), defaultText: "1"},
			before),
	}}
}

// eventFields contains the keys of an event. prefix is prepended to their Go paths.
func eventFields(prefix string) []field {
	return []field{
		{key: "client", goPath: prefix + "client", doc: "the client", shape: clientName, required: true},
		{key: "event", goPath: prefix + "event", doc: "event in the history", shape: oneOf("event", nemesis.EventNames()...), required: true},
		{key: "nth", goPath: prefix + "nth", doc: "number of the occurrence, from 1", shape: integer(1, maxCount), defaultText: "1"},
		{key: "after", goPath: prefix + "after", doc: "delay after the event", shape: duration(0)},
	}
}

func faultForm(unit time.Duration) object {
	var kinds, modes []string
	for _, k := range nemesis.Kinds {
		kinds, modes = append(kinds, k.Name), append(modes, k.Modes...)
	}
	timer := object{"timer", []field{
		{key: "rate", doc: "speed of the timer; 1 is correct", shape: clockRate},
		{key: "step", doc: "how far it is set forward in the meantime", shape: duration(0)},
	}}
	return object{"fault", []field{
		{key: "kind", doc: "kind of fault", shape: oneOf("fault", kinds...), required: true},
		{key: "targets", doc: "clients, nodes, links, or sets of nodes", shape: distinctWords("targets", target)},
		{key: "mode", doc: "variant of the fault", shape: oneOf("mode", modes...)},
		{key: "for", doc: "how long it lasts", shape: duration(unit)},
		{key: "until", doc: "the event that ends it", shape: object{"until", eventFields("")}},
		{key: "way", doc: "direction on a link; by default both", shape: oneOf("way", nemesis.Request, nemesis.Reply)},
		{key: "by", doc: "size of a clock step, as in 11s or -5s", shape: signedDuration(unit)},
		{key: "rate", doc: "speed of a clock; 1 is correct", shape: clockRate},
		{key: "delay", doc: "message delay", shape: durationRange(unit)},
		{key: "share", doc: "share of the messages affected; by default all", shape: fullShare},
		{key: "bandwidth", doc: "bytes per second", shape: integer(1, 1<<30)},
		{key: "cpu", doc: "share of one processor that a node may use", shape: cpuShare},
		{key: "memory", doc: "bytes of memory that a node may use", shape: byteSize},
		{key: "every", doc: "time between occurrences of a repeated fault", shape: durationRange(unit)},
		{key: "lasts", doc: "duration of each occurrence; most are short, a few long", shape: durationRange(unit)},
		{key: "timer", doc: "the clock that measures `for`, if it is wrong", shape: timer},
	}}
}

func randomForm(unit time.Duration) object {
	var modes []string
	for _, k := range nemesis.Kinds {
		modes = append(modes, nemesis.Random{}.ModesOf(k)...)
	}
	return object{"random", []field{
		{key: "faults", doc: "faults to draw from; each seed uses about half of them", shape: distinctWords("faults", oneOf("fault", nemesis.Choices()...)), required: true},
		{key: "within", doc: "keeps clocks and restarts within Redlock's assumptions", shape: oneOf("within setting", nemesis.Assumptions)},
		{key: "every", doc: "range of the mean time between two faults of a kind; each seed draws its own mean", shape: durationRange(unit), defaultText: "1s..5s"},
		{key: "lasts", doc: "range of the faults' durations; most are short", shape: durationRange(unit), defaultText: "10ms..20s"},
		{key: "safety", doc: "share of the limit after which all faults are healed and some client must acquire the lock", shape: percent(1), defaultText: "60%"},
		{key: "modes", doc: "modes to draw from, for faults with several modes; by default all", shape: distinctWords("modes", oneOf("mode", modes...))},
		{key: "shapes", doc: "shapes of link faults; by default all", shape: distinctWords("shapes", oneOf("shape", nemesis.Shapes...))},
	}}
}

// WithRandomPlan returns the scenario with the plan drawn for a seed. A scenario with a fixed plan
// is returned unchanged, so a plan is drawn only once.
func (s Scenario) WithRandomPlan(seed uint64) Scenario {
	if s.Random == nil {
		return s
	}
	clients, begin := longRunningClients(s)
	isLinked := func(name, node string) bool {
		return slices.ContainsFunc(s.Clients, func(c Client) bool { return c.Name == name && c.canReach(node) })
	}
	env := nemesis.Environment{
		Clients: clients, Start: begin, Nodes: s.NodeNames(), Resource: ResourceName, HasLink: isLinked,
		TimeLimit: s.Limit, TTL: slices.Max(TTLs(s)), DriftMargin: driftAllowance(s),
		HasPersistence: s.Topology.Persistence != PersistNone, SyncsWrites: s.Topology.Persistence == PersistAlways,
		RandomSource: func(names ...string) uint64 { return client.Random(seed, append([]string{"plan"}, names...)...) },
	}
	s.Plan = s.Random.Draw(env)
	s.Random = nil
	return s
}

// driftAllowance returns the clock difference per TTL that the lock allows for, without the 2 ms
// for the resolution of expiry in Redis. If clients have different TTLs, the shortest allows for least.
func driftAllowance(s Scenario) time.Duration {
	return time.Duration(s.Lock.Drift * float64(slices.Min(TTLs(s))))
}

// latestStart is the share of the limit within which a client must have started to be drawn as a
// target.
const latestStart = 0.1

// longRunningClients returns the clients that start early and work until the end, from which
// targets are drawn, and when all of them are running.
func longRunningClients(s Scenario) (clients []string, begin time.Duration) {
	for _, c := range s.Clients {
		if c.Start == nil && c.Delay <= time.Duration(latestStart*float64(s.Limit)) && c.Cycles == nil {
			clients, begin = append(clients, c.Name), max(begin, c.Delay)
		}
	}
	return clients, begin
}

// MinTimeout is the shortest node timeout that scaling produces. On a busy host, even a healthy
// Redis may wait tens of milliseconds for a processor. With a shorter timeout, the lock would
// consider it down, and the run would measure the host.
const MinTimeout = 50 * time.Millisecond

// MinDownAfter is the shortest DownAfter that scaling produces. Sentinels may take half of it to
// connect to a newly promoted master, and a busy host may take some of the rest.
const MinDownAfter = time.Second

// ScaledCopy returns a deep copy with every duration multiplied by f, so that a scenario of several
// minutes takes seconds of real time. It doesn't scale the node timeout below MinTimeout or
// DownAfter below MinDownAfter unless they were shorter to begin with.
func (s Scenario) ScaledCopy(f float64) Scenario {
	original := s
	scale(reflect.ValueOf(&s).Elem(), f)
	s.Lock.Timeout = max(s.Lock.Timeout, min(original.Lock.Timeout, MinTimeout))
	s.Lock.TTL = s.Lock.TTL.Round(time.Millisecond) // Redis counts in milliseconds
	for i := range s.Clients {
		s.Clients[i].TTL = s.Clients[i].TTL.Round(time.Millisecond)
	}
	s.Topology.DownAfter = max(s.Topology.DownAfter, min(original.Topology.DownAfter, MinDownAfter))
	return s
}

// scale multiplies every duration in a value by f. It copies everything that the value shares with
// other values.
func scale(v reflect.Value, f float64) {
	copied := v
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
			copied = reflect.New(v.Type().Elem())
			copied.Elem().Set(v.Elem())
			scale(copied.Elem(), f)
		}
	case reflect.Slice:
		if !v.IsNil() {
			copied = reflect.MakeSlice(v.Type(), v.Len(), v.Len())
			reflect.Copy(copied, v)
			for i := range v.Len() {
				scale(copied.Index(i), f)
			}
		}
	case reflect.Map: // no map contains durations
		if !v.IsNil() {
			copied = reflect.MakeMap(v.Type())
			for _, key := range v.MapKeys() {
				copied.SetMapIndex(key, v.MapIndex(key))
			}
		}
	}
	v.Set(copied)
}
