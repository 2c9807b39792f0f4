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

// A process is traced by its thread, and keeps its id only if its first thread executes
// the program: a gate's main goroutine stays on that one.
func init() {
	if len(os.Args) > 1 && os.Args[1] == GateVerb {
		runtime.LockOSThread()
	}
}

// opens is the signal by which who traces a gate opens it: in a pid namespace of its own
// a gate can't see that somebody outside does. It does nothing to other programs.
const opens = unix.SIGWINCH

// Gate waits until somebody traces this process, and then becomes a program: whoever
// traces it sees that before the program's first instruction. It returns only if it fails.
// It is called on the main goroutine.
func Gate(program []string) error {
	if len(program) == 0 {
		return errors.New("open the gate: it leads to no program")
	}
	if unix.Gettid() != unix.Getpid() {
		return fmt.Errorf("open the gate to %s: this is not the first thread", program[0])
	}
	path, err := exec.LookPath(program[0])
	if err != nil {
		return fmt.Errorf("open the gate: %w", err)
	}
	signalled := make(chan os.Signal, 1)
	signal.Notify(signalled, opens)
	<-signalled
	return fmt.Errorf("execute %s: %w", path, syscall.Exec(path, program, os.Environ()))
}
