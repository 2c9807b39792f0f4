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

// Replaced returns the command that a process runs which was started as program, if it has
// replaced itself by another program since; nil: it has not, or that can't be seen. env, a
// shell and the shims of version managers (pyenv, rbenv, asdf) do so, and the kernel then
// maps a new vDSO, whose clock is no longer the one that lockpick turns. So an adapter
// is started by what it becomes.
func Replaced(pid int, program string) []string {
	path, err := executed(pid)
	if err != nil {
		return nil
	}
	if started, err := osexec.LookPath(program); err != nil || path == started {
		return nil
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	argv := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
	if err != nil || argv[0] == "" {
		return nil
	}
	if script(path) { // the interpreter is first in argv already, by its path
		path = argv[0]
	}
	if !filepath.IsAbs(path) {
		return nil
	}
	argv[0] = path
	return argv
}

// script says whether a file is one that the kernel hands to an interpreter.
func script(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var mark [2]byte
	_, err = io.ReadFull(f, mark[:])
	return err == nil && mark == [2]byte{'#', '!'}
}

// atExecFn is the entry of the auxiliary vector with the path that was executed, see
// getauxval(3).
const atExecFn = 31

// executed is the path of the program that a process has executed last.
func executed(pid int) (string, error) {
	aux, err := os.ReadFile(fmt.Sprintf("/proc/%d/auxv", pid))
	if err != nil {
		return "", err
	}
	word := int(unsafe.Sizeof(uintptr(0)))
	read := func(b []byte) uint64 {
		if word == 4 {
			return uint64(binary.NativeEndian.Uint32(b))
		}
		return binary.NativeEndian.Uint64(b)
	}
	for ; len(aux) >= 2*word; aux = aux[2*word:] {
		if read(aux) != atExecFn {
			continue
		}
		memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
		if err != nil {
			return "", err
		}
		defer memory.Close()
		text := make([]byte, 4096)
		n, err := memory.ReadAt(text, int64(read(aux[word:])))
		if end := bytes.IndexByte(text[:n], 0); end >= 0 {
			return string(text[:end]), nil
		}
		return "", fmt.Errorf("read the path of process %d: %w", pid, err)
	}
	return "", fmt.Errorf("process %d has no path", pid)
}
