package clock

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
	for end := time.Now().Add(gateBound); !atGate(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("process %d did not come to its gate within %v", pid, gateBound)
		}
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

// atGate says whether it is a gate so far.
func atGate(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	args := bytes.Split(line, []byte{0})
	return err == nil && len(args) > 1 && string(args[1]) == GateVerb
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

// executed waits until a process that was seized has executed a program, and stands
// before its first instruction.
func executed(pid int) error {
	for {
		status, err := traced(pid)
		if err != nil {
			return err
		}
		if status.TrapCause() == unix.PTRACE_EVENT_EXEC {
			break
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
