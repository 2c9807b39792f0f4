//go:build linux

package docker

import (
	"io"
	"os"
	"syscall"

	"lockpick/harness/real/contender"
)

// Room lets clients run one after the other in a container, each a process of program, as
// it is told on in. It is what a program that makes a Backend has to do when its first
// argument is "__room"; program is the arguments that follow.
func Room(in io.Reader, out, errs io.Writer, program []string) error {
	return contender.Room(in, out, errs, program, clearRoom)
}

// clearRoom ends what a client has left running in its container, and waits for it.
func clearRoom() {
	if os.Getpid() != 1 { // all others of this machine
		return
	}
	syscall.Kill(-1, syscall.SIGKILL)
	for {
		_, err := syscall.Wait4(-1, nil, 0, nil)
		if err != nil && err != syscall.EINTR {
			return // ECHILD: nobody is left
		}
	}
}
