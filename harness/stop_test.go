package harness

import (
	"context"
	"strings"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// chattyCluster is a cluster whose clients record events until they are stopped.
type chattyCluster struct{ tickingCluster }

func (c *chattyCluster) Run(ctx context.Context, _ scenario.Scenario, _ uint64, rec *history.Recorder, body Body) error {
	c.rec = rec
	return body(ctx, c)
}

func (c *chattyCluster) RunClient(ctx context.Context, s client.Spec, _ func(string)) error {
	for ctx.Err() == nil {
		c.rec.Record(history.Event{T: int64(c.Now()), Process: s.Name, Type: history.Info, Op: history.OpLost})
		time.Sleep(time.Millisecond)
	}
	return nil
}

func TestRunStopsAtEventLimit(t *testing.T) {
	s := scenario.Scenario{Name: "t", Clients: []scenario.Client{{Name: "c1"}, {Name: "c2"}}, Limit: time.Hour}
	var text strings.Builder
	if err := RunWithLimit(t.Context(), &chattyCluster{}, s, 1, history.NewRecorder(&text), 7); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	const wantCause = "stopped at event 7: a run may record no more events"
	if !strings.HasPrefix(h.Truncation, wantCause) || strings.Count(text.String(), `"op":"stop"`) != 1 {
		t.Errorf("the history is cut for %q:\n%s", h.Truncation, text.String())
	}
	if end := h.Events[len(h.Events)-1]; end.Op != history.OpRun || !strings.HasPrefix(end.Cause, wantCause) {
		t.Errorf("the last event is %+v", end)
	}
}
