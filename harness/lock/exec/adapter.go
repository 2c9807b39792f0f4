// Package exec is a lock in another program, in any language: an adapter, which speaks JSON lines on
// its stdin and stdout, and uses the library under test.
//
// An Adapter is such a program, seen from this end; New makes a lock of the one whose pipes this
// process was given. What is measured stays the client's: stamps, points, the resource. Deadlines
// are instants on a clock of the adapter's, never "so long from now": what is read late would be
// believed for longer.
//
// Starters are adapters to start from, one a language; Libraries are those that ship, each with what
// it takes to install (adapters/README.md).
//
// Not here: who starts the program (package real), and faults, which hit it together with its client.
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

// errBroken says that an adapter does not keep to the protocol, or has ended. It is a
// lock.ErrBroken that does not blame the lock.
var errBroken error = broken{}

type broken struct{}

func (broken) Error() string { return "adapter" }

// Is says that it is a lock.ErrBroken.
func (broken) Is(err error) bool { return err == lock.ErrBroken }

// StartWithin is how long an adapter may take to say hello, and how long to open: on a busy
// machine a virtual machine needs many seconds to load a library.
const StartWithin = 30 * time.Second

// grace is what an adapter may take for an answer, beyond what the library was given.
const grace = 2 * time.Second

// Adapter is a program that has a lock and speaks the protocol, seen from here.
type Adapter struct {
	Hello  Hello
	Quorum int // of the nodes, once it is open; 0: it doesn't say
	now    func() time.Time
	in     io.Writer
	out    *bufio.Reader
	ended  chan struct{} // closed when nothing more comes from it

	mu      sync.Mutex
	err     error // why
	last    int64 // request
	waiting map[int64]chan reply
	handles map[string]*Handle
	early   map[string]string // handles that were lost before they were given, and why
	clocks  reading
}

// reading is what the adapter's monotonic clock showed at an instant of the client's or after it.
type reading struct {
	mono int64
	own  time.Time
	took time.Duration
}

// Meet reads the hello of an adapter. now is the client's monotonic clock.
func Meet(in io.Writer, out io.Reader, now func() time.Time) (*Adapter, error) {
	a := &Adapter{now: now, in: in, out: bufio.NewReaderSize(out, longest), ended: make(chan struct{}),
		waiting: map[int64]chan reply{}, handles: map[string]*Handle{}, early: map[string]string{}}
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

// Open lets it connect to the nodes, and compares clocks.
func (a *Adapter) Open(ctx context.Context, client string, nodes []lock.Node, s lock.Settings) error {
	r := request{Op: "open", Client: client, Settings: settingsOf(s), Options: s.Options}
	for _, n := range nodes {
		r.Nodes = append(r.Nodes, node{n.Name, n.Addr})
	}
	answer, err := a.ask(ctx, r)
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	a.Quorum = int(answer.Quorum)
	return a.compare(ctx)
}

// comparisons are made at most so many: the shortest is the best.
const comparisons = 5

// compare reads the adapter's clocks between two looks at the client's.
func (a *Adapter) compare(ctx context.Context) error {
	best := reading{took: math.MaxInt64}
	for range comparisons {
		from := a.now()
		mono, _, err := a.readClocks(ctx)
		if err != nil {
			return fmt.Errorf("clock: %w", err)
		}
		if took := a.now().Sub(from); took < best.took {
			// The first look: belief must come out shorter for the time that the answer took.
			best = reading{mono, from, took}
		}
	}
	a.mu.Lock()
	a.clocks = best
	a.mu.Unlock()
	return a.turned(ctx)
}

// apart is how far its wall clock may be from its client's: they are turned within some
// milliseconds of each other, and some languages' clocks count no smaller ones.
const apart = 100 * time.Millisecond

// turned looks whether its wall clock is still its client's, with which it is turned.
func (a *Adapter) turned(ctx context.Context) error {
	var off time.Duration
	for range comparisons {
		from := time.Now().Round(0)
		_, wall, err := a.readClocks(ctx)
		if err != nil {
			return fmt.Errorf("clock: %w", err)
		}
		shown, to := time.Unix(0, wall), time.Now().Round(0)
		switch {
		case shown.Before(from.Add(-apart)):
			off = from.Sub(shown)
		case shown.After(to.Add(apart)):
			off = to.Sub(shown)
		default:
			return nil
		}
	}
	return fmt.Errorf("%w: its wall clock is %v from its client's: tell nanoseconds since 1970, and let no program start it as a child: the child's clock can't be turned", errBroken, off)
}

// own is an instant of the adapter's monotonic clock by the client's.
func (a *Adapter) own(mono int64) time.Time {
	return a.clocks.own.Add(time.Duration(mono - a.clocks.mono))
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
			err = a.heard(r)
		}
		if err != nil {
			a.err = err
			a.mu.Unlock()
			close(a.ended)
			return
		}
		a.mu.Unlock()
	}
}

// heard takes a line in. The lock is held.
func (a *Adapter) heard(r reply) error {
	switch {
	case r.Lost != "":
		if h := a.handles[r.Lost]; h != nil {
			h.lose()
		} else if len(a.waiting) == 0 || len(a.early) > 1000 {
			return fmt.Errorf("it lost a handle that it had not given: %q", r.Lost)
		} else {
			a.early[r.Lost] = r.Why
		}
		return nil
	case r.Renewed != "":
		h := a.handles[r.Renewed]
		if h == nil {
			return fmt.Errorf("it renewed a handle that it had not given: %q", r.Renewed)
		}
		h.until(r)
		h.renew()
		return nil
	}
	w := a.waiting[int64(r.ID)]
	if w == nil {
		return fmt.Errorf("it answered %d, which was not asked, or twice", r.ID)
	}
	delete(a.waiting, int64(r.ID))
	if r.OK && r.Handle != "" && a.handles[r.Handle] == nil {
		h := &Handle{adapter: a, id: r.Handle, token: r.Token, fence: int64(r.Fence), lost: make(chan struct{}), renewed: make(chan struct{}, 1)}
		h.until(r)
		a.handles[r.Handle] = h
		if _, was := a.early[r.Handle]; was {
			h.lose()
		}
	}
	w <- r
	return nil
}

// send asks, and says where the answer comes.
func (a *Adapter) send(r *request) (<-chan reply, error) {
	a.mu.Lock()
	a.last++
	r.ID = a.last
	w := make(chan reply, 1)
	a.waiting[r.ID] = w
	a.mu.Unlock()
	text, err := json.Marshal(r)
	if err == nil {
		_, err = a.in.Write(append(text, '\n'))
	}
	if err != nil {
		return nil, a.broken(err)
	}
	return w, nil
}

// broken is why nothing comes of the adapter any more; its own end says most.
func (a *Adapter) broken(err error) error {
	select {
	case <-a.ended:
	case <-time.After(grace / 10):
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		err = a.err
	}
	return fmt.Errorf("%w: %w", errBroken, err)
}

// ask waits for the answer. Once ctx has ended, an acquire is cancelled, if it can be. Whenever
// the library has had its time, the adapter's reader is asked whether it is still there: as long
// as it is, it is the library that hangs, and who asked hangs with it, as with any other.
func (a *Adapter) ask(ctx context.Context, r request) (reply, error) {
	w, err := a.send(&r)
	if err != nil {
		return reply{}, err
	}
	// Twice half of it: who was stopped together with its adapter finds the first time over.
	late, again := time.NewTimer(r.limit()-grace/2), false
	defer late.Stop()
	done := ctx.Done()
	for {
		select {
		case answer := <-w:
			return answer, answer.refusal()
		case <-a.ended:
			select {
			case answer := <-w: // the last thing it said
				return answer, answer.refusal()
			default:
				return reply{}, a.broken(nil)
			}
		case <-done:
			done = nil
			if r.Op == "acquire" && a.Hello.can(canCancel) {
				if _, err := a.send(&request{Op: "cancel", Of: r.ID}); err != nil {
					return reply{}, err
				}
			}
		case <-late.C:
			if !again {
				again = true
				late.Reset(grace / 2)
				continue
			}
			if r.own() {
				return reply{}, fmt.Errorf("%w: it has not answered %s within %v", errBroken, r.Op, r.limit())
			}
			if _, err := a.ask(context.WithoutCancel(ctx), request{Op: "ping"}); err != nil {
				return reply{}, fmt.Errorf("%w, after %s", err, r.Op)
			}
			late.Reset(grace)
		}
	}
}

// own says whether the adapter can answer without the library.
func (r request) own() bool { return r.Op == "ping" || r.Op == "clock" || r.Op == "open" }

// limit is when an answer is late.
func (r request) limit() time.Duration {
	switch {
	case r.Within != nil:
		return time.Duration(*r.Within*1e6) + grace
	case r.Op == "open":
		return StartWithin
	}
	return grace
}

// Refused is an answer that isn't ok.
type Refused struct{ No, Why string }

func (r *Refused) Error() string {
	if r.Why == "" {
		return r.No
	}
	return r.No + ": " + r.Why
}

// Is says that not-held is lock.ErrNotHeld.
func (r *Refused) Is(err error) bool { return err == lock.ErrNotHeld && r.No == noHeld }

// refusal is what a reply says that isn't ok.
func (r reply) refusal() error {
	if r.OK || r.Pong {
		return nil
	}
	return &Refused{r.No, r.Why}
}

// Acquire asks for a lock once. One that comes after ctx has ended is given back.
func (a *Adapter) Acquire(ctx context.Context, key string, within time.Duration) (*Handle, error) {
	millis := ms(within)
	r, err := a.ask(ctx, request{Op: "acquire", Key: key, Within: &millis})
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	h := a.handles[r.Handle]
	a.mu.Unlock()
	switch {
	case h == nil || h.given:
		return nil, fmt.Errorf("%w: it acquired, and gave no handle of its own (%q)", errBroken, r.Handle)
	case ctx.Err() != nil:
		return nil, errors.Join(ctx.Err(), h.Release(context.WithoutCancel(ctx)))
	}
	h.given = true
	return h, nil
}

// Ping asks its reader, which need not wait for the library.
func (a *Adapter) Ping(ctx context.Context) error {
	_, err := a.ask(ctx, request{Op: "ping"})
	return err
}

// readClocks are what its clocks show, in nanoseconds.
func (a *Adapter) readClocks(ctx context.Context) (monotonic, wall int64, err error) {
	r, err := a.ask(ctx, request{Op: "clock"})
	return int64(r.Mono), int64(r.Wall), err
}

// Close lets it end.
func (a *Adapter) Close(ctx context.Context) error {
	_, err := a.ask(ctx, request{Op: "close"})
	return err
}

// attached are the pipes of an adapter that this process has started itself; nil: of none.
var attached struct {
	in  io.WriteCloser
	out io.Reader
}

// Attach starts the adapter whose lock New makes from then on: where both are in one container,
// in which nobody else could give this process its pipes. What ends the container ends it.
func Attach(argv []string) (err error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stderr = os.Stderr
	if attached.in, err = cmd.StdinPipe(); err == nil {
		attached.out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return fmt.Errorf("start the adapter: %w", err)
	}
	return nil
}
