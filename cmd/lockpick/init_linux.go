package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"lockpick/scenarios/outcome"
)

// runAsInit runs lockpick in a child process if this process is the first one in a container, and
// returns the child's exit code. The kernel delivers to the first process only signals that it
// handles, so lockpick could not abort there. The first process must also reap orphans.
func runAsInit() (code int, ran bool) {
	if os.Getpid() != 1 {
		return 0, false
	}
	signals := make(chan os.Signal, 100)
	signal.Notify(signals)
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	child, err := os.StartProcess(self, os.Args, &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   &syscall.SysProcAttr{Setpgid: true}, // so that a signal from the terminal arrives once, forwarded by this process
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: start lockpick as the child of the container's first process:", err)
		return outcome.ExitBackend, true
	}
	go func() {
		for s := range signals {
			if s != syscall.SIGCHLD && s != syscall.SIGURG && s != syscall.SIGPIPE { // these are for this process
				child.Signal(s)
			}
		}
	}()
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			fmt.Fprintln(os.Stderr, "error: wait for lockpick:", err)
			return outcome.ExitBug, true
		case pid == child.Pid && status.Signaled():
			return 128 + int(status.Signal()), true
		case pid == child.Pid:
			return status.ExitStatus(), true
		}
	}
}
