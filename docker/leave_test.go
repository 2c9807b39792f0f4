//go:build linux

package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"lockpick/docker/engine"
	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/lock"
	"lockpick/internal/files"
)

// runVictim runs lockpick with a paused client until the test kills it.
func runVictim() {
	ctx := context.Background()
	err := testBackend().Run(ctx, twoNodes, 1, history.NewRecorder(os.Stderr), func(_ context.Context, c harness.Cluster) error {
		return c.RunClient(ctx, newSpec("c1", 1, client.Point{Name: client.AfterAcquire}), func(string) {
			if _, err := c.(*cluster).Pause("c1"); err == nil {
				fmt.Println(c.(*cluster).testbed.labels[engine.OwnerLabel])
			}
			select {}
		})
	})
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A run removes what a killed lockpick process left behind, but not the containers of a live lockpick
// process.
func TestRunRemovesLeftoversOfKilledRun(t *testing.T) {
	requireEngine(t)
	cmd := exec.Command(os.Args[0], "__victim")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	owner, _ := bufio.NewReader(out).ReadString('\n') // printed in the middle of the run
	label := engine.OwnerLabel + "=" + strings.TrimSpace(owner)
	const numObjects = 2*(2+1) + 2 + 1 + 1 // nodes and resource with their addresses, clients, links, network
	run(t, twoNodes, func(testRun) {
		if left := leftovers(t, label); owner == "" || len(left) != numObjects {
			t.Errorf("live lockpick process %q has %v", owner, left)
		}
	})
	cmd.Process.Kill()
	cmd.Wait()
	if left := leftovers(t, label); len(left) == 0 {
		t.Error("the killed lockpick process left nothing behind, so this test is pointless")
	}
	run(t, twoNodes, func(testRun) {
		if left := leftovers(t, label); len(left) > 0 {
			t.Errorf("next run did not remove %v", left)
		}
	})
}

// Another machine may use this engine over the network. Only the age of that machine's objects can show
// whether they are leftovers.
func TestSweepKeepsNetworksOfOtherMachines(t *testing.T) {
	requireEngine(t)
	e, err := engine.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	o, err := files.CurrentOwner()
	if err != nil {
		t.Fatal(err)
	}
	o.BootID = "00000000"
	label := map[string]string{engine.OwnerLabel: o.String()}
	if _, err := makeNetwork(t.Context(), e, "lockpick-"+o.String(), label); err != nil {
		t.Fatal(err)
	}
	defer engine.Remove(context.Background(), e, engine.OwnerLabel+"="+o.String(), func(engine.OwnedObject) bool { return true })
	if err := engine.Sweep(t.Context(), e, true); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, engine.OwnerLabel+"="+o.String()); len(left) != 1 {
		t.Errorf("networks after Sweep are %v, want 1", left)
	}
}

func TestPanicAndCancelLeaveNothing(t *testing.T) {
	requireEngine(t)
	var label string
	runAndCheck := func(name string, ctx context.Context, body harness.Body) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v", p)
			}
			if left := leftovers(t, runLabel+"="+label); len(left) > 0 {
				t.Errorf("%s left %v", name, left)
			}
		}()
		return testBackend().Run(ctx, twoNodes, 1, history.NewRecorder(&strings.Builder{}), body) // a failed run keeps no testbed
	}
	err := runAndCheck("panic", t.Context(), func(_ context.Context, c harness.Cluster) error {
		label = c.(*cluster).testbed.labels[runLabel]
		panic("ouch")
	})
	if err == nil || err.Error() != "panic: ouch" {
		t.Errorf("panic returned %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = runAndCheck("cancel", ctx, func(ctx context.Context, c harness.Cluster) error {
		label = c.(*cluster).testbed.labels[runLabel]
		return c.RunClient(ctx, newSpec("c1", 0, client.Point{Name: client.AfterAcquire}), func(string) { cancel() }) // the client does not end by itself
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancel returned %v", err)
	}
}

func TestProbeWithoutEngine(t *testing.T) {
	t.Setenv("DOCKER_HOST", "unix://"+t.TempDir()+"/none.sock")
	for _, c := range New(Config{}).Probe(t.Context()) {
		if slices.Contains(lock.Servers(), c.Name) { // never available in containers
			continue
		}
		if c.Available || !strings.Contains(c.Reason, "no Docker engine answers") || c.Remedy != engine.StartEngine {
			t.Errorf("%+v", c)
		}
	}
}
