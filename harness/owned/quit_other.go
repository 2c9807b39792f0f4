//go:build !linux

package owned

import (
	"os"
	"syscall"
)

// Quit has a Go program print the stacks of its goroutines, and end.
func Quit(p *os.Process) error { return p.Signal(syscall.SIGQUIT) }
