package harness

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// tickingCluster is a cluster whose time advances whenever it is read. When its client is resumed,
// the client records an event before Resume returns.
type tickingCluster struct {
	now atomic.Int64 // atomic because a step's fault is injected on all targets concurrently
	rec *history.Recorder
}

func (c *tickingCluster) Name() string                       { return "ticking" }
func (c *tickingCluster) Probe(context.Context) []Capability { return nil }
func (c *tickingCluster) StampError() time.Duration          { return 0 }
func (c *tickingCluster) Now() time.Duration {
	return time.Duration(c.now.Add(int64(time.Millisecond)))
}
func (c *tickingCluster) Pause(string) (string, error) { return "stopped", nil }
func (c *tickingCluster) Resume(client string) (string, error) {
	c.rec.Record(history.Event{T: int64(c.Now()), Process: client, Type: history.Invoke, Op: history.OpRead})
	return "runs", nil
}

func (c *tickingCluster) RunClient(_ context.Context, _ client.Spec, at func(string)) error {
	at(client.BeforeRelease)
	return nil
}

func (c *tickingCluster) Resource(context.Context, ...string) (any, error) { return []any{}, nil }

// At ignores timers far in the future, such as the run's time limit.
func (c *tickingCluster) At(t time.Duration, f func()) {
	if t < time.Hour {
		go f()
	}
}

func (c *tickingCluster) Run(ctx context.Context, _ scenario.Scenario, _ uint64, rec *history.Recorder, body Body) error {
	c.rec = rec
	return body(ctx, c)
}

// The end of a pause is stamped before any event of the resumed client.
func TestPauseEndPrecedesClientEvents(t *testing.T) {
	s := scenario.Scenario{Name: "t", Clients: []scenario.Client{{Name: "c1"}}, Limit: time.Hour, Plan: nemesis.Plan{{
		When:  nemesis.Trigger{Point: &nemesis.OnPoint{Client: "c1", Point: client.BeforeRelease, Nth: 1}},
		Fault: nemesis.Fault{Kind: "pause", Targets: []string{"c1"}},
	}}}
	var text strings.Builder
	if err := Run(t.Context(), &tickingCluster{}, s, 1, history.NewRecorder(&text)); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, e := range h.Events {
		if e.Op == "pause" || e.Process == "c1" {
			order = append(order, string(e.Type)+" "+e.Op)
		}
	}
	if got, want := strings.Join(order, ", "), "invoke pause, begin pause, end pause, invoke read"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
