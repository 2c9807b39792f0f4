package vdso

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// gateBound is how long the engine that starts a gate, and the gate, may take.
const gateBound = 10 * time.Second

// StartGate is Start for a process that waits at a Gate, and need not be a child: it
// lets the process through, and returns when the program runs by the machine's clocks.
// Nobody else of this process may wait for it meanwhile.
func (m *Machine) StartGate(pid int) error {
	runtime.LockOSThread() // a traced process obeys one thread
	defer runtime.UnlockOSThread()
	if err := awaitGate(pid); err != nil {
		return err
	}
	if err := seize(pid); err != nil {
		return fmt.Errorf("trace process %d: %w", pid, err)
	}
	err := executed(pid)
	if err == nil {
		err = unsignalled(pid, func() error { return m.Start(pid) })
	}
	if err != nil {
		// It must not run on with true clocks. In a container of its own it can't be killed so,
		// and stays stopped until this process ends. If it is not there any more, that is all.
		unix.Kill(pid, unix.SIGKILL)
		return err
	}
	return unix.PtraceDetach(pid)
}

// awaitGate waits until a process is a gate.
func awaitGate(pid int) error {
	for end := time.Now().Add(gateBound); time.Now().Before(end); time.Sleep(time.Millisecond) {
		switch at, err := atGate(pid); {
		case err != nil:
			return fmt.Errorf("process %d ended before it came to its gate: %w", pid, err)
		case at:
			return nil
		}
	}
	return fmt.Errorf("process %d did not come to its gate within %v", pid, gateBound)
}

// atGate says whether it is a gate so far.
func atGate(pid int) (bool, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	// A loader of libraries may stand before it.
	return bytes.Contains(line, []byte("\x00"+GateVerb+"\x00")), err
}

// seize traces a process without stopping it. It is to stop when it has executed a
// program, and to be killed if this process ends before it lets go of it.
func seize(pid int) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, unix.PTRACE_O_TRACEEXEC|unix.PTRACE_O_EXITKILL, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// executed lets a process that was seized through its gate, and waits until it has
// executed the program, and stands before its first instruction.
func executed(pid int) error {
	defer signalGate(pid)()
	for {
		status, err := traced(pid)
		if err != nil {
			return err
		}
		if status.TrapCause() == unix.PTRACE_EVENT_EXEC {
			// What was executed may be the gate itself, whose name shows a moment before.
			if at, err := atGate(pid); err != nil || !at {
				break
			}
		}
		// A signal on its way is delivered; any other stop was none of ours.
		signal := status.StopSignal()
		if status>>16 != 0 {
			signal = 0
		}
		if err := unix.PtraceCont(pid, int(signal)); err != nil {
			return err
		}
	}
	// It is still inside of the call, whose end would overwrite the registers that we set.
	if err := unix.PtraceSyscall(pid, 0); err != nil {
		return err
	}
	status, err := traced(pid)
	if err == nil && status.StopSignal() != unix.SIGTRAP {
		err = fmt.Errorf("process %d did not stop before its first instruction: status %#x", pid, uint32(status))
	}
	return err
}

// unsignalled keeps signals from a stopped process while f steps through it. They come
// from the gate's Go runtime, which preempts by SIGURG, and stay pending.
func unsignalled(pid int, f func() error) error {
	var before uint64
	if err := signalMask(unix.PTRACE_GETSIGMASK, pid, &before); err != nil {
		return err
	}
	step := uint64(1) << (unix.SIGTRAP - 1) // by which a single step ends
	none := ^step
	if err := signalMask(unix.PTRACE_SETSIGMASK, pid, &none); err != nil {
		return err
	}
	return errors.Join(f(), signalMask(unix.PTRACE_SETSIGMASK, pid, &before))
}

func signalMask(request uintptr, pid int, mask *uint64) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, request, uintptr(pid), unsafe.Sizeof(*mask), uintptr(unsafe.Pointer(mask)), 0, 0)
	if errno != 0 {
		return fmt.Errorf("hold back signals of process %d: %w", pid, errno)
	}
	return nil
}

// signalGate sends the signal that opens a gate until stop is called: one that comes before
// the gate listens does nothing.
func signalGate(pid int) (stop func()) {
	tick, done := time.NewTicker(time.Millisecond), make(chan bool)
	go func() {
		for {
			unix.Kill(pid, opens) // if it has ended, its tracer sees that
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	return func() {
		tick.Stop()
		close(done)
	}
}

// traced waits until a traced process stops.
func traced(pid int) (status unix.WaitStatus, err error) {
	for {
		_, err = unix.Wait4(pid, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return status, fmt.Errorf("wait for process %d: %w", pid, err)
		case !status.Stopped():
			return status, fmt.Errorf("process %d ended at its gate: status %#x", pid, uint32(status))
		default:
			return status, nil
		}
	}
}
