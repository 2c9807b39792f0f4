package sim

import (
	"context"
	"strings"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
)

// do runs a command on a node, bypassing the network. An error fails the test.
func (c *cluster) do(t *testing.T, node string, args ...string) any {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.runningNode("ask", node, "it is down")
	if err != nil {
		t.Error(err)
		return nil
	}
	reply, err := s.do(args...)
	if err != nil {
		t.Errorf("%v on %s: %v", args, node, err)
	}
	return reply
}

// Keys expire by the node's clock, even after it has been changed.
func TestNodeClock(t *testing.T) {
	for name, tt := range map[string]struct {
		offset time.Duration
		rate   float64
		expiry time.Duration // true time at which a key set at 0 with a TTL of 10 s expires
	}{
		"right":   {0, 1, 10 * time.Second},
		"forward": {4 * time.Second, 1, 6 * time.Second},
		"back":    {-20 * time.Second, 1, 30 * time.Second},
		"fast":    {0, 1.1, 9*time.Second + 91*time.Millisecond},
		"slow":    {0, 0.5, 19 * time.Second},
	} {
		simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
			c.do(t, "n1", "SET", "k", "v", "PX", "10000")
			<-c.after(time.Second)
			readBack, err := c.TurnClock("n1", tt.offset, tt.rate)
			if err != nil || !strings.Contains(readBack, "TIME shows 00:00:") && !strings.Contains(readBack, "TIME shows 23:59:41.0") {
				t.Errorf("%s: %s, %v", name, readBack, err)
			}
			expiry := tt.expiry
			if tt.rate > 1 {
				expiry = time.Second + time.Duration(float64(9*time.Second)/tt.rate)
			}
			<-c.after(expiry - c.Now() - 5*time.Millisecond)
			if c.do(t, "n1", "GET", "k") != "v" {
				t.Errorf("%s: already expired at %v", name, c.Now())
			}
			<-c.after(10 * time.Millisecond)
			if c.do(t, "n1", "GET", "k") != nil {
				t.Errorf("%s: still present at %v", name, c.Now())
			}
			return nil
		})
	}
}

// The clock belongs to the machine, so a restart does not correct it.
func TestNodeClockOutlivesTheNode(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		c.Kill("n1")
		if readBack, err := c.TurnClock("n1", time.Hour, 1); err != nil || !strings.Contains(readBack, "01:00:00") {
			t.Error(readBack, err)
		}
		c.Restart("n1")
		if seconds := c.do(t, "n1", "TIME").([]any)[0]; seconds != "946688400" {
			t.Errorf("TIME is %v after the restart", seconds)
		}
		if _, err := c.TurnClock("n2", 0, 1); err == nil {
			t.Error("no error for an unknown node")
		}
		return nil
	})
}

// A clock step changes only a client's wall clock. A rate changes both clocks and pending timers.
func TestClientClock(t *testing.T) {
	_, events, _ := simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			adjust := func(by time.Duration, rate float64) {
				if readBack, err := c.TurnClock("c1", by, rate); err != nil || !strings.Contains(readBack, "wall clock shows") {
					t.Error(readBack, err)
				}
			}
			startMonotonic, startWall, startTrue := e.Now(), e.WallNow(), e.TrueTime()
			checkElapsed := func(what string, wantMonotonic, wantWall, wantTrue time.Duration) {
				t.Helper()
				for clock, d := range map[string]time.Duration{
					"monotonic": e.Now().Sub(startMonotonic) - wantMonotonic, "wall": e.WallNow().Sub(startWall) - wantWall, "true": e.TrueTime() - startTrue - wantTrue} {
					if d.Abs() > 20*time.Microsecond {
						t.Errorf("%s: %s clock is %v ahead", what, clock, d)
					}
				}
			}
			<-e.After(time.Second)
			checkElapsed("right", time.Second, time.Second, time.Second)
			timer := e.After(4 * time.Second)
			adjust(-5*time.Second, 1)
			checkElapsed("set back", time.Second, -4*time.Second, time.Second)
			<-timer
			checkElapsed("timer after a step", 5*time.Second, 0, 5*time.Second)
			timer = e.After(4 * time.Second)
			<-e.After(time.Second)
			adjust(0, 0.5)
			<-timer
			checkElapsed("slow timer", 9*time.Second, 4*time.Second, 12*time.Second)
			timer = e.After(4 * time.Second)
			<-e.After(time.Second)
			adjust(0, 2)
			<-timer
			checkElapsed("fast timer", 13*time.Second, 8*time.Second, 15500*time.Millisecond)
			return nil
		})
	})
	if len(events) != 6 {
		t.Fatalf("recorded %v", events)
	}
	if e := events[0]; e.Op != history.OpClock || e.Node != "c1" || !e.WallClock || e.Local != 946684800e9+e.T-5e9 || e.Drift != 0 {
		t.Errorf("set back: %+v", e)
	}
	if e := events[3]; e.WallClock || e.Drift != -5e8 || e.Local != 946684800e9+e.T {
		t.Errorf("slow: %+v", e)
	}
}

func TestRescheduledTimersNeverShareAnInstant(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			var chans []<-chan time.Time
			for range 100 {
				chans = append(chans, e.After(time.Second))
			}
			c.TurnClock("c1", 0, 100)
			seen := map[time.Time]bool{}
			for _, ch := range chans {
				seen[<-ch] = true
			}
			if len(seen) != 100 || c.Now() > 11*time.Millisecond {
				t.Errorf("100 timers fired at %d instants, the last at %v", len(seen), c.Now())
			}
			return nil
		})
	})
}

// A key that expired because the clock ran ahead does not come back when the clock is set back.
func TestExpiredKeyStaysExpired(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		c.do(t, "n1", "SET", "k", "v", "PX", "10000")
		c.TurnClock("n1", 11*time.Second, 1)
		c.TurnClock("n1", -11*time.Second, 1)
		if v := c.do(t, "n1", "GET", "k"); v != nil {
			t.Errorf("the expired key came back as %v", v)
		}
		return nil
	})
}
