package client

import (
	"slices"
	"testing"

	"lockpick/harness/lock"
)

// A lock gets its nodes in the order of its configuration.
func TestLockNodesFollowConfiguration(t *testing.T) {
	n1, n2, n3 := lock.Node{Name: "n1", Addr: "a:1"}, lock.Node{Name: "n2", Addr: "b:1"}, lock.Node{Name: "n3", Addr: "c:1"}
	all := []lock.Node{n1, n2, n3}
	for _, row := range []struct {
		addresses []string
		want      []lock.Node
	}{
		{nil, all},
		{[]string{"n1", "n1", "n3"}, []lock.Node{n1, n1, n3}},
		{[]string{"n3", "n1"}, []lock.Node{n3, n1}},
	} {
		if got := (Spec{Nodes: all, Addresses: row.addresses}).lockNodes(); !slices.Equal(got, row.want) {
			t.Errorf("%v: %v, want %v", row.addresses, got, row.want)
		}
	}
}
