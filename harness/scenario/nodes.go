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

// nodeSets are names for sets of nodes. A file that uses them in place of n1, n2, … makes sense for
// any number of nodes. With N nodes, a quorum has Q = ⌊N/2⌋+1 of them:
//
//	N = 5:  n1   n2   n3   n4   n5        N = 4:  n1   n2   n3   n4
//	        ├─ first-quorum                       ├─ first-quorum
//	                  ├─ last-quorum                   ├─ last-quorum
//	                  ┴ shared                         └────┴ shared
//	        └────┴ minority                       ┴ minority
//	                       └────┴ last-minority                 ┴ last-minority
//
// Clients that reach only first-quorum and last-quorum have the shared nodes in common: one if N is
// odd, and two if it is even. Any set of more than N-Q nodes is needed for a quorum, so a minority
// is the largest set whose failure leaves one.
var nodeSets = map[string]func(n, quorum int) (first, last int){
	"all":           func(n, _ int) (int, int) { return 1, n },
	"first-quorum":  func(_, q int) (int, int) { return 1, q },
	"last-quorum":   func(n, q int) (int, int) { return n - q + 1, n },
	"shared":        func(n, q int) (int, int) { return n - q + 1, q },
	"majority":      func(_, q int) (int, int) { return 1, q },
	"minority":      func(n, q int) (int, int) { return 1, n - q },
	"last-minority": func(n, q int) (int, int) { return q + 1, n },
	"first-half":    func(n, _ int) (int, int) { return 1, n / 2 },
	"last":          func(n, _ int) (int, int) { return n, n },
	"second-half":   func(n, _ int) (int, int) { return n/2 + 1, n },
}

// NodeSets lists the names of all sets of nodes.
func NodeSets() []string { return slices.Sorted(maps.Keys(nodeSets)) }

// maxMembers limits the members of all sets in a file, so that a small file
// can't expand to a huge one.
const maxMembers = 100_000

// unsuitable is why a scenario makes no sense for the number of nodes that the user chose.
type unsuitable string

func (u unsuitable) Error() string { return string(u) }

// withNodes returns a tree in which sets of nodes are replaced by their members. choose, unless 0,
// is the number of nodes for a scenario that has several; withNodes returns an unsuitable error if
// the scenario makes no sense for it. The reader reports all other mistakes in the tree.
func (d *document) withNodes(tree *yaml.Node, choose int) (*yaml.Node, error) {
	m := members{document: d, nodes: defaultNodes}
	topology := child(tree, "topology")
	if written := child(topology, "nodes"); written != nil {
		n, err := strconv.Atoi(written.Value)
		if err != nil || n < 1 || n > MaxNodes {
			return tree, nil
		}
		m.nodes = n
	}
	if m.nodes > 1 && choose > 0 && choose != m.nodes {
		if sizes := child(topology, "sizes"); sizes != nil {
			if why := explainSize(sizes.Value, choose); why != "" {
				return nil, unsuitable(why)
			}
		}
		m.nodes, m.chosen = choose, true
		var path []*yaml.Node
		for _, key := range []string{"topology", "nodes"} {
			path = append(path, leaf(key, tree))
		}
		var err error
		if tree, err = d.replace(tree, path, leaf(strconv.Itoa(choose), tree)); err != nil {
			return nil, err
		}
	}
	out := m.rewrite(tree)
	return out, m.err
}

// sizesPattern matches the numbers of nodes for which a scenario makes sense, as in 3.. odd.
var sizesPattern = regexp.MustCompile(`^(?:([1-9][0-9]?)(?:(\.\.)([1-9][0-9]?)?)?(?: (odd|even))?|(odd|even))$`)

// explainSize returns why n nodes don't satisfy topology.sizes, or "" if they do. It ignores
// mistakes in sizes, which the reader reports.
func explainSize(sizes string, n int) string {
	m := sizesPattern.FindStringSubmatch(sizes)
	if m == nil {
		return ""
	}
	least, most := 1, MaxNodes
	var needs string
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

// members replaces sets of nodes by their members.
type members struct {
	document *document
	nodes    int
	chosen   bool // the user chose the number of nodes
	count    int
	err      error // the first mistake
}

// rewrite returns a tree without sets of nodes. It copies what it changes.
func (m *members) rewrite(tree *yaml.Node) *yaml.Node {
	tree = m.edit(tree, "clients", m.values(func(c *yaml.Node) *yaml.Node { return m.edit(c, "reach", m.names) }))
	tree = m.edit(tree, "expect", m.values(m.cause))
	return m.edit(tree, "plan", m.plan)
}

// edit returns a copy of a mapping with one value replaced. If change returns nil, it removes the
// key.
func (m *members) edit(n *yaml.Node, key string, change func(*yaml.Node) *yaml.Node) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return n
	}
	i := childIndex(n, key)
	if i < 0 {
		return n
	}
	value := change(n.Content[i])
	if value == n.Content[i] {
		return n
	}
	if value == nil {
		return withoutKey(n, key)
	}
	c := *n
	c.Content = slices.Clone(n.Content)
	c.Content[i] = value
	return &c
}

// values returns a function that changes every value of a mapping.
func (m *members) values(change func(*yaml.Node) *yaml.Node) func(*yaml.Node) *yaml.Node {
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

// cause replaces the node of an expected violation. A set with several members leaves open which of
// them causes it.
func (m *members) cause(expected *yaml.Node) *yaml.Node {
	return m.edit(expected, "node", func(n *yaml.Node) *yaml.Node {
		all := m.expand(n)
		if len(all) != 1 {
			return nil
		}
		return all[0]
	})
}

// plan repeats a step for every link that its trigger names, and replaces the sets in its targets.
func (m *members) plan(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.SequenceNode {
		return n
	}
	c := *n
	c.Content = nil
	for _, step := range n.Content {
		step = m.edit(step, "fault", func(fault *yaml.Node) *yaml.Node { return m.edit(fault, "targets", m.names) })
		link := child(child(step, "when"), "link")
		if link == nil {
			c.Content = append(c.Content, step)
			continue
		}
		for _, one := range m.expand(link) {
			c.Content = append(c.Content, m.edit(step, "when", func(when *yaml.Node) *yaml.Node {
				return m.edit(when, "link", func(*yaml.Node) *yaml.Node { return one })
			}))
		}
	}
	return &c
}

// names replaces the sets in a list.
func (m *members) names(n *yaml.Node) *yaml.Node {
	if n.Kind != yaml.SequenceNode {
		return n
	}
	c := *n
	c.Content = nil
	for _, name := range n.Content {
		c.Content = append(c.Content, m.expand(name)...)
	}
	return &c
}

// expand returns the members of a set, the links of a client or of their replicas to them, or any other node unchanged.
func (m *members) expand(n *yaml.Node) []*yaml.Node {
	prefix, set, suffix := "", n.Value, ""
	switch left, right, isLink := nemesis.SplitLink(set); {
	case isLink && clientPattern.MatchString(left):
		prefix, set = left+"-", right
	case strings.HasSuffix(set, "-"+nemesis.Replica):
		suffix = "-" + nemesis.Replica
		set = strings.TrimSuffix(set, suffix)
	}
	bounds, is := nodeSets[set]
	if !is || n.Kind != yaml.ScalarNode || m.err != nil {
		return []*yaml.Node{n}
	}
	first, last := bounds(m.nodes, m.nodes/2+1)
	m.count += last - first + 1
	switch half := strings.HasSuffix(set, "-half"); {
	case half && m.nodes%2 != 0:
		m.fail(n, "needs an even number of nodes", "%s no %s", countNodes(m.nodes, "has", "have"), set)
	case first > last:
		m.fail(n, "needs more nodes", "%s no %s", countNodes(m.nodes, "has", "have"), set)
	case m.count > maxMembers:
		m.err = nodeProblem(n, "name fewer nodes", "the sets of nodes in this file have more than %d members", maxMembers)
	}
	if m.err != nil {
		return []*yaml.Node{n}
	}
	var out []*yaml.Node
	for i := first; i <= last; i++ {
		one := leaf(prefix+"n"+strconv.Itoa(i)+suffix, n)
		m.document.foreign[one] = m.document.foreign[n]
		out = append(out, one)
	}
	return out
}

// fail records that a set is empty: a mistake in the file, unless the user chose the number of nodes.
func (m *members) fail(n *yaml.Node, hint, what string, args ...any) {
	m.err = nodeProblem(n, hint, what, args...)
	if m.chosen {
		m.err = unsuitable(fmt.Sprintf(what, args...))
	}
}

// countNodes returns a number of nodes, with a verb.
func countNodes(n int, one, several string) string {
	if n == 1 {
		return "1 node " + one
	}
	return fmt.Sprintf("%d nodes %s", n, several)
}

// child returns the value of a key, or nil.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	if i := childIndex(n, key); i >= 0 {
		return n.Content[i]
	}
	return nil
}

// leaf returns a scalar at the position of another node.
func leaf(value string, at *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: value, Line: at.Line, Column: at.Column}
}
