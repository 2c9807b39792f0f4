package real

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"unsafe"
)

// ReplacedCommand detects that a process has replaced itself with another program, as env, shells
// and version manager shims (pyenv, rbenv, asdf) do. It returns the new program's command, or nil
// if the process still runs the given program or can't be inspected. An adapter must be started
// directly with its final command: when a process replaces itself, the kernel maps a new vDSO, and
// the process no longer uses the clock that lockpick controls.
func ReplacedCommand(pid int, program string) []string {
	path, err := executedPath(pid)
	if err != nil {
		return nil
	}
	if expectedPath, err := osexec.LookPath(program); err != nil || path == expectedPath {
		return nil
	}
	cmdline, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	argv := strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")
	if err != nil || argv[0] == "" {
		return nil
	}
	if isScript(path) { // argv already starts with the interpreter's path
		path = argv[0]
	}
	if !filepath.IsAbs(path) {
		return nil
	}
	argv[0] = path
	return argv
}

// isScript reports whether the kernel passes a file to an interpreter.
func isScript(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [2]byte
	_, err = io.ReadFull(f, magic[:])
	return err == nil && magic == [2]byte{'#', '!'}
}

// atExecFn is the type of the auxiliary vector entry for the path of the executed program. See
// getauxval(3).
const atExecFn = 31

// executedPath returns the path of the program that a process last executed.
func executedPath(pid int) (string, error) {
	auxv, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return "", err
	}
	wordSize := int(unsafe.Sizeof(uintptr(0)))
	readWord := func(b []byte) uint64 {
		if wordSize == 4 {
			return uint64(binary.NativeEndian.Uint32(b))
		}
		return binary.NativeEndian.Uint64(b)
	}
	for ; len(auxv) >= 2*wordSize; auxv = auxv[2*wordSize:] {
		if readWord(auxv) != atExecFn {
			continue
		}
		memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			return "", err
		}
		defer memory.Close()
		text := make([]byte, 4096)
		n, err := memory.ReadAt(text, int64(readWord(auxv[wordSize:])))
		if end := bytes.IndexByte(text[:n], 0); end >= 0 {
			return string(text[:end]), nil
		}
		return "", fmt.Errorf("read the program path of process %d: %w", pid, err)
	}
	return "", fmt.Errorf("the program path of process %d is missing from its auxiliary vector", pid)
}
