package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// quietCluster is a cluster whose links carry no messages, except for busyLinks.
type quietCluster struct {
	tickingCluster
	busyLinks string
}

func (q *quietCluster) Shape(string, nemesis.Traffic) (string, error) { return "set", nil }
func (q *quietCluster) Unshape(link string, _ nemesis.Traffic) (string, error) {
	if strings.Contains(q.busyLinks, link) {
		return "1 of 1 messages", nil
	}
	return "0 of 0 messages", nemesis.ErrIdle
}

func (q *quietCluster) Run(ctx context.Context, _ scenario.Scenario, _ uint64, rec *history.Recorder, body Body) error {
	q.rec = rec
	return body(ctx, q)
}

// A step without any effect is recorded as failed, but a step that affected some of its targets is
// not.
func TestIdleStepFails(t *testing.T) {
	s := scenario.Scenario{Name: "t", Topology: scenario.Topology{Nodes: 2}, Clients: []scenario.Client{{Name: "c1"}}, Limit: time.Hour, Plan: nemesis.Plan{{
		When:  nemesis.Trigger{Point: &nemesis.OnPoint{Client: "c1", Point: client.BeforeRelease, Nth: 1}},
		Fault: nemesis.Fault{Kind: "lose", Targets: []string{"c1"}, Share: 0.1},
	}}}
	drawnScenario := s
	drawnScenario.Plan = slices.Clone(s.Plan)
	drawnScenario.Plan[0].Drawn = true
	if failed, _ := runWithBusyLinks(t, drawnScenario, ""); failed != nil {
		t.Errorf("a randomly drawn step without effect is recorded as failed: %q", failed)
	}
	for busyLinks, want := range map[string][]string{
		"":            {"c1-n1: it hit nothing: 0 of 0 messages", "c1-n2: it hit nothing: 0 of 0 messages"},
		"c1-n2":       nil,
		"c1-n1 c1-n2": nil,
	} {
		failed, ends := runWithBusyLinks(t, s, busyLinks)
		if fmt.Sprint(failed) != fmt.Sprint(want) || ends != 2 {
			t.Errorf("busy links %q: the fault ended %d times, failures %q, want %q", busyLinks, ends, failed, want)
		}
	}
}

// runWithBusyLinks runs a scenario in which only the given links are busy. It returns the failures
// recorded for its lose fault, and how many times that fault ended.
func runWithBusyLinks(t *testing.T, s scenario.Scenario, busyLinks string) (failures []string, numEnds int) {
	t.Helper()
	var text strings.Builder
	if err := Run(t.Context(), &quietCluster{busyLinks: busyLinks}, s, 1, history.NewRecorder(&text)); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range h.Events {
		switch {
		case e.Op == "lose" && e.Type == history.Fail:
			failures = append(failures, e.Node+": "+e.Cause)
		case e.Op == "lose" && e.Type == history.End:
			numEnds++
		}
	}
	return failures, numEnds
}
