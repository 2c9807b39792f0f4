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

// Tracing is per thread, and a process keeps its ID only if its first thread executes the program.
// So the main goroutine of a gate must stay on that thread.
func init() {
	if len(os.Args) > 1 && os.Args[1] == GateVerb {
		runtime.LockOSThread()
	}
}

// gateSignal is the signal with which a tracer opens a gate. A signal is needed because a gate in
// its own PID namespace can't see a tracer outside of it. Other programs ignore this signal.
const gateSignal = unix.SIGWINCH

// Gate waits until this process is traced, and then executes a program, so that the tracer can
// stop it before the program's first instruction. Gate returns only if it fails. It must be called
// on the main goroutine.
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
