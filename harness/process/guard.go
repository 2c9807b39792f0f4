//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real/proc"
)

// Guard tells what becomes of the run's processes that the plan does not ask for. Names are
// those that the processes have had from the start: a replica that serves a node now is
// called as before.
func (c *cluster) Guard(tell func(harness.Unplanned)) (over func()) {
	unlisten := c.group.Listen(func(x proc.Unasked) {
		if x.What == proc.Ended && x.Status > 0 && c.harmed(x.Child) {
			return // which is what becomes of servers whose disk is hit
		}
		tell(unplanned(x))
	})
	ctx, cancel := context.WithCancel(c.Ctx)
	var asking sync.WaitGroup
	for _, s := range c.servers {
		q := c.question(s, tell)
		asking.Go(func() {
			q.Put(ctx)
			if c.Ctx.Err() == nil { // or the run is over, and all is taken down
				q.Last(answersIn)
			}
		})
	}
	return func() {
		cancel()
		asking.Wait()
		unlisten()
	}
}

func unplanned(x proc.Unasked) harness.Unplanned {
	op := map[proc.Happening]string{proc.Ended: "kill", proc.Stopped: "pause", proc.Continued: history.OpGoOn}
	return harness.Unplanned{Op: op[x.What], Node: x.Child, Cause: x.Cause}
}

// interfered waits for what becomes of a group's processes before Guard looks after them. fail
// is called with the first interference. explain puts it, or that something took too long, in
// front of the error that came of it.
func interfered(group *proc.Group, when string, fail func(error)) (explain func(error) error) {
	var mu sync.Mutex
	var first error
	over := group.Listen(func(x proc.Unasked) {
		mu.Lock()
		defer mu.Unlock()
		if first == nil {
			first = &harness.Interference{Unplanned: unplanned(x), When: when}
			fail(first)
		}
	})
	return func(err error) error {
		over()
		mu.Lock()
		defer mu.Unlock()
		switch {
		case first == nil:
			return harness.Late(err, when)
		case errors.Is(err, first):
			return err
		}
		return errors.Join(first, err)
	}
}

// answersIn is how long a server may take to answer.
const answersIn = 2 * time.Second

// question tells where a server answers nobody, though no signal has stopped it and no
// fault of the plan keeps it from that.
func (c *cluster) question(s *proc.Redis, tell func(harness.Unplanned)) proc.Question {
	return proc.Question{Late: func(waited time.Duration) {
		if waited == answersIn {
			tell(harness.Unplanned{Op: "pause", Node: s.Name, Cause: fmt.Sprintf("it answers nothing for %v", answersIn)})
		}
	}, Ask: func(ctx context.Context) {
		excused := func() bool { return s.Silent() || c.Stalled(s.Name) }
		proc.Answers(ctx, excused, s.Answers)
	}}
}

// harmed says whether a fault has hit a node's disk.
func (c *cluster) harmed(node string) bool {
	d := c.Of(node)
	return d != nil && d.Harmed()
}
