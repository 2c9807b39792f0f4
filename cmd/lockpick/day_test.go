//go:build !nightly

package main

// night is false in tests that run before a change lands, which must not take longer than minutes.
const night = false
