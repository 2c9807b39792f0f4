package vdso

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// page is the size of a page, and of what is added to the process: one page of
// code and one with the control block.
const page = 4096

// patched are the functions of the vDSO that tell the time, in the order of the
// numbers by which the machine code knows them.
var patched = []string{"__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time"}

// jumpSize is how many bytes of a function are overwritten.
const jumpSize = 12

// patch rewrites the vDSO of a process that the calling thread traces and that
// stands before its first instruction. It returns the process's memory and the
// control block's address there, which is all zero.
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
	base, image, err := vdso(pid, mem)
	if err != nil {
		return nil, 0, err
	}
	functions, err := symbols(base, image)
	if err != nil {
		return nil, 0, err
	}
	own := bytes.Index(image, []byte{0x0f, 0x05}) // a system call of the vDSO's own
	if own < 0 {
		return nil, 0, errors.New("the vDSO makes no system call")
	}
	call := base + uint64(own)
	code, err := inject(pid, call, unix.SYS_MMAP, 0, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON, ^uint64(0), 0)
	if err != nil {
		return nil, 0, fmt.Errorf("map two pages in process %d: %w", pid, err)
	}
	text, stubs := program(code, code+page)
	if _, err := mem.WriteAt(text, int64(code)); err != nil {
		return nil, 0, fmt.Errorf("write code into process %d: %w", pid, err)
	}
	if _, err := inject(pid, call, unix.SYS_MPROTECT, code, page, unix.PROT_READ|unix.PROT_EXEC, 0, 0, 0); err != nil {
		return nil, 0, fmt.Errorf("protect code of process %d: %w", pid, err)
	}
	for i, name := range patched {
		at, ok := functions[name]
		if !ok {
			continue // clock_gettime alone is sure to be there
		}
		if _, err := unix.PtracePokeText(pid, uintptr(at), jump(stubs[i])); err != nil {
			return nil, 0, fmt.Errorf("rewrite %s of process %d: %w", name, pid, err)
		}
	}
	return mem, int64(code + page), nil
}

// program is the code page: the clock, and a stub for each function of the vDSO.
func program(code, control uint64) (text []byte, stubs []uint64) {
	text = machineCode()
	for which := range patched {
		for len(text)%16 != 0 {
			text = append(text, 0xcc)
		}
		stubs = append(stubs, code+uint64(len(text)))
		text = append(text, 0x49, 0xbb) // movabs r11, control
		text = binary.LittleEndian.AppendUint64(text, control)
		text = append(text, 0x41, 0xba, byte(which), 0, 0, 0) // mov r10d, which
		text = append(text, jump(code)...)
	}
	return text, stubs
}

// jump is movabs rax, to; jmp rax.
func jump(to uint64) []byte {
	return append(binary.LittleEndian.AppendUint64([]byte{0x48, 0xb8}, to), 0xff, 0xe0)
}

func fakeAddr() uintptr

// machineCode copies the clock as the assembler made it, up to the mark at its end.
func machineCode() []byte {
	var p *byte
	*(*uintptr)(unsafe.Pointer(&p)) = fakeAddr() // code never moves
	text := unsafe.Slice(p, 1024)
	return bytes.Clone(text[:bytes.Index(text, []byte{0xf4, 0xcc, 0xf4, 0xcc, 0xf4, 0xcc, 0xf4, 0xcc})])
}

// vdso reads the page that the kernel maps into each process.
func vdso(pid int, mem *os.File) (base uint64, image []byte, err error) {
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

// symbols finds the functions of a vDSO and where they are.
func symbols(base uint64, image []byte) (map[string]uint64, error) {
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return nil, fmt.Errorf("read the vDSO: %w", err)
	}
	all, err := f.DynamicSymbols()
	if err != nil {
		return nil, fmt.Errorf("read the vDSO's symbols: %w", err)
	}
	found := map[string]uint64{}
	for _, s := range all {
		if s.Size >= jumpSize {
			found[s.Name] = base + s.Value // it is linked at 0
		}
	}
	if _, ok := found[patched[0]]; !ok {
		return nil, errors.New("the vDSO has no " + patched[0])
	}
	return found, nil
}

// inject lets a stopped process make one system call, by the instruction at `at`.
func inject(pid int, at, number, a, b, c, d, e, f uint64) (uint64, error) {
	var before, after unix.PtraceRegs
	if err := unix.PtraceGetRegs(pid, &before); err != nil {
		return 0, err
	}
	r := before
	r.Rip, r.Rax, r.Orig_rax = at, number, ^uint64(0) // no system call is to be made again
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
	if err := unix.PtraceGetRegs(pid, &after); err != nil {
		return 0, err
	}
	if err := unix.PtraceSetRegs(pid, &before); err != nil {
		return 0, err
	}
	if v := int64(after.Rax); v < 0 && v > -page {
		return 0, unix.Errno(-v)
	}
	return after.Rax, nil
}
