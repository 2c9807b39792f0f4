package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

var (
	acquireScript = redis.NewScript(`if redis.call("set",KEYS[1],ARGV[1],"nx","px",ARGV[2]) then return 1 end return 0`)
	releaseScript = redis.NewScript(`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) end return 0`)
)

// runContender runs a client with a crude Redlock that uses many concurrent goroutines, timeouts
// and connections. It checks nothing.
func runContender(ctx context.Context, c *cluster, e client.Env, name string, end time.Duration) {
	randomDelay := func(purpose string, i int, limit time.Duration) time.Duration {
		return time.Duration(hashWords(c.seed, hashBytes(name), hashBytes(purpose), uint64(i)) % uint64(limit))
	}
	var nodes []*redis.Client
	for _, s := range c.servers {
		nodes = append(nodes, open(e, s.addr.String(), 3*time.Second))
	}
	defer func() {
		for _, r := range nodes {
			r.Close()
		}
	}()
	runOnNodes := func(script *redis.Script, args ...any) (votes int) {
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, r := range nodes[:len(nodes)-1] {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				defer cancel()
				n, err := script.Run(ctx, r, []string{"lock"}, args...).Int()
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					votes += n
				}
			})
		}
		wg.Wait()
		return votes
	}
	record := func(op string, t history.Type) {
		e.Emit(history.Event{T: int64(e.TrueTime()), Process: name, Op: op, Type: t, Local: e.Now().UnixNano()})
	}
	for i := 0; e.TrueTime() < end && ctx.Err() == nil; i++ {
		<-e.After(randomDelay("think", i, 300*time.Millisecond))
		record(history.OpAcquire, history.Invoke)
		token := fmt.Sprintf("%s-%d", name, i)
		if runOnNodes(acquireScript, token, 10000) > len(nodes)/2-1 {
			record(history.OpAcquire, history.OK)
			nodes[len(nodes)-1].Incr(ctx, "counter")
			<-e.After(randomDelay("hold", i, 30*time.Millisecond))
		} else {
			record(history.OpAcquire, history.Fail)
		}
		runOnNodes(releaseScript, token)
		record(history.OpRelease, history.OK)
	}
}

func injectFaults(c *cluster) {
	at := func(ms int, f func()) { c.At(time.Duration(ms)*time.Millisecond, f) }
	at(700, func() { c.Pause("c1") })
	at(1200, func() { c.Cut("c2-n1", "", ""); c.Cut("c2-n2", "", "") })
	at(1500, func() { c.Kill("n3") })
	at(2100, func() { c.Resume("c1") })
	at(2300, func() { c.Restart("n3") })
	at(2700, func() { c.Mend("c2-n1"); c.Mend("c2-n2") })
	at(3100, func() { c.Kill("c3") })
	at(3300, func() { c.Pause("c2"); c.Cut("c2-n5", "", "") })
	shapeTraffic(c, at)
	at(3500, func() { c.Resume("c2") })
	for _, dir := range []string{nemesis.Request, nemesis.Reply} {
		c.Tap(nemesis.OnMessage{Link: "c1-n4", Message: history.OpSet, Of: dir, Nth: 5}, func(m nemesis.HeldMessage) {
			letThrough := m.Pass
			c.At(c.Now()+300*time.Millisecond, letThrough)
		})
	}
}

// shapeTraffic applies every kind of traffic shape and cut to some links.
func shapeTraffic(c *cluster, at func(ms int, f func())) {
	for i, t := range []nemesis.Traffic{
		{DelayMin: time.Millisecond, DelayMax: 200 * time.Millisecond, HeavyTailed: true, Share: 0.5},
		{Way: nemesis.Reply, DelayMin: 10 * time.Millisecond, DelayMax: 70 * time.Millisecond},
		{Lose: true, Share: 0.2},
		{Bandwidth: 3000},
	} {
		for k, link := range []string{"c1-n1", "c1-n5", "c2-r1", "c3-n2"} {
			at(200+100*i+40*k, func() { c.Shape(link, t) })
			at(1900+100*i+40*k, func() { c.Unshape(link, t) })
		}
	}
	for i, mode := range []string{nemesis.CutDrop, nemesis.CutReset, nemesis.CutRefuse} {
		link := fmt.Sprintf("c%d-n4", i+1)
		at(900+50*i, func() { c.Cut(link, mode, "") })
		at(1400+50*i, func() { c.Mend(link) })
	}
	for _, dir := range []string{nemesis.Request, nemesis.Reply} {
		c.Tap(nemesis.OnMessage{Link: "c2-n3", Message: history.OpSet, Of: dir, Nth: 4}, func(m nemesis.HeldMessage) { m.Lose() })
	}
}

func runContention(t testing.TB, seed uint64, clients int, duration time.Duration, faults func(*cluster)) (string, uint64) {
	t.Helper()
	return runContentionOn(t, testScenario(clients, 5), seed, duration, faults)
}

func runContentionOn(t testing.TB, s scenario.Scenario, seed uint64, duration time.Duration, faults func(*cluster)) (string, uint64) {
	t.Helper()
	tt, ok := t.(*testing.T)
	if !ok {
		tt = new(testing.T)
	}
	text, _, digest := simulate(tt, s, seed, func(c *cluster) error {
		faults(c)
		var wg sync.WaitGroup
		for _, h := range c.hosts {
			wg.Go(func() {
				err := c.run(context.Background(), h.name, func(string) {}, func(ctx context.Context, e client.Env) error {
					runContender(ctx, c, e, h.name, duration)
					return nil
				})
				if err != nil && !errors.Is(err, harness.ErrKilled) {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return nil
	})
	return text, digest
}

func TestSameSeedGivesSameHistory(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	text, digest := runContention(t, 7, 3, 4*time.Second, injectFaults)
	if len(text) < 40000 {
		t.Fatalf("too few events: %s", text)
	}
	for i := range 20 {
		runtime.GOMAXPROCS(1 + i%2)
		repeated, d := runContention(t, 7, 3, 4*time.Second, injectFaults)
		if repeated != text || d != digest {
			t.Fatalf("run %d with GOMAXPROCS=%d differs: history differs: %v, digest differs: %v", i, 1+i%2, repeated != text, d != digest)
		}
	}
	otherText, d := runContention(t, 8, 3, 4*time.Second, injectFaults)
	if otherText == text || d == digest {
		t.Error("a different seed gives the same run")
	}
}

func TestSeedsAreReproducible(t *testing.T) {
	for seed := uint64(100); seed < 110; seed++ {
		a, da := runContention(t, seed, 3, 4*time.Second, injectFaults)
		b, db := runContention(t, seed, 3, 4*time.Second, injectFaults)
		if a != b || da != db {
			t.Errorf("seed %d isn't reproducible: history differs: %v, digest differs: %v", seed, a != b, da != db)
		}
	}
}

// A pool closes its connections in map order. That order must have no effect, even if the
// connections are closed during a cut that ends at the same instant.
func TestCloseOrderHasNoEffect(t *testing.T) {
	run := func(order ...int) string {
		text, _, digest := simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
			return c.runOneClient(func(ctx context.Context, e client.Env) error {
				var conns []net.Conn
				for range order {
					conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
					if err != nil {
						return err
					}
					conns = append(conns, conn)
				}
				c.Cut("c1-n1", "", "")
				for i, conn := range conns {
					fmt.Fprintf(conn, "SET k%d v\r\n", i)
				}
				<-e.After(5 * time.Millisecond)
				for _, i := range order {
					conns[i].Close()
				}
				c.Mend("c1-n1")
				<-e.After(time.Second)
				return nil
			})
		})
		return fmt.Sprintf("%s%x", text, digest)
	}
	if a, b := run(0, 1, 2), run(2, 0, 1); a != b {
		t.Errorf("history and digest if closed in order:\n%s\nin a different order:\n%s", a, b)
	}
}

// BenchmarkMinute simulates five clients and five nodes for one minute.
func BenchmarkMinute(b *testing.B) {
	var lines int
	for b.Loop() {
		text, _ := runContention(b, 1, 5, time.Minute, func(*cluster) {})
		lines = strings.Count(text, "\n")
	}
	b.ReportMetric(float64(lines), "events/op")
}

// Simultaneous writes to broken connections fail at distinct instants, so the order of the errors
// doesn't depend on the scheduler.
func TestWriteErrorsAreOrdered(t *testing.T) {
	simulate(t, testScenario(1, 5), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			var conns []net.Conn
			for i := range 5 {
				name := fmt.Sprintf("n%d", i+1)
				conn, err := e.Dial(ctx, "tcp", c.addr(name))
				if err != nil {
					return err
				}
				conns = append(conns, conn)
				c.Kill(name)
				conn.Read(make([]byte, 1)) // wait for the end of the connection
			}
			var mu sync.Mutex
			var wg sync.WaitGroup
			failures := map[time.Duration]int{}
			for _, conn := range conns {
				wg.Go(func() {
					if _, err := conn.Write([]byte("PING")); err == nil {
						t.Error("write to a broken connection succeeded")
					}
					mu.Lock()
					defer mu.Unlock()
					failures[c.Now()]++
				})
			}
			wg.Wait()
			if len(failures) != 5 {
				t.Errorf("five writes failed at %d distinct instants: %v", len(failures), failures)
			}
			return nil
		})
	})
}

// A program's other goroutines act before a fault triggered at a point at the same instant.
func TestPointsRunLast(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		var clockRead atomic.Bool
		return c.run(context.Background(), "c1", func(string) {
			if !clockRead.Load() {
				t.Error("a running goroutine did not read the clock before the fault was triggered")
			}
		}, func(ctx context.Context, e client.Env) error {
			go func() {
				e.Now()
				clockRead.Store(true)
			}()
			e.OnPoint("acquired")
			return nil
		})
	})
}
