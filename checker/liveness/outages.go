package liveness

import (
	"slices"

	"lockpick/checker/spans"
	"lockpick/harness/history/facts"
)

// takenBy is what one fault takes away. A client's clock that jumps is its wall clock, by which
// nobody has to wait, and no key to live. A link that is late takes little as long as the
// answer comes within the node time-out, though both ways be late.
func takenBy(r *facts.Facts, own map[string]bool, f *facts.Fault) taken {
	if i := f.Step - 1; i >= 0 && i < len(r.Params.Steps) {
		step := r.Params.Steps[i]
		if said, ok := costs[step.Costs]; ok {
			return said
		}
		if late := step.Delay; f.Kind == "delay" && late > 0 && 2*late < r.Params.NodeTimeout {
			return little
		}
	}
	if jumps(r, own, f) != 0 || f.Kind == facts.ClockJump && slices.Contains(r.Params.Clients, f.Target) {
		return none
	}
	if t, ok := takes[f.Kind]; ok {
		return t
	}
	return all
}

// outages is where the faults of a record took the answers of whom. Names are
// those of clients, nodes and links.
type outages struct {
	of     map[string][]spans.Span // of a client, node or link
	all    []spans.Span            // nobody was promised anything
	little map[string][]spans.Span // where a fault kept single messages, by link
	nodes  []string
	quorum int
	reach  map[string]map[string]bool // of clients that can't reach every node
	links  map[string][]spans.Span    // memo of link
	up     map[string][]spans.Span    // memo of majority

	settling int64 // what a client may need after a fault to notice that it is over
}

func outagesOf(r *facts.Facts, takenBy func(*facts.Fault) taken) *outages {
	o := &outages{of: map[string][]spans.Span{}, links: map[string][]spans.Span{}, reach: map[string]map[string]bool{}, little: map[string][]spans.Span{}, nodes: r.Params.Nodes, quorum: quorumOf(&r.Params), up: map[string][]spans.Span{},
		settling: int64(r.Params.NodeTimeout + r.Params.RetryMax + r.Params.Slack)}
	for _, f := range r.Faults {
		switch takenBy(f) {
		case answers:
			o.of[f.Target] = append(o.of[f.Target], during(r, f))
		case all:
			o.all = append(o.all, during(r, f))
		case none:
		default:
			o.little[f.Target] = append(o.little[f.Target], during(r, f))
		}
	}
	for name, list := range o.little {
		o.little[name] = spans.Union(list)
	}
	for name, list := range o.of {
		o.of[name] = spans.Union(list)
	}
	o.all = spans.Union(o.all)
	for _, reach := range r.Params.Reach {
		o.reach[reach.Client] = map[string]bool{}
		for _, n := range reach.Nodes {
			o.reach[reach.Client][n] = true
		}
	}
	return o
}

// client is where a client did nothing, or nothing is promised it.
func (o *outages) client(name string) []spans.Span {
	return spans.Union(slices.Concat(o.of[name], o.all))
}

// link is where a client had nothing of a node, both alive or not.
func (o *outages) link(client, node string) []spans.Span {
	name := client + "-" + node
	if list, ok := o.links[name]; ok {
		return list
	}
	list := spans.Union(slices.Concat(o.of[name], o.of[node], o.of[client], o.all))
	if o.never(client, node) {
		list = []spans.Span{{From: spans.Ever, To: facts.Never}}
	}
	o.links[name] = list
	return list
}

// never reports whether a client can't reach a node at any time.
func (o *outages) never(client, node string) bool {
	nodes, ok := o.reach[client]
	return ok && !nodes[node]
}

// majority is where a client goes on and reaches as many nodes that answer as the lock needs, both ways.
func (o *outages) majority(client string) []spans.Span {
	up, ok := o.up[client]
	if !ok {
		up = o.majorityBut(client, nil)
		o.up[client] = up
	}
	return up
}

// majorityBut is the same where nodes are kept from the client by more than
// faults, each in the spans of its name.
func (o *outages) majorityBut(client string, kept map[string][]spans.Span) []spans.Span {
	if len(o.nodes) == 0 {
		return nil
	}
	var lost [][]spans.Span
	for _, n := range o.nodes {
		list := o.link(client, n)
		if more := kept[n]; len(more) > 0 {
			list = spans.Union(slices.Concat(list, more))
		}
		lost = append(lost, list)
	}
	tooMany := len(o.nodes) - o.quorum + 1
	return spans.Outside(spans.Union(slices.Concat(spans.AtLeast(tooMany, lost...), o.client(client))))
}

// settled takes from each span the time that a client may need after a fault to
// notice that it is over: an attempt that waits for its node time-out, a retry
// delay, and slack. Where nothing came before there is nothing to notice.
func (o *outages) settled(list []spans.Span) []spans.Span {
	var left []spans.Span
	for _, s := range list {
		if s.From != spans.Ever {
			s.From += o.settling
		}
		if s.From < s.To {
			left = append(left, s)
		}
	}
	return left
}

// conditions is a record with what its faults did to those that a lock needs.
type conditions struct {
	*facts.Facts
	down    *outages
	carried *outages // the same, but a link that is only slow carries messages all the same
	slowest int64    // by how much such a link delays a request and its reply, at most
	keys    lapses
	stalls  []spans.Span // of the host
}

func conditionsOf(r *facts.Facts) *conditions {
	own := ownClocks(r)
	c := &conditions{Facts: r, keys: lapsesOf(r, own), stalls: spans.Union(spans.Stalls(r))}
	c.down = outagesOf(r, func(f *facts.Fault) taken { return takenBy(r, own, f) })
	c.carried = c.down
	for _, step := range r.Params.Steps {
		if late := 2 * int64(step.Delay); step.Fault == "delay" && late < rounds(&r.Params) {
			c.slowest = max(c.slowest, late)
		}
	}
	if c.slowest > 0 {
		c.carried = outagesOf(r, func(f *facts.Fault) taken {
			if i := f.Step - 1; f.Kind == "delay" && i >= 0 && i < len(r.Params.Steps) && 2*int64(r.Params.Steps[i].Delay) < rounds(&r.Params) {
				return little
			}
			return takenBy(r, own, f)
		})
	}
	return c
}

// real reports whether the run was in real time, where the host can be slow.
func (c *conditions) real() bool { return c.Params.StampError > 0 || len(c.stalls) > 0 }
