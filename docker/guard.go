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

// monitor watches a run's containers for interference, that is, events that the plan did not cause. The
// engine reports exits and pauses. If the engine is on this machine, the monitor looks in /proc for
// processes stopped by a signal. It treats a server that does not answer within answerTimeout as paused,
// whatever the reason.
type monitor struct {
	*real.Monitor
	run     *real.Run
	testbed *testbed

	mu         sync.Mutex
	containers map[string]monitoredContainer // by container ID
	stopped    map[string]bool               // IDs of containers with a stopped process that was reported
}

// monitoredContainer is a container and the actor that its events are attributed to.
type monitoredContainer struct {
	*container
	actor       string // name in the history
	part        string // prefix for causes if the container is part of the actor, or ""
	node        *node  // the container's node, or nil
	runsClients bool   // the program is a client or starts clients
	fresh       bool   // the container is being set up and may fail to start
}

func (g *monitor) report(w monitoredContainer, u harness.UnplannedEvent) {
	u.Node, u.Cause = w.actor, w.part+u.Cause
	g.Handle(u)
}

// explain is like Monitor.Explain, but first checks all containers for interference.
func (g *monitor) explain(err error) error {
	if err != nil {
		g.checkAll()
	}
	return g.Explain(err)
}

func (g *monitor) findMonitored(id string) (w monitoredContainer, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w, ok = g.containers[id]
	return w, ok
}

func monitoredClient(b *container) monitoredContainer {
	return monitoredContainer{container: b, actor: b.name, runsClients: true}
}

// answerTimeout limits how long a container may take to answer. If the links don't answer within
// linksTimeout, the run fails, because all queries go through the links.
const (
	answerTimeout = 3 * time.Second // long, because probes go through the engine, which may be busy
	linksTimeout  = 10 * time.Second
)

// answerProbe returns a probe that checks whether a container answers. awaitAnswer must return when it
// does.
func (g *monitor) answerProbe(w monitoredContainer, awaitAnswer func(context.Context)) proc.Probe {
	return proc.Probe{Ask: awaitAnswer, OnWait: func(waited time.Duration) {
		switch {
		case waited == answerTimeout && (w.actor == linksName || g.testbed.linksAnswer(context.Background())):
			g.report(w, harness.UnplannedEvent{Op: "pause", Cause: fmt.Sprintf("it has not answered for %v", answerTimeout)})
		case waited == linksTimeout && w.actor == linksName:
			g.run.Fail(fmt.Errorf("the links have not answered for %v", linksTimeout))
		}
	}}
}

// pollPing sends PING to the node until it answers or need not answer.
func (n *node) pollPing(ctx context.Context) {
	proc.AwaitAnswer(ctx, n.isExempt, func(ctx context.Context) error {
		_, err := n.Ask(ctx, n.HostPort, "PING")
		return err
	})
}

// isExempt reports whether the node need not answer, because it is not running, it is being started or
// stopped, or a planned fault prevents it from answering.
func (n *node) isExempt() bool {
	if !n.lifecycle.TryLock() {
		return true
	}
	defer n.lifecycle.Unlock()
	return !n.Running() || n.isUnresponsive()
}

// handleEnd handles the exit of a container's program, as reported by the engine.
func (g *monitor) handleEnd(b *container, r *programRun) {
	w, isMonitored := g.findMonitored(b.id)
	unexpected := isMonitored && w.endedUnexpectedly(r)
	b.mu.Lock()
	unexpected = unexpected && !r.endRequested && !r.unexpected
	r.unexpected = r.unexpected || unexpected
	b.mu.Unlock()
	if !unexpected {
		return
	}
	cause := fmt.Sprintf("container %.12s exited with status %d", b.id, r.status)
	switch {
	case r.err != nil:
		cause = fmt.Sprintf("container %.12s ended: %v", b.id, r.err)
	case r.outOfMemory:
		cause += ", out of memory"
	case r.status > signalStatusBase:
		cause += fmt.Sprintf(", killed by signal %d", r.status-signalStatusBase)
	}
	g.report(w, harness.UnplannedEvent{Op: "kill", Cause: cause})
}

// goEarlySignalStatus is the exit status of a Go program that is the first process in a container and
// receives a signal before its runtime handles signals. The kernel does not let the signal kill such a
// process.
const goEarlySignalStatus = 2

// endedUnexpectedly reports whether an exit that lockpick did not request was caused neither by a planned
// fault nor by the client's program.
func (w monitoredContainer) endedUnexpectedly(r *programRun) bool {
	switch {
	case r.err != nil || r.status > signalStatusBase && !r.outOfMemory:
		return true
	case w.fresh: // a program that fails to start exits with an error status
		return r.status == 0 || r.status == goEarlySignalStatus
	case w.node != nil && r.outOfMemory:
		return !w.node.everStarved.Load()
	case w.node != nil && w.node.spec.disk != nil && r.status > 0:
		return !w.node.spec.disk.HadFault()
	}
	// With changing clocks, the program ends with the client. Otherwise it is a client loop, which must not exit.
	return !w.hasChangingClocks
}

// checkAll checks all containers now, because the engine may not have reported everything yet.
func (g *monitor) checkAll() {
	ctx, cancel := context.WithTimeout(context.Background(), engineTimeout)
	defer cancel()
	if g.testbed.engineIsLocal {
		g.checkStopped()
	}
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.containers))
	g.mu.Unlock()
	engine.Parallel(all, func(w monitoredContainer) error {
		w.mu.Lock()
		isRunning, r, pausedByUs, pausedExternally := w.isRunning(), w.run, w.paused, w.externallyPaused
		w.mu.Unlock()
		if !isRunning {
			return nil
		}
		status, _, err := w.engine.State(ctx, w.id)
		switch {
		case err != nil: // reported elsewhere
		case status == "paused" && !pausedByUs && !pausedExternally:
			g.report(w, harness.UnplannedEvent{Op: "pause", Cause: fmt.Sprintf("container %.12s is paused", w.id)})
		case strings.HasPrefix(status, "exit") || status == "dead" || r.pid > 0 && !proc.InContainer(r.pid, w.id):
			select {
			case <-r.endReported:
				g.handleEnd(w.container, r)
			case <-ctx.Done():
			}
		}
		return nil
	})
}

// add starts monitoring a container. If the container has exited already, add reports this, unless the
// container is fresh: then it exited before the run and is about to be restarted.
func (g *monitor) add(w monitoredContainer) {
	g.mu.Lock()
	previous, existed := g.containers[w.id]
	g.containers[w.id] = w
	g.mu.Unlock()
	w.mu.Lock()
	if !existed {
		w.onEnd = func(r *programRun) { g.handleEnd(w.container, r) }
		w.externallyPaused, w.pendingPauses, w.pendingResumes = false, 0, 0
	}
	r, dead := w.run, !w.isRunning()
	w.mu.Unlock()
	if dead && r != nil && !w.fresh && (!existed || previous.fresh) {
		g.handleEnd(w.container, r)
	}
}

// watchPauses handles the pauses and resumptions reported by the engine.
func (g *monitor) watchPauses(pauses <-chan events.Message, failed <-chan error) {
	for {
		select {
		case m := <-pauses:
			if w, ok := g.findMonitored(m.Actor.ID); ok {
				g.handlePause(w, m.Action == events.ActionUnPause)
			}
		case <-failed:
			return // the run has ended, or the engine is gone, which is detected elsewhere
		}
	}
}

func (g *monitor) handlePause(w monitoredContainer, resumed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !resumed && w.pendingPauses > 0:
		w.pendingPauses--
	case resumed && w.pendingResumes > 0:
		w.pendingResumes--
	case w.mayBeEcho():
	case !resumed:
		w.externallyPaused = true
		g.report(w, harness.UnplannedEvent{Op: "pause", Cause: fmt.Sprintf("container %.12s was paused from outside", w.id)})
	case w.externallyPaused: // the pause was recorded
		w.externallyPaused = false
	case w.paused:
		g.report(w, harness.UnplannedEvent{Op: history.OpContinue, Cause: fmt.Sprintf("container %.12s, which the plan had paused, was unpaused from outside", w.id)})
	}
}

// stoppedPollInterval is how often to look for stopped processes in /proc.
const stoppedPollInterval = 20 * time.Millisecond

func (g *monitor) pollStopped(ctx context.Context) {
	t := time.NewTicker(stoppedPollInterval)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			g.checkStopped()
		case <-ctx.Done():
			return
		}
	}
}

// checkStopped looks for processes stopped by a signal. Planned faults do not stop processes in
// containers this way.
func (g *monitor) checkStopped() {
	g.mu.Lock()
	all := slices.Collect(maps.Values(g.containers))
	g.mu.Unlock()
	for _, w := range all {
		if !w.mu.TryLock() {
			continue // the container's state is changing
		}
		pid := 0
		if w.isRunning() {
			pid = w.run.pid
		}
		w.mu.Unlock()
		stoppedPID := 0
		if pid > 0 {
			stoppedPID = proc.FindStopped(pid, w.id, w.runsClients)
		}
		g.mu.Lock()
		known := g.stopped[w.id]
		g.stopped[w.id] = stoppedPID > 0
		g.mu.Unlock()
		if stoppedPID > 0 && !known {
			g.report(w, harness.UnplannedEvent{Op: "pause", Cause: fmt.Sprintf("process %d in container %.12s was stopped by a signal", stoppedPID, w.id)})
		}
	}
}

// watchSetUp monitors the run's containers during setup, and ends the run if there is interference.
// MonitorProcesses takes over when the run begins.
func (c *cluster) watchSetUp() {
	g := &monitor{Monitor: real.NewMonitor(harness.DuringSetup, c.Fail), run: c.Run, testbed: c.testbed, containers: map[string]monitoredContainer{}, stopped: map[string]bool{}}
	c.monitor = g
	pauses, failed := c.testbed.engine.PauseEvents(c.Ctx)
	if existing := c.testbed.containers(); len(existing) > 0 { // left by an earlier run
		for _, b := range existing {
			g.add(monitoredContainer{container: b, actor: b.name, fresh: true})
		}
		g.checkAll()
	}
	c.testbed.onCreate = func(b *container) { g.add(monitoredContainer{container: b, actor: b.name, fresh: true}) }
	c.Go(func() { g.watchPauses(pauses, failed) })
	if c.testbed.engineIsLocal {
		c.Go(func() { g.pollStopped(c.Ctx) })
	}
	c.Go(func() {
		select {
		case <-time.After(setUpTimeout):
			if g.SettingUp() {
				c.Fail(proc.TimeoutError(fmt.Sprintf("setup did not finish within %v", setUpTimeout)))
			}
		case <-c.Ctx.Done():
		}
	})
}

// setUpTimeout limits the time it takes to set up a run. This normally takes seconds, but many times
// longer on a very busy engine.
const setUpTimeout = 2 * time.Minute

// MonitorProcesses reports interference with the run's containers until stop is called.
func (c *cluster) MonitorProcesses(report func(harness.UnplannedEvent)) (stop func()) {
	g := c.monitor
	g.SetReceiver(report, "")
	for _, w := range monitoredContainers(c) {
		g.add(w)
	}
	askLinks := func(ctx context.Context) { c.testbed.remoteNetwork.Clock(ctx) }
	probes := []proc.Probe{g.answerProbe(monitoredContainer{container: c.testbed.linksContainer, actor: linksName}, askLinks)}
	for _, n := range c.servers() {
		probes = append(probes, g.answerProbe(monitoredContainer{container: n.container, actor: n.Name}, n.pollPing))
	}
	stopPolling := c.Poll(answerTimeout, probes...)
	return func() {
		stopPolling()
		g.checkAll()
		g.SetReceiver(nil, harness.DuringTeardown)
	}
}

// servers lists the run's redis-servers, including sentinels.
func (c *cluster) servers() (all []*node) {
	for _, n := range c.Servers {
		all = append(all, n.(*node))
	}
	c.testbed.mu.Lock()
	defer c.testbed.mu.Unlock()
	for _, s := range c.Sentinels {
		if n := c.testbed.nodes[role{name: s.Name, singleUse: true}]; n != nil {
			all = append(all, n)
		}
	}
	return all
}

func monitoredContainers(c *cluster) []monitoredContainer {
	all := []monitoredContainer{{container: c.testbed.linksContainer, actor: linksName}}
	for _, n := range c.servers() {
		all = append(all, monitoredContainer{container: n.container, actor: n.Name, node: n}, monitoredContainer{container: n.address, actor: n.Name, part: "the container with its address: "})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range c.waitingClients {
		all = append(all, monitoredClient(at))
	}
	for _, p := range c.Clients() {
		all = append(all, monitoredClient(p.Program.(*container)))
	}
	return all
}
