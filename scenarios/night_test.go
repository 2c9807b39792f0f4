//go:build nightly

package scenarios_test

// night makes the longer checks use more seeds, because nightly runs have more time.
const night = true
