package scenario

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"lockpick/nemesis"
)

// nodeSets contains names for sets of nodes. A scenario that uses them in place of n1, n2, … can run
// with any number of nodes. With N nodes, a quorum has Q = ⌊N/2⌋+1 of them:
//
//	N = 5    n1   n2   n3   n4   n5      N = 4    n1   n2   n3   n4
//	         └─ first-quorum                      └─ first-quorum
//	                   └─ last-quorum                  └─ last-quorum
//	                   ┴ shared                        └────┴ shared
//	         └────┴ minority                      ┴ minority
//	                        └────┴ last-minority                 ┴ last-minority
//
// A client that reaches only first-quorum and one that reaches only last-quorum have the shared
// nodes in common: one if N is odd, two if it is even. A minority has N-Q nodes, the most that can
// fail without preventing a quorum.
var nodeSets = map[string]func(n, quorum int) (first, last int){
	"all":           func(n, _ int) (int, int) { return 1, n },
	"first-quorum":  func(_, q int) (int, int) { return 1, q },
	"last-quorum":   func(n, q int) (int, int) { return n - q + 1, n },
	"shared":        func(n, q int) (int, int) { return n - q + 1, q },
	"majority":      func(_, q int) (int, int) { return 1, q },
	"minority":      func(n, q int) (int, int) { return 1, n - q },
	"last-minority": func(n, q int) (int, int) { return q + 1, n },
	"first-half":    func(n, _ int) (int, int) { return 1, n / 2 },
	"second-half":   func(n, _ int) (int, int) { return n/2 + 1, n },
	"last":          func(n, _ int) (int, int) { return n, n },
}

func nodeSetNames() []string { return slices.Sorted(maps.Keys(nodeSets)) }

// maxExpandedNodes limits the total size of the sets in a file, so that a small file can't expand to a huge one.
const maxExpandedNodes = 100_000

// unsuitableError explains why a scenario makes no sense with the number of nodes that the user chose.
type unsuitableError string

func (e unsuitableError) Error() string { return string(e) }

// expandNodeSets returns a tree in which the members of each set of nodes replace its name. nodes,
// unless 0, is the number of nodes if the tree has several; if the scenario makes no sense with it,
// the error is an unsuitableError. The tree's other mistakes are left to the reader.
func (d *document) expandNodeSets(tree *yaml.Node, nodes int) (*yaml.Node, error) {
	x := nodeSetExpander{document: d, nodes: defaultNodes}
	topology := child(tree, "topology")
	if count := child(topology, "nodes"); count != nil {
		n, err := strconv.Atoi(count.Value)
		if err != nil || n < 1 || n > MaxNodes {
			return tree, nil
		}
		x.nodes = n
	}
	if x.nodes > 1 && nodes > 0 && nodes != x.nodes {
		if sizes := child(topology, "sizes"); sizes != nil {
			if reason := explainUnsuitableSize(sizes.Value, nodes); reason != "" {
				return nil, unsuitableError(reason)
			}
		}
		x.nodes, x.overridden = nodes, true
		path := []*yaml.Node{newScalarNode("topology", tree), newScalarNode("nodes", tree)}
		var err error
		if tree, err = d.replace(tree, path, newScalarNode(strconv.Itoa(nodes), tree)); err != nil {
			return nil, err
		}
	}
	return x.expandTree(tree), x.err
}

// sizesPattern matches values of topology.sizes, as in 3.. odd.
var sizesPattern = regexp.MustCompile(`^(?:([1-9][0-9]?)(?:(\.\.)([1-9][0-9]?)?)?(?: (odd|even))?|(odd|even))$`)

// explainUnsuitableSize returns why n nodes don't match topology.sizes, or "" if they do. It accepts any n
// if sizes is malformed, which the reader reports.
func explainUnsuitableSize(sizes string, n int) string {
	m := sizesPattern.FindStringSubmatch(sizes)
	if m == nil {
		return ""
	}
	least, most, needs := 1, MaxNodes, ""
	if m[1] != "" {
		least, _ = strconv.Atoi(m[1])
		switch {
		case m[2] == "":
			most, needs = least, m[1]
		case m[3] == "":
			needs = m[1] + " or more"
		default:
			most, _ = strconv.Atoi(m[3])
			needs = m[1] + " to " + m[3]
		}
		needs += " nodes"
	}
	parity := m[4] + m[5]
	if n >= least && n <= most && (parity == "" || (n%2 == 0) == (parity == "even")) {
		return ""
	}
	switch {
	case m[4] != "":
		needs += ", and an " + parity + " number of them"
	case m[5] != "":
		needs = "an " + parity + " number of nodes"
	}
	return "needs " + needs
}

// nodeSetExpander replaces the names of sets of nodes with their members. It copies the nodes of the tree
// that it changes.
type nodeSetExpander struct {
	document   *document
	nodes      int
	overridden bool  // the user chose the number of nodes
	count      int   // members so far
	err        error // the first mistake
}

func (x *nodeSetExpander) expandTree(tree *yaml.Node) *yaml.Node {
	tree = x.changeValue(tree, "clients", x.eachValue(func(c *yaml.Node) *yaml.Node { return x.changeValue(c, "reach", x.expandList) }))
	tree = x.changeValue(tree, "expect", x.eachValue(x.expandCause))
	return x.changeValue(tree, "plan", x.expandPlan)
}

// changeValue returns a mapping with the value of one key changed. If change returns nil, the key is
// removed.
func (x *nodeSetExpander) changeValue(n *yaml.Node, key string, change func(*yaml.Node) *yaml.Node) *yaml.Node {
	if child(n, key) == nil {
		return n
	}
	i := childIndex(n, key)
	value := change(n.Content[i])
	if value == nil {
		return withoutKey(n, key)
	}
	c := *n
	c.Content = slices.Clone(n.Content)
	c.Content[i] = value
	return &c
}

// eachValue returns a function that changes every value of a mapping.
func (x *nodeSetExpander) eachValue(change func(*yaml.Node) *yaml.Node) func(*yaml.Node) *yaml.Node {
	return func(n *yaml.Node) *yaml.Node {
		if n.Kind != yaml.MappingNode {
			return n
		}
		c := *n
		c.Content = slices.Clone(n.Content)
		for i := 1; i < len(c.Content); i += 2 {
			c.Content[i] = change(c.Content[i])
		}
		return &c
	}
}

// expandCause replaces the node of an expected violation. If a set has several members, any of them
// may cause it.
func (x *nodeSetExpander) expandCause(expected *yaml.Node) *yaml.Node {
	return x.changeValue(expected, "node", func(n *yaml.Node) *yaml.Node {
		if all := x.expand(n); len(all) == 1 {
			return all[0]
		}
		return nil
	})
}

// expandPlan repeats a step for each link that its trigger names, and replaces the sets in its targets.
func (x *nodeSetExpander) expandPlan(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.SequenceNode {
		return n
	}
	c := *n
	c.Content = nil
	for _, step := range n.Content {
		step = x.changeValue(step, "fault", func(fault *yaml.Node) *yaml.Node { return x.changeValue(fault, "targets", x.expandList) })
		link := child(child(step, "when"), "link")
		if link == nil {
			c.Content = append(c.Content, step)
			continue
		}
		for _, l := range x.expand(link) {
			c.Content = append(c.Content, x.changeValue(step, "when", func(when *yaml.Node) *yaml.Node {
				return x.changeValue(when, "link", func(*yaml.Node) *yaml.Node { return l })
			}))
		}
	}
	return &c
}

func (x *nodeSetExpander) expandList(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.SequenceNode {
		return n
	}
	c := *n
	c.Content = nil
	for _, name := range n.Content {
		c.Content = append(c.Content, x.expand(name)...)
	}
	return &c
}

// expand returns the members of a set, or a client's links to them, or the links to their replicas. It
// returns all other names unchanged.
func (x *nodeSetExpander) expand(n *yaml.Node) []*yaml.Node {
	prefix, set, suffix := "", n.Value, ""
	switch left, right, isLink := nemesis.SplitLink(set); {
	case isLink && clientPattern.MatchString(left):
		prefix, set = left+"-", right
	case strings.HasSuffix(set, "-"+nemesis.Replica):
		suffix = "-" + nemesis.Replica
		set = strings.TrimSuffix(set, suffix)
	}
	bounds, ok := nodeSets[set]
	if !ok || n.Kind != yaml.ScalarNode || x.err != nil {
		return []*yaml.Node{n}
	}
	first, last := bounds(x.nodes, x.nodes/2+1)
	x.count += last - first + 1
	switch half := strings.HasSuffix(set, "-half"); {
	case half && x.nodes%2 != 0:
		x.fail(n, set, "use an even number of nodes")
	case first > last:
		x.fail(n, set, "use more nodes")
	case x.count > maxExpandedNodes:
		x.err = nodeProblem(n, "use fewer sets, or fewer nodes", "the sets of nodes in this file have more than %d members", maxExpandedNodes)
	}
	if x.err != nil {
		return []*yaml.Node{n}
	}
	var out []*yaml.Node
	for i := first; i <= last; i++ {
		member := newScalarNode(prefix+"n"+strconv.Itoa(i)+suffix, n)
		x.document.foreignNodes[member] = x.document.foreignNodes[n]
		out = append(out, member)
	}
	return out
}

// fail records that a set has no members. This is a mistake in the file, unless the user chose the
// number of nodes.
func (x *nodeSetExpander) fail(n *yaml.Node, set, hint string) {
	count := fmt.Sprintf("%d nodes have", x.nodes)
	if x.nodes == 1 {
		count = "1 node has"
	}
	x.err = nodeProblem(n, hint, "%s no %s", count, set)
	if x.overridden {
		x.err = unsuitableError(x.err.Error())
	}
}

// child returns the value of a key of a mapping, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	if i := childIndex(n, key); i >= 0 {
		return n.Content[i]
	}
	return nil
}

// newScalarNode returns a scalar with the position of another node.
func newScalarNode(value string, at *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: value, Line: at.Line, Column: at.Column}
}
