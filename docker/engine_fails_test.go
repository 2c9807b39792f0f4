//go:build linux

package docker

import (
	"bytes"
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"lockpick/docker/engine"
	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/internal/files"
)

// If the engine dies during a run, the run reports this, keeps its record, and removes its containers when
// an engine answers again. The next run on the same backend succeeds.
func TestEngineRestartsDuringRun(t *testing.T) {
	e := startSecondEngine(t, "")
	backend := remoteBackend()
	var text bytes.Buffer
	var label string
	err := backend.Run(t.Context(), twoNodes, 1, history.NewRecorder(&text), func(ctx context.Context, c harness.Cluster) error {
		label = c.(*cluster).testbed.labels[runLabel]
		return c.RunClient(ctx, newSpec("c1", 0, client.Point{Name: client.AfterAcquire, Nth: 1}), func(string) {
			e.end(syscall.SIGKILL)
			e.start()
		})
	})
	t.Log(err)
	if err == nil || !strings.Contains(err.Error(), " exited") { // the links, or a container whose exit was noticed first
		t.Errorf("run: %v", err)
	}
	if !strings.Contains(text.String(), `"acquire"`) {
		t.Errorf("record was lost: %s", text.String())
	}
	if left := leftovers(t, runLabel+"="+label); len(left) > 0 {
		t.Errorf("run left %v behind", left)
	}
	err = backend.Run(t.Context(), twoNodes, 1, history.NewRecorder(&text), func(ctx context.Context, c harness.Cluster) error {
		return c.RunClient(ctx, newSpec("c1", 1), ignorePoint)
	})
	if err != nil {
		t.Errorf("next run: %v", err)
	}
	if err := backend.Close(); err != nil {
		t.Error(err)
	}
}

// If the engine is out of disk space, the run fails and the error says so.
func TestEngineOutOfDiskSpace(t *testing.T) {
	startSecondEngine(t, "mount -t tmpfs -o size=24m none data")
	err := remoteBackend().Run(t.Context(), twoNodes, 1, history.NewRecorder(&bytes.Buffer{}), func(context.Context, harness.Cluster) error {
		t.Error("body was called")
		return nil
	})
	t.Log(err)
	if err == nil || !strings.Contains(err.Error(), "no space left on device") || !strings.Contains(err.Error(), "image") {
		t.Errorf("run: %v", err)
	}
	if left := leftovers(t, engine.OwnerLabel); len(left) > 0 {
		t.Errorf("run left %v behind", left)
	}
}

// If a server does not start, the error includes the server's output, and nothing is left behind.
func TestServerFailsToStart(t *testing.T) {
	requireEngine(t)
	backend := New(Config{Client: []string{os.Args[0], "__client"}, RedisServer: "sleep"}) // sleep has no option --bind
	err := backend.Run(t.Context(), twoNodes, 1, history.NewRecorder(&bytes.Buffer{}), func(context.Context, harness.Cluster) error {
		t.Error("body was called")
		return nil
	})
	t.Log(err)
	if err == nil || !strings.Contains(err.Error(), "redis-server ended") || !strings.Contains(err.Error(), "sleep: unrecognized option") {
		t.Errorf("run: %v", err)
	}
	self, err := files.CurrentOwner()
	if err != nil {
		t.Fatal(err)
	}
	if left := leftovers(t, engine.OwnerLabel+"="+self.String()); len(left) > 0 {
		t.Errorf("run left %v behind", left)
	}
}
