package harness

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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
	over   time.Duration // when it ends by itself; 0: it doesn't
	place  *place
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
			if err := t.Tap(*w.Message, func(h nemesis.Held) { e.onMessage(i, h) }); err != nil {
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
func (e *engine) onMessage(step int, m nemesis.Held) {
	switch e.s.Plan[step].Fault.Kind {
	case nemesis.Hold:
		if !e.fire(step, func() (string, error) { m.Pass(); return "it was let pass", nil }) {
			m.Pass()
		}
	case nemesis.Drop:
		if e.fire(step, nil) {
			m.Lose()
		} else {
			m.Pass()
		}
	default:
		e.fire(step, nil)
		m.Pass()
	}
}

// fire injects a step's fault on all its targets at once and plans its end.
// healBy ends it where the fault itself has no way back. A run that is stopped
// injects nothing, and what comes too late does not either.
func (e *engine) fire(step int, healBy func() (string, error)) (fired bool) {
	f, when := e.s.Plan[step].Fault, e.s.Plan[step].When
	comes := func() bool { return when.Before == 0 || e.cluster.Now() <= when.Before }
	if !comes() {
		return false
	}
	if kind, _ := nemesis.KindOf(f.Kind); kind.Again {
		e.fireAgain(step, f)
		return true
	}
	at, end := e.cluster.Now(), never
	if when.At != nil {
		at = *when.At
	}
	if f.For != nil {
		end = at + f.Timer.True(*f.For)
	}
	begun, fired := e.inject(step, f, e.queues.join(e.s.Targets(e.s.Plan[step]), at, end), comes, healBy)
	e.planEnd(f, begun)
	return fired
}

// inject brings a fault into force on its targets, all at once, when it is its turn and
// if it is to come then. It returns those of them that have a way back.
func (e *engine) inject(step int, f nemesis.Fault, targets []*place, comes func() bool, healBy func() (string, error)) (begun []*active, fired bool) {
	if !e.turn(targets) || !comes() || !e.firing.enter() {
		e.queues.leave(targets...)
		return nil, false
	}
	defer e.firing.leave()
	kind, _ := nemesis.KindOf(f.Kind)
	for _, p := range targets {
		e.record(history.Event{Process: history.Nemesis, Type: history.Invoke, Op: kind.Recorded(), Node: p.target, Step: step + 1})
	}
	// To read a fault back takes time on a real backend, and one target's must not
	// keep the next one waiting.
	effects := make([]effect, len(targets))
	var all sync.WaitGroup
	for i, p := range targets {
		all.Go(func() {
			x := &effects[i]
			x.Effect, x.err = e.nest(kind, f, p.target)
			x.at = e.cluster.Now()
		})
	}
	all.Wait()
	for i, p := range targets {
		if a := e.recordBegin(step, kind, p, effects[i], healBy); a != nil {
			begun = append(begun, a)
		} else {
			e.queues.leave(p)
		}
	}
	e.mu.Lock()
	e.active = append(e.active, begun...)
	e.mu.Unlock()
	e.queues.begin(targets)
	return begun, true
}

// recordBegin records what came of a fault on one target, and returns it if it has a
// way back.
func (e *engine) recordBegin(step int, kind nemesis.Kind, p *place, x effect, healBy func() (string, error)) *active {
	ev := history.Event{T: int64(x.at), Process: history.Nemesis, Type: history.Begin, Op: kind.Recorded(), Node: p.target, Step: step + 1, Cause: x.ReadBack}
	if kind.Again && errors.Is(x.err, nemesis.ErrEnded) {
		return nil // it came once too often
	}
	if x.err != nil {
		ev.Type, ev.Cause = history.Fail, x.err.Error()
		e.record(ev)
		return nil
	}
	e.record(ev)
	if x.Heal == nil {
		x.Heal = healBy
	}
	if x.Heal == nil {
		return nil
	}
	return &active{step: step, kind: kind.Recorded(), target: p.target, heal: x.Heal, over: x.Over, place: p}
}

// effect is what came of injecting a fault on one target.
type effect struct {
	nemesis.Effect
	err error
	at  time.Duration
}

// planEnd counts how long a fault lasts from when it is in force, so that what came
// late is no shorter: a node that forgets is down for as long as its grants may last.
func (e *engine) planEnd(f nemesis.Fault, begun []*active) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range begun {
		heal := func() { e.heal(a) }
		switch {
		case f.For != nil:
			e.cluster.At(e.cluster.Now()+f.Timer.True(*f.For), heal)
		case a.over > 0:
			e.queues.due(a.place, a.place.at+a.over)
			e.cluster.At(e.cluster.Now()+a.over, heal)
		case f.Until != nil:
			e.await(*f.Until, nil, heal)
		}
	}
}

// heal ends a fault once. The end is stamped before healing begins, as the begin
// is once the fault was seen: in between it was certainly in force, and nothing
// that the healed do can fall inside.
func (e *engine) heal(a *active) {
	e.mu.Lock()
	i := slices.Index(e.active, a)
	if i < 0 {
		e.mu.Unlock()
		return
	}
	e.active = slices.Delete(e.active, i, i+1)
	e.mu.Unlock()
	at := e.cluster.Now()
	e.queues.due(a.place, at)
	defer e.queues.leave(a.place)
	back, err := a.heal()
	if err != nil && !idle(err) {
		e.mu.Lock()
		e.failed = append(e.failed, fmt.Errorf("end %s of %s (step %d): %w", a.kind, a.target, a.step+1, err))
		e.mu.Unlock()
		return
	}
	e.record(history.Event{T: int64(at), Process: history.Nemesis, Type: history.End, Op: a.kind, Node: a.target, Step: a.step + 1, Cause: back})
	e.mu.Lock()
	e.ends = append(e.ends, ended{a, back, idle(err)})
	e.mu.Unlock()
}

// healAll ends what is still in force when the clients are done.
func (e *engine) healAll(ctx context.Context) {
	e.mu.Lock()
	e.healing = true
	left := slices.Clone(e.active)
	e.mu.Unlock()
	for _, a := range left {
		// Each at an instant of its own.
		e.pause(ctx, time.Microsecond)
		e.heal(a)
	}
}
