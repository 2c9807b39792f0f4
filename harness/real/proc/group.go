//go:build linux

package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

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
	if err == nil {
		err = room(own)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(own))
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

// leastRoom is how many bytes a run needs for its servers' data: without them servers refuse all
// writes, and a run shows nothing about the lock.
const leastRoom = 16 << 20

// room reports whether a file system has too little space for a run. One that doesn't know is no obstacle.
func room(dir string) error {
	var is unix.Statfs_t
	if err := unix.Statfs(dir, &is); err != nil || is.Blocks == 0 {
		return nil
	}
	if free := is.Bavail * uint64(is.Bsize); free < leastRoom {
		return fmt.Errorf("make run directory: %d kB are free, and a run needs %d: %w", free>>10, leastRoom>>10, &os.PathError{Op: "write", Path: dir, Err: unix.ENOSPC})
	}
	return nil
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
	mark, err := filepath.EvalSymlinks(g.Dir) // as Sweep names it
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	cmd.Env = append(cmd.Environ(), runEnv+"="+mark)
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
	if mark, err := filepath.EvalSymlinks(g.Dir); err == nil {
		errs = append(errs, endMarked(mark))
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

// signalBound is how long the kernel may take to stop, continue or end a
// process. It takes milliseconds; beyond the bound something is wrong.
const signalBound = 5 * time.Second

// Child is one process of a Group.
type Child struct {
	name  string
	pid   int
	start uint64 // see files.ProcessStat
	done  chan struct{}
	// mates are the others of its process group: what is done to it is done to them.
	mates []*Child
	group int // the process group's id
	words *captured

	unasked *unasked // hears what nobody here did to it

	mu         sync.Mutex // held while it is signalled or reaped: until reaped, its pid is its own
	ended      bool
	err        error
	asked      bool // to end
	stopping   bool // Stop was called, and Continue was not since
	continuing bool // which the kernel has not told yet
	strange    bool // somebody else has stopped it
	stays      bool // it is to run until it is asked to end
	struck     bool // somebody else has ended it
}

// newChild takes charge of a started command. Nobody else may wait for it.
func newChild(name string, cmd *exec.Cmd, u *unasked) (*Child, error) {
	c := &Child{name: name, pid: cmd.Process.Pid, group: cmd.Process.Pid, done: make(chan struct{}), unasked: u}
	s, err := files.StatOf(c.pid) // not reaped yet, so it is there
	c.start = s.Start
	go c.reap(cmd)
	return c, err
}

// PID is its process id.
func (c *Child) PID() int { return c.pid }

// Words is the beginning and the end of what it has written so far. See Group.Start.
func (c *Child) Words() string { return c.words.read() }

// Done is closed once it has ended and was reaped.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err says how it ended: nil is exit status 0. It waits for the end.
func (c *Child) Err() error {
	<-c.done
	return c.err
}

// Stop stops all its threads, and returns once /proc says so.
func (c *Child) Stop() (readBack string, err error) {
	return c.drive("stop", unix.SIGSTOP, func(states string) bool { return strings.Trim(states, "T") == "" })
}

// Continue lets it go on, and returns once /proc says so.
func (c *Child) Continue() (readBack string, err error) {
	return c.drive("continue", unix.SIGCONT, func(states string) bool { return !strings.Contains(states, "T") })
}

// Kill ends it without warning and reaps it. One that has ended is no error.
func (c *Child) Kill() error {
	if err := c.signal(unix.SIGKILL); err != nil && !errors.Is(err, ErrEnded) {
		return fmt.Errorf("kill %s: %w", c.name, err)
	}
	select {
	case <-c.done:
		return nil
	case <-time.After(signalBound):
		return Late(fmt.Sprintf("kill %s: process %d is still there after %v", c.name, c.pid, signalBound))
	}
}

// signal sends to the whole process group: a client may have started a program.
func (c *Child) signal(s unix.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return ErrEnded
	}
	for _, m := range c.mates {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.expect(s)
	}
	c.expect(s)
	return unix.Kill(-c.group, s)
}

// expect takes in that it is about to get a signal. The lock is held.
func (c *Child) expect(s unix.Signal) {
	c.look() // what was until now is by the words of then
	switch s {
	case unix.SIGSTOP:
		c.stopping = true
	case unix.SIGCONT:
		c.continuing = c.stopping || c.strange
		c.stopping = false
	case unix.SIGKILL:
		if is, err := files.StatOf(c.pid); err != nil || !is.Ends() { // else another was first
			c.asked = true
		}
	}
}

func (c *Child) drive(verb string, s unix.Signal, reached func(states string) bool) (string, error) {
	if err := c.signal(s); err != nil {
		return "", fmt.Errorf("%s %s: %w", verb, c.name, err)
	}
	var others []string
	end := time.Now().Add(signalBound)
	for _, m := range c.mates {
		switch back, err := m.await(verb, end, reached); {
		case err == nil:
			others = append(others, back)
		case !errors.Is(err, ErrEnded):
			return "", err
		}
	}
	back, err := c.await(verb, end, reached)
	return strings.Join(append([]string{back}, others...), "; "), err
}

// await waits until its threads are as a signal makes them.
func (c *Child) await(verb string, end time.Time, reached func(states string) bool) (string, error) {
	for ; ; time.Sleep(100 * time.Microsecond) {
		states, err := threads(c.pid)
		switch {
		case files.ProcessGone(err), err == nil && !files.ProcessRuns(c.pid, c.start):
			return "", fmt.Errorf("%s %s: %w", verb, c.name, ErrEnded)
		case err != nil:
			return "", fmt.Errorf("%s %s: %w", verb, c.name, err)
		case reached(states):
			return fmt.Sprintf("process %d: threads %s", c.pid, states), nil
		case time.Now().After(end):
			return "", fmt.Errorf("%s %s: threads of process %d are %s after %v", verb, c.name, c.pid, states, signalBound)
		}
	}
}

// threads returns the state letter of each thread of a process.
func threads(pid int) (string, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var states []byte
	for _, t := range tasks {
		s, err := files.ReadStat(dir + "/" + t.Name() + "/stat")
		if files.ProcessGone(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		states = append(states, s.State)
	}
	return string(states), nil
}

// Piped is a child that one speaks with on its stdin and stdout.
type Piped struct {
	*Child
	In, Out *os.File // its stdin and stdout, this end
}

// JoinPiped is Join of a program that is spoken with.
func (g *Group) JoinPiped(leader *Child, name string, cmd *exec.Cmd) (*Piped, error) {
	// Own pipes: those of exec.Cmd are closed when it is reaped, read or not.
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer stdout.Close()
	p := &Piped{In: in, Out: out}
	cmd.Stdin, cmd.Stdout = stdin, stdout
	if p.Child, err = g.Join(leader, name, cmd); err != nil {
		p.Leave()
		return nil, err
	}
	return p, nil
}

// Leave lets go of its pipes.
func (p *Piped) Leave() { p.In.Close(); p.Out.Close() }

// captured is the Output of a child, which comes through a pipe: a file would grow for as
// long as the child writes.
type captured struct {
	Output
	from *os.File
	raw  syscall.RawConn
	buf  [64 << 10]byte
}

// mostWaiting is more than a pipe holds. A child that never stops writing is read for no
// longer by who asks for its output.
const mostWaiting = 2 << 20

// capture lets a command that has yet to start write its stderr, and its stdout unless that
// goes elsewhere, into a pipe. The caller closes to once the command has started.
func capture(cmd *exec.Cmd) (c *captured, to *os.File, err error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	c = &captured{from: from}
	if c.raw, err = from.SyscallConn(); err != nil {
		return nil, nil, errors.Join(err, from.Close(), to.Close())
	}
	cmd.Stderr = to
	if cmd.Stdout == nil {
		cmd.Stdout = to
	}
	return c, to, nil
}

// follow reads until nobody has the other end any more.
func (c *captured) follow() {
	c.raw.Read(func(fd uintptr) (over bool) {
		for {
			c.mu.Lock()
			n, err := c.take(fd)
			c.mu.Unlock()
			if errors.Is(err, unix.EAGAIN) {
				return false
			}
			if n <= 0 {
				return true
			}
		}
	})
	c.from.Close()
}

// take takes in what is there. The lock is held.
func (c *captured) take(fd uintptr) (n int, err error) {
	for {
		if n, err = unix.Read(int(fd), c.buf[:]); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if n > 0 {
		c.add(c.buf[:n])
	}
	return n, err
}

// read returns the output so far, with all that was written before the call.
func (c *captured) read() string {
	c.raw.Control(func(fd uintptr) { // an error says that all has been read
		c.mu.Lock()
		defer c.mu.Unlock()
		for sum := 0; sum < mostWaiting; {
			n, err := c.take(fd)
			if n <= 0 || err != nil {
				return
			}
			sum += n
		}
	})
	return c.String()
}

// InContainer says whether a process of this machine runs in the container of that id, as
// its control groups tell.
func InContainer(pid int, id string) bool {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || pid <= 1 || len(id) < 12 || !strings.Contains(string(groups), id) {
		return false
	}
	is, err := files.StatOf(pid)
	return err == nil && !is.Ended()
}

// StoppedIn is a process that a signal has stopped: that process of this machine, in the
// container of that id, or, if it matters, one that it has started; 0: there is none.
func StoppedIn(pid int, id string, started bool) int {
	if !InContainer(pid, id) {
		return 0
	}
	if s, err := files.StatOf(pid); err == nil && s.State == 'T' {
		return pid
	}
	if !started {
		return 0
	}
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return 0
	}
	for _, t := range tasks {
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if err != nil {
			continue
		}
		for _, text := range strings.Fields(string(children)) {
			if child, err := strconv.Atoi(text); err == nil {
				if stopped := StoppedIn(child, id, false); stopped > 0 {
					return stopped
				}
			}
		}
	}
	return 0
}

// KillContained kills a process in the container of that id, and returns when it is
// gone. One that has ended already is no error.
func KillContained(ctx context.Context, pid int, id string) error {
	if err := killIf(ctx, pid, func() bool { return InContainer(pid, id) }); err != nil {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// killIf kills a process if it is the one that is meant, and returns when it is gone. From
// the first it is held by a descriptor, so that its number can't become another's meanwhile.
func killIf(ctx context.Context, pid int, meant func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errHeldBack, err)
	}
	defer unix.Close(fd)
	if !meant() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	for ctx.Err() == nil {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(fds, 10); n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
	}
	return fmt.Errorf("it is still there: %w", context.Cause(ctx))
}

// errHeldBack says that a process can't be held by a descriptor.
var errHeldBack = errors.New("open its descriptor")

// Frozen says whether the kernel keeps a process of this machine frozen with its control
// group, as a paused container's are, and whether that can be known: of the first version
// of control groups by freezer.state, of the second by cgroup.events (Documentation of
// Linux, admin-guide/cgroup-v1/freezer-subsystem and admin-guide/cgroup-v2).
func Frozen(pid int) (frozen, known bool) {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return false, false
	}
	for line := range strings.Lines(string(groups)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		switch controllers {
		case "freezer":
			state, err := os.ReadFile(filepath.Join("/sys/fs/cgroup/freezer", path, "freezer.state"))
			if err == nil {
				return strings.TrimSpace(string(state)) != "THAWED", true
			}
		case "":
			events, err := os.ReadFile(filepath.Join("/sys/fs/cgroup", path, "cgroup.events"))
			if err == nil && strings.Contains(string(events), "frozen") {
				return strings.Contains(string(events), "frozen 1"), true
			}
		}
	}
	return false, false
}
