//go:build long && nightly

package main

import "testing"

// TestUnchangedSettingsInCatalogue checks the whole catalogue, with every kind of lock.
func TestOwnSettingsChangeNoVerdictAnywhere(t *testing.T) { sameVerdicts(t) }
