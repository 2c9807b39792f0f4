//go:build processes && linux

package main

import (
	"syscall"
	"testing"
)

// Some of what TestKills does at night.
func TestKillsLeaveNothing(t *testing.T) {
	f := newField(t, 1, false)
	for _, k := range f.kinds(2, 0, 1, 1) {
		f.kill(k)
	}
	for _, k := range f.kinds(1, 0, 0, 0) {
		f.signal(k, syscall.SIGHUP)
		f.signal(k, syscall.SIGTERM)
	}
}
