//go:build nightly

package checker

import "testing"

// TestIncidentsMatchVerdict with many more random histories.
func TestIncidentsManyHistories(t *testing.T) { checkIncidents(t, 30_000) }
