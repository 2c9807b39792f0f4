//go:build unix && !nightly

package main

import "testing"

// stride leaves out most mutants: it takes the next of the wild values each time, as the
// two have no common divisor. All of them run at night.
func stride() int {
	if testing.Short() {
		return 25
	}
	return 13
}
