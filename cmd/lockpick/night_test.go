//go:build nightly

package main

// night makes the longer tests use more seeds, because nightly runs have the time.
const night = true
