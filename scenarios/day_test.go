//go:build !nightly

package scenarios_test

// night is false by day: the checks before a change lands end in minutes.
const night = false
