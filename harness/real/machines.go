package real

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

// Machines are those of a run, by the names of its nodes and clients whose clocks can be
// turned.
type clocks struct {
	Recorder *history.Recorder
	Origin   func() time.Duration           // true time zero
	Node     func(name string) nodeClock    // a node's server as it is now; the zero value: there is no such node
	Client   func(name string) *clientClock // that runs; nil: it does not
	Over     func(client string) bool       // it ran, and runs no more
	Others   func(m *Clock) error           // looks whether nodes were turned that were not meant; nil: nobody looks

	all map[string]*Clock
}

// Node is a node's server, as far as its clock can be asked.
type nodeClock struct {
	Name  string                       // the node's, or that of a replica that has taken over
	Runs  bool                         // its process is there
	Mute  string                       // why it can't answer; "": it can
	Time  func() (ClockReading, error) // asks it
	Ended func() bool                  // it does not run any more, if only since just now
}

// Add lets a node's or a client's clocks be turned. It is called before the run begins.
func (ms *clocks) Add(name string, m *Clock) {
	if ms.all == nil {
		ms.all = map[string]*Clock{}
	}
	ms.all[name] = m
}

// Of is the machine of a node or a client; nil: nobody turns its clocks.
func (ms *clocks) Of(name string) *Clock { return ms.all[name] }

// Turn turns the clocks of a node or a client, and reads back what its process shows.
// While no process runs, its next one is read back at its start.
func (ms *clocks) Turn(target string, by time.Duration, rate float64) (string, error) {
	n := ms.Node(target)
	m := ms.Of(cmp.Or(n.Name, target)) // a replica that has taken over has none
	switch {
	case m == nil:
		return "", fmt.Errorf("turn clock of %s: no such node or client has a clock that can be turned", target)
	case n.Name == "" && ms.Over(target):
		return "", fmt.Errorf("turn clock of %s: %w", target, nemesis.ErrEnded)
	}
	turned := func(at time.Duration) { m.Record(ms.Recorder, target, n.Name == "", at, ms.Origin()) }
	see := func() (string, error) { return ms.seeClient(target, m) }
	if n.Name != "" {
		see = func() (string, error) { return ms.seeNode(target, m) }
	}
	back, err := m.Turn(by, rate, turned, see)
	if err != nil {
		return "", fmt.Errorf("turn clock of %s: %w", target, err)
	}
	return back, nil
}

// Again reads back the clock of a node that was started again, which is as wrong as it
// was; "": nobody turns it.
func (ms *clocks) Again(node string) (string, error) {
	m := ms.Of(ms.Node(node).Name)
	if m == nil {
		return "", nil
	}
	back, err := ms.seeNode(node, m)
	return "; " + back, err
}

// seeNode reads back the clock of a node.
func (ms *clocks) seeNode(node string, m *Clock) (string, error) {
	n := ms.Node(node)
	switch {
	case !n.Runs:
		return m.alone(), nil
	case n.Mute != "":
		return m.unasked(n.Mute), nil
	}
	back, err := m.See("TIME shows", n.Time)
	switch {
	case err != nil && n.Ended():
		return m.alone(), nil
	case err != nil || ms.Others == nil:
		return back, err
	}
	return back, ms.Others(m)
}

// seeClient reads back the clocks of a client.
func (ms *clocks) seeClient(client string, m *Clock) (string, error) {
	c := ms.Client(client)
	switch {
	case c == nil && ms.Over(client):
		return "", nemesis.ErrEnded
	case c == nil:
		return m.unasked("it has not begun"), nil
	}
	back, err := m.See("wall clock shows", c.Read)
	switch {
	case errors.Is(err, proc.ErrEnded):
		return "", nemesis.ErrEnded
	case errors.Is(err, errPaused):
		return m.unasked(errPaused.Error()), nil
	}
	return back, err
}
