//go:build unix && !nightly

package main

import "testing"

// stride makes forEachMutant skip most mutants. It has no common divisor with the number of wild
// values, so all of them are used. Nightly runs test all mutants.
func stride() int {
	if testing.Short() {
		return 25
	}
	return 13
}
