package redisnode

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// Limits on the replies to one write, which has up to 64 commands. The longest reply to any of a
// lock's commands is the reply to INFO, about 2 kB.
const (
	maxReply = 64 << 10 // bytes
	maxItems = 256      // elements in arrays, maps and sets, in total
)

// Dialer is the type of redis.Options.Dialer.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// Guard returns a dialer whose connections fail as soon as the server sends more than a lock's
// commands can return: more than 64 kB, the header of a longer string, or arrays with more than 256
// elements in total. go-redis allocates as much memory as a header announces and parses nested
// arrays to any depth, so a server that is not Redis, or a broken proxy, could exhaust this
// process's memory.
//
// Options installs a guarded dialer. If you set your own Dialer, wrap it in Guard. Do not use Guard
// for a client that is also used to read large values.
func Guard(dial Dialer) Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		g := &guardedConn{Conn: c}
		if s, ok := c.(syscall.Conn); ok { // go-redis checks the socket before it reuses a connection
			return &guardedSocket{g, s}, nil
		}
		return g, nil
	}
}

// guardedConn counts the bytes and elements that arrive after each write. It needs no mutex,
// because go-redis uses a connection from only one goroutine at a time.
type guardedConn struct {
	net.Conn
	bytesLeft, itemsLeft int    // how many bytes and elements may still arrive
	stringBytes          int    // remaining bytes of the current string
	head                 []byte // the current line so far, truncated to maxHeaderLen+1 bytes
	err                  error
}

type guardedSocket struct {
	*guardedConn
	syscall.Conn
}

func (g *guardedConn) Write(b []byte) (int, error) {
	g.bytesLeft, g.itemsLeft = maxReply, maxItems
	return g.Conn.Write(b)
}

func (g *guardedConn) Read(b []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.Conn.Read(b)
	if g.bytesLeft -= n; g.bytesLeft < 0 {
		g.err = fmt.Errorf("the node sent more than %d bytes at once: is this a Redis server?", maxReply)
	} else {
		g.scan(b[:n])
	}
	if g.err != nil {
		return 0, g.err
	}
	return n, err
}

// maxHeaderLen is longer than the header of any valid string or array.
const maxHeaderLen = 24

// scan finds the headers in b. The last one may be incomplete.
func (g *guardedConn) scan(b []byte) {
	for len(b) > 0 && g.err == nil {
		if g.stringBytes > 0 {
			k := min(g.stringBytes, len(b))
			g.stringBytes, b = g.stringBytes-k, b[k:]
			continue
		}
		line, rest, complete := bytes.Cut(b, []byte{'\n'})
		g.head = append(g.head, line[:min(len(line), maxHeaderLen+1-len(g.head))]...)
		if !complete {
			return
		}
		g.countHeader(g.head)
		g.head, b = g.head[:0], rest
	}
}

// countHeader counts the bytes or elements that a header announces. It ignores lengths that are not
// numbers; go-redis rejects them.
func (g *guardedConn) countHeader(line []byte) {
	if len(line) == 0 || !bytes.ContainsRune([]byte("$=!*~>%|"), rune(line[0])) {
		return
	}
	n, err := strconv.Atoi(string(bytes.TrimSuffix(line[1:], []byte{'\r'})))
	switch {
	case len(line) > maxHeaderLen:
		g.err = fmt.Errorf("the node sent %q…, which is not RESP: is this a Redis server?", line)
	case err != nil || n < 0:
	case line[0] == '$' || line[0] == '=' || line[0] == '!':
		if g.stringBytes = n + 2; n > maxReply {
			g.err = fmt.Errorf("the node announced %d bytes: is this a Redis server?", n)
		}
	default:
		if g.itemsLeft -= n; n > maxItems || g.itemsLeft < 0 {
			g.err = fmt.Errorf("the node announced %d elements: is this a Redis server?", n)
		}
	}
}
