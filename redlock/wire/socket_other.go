//go:build !unix

package wire

import "syscall"

// nonblockingWriter does nothing: a goroutine makes all writes.
type nonblockingWriter struct{}

func (nonblockingWriter) write(syscall.RawConn, []byte) int { return 0 }
