//go:build !unix

package wire

import "syscall"

// nonblockingWriter writes nothing, so that a goroutine makes all writes.
type nonblockingWriter struct{}

func (nonblockingWriter) write(syscall.RawConn, []byte) int { return 0 }
