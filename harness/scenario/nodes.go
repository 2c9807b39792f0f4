package scenario

import (
	"cmp"
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

// nodeSetExpander replaces the names of sets of nodes with their members, in a copy of the tree.
type nodeSetExpander struct {
	document   *document
	nodes      int
	overridden bool       // the user chose the number of nodes
	link       *yaml.Node // replaces the link in the trigger of the current step, unless nil
	count      int        // members so far
	err        error      // the first mistake
}

// expandTree replaces sets wherever a file names nodes: in reach and targets, in the node that causes
// a violation, and in the link of a trigger, where each member gets a step of its own.
func (x *nodeSetExpander) expandTree(n *yaml.Node) *yaml.Node {
	var content []*yaml.Node
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			switch key.Value {
			case "variants": // each has its own number of nodes
			case "reach", "targets":
				value = x.expandList(value)
			case "link":
				value = cmp.Or(x.link, value)
			case "node":
				all := x.expand(value)
				if len(all) > 1 {
					continue // any of them may be the cause
				}
				value = all[0]
			default:
				value = x.expandTree(value)
			}
			content = append(content, key, value)
		}
	case yaml.SequenceNode:
		for _, item := range n.Content {
			links := []*yaml.Node{nil}
			if link := child(child(item, "when"), "link"); link != nil {
				links = x.expand(link)
			}
			for _, x.link = range links {
				content = append(content, x.expandTree(item))
			}
		}
	default:
		return n
	}
	return x.withContent(n, content)
}

// withContent returns a copy of n with other children, at the same position in the same source.
func (x *nodeSetExpander) withContent(n *yaml.Node, content []*yaml.Node) *yaml.Node {
	c := *n
	c.Content = content
	x.document.foreignNodes[&c] = x.document.foreignNodes[n]
	return &c
}

func (x *nodeSetExpander) expandList(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.SequenceNode {
		return n
	}
	var content []*yaml.Node
	for _, name := range n.Content {
		content = append(content, x.expand(name)...)
	}
	return x.withContent(n, content)
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
	have := "have"
	if x.nodes == 1 {
		have = "has"
	}
	x.err = nodeProblem(n, hint, "%s %s no %s", countNodes(x.nodes), have, set)
	switch {
	case !x.overridden:
	case strings.HasSuffix(set, "-half"):
		x.err = unsuitableError("needs an even number of nodes")
	default: // a minority, which no number of nodes below 3 has
		x.err = unsuitableError("needs 3 or more nodes, because with fewer a quorum takes all of them")
	}
}

func countNodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}

// nodeInName matches a node's number in the name of the node, or of a link to it.
var nodeInName = regexp.MustCompile(`^(?:c[0-9]+-)?n([1-9][0-9]?)(?:-replica)?$`)

// lastNamedNode returns the highest number among the nodes that a tree names, or 0.
func lastNamedNode(tree *yaml.Node) int {
	last := 0
	if m := nodeInName.FindStringSubmatch(tree.Value); m != nil {
		last, _ = strconv.Atoi(m[1])
	}
	for _, c := range tree.Content {
		last = max(last, lastNamedNode(c))
	}
	return last
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
