//go:build linux

package docker

import (
	"sync"

	"lockpick/harness"
	"lockpick/harness/real/runs"
)

// guard sees what becomes of a run's containers, and of what is in them, that the plan does
// not ask for: the engine tells of ends and of pauses, /proc of processes that a signal has
// stopped where the engine is on this machine, and whoever answers no question for longer
// than answersIn stands still, however that came about.
type guard struct {
	run  *runs.Run[*node]
	base *base

	mu     sync.Mutex
	tell   func(harness.Unplanned)
	boxes  map[string]ward // by the container's id
	stands map[string]bool // what stands still, by how it is seen
	hit    bool            // something was told
}

// ward is a container that is looked after, and whose it is.
type ward struct {
	*box
	actor  string // in the record
	what   string // of the actor's it is, in words; "": the actor itself
	node   *node  // that it is; nil: it is none
	client bool   // its program is a client's, or starts those
	plays  bool   // its program is a client's, and ends with it
}

func (g *guard) say(w ward, u harness.Unplanned) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.tell != nil {
		g.hit = true
		u.Node, u.Cause = w.actor, w.what+u.Cause
		g.tell(u)
	}
}

func (g *guard) ward(id string) (w ward, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w, ok = g.boxes[id]
	return w, ok
}
