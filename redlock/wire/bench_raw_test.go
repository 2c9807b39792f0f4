//go:build bench && linux

package wire_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/redlock/driver"
)

// rawConns contains connections for sending SET and EVALSHA without a lock.
type rawConns struct {
	conns []net.Conn
	in    []*bufio.Reader
}

func newRaw(t *testing.T, addrs []string) *rawConns {
	x := &rawConns{}
	for _, addr := range addrs {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		x.conns, x.in = append(x.conns, c), append(x.in, bufio.NewReaderSize(c, 1<<16))
		fmt.Fprintf(c, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n$%d\r\n%s\r\n", len(driver.Release.Text), driver.Release.Text)
		x.in[len(x.in)-1].ReadString('\n')
		x.in[len(x.in)-1].ReadString('\n')
	}
	return x
}

// commands returns the commands that set and release the given number of keys.
func commands(name string, keys int) (set, release []byte) {
	words := func(b []byte, words ...string) []byte {
		b = fmt.Appendf(b, "*%d\r\n", len(words))
		for _, w := range words {
			b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(w), w)
		}
		return b
	}
	token := strings.Repeat("ab", 20)
	for i := range keys {
		key := fmt.Sprint(name, i)
		set = words(set, "SET", key, token, "NX", "PX", "10000")
		release = words(release, "EVALSHA", driver.Release.SHA, "1", key, token)
	}
	return set, release
}

// measureBound repeatedly sets and releases the given number of keys on each connection, with one
// batch in flight, and returns the number of pairs per connection.
func (x *rawConns) measureBound(t *testing.T, keys int, d time.Duration) (pairs int) {
	set, release := commands("raw", keys)
	both := append(set, release...)
	var wg sync.WaitGroup
	var mu sync.Mutex
	start := time.Now()
	for i, c := range x.conns {
		wg.Go(func() {
			n, ahead := 0, 0
			for time.Since(start) < d || ahead > 0 {
				if time.Since(start) < d {
					c.Write(both)
					ahead++
				}
				if ahead == 1 && keys > 1 && time.Since(start) < d {
					continue
				}
				for range 2 * keys {
					if line, err := x.in[i].ReadSlice('\n'); err != nil || line[0] == '-' {
						t.Errorf("raw: %s %v", line, err)
						return
					}
				}
				ahead, n = ahead-1, n+keys
			}
			mu.Lock()
			pairs += n
			mu.Unlock()
		})
	}
	wg.Wait()
	return pairs / len(x.conns)
}

// roundTrips returns a pair that writes to all nodes and reads their replies, twice, and does
// nothing else. Only one goroutine may use it.
func (x *rawConns) roundTrips() pair {
	set, release := commands("trip", 1)
	return func(string) error {
		for _, b := range [][]byte{set, release} {
			for _, c := range x.conns {
				if _, err := c.Write(b); err != nil {
					return err
				}
			}
			for _, in := range x.in {
				if _, err := in.ReadSlice('\n'); err != nil {
					return err
				}
			}
		}
		return nil
	}
}
