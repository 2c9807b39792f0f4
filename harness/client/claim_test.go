package client

import "testing"

// With check-and-set fencing, each session has its own claim, even if its lock has no token.
// Otherwise any claim would match, and a late write would be accepted.
func TestEachSessionHasItsOwnClaim(t *testing.T) {
	for _, c := range []struct{ fence, token, want string }{
		{FenceCheckSet, "abc", "abc"}, {FenceCheckSet, "", "c1/2"}, {FenceNone, "", ""}, {FenceToken, "abc", "abc"},
	} {
		x := &section{program: &program{s: Spec{Fence: c.fence}}, session: "c1/2", token: c.token}
		if got := x.entry("w").token; got != c.want {
			t.Errorf("fence %s, token %q: claim %q, want %q", c.fence, c.token, got, c.want)
		}
	}
}
