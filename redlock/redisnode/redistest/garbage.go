package redistest

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Handler serves one connection to a server, starting when the first byte of a request has arrived.
// The server closes the connection when the Handler returns. gone is closed when the client closes
// the connection.
type Handler func(c net.Conn, gone <-chan struct{})

// Serve starts a server that runs handler on each connection and discards all further input. It
// returns the server's address.
func Serve(t testing.TB, handler Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			go func() {
				defer c.Close()
				if _, err := c.Read(make([]byte, 1)); err != nil {
					return
				}
				gone := make(chan struct{})
				go func() {
					io.Copy(io.Discard, c)
					c.Close() // unblocks the handler if it is writing
					close(gone)
				}()
				handler(c, gone)
			}()
		}
	}()
	return l.Addr().String()
}

// Hang never replies.
func Hang(_ net.Conn, gone <-chan struct{}) { <-gone }

// Drop closes the connection without a reply.
func Drop(net.Conn, <-chan struct{}) {}

// Garbage contains Handlers by name. They send data that Redis never sends to a lock, until the
// connection is closed.
var Garbage = map[string]Handler{
	"endless string":   flood("$2147483640\r\n", strings.Repeat("x", 4<<10)),
	"endless status":   flood("+", strings.Repeat("x", 4<<10)),
	"endless error":    flood("-ERR ", strings.Repeat("x", 4<<10)),
	"endless number":   flood(":", strings.Repeat("1", 4<<10)),
	"endless header":   flood("*", strings.Repeat("0", 4<<10)),
	"no type":          flood("", strings.Repeat("\x00\xff\n", 1<<10)),
	"huge array":       flood("*100000000\r\n", strings.Repeat(":1\r\n", 1<<10)),
	"huge set":         flood("~100000000\r\n", strings.Repeat(":1\r\n", 1<<10)),
	"huge map":         flood("%100000000\r\n", strings.Repeat(":1\r\n", 1<<10)),
	"huge attribute":   flood("|100000000\r\n", strings.Repeat(":1\r\n", 1<<10)),
	"nested arrays":    flood("", strings.Repeat("*1\r\n", 1<<10)),
	"arrays of arrays": flood("", strings.Repeat("*200\r\n", 1<<10)),
	"many replies":     flood("", strings.Repeat("*3\r\n:1\r\n+a\r\n$1\r\nb\r\n", 200)),
	"half a reply":     func(c net.Conn, gone <-chan struct{}) { io.WriteString(c, "$2\r\nO"); <-gone },
	"slow drip": func(c net.Conn, _ <-chan struct{}) {
		for beat := time.Tick(5 * time.Millisecond); ; <-beat {
			if _, err := io.WriteString(c, "+"); err != nil {
				return
			}
		}
	},
}

// flood returns a Handler that writes head once, then body over and over.
func flood(head, body string) Handler {
	chunk := bytes.Repeat([]byte(body), 8)
	return func(c net.Conn, _ <-chan struct{}) {
		_, err := io.WriteString(c, head)
		for err == nil {
			_, err = c.Write(chunk)
		}
	}
}
