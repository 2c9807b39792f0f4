// Package shortage says what to do where a machine has no room, no open files or no
// processes left, or where a folder can't be written to.
//
// Its one function, Remedy, looks at an error, whoever had it.
//
// Deliberately missing: what was to be done when it happened. The error says that.
package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// How a user names a folder.
const (
	TempDirHint = "TMPDIR"  // of what lives as long as a run
	StoreHint   = "--store" // of what stays
)

// shortage is what calls fail with where something is short.
type shortage struct {
	errno  syscall.Errno
	also   []string // what Go's runtime and other programs say of it, besides the error's own text
	remedy string
	moves  bool // another folder helps, too
}

// shortages are those that have one meaning, wherever they come from. Of two whose texts
// begin alike the longer one comes first.
var shortages = []shortage{
	{errno: syscall.ENOSPC, remedy: "make room on that file system", moves: true},
	{errno: syscall.EDQUOT, remedy: "remove some of your files there, for your quota is used up", moves: true},
	{errno: syscall.EROFS, remedy: "let that file system be writable", moves: true},
	{errno: syscall.EFBIG, remedy: "allow larger files: ulimit -f"},
	{errno: syscall.ENFILE, remedy: "end what has many files open on this machine, or allow more: sysctl fs.file-max"},
	{errno: syscall.EMFILE, also: []string{"increase your open file limit"}, remedy: "allow more open files: ulimit -n; or use fewer clients"},
	{errno: syscall.EAGAIN, also: []string{"failed to create new os thread"},
		remedy: "allow more processes: ulimit -u, or the pids limit of the container; or use fewer clients"},
	{errno: syscall.ENOMEM, also: []string{"out of memory", "failed to reserve", "cannot reserve arena"},
		remedy: "allow more memory: ulimit -v, or the memory limit of the container; or use fewer clients"},
}

// Remedy is what to do about an error that comes of what the machine is short of, or of
// a folder that can't be written to; "" for any other. The folder is one of the constants:
// how the user names the one in which this was to happen.
func Remedy(err error, folder string) string {
	if err == nil {
		return ""
	}
	for _, s := range shortages {
		if errors.Is(err, s.errno) {
			return s.say(folder)
		}
	}
	if text := denied(err, folder); text != "" {
		return text
	}
	// Another program's error is text. Where it is about a folder that nobody can choose
	// here, as an engine's own, choosing another does not help.
	said := strings.ToLower(err.Error())
	for _, s := range shortages {
		if !slices.ContainsFunc(append(s.also, s.errno.Error()), func(t string) bool { return strings.Contains(said, t) }) {
			continue
		}
		if !strings.Contains(said, strings.ToLower(temporary())) {
			folder = ""
		}
		return s.say(folder)
	}
	return ""
}

func (s shortage) say(folder string) string {
	if !s.moves || folder == "" {
		return s.remedy
	}
	return fmt.Sprintf("%s, or name a folder on another by %s", s.remedy, folder)
}

// denied is what to do about a folder that is not there or lets nobody write. Elsewhere
// the same errors mean something else, as of a program that is not there: the path tells.
func denied(err error, folder string) string {
	at, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return ""
	}
	if folder == TempDirHint && at.Path != temporary() && !strings.HasPrefix(at.Path, temporary()+string(filepath.Separator)) {
		return ""
	}
	switch {
	case errors.Is(at, fs.ErrNotExist), errors.Is(at, syscall.ENOTDIR):
		return fmt.Sprintf("name a folder that is there by %s", folder)
	case errors.Is(at, fs.ErrPermission):
		return fmt.Sprintf("name a folder that you may write to by %s", folder)
	}
	return ""
}

func temporary() string { return filepath.Clean(os.TempDir()) }
