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
	"lockpick/nemesis"
)

// runShaped runs a client on a link with shaped traffic. It returns the read-backs of Shape and
// Unshape and whether the shape had no effect.
func runShaped(t *testing.T, traffic nemesis.Traffic, program func(c *cluster, e client.Env, conn net.Conn) error) (begin, end string, idle bool) {
	t.Helper()
	_, _, _ = simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
			if err != nil {
				return err
			}
			if begin, err = c.Shape("c1-n1", traffic); err != nil {
				return err
			}
			if err := program(c, e, conn); err != nil {
				t.Errorf("%v: %v", traffic, err)
			}
			end, err = c.Unshape("c1-n1", traffic)
			if idle = errors.Is(err, nemesis.ErrIdle); err != nil && !idle {
				return err
			}
			return nil
		})
	})
	return begin, end, idle
}

// timeSets sends n SETs, one after the other, and returns how long each took.
func timeSets(e client.Env, conn net.Conn, n int) (durations []time.Duration, err error) {
	for i := range n {
		start := e.TrueTime()
		if got, err := ask(conn, fmt.Sprintf("SET k%d 1", i)); err != nil || got != "+OK\r\n" {
			return nil, fmt.Errorf("%q, %w", got, err)
		}
		durations = append(durations, e.TrueTime()-start)
	}
	return durations, nil
}

// maxRoundTrip is the maximum duration of an undelayed round trip.
const maxRoundTrip = 2*(minLatency+latencySpread) + 2*quantum

// Messages in one or both directions are delayed by the configured time, and so is the read-back's
// PING.
func TestShapeDelaysMessages(t *testing.T) {
	const ms = time.Millisecond
	for dir, shortest := range map[string]time.Duration{"": 200 * ms, nemesis.Request: 100 * ms, nemesis.Reply: 100 * ms} {
		begin, end, idle := runShaped(t, nemesis.Traffic{Way: dir, DelayMin: 100 * ms, DelayMax: 150 * ms},
			func(c *cluster, e client.Env, conn net.Conn) error {
				durations, err := timeSets(e, conn, 50)
				longest := time.Duration(0)
				for _, d := range durations {
					checkBetween(t, dir+" round trip", d, shortest, shortest*3/2+maxRoundTrip)
					longest = max(longest, d)
				}
				if longest < shortest*5/4 {
					t.Errorf("%q: no round trip took longer than %v", dir, longest)
				}
				return err
			})
		var ping time.Duration
		if _, text, ok := strings.Cut(begin, ": PONG after "); ok {
			ping, _ = time.ParseDuration(text)
		}
		checkBetween(t, begin, ping, shortest, shortest*3/2+maxRoundTrip)
		if want := fmt.Sprintf("hit %d of %[1]d messages; PING through c1-n1: PONG", shortest/(2*ms)); !strings.HasSuffix(end, want) || idle {
			t.Errorf("%q: %s, want %s", dir, end, want)
		}
	}
}

// Messages outside the share are not delayed, and with a heavy tail most delays are short.
func TestDelayShare(t *testing.T) {
	traffic := nemesis.Traffic{Way: nemesis.Reply, DelayMin: time.Millisecond, DelayMax: 10 * time.Second, HeavyTailed: true, Share: 0.5}
	delayed, longDelays := 0, 0
	begin, end, idle := runShaped(t, traffic, func(c *cluster, e client.Env, conn net.Conn) error {
		durations, err := timeSets(e, conn, 400)
		for _, d := range durations {
			if d > maxRoundTrip {
				delayed++
			}
			if d > time.Second {
				longDelays++
			}
		}
		return err
	})
	if delayed < 100 || delayed > 220 || longDelays < 20 || longDelays > 80 {
		t.Errorf("%d of 400 delayed, %d by more than a second", delayed, longDelays)
	}
	if begin != "50 % of the replies are late by 1ms to 10s, few by much" || !strings.Contains(end, " of 400 messages") || idle {
		t.Errorf("%s; %s", begin, end)
	}
}

func TestDelayPreservesOrder(t *testing.T) {
	runShaped(t, nemesis.Traffic{Way: nemesis.Request, DelayMin: time.Millisecond, DelayMax: time.Second},
		func(c *cluster, e client.Env, conn net.Conn) error {
			for i := range 100 {
				fmt.Fprintf(conn, "RPUSH l %d\r\n", i)
				<-e.After(time.Millisecond)
			}
			<-e.After(2 * time.Second)
			list, _ := c.servers[0].node.Do("LRANGE", "l", "0", "-1")
			for i, v := range list.([]any) {
				if v != fmt.Sprint(i) {
					return fmt.Errorf("delivered %v", list)
				}
			}
			if n := len(list.([]any)); n != 100 {
				return fmt.Errorf("%d delivered", n)
			}
			return nil
		})
}

// All of the link's connections share its bandwidth.
func TestBandwidthIsShared(t *testing.T) {
	const rate = 1000
	begin, end, idle := runShaped(t, nemesis.Traffic{Way: nemesis.Request, Bandwidth: rate},
		func(c *cluster, e client.Env, conn net.Conn) error {
			other, err := e.Dial(context.Background(), "tcp", c.addr("n1"))
			if err != nil {
				return err
			}
			start := e.TrueTime()
			for i := range 10 {
				fmt.Fprintf(conn, "SET a%d %s\r\n", i, strings.Repeat("x", 91))
				fmt.Fprintf(other, "SET b%d %s\r\n", i, strings.Repeat("x", 91))
			}
			for _, from := range []net.Conn{conn, other} {
				for n := 0; n < 10*len("+OK\r\n"); {
					got, err := readWithin(from, 5*time.Second)
					if err != nil {
						return err
					}
					n += len(got)
				}
			}
			checkBetween(t, "20 messages of 100 bytes", e.TrueTime()-start, 2*time.Second, 2*time.Second+10*time.Millisecond)
			return nil
		})
	if !strings.Contains(begin, "pass at 1000 bytes/s; PING through c1-n1: PONG after 1") || !strings.Contains(end, "hit 20 of 20") || idle {
		t.Errorf("%s; %s", begin, end)
	}
}

// After a lost message, all later messages on the same connection are lost too. Other connections
// are not affected. The connection is reset when the loss ends.
func TestLostMessageBlocksConnection(t *testing.T) {
	for _, dir := range []string{"", nemesis.Request, nemesis.Reply} {
		var conns []net.Conn
		silentConns := 0
		begin, end, idle := runShaped(t, nemesis.Traffic{Way: dir, Lose: true, Share: 0.3}, func(c *cluster, e client.Env, _ net.Conn) error {
			for range 100 {
				conn, err := e.Dial(context.Background(), "tcp", c.addr("n1"))
				if err != nil {
					return err
				}
				conns = append(conns, conn)
				conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
				if _, err := ask(conn, "SET k 1"); !errors.Is(err, os.ErrDeadlineExceeded) {
					continue
				}
				silentConns++
				if got, err := ask(conn, "SET k 2"); err == nil {
					t.Errorf("%q: a connection that lost a message answered %q", dir, got)
				}
			}
			return nil
		})
		if silentConns < 20 || silentConns > 65 || idle || dir != "" && !strings.Contains(end, fmt.Sprintf("it hit %d of ", silentConns)) {
			t.Errorf("%q: %d of 100 connections lost a message; %s", dir, silentConns, end)
		}
		if !strings.HasPrefix(begin, "30 % of the ") || !strings.HasSuffix(begin, " are lost") {
			t.Errorf("%q: %s", dir, begin)
		}
	}
	runShaped(t, nemesis.Traffic{Lose: true}, func(c *cluster, e client.Env, conn net.Conn) error {
		fmt.Fprint(conn, "SET k 1\r\n")
		c.At(c.Now()+time.Second, func() {
			if _, err := c.Unshape("c1-n1", nemesis.Traffic{Lose: true}); err != nil {
				t.Error(err)
			}
			c.Shape("c1-n1", nemesis.Traffic{Lose: true}) // for the Unshape in runShaped
		})
		start := e.TrueTime()
		if _, err := readWithin(conn, time.Minute); !errors.Is(err, syscall.ECONNRESET) {
			t.Error(err)
		}
		checkBetween(t, "reset", e.TrueTime()-start, time.Second, time.Second+maxRoundTrip)
		return nil
	})
}

// A shape reports that it had no effect if it saw no message or hit none.
func TestShapeWithoutEffect(t *testing.T) {
	for n, want := range map[int]string{0: "it hit 0 of 0 messages", 3: "it hit 0 of 6 messages"} {
		_, end, idle := runShaped(t, nemesis.Traffic{Lose: true, Share: 1e-9}, func(c *cluster, e client.Env, conn net.Conn) error {
			ask(conn, "PING") // not a lock command
			_, err := timeSets(e, conn, n)
			return err
		})
		if !idle || !strings.HasPrefix(end, want) {
			t.Errorf("%d round trips: %s, idle %v", n, end, idle)
		}
	}
}

func TestShapeRejectsInvalidArguments(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		if _, err := c.Shape("c1-n9", nemesis.Traffic{Lose: true}); err == nil {
			t.Error("no error for an unknown link")
		}
		if _, err := c.Unshape("c1-n1", nemesis.Traffic{Lose: true}); err == nil || errors.Is(err, nemesis.ErrIdle) {
			t.Errorf("Unshape on a link without a shape: %v", err)
		}
		return nil
	})
}
