//go:build !nightly

package main

// night is false by day: the checks before a change lands end in minutes.
const night = false
