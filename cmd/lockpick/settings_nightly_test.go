//go:build long && nightly

package main

import "testing"

// TestUnchangedSettingsInCatalog is TestUnchangedSettingsKeepVerdicts for the whole catalog.
func TestUnchangedSettingsInCatalog(t *testing.T) { checkSameVerdicts(t) }
