//go:build long && nightly

package main

import "testing"

// TestUnchangedSettingsInCatalog checks the whole catalog, with every kind of lock.
func TestUnchangedSettingsInCatalog(t *testing.T) { sameVerdicts(t) }
