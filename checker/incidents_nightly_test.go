//go:build nightly

package checker

import "testing"

// TestIncidentsMatchVerdict with many more random histories.
func TestIncidentsOfManyHistories(t *testing.T) { incidentsAreWhatVerdictsCount(t, 30_000) }
