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

// Shapes of what hits links: who is kept from whom. Partitions are between clients
// and lock nodes; nodes of Redlock don't talk to each other.
const (
	isolate    = "isolate"  // one client, or one node, from all
	halves     = "halves"   // half of the clients and nodes from the other half
	majority   = "majority" // some clients with a minority of the nodes from the others with the majority
	bridge     = "bridge"   // halves, but for one node that both see
	ring       = "ring"     // each client sees a majority, no two the same
	single     = "single"   // a few links
	oneWayOnly = "one-way"  // and any of them in one direction only
)

// Shapes lists them all.
var Shapes = []string{isolate, halves, majority, bridge, ring, single, oneWayOnly}

func (d *drawing) shapeable(shape string) bool {
	return d.Shapes == nil || slices.Contains(d.Shapes, shape)
}

// shape draws which links are hit.
func (d *drawing) shape(s style, k string) []string {
	shapes := slices.DeleteFunc(slices.Clone(Shapes), func(x string) bool { return x == oneWayOnly || !d.shapeable(x) })
	if len(shapes) == 0 || len(d.Clients) == 0 {
		return nil
	}
	nodes, clients := d.shuffled(d.Nodes, s.Word, "nodes", k), d.shuffled(d.Clients, s.Word, "clients", k)
	half := len(nodes) / 2
	switch shapes[d.upto(len(shapes), s.Word, "shape", k)] {
	case isolate:
		if d.upto(2, s.Word, "isolate", k) == 0 {
			return d.linked(clients[:1])
		}
		return d.linked(nodes[:1])
	case halves:
		return d.between(clients[:len(clients)/2], nodes[:half], nil)
	case majority:
		few := 1 + d.upto(max(half, 1), s.Word, "minority", k)
		with := d.upto(len(clients)+1, s.Word, "with minority", k)
		return d.between(clients[:with], nodes[:min(few, len(nodes))], nil)
	case bridge:
		return d.between(clients[:len(clients)/2], nodes[:half], nodes[half:][:1])
	case ring:
		return d.ring(clients, nodes)
	}
	links := d.shuffled(d.links(func(_, _ string) bool { return true }), s.Word, "links", k)
	return links[:min(len(links), 1+d.upto(3, s.Word, "few", k))]
}

// linked are those of some targets that have links.
func (d *drawing) linked(targets []string) []string {
	return slices.DeleteFunc(slices.Clone(targets), func(t string) bool { return len(d.spelledOut(t)) == 0 })
}

// between are the links from one side, these clients and nodes, to the other, the rest.
func (d *drawing) between(clients, nodes, both []string) []string {
	return d.links(func(c, n string) bool {
		return n != d.Resource && !slices.Contains(both, n) && slices.Contains(clients, c) != slices.Contains(nodes, n)
	})
}

// ring are the links from each client to the nodes outside its own majority: the i-th
// sees a quorum from the i-th node on.
func (d *drawing) ring(clients, nodes []string) []string {
	quorum := len(nodes)/2 + 1
	return d.links(func(c, n string) bool {
		if n == d.Resource {
			return false
		}
		from, at := slices.Index(clients, c), slices.Index(nodes, n)
		return ((at-from)%len(nodes)+len(nodes))%len(nodes) >= quorum
	})
}
