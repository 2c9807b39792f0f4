//go:build !linux

package files

import (
	"os"
	"syscall"
)

// Quit has a Go program print the stacks of its goroutines, and end.
func ProcessQuit(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }
