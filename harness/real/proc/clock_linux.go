package proc

import (
	"time"

	"golang.org/x/sys/unix"
)

// TrueClock reads CLOCK_MONOTONIC, the time since this machine started. It is the same for all
// processes on the machine. TrueClock makes the system call itself, because Go's own clock uses the
// vDSO, which a clock fault patches.
func TrueClock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("clock_gettime(CLOCK_MONOTONIC): " + err.Error()) // can't fail on Linux
	}
	return time.Duration(ts.Nano())
}
