//go:build long && nightly && !windows

package main

// contributedTests are all quick tests.
var contributedTests = []string{"./..."}
