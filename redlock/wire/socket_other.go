//go:build !unix

package wire

import "syscall"

// socketWrite does nothing: a goroutine makes all writes.
type socketWrite struct{}

func (socketWrite) write(syscall.RawConn, []byte) int { return 0 }
