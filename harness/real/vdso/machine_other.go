//go:build !linux || !amd64

package vdso

import (
	"errors"
	"runtime"
	"time"
)

// Machine has correct clocks, because they can't be changed on this system.
type Machine struct{ Monotonic bool }

// Available returns why clocks can't be changed on this system.
func Available() error {
	return errors.New("clock faults need Linux on amd64, this is " + runtime.GOOS + " on " + runtime.GOARCH)
}

func (*Machine) Start(int) error { return Available() }

func (*Machine) StartGate(int) error { return Available() }

func (*Machine) Adjust(time.Duration, float64) (from, to time.Duration, err error) {
	return 0, 0, Available()
}

func (*Machine) Close() error { return nil }

// ClockState returns correct clocks.
func (*Machine) ClockState() ClockState { return ClockState{} }

// SetClockState does nothing.
func (*Machine) SetClockState(ClockState) {}
