//go:build !linux

package vdso

// Gate always fails, because gates are supported only on Linux.
func Gate([]string) error { return Available() }
