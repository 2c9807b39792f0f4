//go:build linux

package proc

import (
	"errors"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// captured is the Output of a child, which comes through a pipe: a file would grow for as
// long as the child writes.
type captured struct {
	Output
	from *os.File
	raw  syscall.RawConn
	buf  [64 << 10]byte
}

// mostWaiting is more than a pipe holds. A child that never stops writing is read for no
// longer by who asks for its output.
const mostWaiting = 2 << 20

// capture lets a command that has yet to start write its stderr, and its stdout unless that
// goes elsewhere, into a pipe. The caller closes to once the command has started.
func capture(cmd *exec.Cmd) (c *captured, to *os.File, err error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	c = &captured{from: from}
	if c.raw, err = from.SyscallConn(); err != nil {
		return nil, nil, errors.Join(err, from.Close(), to.Close())
	}
	cmd.Stderr = to
	if cmd.Stdout == nil {
		cmd.Stdout = to
	}
	return c, to, nil
}

// follow reads until nobody has the other end any more.
func (c *captured) follow() {
	c.raw.Read(func(fd uintptr) (over bool) {
		for {
			c.mu.Lock()
			n, err := c.take(fd)
			c.mu.Unlock()
			if errors.Is(err, unix.EAGAIN) {
				return false
			}
			if n <= 0 {
				return true
			}
		}
	})
	c.from.Close()
}

// take takes in what is there. The lock is held.
func (c *captured) take(fd uintptr) (n int, err error) {
	for {
		if n, err = unix.Read(int(fd), c.buf[:]); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if n > 0 {
		c.add(c.buf[:n])
	}
	return n, err
}

// read returns the output so far, with all that was written before the call.
func (c *captured) read() string {
	c.raw.Control(func(fd uintptr) { // an error says that all has been read
		c.mu.Lock()
		defer c.mu.Unlock()
		for sum := 0; sum < mostWaiting; {
			n, err := c.take(fd)
			if n <= 0 || err != nil {
				return
			}
			sum += n
		}
	})
	return c.String()
}
