//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/history"
	lockexec "lockpick/harness/lock/exec"
	"lockpick/harness/real"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/vdso"
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
	cmd := exec.Command(c.self[0], c.self[1:]...)
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
	if len(c.program) == 0 {
		return errors.New("run: lock exec has no program: say --adapter COMMAND")
	}
	c.adapters = map[string]*real.AdapterProcess{}
	for _, name := range s.ClientNames() {
		a, err := real.StartAdapter(c.group, adapterOf(name), c.program)
		if err != nil {
			return err
		}
		c.adapters[name] = a
	}
	for _, name := range s.ClientNames() {
		if err := c.adapters[name].Speaks(c.Ctx, lockexec.StartWithin); err != nil {
			return fmt.Errorf("start the adapter of %s (%s): %w%s", name, strings.Join(c.program, " "), err, c.adapters[name].Words())
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

// pair is the clocks of a client and of its adapter, which are turned as one.
type pair struct{ client, adapter *vdso.Machine }

// Shown is what they show.
func (p pair) Shown() vdso.Shown { return p.client.Shown() }

// Turn turns both.
func (p pair) Turn(by time.Duration, rate float64) (from, to time.Duration, err error) {
	other := make(chan error, 1)
	go func() {
		_, _, err := p.adapter.Turn(by, rate)
		other <- err
	}()
	from, to, err = p.client.Turn(by, rate)
	return from, to, errors.Join(err, <-other)
}

// turnable prepares that the clocks of nodes and clients can be turned: their
// processes start traced. The others' clocks are not touched.
func (c *cluster) turnable(s scenario.Scenario) {
	own := map[string]*vdso.Machine{}
	for _, name := range redisOf(s) {
		own[name] = &vdso.Machine{}
	}
	for _, name := range s.ClientNames() {
		own[name] = &vdso.Machine{Monotonic: true}
	}
	for name, m := range own {
		c.Clocks.Add(name, &real.Clock{ClockDriver: m, True: proc.TrueClock})
		c.group.Cleanup(m.Close)
	}
	if s.Lock.Kind == lockexec.Name {
		for _, name := range s.ClientNames() {
			m := &vdso.Machine{Monotonic: true}
			c.Clocks.Add(name, &real.Clock{ClockDriver: pair{own[name], m}, True: proc.TrueClock})
			own[adapterOf(name)] = m
			c.group.Cleanup(m.Close)
		}
	}
	c.group.AtStart = func(name string, pid int) error {
		if m := own[name]; m != nil {
			return startBy(m, pid)
		}
		return nil
	}
}

// startBy lets a process start by a machine's clocks.
func startBy(m *vdso.Machine, pid int) error {
	err := m.Start(pid)
	if errors.Is(err, vdso.ErrSignaled) {
		return fmt.Errorf("%w: %w", proc.ErrStruck, err)
	}
	return err
}

// tryClock is whether a process's clock can be turned on this machine: it really
// turns one, of a program that prints the time.
func tryClock(dir string) error {
	if err := vdso.Available(); err != nil {
		return err
	}
	return trial(context.Background(), dir, dateAhead)
}

func dateAhead(ctx context.Context, group *proc.Group) error {
	var m vdso.Machine
	defer m.Close()
	if _, _, err := m.Turn(24*time.Hour, 1); err != nil {
		return err
	}
	group.AtStart = func(_ string, pid int) error { return startBy(&m, pid) }
	out, err := os.Create(filepath.Join(group.Dir, "date"))
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.Command("date", "+%s")
	cmd.Stdout = out
	child, err := group.Start("date", cmd)
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
	text, err := os.ReadFile(out.Name())
	if err != nil {
		return err
	}
	got, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return fmt.Errorf("date prints %q: %w", text, err)
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
