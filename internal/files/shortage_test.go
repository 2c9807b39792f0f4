package files

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Each shortage is recognized by its errno, however deeply wrapped, and by other programs'
// messages.
func TestRemedy(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	wrapped := func(err error) error {
		return fmt.Errorf("run: %w", errors.Join(errors.New("before"), fmt.Errorf("start n1: %w", err)))
	}
	for _, c := range []struct {
		err    error
		remedy string // part of the remedy; "" for none
	}{
		{wrapped(&fs.PathError{Op: "write", Path: temp + "/x", Err: syscall.ENOSPC}), "make room on that file system, or use TMPDIR to choose a folder on another one"},
		{wrapped(&fs.PathError{Op: "write", Path: temp + "/x", Err: syscall.EDQUOT}), "quota"},
		{wrapped(&fs.PathError{Op: "mkdir", Path: temp + "/x", Err: syscall.EROFS}), "use TMPDIR"},
		{wrapped(&fs.PathError{Op: "write", Path: temp + "/x", Err: syscall.EFBIG}), "ulimit -f"},
		{wrapped(os.NewSyscallError("pipe2", syscall.EMFILE)), "ulimit -n"},
		{wrapped(&net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("socket", syscall.ENFILE)}), "fs.file-max"},
		{wrapped(&fs.PathError{Op: "fork/exec", Path: "/usr/bin/redis-server", Err: syscall.EAGAIN}), "ulimit -u"},
		{wrapped(syscall.ENOMEM), "ulimit -v"},
		{wrapped(&fs.PathError{Op: "stat", Path: temp, Err: syscall.ENOENT}), "use TMPDIR to choose a folder that exists"},
		{wrapped(&fs.PathError{Op: "mkdir", Path: filepath.Join(temp, "lockpick-1"), Err: syscall.ENOTDIR}), "use TMPDIR to choose a folder that exists"},
		{wrapped(&fs.PathError{Op: "mkdir", Path: filepath.Join(temp, "lockpick-1"), Err: syscall.EACCES}), "use TMPDIR to choose a folder that you can write to"},

		{errors.New("redis-server ended:\nCan't open the append-only file: No space left on device"), "make room on that file system"},
		{errors.New("Your current 'ulimit -n' of 20 is not enough for the server to start. Please increase your open file limit to at least 33."), "ulimit -n"},
		{errors.New("Error accepting a client connection: Too many open files"), "ulimit -n"},
		{errors.New("Creating Server TCP listening socket: Too many open files in system"), "fs.file-max"},
		{errors.New("runtime: failed to create new OS thread (have 5 already; errno=11)"), "ulimit -u"},
		{errors.New("fatal error: runtime: out of memory"), "ulimit -v"},
		{errors.New("Can't save in background: fork: Cannot allocate memory"), "ulimit -v"},

		{nil, ""},
		{syscall.ECONNREFUSED, ""},
		{&fs.PathError{Op: "fork/exec", Path: "/opt/redis-server", Err: syscall.EACCES}, ""},
		{&fs.PathError{Op: "open", Path: temp + "-of-another/x", Err: syscall.ENOENT}, ""},
		{errors.New("redis-server: no such file or directory"), ""},
	} {
		if got := Remedy(c.err, TempDirHint); (got == "") != (c.remedy == "") || !strings.Contains(got, c.remedy) {
			t.Errorf("%v: %q, want %q", c.err, got, c.remedy)
		}
	}
	engineErr := errors.New("import image: write /var/lib/engine/x: no space left on device")
	if got := Remedy(engineErr, TempDirHint); strings.Contains(got, "TMPDIR") {
		t.Errorf("remedy for another program's folder mentions TMPDIR: %q", got)
	}
	if got := Remedy(&fs.PathError{Op: "mkdir", Path: "/srv/store", Err: syscall.EACCES}, StoreHint); got != "use --store to choose a folder that you can write to" {
		t.Errorf("remedy for a store: %q", got)
	}
}

// The kernel's actual error is recognized, too.
func TestRemedyForFullDevice(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	_, err = full.WriteString("x")
	if got := Remedy(err, StoreHint); got != "make room on that file system, or use --store to choose a folder on another one" {
		t.Errorf("%v: %q", err, got)
	}
}
