//go:build !linux || !amd64

package vdso

import (
	"errors"
	"runtime"
	"time"
)

// Machine has clocks that can't be changed on this system.
type Machine struct{ Monotonic bool }

// Available returns why this system does not allow giving processes wrong clocks.
func Available() error {
	return errors.New("it needs Linux on amd64, this is " + runtime.GOOS + " on " + runtime.GOARCH)
}

// Start always fails.
func (*Machine) Start(int) error { return Available() }

// StartGate always fails.
func (*Machine) StartGate(int) error { return Available() }

// Adjust always fails.
func (*Machine) Adjust(time.Duration, float64) (from, to time.Duration, err error) {
	return 0, 0, Available()
}

// Close does nothing.
func (*Machine) Close() error { return nil }

// ClockState returns correct clocks.
func (*Machine) ClockState() ClockState { return ClockState{} }

// SetClockState does nothing.
func (*Machine) SetClockState(ClockState) {}
