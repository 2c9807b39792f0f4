package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"lockpick/scenarios/outcome"
)

// asInit runs lockpick as a child if this is the first process of a container, and returns its exit
// code. Only signals that it handles end the first process, so it could not abort, and nothing else
// would reap orphaned processes.
func asInit() (code int, over bool) {
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
		Sys:   &syscall.SysProcAttr{Setpgid: true}, // a signal from the terminal arrives once, through this process
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "error: start lockpick as a child of the first process:", err)
		return outcome.ExitBackend, true
	}
	go func() {
		for s := range signals {
			if s != syscall.SIGCHLD && s != syscall.SIGURG && s != syscall.SIGPIPE { // for this process
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
