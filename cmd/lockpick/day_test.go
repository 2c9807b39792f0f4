//go:build !nightly

package main

// night is false in the checks that run before a change lands, which must take minutes.
const night = false
