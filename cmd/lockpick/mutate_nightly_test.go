//go:build unix && nightly

package main

// stride is 1: nightly runs test all mutants.
func stride() int { return 1 }
