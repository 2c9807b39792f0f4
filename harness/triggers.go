package harness

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// triggers are what sets the steps of a plan off.
type triggers struct {
	s       scenario.Scenario
	cluster Cluster
	faults  *faults
	again   again

	mu     sync.Mutex
	points map[string][]int // client and point → planned steps, in the order of their nth
}

// arm sets up what sets each planned step off.
func (t *triggers) arm() error {
	for i, st := range t.s.Plan {
		switch w := st.When; {
		case w.At != nil:
			t.cluster.At(*w.At, func() { t.fire(i, nil) })
		case w.Event != nil:
			t.faults.waits.await(*w.Event, nil, func() { t.fire(i, nil) })
		case w.Point != nil:
			at := w.Point.Client + " " + w.Point.Point
			t.points[at] = append(t.points[at], i)
		case w.Message != nil:
			tap, ok := t.cluster.(nemesis.Tapper)
			if !ok {
				return fmt.Errorf("arm step %d: this cluster can't watch messages", i+1)
			}
			if err := tap.Tap(*w.Message, func(h nemesis.Held) { t.onMessage(i, h) }); err != nil {
				return fmt.Errorf("arm step %d: %w", i+1, err)
			}
		}
	}
	for _, steps := range t.points {
		slices.SortFunc(steps, func(a, b int) int {
			return cmp.Compare(t.s.Plan[a].When.Point.Nth, t.s.Plan[b].When.Point.Nth)
		})
	}
	return nil
}

// atPoint is called while a client waits at a point that is armed.
func (t *triggers) atPoint(client, point string) {
	t.mu.Lock()
	at := client + " " + point
	var step = -1
	if steps := t.points[at]; len(steps) > 0 {
		step, t.points[at] = steps[0], steps[1:]
	}
	t.mu.Unlock()
	if step >= 0 {
		t.fire(step, nil)
	}
}

// onMessage is called while a message waits on the wire.
func (t *triggers) onMessage(step int, m nemesis.Held) {
	kind, _ := nemesis.KindOf(t.s.Plan[step].Fault.Kind)
	switch {
	case kind.Keeps:
		if !t.fire(step, func() (string, error) { m.Pass(); return "it was let pass", nil }) {
			m.Pass()
		}
	case kind.Loses:
		if t.fire(step, nil) {
			m.Lose()
		} else {
			m.Pass()
		}
	default:
		t.fire(step, nil)
		m.Pass()
	}
}

// fire injects a step's fault on all its targets at once and plans its end.
// healBy ends it where the fault itself has no way back. A run that is stopped
// injects nothing, and what comes too late does not either.
func (t *triggers) fire(step int, healBy func() (string, error)) (fired bool) {
	f, when, targets := t.s.Plan[step].Fault, t.s.Plan[step].When, t.s.Targets(t.s.Plan[step])
	comes := func() bool { return when.Before == 0 || t.cluster.Now() <= when.Before }
	if !comes() {
		return false
	}
	if kind, _ := nemesis.KindOf(f.Kind); kind.Again {
		t.again.start(step, f, targets)
		return true
	}
	at, end := t.cluster.Now(), never
	if when.At != nil {
		at = *when.At
	}
	if f.For != nil {
		end = at + f.Timer.True(*f.For)
	}
	begun, fired := t.faults.inject(step, f, t.faults.queues.join(targets, at, end), comes, healBy)
	t.faults.planEnd(f, begun)
	return fired
}
