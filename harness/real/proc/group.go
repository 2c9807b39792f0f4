//go:build linux

package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"lockpick/internal/files"
)

// Group is the processes of one run and the directory they live in. When
// lockpick dies, however it dies, the kernel kills them.
type Group struct {
	Dir string // its name carries the owner
	// AtStart, if it is set, is shown each child before its first instruction, on the
	// thread that traces it. It is set before the first Start.
	AtStart func(name string, pid int) error
	tasks   chan func()

	unasked unasked

	mu       sync.Mutex
	closed   bool
	children []*Child
	record   *os.File
	cleanup  []func() error
}

// NewGroup makes a group with a directory of its own below dir, which it sweeps before.
func NewGroup(dir string) (*Group, error) {
	own, err := MakeDir(dir)
	if err != nil {
		return nil, err
	}
	record, err := os.Create(filepath.Join(own, childrenFile))
	if err != nil {
		os.RemoveAll(own)
		return nil, fmt.Errorf("make run directory: %w", err)
	}
	g := &Group{Dir: own, tasks: make(chan func()), record: record}
	go g.start()
	return g, nil
}

// start runs the tasks on one thread. A child's death signal comes when the
// thread that started it ends, not when the process does, and Go ends threads
// as it likes: this one is locked, and lives until Close.
func (g *Group) start() {
	runtime.LockOSThread()
	for task := range g.tasks {
		task()
	}
}

// Start starts cmd in a process group of its own, in the group's directory unless it names
// another: by it Sweep knows a child again. What it writes on stderr, and on stdout unless
// cmd says where that goes, is the child's Words.
func (g *Group) Start(name string, cmd *exec.Cmd) (*Child, error) {
	return g.Join(nil, name, cmd)
}

// Join is Start in the process group of a child that was started so: who stops, continues or
// kills the new one does it to both, at one instant. No leader is a group of its own.
func (g *Group) Join(leader *Child, name string, cmd *exec.Cmd) (*Child, error) {
	cmd.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL, Setpgid: true}
	if leader != nil {
		cmd.SysProcAttr.Pgid = leader.pid
	}
	if cmd.Dir == "" {
		if path, err := filepath.Abs(cmd.Path); err == nil {
			cmd.Path = path
		}
		cmd.Dir = g.Dir
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, fmt.Errorf("start %s: the run has ended", name)
	}
	words, to, err := capture(cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	done := make(chan error)
	g.tasks <- func() { done <- g.startTraced(name, cmd) }
	err = <-done
	to.Close()
	if err != nil {
		words.from.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go words.follow()
	c, err := newChild(name, cmd, &g.unasked)
	c.words = words
	if leader != nil {
		c.group, c.mates = leader.pid, []*Child{leader}
	}
	g.children = append(g.children, c)
	if err == nil {
		_, err = fmt.Fprintln(g.record, c.pid, c.start, name)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("record %s: %w", name, err), c.Kill())
	}
	return c, nil
}

// DataDir is where the server of that name keeps its data.
func (g *Group) DataDir(name string) string { return filepath.Join(g.Dir, name) }

// Cleanup lets Close call f when the children have ended, before it removes the directory.
func (g *Group) Cleanup(f func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cleanup = append(g.cleanup, f)
}

// startTraced starts cmd. It runs on the thread of the tasks: a traced child obeys the
// thread that started it only, and nobody may wait for it meanwhile.
func (g *Group) startTraced(name string, cmd *exec.Cmd) error {
	if g.AtStart == nil {
		return cmd.Start()
	}
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	err := stopped(pid)
	if err == nil {
		err = g.AtStart(name, pid)
	}
	if err = errors.Join(err, unix.PtraceDetach(pid)); err != nil {
		if is, gone := files.StatOf(pid); gone != nil || is.Ends() || errors.Is(err, unix.ESRCH) || errors.Is(err, ErrStruck) { // or it is just dying
			g.unasked.add(Unasked{Child: name, What: Ended, Status: -1, Cause: fmt.Sprintf("process %d got a signal from outside before its first instruction", pid)})
		}
		cmd.Process.Kill()
		cmd.Wait() // it was killed, which it says
	}
	return err
}

// stopped waits until a traced child stands before its first instruction.
func stopped(pid int) error {
	for {
		var status unix.WaitStatus
		_, err := unix.Wait4(pid, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case !status.Stopped():
			return fmt.Errorf("process %d did not stop before its first instruction: status %#x", pid, uint32(status))
		default:
			return nil
		}
	}
}

// Close kills the children and removes the directory.
func (g *Group) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil
	}
	g.closed = true
	var errs []error
	for _, c := range g.children {
		errs = append(errs, c.Kill())
		c.words.from.Close() // something that the child started may still have the other end
	}
	close(g.tasks)
	for _, f := range g.cleanup {
		errs = append(errs, f())
	}
	errs = append(errs, g.record.Close(), os.RemoveAll(g.Dir))
	return errors.Join(errs...)
}

// Listen tells what became of the children that was not asked for, from the first on, one
// after the other, until over is called. That looks at each once more before it returns.
func (g *Group) Listen(tell func(Unasked)) (over func()) {
	u := &g.unasked
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, x := range u.untold {
		tell(x)
	}
	u.untold, u.tell = nil, tell
	return func() {
		g.mu.Lock()
		all := slices.Clone(g.children)
		g.mu.Unlock()
		for _, c := range all {
			c.mu.Lock()
			c.look()
			c.mu.Unlock()
			if s, err := files.StatOf(c.pid); err == nil && s.Start == c.start && s.Ends() {
				<-c.done
			}
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		u.tell = func(Unasked) {}
	}
}
