package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/nemesis"
)

// readWithin reads once and fails if no data arrives within the timeout.
func readWithin(conn net.Conn, timeout time.Duration) (string, error) {
	conn.SetReadDeadline(time.Now().Add(timeout))
	b := make([]byte, 256)
	n, err := conn.Read(b)
	return string(b[:n]), err
}

// recordedSets lists the SET commands recorded on links, in order.
func recordedSets(events []history.Event) string {
	var lines []string
	for _, e := range events {
		if e.Op == history.OpSet {
			lines = append(lines, fmt.Sprintf("%s %s applied %v answered %v", e.Key, e.Type, e.AppliedAt > 0, e.AnsweredAt > 0))
		}
	}
	return strings.Join(lines, "; ")
}

// A message dropped by a cut is lost: its connection stays silent during the cut and is reset when
// the cut ends. A connection that sent nothing in the meantime survives.
func TestCutDropsMessages(t *testing.T) {
	for dir, want := range map[string]struct{ ping, wire string }{
		"":              {"no answer", "a info applied false answered false; c ok applied true answered true"},
		nemesis.Request: {"no answer", "a info applied false answered false; c ok applied true answered true"},
		nemesis.Reply:   {"no answer, though the node gave one: PONG", "a ok applied true answered false; c ok applied true answered true"},
	} {
		_, events, _ := simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
			defer func() { <-c.after(time.Second) }()
			return c.runOneClient(func(ctx context.Context, e client.Env) error {
				var conns []net.Conn
				for range 2 {
					conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
					if err != nil {
						return err
					}
					conns = append(conns, conn)
				}
				activeConn, idleConn := conns[0], conns[1]
				if readBack, err := c.Cut("c1-n1", nemesis.CutDrop, dir); err != nil || !strings.HasSuffix(readBack, ": "+want.ping) {
					t.Error(dir, readBack, err)
				}
				fmt.Fprint(activeConn, "SET a 1\r\n")
				if got, err := readWithin(activeConn, time.Second); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("%q: during the cut: %q, %v", dir, got, err)
				}
				dialCtx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				if _, err := e.Dial(dialCtx, "tcp", c.addr("n1")); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%q: dial during the cut: %v", dir, err)
				}
				if readBack, err := c.Mend("c1-n1"); err != nil || !strings.HasSuffix(readBack, ": PONG") {
					t.Error(dir, readBack, err)
				}
				if got, err := readWithin(activeConn, time.Second); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("%q: after the cut: %q, %v", dir, got, err)
				}
				fmt.Fprint(idleConn, "SET c 1\r\n")
				if got, err := readWithin(idleConn, time.Second); got != "+OK\r\n" {
					t.Errorf("%q: idle connection: %q, %v", dir, got, err)
				}
				return nil
			})
		})
		if got := recordedSets(events); got != want.wire {
			t.Errorf("%q: recorded %s, want %s", dir, got, want.wire)
		}
	}
}

// A one-way cut that holds messages affects only one direction and loses nothing.
func TestCutHoldsOneWay(t *testing.T) {
	for dir, applied := range map[string]int64{nemesis.Request: 0, nemesis.Reply: 1} {
		_, events, _ := simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
			return c.runOneClient(func(ctx context.Context, e client.Env) error {
				conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
				if err != nil {
					return err
				}
				if readBack, err := c.Cut("c1-n1", nemesis.CutHold, dir); err != nil || strings.Contains(readBack, "though") != (dir == nemesis.Reply) {
					t.Error(dir, readBack, err)
				}
				fmt.Fprint(conn, "SET a 1\r\n")
				if got, err := readWithin(conn, time.Second); err == nil {
					t.Errorf("%s: during the cut: %q", dir, got)
				}
				if n, _ := c.servers[0].node.Do("EXISTS", "a"); n != applied {
					t.Errorf("%s: the node has %v keys during the cut, want %d", dir, n, applied)
				}
				if _, err := c.Mend("c1-n1"); err != nil {
					t.Error(err)
				}
				if got, err := readWithin(conn, time.Second); got != "+OK\r\n" {
					t.Errorf("%s: after the cut: %q, %v", dir, got, err)
				}
				return nil
			})
		})
		if got := recordedSets(events); got != "a ok applied true answered true" {
			t.Errorf("%s: recorded %s", dir, got)
		}
	}
}

// A cut that resets connections ends all existing connections and every new one.
func TestCutResetsConnections(t *testing.T) {
	_, events, _ := simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
			if err != nil {
				return err
			}
			if readBack, err := c.Cut("c1-n1", nemesis.CutReset, ""); err != nil || !strings.HasSuffix(readBack, ": reset") {
				t.Error(readBack, err)
			}
			fmt.Fprint(conn, "SET a 1\r\n")
			if got, err := readWithin(conn, time.Second); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("old connection: %q, %v", got, err)
			}
			if conn, err = e.Dial(ctx, "tcp", c.addr("n1")); err == nil {
				conn.Write([]byte("SET b 1\r\n"))
				_, err = readWithin(conn, time.Second)
			}
			if !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("new connection: %v", err)
			}
			c.Mend("c1-n1")
			if conn, err = e.Dial(ctx, "tcp", c.addr("n1")); err != nil {
				return err
			}
			if got, err := ask(conn, "SET c 1"); got != "+OK\r\n" {
				t.Errorf("after the cut: %q, %v", got, err)
			}
			return nil
		})
	})
	if got := recordedSets(events); got != "a info applied false answered false; b info applied false answered false; c ok applied true answered true" {
		t.Errorf("recorded %s", got)
	}
}

// A cut that refuses connections doesn't affect existing ones.
func TestCutRefusesConnections(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
			if err != nil {
				return err
			}
			if readBack, err := c.Cut("c1-n1", nemesis.CutRefuse, ""); err != nil || !strings.HasSuffix(readBack, ": refused") {
				t.Error(readBack, err)
			}
			if got, err := ask(conn, "SET a 1"); got != "+OK\r\n" {
				t.Errorf("old connection: %q, %v", got, err)
			}
			if _, err := e.Dial(ctx, "tcp", c.addr("n1")); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("new connection: %v", err)
			}
			c.Mend("c1-n1")
			_, err = e.Dial(ctx, "tcp", c.addr("n1"))
			return err
		})
	})
}

func TestCutRejectsInvalidArguments(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		for _, args := range [][3]string{{"c1-n9", "", ""}, {"c1-n1", "saw", ""}, {"c1-n1", nemesis.CutReset, nemesis.Reply}} {
			if _, err := c.Cut(args[0], args[1], args[2]); err == nil {
				t.Errorf("no error for Cut(%v)", args)
			}
		}
		if _, err := c.Mend("c1-n1"); err == nil {
			t.Error("no error for mending a link that is not cut")
		}
		return nil
	})
}

// A tap that drops its message resets the connection at once.
func TestTapDropsMessage(t *testing.T) {
	for dir, want := range map[string]string{
		nemesis.Request: "a info applied false answered false; b ok applied true answered true",
		nemesis.Reply:   "a ok applied true answered false; b ok applied true answered true",
	} {
		_, events, _ := simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
			err := c.Tap(nemesis.OnMessage{Link: "c1-n1", Message: history.OpSet, Of: dir, Nth: 1}, func(m nemesis.HeldMessage) {
				m.Lose()
				m.Lose() // a second call has no effect
			})
			if err != nil {
				return err
			}
			return c.runOneClient(func(ctx context.Context, e client.Env) error {
				conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
				if err != nil {
					return err
				}
				fmt.Fprint(conn, "SET a 1\r\nGET a\r\n")
				if got, err := readWithin(conn, time.Second); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("%s: %q, %v", dir, got, err)
				}
				if conn, err = e.Dial(ctx, "tcp", c.addr("n1")); err != nil {
					return err
				}
				if got, err := ask(conn, "SET b 1"); got != "+OK\r\n" {
					t.Errorf("%s: the next connection: %q, %v", dir, got, err)
				}
				return nil
			})
		})
		if got := recordedSets(events); got != want {
			t.Errorf("%s: recorded %s, want %s", dir, got, want)
		}
	}
}
