//go:build unix

package wire

import "syscall"

// socketWrite writes to a socket without blocking. It is reused because its callback would otherwise be
// allocated for each write.
type socketWrite struct {
	buf  []byte
	done int
	f    func(fd uintptr) bool
}

// write writes as much as the socket accepts immediately and returns the number of bytes. An error is
// reported to the write of the remaining data.
func (w *socketWrite) write(raw syscall.RawConn, buf []byte) int {
	if raw == nil {
		return 0
	}
	if w.f == nil {
		w.f = func(fd uintptr) bool {
			w.done, _ = syscall.Write(int(fd), w.buf)
			return true
		}
	}
	w.buf, w.done = buf, 0
	if raw.Write(w.f) != nil {
		return 0
	}
	return max(w.done, 0)
}
