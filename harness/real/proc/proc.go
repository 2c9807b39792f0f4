// Package proc runs the processes of a run, redis-servers, stores and clients, and makes sure that
// none outlives it.
//
// A Group is the children of one run and the directory they live in. A Child is one process,
// which can be stopped, continued and killed, each with confirmation. Sweep removes what killed
// lockpicks left; package files says whose it is. TrueClock is the clock that no fault touches.
//
// Server and Sentinel ask a redis-server what it is and tell it what to be, wherever it runs: what
// it is started with, when it is ready, and how each change is read back. Redis is a redis-server
// that is a child. Store is a kind of server besides Redis that a lock may use (etcd, Consul), and
// StoreMember one of its members, which talk among themselves past all links.
//
// Not here: when one server takes over from another (package real), and faults of clocks and
// disks, which hook in at Group.AtStart. All but TrueClock, MakeDir and Sweep needs Linux.
package proc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness/resp"
	"lockpick/internal/files"
)

// ErrEnded says that a process has ended already.
var ErrEnded = errors.New("process has ended")

// ErrStruck is what Group.AtStart returns if somebody else has sent a signal to the child.
var ErrStruck = errors.New("somebody has sent it a signal")

// Late is the error of a wait that took longer than it may. It says who was waited for.
type Late string

func (l Late) Error() string { return string(l) }

// Timeout is as of package net's errors.
func (Late) Timeout() bool { return true }

// MakeDir makes a temporary folder below dir, and removes before what killed lockpicks
// have left there. Its name tells whose it is, so that it is removed in its turn.
func MakeDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir) // who gets it works elsewhere
	if err != nil {
		return "", fmt.Errorf("make run directory: %w", err)
	}
	if _, err := Sweep(dir); err != nil {
		return "", err
	}
	own, err := files.Temporary.MakeDir(dir)
	if err != nil {
		return "", fmt.Errorf("make run directory: %w", err)
	}
	return own, nil
}

// Sweep removes the folders below dir that dead owners left, with what is mounted there,
// and ends their processes, should any still run. It returns what it removed.
func Sweep(dir string) ([]string, error) {
	k := files.Temporary
	k.Before = putAway
	return k.Sweep(dir)
}

// keptOutput is how many bytes of an Output's beginning, and of its end, are kept: the
// beginning has the first error, and the end the last one.
const keptOutput = 2000

// Output keeps the beginning and the end of what a program writes, however much that is.
type Output struct {
	mu         sync.Mutex
	head, tail []byte
	written    int64
}

// Write implements io.Writer. It never fails.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(b)
	return len(b), nil
}

// add is Write with the lock held.
func (o *Output) add(b []byte) {
	o.written += int64(len(b))
	n := min(len(b), keptOutput-len(o.head))
	o.head = append(o.head, b[:n]...)
	b = b[n:]
	b = b[max(0, len(b)-keptOutput):]
	o.tail = append(o.tail[max(0, len(o.tail)+len(b)-keptOutput):], b...)
}

// String returns what was kept, and in its place how much was dropped.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	dropped := ""
	if n := o.written - int64(len(o.head)+len(o.tail)); n > 0 {
		dropped = fmt.Sprintf("\n… %d bytes dropped …\n", n)
	}
	return strings.TrimSpace(string(o.head) + dropped + string(o.tail))
}

// Timeline is the true time of one run and what is done in it.
type Timeline struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	ahead  atomic.Int64 // of TrueClock is the clock that it goes by
	origin atomic.Int64 // true time zero, by that clock

	mu     sync.Mutex
	closed bool
	tasks  sync.WaitGroup
}

// NewTimeline makes one whose context ends with ctx, or when it is stopped.
func NewTimeline(ctx context.Context) *Timeline {
	t := &Timeline{}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	return t
}

// Context ends with the run.
func (t *Timeline) Context() context.Context { return t.ctx }

// GoBy lets it go by the clock of another machine, which is so far ahead of this one's.
// It is called before Begin.
func (t *Timeline) GoBy(ahead time.Duration) { t.ahead.Store(int64(ahead)) }

func (t *Timeline) clock() time.Duration { return TrueClock() + time.Duration(t.ahead.Load()) }

// Begin makes this instant true time zero.
func (t *Timeline) Begin() { t.origin.Store(int64(t.clock())) }

// Origin is true time zero, by TrueClock of the machine by whose clock it goes.
func (t *Timeline) Origin() time.Duration { return time.Duration(t.origin.Load()) }

// Now is true time since the run began.
func (t *Timeline) Now() time.Duration { return t.clock() - t.Origin() }

// Fail ends the context for a reason, and so the run.
func (t *Timeline) Fail(err error) { t.cancel(err) }

// Go calls f in a goroutine that Wait waits for; once stopped it does not.
func (t *Timeline) Go(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.tasks.Go(f)
	}
}

// At calls f at a true time, unless the run ends before.
func (t *Timeline) At(at time.Duration, f func()) {
	t.Go(func() {
		timer := time.NewTimer(at - t.Now())
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.ctx.Done():
			return
		}
		if t.ctx.Err() == nil { // both may have been due
			f()
		}
	})
}

// Stop ends the context, and lets nothing new begin.
func (t *Timeline) Stop() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel(nil)
}

// taskBound is how long what was begun may still run when the run ends.
const taskBound = 5 * time.Second

// Wait waits for what was begun, after Stop.
func (t *Timeline) Wait() error {
	done := make(chan struct{})
	go func() { t.tasks.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(taskBound):
		return Late(fmt.Sprintf("end the run: a function given to At or Tap still runs after %v", taskBound))
	}
}

// A question is put each askEvery. How long its answer takes is counted in steps of this
// process's own time: where it stands still itself, nobody is late.
const (
	askEvery = 200 * time.Millisecond
	waitStep = 20 * time.Millisecond
)

// Question is put over and over to somebody who is to answer in time.
type Question struct {
	Ask func(context.Context) // returns once it is answered, or need not be
	// Late is told at each step how long an answer has been due.
	Late func(waited time.Duration)
}

// Answers returns once a server answers, or is excused: then nothing is due from when it
// is not any more.
func Answers(ctx context.Context, excused func() bool, ask func(context.Context) error) {
	for ctx.Err() == nil && !excused() {
		limit, cancel := context.WithTimeout(ctx, askEvery)
		err := ask(limit)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(waitStep):
		}
	}
}

// Last puts it once more, and waits for so long at most.
func (q Question) Last(patience time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q.answered(ctx, patience)
}

// Put puts it until the context ends.
func (q Question) Put(ctx context.Context) {
	for {
		q.answered(ctx, math.MaxInt64-waitStep)
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(askEvery):
		}
	}
}

// answered asks once, and waits for the answer until patience runs out.
func (q Question) answered(ctx context.Context, patience time.Duration) {
	done := make(chan struct{})
	go func() { defer close(done); q.Ask(ctx) }()
	for waited := waitStep; waited <= patience; waited += waitStep {
		select {
		case <-done:
			return
		case <-time.After(waitStep):
			q.Late(waited)
		}
	}
}

// askBound is how long a server may take to answer when the context sets no bound.
const askBound = 5 * time.Second

// Ask sends one command to a Redis server on a connection of its own and
// returns its reply. An error reply is a reply.
func Ask(ctx context.Context, addr string, args ...string) (resp.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	v, err := ask(ctx, addr, args)
	if err != nil {
		return resp.Value{}, fmt.Errorf("ask %s: %s: %w", addr, args[0], err)
	}
	return v, nil
}

func ask(ctx context.Context, addr string, args []string) (resp.Value, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return resp.Value{}, err
	}
	defer conn.Close()
	asked.note(asking{conn.RemoteAddr().String(), conn.LocalAddr().String()})
	end := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer end()
	if _, err := conn.Write(resp.Append(nil, args...)); err != nil {
		return resp.Value{}, err
	}
	var scan resp.Scanner
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		values, bad := scan.Feed(buf[:n])
		if len(values) > 0 {
			return values[0], nil
		}
		if err := errors.Join(bad, err); err != nil {
			return resp.Value{}, err
		}
	}
}

// asked is where this process has asked servers from. A server that tells who asked it
// knows a connection by its address alone, and may tell when that is long closed.
var asked askers

type askers struct {
	mu  sync.Mutex
	all map[asking]time.Duration // by TrueClock, when it was last asked
}

// asking is a server and where it was asked from: another server may be connected to from
// the same port by anybody.
type asking struct{ server, from string }

// askedFor is how long an address that was asked from counts as ours. The kernel gives it
// away again.
const askedFor = time.Minute

func (a *askers) note(x asking) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[asking]time.Duration{}
	}
	a.all[x] = TrueClock()
}

// Asked says whether Ask has asked a server lately from an address. Both are as their
// connection has them.
func Asked(server, from string) bool {
	asked.mu.Lock()
	defer asked.mu.Unlock()
	at, ok := asked.all[asking{server, from}]
	return ok && TrueClock()-at < askedFor
}

// Command asks a server, which has a name for messages, and returns its answer as Go has it: nil,
// int64, string or a []any of them. An error reply is an error.
func (s *Server) Command(ctx context.Context, name string, args []string) (any, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("ask %s: no command", name)
	}
	v, err := s.Ask(ctx, s.At, args...)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", name, err)
	}
	r := reply(v)
	if err, ok := r.(error); ok {
		return nil, fmt.Errorf("ask %s: %s: %w", name, args[0], err)
	}
	return r, nil
}

// reply is a RESP value as Go has it: nil, int64, string, error or a []any of them.
func reply(v resp.Value) any {
	switch {
	case v.Null:
		return nil
	case v.Kind == '-':
		return errors.New(v.Str)
	case v.Kind == ':':
		return v.Int
	case v.Kind == '*' || v.Kind == '~' || v.Kind == '%':
		items := make([]any, len(v.Items))
		for i, it := range v.Items {
			items[i] = reply(it)
		}
		return items
	}
	return v.Str
}

// versionBound is how long a program may take to tell its version.
const versionBound = 5 * time.Second

// AskVersion runs a program that prints its version, and returns what the group of pattern matches.
func AskVersion(ctx context.Context, pattern *regexp.Regexp, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = versionBound // what it has started may keep its output open
	var out Output
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	if found := pattern.FindStringSubmatch(out.String()); found != nil {
		return found[1], nil
	}
	return "", fmt.Errorf("ask %s for its version: it says %.100q", program, out.String())
}

// AtOnce does all jobs at the same time, and returns the errors in the order in which they came.
func AtOnce(jobs ...func() error) (failed []error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, do := range jobs {
		all.Go(func() {
			if err := do(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}
		})
	}
	all.Wait()
	return failed
}
