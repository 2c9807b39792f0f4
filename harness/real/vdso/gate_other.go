//go:build !linux

package vdso

// Gate always fails.
func Gate([]string) error { return Available() }
