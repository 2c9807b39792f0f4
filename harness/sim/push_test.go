package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"lockpick/harness/client"
)

// Pushes are sent like all other data: they have a latency, wait for a cut to end and for the disk,
// stay in order, and are reproducible.
func TestPushesArriveInOrder(t *testing.T) {
	const invalidation = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
	run := func(persistence string) (string, uint64) {
		var log []string
		s := testScenario(2, 1)
		s.Topology.Persistence = persistence
		_, _, digest := simulate(t, s, 1, func(c *cluster) error {
			return c.runOneClient(func(ctx context.Context, e client.Env) error {
				conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
				if err != nil {
					return err
				}
				defer conn.Close()
				checkPushes := func(what string, want string, shortest, longest time.Duration) {
					start := e.TrueTime()
					text, err := readAvailable(conn, 2*time.Second)
					elapsed := e.TrueTime() - start
					log = append(log, fmt.Sprintf("%s: %v %q %v", what, elapsed, text, err))
					if text != want || want != "" && (elapsed < shortest || elapsed > longest) {
						t.Errorf("%s: %q after %v, want %q after %v to %v", what, text, elapsed, want, shortest, longest)
					}
				}
				fmt.Fprint(conn, "HELLO 3\r\n")
				readAvailable(conn, time.Second)
				fmt.Fprint(conn, "CLIENT TRACKING ON\r\nGET k\r\n")
				checkPushes("replies", "+OK\r\n_\r\n", 2*minLatency, 10*time.Millisecond)
				c.do(t, "n1", "SET", "k", "v", "PX", "1000")
				checkPushes("another client's write", invalidation, minLatency, 5*time.Millisecond)
				fmt.Fprint(conn, "GET k\r\n")
				checkPushes("a reply", "$1\r\nv\r\n", 2*minLatency, 10*time.Millisecond)
				checkPushes("the expiry, at the next tick", invalidation, 900*time.Millisecond, 1110*time.Millisecond)
				fmt.Fprint(conn, "GET k\r\nSUBSCRIBE c\r\n")
				checkPushes("replies", "_\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n", 2*minLatency, 10*time.Millisecond)
				if _, err := c.Cut("c1-n1", "hold", ""); err != nil {
					return err
				}
				c.do(t, "n1", "SET", "k", "w")
				c.do(t, "n1", "PUBLISH", "c", "x")
				checkPushes("through a cut", "", 0, 0) // wait for longer than a tick, which a node waiting for its disk may need
				if _, err := c.Mend("c1-n1"); err != nil {
					return err
				}
				checkPushes("after the link is restored", invalidation+">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n", minLatency, 5*time.Millisecond)
				conn.Close()
				<-e.After(100 * time.Millisecond)
				if n := c.do(t, "n1", "PUBLISH", "c", "x"); n != int64(0) {
					t.Errorf("PUBLISH reached %v subscribers although none is connected", n)
				}
				return nil
			})
		})
		return strings.Join(log, "\n"), digest
	}
	for _, persistence := range []string{"none", "always"} {
		log, digest := run(persistence)
		for range 3 {
			if repeated, d := run(persistence); repeated != log || d != digest {
				t.Errorf("the same run differs:\n%s\n%x\n%s\n%x", log, digest, repeated, d)
			}
		}
	}
}

// A connection that another client kills is closed, and later commands on it are not executed.
func TestKilledConnectionIsClosed(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			first, err1 := e.Dial(ctx, "tcp", c.addr("n1"))
			second, err2 := e.Dial(ctx, "tcp", c.addr("n1"))
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			defer second.Close()
			fmt.Fprint(first, "CLIENT ID\r\nPING\r\n")
			id, _ := readAvailable(first, time.Second)
			id, _, _ = strings.Cut(strings.TrimPrefix(id, ":"), "\r")
			for _, want := range []string{":1\r\n", ":0\r\n"} {
				fmt.Fprintf(second, "CLIENT KILL ID %s\r\n", id)
				if got, _ := readAvailable(second, time.Second); got != want {
					t.Errorf("CLIENT KILL: %q, want %q", got, want)
				}
				fmt.Fprint(first, "SET k v\r\n")
			}
			if text, err := readAvailable(first, time.Second); text != "" || !errors.Is(err, io.EOF) {
				t.Errorf("killed connection: %q, %v", text, err)
			}
			first.Close()
			if v := c.do(t, "n1", "GET", "k"); v != nil {
				t.Errorf("a killed connection set k to %v", v)
			}
			return nil
		})
	})
}

// readAvailable waits up to timeout for data and then reads until no more data arrives.
func readAvailable(conn net.Conn, timeout time.Duration) (string, error) {
	all, buf := "", make([]byte, 1024)
	for {
		conn.SetReadDeadline(time.Now().Add(timeout))
		n, err := conn.Read(buf)
		if all += string(buf[:n]); err != nil {
			if all != "" && errors.Is(err, os.ErrDeadlineExceeded) {
				err = nil
			}
			return all, err
		}
		timeout = 3 * time.Millisecond
	}
}
