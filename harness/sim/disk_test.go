package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/scenario"
)

func persistentScenario(fsync string) scenario.Scenario {
	s := testScenario(1, 1)
	s.Topology.Persistence = fsync
	return s
}

// mustSucceed returns a function that fails the test unless a fault was injected and its read-back
// contains want.
func mustSucceed(t *testing.T, want string) func(readBack string, err error) {
	return func(readBack string, err error) {
		t.Helper()
		if err != nil || !strings.Contains(readBack, want) {
			t.Errorf("read-back %q, error %v, want read-back %q", readBack, err, want)
		}
	}
}

// mustFail returns a function that fails the test unless injecting a fault failed with an error
// that contains want.
func mustFail(t *testing.T, want string) func(readBack string, err error) {
	return func(readBack string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("read-back %q, error %v, want error %q", readBack, err, want)
		}
	}
}

// Each policy preserves different data. One key is set at 0.3 s and another at 1.3 s. Under
// everysec, the first write is synced once the wall clock shows the next second.
func TestPersistence(t *testing.T) {
	const early, late, earlyAndLate, none = "early", "late", "early late", ""
	for name, tt := range map[string]struct {
		policy string
		fault  func(c *cluster, t *testing.T)
		want   string
	}{
		"none, kill":           {"none", kill, none},
		"everysec, kill":       {"everysec", kill, earlyAndLate},
		"everysec, power loss": {"everysec", losePower, early},
		"everysec, torn":       {"everysec", losePowerTorn, early},
		"everysec, shutdown":   {"everysec", shutDown, earlyAndLate},
		"always, kill":         {"always", kill, earlyAndLate},
		"always, power loss":   {"always", losePower, earlyAndLate},
		"no, kill":             {"no", kill, earlyAndLate},
		"no, power loss":       {"no", losePower, none},
		"no, shutdown":         {"no", shutDown, earlyAndLate},
	} {
		t.Run(name, func(t *testing.T) {
			simulate(t, persistentScenario(tt.policy), 1, func(c *cluster) error {
				<-c.after(300 * time.Millisecond)
				c.do(t, "n1", "SET", early, "1", "PX", "60000")
				<-c.after(1300*time.Millisecond - c.Now())
				c.do(t, "n1", "EVAL", "return redis.call('set',KEYS[1],'1','px',60000)", "1", late)
				<-c.after(50 * time.Millisecond)
				tt.fault(c, t)
				mustFail(t, "down")(c.Shutdown("n1"))
				mustSucceed(t, "PING: PONG")(c.Restart("n1"))
				var got []string
				for _, key := range []string{early, late} {
					if c.do(t, "n1", "EXISTS", key) == int64(1) {
						got = append(got, key)
						if remaining := c.do(t, "n1", "PTTL", key).(int64); remaining > 60000 || remaining < 58000 {
							t.Errorf("%s expires in %d ms", key, remaining)
						}
					}
				}
				if s := strings.Join(got, " "); s != tt.want {
					t.Errorf("keys after the restart: %q, want %q", s, tt.want)
				}
				return nil
			})
		})
	}
}

func kill(c *cluster, t *testing.T)      { mustSucceed(t, "PING: refused")(c.Kill("n1")) }
func losePower(c *cluster, t *testing.T) { mustSucceed(t, "PING: no answer")(c.LosePower("n1", false)) }
func losePowerTorn(c *cluster, t *testing.T) {
	mustSucceed(t, "lost 1 records, the first")(c.LosePower("n1", true))
}
func shutDown(c *cluster, t *testing.T) { mustSucceed(t, "PING: refused")(c.Shutdown("n1")) }

func TestExpiryWhilePoweredOff(t *testing.T) {
	simulate(t, persistentScenario("always"), 1, func(c *cluster) error {
		c.do(t, "n1", "SET", "k", "v", "PX", "10000")
		<-c.after(time.Second)
		losePower(c, t)
		<-c.after(9100 * time.Millisecond)
		mustSucceed(t, "(keys: 0)")(c.Restart("n1"))
		return nil
	})
}

// The policy everysec relies on the wall clock: if the clock is set back by an hour, nothing is
// synced for an hour.
func TestEverySecUsesWallClock(t *testing.T) {
	for _, offset := range []time.Duration{0, -time.Hour} {
		simulate(t, persistentScenario("everysec"), 1, func(c *cluster) error {
			<-c.after(1500 * time.Millisecond)
			c.TurnClock("n1", offset, 1)
			c.do(t, "n1", "SET", "k", "v")
			<-c.after(5 * time.Second)
			losePower(c, t)
			c.Restart("n1")
			if survived := c.do(t, "n1", "DBSIZE") == int64(1); survived != (offset == 0) {
				t.Errorf("clock moved by %v: key survived: %v", offset, survived)
			}
			return nil
		})
	}
}

// While a sync hangs, everysec postpones writes for up to two seconds by the clock. A process
// killed during this time loses them.
func TestSlowDiskEverySec(t *testing.T) {
	for name, tt := range map[string]struct {
		killDelay, freeDelay time.Duration // since the second write; 0: never
		wantKeys             int64
	}{
		"killed at once":     {100 * time.Millisecond, 0, 1},
		"killed later":       {3200 * time.Millisecond, 0, 2},
		"the sync completed": {time.Second, 500 * time.Millisecond, 2},
	} {
		simulate(t, persistentScenario("everysec"), 1, func(c *cluster) error {
			<-c.after(1100 * time.Millisecond)
			mustSucceed(t, "fsync: does not come back")(c.StallSync("n1"))
			mustSucceed(t, "touched = 1")(c.Touch("n1")) // its sync hangs
			<-c.after(1100 * time.Millisecond)
			c.do(t, "n1", "SET", "k", "v")
			if tt.freeDelay > 0 {
				c.At(c.Now()+tt.freeDelay, func() { mustSucceed(t, "fsync: ok")(c.FreeDisk("n1")) })
			}
			<-c.after(tt.killDelay)
			kill(c, t)
			if readBack, err := c.Restart("n1"); err != nil || !strings.Contains(readBack, fmt.Sprintf("(keys: %d)", tt.wantKeys)) {
				t.Errorf("%s: %s, %v", name, readBack, err)
			}
			return nil
		})
	}
}

// Under always, a reply waits for its sync, and so do all other clients.
func TestSlowDiskAlways(t *testing.T) {
	simulate(t, persistentScenario("always"), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			writer, err1 := e.Dial(ctx, "tcp", c.addr("n1"))
			reader, err2 := e.Dial(ctx, "tcp", c.addr("n1"))
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			start := c.Now()
			if reply, err := ask(writer, "SET k v"); reply != "+OK\r\n" {
				t.Errorf("SET: %q, %v", reply, err)
			}
			checkBetween(t, "answered", c.Now()-start, 2*minLatency+minSync, 2*(minLatency+latencySpread)+minSync+syncSpread+100*time.Microsecond)
			mustSucceed(t, "touched = 1")(c.Touch("n1"))
			mustSucceed(t, "touched = 2")(c.Touch("n1")) // waits for the first Touch's sync
			c.StallSync("n1")
			fmt.Fprintf(writer, "SET k w\r\n")
			<-e.After(10 * time.Millisecond)
			for _, conn := range []io.ReadWriter{writer, reader} {
				if conn == reader {
					fmt.Fprintf(conn, "GET k\r\n")
				}
			}
			reader.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := reader.Read(make([]byte, 9)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("GET while the disk hangs: %v", err)
			}
			mustFail(t, "does not answer")(c.Touch("n1"))
			mustFail(t, "does not answer")(c.Shutdown("n1"))
			c.At(5*time.Second, func() { c.FreeDisk("n1") })
			reader.SetReadDeadline(time.Time{})
			b := make([]byte, 99)
			n, err := reader.Read(b)
			if string(b[:n]) != "$1\r\nw\r\n" || c.Now() < 5*time.Second || c.Now() > 5*time.Second+10*time.Millisecond {
				t.Errorf("GET: %q, %v at %v", b[:n], err, c.Now())
			}
			// A write whose sync hangs is not acknowledged and doesn't survive a power loss.
			c.StallSync("n1")
			fmt.Fprintf(writer, "SET k x\r\n")
			<-e.After(10 * time.Millisecond)
			losePower(c, t)
			c.FreeDisk("n1")
			c.Restart("n1")
			if v := c.do(t, "n1", "GET", "k"); v != "w" {
				t.Errorf("value after the power loss: %v", v)
			}
			return nil
		})
	})
}

// With a full disk, a node with everysec refuses writes until there is space, and a node with
// always exits.
func TestFullDisk(t *testing.T) {
	simulate(t, persistentScenario("everysec"), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
			if err != nil {
				return err
			}
			mustSucceed(t, "No space left")(c.FillDisk("n1"))
			const misconf = "-MISCONF Errors writing to the AOF file: No space left on device"
			for _, tt := range [][2]string{
				{"SET a 1", "+OK\r\n"}, // before the node notices
				{"SET b 1", misconf + "\r\n"},
				{"PING", misconf + "\r\n"},
				{"GET a", "$1\r\n1\r\n"},
				{`EVAL return(redis.call('set','x','1')) 0`, misconf + " script: "},
				{`EVAL return(redis.call('get','a')) 0`, "$1\r\n1\r\n"},
			} {
				if reply, err := ask(conn, tt[0]); !strings.HasPrefix(reply, tt[1]) {
					t.Errorf("%s: %q, %v", tt[0], reply, err)
				}
			}
			mustSucceed(t, "write: ok")(c.FreeDisk("n1"))
			<-e.After(2 * tickInterval)
			if reply, err := ask(conn, "SET b 1"); reply != "+OK\r\n" {
				t.Errorf("after the disk was freed: %q, %v", reply, err)
			}
			return nil
		})
	})
	simulate(t, persistentScenario("always"), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
			if err != nil {
				return err
			}
			c.FillDisk("n1")
			if reply, err := ask(conn, "SET a 1"); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("set: %q, %v", reply, err)
			}
			mustFail(t, "down")(c.Touch("n1"))
			c.FreeDisk("n1")
			mustSucceed(t, "(keys: 0)")(c.Restart("n1"))
			return nil
		})
	})
}

// A machine without power doesn't answer. When it is up again, it rejects its old connections.
func TestPowerLossResetsConnections(t *testing.T) {
	simulate(t, persistentScenario("always"), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			var conns [3]io.ReadWriteCloser
			for i := range conns {
				conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
				if err != nil {
					return err
				}
				conns[i] = conn
			}
			c.At(time.Second, func() { losePower(c, t) })
			c.At(3*time.Second, func() { c.Restart("n1") })
			<-e.After(time.Second + 10*time.Millisecond)
			dialCtx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if _, err := e.Dial(dialCtx, "tcp", c.addr("n1")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("dial: %v", err)
			}
			if _, err := ask(conns[0], "PING"); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("connection used during the outage: %v", err)
			}
			checkBetween(t, "reset", c.Now(), 3*time.Second, 3*time.Second+2*time.Millisecond)
			<-e.After(time.Second)
			if _, err := ask(conns[1], "PING"); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("connection used after the outage: %v", err)
			}
			checkBetween(t, "reset", c.Now(), 4*time.Second, 4*time.Second+5*time.Millisecond)
			c.At(5*time.Second, func() { losePower(c, t) })
			c.At(6*time.Second, func() { c.Restart("n1") })
			<-e.After(5*time.Second + 10*time.Millisecond - c.Now())
			conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
			if err != nil {
				return err
			}
			checkBetween(t, "connected", c.Now(), 6*time.Second, 6*time.Second+5*time.Millisecond)
			if reply, err := ask(conn, "PING"); reply != "+PONG\r\n" {
				t.Errorf("ping: %q, %v", reply, err)
			}
			return nil
		})
	})
}

func TestFaultsWithoutDisk(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		mustFail(t, "set topology.persistence")(c.StallSync("n1"))
		mustFail(t, "set topology.persistence")(c.FillDisk("n1"))
		mustFail(t, "no such client or node")(c.LosePower("n9", false))
		mustSucceed(t, "it has no disk")(c.LosePower("n1", false))
		mustFail(t, "it is down")(c.Touch("n1"))
		mustFail(t, "it is down already")(c.LosePower("n1", false))
		mustFail(t, "it is down")(c.Pause("n1"))
		mustSucceed(t, "(keys: 0)")(c.Restart("n1"))
		mustSucceed(t, "(keys: 1)")(c.Touch("n1"))
		return nil
	})
}
