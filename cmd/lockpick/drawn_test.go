//go:build (long || nightly) && !windows

package main

import "testing"

// findPick returns the scenario that name selects, with overrides. It fails the test if name
// selects several.
func findPick(t *testing.T, name string, sets ...string) pick {
	t.Helper()
	all, err := choice{names: []string{name}, overrides: sets}.scenarios()
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %d scenarios, %v", name, len(all), err)
	}
	return all[0]
}
