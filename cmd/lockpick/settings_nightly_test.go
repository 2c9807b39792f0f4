//go:build long && nightly

package main

import "testing"

// TestUnchangedSettingsInCatalogue checks the whole catalogue, with every kind of lock.
func TestUnchangedSettingsInCatalogue(t *testing.T) { sameVerdicts(t) }
