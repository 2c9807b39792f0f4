package harness

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"lockpick/harness/history"
)

// Unplanned is what somebody other than the harness did to a process of the run: a node,
// the resource, a client, a replica, a sentinel, or what makes the links.
type Unplanned struct {
	Op    string // kill, pause or history.OpGoOn
	Node  string // by its name
	Cause string // what was seen
}

// Interference is the error of a run that somebody else disturbed before its record began or
// after it ended, so that no event tells of it. Another try may do.
type Interference struct {
	Unplanned
	When string // as in "while the run was set up"
}

func (i *Interference) Error() string {
	did := "stood still"
	if i.Op == "kill" {
		did = "ended"
	}
	return fmt.Sprintf("nobody planned it: %s %s %s (%s)", i.Node, did, i.When, i.Cause)
}

// Late is the Interference that a wait which took too long makes of an error: whoever was waited for
// was stopped, or the machine is too busy. Other errors stay as they are.
func Late(err error, when string) error {
	type timeout interface {
		error
		Timeout() bool
	}
	if t, ok := errors.AsType[timeout](err); ok && t.Timeout() {
		first, _, _ := strings.Cut(err.Error(), "\n")
		return errors.Join(&Interference{Unplanned{Op: "pause", Node: history.Machine, Cause: first}, when}, err)
	}
	return err
}

// When somebody may disturb a run beside its record.
const (
	SettingUp = "while the run was set up"
	PutAway   = "while the run was put away"
)

// guarded is a cluster that sees what is done to its processes besides what it does
// itself. Guard tells of what was done since they were started, and of all that comes
// until over is called, which looks once more: later nothing is told.
type guarded interface {
	Guard(tell func(Unplanned)) (over func())
}

// guard records what nobody planned, until over is called. A process that ends or stands
// still for somebody else's sake makes the run one that the plan does not tell of.
func guard(c Cluster, rec record) (over func()) {
	g, ok := c.(guarded)
	if !ok {
		return func() {}
	}
	return g.Guard(func(u Unplanned) {
		rec.add(history.Event{T: int64(max(c.Now(), time.Nanosecond)), Process: history.Nemesis, Type: history.Begin, Op: u.Op, Node: u.Node, Step: history.Unplanned, Cause: u.Cause})
	})
}
