//go:build unix && nightly

package main

// stride is that of all mutants.
const stride = 1
