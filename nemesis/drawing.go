package nemesis

import (
	"slices"
	"time"
)

// drawing is a plan while it is drawn.
type drawing struct {
	Random
	World
	over  time.Duration     // the safety phase's end
	taken map[string][]Span // by what a fault occupies while it is in force
	had   map[any]bool      // points and messages that set something off
}

// drawn is a step, and the instant it was drawn for: where an event sets it off, a
// rough one.
type drawn struct {
	at time.Duration
	Step
}

// style is how one seed uses one fault.
type style struct {
	Choice
	longest time.Duration
	mode    string
	way     string
	whom    []string // clients or nodes
	alone   bool     // others that don't nest hit the same targets
	lasting bool     // nobody counts on the node any more: that is why it is one of a minority, and stays hit
}

// final: there is nothing to end, or nothing ends it but the run.
func (s style) final() bool {
	return s.lasting || s.Fatal() || s.Kind.Momentary && !s.Kind.Sets || s.Kind.Name == clockSlew.Name
}

// once: it can hit a target once only.
func (s style) once() bool {
	return s.lasting || s.Fatal() || s.Kind.Name == failover.Name
}

// again is the time between two of what comes again and again.
func (s style) again() Span {
	most := max(s.longest/4, 4*time.Millisecond)
	return Span{most / 4, most}
}

func (d *drawing) links(want func(client, node string) bool) []string {
	var out []string
	for _, c := range d.Clients {
		for _, n := range append(slices.Clone(d.Nodes), d.Resource) {
			if (n == d.Resource || d.Linked(c, n)) && want(c, n) {
				out = append(out, LinkName(c, n))
			}
		}
	}
	return out
}

// spelledOut are a target's links; a link is itself.
func (d *drawing) spelledOut(target string) []string {
	if _, _, isLink := SplitLink(target); isLink {
		return []string{target}
	}
	return d.links(func(c, n string) bool { return target == c || target == n })
}
