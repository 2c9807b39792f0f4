package scenario

import (
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
	Locks      []string // kinds of locks
	Mistakes   []string // of the lock kind broken
	Properties []string // that can be expected
	Causes     []string // causes and classes of a violation
	Numbers    []string // that are measured, and can be expected
	Backends   []string // that a run.json may name; no scenario does
}

// brokenLock is the lock kind that takes a mistake.
const brokenLock = "broken"

// reading is a scenario while it is read.
type reading struct {
	scenario  Scenario
	vacuous   string
	retry     client.Range
	number    int       // of clients, where they have no names
	clients   []*Client // where they have
	steps     []*nemesis.Step
	expect    map[string]Expectation
	numbers   map[string]Bound
	variants  []*variation
	unit      time.Duration // the least duration that isn't nothing
	mostSteps int           // of a plan
}

// variation is one entry of the section variants, before it is applied.
type variation struct {
	name                       string
	claim, debate, set, expect *yaml.Node
}

// defaults is a scenario that says nothing.
func defaults() *reading {
	return &reading{
		scenario: Scenario{
			Topology: Topology{Nodes: 5, Persistence: "none"},
			Lock:     lock.Settings{Kind: "redlock", TTL: 10 * time.Second, Timeout: 50 * time.Millisecond, Drift: 0.01},
			Workload: Workload{
				Kind: "read-modify-write", Keys: 1, Fence: client.FenceNone, Writes: 1,
				Think: client.Range{Min: 50 * time.Millisecond, Max: 500 * time.Millisecond},
				Hold:  client.Range{Min: 100 * time.Millisecond, Max: 2 * time.Second},
			},
			Limit: 2 * time.Minute,
		},
		retry:  client.Range{Min: 50 * time.Millisecond, Max: 250 * time.Millisecond},
		number: 2,
		unit:   fileUnit, mostSteps: maxItems,
		numbers: map[string]Bound{},
		expect: map[string]Expectation{
			mutualExclusion: {Want: "holds", Implied: true},
			resourceSafety:  {Want: "holds", Implied: true},
		},
	}
}

// defaultCycles is how often a client works if neither cycles nor for is given.
const defaultCycles = 3

// whole is a scenario file. Every key that a file may hold is in this table or
// one of those below.
func (r *reading) whole(k Known) object {
	s := &r.scenario
	return object{"the scenario", []field{
		{key: "name", doc: "what the command line calls it", shape: named(&s.Name, "scenario"), must: true},
		{key: "claim", doc: "what the run shows, in one plain sentence", shape: prose(&s.Claim), must: true},
		{key: "source", doc: "who says so, and where", shape: prose(&s.Source), must: true},
		{key: "tags", doc: "words to select it by", shape: words{name: "tags", to: &s.Tags, item: func(to *string) word { return named(to, "tag") }}},
		{key: "debate", doc: "whose claim it is: who affirms it, and who denies it", shape: debateForm(&s.Debate)},
		{key: "topology", doc: "the lock servers", shape: topologyForm(&s.Topology, r.unit)},
		{key: "lock", doc: "the lock under test and its settings", shape: r.lockForm(k)},
		{key: "clients", doc: "how many contend, or who, from when, reaching what", shape: r.clientsForm()},
		{key: "workload", doc: "what each client does", shape: workloadForm(&s.Workload, r.unit)},
		{key: "plan", doc: "what goes wrong, and when", shape: r.planForm()},
		{key: "limits", doc: "how much of the lock one hold may have, whatever the lock allows; bounded-hold is judged by it", shape: limitsForm(&s.Limits, r.unit)},
		{key: "expect", doc: "what comes of it; a safety property that isn't listed must hold", shape: r.expectForm(k)},
		{key: "limit", doc: "the run is stopped after this time", shape: duration(&s.Limit, r.unit)},
		{key: "exact", doc: "whether things must fall on one microsecond, as only virtual time can have it", shape: truth(func(b bool) { s.Exact = b })},
		{key: "scale", doc: "factor of all durations on real backends, where the scenario must pin it", shape: factor(&s.Scale)},
		{key: "variants", doc: "the same scenario with some keys set otherwise", shape: dict{"variants", named(nil, "variant"), maxVariants, func(name string) shape {
			v := &variation{name: name}
			r.variants = append(r.variants, v)
			return v.form(func() map[string]any { return r.expectForm(k).schema() })
		}}},
	}}
}

func debateForm(to *map[string]string) object {
	o := object{name: "debate"}
	for _, party := range Parties() {
		stance := ""
		o.fields = append(o.fields, field{key: party, doc: "what they say of the claim", shape: then{oneOf(&stance, "stance", []string{Affirms, Denies}), func() {
			if *to == nil {
				*to = map[string]string{}
			}
			(*to)[party] = stance
		}}})
	}
	return o
}

func topologyForm(t *Topology, unit time.Duration) object {
	return object{"topology", []field{
		{key: "nodes", doc: "number of independent lock servers", shape: integer(&t.Nodes, 1, maxNodes)},
		{key: "persistence", doc: "what survives a restart: the append-only file's fsync policy, or none", shape: oneOf(&t.Persistence, "persistence", []string{PersistNone, "everysec", PersistAlways, "no"})},
		{key: "expiry", doc: "the clock that keys expire by: the wall clock, as Redis does it, or one that nobody sets", shape: oneOf(&t.Expiry, "clock", []string{"wall", ExpiryMonotonic})},
		{key: "replicas", doc: "asynchronous replicas of each server", shape: integer(&t.Replicas, 0, 1)},
		{key: "down-after", doc: "how long a master is out of reach until its sentinels take it for dead; 1s if it isn't given", shape: duration(&t.DownAfter, unit)},
		{key: "image", doc: "what the servers run where they are containers, as in redis:7", shape: imageName(&t.Image)},
		{key: "addresses", doc: "the servers as they stand in the lock's configuration, where that is wrong", shape: words{name: "addresses", to: &t.Addresses, item: nodeName, again: true}},
	}}
}

func (r *reading) lockForm(k Known) object {
	l := &r.scenario.Lock
	return object{"lock", []field{
		{key: "kind", doc: "which lock", shape: oneOf(&l.Kind, "lock kind", k.Locks)},
		{key: "mistake", doc: "what the lock kind broken does wrong", shape: oneOf(&l.Mistake, "mistake", k.Mistakes)},
		{key: "ttl", doc: "a key's time to live", shape: duration(&l.TTL, r.unit)},
		{key: "drift", doc: "clock drift that is allowed for, as a share of the TTL", shape: percent(&l.Drift, 0.5)},
		{key: "timeout", doc: "bound of one request to one node, below half of the TTL", shape: duration(&l.Timeout, r.unit)},
		{key: "retry", doc: "bounds of the random delay between attempts", shape: between(&r.retry, r.unit)},
		{key: "tries", doc: "attempts in one acquire; 0: no limit", shape: integer(&l.Tries, 0, maxCount)},
		{key: "ask", doc: "nodes all at once, or one after another", shape: oneOf(&l.Ask, "way to ask", []string{"multiplexed", "sequential"})},
		{key: "fence", doc: "whether it hands out fencing tokens", shape: truth(func(b bool) { l.Fence = b })},
		{key: "extends", doc: "most extensions of one hold", shape: integer(&l.Extends, 0, maxCount)},
	}}
}

func (r *reading) clientsForm() shape {
	return either{
		integer(&r.number, 1, maxClients),
		dict{"clients", clientName(nil), maxClients, func(name string) shape {
			c := &Client{Name: name}
			r.clients = append(r.clients, c)
			return clientForm(c)
		}},
	}
}

func clientForm(c *Client) shape {
	ranged := func(r *client.Range) shape { return between(r, 0) }
	return object{"a client", []field{
		{key: "start", doc: "when it begins: a time, or an event of another client", shape: either{duration(&c.Delay, 0), optional[nemesis.Event]{&c.Start, func(e *nemesis.Event) shape { return eventForm("start", e) }}}},
		{key: "reach", doc: "the nodes it can talk to; the others refuse it", shape: words{name: "reach", to: &c.Reach, item: nodeName}},
		{key: "think", doc: "instead of the workload's", shape: optional[client.Range]{&c.Think, ranged}},
		{key: "hold", doc: "instead of the workload's", shape: optional[client.Range]{&c.Hold, ranged}},
		{key: "cycles", doc: "instead of the workload's", shape: optional[int]{&c.Cycles, func(n *int) shape { return integer(n, 1, maxCount) }}},
	}}
}

func workloadForm(w *Workload, unit time.Duration) object {
	return object{"workload", []field{
		{key: "kind", doc: "what a critical section does", shape: oneOf(&w.Kind, "workload", []string{"read-modify-write"})},
		{key: "keys", doc: "number of locks that each client works on in turn", shape: integer(&w.Keys, 1, maxKeys)},
		{key: "fence", doc: "what the resource refuses", shape: oneOf(&w.Fence, "fence mode", []string{client.FenceNone, client.FenceToken, client.FenceCounter, client.FenceCheckSet})},
		{key: "think", doc: "pause before each cycle", shape: between(&w.Think, 0)},
		{key: "hold", doc: "work between the read and the check before the write", shape: between(&w.Hold, 0)},
		{key: "prepare", doc: "work between the check and the write", shape: between(&w.Prepare, 0)},
		{key: "extend", doc: "how often a client extends its lock while it works", shape: duration(&w.Extend, unit)},
		{key: "cycles", doc: "how often each client works", shape: integer(&w.Cycles, 1, maxCount)},
		{key: "for", doc: "no cycle starts later than this", shape: duration(&w.For, unit)},
		{key: "writes", doc: "writes in one critical section", shape: integer(&w.Writes, 1, maxWrites)},
		{key: "check", doc: "whether a client looks at its deadline before it writes", shape: truth(func(b bool) { w.NoCheck = !b })},
	}}
}

func limitsForm(l *Limits, unit time.Duration) object {
	return object{"limits", []field{
		{key: "extensions", doc: "most extensions of one hold", shape: integer(&l.Extensions, 1, maxCount), must: true},
		{key: "hold", doc: "longest hold, from the grant to the end of belief", shape: duration(&l.Hold, unit), must: true},
	}}
}

// planForm is a list of steps, or how a seed draws them.
func (r *reading) planForm() shape {
	return listOr{
		sequence{"plan", 0, r.mostSteps, func() shape {
			step := &nemesis.Step{}
			r.steps = append(r.steps, step)
			return stepForm(step, r.unit)
		}},
		object{"plan", []field{{key: "random", doc: "each seed draws its own plan, in this way", must: true,
			shape: optional[nemesis.Random]{&r.scenario.Random, func(to *nemesis.Random) shape { return randomForm(to, r.unit) }}}}},
	}
}

func (r *reading) expectForm(k Known) object {
	o := object{name: "expect"}
	for _, property := range k.Properties {
		e := &Expectation{}
		o.fields = append(o.fields, field{key: property, doc: "what the property comes out as", shape: then{either{
			oneOf(&e.Want, "outcome", []string{"holds", "violated", "any"}),
			object{"the expected violation", []field{
				{key: "violated", doc: "cause or class of the violation", shape: oneOf(&e.Cause, "cause", k.Causes), must: true},
				{key: "node", doc: "the node to blame", shape: nodeName(&e.Node)},
			}},
		}, func() {
			if e.Cause != "" {
				e.Want = "violated"
			}
			r.expect[property] = *e
		}}})
	}
	if len(k.Numbers) > 0 {
		o.fields = append(o.fields, field{key: "numbers", doc: "bounds of what is measured", shape: r.numbersForm(k)})
	}
	o.fields = append(o.fields, field{key: "vacuous", doc: "nobody need acquire", shape: oneOf(&r.vacuous, "permission", []string{"allowed"})})
	return o
}

// numbersForm is the bounds of measured numbers.
func (r *reading) numbersForm(k Known) shape {
	o := object{name: "numbers"}
	for _, name := range k.Numbers {
		o.fields = append(o.fields, field{key: name, doc: "bound of what is measured", shape: bound(func(b Bound) { r.numbers[name] = b })})
	}
	return o
}

func (v *variation) form(expect func() map[string]any) object {
	return object{"a variant", []field{
		{key: "set", doc: "keys (lock.ttl) or whole sections (plan) and what they are here", shape: later{&v.set, setSchema}, must: true},
		{key: "claim", doc: "instead of the scenario's", shape: later{&v.claim, prose(nil).schema}},
		{key: "debate", doc: "of its own claim", shape: later{&v.debate, debateForm(nil).schema}},
		{key: "expect", doc: "where it differs from the scenario's", shape: later{&v.expect, expect}},
	}}
}

// sections are the parts of a scenario that variants and overrides may set.
var sections = []string{"topology", "lock", "clients", "workload", "plan", "limits", "limit", "scale"}

func setSchema() map[string]any {
	return map[string]any{
		"type": "object", "minProperties": 1,
		"propertyNames": map[string]any{"pattern": `^(` + strings.Join(sections, "|") + `)(\.[a-z0-9-]+)*$`},
	}
}
