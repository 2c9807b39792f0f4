package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/scenario"
)

// discardLogger keeps go-redis from logging the effects of faults to stderr.
type discardLogger struct{}

func (discardLogger) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(discardLogger{})
	os.Exit(m.Run())
}

// simulate runs body on a cluster. It returns the history as text and as events, and the digest of
// network traffic. The events exclude key events, which TestKeyEvents covers.
func simulate(t *testing.T, s scenario.Scenario, seed uint64, body func(c *cluster) error) (string, []history.Event, uint64) {
	t.Helper()
	var out bytes.Buffer
	var events []history.Event
	var digest uint64
	rec := history.NewRecorder(&out)
	rec.Watch(func(e history.Event) { events = append(events, e) })
	b := New(map[string]lock.Kind{"own": {OwnTime: true}})
	b.Digest = func(d uint64) { digest = d }
	err := b.Run(context.Background(), s, seed, rec, func(_ context.Context, c harness.Cluster) error { return body(c.(*cluster)) })
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	if !slices.IsSortedFunc(events, func(a, b history.Event) int { return int(a.T - b.T) }) {
		t.Errorf("the history goes back in time:\n%s", out.String())
	}
	linkEvents := slices.DeleteFunc(events, func(e history.Event) bool { return e.Op == history.OpLife }) // see TestKeyEvents
	return out.String(), linkEvents, digest
}

func testScenario(clients, nodes int) scenario.Scenario {
	s := scenario.Scenario{Name: "test", Topology: scenario.Topology{Nodes: nodes, Persistence: "none"}}
	for i := range clients {
		s.Clients = append(s.Clients, scenario.Client{Name: fmt.Sprintf("c%d", i+1)})
	}
	return s
}

func (c *cluster) addr(name string) string {
	for _, s := range c.servers {
		if s.name == name {
			return s.addr.String()
		}
	}
	return ""
}

// open creates a go-redis client configured as locks configure it.
func open(e client.Env, addr string, timeout time.Duration) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr: addr, Dialer: e.Dial, Protocol: 2, PoolSize: 64, MaxRetries: -1, DialerRetries: 1,
		MinRetryBackoff: -1, ContextTimeoutEnabled: true, ReadTimeout: timeout, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
}

// runOneClient runs the program as client c1.
func (c *cluster) runOneClient(program func(ctx context.Context, e client.Env) error) error {
	return c.run(context.Background(), "c1", func(string) {}, program)
}

func TestGoRedis(t *testing.T) {
	_, events, _ := simulate(t, testScenario(1, 2), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			for _, name := range []string{"n1", "n2", "r1"} {
				r := open(e, c.addr(name), time.Second)
				defer r.Close()
				start := e.TrueTime()
				if err := r.Set(ctx, "k", "v-"+name, 10*time.Second).Err(); err != nil {
					return err
				}
				if elapsed := e.TrueTime() - start; elapsed < 4*minLatency || elapsed > 6*(minLatency+latencySpread) {
					t.Errorf("dial, HELLO and SET took %v", elapsed)
				}
				if v, err := r.Get(ctx, "k").Result(); err != nil || v != "v-"+name {
					t.Errorf("GET from %s: %q, %v", name, v, err)
				}
				del := redis.NewScript(`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) end return 0`)
				if n, err := del.Run(ctx, r, []string{"k"}, "v-"+name).Int(); err != nil || n != 1 {
					t.Errorf("release on %s: %d, %v", name, n, err)
				}
			}
			return nil
		})
	})
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprintf("%s %s %s %s", e.Process, e.Node, e.Op, e.Type))
		if !(e.SentAt < e.AppliedAt && e.AppliedAt < e.AnsweredAt && e.AnsweredAt == e.T) {
			t.Errorf("timestamps out of order: %+v", e)
		}
	}
	want := []string{"c1-n1 n1 set ok", "c1-n1 n1 release ok", "c1-n2 n2 set ok", "c1-n2 n2 release ok", "c1-r1 r1 set ok", "c1-r1 r1 release ok"}
	if !slices.Equal(got, want) {
		t.Errorf("recorded %q\nwant %q", got, want)
	}
}

// In every run, a client can wait for a free connection in its pool.
func TestPoolWaitAcrossRuns(t *testing.T) {
	for range 3 {
		simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
			return c.runOneClient(func(ctx context.Context, e client.Env) error {
				o := open(e, c.addr("n1"), time.Second).Options()
				o.PoolSize = 1
				r := redis.NewClient(o)
				defer r.Close()
				errs := make(chan error, 3)
				for i := range cap(errs) {
					go func() { errs <- r.Set(ctx, fmt.Sprint("k", i), "v", 0).Err() }()
				}
				for range cap(errs) {
					if err := <-errs; err != nil {
						return err
					}
				}
				if waitCount := r.PoolStats().WaitCount; waitCount == 0 {
					t.Error("no client waited for a connection")
				}
				return nil
			})
		})
	}
}

func TestRESP3(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			r := redis.NewClient(&redis.Options{Addr: c.addr("n1"), Dialer: e.Dial, DialerRetries: 1,
				MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}})
			defer r.Close()
			r.HSet(ctx, "h", "a", "1", "b", "2")
			if m, err := r.HGetAll(ctx, "h").Result(); err != nil || len(m) != 2 || m["b"] != "2" {
				t.Errorf("HGETALL: %v, %v", m, err)
			}
			if err := r.Get(ctx, "none").Err(); err != redis.Nil {
				t.Errorf("GET of a missing key: %v", err)
			}
			if s, err := r.Info(ctx, "server").Result(); err != nil || !strings.Contains(s, "run_id:") {
				t.Errorf("INFO: %q, %v", s, err)
			}
			return nil
		})
	})
}

// The lock under test receives the nodes' addresses and a dial function.
func TestRunClientCreatesLock(t *testing.T) {
	var got lock.Env
	errEnough := errors.New("enough")
	b := New(map[string]lock.Kind{"seen": {New: func(e lock.Env) (lock.Lock, error) {
		got = e
		conn, err := e.Dial(context.Background(), "tcp", e.Nodes[1].Addr)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		if reply, err := ask(conn, "PING"); reply != "+PONG\r\n" {
			return nil, fmt.Errorf("ping: %q, %w", reply, err)
		}
		return nil, errEnough
	}}})
	s := testScenario(1, 3)
	s.Lock = lock.Settings{Kind: "seen", TTL: time.Second}
	err := b.Run(context.Background(), s, 1, history.NewRecorder(io.Discard), func(_ context.Context, c harness.Cluster) error {
		return c.RunClient(context.Background(), client.Spec{Name: "c1", Lock: s.Lock, Keys: []string{"k"}, Cycles: 1}, func(string) {})
	})
	if !errors.Is(err, errEnough) {
		t.Errorf("run: %v", err)
	}
	want := []lock.Node{{Name: "n1", Addr: "10.0.0.1:6379"}, {Name: "n2", Addr: "10.0.0.2:6379"}, {Name: "n3", Addr: "10.0.0.3:6379"}}
	if !slices.Equal(got.Nodes, want) || !reflect.DeepEqual(got.Settings, s.Lock) {
		t.Errorf("the lock got %+v", got)
	}
}

func TestReachLimitsDials(t *testing.T) {
	s := testScenario(1, 2)
	s.Clients[0].Reach = []string{"n2"}
	simulate(t, s, 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			for name, want := range map[string]bool{"n1": false, "n2": true, "r1": true} {
				conn, err := e.Dial(ctx, "tcp", c.addr(name))
				if (err == nil) != want {
					t.Errorf("dial %s: %v", name, err)
				}
				if err == nil {
					conn.Close()
				} else if !strings.Contains(err.Error(), "connection refused") {
					t.Errorf("dial %s: %v", name, err)
				}
			}
			return nil
		})
	})
}

func TestConnectionDeadlines(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
			if err != nil {
				return err
			}
			defer conn.Close()
			b := make([]byte, 64)
			at := e.Now().Add(5 * time.Millisecond)
			conn.SetReadDeadline(at)
			if _, err := conn.Read(b); !err.(net.Error).Timeout() || !e.Now().After(at) || e.Now().Sub(at) > 2*quantum {
				t.Errorf("read failed with %v, %v after its deadline", err, e.Now().Sub(at))
			}
			// A deadline set during a read wakes the read.
			conn.SetReadDeadline(time.Time{})
			go func() {
				<-e.After(time.Millisecond)
				conn.SetReadDeadline(e.Now())
			}()
			if _, err := conn.Read(b); !err.(net.Error).Timeout() {
				t.Errorf("read failed with %v", err)
			}
			// Available data takes precedence over a deadline that has passed.
			fmt.Fprintf(conn, "PING\r\n")
			<-e.After(5 * time.Millisecond)
			if n, err := conn.Read(b); err != nil || string(b[:n]) != "+PONG\r\n" {
				t.Errorf("read %q, %v", b[:n], err)
			}
			return nil
		})
	})
}

func TestTimersNeverShareAnInstant(t *testing.T) {
	simulate(t, testScenario(2, 1), 1, func(c *cluster) error {
		return c.runOneClient(func(ctx context.Context, e client.Env) error {
			var chans []<-chan time.Time
			for range 100 {
				chans = append(chans, e.After(time.Second))
			}
			seen := map[time.Time]bool{}
			for _, ch := range chans {
				seen[<-ch] = true
			}
			if len(seen) != 100 {
				t.Errorf("100 timers fired at %d instants", len(seen))
			}
			return nil
		})
	})
}

func TestResourceRunsCommands(t *testing.T) {
	simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		ctx := context.Background()
		for _, tt := range []struct {
			args []string
			want any
		}{
			{[]string{"GET", "none"}, nil},
			{[]string{"SET", "k", "v"}, "OK"},
			{[]string{"RPUSH", "l", "a", "b"}, int64(2)},
			{[]string{"LRANGE", "l", "0", "-1"}, []any{"a", "b"}},
		} {
			got, err := c.Resource(ctx, tt.args...)
			if err != nil || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", tt.want) {
				t.Errorf("%v: %#v, %v", tt.args, got, err)
			}
		}
		if _, err := c.Resource(ctx, "INCR", "l"); err == nil || !strings.HasPrefix(err.Error(), "WRONGTYPE") {
			t.Errorf("INCR of a list: %v", err)
		}
		return nil
	})
}
