package harness

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"lockpick/harness/history"
	"lockpick/nemesis"
)

// active is a fault that is in force on one target.
type active struct {
	step   int
	kind   string
	target string
	heal   func() (string, error)
}

// arm sets up what sets each planned step off.
func (e *engine) arm() error {
	for i, st := range e.s.Plan {
		switch w := st.When; {
		case w.At != nil:
			e.cluster.At(*w.At, func() { e.fire(i, nil) })
		case w.Event != nil:
			e.mu.Lock()
			e.await(*w.Event, nil, func() { e.fire(i, nil) })
			e.mu.Unlock()
		case w.Point != nil:
			at := w.Point.Client + " " + w.Point.Point
			e.points[at] = append(e.points[at], i)
		case w.Message != nil:
			t, ok := e.cluster.(nemesis.Tapper)
			if !ok {
				return fmt.Errorf("arm step %d: this cluster can't watch messages", i+1)
			}
			if err := t.Tap(*w.Message, func(pass func()) { e.onMessage(i, pass) }); err != nil {
				return fmt.Errorf("arm step %d: %w", i+1, err)
			}
		}
	}
	for _, steps := range e.points {
		slices.SortFunc(steps, func(a, b int) int {
			return cmp.Compare(e.s.Plan[a].When.Point.Nth, e.s.Plan[b].When.Point.Nth)
		})
	}
	return nil
}

// atPoint is called while a client waits at a point that is armed.
func (e *engine) atPoint(client, point string) {
	e.mu.Lock()
	at := client + " " + point
	var step = -1
	if steps := e.points[at]; len(steps) > 0 {
		step, e.points[at] = steps[0], steps[1:]
	}
	e.mu.Unlock()
	if step >= 0 {
		e.fire(step, nil)
	}
}

// onMessage is called while a message waits on the wire.
func (e *engine) onMessage(step int, pass func()) {
	if e.s.Plan[step].Fault.Kind == "hold" {
		e.fire(step, func() (string, error) { pass(); return "it was let pass", nil })
		return
	}
	e.fire(step, nil)
	pass()
}

// fire injects a step's fault on each of its targets and plans its end. healBy
// ends it where the fault itself has no way back.
func (e *engine) fire(step int, healBy func() (string, error)) {
	f := e.s.Plan[step].Fault
	kind, _ := nemesis.KindOf(f.Kind)
	var begun []*active
	for _, target := range e.targets(step) {
		ev := history.Event{Process: history.Nemesis, Type: history.Invoke, Op: f.Kind, Node: target, Step: step + 1}
		e.record(ev)
		effect, err := kind.Inject(e.cluster, f, target)
		if err != nil {
			ev.Type, ev.Cause = history.Fail, err.Error()
			e.record(ev)
			continue
		}
		ev.Type, ev.Cause = history.Begin, effect.ReadBack
		e.record(ev)
		if effect.Heal == nil {
			effect.Heal = healBy
		}
		if effect.Heal != nil {
			begun = append(begun, &active{step: step, kind: f.Kind, target: target, heal: effect.Heal})
		}
	}
	e.planEnd(f, begun)
}

func (e *engine) planEnd(f nemesis.Fault, begun []*active) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.active = append(e.active, begun...)
	for _, a := range begun {
		heal := func() { e.heal(a) }
		switch {
		case f.For != nil:
			e.cluster.At(e.cluster.Now()+*f.For, heal)
		case f.Until != nil:
			e.await(*f.Until, nil, heal)
		}
	}
}

// heal ends a fault once.
func (e *engine) heal(a *active) {
	e.mu.Lock()
	i := slices.Index(e.active, a)
	if i < 0 {
		e.mu.Unlock()
		return
	}
	e.active = slices.Delete(e.active, i, i+1)
	e.mu.Unlock()
	back, err := a.heal()
	if err != nil {
		e.mu.Lock()
		e.failed = append(e.failed, fmt.Errorf("end %s of %s (step %d): %w", a.kind, a.target, a.step+1, err))
		e.mu.Unlock()
		return
	}
	e.record(history.Event{Process: history.Nemesis, Type: history.End, Op: a.kind, Node: a.target, Step: a.step + 1, Cause: back})
}

// healAll ends what is still in force when the clients are done.
func (e *engine) healAll(ctx context.Context) {
	e.mu.Lock()
	left := slices.Clone(e.active)
	e.mu.Unlock()
	for _, a := range left {
		// Each at an instant of its own.
		e.pause(ctx, time.Microsecond)
		e.heal(a)
	}
}
