package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockpick/harness/client"
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// slowCluster runs in virtual time. Its nodes restart slowly, and its client reaches a point after
// 500 ms.
type slowCluster struct {
	tickingCluster
	start time.Time
	mu    sync.Mutex
	state map[string]string // by node; "": running
}

const (
	restartDuration = 900 * time.Millisecond
	pauseDuration   = 10 * time.Millisecond
)

func (c *slowCluster) Now() time.Duration           { return time.Since(c.start) }
func (c *slowCluster) At(t time.Duration, f func()) { time.AfterFunc(t-c.Now(), f) }

func (c *slowCluster) RunClient(ctx context.Context, _ client.Spec, at func(string)) error {
	time.Sleep(500 * time.Millisecond)
	at(client.BeforeRelease)
	<-ctx.Done()
	return nil
}

// setState changes a node's state if it is one of the states in from.
func (c *slowCluster) setState(node, to string, from ...string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(from, c.state[node]) {
		return "", fmt.Errorf("%s is %q and can't be %q", node, c.state[node], to)
	}
	c.state[node] = to
	return to, nil
}

func (c *slowCluster) Kill(node string) (string, error) {
	return c.setState(node, "down", "", "paused")
}
func (c *slowCluster) Shutdown(node string) (string, error) { return c.setState(node, "down", "") }
func (c *slowCluster) Pause(node string) (string, error) {
	time.Sleep(pauseDuration)
	return c.setState(node, "paused", "")
}
func (c *slowCluster) Resume(node string) (string, error) {
	c.setState(node, "", "paused") // no effect if the node was killed in the meantime
	return "", nil
}
func (c *slowCluster) Restart(node string) (string, error) {
	time.Sleep(restartDuration)
	return c.setState(node, "", "down")
}

func (c *slowCluster) StallSync(string) (string, error) { return "stalled", nil }
func (c *slowCluster) FillDisk(string) (string, error)  { return "full", nil }
func (c *slowCluster) FreeDisk(string) (string, error)  { return "free", nil }

func (c *slowCluster) Run(ctx context.Context, _ scenario.Scenario, _ uint64, rec *history.Recorder, body Body) error {
	c.start, c.rec, c.state = time.Now(), rec, map[string]string{}
	return body(ctx, c)
}

// A step that is due before an earlier step has ended waits if it was planned to start after that
// end. A step that was planned to overlap the earlier one does not wait.
func TestStepsStartInPlanOrder(t *testing.T) {
	at := func(ms int) nemesis.Trigger {
		d := time.Duration(ms) * time.Millisecond
		return nemesis.Trigger{At: &d}
	}
	atPoint := nemesis.Trigger{Point: &nemesis.OnPoint{Client: "c1", Point: client.BeforeRelease, Nth: 1}}
	step := func(when nemesis.Trigger, kind string, ms int, targets ...string) nemesis.Step {
		d := time.Duration(ms) * time.Millisecond
		f := nemesis.Fault{Kind: kind, Targets: targets, For: &d}
		if ms == 0 {
			f.For = nil
		}
		return nemesis.Step{When: when, Fault: f}
	}
	until := step(at(100), "kill", 0, "n1")
	until.Fault.Until = &nemesis.Event{Client: "n2", Event: "paused"}
	before := step(at(400), "kill", 300, "n1")
	before.When.Before = time.Second
	for name, row := range map[string]struct {
		plan nemesis.Plan
		want string
	}{
		"node is restarting":   {nemesis.Plan{step(at(100), "kill", 300, "n1"), step(at(600), "shutdown", 300, "n1")}, "1 kill n1 100-400, 2 shutdown n1 1300-1600"},
		"two steps wait":       {nemesis.Plan{step(at(100), "kill", 100, "n1"), step(at(300), "kill", 100, "n1"), step(at(500), "pause", 50, "n1")}, "1 kill n1 100-200, 2 kill n1 1100-1200, 3 pause n1 2110-2160"},
		"another target":       {nemesis.Plan{step(at(100), "kill", 300, "n1"), step(at(600), "kill", 300, "n2")}, "1 kill n1 100-400, 2 kill n2 600-900"},
		"targets at once":      {nemesis.Plan{step(at(100), "kill", 300, "n1"), step(at(600), "pause", 300, "n2", "n1")}, "1 kill n1 100-400, 2 pause n1 1310-1610, 2 pause n2 1310-1610"},
		"same target twice":    {nemesis.Plan{step(at(100), "kill", 300, "n1"), step(at(600), "slow-disk", 0, "n1", "n1")}, "1 kill n1 100-400, 2 slow-disk n1 1300-4000, 2 slow-disk n1 1300-4000"},
		"at a point":           {nemesis.Plan{step(at(100), "kill", 300, "n1"), step(atPoint, "pause", 100, "n1")}, "1 kill n1 100-400, 2 pause n1 1310-1410"},
		"deadline missed":      {nemesis.Plan{step(at(100), "kill", 200, "n1"), before}, "1 kill n1 100-300"},
		"within a pause":       {nemesis.Plan{step(at(100), "pause", 1000, "n1"), step(at(200), "kill", 2000, "n1")}, "1 pause n1 110-1110, 2 kill n1 200-2200"},
		"within endless pause": {nemesis.Plan{step(at(100), "pause", 0, "n1"), step(at(200), "kill", 300, "n1")}, "1 pause n1 110-4000, 2 kill n1 200-500"},
		"until an event":       {nemesis.Plan{until, step(at(300), "pause", 50, "n2"), step(at(600), "shutdown", 300, "n1")}, "1 kill n1 100-310, 2 pause n2 310-360, 3 shutdown n1 1210-1510"},
		"within a waiting step": {nemesis.Plan{step(at(100), "kill", 100, "n1"), step(at(300), "pause", 500, "n1"), step(at(400), "kill", 2000, "n1")},
			"1 kill n1 100-200, 2 pause n1 1110-1610, 3 kill n1 1110-3110"},
		"at a point until the limit": {nemesis.Plan{step(at(100), "kill", 100, "n1"), step(at(210), "kill", 100, "n1"), step(at(320), "kill", 100, "n1"), step(at(430), "kill", 60, "n1"), step(atPoint, "pause", 100, "n1")},
			"1 kill n1 100-200, 2 kill n1 1100-1200, 3 kill n1 2100-2200, 4 kill n1 3100-3160"},
		"limit reached first": {nemesis.Plan{step(at(100), "kill", 3200, "n1"), step(at(3500), "kill", 300, "n1")}, "1 kill n1 100-3300"},
	} {
		t.Run(name, func(t *testing.T) {
			var text strings.Builder
			synctest.Test(t, func(t *testing.T) {
				s := scenario.Scenario{Name: "t", Topology: scenario.Topology{Nodes: 2}, Clients: []scenario.Client{{Name: "c1"}}, Limit: 4 * time.Second, Plan: row.plan}
				if err := Run(t.Context(), &slowCluster{}, s, 1, history.NewRecorder(&text)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(restartDuration) // a starting node must not delay the end of the run
			})
			if got := activeSpans(t, text.String()); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

// activeSpans lists when each step was active, in milliseconds. It fails the test if a step's fault
// was injected long after its invoke event.
func activeSpans(t *testing.T, text string) string {
	t.Helper()
	h, err := history.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	invokeTimes, beginTimes := map[string]time.Duration{}, map[string]time.Duration{}
	for _, e := range h.Events {
		at := time.Duration(e.T).Truncate(time.Millisecond)
		key := fmt.Sprintf("%d %s %s", e.Step, e.Op, e.Node)
		switch {
		case e.Process != history.Nemesis:
		case e.Type == history.Invoke:
			invokeTimes[key] = at
		case e.Type == history.Begin && at-invokeTimes[key] <= pauseDuration:
			beginTimes[key] = at
		case e.Type == history.End:
			lines = append(lines, fmt.Sprintf("%s %d-%d", key, beginTimes[key].Milliseconds(), at.Milliseconds()))
		default:
			t.Errorf("unexpected event: %s %s at %v: %s", key, e.Type, at, e.Cause)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, ", ")
}
