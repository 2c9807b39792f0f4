package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// A request sent to a process that has died never reaches the process that replaces it, wherever
// the request was when the first process died.
func TestRestartedNodeGetsNoOldRequests(t *testing.T) {
	keepInFlight := func(*cluster) func() { return func() {} }
	for location, hold := range map[string]func(*cluster) (release func()){
		"on its way": keepInFlight,
		"at a cut": func(c *cluster) func() {
			c.Cut("c1-n1", "", "")
			return func() { c.Mend("c1-n1") }
		},
		"held": func(c *cluster) func() {
			releases := make(chan func(), 1)
			trigger := nemesis.OnMessage{Link: "c1-n1", Message: history.OpSet, Of: nemesis.Request}
			if err := c.Tap(trigger, func(m nemesis.HeldMessage) { releases <- m.Pass }); err != nil {
				t.Error(err)
			}
			return func() { (<-releases)() }
		},
	} {
		_, events, _ := simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
			return c.runOneClient(func(ctx context.Context, e client.Env) error {
				conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
				if err != nil {
					return err
				}
				release := hold(c)
				fmt.Fprint(conn, "SET k v\r\n")
				if location != "on its way" {
					<-e.After(time.Second)
				}
				c.Kill("n1")
				c.Restart("n1")
				release()
				<-e.After(time.Second)
				if n, _ := c.servers[0].node.Do("DBSIZE"); n != int64(0) {
					t.Errorf("%s: the new process received the request", location)
				}
				if _, err := conn.Read(make([]byte, 9)); !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("%s: read: %v", location, err)
				}
				conn, err = e.Dial(ctx, "tcp", c.addr("n1"))
				if err != nil {
					return err
				}
				reply, err := ask(conn, "PING")
				if reply != "+PONG\r\n" {
					t.Errorf("%s: the new process answers %q", location, reply)
				}
				return err
			})
		})
		if len(events) != 1 || events[0].Type != history.Info || events[0].AppliedAt != 0 {
			t.Errorf("%s: events %+v", location, events)
		}
	}
}

// A request is applied even if its client dies before the reply arrives, and the history shows that
// nobody received the reply.
func TestReplyToDeadClient(t *testing.T) {
	_, events, _ := simulate(t, testScenario(1, 1), 1, func(c *cluster) error {
		err := c.runOneClient(func(ctx context.Context, e client.Env) error {
			conn, err := e.Dial(ctx, "tcp", c.addr("n1"))
			if err != nil {
				return err
			}
			fmt.Fprint(conn, "SET k v\r\n")
			c.At(c.Now()+10*time.Microsecond, func() { c.Kill("c1") })
			<-ctx.Done()
			return nil
		})
		<-c.after(time.Second)
		if n, _ := c.servers[0].node.Do("DBSIZE"); n != int64(1) {
			t.Error("a dead client's request was lost")
		}
		if !errors.Is(err, harness.ErrKilled) {
			return err
		}
		return nil
	})
	if len(events) != 1 || events[0].Type != history.OK || events[0].AppliedAt == 0 || events[0].AnsweredAt != 0 {
		t.Errorf("events %+v", events)
	}
}

// A paused client sends nothing, whatever its library is doing: running a round of commands,
// dialing in the background, or waiting for deadlines that pass.
func TestPausedClientSendsNothing(t *testing.T) {
	const from, to = 1500 * time.Millisecond, 2900 * time.Millisecond
	text := ""
	_, events, _ := simulate(t, testScenario(3, 5), 5, func(c *cluster) error {
		dialCounts := func() string {
			c.mu.Lock()
			defer c.mu.Unlock()
			text := ""
			for _, l := range c.links {
				if l.host.name == "c1" {
					text += fmt.Sprintf("%s %d, ", l.name, l.dialCount)
				}
			}
			return text
		}
		// Restarting nodes make the library dial.
		for at := 100 * time.Millisecond; at < 4*time.Second; at += 300 * time.Millisecond {
			c.At(at, func() { c.Kill("n1"); c.Kill("n2") })
			c.At(at+20*time.Millisecond, func() { c.Restart("n1"); c.Restart("n2") })
		}
		initialCounts := make(chan string, 1)
		c.At(from, func() { c.Pause("c1"); initialCounts <- dialCounts() })
		c.At(to, func() {
			if before, now := <-initialCounts, dialCounts(); now != before {
				t.Errorf("the client dialed during the pause: dial counts before it: %s after it: %s", before, now)
			}
			c.Resume("c1")
		})
		var wg sync.WaitGroup
		for _, h := range c.hosts {
			wg.Go(func() {
				err := c.run(context.Background(), h.name, func(string) {}, func(ctx context.Context, e client.Env) error {
					runContender(ctx, c, e, h.name, 4*time.Second)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		return nil
	})
	eventCounts := map[bool]int{}
	for _, e := range events {
		at := time.Duration(e.SentAt)
		if e.SentAt == 0 {
			at = time.Duration(e.T)
		}
		duringPause := at > from+quantum && at < to
		if e.Process == "c1" || len(e.Process) > 3 && e.Process[:3] == "c1-" {
			eventCounts[duringPause]++
			if duringPause {
				text += fmt.Sprintf("%+v\n", e)
			}
		}
	}
	if eventCounts[true] > 0 || eventCounts[false] < 50 {
		t.Errorf("%d events outside the pause; events during the pause:\n%s", eventCounts[false], text)
	}
}

// A dial whose reply arrives exactly at its context's deadline has one outcome, at one instant.
func TestDialReplyAtDeadline(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	dial := func(seed uint64, deadline time.Duration) (result string, duration time.Duration) {
		simulate(t, testScenario(1, 1), seed, func(c *cluster) error {
			return c.runOneClient(func(ctx context.Context, e client.Env) error {
				start := c.Now()
				if deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, deadline)
					defer cancel()
				}
				_, err := e.Dial(ctx, "tcp", c.addr("n1"))
				duration = c.Now() - start
				result = fmt.Sprint(err, " after ", duration)
				return nil
			})
		})
		return result, duration
	}
	for seed := range uint64(20) {
		_, duration := dial(seed, 0)
		first, _ := dial(seed, duration)
		for i := range 10 {
			runtime.GOMAXPROCS(1 + i%2)
			if repeated, _ := dial(seed, duration); repeated != first {
				t.Fatalf("seed %d: %s, then %s", seed, first, repeated)
			}
		}
	}
}

// A client may start when another client dies. The run must not depend on which goroutine comes
// first: the one that injects the fault or the one that notices the client's death.
func TestClientStartsOnDeathOfAnother(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	at := time.Second
	s := testScenario(2, 3)
	s.Limit = 20 * time.Second
	s.Lock.Kind = "none"
	s.Clients[1].Start = &nemesis.Event{Client: "c1", Event: "killed"}
	s.Plan = nemesis.Plan{{When: nemesis.Trigger{At: &at}, Fault: nemesis.Fault{Kind: "kill", Targets: []string{"c1"}}}}
	seen := map[string]int{}
	for range 100 {
		var text string
		rec := history.NewRecorder(io.Discard)
		rec.Watch(func(e history.Event) {
			text += fmt.Sprintf("%v %s %s %s %s\n", time.Duration(e.T), e.Process, e.Type, e.Op, e.Node)
		})
		if err := harness.Run(context.Background(), idleBackend{New(nil)}, s, 1, rec); err != nil {
			t.Fatal(err)
		}
		seen[text]++
	}
	for text := range seen {
		if len(seen) > 1 || !strings.Contains(text, "c2 begin client") {
			t.Errorf("%d of 100 times:\n%s", seen[text], text)
		}
	}
}

// idleBackend is a simulation whose clients do nothing but wait.
type idleBackend struct{ *Backend }

func (b idleBackend) Run(ctx context.Context, s scenario.Scenario, seed uint64, rec *history.Recorder, body harness.Body) error {
	return b.Backend.Run(ctx, s, seed, rec, func(ctx context.Context, c harness.Cluster) error {
		return body(ctx, waitingCluster{c.(*cluster)})
	})
}

type waitingCluster struct{ *cluster }

func (c waitingCluster) RunClient(ctx context.Context, s client.Spec, at func(string)) error {
	return c.run(ctx, s.Name, at, func(ctx context.Context, e client.Env) error {
		e.Emit(history.Event{T: int64(e.TrueTime()), Process: s.Name, Type: history.Begin, Op: history.OpClient})
		select {
		case <-e.After(3 * time.Second):
		case <-ctx.Done():
		}
		return nil
	})
}
