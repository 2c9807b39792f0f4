//go:build !linux

package main

// runAsInit does nothing: only Linux has containers.
func runAsInit() (code int, ran bool) { return 0, false }
