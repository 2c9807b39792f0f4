package checker

import (
	"slices"
)

// taken is what a kind of fault takes away from what it hits, for as long as it
// is in force.
type taken int

const (
	// none: no answer comes later, nor fails to come.
	none taken = iota
	// little: nothing that a lock needs for longer than a node time-out. A client has
	// other connections, and what was kept shows in its stamps.
	little
	// answers: the client or node does nothing, the link carries nothing. That a node
	// which was killed comes back without its keys is no matter here: it can vote, and
	// what it forgot can only free a lock.
	answers
	// all: nobody is promised anything, wherever it hits.
	all
)

// takes is what each kind of fault takes away. A kind that isn't here takes all: a
// stall of the machine, for what was under way is late everywhere; and those that turn
// a clock, for keys then live longer, and clients wait longer, by what the record
// doesn't tell. A node's clock that jumps is another matter: see setBack.
var takes = map[string]taken{
	killed: answers, "shutdown": answers, powerLost: answers, failedOver: answers, // of a client or node
	paused: answers, "gc": answers, // of a client
	"slow-disk": answers, "full-disk": answers, "unplug": answers, "starve": answers, // of a node
	cutOff: answers, "delay": answers, "throttle": answers, "lose": answers, // of a link
	withheld: little, "drop": little, // a single message
	"touch": little, // another key
}

func takesOf(kind string) taken {
	if t, ok := takes[kind]; ok {
		return t
	}
	return all
}

// takes is the same for one fault. A link that is late takes little as long as the
// answer comes within the node time-out, though both ways be late.
func (r *record) takes(f *fault) taken {
	if i := f.Step - 1; f.Kind == "delay" && i >= 0 && i < len(r.Params.Steps) {
		if late := r.Params.Steps[i].Delay; late > 0 && 2*late < r.Params.NodeTimeout {
			return little
		}
	}
	if r.jumps(f) != 0 {
		return none
	}
	return takesOf(f.Kind)
}

// during is the span in which a fault may have been in force: from its first
// event until its end has surely been done, which is stamped before it begins. A
// node has to start.
func (r *record) during(f *fault) interval {
	s := interval{f.First().T, never}
	if f.End != nil {
		s.to = f.End.T + int64(r.Params.Slack)
	}
	return s
}

// outages is where the faults of a record took the answers of whom. Names are
// those of clients, nodes and links.
type outages struct {
	of     map[string][]interval // of a client, node or link
	all    []interval            // nobody was promised anything
	little map[string][]interval // where a fault kept single messages, by link
	nodes  []string
	reach  map[string]map[string]bool // of clients that can't reach every node
	links  map[string][]interval      // memo of link
	up     map[string][]interval      // memo of majority
}

func (r *record) outages() *outages {
	if r.down != nil {
		return r.down
	}
	o := &outages{of: map[string][]interval{}, links: map[string][]interval{}, reach: map[string]map[string]bool{}, little: map[string][]interval{}, nodes: r.Params.Nodes, up: map[string][]interval{}}
	for _, f := range r.Faults {
		switch r.takes(f) {
		case answers:
			o.of[f.Target] = append(o.of[f.Target], r.during(f))
		case all:
			o.all = append(o.all, r.during(f))
		case none:
		default:
			o.little[f.Target] = append(o.little[f.Target], r.during(f))
		}
	}
	for name, spans := range o.little {
		o.little[name] = union(spans)
	}
	for name, spans := range o.of {
		o.of[name] = union(spans)
	}
	o.all = union(o.all)
	for _, reach := range r.Params.Reach {
		o.reach[reach.Client] = map[string]bool{}
		for _, n := range reach.Nodes {
			o.reach[reach.Client][n] = true
		}
	}
	r.down = o
	return o
}

// client is where a client did nothing, or nothing is promised it.
func (o *outages) client(name string) []interval { return union(slices.Concat(o.of[name], o.all)) }

// link is where a client had nothing of a node, both alive or not.
func (o *outages) link(client, node string) []interval {
	name := client + "-" + node
	if spans, ok := o.links[name]; ok {
		return spans
	}
	spans := union(slices.Concat(o.of[name], o.of[node], o.of[client], o.all))
	if o.never(client, node) {
		spans = []interval{{ever, never}}
	}
	o.links[name] = spans
	return spans
}

// never reports whether a client can't reach a node at any time.
func (o *outages) never(client, node string) bool {
	nodes, ok := o.reach[client]
	return ok && !nodes[node]
}

// majority is where a client goes on and reaches ⌊N/2⌋+1 nodes that answer, both ways.
func (o *outages) majority(client string) []interval {
	up, ok := o.up[client]
	if !ok {
		up = o.majorityBut(client, nil)
		o.up[client] = up
	}
	return up
}

// majorityBut is the same where nodes are kept from the client by more than
// faults, each in the spans of its name.
func (o *outages) majorityBut(client string, kept map[string][]interval) []interval {
	if len(o.nodes) == 0 {
		return nil
	}
	var lost [][]interval
	for _, n := range o.nodes {
		spans := o.link(client, n)
		if more := kept[n]; len(more) > 0 {
			spans = union(slices.Concat(spans, more))
		}
		lost = append(lost, spans)
	}
	tooMany := len(o.nodes) - quorumOf(len(o.nodes)) + 1
	return outside(union(slices.Concat(atLeast(tooMany, lost...), o.client(client))))
}

func quorumOf(nodes int) int { return nodes/2 + 1 }

// settled takes from each span the time that a client may need after a fault to
// notice that it is over: an attempt that waits for its node time-out, a retry
// delay, and slack. Where nothing came before there is nothing to notice.
func (r *record) settled(list []interval) []interval {
	settling := int64(r.Params.NodeTimeout + r.Params.RetryMax + r.Params.Slack)
	var left []interval
	for _, s := range list {
		if s.from != ever {
			s.from += settling
		}
		if s.from < s.to {
			left = append(left, s)
		}
	}
	return left
}
