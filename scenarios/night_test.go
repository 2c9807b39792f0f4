//go:build nightly

package scenarios_test

// nightly makes long checks use more seeds.
const nightly = true
