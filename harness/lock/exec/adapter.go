// Package exec implements a lock that runs in another program, in any language. The program is
// called an adapter: it uses the library under test and speaks JSON lines on its stdin and stdout.
//
// An Adapter is the harness's end of the connection to such a program. New returns a lock that uses
// the adapter whose pipes were passed to this process. All measurements remain the client's task:
// it takes the timestamps, reaches the points where faults strike, and accesses the resource.
// Deadlines are instants on one of the adapter's clocks, never relative durations, because a client
// that reads a message late would then consider itself the holder for too long.
//
// Starters lists templates for adapters, one per language. Libraries lists the adapters for
// published libraries. adapters/README.md explains how to install them.
//
// Deliberately missing: starting the program (package real), and faults, which affect an adapter
// together with its client.
package exec

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"sync"
	"time"

	"lockpick/harness/lock"
)

// errBroken means that an adapter violated the protocol or has exited. It matches lock.ErrBroken
// but doesn't blame the lock.
var errBroken error = brokenAdapter{}

type brokenAdapter struct{}

func (brokenAdapter) Error() string { return "adapter" }

// Is reports whether err is lock.ErrBroken.
func (brokenAdapter) Is(err error) bool { return err == lock.ErrBroken }

// StartWithin is the time limit for an adapter's hello, and for its answer to open. On a busy host,
// a language's virtual machine may need many seconds to load a library.
const StartWithin = 30 * time.Second

// gracePeriod is how much longer than the library's own time limit an adapter may take to answer.
const gracePeriod = 2 * time.Second

// Adapter is the harness's end of the connection to a program that contains a lock and speaks the
// protocol.
type Adapter struct {
	Hello       Hello
	Quorum      int // quorum size, set by Open; 0 if the adapter doesn't report it
	now         func() time.Time
	in          io.Writer
	out         *bufio.Reader
	outputEnded chan struct{} // closed when the adapter's output ends

	mu          sync.Mutex
	err         error // why the output ended
	lastID      int64 // ID of the last request
	pending     map[int64]chan reply
	handles     map[string]*Handle
	earlyLosses map[string]string // reasons for losses reported before the handle was returned, by handle
	clocks      clockReading
}

// clockReading is a reading of the adapter's monotonic clock, taken at or after a time on the
// client's clock.
type clockReading struct {
	adapter   int64
	client    time.Time
	roundTrip time.Duration
}

// Connect returns an Adapter after reading the adapter's hello from out. now reads the client's
// monotonic clock.
func Connect(in io.Writer, out io.Reader, now func() time.Time) (*Adapter, error) {
	a := &Adapter{now: now, in: in, out: bufio.NewReaderSize(out, maxLineLen), outputEnded: make(chan struct{}),
		pending: map[int64]chan reply{}, handles: map[string]*Handle{}, earlyLosses: map[string]string{}}
	err := readLine(a.out, &a.Hello)
	if err == nil {
		err = a.Hello.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBroken, err)
	}
	go a.listen()
	return a, nil
}

// Open tells the adapter to connect to the nodes, and compares the clocks.
func (a *Adapter) Open(ctx context.Context, client string, nodes []lock.Node, s lock.Settings) error {
	r := request{Op: "open", Client: client, Settings: protocolSettings(s), Options: s.Options}
	for _, n := range nodes {
		r.Nodes = append(r.Nodes, node{n.Name, n.Addr})
	}
	answer, err := a.call(ctx, r)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	a.Quorum = int(answer.Quorum)
	return a.compareClocks(ctx)
}

// maxClockReadings is the maximum number of clock readings. The reading with the shortest round
// trip is the most precise.
const maxClockReadings = 5

// compareClocks reads the adapter's clocks between two readings of the client's clock.
func (a *Adapter) compareClocks(ctx context.Context) error {
	best := clockReading{roundTrip: math.MaxInt64}
	for range maxClockReadings {
		start := a.now()
		mono, _, err := a.readClocks(ctx)
		if err != nil {
			return fmt.Errorf("clock: %w", err)
		}
		if roundTrip := a.now().Sub(start); roundTrip < best.roundTrip {
			// Use the earlier time: a slow answer must shorten the client's belief, not extend it.
			best = clockReading{mono, start, roundTrip}
		}
	}
	a.mu.Lock()
	a.clocks = best
	a.mu.Unlock()
	return a.checkWallClock(ctx)
}

// maxClockDifference is the maximum difference between the wall clocks of the adapter and its
// client. Faults set the two clocks a few milliseconds apart, and some languages' clocks have no
// better resolution.
const maxClockDifference = 100 * time.Millisecond

// checkWallClock checks that the adapter's wall clock still agrees with the client's. Faults set
// both clocks together.
func (a *Adapter) checkWallClock(ctx context.Context) error {
	var difference time.Duration
	for range maxClockReadings {
		start := time.Now().Round(0)
		_, wall, err := a.readClocks(ctx)
		if err != nil {
			return fmt.Errorf("clock: %w", err)
		}
		reading, end := time.Unix(0, wall), time.Now().Round(0)
		switch {
		case reading.Before(start.Add(-maxClockDifference)):
			difference = start.Sub(reading)
		case reading.After(end.Add(maxClockDifference)):
			difference = end.Sub(reading)
		default:
			return nil
		}
	}
	return fmt.Errorf("%w: its wall clock differs from its client's by %v: report nanoseconds since 1970, and don't start the adapter as a child of another program, because a child's clock can't be set", errBroken, difference)
}

// clientTime converts an instant on the adapter's monotonic clock to the client's clock.
func (a *Adapter) clientTime(mono int64) time.Time {
	return a.clocks.client.Add(time.Duration(mono - a.clocks.adapter))
}

func (a *Adapter) listen() {
	for {
		var r reply
		err := readLine(a.out, &r)
		if err == nil {
			err = r.check()
		}
		a.mu.Lock()
		if err == nil {
			err = a.handleReply(r)
		}
		if err != nil {
			a.err = err
			a.mu.Unlock()
			close(a.outputEnded)
			return
		}
		a.mu.Unlock()
	}
}

// handleReply processes a line from the adapter. The caller must hold a.mu.
func (a *Adapter) handleReply(r reply) error {
	switch {
	case r.Lost != "":
		if h := a.handles[r.Lost]; h != nil {
			h.notifyLost()
		} else if len(a.pending) == 0 || len(a.earlyLosses) > 1000 {
			return fmt.Errorf("it reported the loss of an unknown handle: %q", r.Lost)
		} else {
			a.earlyLosses[r.Lost] = r.Why
		}
		return nil
	case r.Renewed != "":
		h := a.handles[r.Renewed]
		if h == nil {
			return fmt.Errorf("it renewed an unknown handle: %q", r.Renewed)
		}
		h.setDeadline(r)
		h.notifyRenewed()
		return nil
	}
	ch := a.pending[int64(r.ID)]
	if ch == nil {
		return fmt.Errorf("it answered %d, which is an unknown request or was already answered", r.ID)
	}
	delete(a.pending, int64(r.ID))
	if r.OK && r.Handle != "" && a.handles[r.Handle] == nil {
		h := &Handle{adapter: a, id: r.Handle, token: r.Token, fence: int64(r.Fence), lost: make(chan struct{}), renewed: make(chan struct{}, 1)}
		h.setDeadline(r)
		a.handles[r.Handle] = h
		if _, lost := a.earlyLosses[r.Handle]; lost {
			h.notifyLost()
		}
	}
	ch <- r
	return nil
}

// send sends a request and returns the channel on which its answer arrives.
func (a *Adapter) send(r *request) (<-chan reply, error) {
	a.mu.Lock()
	a.lastID++
	r.ID = a.lastID
	ch := make(chan reply, 1)
	a.pending[r.ID] = ch
	a.mu.Unlock()
	text, err := json.Marshal(r)
	if err == nil {
		_, err = a.in.Write(append(text, '\n'))
	}
	if err != nil {
		return nil, a.failure(err)
	}
	return ch, nil
}

// failure returns the error to report for a broken adapter. If the adapter's output ended, it
// reports why instead of err, because that is more informative.
func (a *Adapter) failure(err error) error {
	select {
	case <-a.outputEnded:
	case <-time.After(gracePeriod / 10):
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		err = a.err
	}
	return fmt.Errorf("%w: %w", errBroken, err)
}

// call sends a request and waits for the answer. If ctx ends, call cancels an acquire, provided the
// adapter supports it. Whenever the library's time limit has passed, call pings the adapter's
// reader: as long as the reader answers, only the library hangs, and call keeps waiting, as it
// would for any other lock.
func (a *Adapter) call(ctx context.Context, r request) (reply, error) {
	ch, err := a.send(&r)
	if err != nil {
		return reply{}, err
	}
	// Wait for half of the grace period twice: if the client was paused together with its adapter,
	// the first timer may already have expired.
	timer, extended := time.NewTimer(r.timeout()-gracePeriod/2), false
	defer timer.Stop()
	done := ctx.Done()
	for {
		select {
		case answer := <-ch:
			return answer, answer.refusal()
		case <-a.outputEnded:
			select {
			case answer := <-ch: // the adapter's last message
				return answer, answer.refusal()
			default:
				return reply{}, a.failure(nil)
			}
		case <-done:
			done = nil
			if r.Op == "acquire" && a.Hello.hasCapability(canCancel) {
				if _, err := a.send(&request{Op: "cancel", Of: r.ID}); err != nil {
					return reply{}, err
				}
			}
		case <-timer.C:
			if !extended {
				extended = true
				timer.Reset(gracePeriod / 2)
				continue
			}
			if r.bypassesLibrary() {
				return reply{}, fmt.Errorf("%w: no answer to %s within %v", errBroken, r.Op, r.timeout())
			}
			if _, err := a.call(context.WithoutCancel(ctx), request{Op: "ping"}); err != nil {
				return reply{}, fmt.Errorf("%w, after %s", err, r.Op)
			}
			timer.Reset(gracePeriod)
		}
	}
}

// bypassesLibrary reports whether the adapter can answer without calling the library.
func (r request) bypassesLibrary() bool { return r.Op == "ping" || r.Op == "clock" || r.Op == "open" }

// timeout returns how long an answer may take.
func (r request) timeout() time.Duration {
	switch {
	case r.Within != nil:
		return time.Duration(*r.Within*1e6) + gracePeriod
	case r.Op == "open":
		return StartWithin
	}
	return gracePeriod
}

// RefusedError is returned for an answer that isn't ok.
type RefusedError struct{ No, Why string }

func (r *RefusedError) Error() string {
	if r.Why == "" {
		return r.No
	}
	return r.No + ": " + r.Why
}

// Is reports whether err is lock.ErrNotHeld and the answer is not-held.
func (r *RefusedError) Is(err error) bool { return err == lock.ErrNotHeld && r.No == refusedNotHeld }

// refusal returns an error for a reply that isn't ok.
func (r reply) refusal() error {
	if r.OK || r.Pong {
		return nil
	}
	return &RefusedError{r.No, r.Why}
}

// Acquire requests a lock once. It releases a lock that it gets after ctx has ended.
func (a *Adapter) Acquire(ctx context.Context, key string, timeout time.Duration) (*Handle, error) {
	millis := toMillis(timeout)
	r, err := a.call(ctx, request{Op: "acquire", Key: key, Within: &millis})
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	h := a.handles[r.Handle]
	a.mu.Unlock()
	switch {
	case h == nil || h.returned:
		return nil, fmt.Errorf("%w: it acquired a lock without a new handle (%q)", errBroken, r.Handle)
	case ctx.Err() != nil:
		return nil, errors.Join(ctx.Err(), h.Release(context.WithoutCancel(ctx)))
	}
	h.returned = true
	return h, nil
}

// Ping checks that the adapter's reader answers. The reader doesn't have to wait for the library.
func (a *Adapter) Ping(ctx context.Context) error {
	_, err := a.call(ctx, request{Op: "ping"})
	return err
}

// readClocks reads the adapter's clocks, in nanoseconds.
func (a *Adapter) readClocks(ctx context.Context) (monotonic, wall int64, err error) {
	r, err := a.call(ctx, request{Op: "clock"})
	return int64(r.Mono), int64(r.Wall), err
}

// Close tells the adapter to exit.
func (a *Adapter) Close(ctx context.Context) error {
	_, err := a.call(ctx, request{Op: "close"})
	return err
}

// attachedPipes holds the pipes of an adapter started by Attach. They are nil if there is none.
var attachedPipes struct {
	in  io.WriteCloser
	out io.Reader
}

// Attach starts an adapter for New to use. It is for containers that contain both the client and
// the adapter, where no other process could pass pipes to the client. Both end with the container.
func Attach(argv []string) (err error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	if attachedPipes.in, err = cmd.StdinPipe(); err == nil {
		attachedPipes.out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start the adapter: %w", err)
	}
	return nil
}
