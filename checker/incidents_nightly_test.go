//go:build nightly

package checker

import "testing"

// The same of many more random histories.
func TestIncidentsOfManyHistories(t *testing.T) { incidentsAreWhatVerdictsCount(t, 30_000) }
