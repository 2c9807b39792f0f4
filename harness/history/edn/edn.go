// Package edn reads the history of a lock that Jepsen recorded, its
// history.edn, so that it can be judged like a run of our own, and writes a run of
// ours for Jepsen's tools (write.go says how).
//
// Its nouns are the form (a value of EDN), the operation (one of Jepsen's maps)
// and the facts that they are turned into. What such a history does not say is
// left empty: there are no leases, so an acquire is believed in until its
// release is called; there are no nodes and no resource. Each acquire is a
// session. A release belongs to its process's last acquire that was granted and
// not yet given back; one that finds none is passed over, as are operations
// other than acquire and release, and whatever the nemesis did.
//
// The reader is our own: the EDN library for Go (olympos.io/encoding/edn) has no
// release and no change since 2020, is more than ten times as long, and its
// errors tell no lines.
//
// Deliberately missing: any model but the lock.
package edn

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"lockpick/harness/files"
	"lockpick/harness/history"
)

// apart is how far operations without a time are put from each other: time is
// then their order, and nothing else.
const apart = 1000 // nanoseconds

// Read reads a history: one map an operation, one after the other or in one
// vector. Events have the numbers of the operations in the file, from 1; those
// that the file has not, such as the beginning of a client, have its first
// operation's or 0. The notes say in words what was assumed or passed over. An
// error names the line.
func Read(r io.Reader) (h *history.History, notes []string, err error) {
	t := newTranslation()
	in := newReader(r)
	if err := each(in, t.add); err != nil {
		return nil, nil, err
	}
	if t.acquires == 0 {
		return nil, nil, fmt.Errorf("line %d: it ends without an operation with :f :acquire, so it is no history of a lock", in.line)
	}
	h, err = history.New(t.finish())
	return h, t.notes(), err
}

// ReadFile reads the history in a file.
func ReadFile(path string) (*history.History, []string, error) {
	f, err := files.Open(path, history.MaxFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read history: %w", err)
	}
	defer f.Close()
	h, notes, err := Read(f)
	if err != nil {
		return nil, nil, fmt.Errorf("read history %s: %w", path, err)
	}
	h.Params.Scenario = filepath.Base(path)
	return h, notes, nil
}

// each calls do for each operation as it is read.
func each(r *reader, do func(form) error) error {
	var end byte // of the vector in which operations lie; 0: in none
	closed := false
	for n := 0; ; n++ {
		r.left = maxForm
		c, err := r.begin(0)
		switch {
		case errors.Is(err, io.EOF) && end == 0:
			return nil
		case err != nil:
			return r.unended(err)
		case closed:
			return r.wrong("something follows the vector of operations")
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
		f, err := r.form(c, 1)
		if err != nil {
			return err
		}
		if err := do(f); err != nil {
			return err
		}
	}
}
