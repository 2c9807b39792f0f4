package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/scenario"
)

// disturbedCluster is a cluster whose processes are disturbed from outside before the run, during
// it and at its very end.
type disturbedCluster struct{ tickingCluster }

func (b *disturbedCluster) Run(ctx context.Context, _ scenario.Scenario, _ uint64, rec *history.Recorder, body Body) error {
	b.rec = rec
	return body(ctx, b)
}

func (b *disturbedCluster) MonitorProcesses(report func(UnplannedEvent)) (stop func()) {
	report(UnplannedEvent{Op: "kill", Node: "n1", Cause: "before"})
	report(UnplannedEvent{Op: "pause", Node: "c1"})
	return func() { report(UnplannedEvent{Op: history.OpContinue, Node: "n2"}) }
}

// Interference reported by a cluster is recorded as an unplanned event, stamped within the run.
func TestUnplannedEventsAreRecorded(t *testing.T) {
	var text strings.Builder
	s := scenario.Scenario{Name: "t", Clients: []scenario.Client{{Name: "c1"}}, Limit: time.Hour}
	err := Run(t.Context(), &disturbedCluster{}, s, 1, history.NewRecorder(&text))
	if err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range h.Events {
		if e.Process == history.Nemesis {
			got = append(got, fmt.Sprint(e.Type, " ", e.Op, " ", e.Node, " ", e.Step, e.Cause))
		}
	}
	if want := []string{"begin kill n1 -1before", "begin pause c1 -1", "begin go-on n2 -1"}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
	if last := h.Events[len(h.Events)-1]; last.Op != history.OpRun || last.Type != history.End {
		t.Errorf("the last event is %+v", last)
	}
}
