//go:build linux

package docker

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real/proc"

	"github.com/docker/docker/api/types/events"
)

// hear takes in the pauses and their ends that the engine tells of.
func (g *guard) hear(said <-chan events.Message, failed <-chan error) {
	for {
		select {
		case m := <-said:
			if w, ok := g.ward(m.Actor.ID); ok {
				g.paused(w, m.Action == events.ActionUnPause)
			}
		case <-failed:
			return // the run is over; or the engine is not there any more, as others will see
		}
	}
}

func (g *guard) paused(w ward, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	u := harness.Unplanned{Op: "pause", Over: over, Cause: fmt.Sprintf("container %.12s was paused by somebody else", w.id)}
	switch {
	case !over && w.pausing > 0:
		w.pausing--
		return
	case over && w.resuming > 0:
		w.resuming--
		return
	case w.echo():
		return
	case !over:
		w.frozen = true
	case w.frozen:
		w.frozen, u.Cause = false, "it was unpaused"
	case w.paused:
		u.Op, u.Over, u.Cause = history.OpGoOn, false, fmt.Sprintf("container %.12s was unpaused by somebody else, while it was paused", w.id)
	default:
		return // of before the run
	}
	g.say(w, u)
}

// lookTick is how often /proc is looked at.
const lookTick = 20 * time.Millisecond

// look sees who is stopped by a signal, as no fault of the plan does in a container.
func (g *guard) look() {
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.boxes))
	g.mu.Unlock()
	for _, w := range all {
		if !w.mu.TryLock() {
			continue // it is just being changed
		}
		pid := 0
		if w.runs() {
			pid = w.run.process
		}
		w.mu.Unlock()
		stopped := 0
		if pid > 0 {
			stopped = proc.StoppedIn(pid, w.id, w.client)
		}
		g.still(w, "stopped", stopped > 0, fmt.Sprintf("process %d in container %.12s was stopped by a signal", stopped, w.id))
	}
}

// still takes in whether a ward stands still, in one of the ways to see that.
func (g *guard) still(w ward, how string, is bool, cause string) {
	key := how + " " + w.id
	g.mu.Lock()
	was := g.stands[key]
	g.stands[key] = is
	g.mu.Unlock()
	if is != was {
		if !is {
			cause = "it goes on"
		}
		g.say(w, harness.Unplanned{Op: "pause", Over: !is, Cause: cause})
	}
}
