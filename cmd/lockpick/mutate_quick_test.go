//go:build unix && !nightly

package main

import "testing"

// stride skips most mutants. It has no common divisor with the number of wild values, so all of them are
// used in turn. Nightly tests run all mutants.
func stride() int {
	if testing.Short() {
		return 25
	}
	return 13
}
