//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	lockexec "lockpick/harness/lock/exec"
	"lockpick/harness/real"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
)

type child struct {
	*proc.PipedChild
	name   string
	paused atomic.Bool
}

var _ real.Program = (*child)(nil)

func (ch *child) Pause(context.Context) (string, error) {
	// If two pauses overlapped, the process would run again at the end of the first one.
	if ch.paused.Swap(true) {
		return "", fmt.Errorf("pause %s: it is paused already", ch.name)
	}
	return ch.Stop()
}

func (ch *child) Resume(context.Context) (string, error) {
	defer ch.paused.Store(false)
	readback, err := ch.Continue()
	if errors.Is(err, proc.ErrEnded) {
		return "it has ended", nil
	}
	return readback, err
}

func (ch *child) Kill(context.Context) (string, error) {
	select {
	case <-ch.Done():
		return "", proc.ErrEnded
	default:
	}
	if err := ch.Child.Kill(); err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d has ended", ch.PID()), nil
}

func (ch *child) Paused() bool { return ch.paused.Load() }

// End returns how the process ended.
func (ch *child) End() error { return ch.Err() }

func (c *cluster) startChild(name string) (*real.Client, error) {
	cmd := exec.Command(c.cfg.Self[0], c.cfg.Self[1:]...)
	var leader *proc.Child
	if a := c.adapters[name]; a != nil {
		cmd.ExtraFiles, cmd.Env = []*os.File{a.Out, a.In}, append(os.Environ(), lockexec.PipesEnv+"=1")
		leader = a.Child
		defer a.ClosePipes()
	}
	p, err := c.group.StartPiped(leader, name, cmd)
	if err != nil {
		return nil, err
	}
	return &real.Client{Program: &child{PipedChild: p, name: name}, In: p.In, Out: p.Out, OnExit: p.ClosePipes}, nil
}

func adapterName(client string) string { return client + "-adapter" }

// startAdapters starts the adapters of all clients before time zero, and waits until each of them
// has sent its hello. The hello stays in the pipe for the client, which later joins the adapter's
// process group and inherits its pipes.
func (c *cluster) startAdapters(s scenario.Scenario) error {
	if s.Lock.Kind != lockexec.Name {
		return nil
	}
	if len(c.cfg.Adapter) == 0 {
		return errors.New("run: lock \"exec\" has no program: use --adapter COMMAND")
	}
	c.adapters = map[string]*real.AdapterProcess{}
	for _, name := range s.ClientNames() {
		a, err := real.StartAdapter(c.group, adapterName(name), c.cfg.Adapter)
		if err != nil {
			return err
		}
		c.adapters[name] = a
	}
	for _, name := range s.ClientNames() {
		if err := c.adapters[name].AwaitOutput(c.Ctx, lockexec.StartWithin); err != nil {
			return fmt.Errorf("start the adapter of %s (%s): %w%s", name, strings.Join(c.cfg.Adapter, " "), err, c.adapters[name].StderrSuffix())
		}
	}
	return nil
}

// RunClient is like real.Run.RunClient, but if an adapter fails, the error includes the end of the
// adapter's output.
func (c *cluster) RunClient(ctx context.Context, s client.Spec, at func(point string)) error {
	err := c.Run.RunClient(ctx, s, at)
	if a := c.adapters[s.Name]; a != nil && err != nil && err != harness.ErrKilled && ctx.Err() == nil {
		return fmt.Errorf("%w%s", err, a.StderrSuffix())
	}
	return err
}

// setClocks makes it possible to change the clocks of nodes, clients and adapters, by making their
// processes start under ptrace. Other processes are not affected.
func (c *cluster) setClocks(s scenario.Scenario) {
	clocks := map[string]*real.Clock{} // by process name
	add := func(name string, client bool) {
		clocks[name] = real.NewClock(c.Ctx, client, proc.TrueClock)
		c.group.Cleanup(clocks[name].Close)
	}
	for _, name := range redisNodes(s) {
		add(name, false)
		c.AddClock(name, clocks[name])
	}
	for _, name := range s.ClientNames() {
		add(name, true)
		c.AddClock(name, clocks[name])
		if s.Lock.Kind == lockexec.Name {
			add(adapterName(name), true)
			clocks[name].PairedClock = clocks[adapterName(name)]
		}
	}
	c.group.AtStart = func(name string, pid int) error {
		if m := clocks[name]; m != nil {
			return m.Start(pid)
		}
		return nil
	}
}

// checkDateClock checks that clocks can be changed. It runs the program date with a changed clock
// and checks the time that date prints.
func checkDateClock(ctx context.Context, group *proc.Group) error {
	m := real.NewClock(ctx, false, proc.TrueClock)
	defer m.Close()
	if _, err := m.Adjust(24*time.Hour, 1); err != nil {
		return err
	}
	group.AtStart = func(_ string, pid int) error { return m.Start(pid) }
	child, err := group.Start("date", exec.Command("date", "+%s"))
	if err != nil {
		return err
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		return fmt.Errorf("date: %w", context.Cause(ctx))
	}
	if err := child.Err(); err != nil {
		return fmt.Errorf("date: %w", err)
	}
	got, err := strconv.ParseInt(child.StderrTail(), 10, 64)
	if err != nil {
		return fmt.Errorf("date printed %q: %w", child.StderrTail(), err)
	}
	want, _ := m.State().Wall(proc.TrueClock())
	if d := want.Sub(time.Unix(got, 0)); d.Abs() > time.Minute {
		return fmt.Errorf("date did not follow its changed clock: its output was off by %v", d)
	}
	return nil
}

// MonitorProcesses reports unplanned events of the run's processes. Processes keep their original
// names: a replica that has replaced a node is still reported under its own name.
func (c *cluster) MonitorProcesses(report func(harness.UnplannedEvent)) (stop func()) {
	stopListening := c.group.Listen(func(x proc.UnexpectedEvent) {
		if x.Kind == proc.EventEnded && x.Status > 0 && c.hasDiskFault(x.Child) {
			return // after a disk fault, servers exit by themselves
		}
		report(unplannedEvent(x))
	})
	var probes []proc.Probe
	for _, s := range c.Servers {
		probes = append(probes, c.unresponsiveProbe(s.(*proc.Redis), report))
	}
	stopPolling := c.Poll(answerTimeout, probes...)
	return func() {
		stopPolling()
		stopListening()
	}
}

func unplannedEvent(x proc.UnexpectedEvent) harness.UnplannedEvent {
	op := map[proc.EventKind]string{proc.EventEnded: "kill", proc.EventStopped: "pause", proc.EventContinued: history.OpContinue}
	return harness.UnplannedEvent{Op: op[x.Kind], Node: x.Child, Cause: x.Cause}
}

// watchInterference monitors a group's processes until MonitorProcesses takes over. It calls fail
// with the first interference. explain stops monitoring. If interference or a timeout caused an
// error, explain adds this cause to the error.
func watchInterference(group *proc.Group, when string, fail func(error)) (explain func(error) error) {
	m := real.NewMonitor(when, fail)
	stopListening := group.Listen(func(x proc.UnexpectedEvent) { m.Handle(unplannedEvent(x)) })
	return func(err error) error {
		stopListening()
		return m.Explain(err)
	}
}

// answerTimeout is how long a server may take to answer before it is considered unresponsive.
const answerTimeout = 2 * time.Second

// unresponsiveProbe returns a probe that reports a server if it doesn't answer although no signal
// has stopped it and no planned fault keeps it from answering.
func (c *cluster) unresponsiveProbe(s *proc.Redis, report func(harness.UnplannedEvent)) proc.Probe {
	return proc.Probe{OnWait: func(waited time.Duration) {
		if waited == answerTimeout {
			report(harness.UnplannedEvent{Op: "pause", Node: s.Name, Cause: fmt.Sprintf("it did not answer for %v", answerTimeout)})
		}
	}, Ask: func(ctx context.Context) {
		isExpected := func() bool { return s.MayBeUnresponsive() || c.IsStalled(s.Name) }
		proc.AwaitAnswer(ctx, isExpected, s.Ping)
	}}
}

// hasDiskFault reports whether a fault has affected a node's disk.
func (c *cluster) hasDiskFault(node string) bool {
	d := c.Disk(node)
	return d != nil && d.HadFault()
}
