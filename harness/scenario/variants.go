package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"lockpick/harness/client"
	"lockpick/harness/lock"
	"lockpick/nemesis"
)

// applyVariant returns the tree of a variant. The variant without a name is the base.
func (d *document) applyVariant(v variantEntry) (*yaml.Node, error) {
	tree := withoutKey(d.root, "variants")
	if v.Name == "" {
		return tree, nil
	}
	entries, err := pairs(v.Set, "set", "write key: value pairs, as in lock.ttl: 5s")
	if err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, nodeProblem(v.Set, "set at least one key", "the variant doesn't change anything")
	}
	for _, p := range entries {
		if tree, err = d.setValue(tree, p.key, p.value); err != nil {
			return nil, err
		}
	}
	if v.Claim != nil {
		tree = withoutKey(tree, "debate") // the debate is about the scenario's claim
	}
	for i, value := range []*yaml.Node{v.Claim, v.Debate} {
		if value == nil {
			continue
		}
		key := newScalarNode([]string{"claim", "debate"}[i], value)
		if tree, err = d.replace(tree, []*yaml.Node{key}, value); err != nil {
			return nil, err
		}
	}
	if v.Expect == nil {
		return tree, nil
	}
	if entries, err = pairs(v.Expect, "expect", "write property: outcome pairs"); err != nil {
		return nil, err
	}
	for _, p := range entries {
		if tree, err = d.replace(tree, []*yaml.Node{newScalarNode("expect", p.key), p.key}, p.value); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

// applyOverrides applies overrides of the form key=value.
func (d *document) applyOverrides(tree *yaml.Node, overrides []string) (*yaml.Node, error) {
	for _, s := range overrides {
		src := newSource("--set", s)
		key, text, ok := strings.Cut(s, "=")
		if !ok || key == "" || strings.TrimSpace(text) == "" {
			return nil, src.newError(1, 1, "an override must have the form key=value", "as in --set lock.ttl=5s")
		}
		value, err := parseYAML(src, []byte(text))
		if err != nil {
			return nil, err
		}
		name := &yaml.Node{Kind: yaml.ScalarNode, Value: key, Line: 1, Column: 1}
		d.foreignNodes[name] = src
		d.recordSource(value, src, len([]rune(key))+1)
		if err := checkPlainYAML(value); err != nil {
			return nil, err
		}
		if tree, err = d.setValue(tree, name, value); err != nil {
			return nil, err
		}
	}
	return tree, nil
}

// recordSource records that a tree comes from src, and shifts the columns of its first line.
func (d *document) recordSource(n *yaml.Node, src *source, shift int) {
	d.foreignNodes[n] = src
	if n.Line == 1 {
		n.Column += shift
	}
	for _, c := range n.Content {
		d.recordSource(c, src, shift)
	}
}

// maxDepth is the maximum number of words in a dotted key. No key of a scenario needs as many.
const maxDepth = 8

// setValue returns a tree with a different value at a dotted key.
func (d *document) setValue(tree, key, value *yaml.Node) (*yaml.Node, error) {
	segments := strings.Split(key.Value, ".")
	if !slices.Contains(sections, segments[0]) {
		return nil, nodeProblem(key, suggest(segments[0], "can be set", sections), "%s can't be set", quote(key.Value))
	}
	if len(segments) > maxDepth {
		return nil, nodeProblem(key, fmt.Sprintf("at most %d words separated by dots", maxDepth), "%s is nested too deeply", quote(key.Value))
	}
	var path []*yaml.Node
	column := key.Column
	if key.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		column++
	}
	for _, s := range segments {
		n := &yaml.Node{Kind: yaml.ScalarNode, Value: s, Line: key.Line, Column: column}
		d.foreignNodes[n] = d.foreignNodes[key]
		path = append(path, n)
		column += len([]rune(s)) + 1
	}
	return d.replace(tree, path, value)
}

func withoutKey(n *yaml.Node, key string) *yaml.Node {
	c := *n
	c.Content = slices.Clone(n.Content)
	if i := childIndex(&c, key); i > 0 {
		c.Content = slices.Delete(c.Content, i-1, i+1)
	}
	return &c
}

// Tiers. A scenario is written for one lock and expects what that lock guarantees. Its tier selects
// the other locks that must meet the same expectations.
const (
	TierEvery  = "every"  // every lock, on any number of nodes: only clients or a minority of nodes fail
	TierQuorum = "quorum" // every lock that needs a majority of several nodes
)

func tiers() []string { return []string{TierEvery, TierQuorum} }

// requiredProperties lists the properties that every lock must satisfy in all scenarios of a tier,
// even if the scenario doesn't list them.
var requiredProperties = map[string][]string{
	TierEvery: {validOnReturn}, // a lock that has expired before its acquire returns is useless
}

// impliedExpectation is the expectation for a property that the tier requires.
var impliedExpectation = Expectation{Want: wantHolds, Implied: true}

// ForLock returns the scenario with a lock of another kind, and with only those expectations that
// the tier requires of it. For a lock that uses a single node, the topology has one node, and every
// fault on nodes affects that node. The error explains why the scenario doesn't apply to this kind.
func (s Scenario) ForLock(name string, k lock.Kind) (Scenario, error) {
	switch l := s.Lock; {
	case s.Workload.Reenter > 0 && !k.Can.Reenter:
		return s, errors.New("this lock is not reentrant")
	case l.Kind == name:
		return s, nil
	case l.Mistake != "":
		return s, errors.New("the scenario tests a deliberately broken lock")
	case len(l.Options) > 0:
		return s, errors.New("the scenario tests an option of another lock")
	case s.Topology.Server != "" && s.Topology.Server != k.Server:
		return s, fmt.Errorf("the scenario tests locks on %s, but this lock uses %s", s.Topology.Server, cmp.Or(k.Server, "Redis"))
	case k.OneNode && s.Tier == TierQuorum:
		return s, errors.New("the scenario tests votes of several nodes, but this lock uses one node")
	case k.Quorum != nil && k.Quorum(s.Topology.Nodes) < 2 && s.Tier == TierQuorum:
		return s, errors.New("the scenario tests votes of several nodes, but this lock needs only one vote")
	case k.Distinct && len(slices.Compact(slices.Sorted(slices.Values(s.Topology.Addresses)))) < len(s.Topology.Addresses):
		return s, errors.New("this lock rejects duplicate nodes")
	case l.Fence && !k.Can.Fence:
		return s, errors.New("this lock has no fencing tokens")
	case s.Workload.Extend > 0 && !k.Can.Extend:
		return s, errors.New("this lock can't be extended")
	case l.Ask == askSequential && !k.Can.Sequential && !k.OneNode && s.Tier != TierEvery:
		return s, errors.New("this lock can't contact its nodes sequentially")
	case k.OwnTime && slices.ContainsFunc(s.Plan, IsDuringAcquire):
		return s, fmt.Errorf("this lock has no %s hook", client.DuringAcquire)
	}
	s.Lock.Kind = name
	if k.Server != "" {
		s.Topology = s.Topology.withStore(k.Server)
	}
	if !k.Can.Sequential {
		s.Lock.Ask = ""
	}
	if !k.Can.Limit {
		s.Lock.Extends = 0
	}
	if k.OneNode {
		s = reduceToOneNode(s)
	}
	s.Lock = s.Lock.ForKind(k, s.Topology.Nodes)
	s.Numbers, s.Expect = nil, expectationsOf(s, k)
	return s, nil
}

// WithOptions returns the scenario with additional options of its lock's kind. It drops the
// expectations for properties that the options forgo.
func (s Scenario) WithOptions(k lock.Kind, options map[string]string) Scenario {
	if len(options) == 0 {
		return s
	}
	s.Expect = maps.Clone(s.Expect)
	ownOptions := s.Lock.Options
	s.Lock.Options = maps.Clone(options)
	for name, value := range ownOptions {
		if _, set := options[name]; !set {
			s.Lock.Options[name] = value
		}
	}
	for _, o := range k.Options {
		if value, set := options[o.Name]; set && value != o.Values[0] {
			for _, property := range o.Forgoes {
				s.Expect[property] = Expectation{Want: wantAny}
			}
		}
	}
	return s
}

// askSequential is the value of lock.ask for contacting one node after another.
const askSequential = "sequential"

// IsDuringAcquire reports whether a step waits for the second clock reading in an acquire.
func IsDuringAcquire(st nemesis.Step) bool {
	return st.When.Point != nil && st.When.Point.Point == client.DuringAcquire
}

// WithoutClientClockSteps returns the scenario with a random plan that never sets the clocks of
// clients, and descriptions of the omitted faults. It is meant for locks that read the system clock
// where that clock can't be set.
func (s Scenario) WithoutClientClockSteps() (_ Scenario, omitted []string) {
	if s.Random == nil {
		return s, nil
	}
	r, omitted := s.Random.Without(func(c nemesis.Choice) bool { return c.Kind.SetsClock && c.TargetType == nemesis.Client })
	s.Random = &r
	return s, omitted
}

// expectationsOf returns the expectations for a lock of another kind: the properties that the
// scenario's own lock must satisfy, as far as the tier requires them.
func expectationsOf(s Scenario, k lock.Kind) map[string]Expectation {
	expect := map[string]Expectation{}
	for property, e := range s.Expect {
		if s.Tier == "" || e.Want != wantHolds || !isPromised(s, k, property) {
			e = Expectation{Want: wantAny}
		}
		expect[property] = e
	}
	return expect
}

// Guarantees returns the expectations that remain valid if the scenario's settings change: those
// for properties that must hold. An expected violation may or may not occur then.
func Guarantees(expected map[string]Expectation) map[string]Expectation {
	expect := map[string]Expectation{}
	for property, e := range expected {
		if e.Want != wantHolds {
			e = Expectation{Want: wantAny, LeadProperty: e.LeadProperty}
		}
		expect[property] = e
	}
	return expect
}

// isPromised reports whether a kind of lock promises a property.
func isPromised(s Scenario, k lock.Kind, property string) bool {
	switch property {
	case boundedHold:
		return k.Can.Limit
	case validOnReturn:
		return k.Belief == lock.ByDeadline
	case resourceSafety: // a client that learns nothing about its lease writes too late with any lock
		return k.Belief != lock.ByNothing || s.Workload.Fence != client.FenceNone
	case faultTolerance: // in this tier a minority may be down, so a majority must be enough
		return s.Tier != TierQuorum || s.Quorum() <= s.Topology.Nodes/2+1
	}
	return true
}

// reduceToOneNode returns the scenario with n1 as its only node: anything that reaches, cuts off or
// kills a node applies to n1. Steps that become equal are merged.
func reduceToOneNode(s Scenario) Scenario {
	nodes := s.NodeNames()
	if len(nodes) == 1 {
		return s
	}
	rename := func(name string) string {
		if left, right, ok := nemesis.SplitLink(name); ok {
			if slices.Contains(nodes, left) { // a replication link
				return nodes[0] + strings.TrimPrefix(name, left)
			}
			if slices.Contains(nodes, right) {
				return nemesis.LinkName(left, nodes[0])
			}
		}
		if slices.Contains(nodes, name) {
			return nodes[0]
		}
		return name
	}
	s.Topology.Nodes, s.Topology.Addresses = 1, nil
	s.Clients = slices.Clone(s.Clients)
	for i, c := range s.Clients {
		if len(c.Reach) > 0 {
			s.Clients[i].Reach = nil
		}
	}
	plan := s.Plan
	s.Plan = nil
	for _, st := range plan {
		var targets []string
		for _, t := range st.Fault.Targets {
			if t = rename(t); !slices.Contains(targets, t) {
				targets = append(targets, t)
			}
		}
		st.Fault.Targets = targets
		if m := st.When.Message; m != nil {
			message := *m
			message.Link = rename(m.Link)
			st.When.Message = &message
		}
		if !slices.ContainsFunc(s.Plan, func(other nemesis.Step) bool { return reflect.DeepEqual(other, st) }) {
			s.Plan = append(s.Plan, st)
		}
	}
	return s
}
