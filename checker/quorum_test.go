package checker

import (
	"fmt"
	"testing"
)

// A lock that needs all nodes, or one, is held to what it can do with those that are up.
func TestQuorumOfTheLock(t *testing.T) {
	for _, row := range []struct {
		quorum, down int
		violated     bool
	}{{2, 1, true}, {2, 2, false}, {3, 0, true}, {3, 1, false}, {1, 2, true}, {1, 3, false}, {0, 1, true}, {0, 2, false}} {
		text := fmt.Sprintf("params clients=c1 nodes=n1,n2,n3 quorum=%d ttl=10s nodeTimeout=100ms retryMax=100ms slack=100ms rate=0.01 rounds=10 mayBeIdle\n", row.quorum) +
			"0 harness begin run\n0.001 c1 begin client\n1 c1 invoke acquire session=c1/1\n"
		for n := range row.down {
			text += fmt.Sprintf("0.5 nemesis begin kill node=n%d step=1\n", n+1)
		}
		got := judge(newRecord(tale(t, text+"9 c1 fail acquire session=c1/1\n9 c1 end client\n9.1 harness end run")), FaultTolerance)
		if (got.Outcome == Violated) != row.violated {
			t.Errorf("quorum %d of 3, %d down: %s: %s", row.quorum, row.down, got.Outcome, got.Because)
		}
	}
}
