package harness

import (
	"slices"

	"lockpick/nemesis"
)

// Needs lists the capabilities that a cluster must have for the scenario's
// plan, sorted.
func (s Scenario) Needs() []string {
	var out []string
	add := func(c string) {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	for _, st := range s.Plan {
		kind, _ := nemesis.KindOf(st.Fault.Kind)
		if st.When.Message != nil {
			add(nemesis.Capability("hold", nemesis.Message)) // whatever the fault, the message waits for it
		}
		for _, t := range st.Fault.Targets {
			switch {
			case kind.Hits(nemesis.Link):
				add(nemesis.Capability(kind.Name, nemesis.Link))
			case slices.Contains(s.ClientNames(), t):
				add(nemesis.Capability(kind.Name, nemesis.Client))
			default:
				add(nemesis.Capability(kind.Name, nemesis.Node))
			}
		}
	}
	slices.Sort(out)
	return out
}
