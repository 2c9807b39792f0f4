package vdso

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// A gate's main goroutine must stay on the first thread: tracing is per thread, and only if the first
// thread executes the program does the process have the same ID afterward.
func init() {
	if len(os.Args) > 1 && os.Args[1] == GateVerb {
		runtime.LockOSThread()
	}
}

// gateSignal is sent by a tracer to open a gate. A signal is necessary, because a gate in its own
// PID namespace can't see a tracer outside. Other programs ignore this signal.
const gateSignal = unix.SIGWINCH

// Gate waits until this process is traced, and then executes a program, so that the tracer can stop
// the process before the program's first instruction. Gate returns only if it fails. It must be
// called on the main goroutine.
func Gate(program []string) error {
	if len(program) == 0 {
		return errors.New("open the gate: no program given")
	}
	if unix.Gettid() != unix.Getpid() {
		return fmt.Errorf("open the gate to %s: this is not the first thread", program[0])
	}
	path, err := exec.LookPath(program[0])
	if err != nil {
		return fmt.Errorf("open the gate: %w", err)
	}
	signaled := make(chan os.Signal, 1)
	signal.Notify(signaled, gateSignal)
	<-signaled
	return fmt.Errorf("execute %s: %w", path, syscall.Exec(path, program, os.Environ()))
}
