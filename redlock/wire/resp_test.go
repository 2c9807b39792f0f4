package wire

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/iotest"
)

// chunkedConn is a connection that reads from r, which may return small pieces.
type chunkedConn struct {
	net.Conn
	r io.Reader
}

func (c chunkedConn) Read(b []byte) (int, error) { return c.r.Read(b) }

// readAll returns all replies in a stream.
func readAll(from io.Reader) (out []string) {
	in := &replyReader{c: chunkedConn{r: from}, buf: make([]byte, 4<<10)}
	for {
		cut, err := in.readAvailable()
		for _, r := range cut {
			out = append(out, fmt.Sprint(r.value, r.err, r.items))
		}
		if err != nil {
			return append(out, err.Error())
		}
	}
}

// A stream yields the same replies however it is split into reads, and no more replies than its
// length allows.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{"+OK\r\n:1\r\n$-1\r\n-ERR no\r\n", "*2\r\n:1\r\n-WRONGTYPE x\r\n", "$3\r\nabc\r\n:5\r\n", "$0\r\n\r\n", ":1\n", "*-1\r\n", "$99999999999\r\n", "\r\n", ":\r\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 4<<10 {
			return // whether a line fills the buffer would depend on the size of reads
		}
		atOnce, single := readAll(bytes.NewReader(b)), readAll(iotest.OneByteReader(bytes.NewReader(b)))
		if fmt.Sprint(atOnce) != fmt.Sprint(single) {
			t.Errorf("%q: %v when read at once, %v when read byte by byte", b, atOnce, single)
		}
		if len(atOnce) > len(b)/3+1 {
			t.Errorf("%q: %d replies in %d bytes", b, len(atOnce)-1, len(b))
		}
	})
}

func TestParse(t *testing.T) {
	for b, want := range map[string]string{
		"+OK\r\n":            "1 <nil> 0 5 <nil>",
		":42\r\n:1":          "42 <nil> 0 5 <nil>",
		":0\r\n":             "0 <nil> 0 4 <nil>",
		":-1\r\n":            "-1 <nil> 0 5 <nil>",
		"$-1\r\n":            "0 <nil> 0 5 <nil>",
		"$2\r\nab\r\n+":      "1 <nil> 0 8 <nil>",
		"$2\r\nab\r":         "0 <nil> 0 0 incomplete",
		"-ERR no\r\n":        "0 ERR no 0 9 <nil>",
		"*64\r\n:1\r\n":      "0 <nil> 64 5 <nil>",
		"*65\r\n":            `0 <nil> 0 0 the node sent "*65", which is not a valid reply`,
		"*0\r\n":             `0 <nil> 0 0 the node sent "*0", which is not a valid reply`,
		"$1025\r\n":          `0 <nil> 0 0 the node sent "$1025", which is not a valid reply`,
		"%1\r\n+a\r\n:1\r\n": `0 <nil> 0 0 the node sent "%1", which is not a valid reply`,
		"":                   "0 <nil> 0 0 incomplete",
	} {
		r, size, err := parse([]byte(b))
		if got := fmt.Sprint(r.value, " ", r.err, " ", r.items, " ", size, " ", err); got != want {
			t.Errorf("%q: %s, want %s", b, got, want)
		}
	}
}
