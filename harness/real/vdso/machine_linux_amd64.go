package vdso

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Machine holds the clocks of one machine. The zero value has correct clocks. A rate change affects
// the wall clock and, if Monotonic is set, the monotonic clock. A jump changes just the wall clock,
// as settimeofday does.
type Machine struct {
	Monotonic bool

	mu          sync.Mutex
	lines       [2]line  // see ClockState
	mem         *os.File // memory of the latest process
	controlAddr int64    // address of the control block in mem
	count       [2]uint64
}

// Available returns nil, because clocks can be changed on this system.
func Available() error { return nil }

var clockIDs = [2]int32{wall: unix.CLOCK_REALTIME, monotonic: unix.CLOCK_MONOTONIC}

// leadTime is the time between writing a change to the process and its effect. It ensures that the
// process switches to the new line at a definite instant, and that slowing a clock down does not
// set it back by the duration of the write.
const leadTime = time.Millisecond

// Start patches a process that starts on the machine, so that it reads the machine's clocks. The
// calling thread must be its tracer, and the process must be stopped before its first instruction.
func (m *Machine) Start(pid int) error {
	mem, controlAddr, err := patch(pid)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mem != nil {
		m.mem.Close()
	}
	m.mem, m.controlAddr, m.count = mem, controlAddr, [2]uint64{}
	// Write the lines as both the older and the newer ones, so that they apply to all times.
	for range 2 {
		lines := [2]line{m.clockState().line(wall), m.clockState().line(monotonic)}
		if err := errors.Join(m.prepare(lines), m.activate(lines)); err != nil {
			return fmt.Errorf("set the clock of process %d: %w", pid, err)
		}
	}
	return nil
}

// Adjust makes the wall clock jump by step and sets the rate of the clocks. It returns once the
// change is in effect. The change took effect at some instant of true time between from and to. If
// no process is running, the next one starts with the changed clocks.
func (m *Machine) Adjust(step time.Duration, rate float64) (from, to time.Duration, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for attempt := 1; ; attempt++ {
		at := readClock(monotonic) + int64(leadTime)
		state, err := m.clockState().AfterChange(time.Duration(at), step, rate, m.Monotonic)
		if err != nil {
			return 0, 0, err
		}
		lines := state.Lines
		// A process that has exited has no memory. The next one starts with the new lines.
		if err := m.prepare(lines); err != nil && !errors.Is(err, errEnded) {
			return 0, 0, fmt.Errorf("change a clock: %w", err)
		}
		if readClock(monotonic) > at-int64(leadTime)/2 && attempt < maxTries {
			continue // this thread was preempted; no change is in effect yet
		}
		if err := m.activate(lines); err != nil && !errors.Is(err, errEnded) {
			return 0, 0, fmt.Errorf("change a clock: %w", err)
		}
		writeEnd := readClock(monotonic)
		m.lines = lines
		time.Sleep(leadTime)
		return time.Duration(at), time.Duration(max(at, writeEnd)), nil
	}
}

// Close stops accessing the process. The clocks stay as they are.
func (m *Machine) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mem == nil {
		return nil
	}
	mem := m.mem
	m.mem = nil
	return mem.Close()
}

// ClockState returns the state of the clocks.
func (m *Machine) ClockState() ClockState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.clockState()
}

func (m *Machine) clockState() ClockState {
	return ClockState{Lines: m.lines, Offset: ClockOffset(func() int64 { return readClock(monotonic) }, func() int64 { return readClock(wall) })}
}

// SetClockState copies the state of another machine's clocks. It must be called before a process
// starts.
func (m *Machine) SetClockState(s ClockState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = s.Lines
}

var errEnded = errors.New("the process has ended")

// blockAddr returns the address of a clock in the control block, and slotAddr the address of the
// clock's older line.
func (m *Machine) blockAddr(which int) int64 { return m.controlAddr + int64(which)*64 }
func (m *Machine) slotAddr(which int) int64 {
	return m.blockAddr(which) + 8 + int64((m.count[which]+1)&1)*24
}

// prepare overwrites the process's older lines, which no longer apply, and reads them back.
func (m *Machine) prepare(lines [2]line) error {
	for which, l := range lines {
		m.count[which] += 2 // the newer line stays active
		if err := m.writeMemory(encode(m.count[which]), m.blockAddr(which)); err != nil {
			return err
		}
		if err := m.writeMemory(encode(uint64(l.Real0), uint64(l.Fake0), uint64(l.Rate)), m.slotAddr(which)); err != nil {
			return err
		}
	}
	return nil
}

// activate makes the prepared lines the newer ones.
func (m *Machine) activate(lines [2]line) error {
	for which := range lines {
		m.count[which]++
		if err := m.writeMemory(encode(m.count[which]), m.blockAddr(which)); err != nil {
			return err
		}
	}
	return nil
}

func encode(w ...uint64) (b []byte) {
	for _, v := range w {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// writeMemory writes to the process's memory and reads the data back.
func (m *Machine) writeMemory(b []byte, addr int64) error {
	if m.mem == nil {
		return errEnded
	}
	fd, got := int(m.mem.Fd()), make([]byte, len(b))
	n, err := unix.Pwrite(fd, b, addr)
	if err == nil {
		n, err = unix.Pread(fd, got, addr)
	}
	switch {
	case err != nil:
		return err
	case n == 0:
		return errEnded
	case !bytes.Equal(got, b):
		return errors.New("the process's memory differs from what was written")
	}
	return nil
}

// readClock reads a correct clock with a system call.
func readClock(which int) int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(clockIDs[which], &ts); err != nil {
		panic("clock_gettime: " + err.Error()) // can't fail on Linux
	}
	return ts.Nano()
}

// pageSize is the size of a memory page. The process gets two extra pages, one for code and one for
// the control block.
const pageSize = 4096

// patchedFuncs lists the vDSO functions that return the time, in the order of their numbers in the
// machine code.
var patchedFuncs = []string{"__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time"}

// jumpSize is the number of overwritten bytes of a function.
const jumpSize = 12

// patch rewrites the vDSO of a process that the calling thread traces and that is stopped before
// its first instruction. It returns the process's memory and the address of the zeroed control
// block.
func patch(pid int) (mem *os.File, control int64, err error) {
	mem, err = os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			mem.Close()
		}
	}()
	base, image, err := readVDSO(pid, mem)
	if err != nil {
		return nil, 0, err
	}
	functions, err := symbols(base, image)
	if err != nil {
		return nil, 0, err
	}
	syscallOffset := bytes.Index(image, []byte{0x0f, 0x05}) // a syscall instruction in the vDSO
	if syscallOffset < 0 {
		return nil, 0, errors.New("the vDSO contains no syscall instruction")
	}
	syscallAddr := base + uint64(syscallOffset)
	code, err := inject(pid, syscallAddr, unix.SYS_MMAP, 0, 2*pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON, ^uint64(0), 0)
	if err != nil {
		return nil, 0, fmt.Errorf("map two pages in process %d: %w", pid, err)
	}
	text, stubs := codePage(code, code+pageSize)
	if _, err := mem.WriteAt(text, int64(code)); err != nil {
		return nil, 0, fmt.Errorf("write code into process %d: %w", pid, err)
	}
	if _, err := inject(pid, syscallAddr, unix.SYS_MPROTECT, code, pageSize, unix.PROT_READ|unix.PROT_EXEC, 0, 0, 0); err != nil {
		return nil, 0, fmt.Errorf("protect code of process %d: %w", pid, err)
	}
	for i, name := range patchedFuncs {
		addr, ok := functions[name]
		if !ok {
			continue // just clock_gettime is required
		}
		if _, err := unix.PtracePokeText(pid, uintptr(addr), jumpCode(stubs[i])); err != nil {
			return nil, 0, fmt.Errorf("rewrite %s of process %d: %w", name, pid, err)
		}
	}
	return mem, int64(code + pageSize), nil
}

// codePage returns the contents of the code page and the addresses of its stubs. The page consists
// of the clock function and a stub for each patched vDSO function.
func codePage(code, control uint64) (text []byte, stubs []uint64) {
	text = machineCode()
	for which := range patchedFuncs {
		for len(text)%16 != 0 {
			text = append(text, 0xcc)
		}
		stubs = append(stubs, code+uint64(len(text)))
		text = append(text, 0x49, 0xbb) // movabs r11, control
		text = binary.LittleEndian.AppendUint64(text, control)
		text = append(text, 0x41, 0xba, byte(which), 0, 0, 0) // mov r10d, which
		text = append(text, jumpCode(code)...)
	}
	return text, stubs
}

// jumpCode returns the machine code of movabs rax, to; jmp rax.
func jumpCode(to uint64) []byte {
	return append(binary.LittleEndian.AppendUint64([]byte{0x48, 0xb8}, to), 0xff, 0xe0)
}

func fakeAddr() uintptr

// machineCode returns a copy of the assembled clock function, up to its end marker.
func machineCode() []byte {
	var p *byte
	*(*uintptr)(unsafe.Pointer(&p)) = fakeAddr() // code never moves
	text := unsafe.Slice(p, 1024)
	return bytes.Clone(text[:bytes.Index(text, []byte{0xf4, 0xcc, 0xf4, 0xcc, 0xf4, 0xcc, 0xf4, 0xcc})])
}

// readVDSO reads the vDSO pages that the kernel has mapped into a process.
func readVDSO(pid int, mem *os.File) (base uint64, image []byte, err error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, nil, err
	}
	for line := range strings.Lines(string(maps)) {
		var end uint64
		if !strings.HasSuffix(line, "[vdso]\n") {
			continue
		}
		if _, err := fmt.Sscanf(line, "%x-%x", &base, &end); err != nil {
			return 0, nil, fmt.Errorf("read maps of process %d: %q: %w", pid, line, err)
		}
		image = make([]byte, end-base)
		if _, err := mem.ReadAt(image, int64(base)); err != nil {
			return 0, nil, fmt.Errorf("read the vDSO of process %d: %w", pid, err)
		}
		return base, image, nil
	}
	return 0, nil, fmt.Errorf("process %d has no vDSO", pid)
}

// symbols returns the addresses of a vDSO's functions.
func symbols(base uint64, image []byte) (map[string]uint64, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, fmt.Errorf("read the vDSO: %w", err)
	}
	syms, err := f.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("read the vDSO's symbols: %w", err)
	}
	addrs := map[string]uint64{}
	for _, s := range syms {
		if s.Size >= jumpSize {
			addrs[s.Name] = base + s.Value // the vDSO is linked at 0
		}
	}
	if _, ok := addrs[patchedFuncs[0]]; !ok {
		return nil, errors.New("the vDSO has no " + patchedFuncs[0])
	}
	return addrs, nil
}

// inject makes a stopped process execute one system call, with the syscall instruction at addr.
func inject(pid int, addr, number, a, b, c, d, e, f uint64) (uint64, error) {
	var oldRegs, newRegs unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &oldRegs); err != nil {
		return 0, err
	}
	r := oldRegs
	r.Rip, r.Rax, r.Orig_rax = addr, number, ^uint64(0) // the interrupted system call must not be restarted
	r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9 = a, b, c, d, e, f
	if err := unix.PtraceSetRegs(pid, &r); err != nil {
		return 0, err
	}
	if err := unix.PtraceSingleStep(pid); err != nil {
		return 0, err
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil {
		return 0, err
	}
	if !status.Stopped() || status.StopSignal() != unix.SIGTRAP {
		return 0, fmt.Errorf("%w: a single step ended with status %#x", ErrSignaled, uint32(status))
	}
	if err := unix.PtraceGetRegs(pid, &newRegs); err != nil {
		return 0, err
	}
	if err := unix.PtraceSetRegs(pid, &oldRegs); err != nil {
		return 0, err
	}
	if v := int64(newRegs.Rax); v < 0 && v > -pageSize {
		return 0, unix.Errno(-v)
	}
	return newRegs.Rax, nil
}

// gateTimeout limits the time for the engine to start a gate, and for the gate to execute its
// program.
const gateTimeout = 10 * time.Second

// StartGate is like Start, but for a process that waits at a Gate and need not be our child. It
// lets the process through the gate and returns once the program runs with the machine's clocks. In
// the meantime, nothing else in this process may wait for it.
func (m *Machine) StartGate(pid int) error {
	runtime.LockOSThread() // a traced process accepts requests from just one thread
	defer runtime.UnlockOSThread()
	if err := awaitGate(pid); err != nil {
		return err
	}
	if err := seize(pid); err != nil {
		return fmt.Errorf("trace process %d: %w", pid, err)
	}
	err := awaitExec(pid)
	if err == nil {
		err = withSignalsBlocked(pid, func() error { return m.Start(pid) })
	}
	if err != nil {
		// The process must not continue with true clocks. In its own container, it can't be killed this
		// way and stays stopped until this process exits. The error is ignored, because the process may
		// already be gone.
		unix.Kill(pid, unix.SIGKILL)
		return err
	}
	return unix.PtraceDetach(pid)
}

// awaitGate waits until a process has become a gate.
func awaitGate(pid int) error {
	for end := time.Now().Add(gateTimeout); time.Now().Before(end); time.Sleep(time.Millisecond) {
		switch atGate, err := isGate(pid); {
		case err != nil:
			return fmt.Errorf("process %d exited before it reached its gate: %w", pid, err)
		case atGate:
			return nil
		}
	}
	return fmt.Errorf("process %d did not reach its gate within %v", pid, gateTimeout)
}

// isGate reports whether a process is still a gate.
func isGate(pid int) (bool, error) {
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	// The path of a dynamic loader may precede the verb.
	return bytes.Contains(cmdline, []byte("\x00"+GateVerb+"\x00")), err
}

// seize starts to trace a process without stopping it. The process stops once it has executed a
// program. It is killed if this process exits while tracing it.
func seize(pid int) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, unix.PTRACE_O_TRACEEXEC|unix.PTRACE_O_EXITKILL, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// awaitExec lets a seized process through its gate. It returns when the process has executed the
// program and is stopped before the program's first instruction.
func awaitExec(pid int) error {
	defer signalGate(pid)()
	for {
		status, err := awaitStop(pid)
		if err != nil {
			return err
		}
		if status.TrapCause() == unix.PTRACE_EVENT_EXEC {
			// This may be the exec of the gate itself, whose name appears a moment earlier.
			if atGate, err := isGate(pid); err != nil || !atGate {
				break
			}
		}
		// Deliver a pending signal. Ignore other stops.
		signal := status.StopSignal()
		if status>>16 != 0 {
			signal = 0
		}
		if err := unix.PtraceCont(pid, int(signal)); err != nil {
			return err
		}
	}
	// The process is still in the exec call, whose completion would overwrite registers set by us.
	if err := unix.PtraceSyscall(pid, 0); err != nil {
		return err
	}
	status, err := awaitStop(pid)
	if err == nil && status.StopSignal() != unix.SIGTRAP {
		err = fmt.Errorf("process %d did not stop before its first instruction: status %#x", pid, uint32(status))
	}
	return err
}

// withSignalsBlocked blocks the signals of a stopped process while f steps through it. The signals
// come from the gate's Go runtime, which uses SIGURG for preemption, and stay pending.
func withSignalsBlocked(pid int, f func() error) error {
	var oldMask uint64
	if err := signalMask(unix.PTRACE_GETSIGMASK, pid, &oldMask); err != nil {
		return err
	}
	trapMask := uint64(1) << (unix.SIGTRAP - 1) // the signal after a single step
	blockMask := ^trapMask
	if err := signalMask(unix.PTRACE_SETSIGMASK, pid, &blockMask); err != nil {
		return err
	}
	return errors.Join(f(), signalMask(unix.PTRACE_SETSIGMASK, pid, &oldMask))
}

func signalMask(request uintptr, pid int, mask *uint64) error {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, request, uintptr(pid), unsafe.Sizeof(*mask), uintptr(unsafe.Pointer(mask)), 0, 0)
	if errno != 0 {
		return fmt.Errorf("block signals of process %d: %w", pid, errno)
	}
	return nil
}

// signalGate sends the signal that opens a gate until stop is called. It repeats the signal,
// because a signal that arrives before the gate is ready has no effect.
func signalGate(pid int) (stop func()) {
	tick, done := time.NewTicker(time.Millisecond), make(chan bool)
	go func() {
		for {
			unix.Kill(pid, gateSignal) // if the process has exited, its tracer notices
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

// awaitStop waits until a traced process stops.
func awaitStop(pid int) (status unix.WaitStatus, err error) {
	for {
		_, err = unix.Wait4(pid, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return status, fmt.Errorf("wait for process %d: %w", pid, err)
		case !status.Stopped():
			return status, fmt.Errorf("process %d exited at its gate: status %#x", pid, uint32(status))
		default:
			return status, nil
		}
	}
}
