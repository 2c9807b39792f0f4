package redisnode

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"syscall"
)

// What a node may send in answer to what was written last, which is up to 64 commands. The longest reply that a
// lock asks for is that to INFO, some 2 kB.
const (
	maxReply = 64 << 10 // bytes
	maxItems = 256      // elements of arrays, maps and sets, all together
)

// A Dialer is what redis.Options.Dialer has.
type Dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// Guard returns a dialer whose connections fail once a server sends what can't answer a lock's
// commands: more than 64 kB, or the head of a longer string or of an array of more than 256 elements.
// go-redis makes room for as much as a head announces, and follows nested arrays to any depth, so a server
// that is not Redis, or a broken proxy, could take all memory and processor time of this process.
//
// Options has it. It is for those who set a Dialer of their own. A guarded connection suits no client
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

// guarded is a connection that counts what comes in answer to what was written last. go-redis reads and writes a
// connection by one goroutine at a time.
type guarded struct {
	net.Conn
	left, items int    // bytes and elements that may still come
	skip        int    // bytes of a string that are still to come
	head        []byte // the beginning of a line
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

// maxHead is more than any head of a string or an array needs.
const maxHead = 24

// scan follows the heads in b, which may end anywhere.
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

// take counts what a line announces. What is no number is for go-redis to refuse.
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
