// Package edn reads the history of a lock that Jepsen recorded, its
// history.edn, so that it can be judged like a run of our own, and writes a run of
// ours for Jepsen's tools (write.go says how).
//
// Its nouns are the form (a value of EDN), the operation (one of Jepsen's maps)
// and the facts that they are turned into. What such a history does not say is
// left empty: there are no nodes and no resource. Operations other than acquire
// and release are passed over, and whatever the nemesis did. Operations of one
// :time are in the order of the file.
//
// There are two ways to read it, by what the lock is taken for:
//
//   - Read takes it for a lock that is held by a handle. Each acquire is a
//     session. A release belongs to its process's last acquire that was granted
//     and not yet given back; one that finds none is passed over, whatever its
//     answer. It is a definite no only where its :error has :not-held, and of
//     unknown outcome where it failed in another way. Whether it has a
//     lease, and how long that lasts, no such history says: Never, Unknown or a TTL.
//   - Operations takes it for a mutex, which may know its owner and knows no
//     handle: calls and returns are as they stand, and what failed did not happen.
//
// The reader is our own: the EDN library for Go (olympos.io/encoding/edn) has no
// release and no change since 2020, is more than ten times as long, and its
// errors tell no lines.
//
// Deliberately missing: any model but the lock.
package edn

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"lockpick/harness/history"
	"lockpick/internal/files"
)

// apart is how far operations without a time are put from each other: time is
// then their order, and nothing else.
const apart = 1000 // nanoseconds

// When a lease lapses, if not a TTL after its acquire was called.
const (
	Never   time.Duration = 0  // it is believed in until its release is called
	Unknown time.Duration = -1 // at any instant after it was granted: nobody is believed in for longer
)

// Read reads a history: one map an operation, one after the other or in one
// vector. Events have the numbers of the operations in the file, from 1; those
// that the file has not, such as the beginning of a client, have 0 or a
// number that no other event has. The notes say in words what was assumed or passed
// over. An error names the line.
func Read(r io.Reader, ttl time.Duration) (h *history.History, notes []string, err error) {
	t := newTranslation()
	t.ttl = ttl
	if err := t.read(r); err != nil {
		return nil, nil, err
	}
	h, err = history.New(t.finish())
	return h, t.notes(), err
}

// ReadFile reads the history in a file.
func ReadFile(path string, ttl time.Duration) (h *history.History, notes []string, err error) {
	h, notes, err = fromFile(path, func(r io.Reader) (*history.History, []string, error) { return Read(r, ttl) })
	if err == nil {
		h.Params.Scenario = filepath.Base(path)
	}
	return h, notes, err
}

func fromFile[T any](path string, read func(io.Reader) (T, []string, error)) (all T, notes []string, err error) {
	f, err := files.Open(path, history.MaxFile)
	if err != nil {
		return all, nil, fmt.Errorf("read history: %w", err)
	}
	defer f.Close()
	if all, notes, err = read(f); err != nil {
		err = fmt.Errorf("read history %s: %w", path, err)
	}
	return all, notes, err
}

// each calls do for each operation as it is read.
func each(r *reader, do func(form) error) (err error) {
	defer caught(&err)
	var end byte // of the vector in which operations lie; 0: in none
	closed := false
	for n := 0; ; n++ {
		r.left = maxForm
		c, more := r.begin(0)
		switch {
		case !more && end == 0:
			return nil
		case n > history.MaxStored:
			fail(r.line, "it has more than %d operations", history.MaxStored)
		case closed && more:
			fail(r.line, "something follows the vector of operations")
		case n == 0 && (c == '[' || c == '('):
			end, r.top = map[byte]byte{'[': ']', '(': ')'}[c], r.line
			continue
		case end != 0 && c == end:
			end, closed = 0, true
			continue
		}
		if end == 0 {
			r.top = r.line
		}
		if err := do(r.form(r.must(c, more), 1)); err != nil {
			return err
		}
	}
}
