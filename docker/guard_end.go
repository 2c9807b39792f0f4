//go:build linux

package docker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"lockpick/harness"
	"lockpick/harness/real/proc"
)

// ended takes in that a container's program has ended, which the engine has said.
func (g *guard) ended(b *box, r *running) {
	w, ours := g.ward(b.id)
	strange := ours && w.endsStrangely(r)
	b.mu.Lock()
	strange = strange && !r.asked && !r.strange
	r.strange = r.strange || strange
	b.mu.Unlock()
	if !strange {
		return
	}
	cause := fmt.Sprintf("container %.12s has ended with status %d", b.id, r.status)
	switch {
	case r.err != nil:
		cause = fmt.Sprintf("container %.12s has ended: %v", b.id, r.err)
	case r.starved:
		cause += ", for want of memory"
	case r.status > killedBy:
		cause += fmt.Sprintf(", by signal %d", r.status-killedBy)
	}
	g.say(w, harness.Unplanned{Op: "kill", Cause: cause})
}

// endsStrangely says whether an end that was not asked for is none that a fault of the plan,
// or the program of a client, brings about by itself.
func (w ward) endsStrangely(r *running) bool {
	switch {
	case r.err != nil || r.status > killedBy && !r.starved:
		return true
	case w.node != nil && r.starved:
		return !w.node.everStarved.Load()
	case w.node != nil && w.node.disk != nil && r.status > 0:
		return !w.node.disk.Harmed()
	}
	return !w.plays
}

// lookAgain sees what became of the wards just before the run's end, of which the engine
// may not have told yet.
func (g *guard) lookAgain() {
	ctx, cancel := context.WithTimeout(context.Background(), engineBound)
	defer cancel()
	if g.base.here {
		g.look()
	}
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.boxes))
	g.mu.Unlock()
	var looks sync.WaitGroup
	for _, w := range all {
		looks.Go(func() {
			w.mu.Lock()
			runs, r, mine, known := w.runs(), w.run, w.paused, w.frozen
			w.mu.Unlock()
			if !runs {
				return
			}
			status, _, err := w.engine.state(ctx, w.id)
			switch {
			case err != nil:
			case status == "paused" && !mine && !known:
				g.say(w, harness.Unplanned{Op: "pause", Cause: fmt.Sprintf("container %.12s is paused", w.id)})
			case strings.HasPrefix(status, "exit") || status == "dead" || r.process > 0 && !proc.InContainer(r.process, w.id):
				select {
				case <-r.told:
					g.ended(w.box, r)
				case <-ctx.Done():
				}
			}
		})
	}
	looks.Wait()
}

// take looks after a container from now on, before anybody can pause it.
func (g *guard) take(w ward) {
	g.mu.Lock()
	_, taken := g.boxes[w.id]
	g.boxes[w.id] = w
	g.mu.Unlock()
	if taken {
		return
	}
	w.mu.Lock()
	w.told = func(r *running) { g.ended(w.box, r) }
	w.frozen, w.pausing, w.resuming = false, 0, 0
	r, dead := w.run, !w.runs()
	w.mu.Unlock()
	if dead && r != nil {
		g.ended(w.box, r)
	}
}
