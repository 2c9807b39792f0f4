//go:build !linux

package proc

import "time"

var startTime = time.Now()

// TrueClock returns the time since this process started, by a clock that is never set.
func TrueClock() time.Duration { return time.Since(startTime) }
