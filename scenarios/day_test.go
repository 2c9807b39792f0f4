//go:build !nightly

package scenarios_test

// nightly is false in checks before a merge, which must finish within minutes.
const nightly = false
