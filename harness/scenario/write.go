package scenario

import (
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"lockpick/harness/client"
)

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
			{"exact", "exact", nonZero(s.Exact, say)},
			{"scale", "scale", nonZero(s.Scale, decimal)},
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
			{"nodes", "nodes", leaf(say(t.Nodes))}, {"persistence", "persistence", leaf(t.Persistence)}, {"expiry", "expiry", nonZero(t.Expiry, say)},
			{"replicas", "replicas", nonZero(t.Replicas, say)}, {"down-after", "downAfter", nonZero(t.DownAfter, say)},
			{"image", "image", nonZero(t.Image, say)}, {"addresses", "addresses", w.words("addresses", t.Addresses)},
		}
	})
}

func (w *writer) lock(s *Scenario) *yaml.Node {
	l := &s.Lock
	return w.section("lock", func() []entry {
		return []entry{
			{"kind", "kind", leaf(l.Kind)}, {"mistake", "mistake", nonZero(l.Mistake, say)},
			{"ttl", "ttl", leaf(l.TTL.String())}, {"drift", "drift", leaf(share(l.Drift))}, {"timeout", "timeout", leaf(l.Timeout.String())},
			{"retry", "retryMin", leaf(both(client.Range{Min: l.RetryMin, Max: l.RetryMax}))},
			{"tries", "tries", nonZero(l.Tries, say)}, {"ask", "ask", nonZero(l.Ask, say)}, {"fence", "fence", nonZero(l.Fence, say)},
			{"extends", "extends", nonZero(l.Extends, say)},
		}
	})
}

func (w *writer) clients(all []Client) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	w.fields[n] = w.path + ".clients"
	for i := range all {
		c, field := &all[i], fmt.Sprintf("clients[%d]", i)
		value := w.section(field, func() []entry {
			begin := nonZero(c.Delay, say)
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
			{"think", "think", leaf(both(l.Think))}, {"hold", "hold", leaf(both(l.Hold))}, {"prepare", "prepare", nonZero(l.Prepare, both)},
			{"extend", "extend", nonZero(l.Extend, say)}, {"cycles", "cycles", nonZero(l.Cycles, say)}, {"for", "for", nonZero(l.For, say)},
			{"writes", "writes", leaf(say(l.Writes))}, {"check", "noCheck", nonZero(l.NoCheck, func(no bool) string { return say(!no) })},
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
					return []entry{{"violated", "cause", leaf(e.Cause)}, {"node", "node", nonZero(e.Node, say)}}
				})
			}
			all = append(all, entry{property, property, value})
		}
		if len(s.Numbers) > 0 {
			all = append(all, entry{"numbers", "numbers", w.numbers(s.Numbers)})
		}
		return append(all, entry{"vacuous", "vacuous", nonZero(s.Vacuous, func(bool) string { return "allowed" })})
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
