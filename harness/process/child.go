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
	*proc.Piped
	name   string
	paused atomic.Bool
}

var _ real.Program = (*child)(nil)

// Pause stops it.
func (ch *child) Pause(context.Context) (string, error) {
	// The first of two ends would let it run while the other pause is in force.
	if ch.paused.Swap(true) {
		return "", fmt.Errorf("pause %s: it is paused already", ch.name)
	}
	return ch.Stop()
}

// Resume lets it go on.
func (ch *child) Resume(context.Context) (string, error) {
	defer ch.paused.Store(false)
	back, err := ch.Continue()
	if errors.Is(err, proc.ErrEnded) {
		return "it has ended", nil
	}
	return back, err
}

// Kill ends it without warning.
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

// Paused says whether it is.
func (ch *child) Paused() bool { return ch.paused.Load() }

// End says how it ended.
func (ch *child) End() error { return ch.Err() }

func (c *cluster) startChild(name string) (*real.Client, error) {
	cmd := exec.Command(c.cfg.Self[0], c.cfg.Self[1:]...)
	var leader *proc.Child
	if a := c.adapters[name]; a != nil {
		cmd.ExtraFiles, cmd.Env = []*os.File{a.Out, a.In}, append(os.Environ(), lockexec.Pipes+"=1")
		leader = a.Child
		defer a.Leave()
	}
	p, err := c.group.JoinPiped(leader, name, cmd)
	if err != nil {
		return nil, err
	}
	return &real.Client{Program: &child{Piped: p, name: name}, In: p.In, Out: p.Out, Freed: p.Leave}, nil
}

// adapterOf is the name of a client's adapter among processes.
func adapterOf(client string) string { return client + "-adapter" }

// startAdapters starts those of all clients before time zero, and waits until each has said
// its hello, which is left for its client: that joins the adapter's process group and gets
// its pipes.
func (c *cluster) startAdapters(s scenario.Scenario) error {
	if s.Lock.Kind != lockexec.Name {
		return nil
	}
	if len(c.cfg.Adapter) == 0 {
		return errors.New("run: lock exec has no program: say --adapter COMMAND")
	}
	c.adapters = map[string]*real.AdapterProcess{}
	for _, name := range s.ClientNames() {
		a, err := real.StartAdapter(c.group, adapterOf(name), c.cfg.Adapter)
		if err != nil {
			return err
		}
		c.adapters[name] = a
	}
	for _, name := range s.ClientNames() {
		if err := c.adapters[name].Speaks(c.Ctx, lockexec.StartWithin); err != nil {
			return fmt.Errorf("start the adapter of %s (%s): %w%s", name, strings.Join(c.cfg.Adapter, " "), err, c.adapters[name].Words())
		}
	}
	return nil
}

// RunClient is that of real.Run; if an adapter breaks, it adds what the program said last.
func (c *cluster) RunClient(ctx context.Context, s client.Spec, at func(point string)) error {
	err := c.Run.RunClient(ctx, s, at)
	if a := c.adapters[s.Name]; a != nil && err != nil && err != harness.ErrKilled && ctx.Err() == nil {
		return fmt.Errorf("%w%s", err, a.Words())
	}
	return err
}

// setClocks lets the clocks of nodes, clients and adapters be changed: their processes start
// traced. The others' clocks are not touched.
func (c *cluster) setClocks(s scenario.Scenario) {
	all := map[string]*real.Clock{} // by the names of processes
	add := func(name string, client bool) {
		all[name] = real.NewClock(c.Ctx, client, proc.TrueClock)
		c.group.Cleanup(all[name].Close)
	}
	for _, name := range redisOf(s) {
		add(name, false)
		c.AddClock(name, all[name])
	}
	for _, name := range s.ClientNames() {
		add(name, true)
		c.AddClock(name, all[name])
		if s.Lock.Kind == lockexec.Name {
			add(adapterOf(name), true)
			all[name].With = all[adapterOf(name)]
		}
	}
	c.group.AtStart = func(name string, pid int) error {
		if m := all[name]; m != nil {
			return m.Start(pid)
		}
		return nil
	}
}

// dateAhead changes the clock of a program that prints the time.
func dateAhead(ctx context.Context, group *proc.Group) error {
	m := real.NewClock(ctx, false, proc.TrueClock)
	defer m.Close()
	if _, err := m.Turn(24*time.Hour, 1); err != nil {
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
	got, err := strconv.ParseInt(child.Words(), 10, 64)
	if err != nil {
		return fmt.Errorf("date prints %q: %w", child.Words(), err)
	}
	want, _ := m.Shown().Wall(proc.TrueClock())
	if d := want.Sub(time.Unix(got, 0)); d.Abs() > time.Minute {
		return fmt.Errorf("date did not follow its clock: it was %v off", d)
	}
	return nil
}

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
	var questions []proc.Question
	for _, s := range c.Servers {
		questions = append(questions, c.question(s.(*proc.Redis), tell))
	}
	answered := c.Ask(answersIn, questions...)
	return func() {
		answered()
		unlisten()
	}
}

func unplanned(x proc.Unasked) harness.Unplanned {
	op := map[proc.Happening]string{proc.Ended: "kill", proc.Stopped: "pause", proc.Continued: history.OpGoOn}
	return harness.Unplanned{Op: op[x.What], Node: x.Child, Cause: x.Cause}
}

// interfered waits for what becomes of a group's processes before Guard looks after them. fail
// is called with the first interference. explain puts it, or that something took too long,
// before the error that it caused.
func interfered(group *proc.Group, when string, fail func(error)) (explain func(error) error) {
	m := real.NewMonitor(when, fail)
	over := group.Listen(func(x proc.Unasked) { m.Hear(unplanned(x)) })
	return func(err error) error {
		over()
		return m.Explain(err)
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
