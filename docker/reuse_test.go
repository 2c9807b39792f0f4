//go:build linux

package docker

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// sharedTestbed returns a function that runs scenarios on the same testbed. At the end of the test, it
// checks that nothing is left behind.
func sharedTestbed(t *testing.T) func(name string, s scenario.Scenario, body func(b testRun)) {
	requireEngine(t)
	backend := testBackend()
	var label string
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Error(err)
		}
		if left := leftovers(t, runLabel+"="+label); len(left) > 0 {
			t.Errorf("test left %v behind", left)
		}
	})
	return func(name string, s scenario.Scenario, body func(b testRun)) {
		start := time.Now()
		err := backend.Run(t.Context(), s, 1, history.NewRecorder(&bytes.Buffer{}), func(_ context.Context, hc harness.Cluster) error {
			t.Logf("%s: set up in %v", name, time.Since(start))
			c := hc.(*cluster)
			label = c.testbed.labels[runLabel]
			body(testRun{T: t, cluster: c})
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// A run wipes and reuses the nodes of the previous run, except nodes that have exited or have another
// persistence mode.
func TestRunsReuseTestbed(t *testing.T) {
	var ids []map[string]string
	runOnTestbed := sharedTestbed(t)
	run := func(name string, s scenario.Scenario, body func(c *cluster) error) {
		runOnTestbed(name, s, func(b testRun) {
			ids = append(ids, map[string]string{"n1": b.nodeByName("n1").id, "n2": b.nodeByName("n2").id})
			if err := body(b.cluster); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		})
	}
	ask := func(c *cluster, node string, args ...string) any {
		v, err := c.nodeByName(node).Command(t.Context(), node, args)
		if err != nil {
			t.Errorf("%s %v: %v", node, args, err)
		}
		return v
	}
	var script string
	run("first", twoNodes, func(c *cluster) error {
		ask(c, "n1", "SET", "left", "over")
		ask(c, "n2", "SET", "left", "over")
		script = ask(c, "n1", "SCRIPT", "LOAD", "return 1").(string)
		_, kill := c.Kill("n2")
		return errors.Join(kill, c.RunClient(t.Context(), newSpec("c1", 1), ignorePoint))
	})
	run("second", twoNodes, func(c *cluster) error {
		for _, node := range []string{"n1", "n2"} {
			if n := ask(c, node, "DBSIZE"); n != int64(0) {
				t.Errorf("%s has %v keys", node, n)
			}
		}
		if v := ask(c, "n1", "SCRIPT", "EXISTS", script).([]any); v[0] != int64(0) {
			t.Error("n1 still has the script")
		}
		return c.RunClient(t.Context(), newSpec("c1", 1), ignorePoint)
	})
	persistent := twoNodes
	persistent.Topology.Persistence = "always"
	run("third", persistent, func(c *cluster) error {
		if v := ask(c, "n1", "CONFIG", "GET", "appendfsync").([]any); v[1] != "always" {
			t.Errorf("appendfsync is %v", v)
		}
		return nil
	})
	if ids[0]["n1"] != ids[1]["n1"] {
		t.Error("n1 was not reused")
	}
	if ids[0]["n2"] == ids[1]["n2"] {
		t.Error("n2 was reused although it had exited")
	}
	if ids[1]["n1"] == ids[2]["n1"] {
		t.Error("n1 was reused although it now must persist its data")
	}
}
