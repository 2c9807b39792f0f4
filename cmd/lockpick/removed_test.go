package main

import (
	"strings"
	"testing"

	"lockpick/scenarios/outcome"
)

// TestRemoved checks that each command and flag that was removed is refused as wrong usage, and
// that the hint says what to use instead.
func TestRemoved(t *testing.T) {
	for name, instead := range removed {
		args := strings.Fields(name)
		code, out, errs := said(t, args...)
		if code != outcome.ExitUsage || out != "" || !strings.Contains(errs, "was removed") || !strings.Contains(errs, "hint: "+instead) {
			t.Errorf("lockpick %s: code %d\n%s%s", name, code, out, errs)
		}
	}
}
