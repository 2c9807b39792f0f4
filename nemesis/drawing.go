package nemesis

import (
	"slices"
	"time"
)

// drawing is the state of drawing a random plan.
type drawing struct {
	Random
	Environment
	safetyEnd     time.Duration     // end of the safety phase
	reservedSpans map[string][]Span // occupied times, by target or by capability and link
	usedTriggers  map[any]bool      // points and messages that already trigger a step
}

// drawnStep is a step and the time at which it happens. The time is approximate if an event
// triggers the step.
type drawnStep struct {
	at time.Duration
	Step
}

// style holds the parameters that a seed draws for all faults of one Choice.
type style struct {
	Choice
	maxDuration time.Duration
	mode        string
	way         string
	targets     []string // possible targets: clients or nodes
	exclusive   bool     // the same targets may be hit by faults that can't overlap
	isLost      bool     // the node is lost for good, so it must belong to a minority and stays faulty
}

// lastsToEnd reports whether steps have no For, because the fault ends by itself or with the run.
func (s style) lastsToEnd() bool {
	return s.isLost || s.Fatal() || s.Kind.IsInstant && !s.Kind.SetsClock || s.Kind.Name == clockSlewKind.Name
}

// hitsTargetOnce reports whether the fault can't hit a target again.
func (s style) hitsTargetOnce() bool {
	return s.isLost || s.Fatal() || s.Kind.Name == failoverKind.Name
}

// interval returns the range from which a repeating fault's intervals are drawn.
func (s style) interval() Span {
	longestInterval := max(s.maxDuration/4, 4*time.Millisecond)
	return Span{longestInterval / 4, longestInterval}
}

func (d *drawing) links(want func(client, node string) bool) []string {
	var out []string
	for _, c := range d.Clients {
		for _, n := range append(slices.Clone(d.Nodes), d.Resource) {
			if (n == d.Resource || d.HasLink(c, n)) && want(c, n) {
				out = append(out, LinkName(c, n))
			}
		}
	}
	return out
}

// linksOf returns the links of a client or node. If the target is a link, it returns that link.
func (d *drawing) linksOf(target string) []string {
	if _, _, isLink := SplitLink(target); isLink {
		return []string{target}
	}
	return d.links(func(c, n string) bool { return target == c || target == n })
}

// A shape decides which clients a link fault separates from which nodes. Nodes are not separated
// from each other, because Redlock nodes don't talk to each other.
const (
	isolateShape  = "isolate"  // one client or one node is separated from all others
	halvesShape   = "halves"   // half of the clients and nodes are separated from the other half
	majorityShape = "majority" // some clients and a minority of the nodes are separated from the others
	bridgeShape   = "bridge"   // like halves, except for one node that both sides reach
	ringShape     = "ring"     // each client reaches a different majority
	fewLinksShape = "single"   // a few links
	oneWayShape   = "one-way"  // any of these shapes, in one direction only
)

var Shapes = []string{isolateShape, halvesShape, majorityShape, bridgeShape, ringShape, fewLinksShape, oneWayShape}

func (d *drawing) allowsShape(shape string) bool {
	return d.Shapes == nil || slices.Contains(d.Shapes, shape)
}

func (d *drawing) drawLinks(s style, k string) []string {
	shapes := slices.DeleteFunc(slices.Clone(Shapes), func(x string) bool { return x == oneWayShape || !d.allowsShape(x) })
	if len(shapes) == 0 || len(d.Clients) == 0 {
		return nil
	}
	nodes, clients := d.shuffle(d.Nodes, s.Name, "nodes", k), d.shuffle(d.Clients, s.Name, "clients", k)
	half := len(nodes) / 2
	switch shapes[d.intn(len(shapes), s.Name, "shape", k)] {
	case isolateShape:
		if d.intn(2, s.Name, "isolate", k) == 0 {
			return d.targetsWithLinks(clients[:1])
		}
		return d.targetsWithLinks(nodes[:1])
	case halvesShape:
		return d.linksAcross(clients[:len(clients)/2], nodes[:half], nil)
	case majorityShape:
		minoritySize := 1 + d.intn(max(half, 1), s.Name, "minority", k)
		numClients := d.intn(len(clients)+1, s.Name, "with minority", k)
		return d.linksAcross(clients[:numClients], nodes[:min(minoritySize, len(nodes))], nil)
	case bridgeShape:
		return d.linksAcross(clients[:len(clients)/2], nodes[:half], nodes[half:][:1])
	case ringShape:
		return d.ringLinks(clients, nodes)
	}
	links := d.shuffle(d.links(func(_, _ string) bool { return true }), s.Name, "links", k)
	return links[:min(len(links), 1+d.intn(3, s.Name, "few", k))]
}

// targetsWithLinks returns the targets that have links.
func (d *drawing) targetsWithLinks(targets []string) []string {
	return slices.DeleteFunc(slices.Clone(targets), func(t string) bool { return len(d.linksOf(t)) == 0 })
}

// linksAcross returns the links that connect the given clients and nodes with all other clients and
// nodes, except links to sharedNodes.
func (d *drawing) linksAcross(clients, nodes, sharedNodes []string) []string {
	return d.links(func(c, n string) bool {
		return n != d.Resource && !slices.Contains(sharedNodes, n) && slices.Contains(clients, c) != slices.Contains(nodes, n)
	})
}

// ringLinks returns each client's links to the nodes outside its majority. The majority of the i-th
// client starts at the i-th node.
func (d *drawing) ringLinks(clients, nodes []string) []string {
	quorum := len(nodes)/2 + 1
	return d.links(func(c, n string) bool {
		if n == d.Resource {
			return false
		}
		from, at := slices.Index(clients, c), slices.Index(nodes, n)
		return ((at-from)%len(nodes)+len(nodes))%len(nodes) >= quorum
	})
}
