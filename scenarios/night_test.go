//go:build nightly

package scenarios_test

// nightly makes the longer checks use more seeds, because nightly runs may take longer.
const nightly = true
