package scenario

import (
	"slices"

	"lockpick/nemesis"
)

// Models are the sorts of failures that the plan has, or its dice may bring.
func (s Scenario) Models() (models []string) {
	add := func(k nemesis.Kind) {
		if k.Model != "" && !slices.Contains(models, k.Model) {
			models = append(models, k.Model)
		}
	}
	for _, st := range s.Plan {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		add(kind)
	}
	if s.Random != nil {
		for _, c := range s.Random.Choices() {
			add(c.Kind)
		}
	}
	slices.Sort(models)
	return models
}

// Targets lists what a step of the plan hits: links spelled out, the rest by name.
func (s Scenario) Targets(st nemesis.Step) []string {
	kind, _ := nemesis.KindOf(st.Fault.Kind)
	switch {
	case kind.Hits(nemesis.Message) && st.When.Message != nil:
		return []string{st.When.Message.Link}
	case !kind.Hits(nemesis.Link):
		return st.Fault.Targets
	}
	var out []string
	for _, t := range st.Fault.Targets {
		if _, end, ok := nemesis.SplitLink(t); ok && end == nemesis.Replica {
			out = append(out, t)
			continue
		}
		out = append(out, s.links(t)...)
	}
	return out
}

// links spells a client or node out as all its links; a link is itself.
func (s Scenario) links(target string) []string {
	var out []string
	for _, c := range s.Clients {
		for _, n := range s.NodeNames() {
			if l := nemesis.LinkName(c.Name, n); c.reaches(n) && (target == c.Name || target == n || target == l) {
				out = append(out, l)
			}
		}
		if l := nemesis.LinkName(c.Name, ResourceName); target == ResourceName || target == l || target == c.Name+"-resource" {
			out = append(out, l)
		}
	}
	return out
}
