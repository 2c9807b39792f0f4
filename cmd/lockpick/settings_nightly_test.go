//go:build long && nightly

package main

import "testing"

// The whole catalogue, with every kind of lock.
func TestOwnSettingsChangeNoVerdictAnywhere(t *testing.T) { sameVerdicts(t) }
