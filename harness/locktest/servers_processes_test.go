//go:build long && processes && nightly && linux

package locktest

import (
	"strings"
	"testing"
)

// TestExampleOnServers runs the same tests on redis-server processes, with processes of the
// example's test as clients. It uses a scenario that always reveals the mistake.
func TestExampleOnServers(t *testing.T) {
	binary := buildExample(t)
	if out, err := runBinary(binary, "-servers", "-test.v"); err != nil || !strings.Contains(out, "--- PASS: TestLock/foreign-release/base") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := runBinary(binary, "-servers", "-careless", "-test.v")
	if err == nil || !strings.Contains(out, "mutual-exclusion violated (deleted-by-other at n1), expected holds; holds in the comparison run") {
		t.Errorf("%v\n%s", err, out)
	}
}
