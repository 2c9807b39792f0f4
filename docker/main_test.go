//go:build linux

package docker

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockpick/docker/engine"
	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/harness/real"
	"lockpick/harness/real/vdso"
	"lockpick/harness/scenario"
)

// TestMain makes the test binary act as the client, the agent, the gate, or a lockpick process to kill,
// depending on the first argument.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "__client":
			if err := real.ClientMain(os.Stdin, os.Stdout, locks); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(3)
			}
			os.Exit(0)
		case AgentVerb:
			if err := Agent(os.Stdin, os.Stdout, os.Stderr, os.Args[2:]); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(3)
			}
			os.Exit(0)
		case vdso.GateVerb:
			fmt.Fprintln(os.Stderr, vdso.Gate(os.Args[2:]))
			os.Exit(3)
		case "__victim":
			runVictim()
		}
	}
	os.Exit(m.Run())
}

var locks = map[string]lock.Kind{"plain": {New: func(e lock.Env) (lock.Lock, error) { return plainLock{e}, nil }}}

// plainLock sets a key on one node after another, and deletes the keys to release the lock.
type plainLock struct{ env lock.Env }

func (p plainLock) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	command := fmt.Sprintf("SET %s %s NX PX %d\r\n", key, p.env.Client, p.env.Settings.TTL.Milliseconds())
	if err := p.sendAll(ctx, command, "+OK\r\n"); err != nil {
		return nil, err
	}
	return plainHandle{p, key}, nil
}

func (p plainLock) Close() error { return nil }

func (p plainLock) sendAll(ctx context.Context, command, want string) error {
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
			return errors.New("a node replied " + got)
		}
	}
	return nil
}

type plainHandle struct {
	p   plainLock
	key string
}

func (h plainHandle) Release(ctx context.Context) error {
	return h.p.sendAll(ctx, "DEL "+h.key+"\r\n", ":1\r\n")
}
func (h plainHandle) Deadline() time.Time { return time.Time{} }

func testBackend() *backend { return New(Config{Client: []string{os.Args[0], "__client"}}) }

// skipIfShort skips the test if only quick tests are to run. It is for tests that use an engine or build
// a program.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds: run it with make containers")
	}
}

func requireEngine(t *testing.T) {
	t.Helper()
	skipIfShort(t)
	if run := testBackend().findCapabilities(t.Context()).run; !run.Available {
		t.Skipf("%s: %s", run.Reason, run.Remedy)
	}
}

// twoNodes is a scenario with two nodes. Client c1 can reach both nodes, c2 only the second.
var twoNodes = scenario.Scenario{
	Name:     "test",
	Topology: scenario.Topology{Nodes: 2, Persistence: "none"},
	Clients:  []scenario.Client{{Name: "c1"}, {Name: "c2", Reach: []string{"n2"}}},
}

func newSpec(name string, cycles int, armed ...client.Point) client.Spec {
	return client.Spec{
		Name: name, Seed: 1, Keys: []string{"lock-" + name}, Fence: client.FenceNone, Writes: 1, Cycles: cycles, EndTime: time.Minute, ArmedPoints: armed,
		Lock: lock.Settings{Kind: "plain", TTL: 10 * time.Second, Timeout: 2 * time.Second},
	}
}

// testRun is a run with its recorded events.
type testRun struct {
	*testing.T
	*cluster
	mu     *sync.Mutex
	events *[]history.Event
}

// run runs body on a cluster and checks that nothing is left behind. It returns the recorded events.
func run(t *testing.T, s scenario.Scenario, body func(b testRun)) []history.Event {
	t.Helper()
	return runOn(t, testBackend(), s, body)
}

func runOn(t *testing.T, backend *backend, s scenario.Scenario, body func(b testRun)) []history.Event {
	t.Helper()
	requireEngine(t)
	var mu sync.Mutex
	var events []history.Event
	var text bytes.Buffer
	rec := history.NewRecorder(&text)
	rec.Watch(func(e history.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	})
	var label string
	start := time.Now()
	var setUpTime, bodyEnd time.Duration
	err := backend.Run(t.Context(), s, 1, rec, func(_ context.Context, c harness.Cluster) error {
		setUpTime = time.Since(start)
		label = c.(*cluster).testbed.labels[runLabel]
		defer c.(*cluster).MonitorProcesses(func(u harness.UnplannedEvent) { t.Errorf("interference: %+v", u) })()
		body(testRun{t, c.(*cluster), &mu, &events})
		bodyEnd = time.Since(start)
		return nil
	})
	if err := errors.Join(err, backend.Close()); err != nil {
		t.Error(err)
	}
	t.Logf("%d nodes and %d clients: set up in %v, taken down in %v", s.Topology.Nodes, len(s.Clients), setUpTime, time.Since(start)-bodyEnd)
	if left := leftovers(t, runLabel+"="+label); len(left) > 0 {
		t.Errorf("run left %v behind", left)
	}
	slices.SortFunc(events, func(a, b history.Event) int { return cmp.Or(cmp.Compare(a.T, b.T), cmp.Compare(a.N, b.N)) }) // as in the history
	return events
}

// leftovers lists the containers and networks with a label.
func leftovers(t *testing.T, label string) (names []string) {
	t.Helper()
	e, err := engine.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	containers, err := e.Containers(context.Background(), label)
	if err != nil {
		t.Fatal(err)
	}
	networks, err := e.Networks(context.Background(), label)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range append(containers, networks...) {
		names = append(names, strings.TrimSpace(o.Name))
	}
	return names
}

func (b testRun) do(what string, f func() (string, error)) string {
	b.Helper()
	back, err := f()
	if err != nil {
		b.Fatalf("%s: %v", what, err)
	}
	return back
}

func receive[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: timed out", what)
	}
	return v
}
