package redisnode_test

import (
	"context"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/redlock/driver"
	"lockpick/redlock/redisnode"
	"lockpick/redlock/redisnode/redistest"
	"lockpick/redlock/wire"
)

// Whatever a server sends, both drivers return an error and use little memory. They stop reading
// endless replies before the deadline.
func TestGarbage(t *testing.T) {
	for name, garbage := range redistest.Garbage {
		for _, kind := range []string{"go-redis", "wire"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				n, closer := openDriver(kind, redistest.Serve(t, garbage))
				defer closer.Close()
				slow := name == "half a reply" || name == "slow drip"
				timeout := time.Minute
				if slow {
					timeout = 50 * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), timeout)
				defer cancel()
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				start := time.Now()
				yes, err := n.Set(ctx, "k", "a", time.Minute)
				elapsed := time.Since(start)
				runtime.ReadMemStats(&after)
				if yes || err == nil || len(err.Error()) > 1<<10 {
					t.Errorf("set: %v, %.2000v; want a short error", yes, err)
				}
				if elapsed > 10*time.Second {
					t.Errorf("took %v", elapsed)
				}
				if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 4<<20 {
					t.Errorf("allocated %d kB", bytes>>10)
				}
			})
		}
	}
}

// openDriver returns a node that uses the given driver, and its closer.
func openDriver(kind, addr string) (driver.Node, io.Closer) {
	if kind == "wire" {
		n := wire.New(wire.Options{Addr: addr})
		return n, n
	}
	c := redis.NewClient(redisnode.Options(addr))
	return redisnode.New(c), c
}

// Valid Redis replies pass through a guarded connection unchanged, however they are split into
// reads.
func TestGuardPassesValidReplies(t *testing.T) {
	long := strings.Repeat("x", 4<<10)
	replies := "+OK\r\n$-1\r\n:1\r\n-ERR wrong\r\n*-1\r\n$5\r\n*9\r\n$\r\n*2\r\n$3\r\n%99\r\n:1\r\n$4096\r\n" + long + "\r\n%1\r\n+modules\r\n*0\r\n_\r\n"
	for _, cut := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
		c, err := redisnode.Guard(func(context.Context, string, string) (net.Conn, error) {
			return &scriptedConn{r: cut(strings.NewReader(strings.Repeat(replies, 10)))}, nil
		})(t.Context(), "tcp", "n:1")
		if err != nil {
			t.Fatal(err)
		}
		c.Write([]byte("PING\r\n"))
		if got, err := io.ReadAll(c); err != nil || string(got) != strings.Repeat(replies, 10) {
			t.Errorf("read %d bytes, %v; want all replies unchanged", len(got), err)
		}
	}
}

// A guarded connection adds up the elements announced by all replies to one write, even if headers
// are split across reads.
func TestGuardRejectsLargeReplies(t *testing.T) {
	for sent, want := range map[string]string{
		"+OK\r\n$65537\r\n":                "announced 65537 bytes",
		"!99999\r\n":                       "announced 99999 bytes",
		"*257\r\n":                         "announced 257 elements",
		"$3\r\n*99\r\n*300\r\n":            "announced 300 elements",
		strings.Repeat("*200\r\n", 2):      "announced 200 elements",
		strings.Repeat("*1\r\n", 300):      "announced 1 elements",
		"%+300\r\n":                        "announced 300 elements",
		"*" + strings.Repeat("0", 30):      "",
		"*000000000000000000000000300\r\n": "not RESP",
		strings.Repeat("+x\r\n", 20000):    "more than 65536 bytes",
	} {
		for _, cut := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader} {
			c, err := redisnode.Guard(func(context.Context, string, string) (net.Conn, error) {
				return &scriptedConn{r: cut(strings.NewReader(sent))}, nil
			})(t.Context(), "tcp", "n:1")
			if err != nil {
				t.Fatal(err)
			}
			c.Write([]byte("PING\r\n"))
			_, err = io.ReadAll(c)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%.40q: %v; want %q", sent, err, want)
			}
			if _, second := c.Read(make([]byte, 1)); want != "" && second != err {
				t.Errorf("%.40q: second read returned %v", sent, second)
			}
		}
	}
}

// scriptedConn reads from r and discards all writes.
type scriptedConn struct {
	net.Conn
	r io.Reader
}

func (c *scriptedConn) Read(b []byte) (int, error)  { return c.r.Read(b) }
func (c *scriptedConn) Write(b []byte) (int, error) { return len(b), nil }
