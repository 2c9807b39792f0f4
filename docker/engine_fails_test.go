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

// A run whose engine dies says so, keeps what was recorded, and removes what it has
// made as soon as an engine answers again. The next run, by the same backend, is well.
func TestEngineThatRestartsInMidRun(t *testing.T) {
	e := dockerd(t, "")
	backend := farBackend()
	var text bytes.Buffer
	var label string
	err := backend.Run(t.Context(), twoNodes, 1, history.NewRecorder(&text), func(ctx context.Context, c harness.Cluster) error {
		label = c.(*cluster).site.labels[runLabel]
		return c.RunClient(ctx, spec("c1", 0, client.Point{Name: client.AfterAcquire, Nth: 1}), func(string) {
			e.end(syscall.SIGKILL)
			e.start()
		})
	})
	t.Log(err)
	if err == nil || !strings.Contains(err.Error(), " ended") { // the links, or a container that was heard of before them
		t.Errorf("it came out as %v", err)
	}
	if !strings.Contains(text.String(), `"acquire"`) {
		t.Errorf("what was recorded before is lost: %s", text.String())
	}
	if left := remains(t, runLabel+"="+label); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	err = backend.Run(t.Context(), twoNodes, 1, history.NewRecorder(&text), func(ctx context.Context, c harness.Cluster) error {
		return c.RunClient(ctx, spec("c1", 1), never)
	})
	if err != nil {
		t.Errorf("the next run: %v", err)
	}
	if err := backend.Close(); err != nil {
		t.Error(err)
	}
}

// An engine without room can't make what a run needs, and says so.
func TestEngineWithoutRoom(t *testing.T) {
	dockerd(t, "mount -t tmpfs -o size=24m none data")
	err := farBackend().Run(t.Context(), twoNodes, 1, history.NewRecorder(&bytes.Buffer{}), func(context.Context, harness.Cluster) error {
		t.Error("it ran")
		return nil
	})
	t.Log(err)
	if err == nil || !strings.Contains(err.Error(), "no space left on device") || !strings.Contains(err.Error(), "image") {
		t.Errorf("it came out as %v", err)
	}
	if left := remains(t, engine.OwnerLabel); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A server that does not start: what it had to say is in the error, and nothing is left.
func TestServerThatDoesNotStart(t *testing.T) {
	needEngine(t)
	backend := New(Config{Client: []string{os.Args[0], "__client"}, RedisServer: "sleep"}) // which knows no --bind
	err := backend.Run(t.Context(), twoNodes, 1, history.NewRecorder(&bytes.Buffer{}), func(context.Context, harness.Cluster) error {
		t.Error("it ran")
		return nil
	})
	t.Log(err)
	if err == nil || !strings.Contains(err.Error(), "redis-server ended") || !strings.Contains(err.Error(), "sleep: unrecognized option") {
		t.Errorf("it came out as %v", err)
	}
	self, err := files.Self()
	if err != nil {
		t.Fatal(err)
	}
	if left := remains(t, engine.OwnerLabel+"="+self.String()); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
