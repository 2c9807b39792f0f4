package nemesis

import (
	"errors"
	"fmt"
	"time"
)

// action injects a fault into clusters that implement the interface declared in the fault's file.
type action struct {
	has    func(cluster any) bool
	inject func(cluster any, f Fault, target string) (Effect, error)
}

// Effect is a fault that is in force.
type Effect struct {
	ReadBack string // evidence that the fault is in force
	// Heal ends the fault and reads back that it is over. It is nil if the fault can't be ended.
	// ErrIdle means that the fault is over but had no effect.
	Heal func() (readBack string, err error)
	// Over is the time until the fault ends by itself. 0 means that For or Until decides.
	Over time.Duration
}

// ErrIdle is returned by Heal if the fault had no effect. A step that is idle on all of its targets
// counts as not having happened.
var ErrIdle = errors.New("it hit nothing")

// newAction returns the action for clusters that implement P. do injects the fault and undo ends
// it; undo may be nil.
func newAction[P any](what string, do, undo func(c P, f Fault, target string) (readBack string, err error)) action {
	return action{
		has: func(cluster any) bool { _, ok := cluster.(P); return ok },
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

// adjust returns an action that changes the effect of a.
func (a action) adjust(change func(e *Effect, cluster any, f Fault, target string)) action {
	return action{a.has, func(cluster any, f Fault, target string) (Effect, error) {
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

// Capabilities that several kinds share. For other kinds, the capability has the kind's name.
const (
	PowerClock = "clock"
	powerShape = "shape"
	PowerDisk  = "disk"
)

// Capability returns the name of a cluster's capability for a type of target.
func Capability(power string, on Target) string { return power + "-" + string(on) }
