package nemesis

import "slices"

// Shapes of what hits links: who is kept from whom. Partitions are between clients
// and lock nodes; nodes of Redlock don't talk to each other.
const (
	isolate  = "isolate"  // one client, or one node, from all
	halves   = "halves"   // half of the clients and nodes from the other half
	majority = "majority" // some clients with a minority of the nodes from the others with the majority
	bridge   = "bridge"   // halves, but for one node that both see
	ring     = "ring"     // each client sees a majority, no two the same
	single   = "single"   // a few links
	OneWay   = "one-way"  // and any of them in one direction only
)

// Shapes lists them all.
var Shapes = []string{isolate, halves, majority, bridge, ring, single, OneWay}

func (d *drawing) shapeable(shape string) bool {
	return d.Shapes == nil || slices.Contains(d.Shapes, shape)
}

// shape draws which links are hit.
func (d *drawing) shape(s style, k string) []string {
	shapes := slices.DeleteFunc(slices.Clone(Shapes), func(x string) bool { return x == OneWay || !d.shapeable(x) })
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
