// Package files opens what others may have had their hands on: runs and scenarios
// come from strangers, and a store may be shared.
//
// Open and Read take a regular file of bounded size, and nothing else: a pipe may never
// answer, and a device never end. A Folder is a directory that no link leads out of,
// neither for reading nor for writing. What is written to it appears whole and under
// its own name, so that neither a link nor another name of an old file is written
// through.
//
// Deliberately missing: what is in a file.
package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Unfit is the error about something that is not what it should be: no regular file,
// too large, or a way out of its directory. Nothing was read of it or written to it.
type Unfit struct{ Path, What string }

func (u *Unfit) Error() string { return u.Path + " " + u.What }

func unfit(path, what string, args ...any) error { return &Unfit{path, fmt.Sprintf(what, args...)} }

// Open opens a regular file of at most that many bytes for reading, without waiting
// for anything. The path is its caller's own word: a link is followed.
func Open(path string, most int64) (*os.File, error) {
	return open(path, most, os.Stat, func() (*os.File, error) { return os.OpenFile(path, atOnce, 0) })
}

// atOnce opens a pipe without waiting for who writes to it.
const atOnce = os.O_RDONLY | syscall.O_NONBLOCK

// open asks first what a name stands for, because to open a device may do something,
// and once more of what was opened, because it may be something else by then.
func open(name string, most int64, stat func(string) (fs.FileInfo, error), opened func() (*os.File, error)) (*os.File, error) {
	info, err := stat(name)
	if err == nil {
		err = fit(name, info, most)
	}
	if err != nil {
		return nil, told(name, err)
	}
	f, err := opened()
	if err != nil {
		return nil, told(name, err)
	}
	if info, err = f.Stat(); err == nil {
		err = fit(name, info, most)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func fit(name string, info fs.FileInfo, most int64) error {
	switch {
	case !info.Mode().IsRegular():
		return unfit(name, "is %s, no regular file", sort(info.Mode()))
	case info.Size() > most:
		return unfit(name, "has %d bytes, and at most %d are read", info.Size(), most)
	}
	return nil
}

// sort names what is no regular file.
func sort(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a link"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// Output opens or makes a file for writing that the user has named. It may be a device
// or a pipe; one that nobody reads is an error at once.
func Output(path string, how int) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK|how, 0o644)
}

// Read is all of what Open opens. A file that grows meanwhile is too large in the end.
func Read(path string, most int64) ([]byte, error) {
	f, err := Open(path, most)
	return all(f, err, path, most)
}

func all(f *os.File, err error, name string, most int64) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case int64(len(text)) > most:
		return nil, unfit(name, "has more than %d bytes", most)
	}
	return text, nil
}

// maxObjects bounds the objects of a JSON text: an empty one is three bytes long and
// may stand for hundreds in memory.
const maxObjects = 200_000

// JSON decodes all of a text that a file had.
func JSON(text []byte, into any, options ...func(*json.Decoder)) error {
	if n := bytes.Count(text, []byte("{")); n > maxObjects {
		return fmt.Errorf("it has %d objects, and at most %d are read", n, maxObjects)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	for _, o := range options {
		o(d)
	}
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows its value")
	}
	return nil
}
