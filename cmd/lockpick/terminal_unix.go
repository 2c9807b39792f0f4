//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminal reports whether f is a terminal, and returns its width.
func terminal(f *os.File) (columns int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	return int(size.Col), true
}
