//go:build nightly

package main

import "testing"

// The larger scopes that a page tells of come out as it says.
func TestLargeScopes(t *testing.T) {
	inReadme(t, "../../scenarios/exhaust/README.md", map[string]string{"large": lockpick(t, "model-check", "--large", "--limit", "10m", "--markdown")})
}
