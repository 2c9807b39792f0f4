package nemesis

import (
	"errors"
	"fmt"
	"time"
)

// action injects a fault into clusters that implement the interface declared in the fault's file.
type action struct {
	supports func(cluster any) bool
	inject   func(cluster any, f Fault, target string) (Effect, error)
}

// Effect is an active fault.
type Effect struct {
	ReadBack string // evidence that the fault is active
	// Heal ends the fault and reads back that it is over. It is nil if the fault can't be ended.
	// ErrIdle means that the fault is over but had no effect.
	Heal func() (readBack string, err error)
	// EndsAfter is the time after which the fault ends by itself. If it is 0, the fault ends with
	// Fault.For or Fault.Until.
	EndsAfter time.Duration
}

// ErrIdle is returned by Heal if the fault had no effect. A step that had no effect on any of its
// targets counts as not having happened.
var ErrIdle = errors.New("it hit nothing")

// newAction returns the action for clusters that implement P. do injects the fault, and undo, which
// may be nil, ends it.
func newAction[P any](what string, do, undo func(c P, f Fault, target string) (readBack string, err error)) action {
	return action{
		supports: func(cluster any) bool { _, ok := cluster.(P); return ok },
		inject: func(cluster any, f Fault, target string) (Effect, error) {
			c, ok := cluster.(P)
			if !ok {
				return Effect{}, fmt.Errorf("this cluster (%T) can't %s", cluster, what)
			}
			back, err := do(c, f, target)
			e := Effect{ReadBack: back}
			if undo != nil {
				e.Heal = func() (string, error) { return undo(c, f, target) }
			}
			return e, err
		},
	}
}

// adjust returns an action that injects the same fault and then changes its Effect.
func (a action) adjust(change func(e *Effect, cluster any, f Fault, target string)) action {
	return action{a.supports, func(cluster any, f Fault, target string) (Effect, error) {
		e, err := a.inject(cluster, f, target)
		change(&e, cluster, f, target)
		return e, err
	}}
}

// endOnlyIfPlanned removes Heal unless the plan ends the fault.
func endOnlyIfPlanned(e *Effect, _ any, f Fault, _ string) {
	if !f.hasEnd() {
		e.Heal = nil
	}
}

// Base names of capabilities that several kinds share. Other capabilities are named after their
// kind.
const (
	ClockCapability = "clock"
	shapeCapability = "shape"
	DiskCapability  = "disk"
)

// Capability returns the name of a cluster's capability for a target type.
func Capability(name string, target Target) string { return name + "-" + string(target) }
