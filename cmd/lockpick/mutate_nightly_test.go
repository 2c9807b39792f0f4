//go:build unix && nightly

package main

// stride selects all mutants.
func stride() int { return 1 }
