package harness

import (
	"errors"

	"lockpick/harness/history"
	"lockpick/nemesis"
)

// ended is a fault that was healed, and whether it was idle: in force, and met by
// nothing.
type ended struct {
	*active
	back string
	idle bool
}

// idle says whether an error of Heal's is none.
func idle(err error) bool { return errors.Is(err, nemesis.ErrIdle) }

// recordIdle records each step as failed that hit nothing on any of its targets.
// One target that it missed is chance; a step that met nobody did not take place,
// and a run that was to show it shows nothing. What the dice drew is to show nothing
// of its own.
func (e *engine) recordIdle() {
	e.mu.Lock()
	all := e.ends
	e.mu.Unlock()
	hit := map[int]bool{}
	for _, a := range all {
		hit[a.step] = hit[a.step] || !a.idle
	}
	for _, a := range all {
		if !hit[a.step] && !e.s.Plan[a.step].Drawn {
			e.record(history.Event{Process: history.Nemesis, Type: history.Fail, Op: a.kind, Node: a.target, Step: a.step + 1, Cause: nemesis.ErrIdle.Error() + ": " + a.back})
		}
	}
}
