//go:build nightly

package scenarios_test

// night makes the longer checks draw more seeds, because nightly runs have the time.
const night = true
