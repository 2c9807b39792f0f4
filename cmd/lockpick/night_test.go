//go:build nightly

package main

// night makes the longer tests use more seeds.
const night = true
