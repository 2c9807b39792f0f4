package scenario

import (
	"fmt"
	"strings"
	"testing"
)

// TestNodeSets checks the members of every set against its definition, for up to nine nodes.
func TestNodeSets(t *testing.T) {
	for n := 1; n <= 9; n++ {
		members := func(set string) (out []string) {
			first, last := nodeSets[set](n, n/2+1)
			for i := first; i <= last; i++ {
				out = append(out, fmt.Sprint("n", i))
			}
			return out
		}
		all := Scenario{Topology: Topology{Nodes: n}}.NodeNames()
		first, last := members("first-quorum"), members("last-quorum")
		checkSame(t, fmt.Sprint(n, ": all"), members("all"), all)
		if len(first) != n/2+1 || len(last) != len(first) {
			t.Errorf("%d nodes: quorums %v and %v", n, first, last)
		}
		var shared, outside []string
		for _, node := range all {
			inFirst, inLast := strings.Contains(fmt.Sprint(first, " "), node), strings.Contains(fmt.Sprint(last, " "), node)
			switch {
			case inFirst && inLast:
				shared = append(shared, node)
			case !inFirst:
				outside = append(outside, node)
			}
		}
		checkSame(t, fmt.Sprint(n, ": shared"), members("shared"), shared)
		checkSame(t, fmt.Sprint(n, ": majority"), members("majority"), first)
		checkSame(t, fmt.Sprint(n, ": last-minority"), members("last-minority"), outside)
		checkSame(t, fmt.Sprint(n, ": minority and last-quorum"), append(members("minority"), last...), all)
		checkSame(t, fmt.Sprint(n, ": halves"), append(members("first-half"), members("second-half")...), all)
		checkSame(t, fmt.Sprint(n, ": last"), members("last"), all[n-1:])
	}
}

// setsEverywhere names a set in each place that accepts one.
const setsEverywhere = requiredKeys + `topology: {nodes: 5, replicas: 1}
clients: {c1: {reach: [first-quorum]}, c2: {reach: [n1, last-quorum]}}
plan:
  - when: {link: c1-first-quorum, message: set, of: reply}
    fault: {kind: cut, targets: [c2-shared, shared-replica, last-minority]}
expect:
  mutual-exclusion: {violated: restarted-and-forgot, node: shared}
variants:
  halves:
    set: {topology.nodes: 4, plan: [{when: {at: 1s}, fault: {kind: kill, targets: [second-half]}}]}
  five: {set: {topology.sizes: 4..5 odd}}
  one: {set: {topology.nodes: 1, clients: 2, plan: []}}
  named: {set: {clients: {c1: {reach: [n3, n5]}, c2: {}}, plan: []}}
`

// TestNodeSetsInFiles checks that each place of a file gets the members of its sets, for the file's
// own number of nodes and for others.
func TestNodeSetsInFiles(t *testing.T) {
	only := func(nodes int, variant string) Parsed {
		t.Helper()
		all, err := ParseWithOptions("f.yaml", []byte(setsEverywhere), testNames, ParseOptions{Nodes: nodes}, func(v string) bool { return v == variant })
		if err != nil {
			t.Fatal(err)
		}
		return all[0]
	}
	describe := func(nodes int) string {
		s := only(nodes, "")
		if s.Unsuitable != "" {
			return s.Unsuitable
		}
		text := fmt.Sprint(s.Topology.Nodes, s.Clients[0].Reach, s.Clients[1].Reach, " ")
		for _, step := range s.Plan {
			text += fmt.Sprint(step.When.Message.Link, step.Fault.Targets)
		}
		return text + " " + s.Expect[mutualExclusion].Node
	}
	for nodes, want := range map[int]string{
		0: "5 [n1 n2 n3] [n1 n3 n4 n5] c1-n1[c2-n3 n3-replica n4 n5]c1-n2[c2-n3 n3-replica n4 n5]c1-n3[c2-n3 n3-replica n4 n5] n3",
		4: "4 [n1 n2 n3] [n1 n2 n3 n4] c1-n1[c2-n2 c2-n3 n2-replica n3-replica n4]c1-n2[c2-n2 c2-n3 n2-replica n3-replica n4]c1-n3[c2-n2 c2-n3 n2-replica n3-replica n4] ",
		3: "3 [n1 n2] [n1 n2 n3] c1-n1[c2-n2 n2-replica n3]c1-n2[c2-n2 n2-replica n3] n2",
		2: "needs 3 or more nodes, because with fewer a quorum takes all of them",
	} {
		checkSame(t, fmt.Sprint("--nodes ", nodes), describe(nodes), want)
	}
	for _, c := range []struct {
		nodes   int
		variant string
		want    string
	}{
		{7, "halves", "needs an even number of nodes"},
		{3, "five", "needs 4 to 5 nodes, and an odd number of them"}, {4, "five", "needs 4 to 5 nodes, and an odd number of them"},
		{5, "five", ""}, {3, "one", ""}, {3, "named", "needs 5 or more nodes, because it names n5"},
	} {
		s := only(c.nodes, c.variant)
		checkSame(t, fmt.Sprint("--nodes ", c.nodes, " ", c.variant), s.Unsuitable, c.want)
		if c.variant == "one" && s.Topology.Nodes != 1 {
			t.Errorf("--nodes %d changes a scenario with one node to %d", c.nodes, s.Topology.Nodes)
		}
	}
}

// TestSizes compares topology.sizes with what it describes.
func TestSizes(t *testing.T) {
	for sizes, want := range map[string]string{
		"4": "4", "3..": "3456789", "3..5": "345", "odd": "13579", "even": "2468", "3.. odd": "3579", "2..6 even": "246",
	} {
		got := ""
		for n := 1; n <= 9; n++ {
			if explainUnsuitableSize(sizes, n) == "" {
				got += fmt.Sprint(n)
			}
		}
		checkSame(t, sizes, got, want)
	}
	for _, wrong := range []string{"", " ", "0", "312", "3.", "3..odd", "odd even", "3..x", "-3", "all"} {
		if _, err := Parse("f.yaml", []byte(requiredKeys+fmt.Sprintf("topology: {sizes: %q}\n", wrong)), testNames); err == nil {
			t.Errorf("sizes: %q is accepted", wrong)
		}
	}
}

// TestManyNodeSets checks that a small file can't expand to a huge one.
func TestManyNodeSets(t *testing.T) {
	step := "  - {when: {at: 1s}, fault: {kind: cut, targets: [" + strings.Repeat("all, ", 100) + "all]}}\n"
	_, err := Parse("f.yaml", []byte(requiredKeys+"topology: {nodes: 99}\nplan:\n"+strings.Repeat(step, 990)), testNames)
	if err == nil || !strings.Contains(err.Error(), "more than 100000 members") {
		t.Errorf("%.300v", err)
	}
}
