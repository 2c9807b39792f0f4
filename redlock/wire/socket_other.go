//go:build !unix

package wire

import "syscall"

// nonblockingWriter writes nothing, so a goroutine does all the writing.
type nonblockingWriter struct{}

func (nonblockingWriter) write(syscall.RawConn, []byte) int { return 0 }
