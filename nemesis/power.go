package nemesis

import (
	"errors"
	"fmt"
	"time"
)

// act is a fault in deed, by the power of a cluster that is the interface which the
// fault's file declares.
type act struct {
	has    func(cluster any) bool
	inject func(cluster any, f Fault, target string) (Effect, error)
}

// Effect is a fault in force.
type Effect struct {
	ReadBack string // what was seen that shows the fault is in force
	// Heal ends it and reads back that it is gone. Nil: there is no way back. With
	// ErrIdle it is gone, and was in force for nothing.
	Heal func() (readBack string, err error)
	// Over is when it ends by itself, after the begin; 0: when For or Until says.
	Over time.Duration
}

// ErrIdle is Heal's word for a fault that has met nothing while it was in force. A
// step that is idle on all of its targets has not taken place.
var ErrIdle = errors.New("it hit nothing")

// by is the act of clusters with the power P: do brings the fault into force, and undo
// is the way back; nil: there is none.
func by[P any](what string, do, undo func(c P, f Fault, target string) (readBack string, err error)) act {
	return act{
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

// but is an act whose effect is another one.
func (a act) but(change func(e *Effect, cluster any, f Fault, target string)) act {
	return act{a.has, func(cluster any, f Fault, target string) (Effect, error) {
		e, err := a.inject(cluster, f, target)
		change(&e, cluster, f, target)
		return e, err
	}}
}

// lasting leaves out the way back of a fault that nothing is planned to end.
func lasting(e *Effect, _ any, f Fault, _ string) {
	if !f.ends() {
		e.Heal = nil
	}
}

// Powers of a cluster that serve several kinds. The others have a kind's name.
const (
	PowerClock = "clock"
	powerShape = "shape"
	PowerDisk  = "disk"
)

// Capability names a cluster's power over a sort of target.
func Capability(power string, on Target) string { return power + "-" + string(on) }
