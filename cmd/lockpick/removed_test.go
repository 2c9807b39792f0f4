package main

import (
	"strings"
	"testing"

	"lockpick/scenarios/outcome"
)

// TestRemoved checks that each removed command or flag results in a usage error, with a hint about
// what to use instead.
func TestRemoved(t *testing.T) {
	for name, instead := range replacements {
		args := strings.Fields(name)
		code, out, errs := runLockpick(t, args...)
		if code != outcome.ExitUsage || out != "" || !strings.Contains(errs, "was removed") || !strings.Contains(errs, "hint: "+instead) {
			t.Errorf("lockpick %s: code %d\n%s%s", name, code, out, errs)
		}
	}
}
