package harness

import (
	"fmt"

	"lockpick/nemesis"
)

// nested is a fault that is in force on one target, perhaps for several steps.
type nested struct {
	fault nemesis.Fault
	times int
	heal  func() (string, error)
}

// nest injects a fault, unless the same is in force on the target already: then
// that one lasts until both have ended. Two faults of one kind that differ can't
// be in force on one target at once.
func (e *engine) nest(kind nemesis.Kind, f nemesis.Fault, target string) (nemesis.Effect, error) {
	if !kind.Nests {
		return kind.Inject(e.cluster, f, target)
	}
	e.nesting.Lock()
	defer e.nesting.Unlock()
	name := kind.Recorded() + " " + target
	n := e.nests[name]
	switch {
	case n == nil:
		x, err := kind.Inject(e.cluster, f, target)
		if err != nil || x.Heal == nil {
			return x, err
		}
		e.nests[name] = &nested{fault: f, times: 1, heal: x.Heal}
		x.Heal = func() (string, error) { return e.leave(name) }
		return x, nil
	case n.fault.Mode != f.Mode || n.fault.Way != f.Way:
		return nemesis.Effect{}, fmt.Errorf("%s %s: it is in force already, in another way", kind.Name, target)
	}
	n.times++
	return nemesis.Effect{ReadBack: "it was in force already", Heal: func() (string, error) { return e.leave(name) }}, nil
}

// leave ends one of a target's equal faults, and with the last the fault itself.
func (e *engine) leave(name string) (string, error) {
	e.nesting.Lock()
	defer e.nesting.Unlock()
	n := e.nests[name]
	if n.times--; n.times > 0 {
		return "it stays in force for another step", nil
	}
	delete(e.nests, name)
	return n.heal()
}
