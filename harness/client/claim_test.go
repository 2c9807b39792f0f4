package client

import "testing"

// Where a resource asks whether a claim is still there, each session has one of its own, also
// where its lock tells of no token: else any would do, and a late write be let through.
func TestEachSessionHasAClaim(t *testing.T) {
	for _, c := range []struct{ fence, token, want string }{
		{FenceCheckSet, "abc", "abc"}, {FenceCheckSet, "", "c1/2"}, {FenceNone, "", ""}, {FenceToken, "abc", "abc"},
	} {
		x := &section{program: &program{s: Spec{Fence: c.fence}}, session: "c1/2", token: c.token}
		if got := x.entry("w").token; got != c.want {
			t.Errorf("fence %s, token %q: claim %q, want %q", c.fence, c.token, got, c.want)
		}
	}
}
