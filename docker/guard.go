//go:build linux

package docker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/events"

	"lockpick/docker/engine"
	"lockpick/harness"
	"lockpick/harness/history"
	"lockpick/harness/real"
	"lockpick/harness/real/proc"
)

// monitor watches a run's containers for interference, that is, for events that the plan does not
// cause. It learns of exits and pauses from the engine, and of processes stopped by a signal from
// /proc if the engine is on this machine. A server that does not answer for longer than
// answerTimeout counts as paused, whatever the reason.
type guard struct {
	*real.Monitor
	run  *real.Run
	site *site

	mu      sync.Mutex
	boxes   map[string]ward // by container ID
	stopped map[string]bool // processes stopped by a signal, by container ID
}

// monitoredContainer is a container with the actor to which its events are attributed.
type ward struct {
	*box
	actor  string // name in the record
	what   string // prefix of its causes if it is a part of the actor; "": the actor itself
	node   *node  // nil: not a node's
	client bool   // its program is a client or starts clients
	fresh  bool   // it is being set up and may fail to start
}

func (g *guard) say(w ward, u harness.Unplanned) {
	u.Node, u.Cause = w.actor, w.what+u.Cause
	g.Hear(u)
}

// explain wraps Monitor.Explain and first checks all containers for interference.
func (g *guard) explain(err error) error {
	if err != nil {
		g.lookAgain()
	}
	return g.Explain(err)
}

func (g *guard) ward(id string) (w ward, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w, ok = g.boxes[id]
	return w, ok
}

func clientWard(b *box) ward {
	return ward{box: b, actor: b.name, client: true}
}

// answerTimeout is the time to answer a question. If the links do not answer within linksTimeout,
// the run is over, because every query goes through them.
const (
	answersIn     = 3 * time.Second // every question goes through the engine, which may be busy
	linksPatience = 10 * time.Second
)

// question returns the question that checks whether a container answers.
func (g *guard) question(w ward, answers func(context.Context)) proc.Question {
	return proc.Question{Ask: answers, Late: func(waited time.Duration) {
		switch {
		case waited == answersIn && (w.actor == linksName || g.site.linksAnswer(context.Background())):
			g.say(w, harness.Unplanned{Op: "pause", Cause: fmt.Sprintf("it has not answered for %v", answersIn)})
		case waited == linksPatience && w.actor == linksName:
			g.run.Fail(fmt.Errorf("the links have not answered for %v", linksPatience))
		}
	}}
}

// pollPing pings the node until it answers, or need not answer.
func (n *node) answers(ctx context.Context) {
	proc.Answers(ctx, n.excused, func(ctx context.Context) error {
		_, err := n.Ask(ctx, n.At, "PING")
		return err
	})
}

// exempt reports whether the node need not answer: it is being started or stopped, or a fault of
// the plan prevents it.
func (n *node) excused() bool {
	if !n.changing.TryLock() {
		return true
	}
	defer n.changing.Unlock()
	return !n.Runs() || n.deaf()
}

// handleEnd processes the end of a container's program, as reported by the engine.
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
	cause := fmt.Sprintf("container %.12s exited with status %d", b.id, r.status)
	switch {
	case r.err != nil:
		cause = fmt.Sprintf("container %.12s ended: %v", b.id, r.err)
	case r.starved:
		cause += ", out of memory"
	case r.status > killedBy:
		cause += fmt.Sprintf(", killed by signal %d", r.status-killedBy)
	}
	g.say(w, harness.Unplanned{Op: "kill", Cause: cause})
}

// goEarlySignalStatus is the exit status of a Go program that is the first process of a container and
// gets a signal before its runtime handles signals. The kernel does not let it die of the signal.
const goKilled = 2

// endedUnexpectedly reports whether an end without a request was not caused by a fault of the plan
// or by the client's program itself.
func (w ward) endsStrangely(r *running) bool {
	switch {
	case r.err != nil || r.status > killedBy && !r.starved:
		return true
	case w.fresh: // a program that fails to start exits with an error status
		return r.status == 0 || r.status == goKilled
	case w.node != nil && r.starved:
		return !w.node.everStarved.Load()
	case w.node != nil && w.node.want.disk != nil && r.status > 0:
		return !w.node.want.disk.Harmed()
	}
	return !w.turns // a client's own program ends with the client; a client loop does not
}

// checkAll checks all containers just before the end of the run, because the engine may not have
// reported everything yet.
func (g *guard) lookAgain() {
	ctx, cancel := context.WithTimeout(context.Background(), engineBound)
	defer cancel()
	if g.site.here {
		g.look()
	}
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.boxes))
	g.mu.Unlock()
	engine.AtOnce(all, func(w ward) error {
		w.mu.Lock()
		runs, r, mine, known := w.runs(), w.run, w.paused, w.frozen
		w.mu.Unlock()
		if !runs {
			return nil
		}
		status, _, err := w.engine.State(ctx, w.id)
		switch {
		case err != nil: // found elsewhere
		case status == "paused" && !mine && !known:
			g.say(w, harness.Unplanned{Op: "pause", Cause: fmt.Sprintf("container %.12s is paused", w.id)})
		case strings.HasPrefix(status, "exit") || status == "dead" || r.process > 0 && !proc.InContainer(r.process, w.id):
			select {
			case <-r.told:
				g.ended(w.box, r)
			case <-ctx.Done():
			}
		}
		return nil
	})
}

// add monitors a container from now on. A fresh container that has already exited did so before the
// run, and is about to be restarted.
func (g *guard) take(w ward) {
	g.mu.Lock()
	was, taken := g.boxes[w.id]
	g.boxes[w.id] = w
	g.mu.Unlock()
	w.mu.Lock()
	if !taken {
		w.told = func(r *running) { g.ended(w.box, r) }
		w.frozen, w.pausing, w.resuming = false, 0, 0
	}
	r, dead := w.run, !w.runs()
	w.mu.Unlock()
	if dead && r != nil && !w.fresh && (!taken || was.fresh) {
		g.ended(w.box, r)
	}
}

// watchPauses handles the pauses and resumptions that the engine reports.
func (g *guard) hear(said <-chan events.Message, failed <-chan error) {
	for {
		select {
		case m := <-said:
			if w, ok := g.ward(m.Actor.ID); ok {
				g.paused(w, m.Action == events.ActionUnPause)
			}
		case <-failed:
			return // the run is over, or the engine is gone, which is detected elsewhere
		}
	}
}

func (g *guard) paused(w ward, over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !over && w.pausing > 0:
		w.pausing--
	case over && w.resuming > 0:
		w.resuming--
	case w.echo():
	case !over:
		w.frozen = true
		g.say(w, harness.Unplanned{Op: "pause", Cause: fmt.Sprintf("container %.12s was paused from outside", w.id)})
	case w.frozen: // its pause was recorded
		w.frozen = false
	case w.paused:
		g.say(w, harness.Unplanned{Op: history.OpGoOn, Cause: fmt.Sprintf("container %.12s, which the plan had paused, was unpaused from outside", w.id)})
	}
}

// stoppedPollInterval is how often /proc is checked for stopped processes.
const lookTick = 20 * time.Millisecond

func (g *guard) lookOften(ctx context.Context) {
	t := time.NewTicker(lookTick)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			g.look()
		case <-ctx.Done():
			return
		}
	}
}

// checkStopped looks for processes stopped by a signal. No fault of the plan stops a process in a
// container that way.
func (g *guard) look() {
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.boxes))
	g.mu.Unlock()
	for _, w := range all {
		if !w.mu.TryLock() {
			continue // its state is changing
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
		g.mu.Lock()
		known := g.stopped[w.id]
		g.stopped[w.id] = stopped > 0
		g.mu.Unlock()
		if stopped > 0 && !known {
			g.say(w, harness.Unplanned{Op: "pause", Cause: fmt.Sprintf("process %d in container %.12s was stopped by a signal", stopped, w.id)})
		}
	}
}

// watchSetUp monitors the run's containers while they are set up, and ends the run if one is disturbed
// from outside. Guard takes over once the run has begun.
func (c *cluster) watchSetUp() {
	g := &guard{Monitor: real.NewMonitor(harness.SettingUp, c.Fail), run: c.Run, site: c.site, boxes: map[string]ward{}, stopped: map[string]bool{}}
	c.guard = g
	said, failed := c.site.engine.Pauses(c.Ctx)
	if there := c.site.boxes(); len(there) > 0 { // left by an earlier run
		for _, b := range there {
			g.take(ward{box: b, actor: b.name, fresh: true})
		}
		g.lookAgain()
	}
	c.site.made = func(b *box) { g.take(ward{box: b, actor: b.name, fresh: true}) }
	c.Go(func() { g.hear(said, failed) })
	if c.site.here {
		c.Go(func() { g.lookOften(c.Ctx) })
	}
	c.Go(func() {
		select {
		case <-time.After(setUpBound):
			if g.SettingUp() {
				c.Fail(proc.Late(fmt.Sprintf("setup did not finish within %v", setUpBound)))
			}
		case <-c.Ctx.Done():
		}
	})
}

// setUpBound is how long setting up a run may take. It takes seconds, and many times that on a very
// busy engine.
const setUpBound = 2 * time.Minute

// Guard reports interference with the run's containers until over is called.
func (c *cluster) Guard(tell func(harness.Unplanned)) (over func()) {
	g := c.guard
	g.Report(tell, "")
	for _, w := range wards(c) {
		g.take(w)
	}
	links := func(ctx context.Context) { c.site.remote.Clock(ctx) }
	questions := []proc.Question{g.question(ward{box: c.site.linksBox, actor: linksName}, links)}
	for _, n := range c.servers() {
		questions = append(questions, g.question(ward{box: n.box, actor: n.Name}, n.answers))
	}
	answered := c.Ask(answersIn, questions...)
	return func() {
		answered()
		g.lookAgain()
		g.Report(nil, harness.PutAway)
	}
}

// servers lists the run's redis-servers, including its sentinels.
func (c *cluster) servers() (all []*node) {
	for _, n := range c.Servers {
		all = append(all, n.(*node))
	}
	c.site.mu.Lock()
	defer c.site.mu.Unlock()
	for _, s := range c.Sentinels {
		if n := c.site.nodes[role{name: s.Name, once: true}]; n != nil {
			all = append(all, n)
		}
	}
	return all
}

func wards(c *cluster) []ward {
	all := []ward{{box: c.site.linksBox, actor: linksName}}
	for _, n := range c.servers() {
		all = append(all, ward{box: n.box, actor: n.Name, node: n}, ward{box: n.address, actor: n.Name, what: "the container with its address: "})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.waiting {
		all = append(all, clientWard(at))
	}
	for _, p := range c.Clients() {
		all = append(all, clientWard(p.Program.(*box)))
	}
	return all
}
