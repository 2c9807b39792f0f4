//go:build unix

package wire

import "syscall"

// nonblockingWriter writes to a socket without blocking. It is reused because its callback would
// otherwise be allocated for each write.
type nonblockingWriter struct {
	buf        []byte
	numWritten int
	callback   func(fd uintptr) bool
}

// write writes as much as the socket accepts at once and returns the number of bytes. If there is
// an error, writing the remaining data will report it.
func (w *nonblockingWriter) write(raw syscall.RawConn, buf []byte) int {
	if raw == nil {
		return 0
	}
	if w.callback == nil {
		w.callback = func(fd uintptr) bool {
			w.numWritten, _ = syscall.Write(int(fd), w.buf)
			return true
		}
	}
	w.buf, w.numWritten = buf, 0
	if raw.Write(w.callback) != nil {
		return 0
	}
	return max(w.numWritten, 0)
}
