package redlock

import (
	"syscall"
	"time"
	"unsafe"
)

// sinceBoot reads CLOCK_BOOTTIME.
func sinceBoot() (time.Duration, bool) {
	const boottime = 7
	var t syscall.Timespec
	_, _, failed := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, boottime, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), failed == 0
}
