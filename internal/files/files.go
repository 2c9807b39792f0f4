// Package files opens what others may have had their hands on: runs and scenarios
// come from strangers, and a store may be shared.
//
// Open and Read take a regular file of bounded size, and nothing else: a pipe may never
// answer, and a device never end. A Folder is a directory that no link leads out of,
// neither for reading nor for writing. What is written to it appears whole and under
// its own name.
//
// Deliberately missing: what is in a file.
package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Unfit is the error about something that is not what it should be: no regular file,
// too large, or a way out of its directory. Nothing was read of it or written to it.
type Unfit struct{ Path, What string }

func (u *Unfit) Error() string { return u.Path + " " + u.What }

func unfit(path, what string, args ...any) error { return &Unfit{path, fmt.Sprintf(what, args...)} }

// Open opens a regular file of at most that many bytes for reading. It follows links, because the
// path comes from the caller, not from data.
func Open(path string, most int64) (*os.File, error) {
	f, err := os.OpenFile(path, atOnce, 0)
	return fit(path, most, f, err)
}

// atOnce opens a pipe without waiting for who writes to it.
const atOnce = os.O_RDONLY | syscall.O_NONBLOCK

// fit lets through what was opened if it is a regular file that is no larger.
func fit(name string, most int64, f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, told(name, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = unfit(name, "is no regular file")
	case info.Size() > most:
		err = unfit(name, "has %d bytes, and at most %d are read", info.Size(), most)
	default:
		return f, nil
	}
	f.Close()
	return nil, err
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
