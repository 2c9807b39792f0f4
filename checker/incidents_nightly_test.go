//go:build nightly

package checker

import "testing"

// TestIncidentsManyHistories repeats TestIncidentsMatchVerdict with many more random histories.
func TestIncidentsManyHistories(t *testing.T) { checkIncidents(t, 30_000) }
