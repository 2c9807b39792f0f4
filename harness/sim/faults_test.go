package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/nemesis"
)

// ask sends one inline command and reads one reply.
func ask(conn io.ReadWriter, command string) (string, error) {
	if _, err := fmt.Fprint(conn, command+"\r\n"); err != nil {
		return "", err
	}
	b := make([]byte, 256)
	n, err := conn.Read(b)
	return string(b[:n]), err
}

func checkBetween(t *testing.T, what string, got, from, to time.Duration) {
	t.Helper()
	if got < from || got > to {
		t.Errorf("%s at %v, want %v to %v", what, got, from, to)
	}
}

// The pause in TestPauseStopsClient lasts from pauseStart to pauseEnd. All actions must wait until
// pauseEnd and complete before resumeLimit.
const pauseStart, pauseEnd, resumeLimit = time.Second, 10 * time.Second, 10*time.Second + 10*time.Millisecond

// clientActions are actions that a client is about to perform when it is paused.
var clientActions = map[string]func(ctx context.Context, c *cluster, e client.Env) error{
	"dial": func(ctx context.Context, c *cluster, e client.Env) error {
		<-c.after(2 * time.Second)
		_, err := e.Dial(ctx, "tcp", c.addr("n1"))
		return err
	},
	"write": func(ctx context.Context, c *cluster, e client.Env) error {
		conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
		if err != nil {
			return err
		}
		<-c.after(2 * time.Second)
		_, err = fmt.Fprint(conn, "PING\r\n")
		return err
	},
	"read": func(ctx context.Context, c *cluster, e client.Env) error {
		conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
		if err != nil {
			return err
		}
		<-c.after(pauseStart - c.Now() - 100*time.Microsecond)
		conn.SetReadDeadline(time.Now().Add(time.Second)) // passes during the pause, but after the data has arrived
		reply, err := ask(conn, "PING")
		if reply != "+PONG\r\n" {
			return fmt.Errorf("read %q: %w", reply, err)
		}
		return nil
	},
	"now": func(ctx context.Context, c *cluster, e client.Env) error {
		<-c.after(2 * time.Second)
		e.Now()
		return nil
	},
	"true": func(ctx context.Context, c *cluster, e client.Env) error {
		<-c.after(2 * time.Second)
		e.TrueTime()
		return nil
	},
	"after": func(ctx context.Context, c *cluster, e client.Env) error { <-e.After(2 * time.Second); return nil },
	"at": func(ctx context.Context, c *cluster, e client.Env) error {
		<-c.after(pauseStart / 2)
		e.OnPoint("p")
		return nil
	},
	"emit": func(ctx context.Context, c *cluster, e client.Env) error {
		<-c.after(2 * time.Second)
		e.Emit(history.Event{T: int64(pauseEnd), Process: "c1", Type: history.Info, Op: "x"})
		return nil
	},
}

func TestPauseStopsClient(t *testing.T) {
	for name, act := range clientActions {
		t.Run(name, func(t *testing.T) {
			_, events, _ := simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
				c.At(pauseStart, func() {
					if _, err := c.Pause("c1"); err != nil {
						t.Error(err)
					}
				})
				c.At(pauseEnd, func() {
					if readBack, err := c.Resume("c1"); err != nil || !strings.Contains(readBack, "1 thing waited") {
						t.Error(readBack, err)
					}
				})
				at := func(string) { <-c.after(time.Second) } // the pause begins while the client is at the point
				err := c.run(context.Background(), "c1", at, func(ctx context.Context, e client.Env) error { return act(ctx, c, e) })
				checkBetween(t, "resumed", c.Now(), pauseEnd, resumeLimit)
				return err
			})
			if name == "emit" && len(events) != 1 {
				t.Errorf("events: %v", events)
			}
		})
	}
}

// after returns a channel that is closed once d has passed, even while clients are paused.
func (c *cluster) after(d time.Duration) <-chan struct{} {
	done := make(chan struct{})
	c.At(c.Now()+d, func() { close(done) })
	return done
}

func TestResumeOneAtATime(t *testing.T) {
	simulate(t, testScenario(1, 5), 1, func(c *cluster) error {
		c.At(time.Second, func() { c.Pause("c1") })
		c.At(3*time.Second, func() { c.Resume("c1") })
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			<-c.after(2 * time.Second)
			instants := make(chan int64, 10)
			for i := range 10 {
				go func() {
					if i%2 == 0 {
						e.Now()
					} else if _, err := e.Dial(ctx, "tcp", c.servers[i/2].addr.String()); err != nil {
						t.Error(err)
					}
					instants <- c.now()
				}()
			}
			seen := map[int64]bool{}
			for range 10 {
				seen[<-instants] = true
			}
			if len(seen) != 10 {
				t.Errorf("10 goroutines resumed at %d instants", len(seen))
			}
			return nil
		})
	})
}

func TestKilledClientHasNoEffect(t *testing.T) {
	for _, paused := range []bool{false, true} {
		text, _, _ := simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
			if paused {
				c.At(time.Second/2, func() { c.Pause("c1") })
			}
			c.At(time.Second, func() {
				if readBack, err := c.Kill("c1"); err != nil || !strings.Contains(readBack, "closes 1 connections") {
					t.Error(readBack, err)
				}
			})
			programDone := make(chan struct{})
			err := c.runOneClient(func(ctx context.Context, e client.Env) error {
				defer close(programDone)
				conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
				if err != nil {
					return err
				}
				<-ctx.Done()
				at := c.Now()
				e.Emit(history.Event{Process: "c1", Type: history.Info, Op: "ghost"})
				e.OnPoint("ghost")
				e.TrueTime()
				if _, err := ask(conn, "SET ghost 1"); err == nil {
					t.Error("a dead client wrote")
				}
				if _, err := e.Dial(ctx, "tcp", c.addr("n1")); err == nil {
					t.Error("a dead client dialed")
				}
				if c.Now() != at {
					t.Errorf("a dead client waited from %v to %v", at, c.Now())
				}
				return nil
			})
			checkBetween(t, "run ended", c.Now(), time.Second, time.Second+time.Millisecond)
			<-programDone
			<-c.after(time.Second)
			if n, _ := c.servers[0].node.Do("DBSIZE"); n != int64(0) {
				t.Error("a dead client set a key")
			}
			if !errors.Is(err, harness.ErrKilled) {
				t.Errorf("run client: %v", err)
			}
			return nil
		})
		if text != "" {
			t.Errorf("a dead client recorded %s", text)
		}
	}
}

func TestKilledNodeLosesKeys(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
			if err != nil {
				return err
			}
			ask(conn, "SET k v")
			readBack, err := c.Kill("n1")
			if err != nil || !strings.Contains(readBack, "(keys: 1) was killed; PING: refused") {
				t.Error(readBack, err)
			}
			if _, err := conn.Read(make([]byte, 9)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read: %v", err)
			}
			if _, err := conn.Write([]byte("PING\r\n")); !errors.Is(err, syscall.EPIPE) {
				t.Errorf("write: %v", err)
			}
			if _, err := e.Dial(ctx, "tcp", c.addr("n1")); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("dial: %v", err)
			}
			if _, err := c.Kill("n1"); err == nil {
				t.Error("no error for killing a dead node")
			}
			id := c.servers[0].runID
			readBack, err = c.Restart("n1")
			if err != nil || c.servers[0].runID == id || !strings.Contains(readBack, "was run_id "+id[:8]) || !strings.Contains(readBack, "(keys: 0); PING: PONG") {
				t.Error(readBack, err)
			}
			if conn, err = e.Dial(ctx, "tcp", c.addr("n1")); err != nil {
				return err
			}
			if reply, err := ask(conn, "GET k"); reply != "$-1\r\n" {
				t.Errorf("GET: %q, %v", reply, err)
			}
			return nil
		})
	})
}

// A cut delays messages sent before or during it, in both directions, and preserves their order.
func TestCutHoldsMessages(t *testing.T) {
	_, events, _ := simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		c.At(time.Second, func() {
			if readBack, err := c.Cut("c1-n1", nemesis.CutHold, ""); err != nil || !strings.Contains(readBack, "no answer") {
				t.Error(readBack, err)
			}
		})
		c.At(9*time.Second, func() {
			if readBack, err := c.Mend("c1-n1"); err != nil || !strings.Contains(readBack, "PONG") {
				t.Error(readBack, err)
			}
		})
		defer func() { <-c.after(time.Second) }()
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
			if err != nil {
				return err
			}
			<-e.After(2*time.Second - c.Now())
			for i := range 20 {
				fmt.Fprintf(conn, "RPUSH l %d\r\n", i)
				if i%2 == 0 {
					<-e.After(400 * time.Millisecond) // some messages are sent just before or after the link is restored
				}
			}
			dialCtx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if c.Now() < 9*time.Second {
				_, err = e.Dial(dialCtx, "tcp", c.addr("n1"))
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("dial through a cut: %v", err)
				}
			}
			<-e.After(10*time.Second - c.Now())
			list, _ := c.servers[0].node.Do("LRANGE", "l", "0", "-1")
			if got := fmt.Sprint(list); got != "[0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19]" {
				t.Errorf("delivered %s", got)
			}
			b := make([]byte, 1024)
			n, err := conn.Read(b)
			if strings.Count(string(b[:n]), ":") != 20 {
				t.Errorf("replies %q, %v", b[:n], err)
			}
			fmt.Fprint(conn, "SET k v\r\n")
			return conn.Close()
		})
	})
	if len(events) != 1 || events[0].Type != history.OK || events[0].AnsweredAt != 0 {
		t.Errorf("events: %+v", events)
	}
}

// A held message does not block newer connections. It is delivered even if its client closed the
// connection long before.
func TestTapHoldsMessage(t *testing.T) {
	for _, dir := range []string{nemesis.Request, nemesis.Reply} {
		t.Run(dir, func(t *testing.T) {
			_, events, _ := simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
				var hitTime time.Duration
				err := c.Tap(nemesis.OnMessage{Link: "c1-n1", Message: history.OpSet, Of: dir, Nth: 2}, func(m nemesis.HeldMessage) {
					letThrough := m.Pass
					hitTime = c.Now()
					c.At(5*time.Second, letThrough)
				})
				if err != nil {
					return err
				}
				return c.runOneClient(func(ctx context.Context, e client.Env) error {
					r := open(e, c.addr("n1"), 50*time.Millisecond)
					defer r.Close()
					set := func(key string) error { return r.Set(ctx, key, "v-"+key, 0).Err() }
					if err := set("a"); err != nil {
						return err
					}
					start := e.TrueTime()
					if err := set("b"); err == nil {
						t.Error("the held message was answered")
					}
					checkBetween(t, "timeout", e.TrueTime(), start+50*time.Millisecond, start+51*time.Millisecond)
					checkBetween(t, "hit", hitTime, start+minLatency, start+3*time.Millisecond)
					if err := set("c"); err != nil {
						t.Errorf("a newer connection is blocked: %v", err)
					}
					keyExists := func() any { n, _ := c.servers[0].node.Do("EXISTS", "b"); return n }
					if want := int64(0); dir == nemesis.Request && keyExists() != want {
						t.Error("the held request was applied")
					}
					<-e.After(6*time.Second - c.Now())
					if keyExists() != int64(1) {
						t.Error("the held request was lost")
					}
					return nil
				})
			})
			var keys []string
			for _, e := range events {
				keys = append(keys, fmt.Sprintf("%s %s %v", e.Key, e.Type, e.AnsweredAt > 0))
				if e.Key != "b" {
					continue
				}
				appliedLate := e.AppliedAt > int64(5*time.Second)
				if appliedLate != (dir == nemesis.Request) || e.T < int64(5*time.Second) {
					t.Errorf("held %s: %+v", dir, e)
				}
			}
			if got, want := fmt.Sprint(keys), "[a ok true c ok true b ok false]"; got != want {
				t.Errorf("recorded %s, want %s", got, want)
			}
		})
	}
}

func TestTwoTapsOnOneMessage(t *testing.T) {
	var hits []time.Duration
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		for range 2 {
			err := c.Tap(nemesis.OnMessage{Link: "c1-n1", Message: history.OpSet, Of: nemesis.Reply, Nth: 1}, func(m nemesis.HeldMessage) {
				letThrough := m.Pass
				hits = append(hits, c.Now())
				c.At(c.Now()+time.Second, letThrough)
			})
			if err != nil {
				return err
			}
		}
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			r := open(e, c.addr("n1"), 10*time.Second)
			defer r.Close()
			err := r.Set(ctx, "k", "v", 0).Err()
			checkBetween(t, "answer", e.TrueTime(), 2*time.Second, 2*time.Second+20*time.Millisecond)
			return err
		})
	})
	if len(hits) != 2 || hits[1]-hits[0] < time.Second {
		t.Errorf("hits at %v", hits)
	}
}

// A script that is not in the node's cache is sent twice but counts as one message.
func TestTapCountsScriptsOnce(t *testing.T) {
	script := redis.NewScript(`return redis.call("del",KEYS[1])`)
	for nth, want := range map[int]time.Duration{1: 0, 2: time.Second, 3: 2 * time.Second} {
		for _, dir := range []string{nemesis.Request, nemesis.Reply} {
			var hitTime time.Duration
			simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
				err := c.Tap(nemesis.OnMessage{Link: "c1-n1", Message: history.OpRelease, Of: dir, Nth: nth}, func(m nemesis.HeldMessage) {
					letThrough := m.Pass
					hitTime = c.Now()
					letThrough()
				})
				if err != nil {
					return err
				}
				return c.runOneClient(func(ctx context.Context, e client.Env) error {
					r := open(e, c.addr("n1"), time.Second)
					defer r.Close()
					for i := range 3 {
						<-e.After(time.Duration(i)*time.Second - c.Now())
						if err := script.Run(ctx, r, []string{"k"}, "v").Err(); err != nil {
							t.Error(err)
						}
					}
					return nil
				})
			})
			checkBetween(t, fmt.Sprintf("%s %d", dir, nth), hitTime, want+1, want+20*time.Millisecond)
		}
	}
}

// Commands that have no answer when the run ends are recorded.
func TestOpenCommandsAreRecorded(t *testing.T) {
	for _, ending := range []string{"run ends", "node dies"} {
		_, events, _ := simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
			return c.runOneClient(func(ctx context.Context, e client.Env) error {
				conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
				if err != nil {
					return err
				}
				fmt.Fprint(conn, "SET k v\r\n")
				if ending == "node dies" {
					c.Kill("n1")
					<-e.After(10 * time.Millisecond)
				}
				return nil
			})
		})
		if len(events) != 1 || events[0].Type != history.Info || events[0].Cause != "no answer" || events[0].SentAt == 0 {
			t.Errorf("%s: %+v", ending, events)
		}
	}
}

// A driver that checks idle connections before reusing them notices that a connection has ended, as
// on a real network.
func TestIdleConnectionCheck(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			r := open(e, c.addr("n1"), time.Second)
			defer r.Close()
			for range 3 {
				if err := r.Ping(ctx).Err(); err != nil {
					t.Error(err)
				}
				c.Kill("n1")
				<-e.After(10 * time.Millisecond) // until the end of the connection arrives
				c.Restart("n1")
			}
			return nil
		})
	})
}
