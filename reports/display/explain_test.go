package display

import (
	"slices"
	"strings"
	"testing"

	"lockpick/checker/verdict"
	"lockpick/harness/history"
)

// Only the cause "unexplained" has no clause.
func TestEveryCauseHasAClause(t *testing.T) {
	all := verdict.Causes()
	for _, cause := range all[:slices.Index(all, verdict.Unexplained)] {
		text := CauseClause(cause, Parties{Holder: "c1", NextHolder: "c2", Nodes: "n1", Deleter: "c3"})
		if text == "" || strings.ToLower(text) != text {
			t.Errorf("%s: %q", cause, text)
		}
	}
}

func TestDescribeEarlyEnd(t *testing.T) {
	for _, c := range []struct {
		what      history.Change
		why, want string
	}{
		{history.KeyLost, history.Failover, failoverText},
		{history.KeyReverted, history.Restart, restartText},
		{history.KeyFlushed, "", "c2 flushes the node"},
		{"odd", history.Failover, "odd"},
	} {
		if got := DescribeEarlyEnd(c.what, c.why, "c2"); got != c.want {
			t.Errorf("%s after %q: %s, want %s", c.what, c.why, got, c.want)
		}
	}
}
