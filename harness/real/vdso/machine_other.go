//go:build !linux || !amd64

package vdso

import (
	"errors"
	"runtime"
	"time"
)

// Machine has clocks that can't be turned here.
type Machine struct{ Monotonic bool }

// Available says why no process can get a wrong clock here.
func Available() error {
	return errors.New("it rewrites machine code of Linux on amd64, this is " + runtime.GOOS + " on " + runtime.GOARCH)
}

// Start always fails.
func (*Machine) Start(int) error { return Available() }

// StartGate always fails.
func (*Machine) StartGate(int) error { return Available() }

// Turn always fails.
func (*Machine) Turn(time.Duration, float64) (from, to time.Duration, err error) {
	return 0, 0, Available()
}

// Close does nothing.
func (*Machine) Close() error { return nil }

// Shown is clocks that are right.
func (*Machine) Shown() Shown { return Shown{} }

// Take does nothing.
func (*Machine) Take(Shown) {}
