package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"lockpick/harness/client"
	"lockpick/nemesis"
)

// writer makes the tree that a scenario file would have, from a scenario, and notes for
// each of its nodes the field that it was made from. What it leaves out, a reader of
// the tree can't get: Check compares.
type writer struct {
	fields map[*yaml.Node]string
	path   string // of the struct that is being written
}

// entry is a key and its value; without a value it isn't there.
type entry struct {
	key, field string
	value      *yaml.Node
}

// section makes a mapping for the struct at a field.
func (w *writer) section(field string, make func() []entry) *yaml.Node {
	outer := w.path
	if w.path = field; outer != "" {
		w.path = outer + "." + field
	}
	defer func() { w.path = outer }()
	n := &yaml.Node{Kind: yaml.MappingNode}
	w.fields[n] = w.path
	for _, e := range make() {
		if e.value == nil {
			continue
		}
		at := w.path + "." + e.field
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: e.key}
		w.fields[key] = at
		if _, ok := w.fields[e.value]; !ok {
			w.fields[e.value] = at
		}
		n.Content = append(n.Content, key, e.value)
	}
	return n
}

// list makes a list of what lies at a field.
func (w *writer) list(field string, n int, item func(field string, i int) *yaml.Node) *yaml.Node {
	l := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	w.fields[l] = w.path + "." + field
	for i := range n {
		at := fmt.Sprintf("%s[%d]", field, i)
		value := item(at, i)
		if _, ok := w.fields[value]; !ok {
			w.fields[value] = w.path + "." + at
		}
		l.Content = append(l.Content, value)
	}
	return l
}

func leaf(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

// given is a value that stands for nothing where it is zero.
func given[T comparable](v T, write func(T) string) *yaml.Node {
	var zero T
	if v == zero {
		return nil
	}
	return leaf(write(v))
}

func say[T any](v T) string              { return fmt.Sprint(v) }
func share(x float64) string             { return strconv.FormatFloat(100*x, 'g', -1, 64) + "%" }
func decimal(x float64) string           { return strconv.FormatFloat(x, 'g', -1, 64) }
func ends(r nemesis.Span) string         { return r.Min.String() + ".." + r.Max.String() }
func both(r client.Range) string         { return ends(nemesis.Span(r)) }
func pointed(r *client.Range) *yaml.Node { return orNone(r, both) }

func orNone[T any](p *T, write func(T) string) *yaml.Node {
	if p == nil {
		return nil
	}
	return leaf(write(*p))
}

// bytesOf is a size in the unit that a file can say it in.
func bytesOf(n int) string {
	if n%1024 == 0 {
		return strconv.Itoa(n/1024) + "KB"
	}
	return strconv.Itoa(n)
}

func (w *writer) words(field string, all []string) *yaml.Node {
	if len(all) == 0 {
		return nil
	}
	return w.list(field, len(all), func(_ string, i int) *yaml.Node { return leaf(all[i]) })
}

// scenario is the whole file; what has a default is there all the same.
func (w *writer) scenario(s *Scenario) *yaml.Node {
	return w.section("scenario", func() []entry {
		return []entry{
			{"name", "name", leaf(s.Name)}, {"claim", "claim", leaf(s.Claim)}, {"source", "source", leaf(s.Source)},
			{"tags", "tags", w.words("tags", s.Tags)},
			{"debate", "debate", w.debate(s.Debate)},
			{"topology", "topology", w.topology(&s.Topology)},
			{"lock", "lock", w.lock(s)},
			{"clients", "clients", w.clients(s.Clients)},
			{"workload", "workload", w.workload(&s.Workload)},
			{"plan", "plan", w.plan(s)},
			{"limits", "limits", w.limits(&s.Limits)},
			{"expect", "expect", w.expect(s)},
			{"limit", "limit", leaf(s.Limit.String())},
			{"exact", "exact", given(s.Exact, say)},
			{"scale", "scale", given(s.Scale, decimal)},
		}
	})
}

func (w *writer) debate(d map[string]string) *yaml.Node {
	if len(d) == 0 {
		return nil
	}
	return w.section("debate", func() (all []entry) {
		for _, party := range slices.Sorted(maps.Keys(d)) {
			all = append(all, entry{party, party, leaf(d[party])})
		}
		return all
	})
}

func (w *writer) topology(t *Topology) *yaml.Node {
	return w.section("topology", func() []entry {
		return []entry{
			{"nodes", "nodes", leaf(say(t.Nodes))}, {"persistence", "persistence", leaf(t.Persistence)}, {"expiry", "expiry", given(t.Expiry, say)},
			{"replicas", "replicas", given(t.Replicas, say)}, {"down-after", "downAfter", given(t.DownAfter, say)},
			{"image", "image", given(t.Image, say)}, {"addresses", "addresses", w.words("addresses", t.Addresses)},
		}
	})
}

func (w *writer) lock(s *Scenario) *yaml.Node {
	l := &s.Lock
	return w.section("lock", func() []entry {
		return []entry{
			{"kind", "kind", leaf(l.Kind)}, {"mistake", "mistake", given(l.Mistake, say)},
			{"ttl", "ttl", leaf(l.TTL.String())}, {"drift", "drift", leaf(share(l.Drift))}, {"timeout", "timeout", leaf(l.Timeout.String())},
			{"retry", "retryMin", leaf(both(client.Range{Min: l.RetryMin, Max: l.RetryMax}))},
			{"tries", "tries", given(l.Tries, say)}, {"ask", "ask", given(l.Ask, say)}, {"fence", "fence", given(l.Fence, say)},
			{"extends", "extends", given(l.Extends, say)},
		}
	})
}

func (w *writer) clients(all []Client) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	w.fields[n] = w.path + ".clients"
	for i := range all {
		c, field := &all[i], fmt.Sprintf("clients[%d]", i)
		value := w.section(field, func() []entry {
			begin := given(c.Delay, say)
			if c.Start != nil {
				begin = w.section("start", func() []entry { return w.event(c.Start) })
			}
			return []entry{
				{"start", "delay", begin}, {"reach", "reach", w.words("reach", c.Reach)},
				{"think", "think", pointed(c.Think)}, {"hold", "hold", pointed(c.Hold)}, {"cycles", "cycles", orNone(c.Cycles, say[int])},
			}
		})
		key := leaf(c.Name)
		w.fields[key] = w.path + "." + field + ".name"
		n.Content = append(n.Content, key, value)
	}
	return n
}

func (w *writer) workload(l *Workload) *yaml.Node {
	return w.section("workload", func() []entry {
		return []entry{
			{"kind", "kind", leaf(l.Kind)}, {"keys", "keys", leaf(say(l.Keys))}, {"fence", "fence", leaf(l.Fence)},
			{"think", "think", leaf(both(l.Think))}, {"hold", "hold", leaf(both(l.Hold))}, {"prepare", "prepare", given(l.Prepare, both)},
			{"extend", "extend", given(l.Extend, say)}, {"cycles", "cycles", given(l.Cycles, say)}, {"for", "for", given(l.For, say)},
			{"writes", "writes", leaf(say(l.Writes))}, {"check", "noCheck", given(l.NoCheck, func(no bool) string { return say(!no) })},
		}
	})
}

func (w *writer) limits(l *Limits) *yaml.Node {
	if *l == (Limits{}) {
		return nil
	}
	return w.section("limits", func() []entry {
		return []entry{{"extensions", "extensions", leaf(say(l.Extensions))}, {"hold", "hold", leaf(l.Hold.String())}}
	})
}

// expect leaves out what follows from the rest.
func (w *writer) expect(s *Scenario) *yaml.Node {
	return w.section("expect", func() (all []entry) {
		for _, property := range slices.Sorted(maps.Keys(s.Expect)) {
			e, value := s.Expect[property], (*yaml.Node)(nil)
			switch {
			case e.Follows != "":
			case e.Cause == "":
				value = leaf(e.Want)
			default:
				value = w.section(property, func() []entry {
					return []entry{{"violated", "cause", leaf(e.Cause)}, {"node", "node", given(e.Node, say)}}
				})
			}
			all = append(all, entry{property, property, value})
		}
		if len(s.Numbers) > 0 {
			all = append(all, entry{"numbers", "numbers", w.numbers(s.Numbers)})
		}
		return append(all, entry{"vacuous", "vacuous", given(s.Vacuous, func(bool) string { return "allowed" })})
	})
}

func (w *writer) numbers(bounds map[string]Bound) *yaml.Node {
	return w.section("numbers", func() (all []entry) {
		for _, name := range slices.Sorted(maps.Keys(bounds)) {
			all = append(all, entry{name, name, leaf(bounds[name].String())})
		}
		return all
	})
}
