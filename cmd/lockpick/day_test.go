//go:build !nightly

package main

// night is false in regular runs, which test a change before it is merged and may take only minutes.
const night = false
