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

// Group is the set of processes of one run, with their directory. If lockpick dies for any reason,
// the kernel kills the processes.
type Group struct {
	Dir string // directory whose name identifies the owner
	// AtStart, if set, is called for each child before its first instruction, on the thread that
	// traces the child. It must be set before the first call of Start.
	AtStart func(name string, pid int) error
	tasks   chan func()

	unexpected unexpectedEvents

	mu       sync.Mutex
	closed   bool
	children []*Child
	record   *os.File
	cleanup  []func() error
}

// NewGroup creates a group with its own directory below dir, after calling Sweep on dir.
func NewGroup(dir string) (*Group, error) {
	runDir, err := MakeDir(dir)
	if err == nil {
		err = checkSpace(runDir)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(runDir))
	}
	record, err := os.Create(filepath.Join(runDir, childrenFile))
	if err != nil {
		os.RemoveAll(runDir)
		return nil, fmt.Errorf("create run directory: %w", err)
	}
	g := &Group{Dir: runDir, tasks: make(chan func()), record: record}
	go g.runTasks()
	return g, nil
}

// minFreeBytes is the disk space that a run needs for its servers' data. With less, servers refuse
// all writes, and the run shows nothing about the lock.
const minFreeBytes = 16 << 20

// checkSpace returns an error if the file system of dir has too little space for a run. It accepts
// a file system that does not report its free space.
func checkSpace(dir string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil || stat.Blocks == 0 {
		return nil
	}
	if free := stat.Bavail * uint64(stat.Bsize); free < minFreeBytes {
		return fmt.Errorf("create run directory: %d kB are free, but a run needs %d kB: %w", free>>10, minFreeBytes>>10, &os.PathError{Op: "write", Path: dir, Err: unix.ENOSPC})
	}
	return nil
}

// runTasks runs the tasks that start children, all on one locked thread, which lives until Close.
// The kernel sends a child its death signal when the thread that started it exits, rather than when
// the process exits, and Go may end an unlocked thread at any time.
func (g *Group) runTasks() {
	runtime.LockOSThread()
	for task := range g.tasks {
		task()
	}
}

// Start starts cmd in a process group of its own. Unless cmd specifies another working directory,
// it is the group's directory; Sweep recognizes children by it. StderrTail returns what the child
// writes to stderr, and to stdout unless cmd redirects it.
func (g *Group) Start(name string, cmd *exec.Cmd) (*Child, error) {
	return g.StartIn(nil, name, cmd)
}

// StartIn is like Start, but starts cmd in the process group of the earlier child leader. Signals
// that stop, continue or kill the new child then reach both at the same instant. If leader is nil,
// cmd gets a new process group.
func (g *Group) StartIn(leader *Child, name string, cmd *exec.Cmd) (*Child, error) {
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
	realDir, err := filepath.EvalSymlinks(g.Dir) // the same form as in Sweep
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	cmd.Env = append(cmd.Environ(), runEnv+"="+realDir)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, fmt.Errorf("start %s: the run has ended", name)
	}
	output, writeEnd, err := capture(cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	done := make(chan error)
	g.tasks <- func() { done <- g.startTraced(name, cmd) }
	err = <-done
	writeEnd.Close()
	if err != nil {
		output.readEnd.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go output.follow()
	c, err := newChild(name, cmd, &g.unexpected)
	c.output = output
	if leader != nil {
		c.pgid, c.groupMembers = leader.pid, []*Child{leader}
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

// DataDir returns the data directory of the server with the given name.
func (g *Group) DataDir(name string) string { return filepath.Join(g.Dir, name) }

// Cleanup registers a function for Close to call after the children have exited and before it
// removes the directory.
func (g *Group) Cleanup(f func() error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cleanup = append(g.cleanup, f)
}

// startTraced starts cmd. It must run on the task thread, because a traced child accepts requests
// only from the thread that started it. Nothing else may wait for the child until startTraced
// returns.
func (g *Group) startTraced(name string, cmd *exec.Cmd) error {
	if g.AtStart == nil {
		return cmd.Start()
	}
	cmd.SysProcAttr.Ptrace = true
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	err := awaitStop(pid)
	if err == nil {
		err = g.AtStart(name, pid)
	}
	if err = errors.Join(err, unix.PtraceDetach(pid)); err != nil {
		if stat, statErr := files.StatOf(pid); statErr != nil || stat.Ending() || errors.Is(err, unix.ESRCH) || errors.Is(err, ErrSignaled) { // or the child is just dying
			g.unexpected.add(UnexpectedEvent{Child: name, Kind: EventEnded, Status: -1, Cause: fmt.Sprintf("process %d got a signal from outside before its first instruction", pid)})
		}
		cmd.Process.Kill()
		cmd.Wait() // the error just says that the child was killed
	}
	return err
}

// awaitStop waits until a traced child stops before its first instruction.
func awaitStop(pid int) error {
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
		c.output.readEnd.Close() // a process started by the child may still hold the other end
	}
	if realDir, err := filepath.EvalSymlinks(g.Dir); err == nil {
		errs = append(errs, killMarked(realDir))
	}
	close(g.tasks)
	for _, f := range g.cleanup {
		errs = append(errs, f())
	}
	errs = append(errs, g.record.Close(), os.RemoveAll(g.Dir))
	return errors.Join(errs...)
}

// Listen calls report for each unexpected event of the children since the start of the run, one at
// a time, until stop is called. stop checks every child a last time before it returns.
func (g *Group) Listen(report func(UnexpectedEvent)) (stop func()) {
	u := &g.unexpected
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, x := range u.queue {
		report(x)
	}
	u.queue, u.report = nil, report
	return func() {
		g.mu.Lock()
		children := slices.Clone(g.children)
		g.mu.Unlock()
		for _, c := range children {
			c.mu.Lock()
			c.checkState()
			c.mu.Unlock()
			if s, err := files.StatOf(c.pid); err == nil && s.Start == c.start && s.Ending() {
				<-c.done
			}
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		u.report = func(UnexpectedEvent) {}
	}
}

// signalTimeout limits the time that the kernel takes to stop, continue or end a process. Normally,
// it takes milliseconds.
const signalTimeout = 5 * time.Second

// Child is one process of a Group.
type Child struct {
	name  string
	pid   int
	start uint64 // start time; see files.ProcessStat
	done  chan struct{}
	// groupMembers are the other children in the process group. They receive the same signals.
	groupMembers []*Child
	pgid         int // process group ID
	output       *capturedOutput

	unexpected *unexpectedEvents // collects events that the Group did not cause

	mu                sync.Mutex // held while the child is signaled or reaped, because the PID may be reused after that
	ended             bool
	err               error
	endRequested      bool // the Group has asked the child to exit
	stopping          bool // between Stop and Continue
	continuing        bool // Continue was called, but the kernel has not reported it yet
	stoppedExternally bool // a signal from outside has stopped the child
	expectedToRun     bool // the child must run until it is asked to exit
	killedExternally  bool // a signal from outside has ended the child
}

// newChild takes over a started command. Nothing else may wait for the process.
func newChild(name string, cmd *exec.Cmd, u *unexpectedEvents) (*Child, error) {
	c := &Child{name: name, pid: cmd.Process.Pid, pgid: cmd.Process.Pid, done: make(chan struct{}), unexpected: u}
	s, err := files.StatOf(c.pid) // the process exists, because it has not been reaped
	c.start = s.Start
	go c.reap(cmd)
	return c, err
}

func (c *Child) PID() int { return c.pid }

// StderrTail returns the beginning and the end of the child's output so far. See Group.Start.
func (c *Child) StderrTail() string { return c.output.read() }

// Done returns a channel that is closed once the process has exited and has been reaped.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err waits for the process to exit and returns its error; nil means exit status 0.
func (c *Child) Err() error {
	<-c.done
	return c.err
}

// Stop stops all threads of the process. It returns once /proc shows that they are stopped.
func (c *Child) Stop() (readBack string, err error) {
	return c.signalAndWait("stop", unix.SIGSTOP, func(states string) bool { return strings.Trim(states, "T") == "" })
}

// Continue resumes the process. It returns once /proc shows that the process is running.
func (c *Child) Continue() (readBack string, err error) {
	return c.signalAndWait("continue", unix.SIGCONT, func(states string) bool { return !strings.Contains(states, "T") })
}

// Kill sends SIGKILL and waits until the process is reaped. It succeeds if the process has already
// exited.
func (c *Child) Kill() error {
	if err := c.signal(unix.SIGKILL); err != nil && !errors.Is(err, ErrEnded) {
		return fmt.Errorf("kill %s: %w", c.name, err)
	}
	select {
	case <-c.done:
		return nil
	case <-time.After(signalTimeout):
		return TimeoutError(fmt.Sprintf("kill %s: process %d is still running after %v", c.name, c.pid, signalTimeout))
	}
}

// signal sends a signal to the whole process group, because a client may have started a program.
func (c *Child) signal(s unix.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return ErrEnded
	}
	for _, m := range c.groupMembers {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.expectSignal(s)
	}
	c.expectSignal(s)
	return unix.Kill(-c.pgid, s)
}

// expectSignal records that the child is about to receive a signal. The caller holds the lock.
func (c *Child) expectSignal(s unix.Signal) {
	c.checkState() // handle earlier changes before the expectations change
	switch s {
	case unix.SIGSTOP:
		c.stopping = true
	case unix.SIGCONT:
		c.continuing = c.stopping || c.stoppedExternally
		c.stopping = false
	case unix.SIGKILL:
		if stat, err := files.StatOf(c.pid); err != nil || !stat.Ending() { // otherwise, a signal from outside came first
			c.endRequested = true
		}
	}
}

func (c *Child) signalAndWait(verb string, s unix.Signal, reached func(states string) bool) (string, error) {
	if err := c.signal(s); err != nil {
		return "", fmt.Errorf("%s %s: %w", verb, c.name, err)
	}
	var others []string
	end := time.Now().Add(signalTimeout)
	for _, m := range c.groupMembers {
		switch readBack, err := m.awaitState(verb, end, reached); {
		case err == nil:
			others = append(others, readBack)
		case !errors.Is(err, ErrEnded):
			return "", err
		}
	}
	readBack, err := c.awaitState(verb, end, reached)
	return strings.Join(append([]string{readBack}, others...), "; "), err
}

// awaitState waits until all threads of the child are in the state that a signal causes.
func (c *Child) awaitState(verb string, end time.Time, reached func(states string) bool) (string, error) {
	for ; ; time.Sleep(100 * time.Microsecond) {
		states, err := threadStates(c.pid)
		switch {
		case files.IsProcessGone(err), err == nil && !files.ProcessRuns(c.pid, c.start):
			return "", fmt.Errorf("%s %s: %w", verb, c.name, ErrEnded)
		case err != nil:
			return "", fmt.Errorf("%s %s: %w", verb, c.name, err)
		case reached(states):
			return fmt.Sprintf("process %d: threads %s", c.pid, states), nil
		case time.Now().After(end):
			return "", fmt.Errorf("%s %s: threads of process %d are %s after %v", verb, c.name, c.pid, states, signalTimeout)
		}
	}
}

// threadStates returns the state letter of each thread of a process.
func threadStates(pid int) (string, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	var states []byte
	for _, t := range tasks {
		s, err := files.ReadStat(dir + "/" + t.Name() + "/stat")
		if files.IsProcessGone(err) {
			continue
		}
		if err != nil {
			return "", err
		}
		states = append(states, s.State)
	}
	return string(states), nil
}

// PipedChild is a child with pipes to its stdin and stdout.
type PipedChild struct {
	*Child
	In, Out *os.File // this process's ends of the pipes
}

// StartPiped is like StartIn, but connects pipes to stdin and stdout.
func (g *Group) StartPiped(leader *Child, name string, cmd *exec.Cmd) (*PipedChild, error) {
	// exec.Cmd would close its own pipes when the process is reaped, even with unread data in them.
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
	p := &PipedChild{In: in, Out: out}
	cmd.Stdin, cmd.Stdout = stdin, stdout
	if p.Child, err = g.StartIn(leader, name, cmd); err != nil {
		p.ClosePipes()
		return nil, err
	}
	return p, nil
}

// ClosePipes closes this process's ends of the pipes.
func (p *PipedChild) ClosePipes() { p.In.Close(); p.Out.Close() }

// capturedOutput is the Output of a child. It is read from a pipe, because a file would grow for as
// long as the child writes.
type capturedOutput struct {
	Output
	readEnd *os.File
	rawConn syscall.RawConn
	buf     [64 << 10]byte
}

// maxPipeRead is more than a pipe can hold. read stops after this many bytes, even if the child
// never stops writing.
const maxPipeRead = 2 << 20

// capture connects a pipe to the stderr of a command that has not started, and to its stdout unless
// that is redirected. The caller must close writeEnd after starting the command.
func capture(cmd *exec.Cmd) (c *capturedOutput, writeEnd *os.File, err error) {
	readEnd, writeEnd, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	c = &capturedOutput{readEnd: readEnd}
	if c.rawConn, err = readEnd.SyscallConn(); err != nil {
		return nil, nil, errors.Join(err, readEnd.Close(), writeEnd.Close())
	}
	cmd.Stderr = writeEnd
	if cmd.Stdout == nil {
		cmd.Stdout = writeEnd
	}
	return c, writeEnd, nil
}

// follow reads the output until no process holds the write end of the pipe.
func (c *capturedOutput) follow() {
	c.rawConn.Read(func(fd uintptr) (done bool) {
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
	c.readEnd.Close()
}

// take reads the available bytes. The caller holds the lock.
func (c *capturedOutput) take(fd uintptr) (n int, err error) {
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

// read returns all output written before the call.
func (c *capturedOutput) read() string {
	c.rawConn.Control(func(fd uintptr) { // fails if everything has been read
		c.mu.Lock()
		defer c.mu.Unlock()
		for sum := 0; sum < maxPipeRead; {
			n, err := c.take(fd)
			if n <= 0 || err != nil {
				return
			}
			sum += n
		}
	})
	return c.String()
}

// InContainer reports whether a process on this machine runs in the container with the given ID,
// according to the process's control groups.
func InContainer(pid int, id string) bool {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil || pid <= 1 || len(id) < 12 || !strings.Contains(string(groups), id) {
		return false
	}
	stat, err := files.StatOf(pid)
	return err == nil && !stat.Ended()
}

// FindStopped returns the PID of a process that a signal has stopped in the container with the given
// ID, or 0. It checks the given process and, if includeChildren is set, its children.
func FindStopped(pid int, id string, includeChildren bool) int {
	if !InContainer(pid, id) {
		return 0
	}
	if s, err := files.StatOf(pid); err == nil && s.State == 'T' {
		return pid
	}
	if !includeChildren {
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
				if stopped := FindStopped(child, id, false); stopped > 0 {
					return stopped
				}
			}
		}
	}
	return 0
}

// KillInContainer kills a process in the container with the given ID, and returns once the process
// is gone. It succeeds if the process has already exited.
func KillInContainer(ctx context.Context, pid int, id string) error {
	if err := killIf(ctx, pid, func() bool { return InContainer(pid, id) }); err != nil {
		return fmt.Errorf("kill process %d: %w", pid, err)
	}
	return nil
}

// killIf kills a process if matches confirms that it is the right one, and returns once the process
// is gone. It opens a pidfd first, so that the PID can't be reused before the kill.
func killIf(ctx context.Context, pid int, matches func() bool) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errNoPidfd, err)
	}
	defer unix.Close(fd)
	if !matches() {
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
	return fmt.Errorf("the process is still running: %w", context.Cause(ctx))
}

// errNoPidfd means that a process's pidfd can't be opened.
var errNoPidfd = errors.New("open pidfd")

// IsFrozen reports whether a control group keeps a process on this machine frozen, such as a process
// in a paused container. known is false if IsFrozen can't tell. It reads freezer.state for control
// groups version 1, and cgroup.events for version 2 (Linux documentation,
// admin-guide/cgroup-v1/freezer-subsystem and admin-guide/cgroup-v2).
func IsFrozen(pid int) (frozen, known bool) {
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
