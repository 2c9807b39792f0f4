//go:build linux

package process

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// A run that is canceled while a fault is active ends at once: the fault is healed, the history is
// complete up to that point, and nothing is left behind.
func TestCancelDuringFault(t *testing.T) {
	needRedis(t)
	dir := t.TempDir()
	duration := time.Minute
	s := twoNodes
	s.Lock = clientSpec("c1", 0).Lock
	s.Limit, s.Workload = duration, scenario.Workload{Fence: client.FenceNone, Writes: 1, Cycles: 1, Keys: 1}
	s.Clients = s.Clients[:1]
	s.Plan = nemesis.Plan{{
		When:  nemesis.Trigger{Point: &nemesis.OnPoint{Client: "c1", Point: client.AfterAcquire, Nth: 1}},
		Fault: nemesis.Fault{Kind: "pause", Targets: []string{"c1"}, For: &duration},
	}}
	ctx, cancel := context.WithCancel(t.Context())
	var text bytes.Buffer
	rec := history.NewRecorder(&text)
	rec.Watch(func(e history.Event) {
		if e.Op == "pause" && e.Type == history.Begin {
			cancel()
		}
	})
	ended := make(chan error, 1)
	go func() { ended <- harness.Run(ctx, testBackend(dir), s, 1, rec) }()
	if err := receive(t, "end of the run", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the run ended with %v", err)
	}
	h, err := history.Read(&text)
	if err != nil {
		t.Fatal(err)
	}
	healed := false
	for _, e := range h.Events {
		healed = healed || e.Op == "pause" && e.Type == history.End
	}
	if !healed || h.Truncation != "" {
		t.Errorf("fault healed: %v, history cut: %q", healed, h.Truncation)
	}
	if leftovers, err := os.ReadDir(dir); err != nil || len(leftovers) > 0 {
		t.Errorf("left behind: %v, %v", leftovers, err)
	}
}
