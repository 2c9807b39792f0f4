//go:build !nightly

package scenarios_test

// night is false in the checks that run before a change lands, which must take minutes.
const night = false
