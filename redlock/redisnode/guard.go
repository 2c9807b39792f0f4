package redisnode

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// Limits on what a node may send in answer to the last write, which holds up to 64 commands. The longest reply
// to a lock's commands is INFO's, about 2 kB.
const (
	maxReply = 64 << 10 // bytes
	maxItems = 256      // elements of arrays, maps and sets, all together
)

// Dialer is the type of redis.Options.Dialer.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// Guard returns a dialer whose connections fail as soon as the server sends more than a lock's
// commands can return: 64 kB, or the header of a longer string, or arrays of more than 256 elements in all.
// go-redis allocates whatever a header announces and follows nested arrays to any depth, so a server
// that is not Redis, or a broken proxy, could exhaust the memory of this process.
//
// Options installs it. Use it if you set a Dialer of your own. It does not suit a client
// that also reads large values.
func Guard(dial Dialer) Dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		g := &guarded{Conn: c}
		if s, ok := c.(syscall.Conn); ok { // go-redis looks at the socket before it uses a connection again
			return &guardedSocket{g, s}, nil
		}
		return g, nil
	}
}

// guarded is a connection that counts what arrives after each write. go-redis uses a connection from one
// goroutine at a time, so it needs no mutex.
type guarded struct {
	net.Conn
	left, items int    // bytes and elements that may still arrive
	skip        int    // bytes left of a string
	head        []byte // the line so far, cut at maxHead
	err         error
}

type guardedSocket struct {
	*guarded
	syscall.Conn
}

func (g *guarded) Write(b []byte) (int, error) {
	g.left, g.items = maxReply, maxItems
	return g.Conn.Write(b)
}

func (g *guarded) Read(b []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.Conn.Read(b)
	if g.left -= n; g.left < 0 {
		g.err = fmt.Errorf("the node sent more than %d bytes at once: is this a Redis server?", maxReply)
	} else {
		g.scan(b[:n])
	}
	if g.err != nil {
		return 0, g.err
	}
	return n, err
}

// maxHead is longer than the header of any string or array.
const maxHead = 24

// scan finds the headers in b, which may end anywhere.
func (g *guarded) scan(b []byte) {
	for len(b) > 0 && g.err == nil {
		if g.skip > 0 {
			k := min(g.skip, len(b))
			g.skip, b = g.skip-k, b[k:]
			continue
		}
		line, rest, whole := bytes.Cut(b, []byte{'\n'})
		g.head = append(g.head, line[:min(len(line), maxHead+1-len(g.head))]...)
		if !whole {
			return
		}
		g.take(g.head)
		g.head, b = g.head[:0], rest
	}
}

// take counts what a line announces. go-redis rejects what is not a number.
func (g *guarded) take(line []byte) {
	if len(line) == 0 || !bytes.ContainsRune([]byte("$=!*~>%|"), rune(line[0])) {
		return
	}
	n, err := strconv.Atoi(string(bytes.TrimSuffix(line[1:], []byte{'\r'})))
	switch {
	case len(line) > maxHead:
		g.err = fmt.Errorf("the node sent %q…, which is no RESP: is this a Redis server?", line)
	case err != nil || n < 0:
	case line[0] == '$' || line[0] == '=' || line[0] == '!':
		if g.skip = n + 2; n > maxReply {
			g.err = fmt.Errorf("the node announced %d bytes: is this a Redis server?", n)
		}
	default:
		if g.items -= n; n > maxItems || g.items < 0 {
			g.err = fmt.Errorf("the node announced %d elements: is this a Redis server?", n)
		}
	}
}
