package redisnode

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// Limits on the replies to one write of up to 64 commands. The longest reply to any command of a
// lock is that to INFO, about 2 kB.
const (
	maxReply = 64 << 10 // bytes
	maxItems = 256      // elements of arrays, maps and sets in total
)

// Dialer is the type of redis.Options.Dialer.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// Guard returns a dialer whose connections fail as soon as the server sends more than a lock's
// commands can return: more than 64 kB, the header of a longer string, or arrays with more than 256
// elements in total. go-redis allocates as much memory as a header announces and parses nested
// arrays to any depth, so a server that is not Redis, or a broken proxy, could exhaust the memory
// of this process.
//
// Options installs it. If you set your own Dialer, wrap it in Guard. Do not use Guard for a client
// that also reads large values.
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

// guardedConn is a connection that counts the bytes and elements that arrive after each write. go-redis uses a
// connection from one goroutine at a time, so it needs no mutex.
type guardedConn struct {
	net.Conn
	bytesLeft, itemsLeft int    // bytes and elements that may still arrive
	skip                 int    // remaining bytes of a string
	head                 []byte // the line so far, cut off after maxHeaderLen bytes
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

// maxHeaderLen is longer than the header of any string or array.
const maxHeaderLen = 24

// scan finds the headers in b, which may end in the middle of one.
func (g *guardedConn) scan(b []byte) {
	for len(b) > 0 && g.err == nil {
		if g.skip > 0 {
			k := min(g.skip, len(b))
			g.skip, b = g.skip-k, b[k:]
			continue
		}
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		g.head = append(g.head, line[:min(len(line), maxHeaderLen+1-len(g.head))]...)
		if !whole {
			return
		}
		g.countHeader(g.head)
		g.head, b = g.head[:0], rest
	}
}

// countHeader counts the bytes or elements that a header announces. It ignores lines that are not
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
		if g.skip = n + 2; n > maxReply {
			g.err = fmt.Errorf("the node announced %d bytes: is this a Redis server?", n)
		}
	default:
		if g.itemsLeft -= n; n > maxItems || g.itemsLeft < 0 {
			g.err = fmt.Errorf("the node announced %d elements: is this a Redis server?", n)
		}
	}
}
