//go:build linux

package process

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/real"
	"lockpick/harness/real/fuse"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// The test binary also serves as the client program, and as a lockpick process that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "__client":
			if err := real.ClientMain(os.Stdin, os.Stdout, locks); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(3)
			}
			os.Exit(0)
		case "__victim":
			runVictim(os.Args[2])
		}
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // otherwise, with -race, each client takes a second to exit
	os.Exit(m.Run())
}

var locks = map[string]lock.Kind{"plain": {New: func(e lock.Env) (lock.Lock, error) { return plainLock{e}, nil }}}

// plainLock is a lock that sets a key on each node in turn. Releasing it deletes the keys.
type plainLock struct{ env lock.Env }

func (p plainLock) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	command := fmt.Sprintf("SET %s %s NX PX %d\r\n", key, p.env.Client, p.env.Settings.TTL.Milliseconds())
	if err := p.askAll(ctx, command, "+OK\r\n"); err != nil {
		return nil, err
	}
	return plainHandle{p, key}, nil
}

func (p plainLock) Close() error { return nil }

func (p plainLock) askAll(ctx context.Context, command, want string) error {
	for _, n := range p.env.Nodes {
		conn, err := p.env.Dial(ctx, "tcp", n.Addr)
		if err != nil {
			continue
		}
		conn.SetDeadline(time.Now().Add(p.env.Settings.Timeout))
		_, err = conn.Write([]byte(command))
		got, err2 := bufio.NewReader(conn).ReadString('\n')
		conn.Close()
		if err == nil && err2 == nil && got != want {
			return errors.New("a node answered " + got)
		}
	}
	return nil
}

type plainHandle struct {
	p   plainLock
	key string
}

func (h plainHandle) Release(ctx context.Context) error {
	return h.p.askAll(ctx, "DEL "+h.key+"\r\n", ":1\r\n")
}
func (h plainHandle) Deadline() time.Time { return time.Time{} }

func needRedis(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("redis-server is not on PATH: apt-get install redis-server")
	}
}

func testBackend(dir string) *backend {
	return New(Config{Self: []string{os.Args[0], "__client"}, Dir: dir})
}

// twoNodes is a scenario with two nodes. c1 reaches both, c2 only n2.
var twoNodes = scenario.Scenario{
	Name:     "test",
	Topology: scenario.Topology{Nodes: 2, Persistence: "none"},
	Clients:  []scenario.Client{{Name: "c1"}, {Name: "c2", Reach: []string{"n2"}}},
}

func clientSpec(name string, cycles int, armed ...client.Point) client.Spec {
	return client.Spec{
		Name: name, Seed: 1, Keys: []string{"lock-" + name}, Fence: client.FenceNone, Writes: 1, Cycles: cycles, EndTime: time.Minute, ArmedPoints: armed,
		Lock: lock.Settings{Kind: "plain", TTL: 10 * time.Second, Timeout: 2 * time.Second},
	}
}

// testRun is a run with its recorded events.
type testRun struct {
	*testing.T
	*cluster
	mu             *sync.Mutex
	events         *[]history.Event
	expectedNodes  map[string]bool // processes that the test itself kills or stops
	reportedEvents *[]harness.UnplannedEvent
}

// run runs body on a cluster, checks that nothing is left behind, and returns the recorded events.
func run(t *testing.T, body func(b testRun)) []history.Event {
	t.Helper()
	return runOn(t, twoNodes, body)
}

func runOn(t *testing.T, s scenario.Scenario, body func(b testRun)) []history.Event {
	t.Helper()
	needRedis(t)
	dir := t.TempDir()
	var mu sync.Mutex
	var events []history.Event
	var text bytes.Buffer
	rec := history.NewRecorder(&text)
	rec.Watch(func(e history.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	})
	var pids []int
	err := testBackend(dir).Run(t.Context(), s, 1, rec, func(_ context.Context, c harness.Cluster) error {
		expected, reported := map[string]bool{}, []harness.UnplannedEvent{}
		defer c.(*cluster).MonitorProcesses(func(u harness.UnplannedEvent) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, u)
			if !expected[u.Node] {
				t.Errorf("unexpected: %+v", u)
			}
		})()
		body(testRun{t, c.(*cluster), &mu, &events, expected, &reported})
		pids = childPIDs(t, dir)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if leftovers, err := os.ReadDir(dir); err != nil || len(leftovers) > 0 {
		t.Errorf("left behind: %v, %v", leftovers, err)
	}
	for _, pid := range pids {
		if isRunning(pid) {
			t.Errorf("process %d is still running", pid)
		}
	}
	slices.SortFunc(events, func(a, b history.Event) int { return cmp.Or(cmp.Compare(a.T, b.T), cmp.Compare(a.N, b.N)) }) // in the order in which readers get them
	return events
}

func (b testRun) start(s client.Spec, at func(string)) (done chan error) {
	done = make(chan error, 1)
	go func() { done <- b.RunClient(b.T.Context(), s, at) }()
	return done
}

// addr returns the address that a client uses for a node, counted from 0.
func (b testRun) addr(client string, node int) string {
	a, _ := b.Addresses(client)
	return a.Nodes[node].Addr
}

func (b testRun) mustDo(what string, f func() (string, error)) string {
	b.Helper()
	readback, err := f()
	if err != nil {
		b.Fatalf("%s: %v", what, err)
	}
	return readback
}

func receive[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(5 * time.Second):
		t.Fatalf("%s: nothing arrived", what)
	}
	return v
}

// runVictim runs lockpick until the parent test kills it mid-run, while a client is stopped and, if
// disks can be mounted, a node is waiting for its disk.
func runVictim(dir string) {
	ctx := context.Background()
	s := twoNodes
	if reason, _ := fuse.Missing(); reason == "" {
		s = withTopology("always", 0, powerLossN1)
	}
	s.Topology.Replicas, s.Topology.DownAfter, s.Limit = 1, time.Second, time.Minute
	s.Plan = append(s.Plan, nemesis.Step{Fault: nemesis.Fault{Kind: "failover", Mode: nemesis.SentinelFailoverAfterKill, Targets: []string{"n2"}}})
	err := testBackend(dir).Run(ctx, s, 1, history.NewRecorder(os.Stderr), func(_ context.Context, c harness.Cluster) error {
		return c.RunClient(ctx, clientSpec("c1", 1, client.Point{Name: client.AfterAcquire}), func(string) {
			var err error
			if c.(*cluster).Disk("n1") != nil {
				_, err = c.(*cluster).StallSync("n1")
				go c.(*cluster).Touch("n1")
				<-time.After(50 * time.Millisecond)
			}
			if _, pauseErr := c.(*cluster).Pause("c1"); errors.Join(err, pauseErr) == nil {
				fmt.Println("paused")
			}
			select {}
		})
	})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// runShell runs a script in another process, because a process that serves a disk must not access the
// disk.
func runShell(script string) ([]byte, error) {
	return exec.Command("/bin/sh", "-c", script).CombinedOutput()
}
