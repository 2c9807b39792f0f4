package checker

import (
	"fmt"
	"strings"
	"testing"

	"lockpick/checker/verdict"
)

// Fault tolerance is judged by the lock's own quorum, which may be all nodes or a single node.
func TestQuorumOfLock(t *testing.T) {
	for _, row := range []struct {
		nodes, quorum, down int
		violated            bool
	}{
		{3, 2, 1, true}, {3, 2, 2, false}, {3, 3, 0, true}, {3, 3, 1, false}, {3, 1, 2, true}, {3, 1, 3, false}, {4, 2, 2, true}, {4, 2, 3, false},
		// a quorum of 0, or larger than the number of nodes, means a majority
		{1, 0, 0, true}, {2, 0, 0, true}, {2, 0, 1, false}, {3, 0, 1, true}, {3, 0, 2, false}, {4, 0, 1, true}, {4, 0, 2, false},
		{3, 4, 1, true}, {3, 4, 2, false}, {4, 5, 1, true}, {4, 5, 2, false},
	} {
		names := []string{"n1", "n2", "n3", "n4"}[:row.nodes]
		text := fmt.Sprintf("params clients=c1 nodes=%s quorum=%d ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rate=0.01 rounds=10 mayBeIdle\n", strings.Join(names, ","), row.quorum) +
			"0 harness begin run\n0.001 c1 begin client\n1 c1 invoke acquire session=c1/1\n"
		for n := range row.down {
			text += fmt.Sprintf("0.5 nemesis begin kill node=n%d step=1\n", n+1)
		}
		got := judge(newRecord(parseHistory(t, text+"9 c1 fail acquire session=c1/1\n9 c1 end client\n9.1 harness end run")), verdict.FaultTolerance)
		if (got.Outcome == verdict.Violated) != row.violated {
			t.Errorf("quorum %d of %d, %d down: %s: %s", row.quorum, row.nodes, row.down, got.Outcome, got.Because)
		}
	}
}
