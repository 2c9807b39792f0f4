// Package proc starts the processes of a run (redis-servers, other stores and clients) and makes sure
// that none of them outlives the run.
//
// A Group is the set of processes of one run, with their directory. A Child is one process, which can
// be stopped, continued and killed; each action is confirmed. Sweep removes what killed lockpick
// processes have left behind; package files identifies the owners. TrueClock is the clock that no
// fault changes.
//
// Server and Sentinel query and configure a redis-server, wherever it runs. They wait until it is
// ready and read back each change. Redis is a redis-server run as a child. Store is a kind of server
// that a lock may use instead of Redis (etcd, Consul). StoreMember is one member of a store's
// cluster. Members communicate directly, without links.
//
// Failover between servers belongs to package real. Clock and disk faults belong to other packages,
// which set Group.AtStart. Everything except TrueClock, MakeDir and Sweep needs Linux.
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

// ErrEnded means that a process has already exited.
var ErrEnded = errors.New("process has ended")

// ErrSignaled is returned by Group.AtStart if another process sent the child a signal.
var ErrSignaled = errors.New("the process received a signal from outside")

// TimeoutError is returned by a wait that exceeded its time limit. Its text names the awaited
// event.
type TimeoutError string

func (l TimeoutError) Error() string { return string(l) }

// Timeout implements net.Error.
func (TimeoutError) Timeout() bool { return true }

// MakeDir creates a temporary directory below dir, after removing what killed lockpick processes
// have left there. The new directory's name identifies its owner, so that Sweep can remove it
// later.
func MakeDir(dir string) (string, error) {
	dir, err := filepath.Abs(dir) // processes with other working directories use the path
	if err != nil {
		return "", fmt.Errorf("create run directory: %w", err)
	}
	if _, err := Sweep(dir); err != nil {
		return "", err
	}
	runDir, err := files.Temporary.MakeDir(dir)
	if err != nil {
		return "", fmt.Errorf("create run directory: %w", err)
	}
	return runDir, nil
}

// Sweep removes the directories below dir whose owners are dead. First, it unmounts everything
// mounted in them and kills their processes that are still running. It returns the removed paths.
func Sweep(dir string) ([]string, error) {
	k := files.Temporary
	k.BeforeRemove = cleanUpRun
	return k.Sweep(dir)
}

// outputEndLen is the number of bytes that an Output keeps from the beginning, and again from the end.
// The first error is at the beginning, and the last one is at the end.
const outputEndLen = 2000

// Output stores the beginning and the end of a program's output, which may have any length.
type Output struct {
	mu           sync.Mutex
	head, tail   []byte
	writtenBytes int64
}

// Write implements io.Writer. It never fails.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(b)
	return len(b), nil
}

// add is like Write, but the caller holds the lock.
func (o *Output) add(b []byte) {
	o.writtenBytes += int64(len(b))
	n := min(len(b), outputEndLen-len(o.head))
	o.head = append(o.head, b[:n]...)
	b = b[n:]
	b = b[max(0, len(b)-outputEndLen):]
	o.tail = append(o.tail[max(0, len(o.tail)+len(b)-outputEndLen):], b...)
}

// String returns the output. A note replaces dropped bytes.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	dropped := ""
	if n := o.writtenBytes - int64(len(o.head)+len(o.tail)); n > 0 {
		dropped = fmt.Sprintf("\n… %d bytes dropped …\n", n)
	}
	return strings.TrimSpace(string(o.head) + dropped + string(o.tail))
}

// Timeline measures the true time of one run and runs scheduled tasks.
type Timeline struct {
	ctx        context.Context
	cancel     context.CancelCauseFunc
	clockAhead atomic.Int64 // how far the run's clock is ahead of TrueClock
	origin     atomic.Int64 // true time zero, by the run's clock

	mu     sync.Mutex
	closed bool
	tasks  sync.WaitGroup
}

// NewTimeline returns a timeline whose context is canceled when ctx is canceled or Stop is called.
func NewTimeline(ctx context.Context) *Timeline {
	t := &Timeline{}
	t.ctx, t.cancel = context.WithCancelCause(ctx)
	return t
}

// Context returns a context that is canceled when the run ends.
func (t *Timeline) Context() context.Context { return t.ctx }

// SetClockAhead makes the timeline use another machine's clock, which is ahead of this machine's
// clock by the given duration. It must be called before Begin.
func (t *Timeline) SetClockAhead(ahead time.Duration) { t.clockAhead.Store(int64(ahead)) }

func (t *Timeline) clock() time.Duration { return TrueClock() + time.Duration(t.clockAhead.Load()) }

// Begin makes the current instant true time zero.
func (t *Timeline) Begin() { t.origin.Store(int64(t.clock())) }

// Origin returns true time zero, as a TrueClock reading on the machine whose clock the timeline
// uses.
func (t *Timeline) Origin() time.Duration { return time.Duration(t.origin.Load()) }

// Now returns true time since the run began.
func (t *Timeline) Now() time.Duration { return t.clock() - t.Origin() }

// Fail ends the run by canceling the context with cause err.
func (t *Timeline) Fail(err error) { t.cancel(err) }

// Go calls f in a goroutine that Wait waits for. It does nothing after Stop.
func (t *Timeline) Go(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.tasks.Go(f)
	}
}

// At calls f at the given true time, unless the run ends first.
func (t *Timeline) At(at time.Duration, f func()) {
	t.Go(func() {
		timer := time.NewTimer(at - t.Now())
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.ctx.Done():
			return
		}
		if t.ctx.Err() == nil { // select chooses randomly if both cases are ready
			f()
		}
	})
}

// Stop cancels the context. No new task starts afterward.
func (t *Timeline) Stop() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel(nil)
}

// taskTimeout limits the time that running tasks take after the end of the run.
const taskTimeout = 5 * time.Second

// Wait waits for running tasks to finish. It must be called after Stop.
func (t *Timeline) Wait() error {
	done := make(chan struct{})
	go func() { t.tasks.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-time.After(taskTimeout):
		return TimeoutError(fmt.Sprintf("end the run: a function passed to At or Tap is still running after %v", taskTimeout))
	}
}

// A probe is sent every askInterval. The time without an answer is the sum of short sleeps in this
// process. If this process itself stalls, no server is considered slow.
const (
	askInterval = 200 * time.Millisecond
	waitStep    = 20 * time.Millisecond
)

// Probe is a request that is sent repeatedly to a server that must answer in time.
type Probe struct {
	Ask func(context.Context) // returns once the request is answered or no longer needs an answer
	// OnWait is called repeatedly with the time that has passed without an answer.
	OnWait func(waited time.Duration)
}

// AwaitAnswer returns once a server answers, or once isExcused reports that an answer is no longer
// required.
func AwaitAnswer(ctx context.Context, isExcused func() bool, ask func(context.Context) error) {
	for ctx.Err() == nil && !isExcused() {
		askCtx, cancel := context.WithTimeout(ctx, askInterval)
		err := ask(askCtx)
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

// AskOnce sends the request once and waits for the answer, at most for the duration patience.
func (q Probe) AskOnce(patience time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q.await(ctx, patience)
}

// Run repeats the request until the context is canceled.
func (q Probe) Run(ctx context.Context) {
	for {
		q.await(ctx, math.MaxInt64-waitStep)
		if ctx.Err() != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(askInterval):
		}
	}
}

func (q Probe) await(ctx context.Context, patience time.Duration) {
	done := make(chan struct{})
	go func() { defer close(done); q.Ask(ctx) }()
	for waited := waitStep; waited <= patience; waited += waitStep {
		select {
		case <-done:
			return
		case <-time.After(waitStep):
			q.OnWait(waited)
		}
	}
}

// askTimeout limits the wait for a server's answer if the context has no earlier deadline.
const askTimeout = 5 * time.Second

// Ask sends one command to a Redis server on a new connection and returns the reply, which may be
// an error reply.
func Ask(ctx context.Context, addr string, args ...string) (resp.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
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
	recentAsks.add(connKey{conn.RemoteAddr().String(), conn.LocalAddr().String()})
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.Write(resp.Append(nil, args...)); err != nil {
		return resp.Value{}, err
	}
	var scan resp.Scanner
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		values, parseErr := scan.Feed(buf[:n])
		if len(values) > 0 {
			return values[0], nil
		}
		if err := errors.Join(parseErr, err); err != nil {
			return resp.Value{}, err
		}
	}
}

// recentAsks records the local addresses from which this process has recently sent commands. A
// server that reports the sender of a command knows just the connection's address, and may report
// it long after the connection was closed.
var recentAsks askLog

type askLog struct {
	mu    sync.Mutex
	times map[connKey]time.Duration // TrueClock at the last command
}

// connKey identifies a connection by its server's and client's addresses. A client's address alone
// is not unique: another process may use the same port to connect to another server.
type connKey struct{ server, from string }

// recentTime is how long this process counts as the owner of a local address after sending a
// command from it. Later, the kernel may reuse the port.
const recentTime = time.Minute

func (a *askLog) add(x connKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.times == nil {
		a.times = map[connKey]time.Duration{}
	}
	a.times[x] = TrueClock()
}

// HasRecentlyAsked reports whether Ask has recently sent a command to server from the address from.
// Both addresses have the format used by net.Conn.
func HasRecentlyAsked(server, from string) bool {
	recentAsks.mu.Lock()
	defer recentAsks.mu.Unlock()
	at, ok := recentAsks.times[connKey{server, from}]
	return ok && TrueClock()-at < recentTime
}

// Command sends a command to the server and returns the reply as nil, int64, string or a []any of
// these. It returns an error reply as an error. name is the server's name in error messages.
func (s *Server) Command(ctx context.Context, name string, args []string) (any, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("ask %s: no command", name)
	}
	v, err := s.Ask(ctx, s.HostPort, args...)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", name, err)
	}
	r := toGoValue(v)
	if err, ok := r.(error); ok {
		return nil, fmt.Errorf("ask %s: %s: %w", name, args[0], err)
	}
	return r, nil
}

// toGoValue converts a RESP value to nil, int64, string, error or a []any of these.
func toGoValue(v resp.Value) any {
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
			items[i] = toGoValue(it)
		}
		return items
	}
	return v.Str
}

// versionTimeout limits the time that a program takes to print its version.
const versionTimeout = 5 * time.Second

// AskVersion runs a program that prints its version. It returns the text that the first capture
// group of pattern matches.
func AskVersion(ctx context.Context, pattern *regexp.Regexp, program string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = versionTimeout // a child process of the program may keep the output open
	var out Output
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", program, err)
	}
	if match := pattern.FindStringSubmatch(out.String()); match != nil {
		return match[1], nil
	}
	return "", fmt.Errorf("ask %s for its version: unexpected output %.100q", program, out.String())
}

// Parallel runs all jobs concurrently and returns their errors in the order of their occurrence.
func Parallel(jobs ...func() error) (errs []error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, job := range jobs {
		wg.Go(func() {
			if err := job(); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	return errs
}
