package harness

import (
	"lockpick/harness/history"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// wait is somebody who waits for an event.
type wait struct {
	event nemesis.Event
	seen  int
	// onMatch is called at once, under the engine's lock; nil: nothing.
	onMatch func()
	f       func()
}

// await calls f once the event has been seen, in a goroutine of its own and soon
// after, never exactly then. The engine's lock is held.
func (e *engine) await(ev nemesis.Event, onMatch func(), f func()) {
	e.waits = append(e.waits, &wait{event: ev, onMatch: onMatch, f: f})
}

// see is shown every event as it is recorded.
func (e *engine) see(ev history.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if ev.Op == history.OpWrite || ev.Op == history.OpRead {
		if ev.Applied > 0 && ev.Value != "" && ev.Process != scenario.ResourceName {
			e.applied[ev.Value] = ev.Applied
		}
	}
	e.ask(ev)
	kept := e.waits[:0]
	var due []*wait
	for _, w := range e.waits {
		if w.event.Matches(ev) {
			w.seen++
			if w.event.Every || w.seen == max(w.event.Nth, 1) {
				due = append(due, w)
			}
		}
		if w.event.Every || w.seen < max(w.event.Nth, 1) {
			kept = append(kept, w)
		}
	}
	e.waits = kept
	for _, w := range due {
		if w.onMatch != nil {
			w.onMatch()
		}
		e.cluster.At(e.cluster.Now()+w.event.After, w.f)
	}
}
