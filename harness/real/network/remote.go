package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/wire"
	"lockpick/harness/resp"
	"lockpick/nemesis"
)

// Remote is a Network that another process serves, for one run after the other.
type Remote struct {
	caller *wire.Caller

	mu    sync.Mutex
	run   Run
	addrs map[string]Addresses
	taps  map[int64]func(nemesis.Held)
	last  int64
}

// Run is what a Remote needs of a run.
type Run struct {
	Context context.Context     // ends with the run
	Record  func(history.Event) // takes the links' facts
	Go      func(func())        // runs code of the engine
	Ports   int                 // the first of the local ports that links dial from, see link.Mesh; 0: any
}

var (
	_ nemesis.Cutter = (*Remote)(nil)
	_ nemesis.Shaper = (*Remote)(nil)
	_ nemesis.Tapper = (*Remote)(nil)
)

// Dial returns the network that is served behind a process's stdin and stdout.
func Dial(in io.Writer, out io.Reader) *Remote {
	r := &Remote{run: Run{Context: context.Background()}}
	r.caller = wire.NewCaller(in, out, known, r.notice)
	return r
}

// Ended is closed when nobody serves it any more.
func (r *Remote) Ended() <-chan struct{} { return r.caller.Ended() }

func (r *Remote) notice(notice string, text json.RawMessage) {
	r.mu.Lock()
	run := r.run
	r.mu.Unlock()
	switch notice {
	case noticeEvent:
		var e history.Event
		if json.Unmarshal(text, &e) == nil && run.Record != nil {
			run.Record(e)
		}
	case noticeHit:
		var id int64
		json.Unmarshal(text, &id)
		r.mu.Lock()
		hit := r.taps[id]
		r.mu.Unlock()
		if hit == nil || run.Go == nil {
			return // the run is over
		}
		let := func(call string) func() {
			return func() { r.caller.Call(run.Context, call, id, nil) } // once it is over, nobody holds it
		}
		run.Go(func() { hit(nemesis.Held{Pass: let(callPass), Lose: let(callLose)}) })
	}
}

// Open makes the links of a run, between addresses that the other process can reach.
func (r *Remote) Open(run Run, seed uint64, host string, addrs map[string]string, nodes []string, clients []Client) error {
	r.mu.Lock()
	r.run, r.taps = run, map[int64]func(nemesis.Held){}
	r.mu.Unlock()
	var got map[string]Addresses
	err := r.caller.Call(run.Context, callOpen, opening{seed, host, run.Ports, nodes, clients, addrs}, &got)
	r.mu.Lock()
	r.addrs = got
	r.mu.Unlock()
	return err
}

// Addresses is where a client finds everybody.
func (r *Remote) Addresses(client string) (a Addresses, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok = r.addrs[client]
	return a, ok
}

// Begin says when, by the other machine's clock, true time is zero, and returns what a
// right wall clock showed there then.
func (r *Remote) Begin(origin time.Duration) (epoch int64, err error) {
	err = r.caller.Call(r.run.Context, callBegin, origin, &epoch)
	return epoch, err
}

// Told, Again and Ends are life.Lives's Watch, Again and Ends.
func (r *Remote) Told(ctx context.Context, nodes map[string]string) error {
	return r.caller.Call(ctx, callTell, nodes, nil)
}

// Again takes in that a node is back, or what has taken its place.
func (r *Remote) Again(ctx context.Context, node, addr, why string) {
	r.caller.Call(ctx, callAgain, coming{leading{node, addr}, why}, nil) // or the links have ended, and with them all that tells
}

// Ends takes in that a node is about to end.
func (r *Remote) Ends(ctx context.Context, node string, inOrder bool) (goesOn func()) {
	r.caller.Call(ctx, callEnds, ending{node, inOrder}, nil)
	return func() { r.caller.Call(ctx, callLives, node, nil) }
}

// Close ends the run's links and returns when their last facts are recorded.
func (r *Remote) Close(ctx context.Context) error {
	err := r.caller.Call(ctx, callClose, struct{}{}, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run = Run{Context: context.Background()}
	if errors.Is(err, wire.ErrGone) {
		return nil // and its links with it
	}
	return err
}

// Tell says how the server at addr is: whether it runs, and whether it can answer.
func (r *Remote) Tell(ctx context.Context, addr string, runs, answers bool) error {
	return r.caller.Call(ctx, callState, state{Addr: addr, Down: !runs, Mute: runs && !answers}, nil)
}

// Gate keeps all data from and to a node until open is called.
func (r *Remote) Gate(ctx context.Context, node string) (open func() error, err error) {
	if err := r.caller.Call(ctx, callGate, node, nil); err != nil {
		return nil, err
	}
	return func() error { return r.caller.Call(context.WithoutCancel(ctx), callUngate, node, nil) }, nil
}

// Turn lets a node's links lead to another server.
func (r *Remote) Turn(ctx context.Context, node, addr string) error {
	return r.caller.Call(ctx, callTurn, leading{node, addr}, nil)
}

// OpenReplication makes the link by which a replica follows a node, and returns its
// address. The run's other links are there before.
func (r *Remote) OpenReplication(ctx context.Context, node, addr string) (link string, err error) {
	err = r.caller.Call(ctx, callFollow, leading{node, addr}, &link)
	return link, err
}

// Ask sends one command to a server past the links, as proc.Ask does.
func (r *Remote) Ask(ctx context.Context, addr string, args ...string) (resp.Value, error) {
	reply, err := r.AskStamped(ctx, addr, args...)
	return reply.Value, err
}

// AskStamped is Ask that says when.
func (r *Remote) AskStamped(ctx context.Context, addr string, args ...string) (reply Reply, err error) {
	a := asking{Addr: addr, Args: args}
	if end, ok := ctx.Deadline(); ok {
		if a.Within = time.Until(end); a.Within <= 0 {
			return reply, fmt.Errorf("ask %s: %w", addr, context.DeadlineExceeded)
		}
	}
	err = r.caller.Call(ctx, callAsk, a, &reply)
	return reply, err
}

// Cut cuts a link.
func (r *Remote) Cut(link, mode, way string) (string, error) {
	return r.do(callCut, cutting{link, mode, way})
}

// Mend mends a link.
func (r *Remote) Mend(link string) (string, error) { return r.do(callMend, link) }

// Shape changes the traffic of a link.
func (r *Remote) Shape(link string, t nemesis.Traffic) (string, error) {
	return r.do(callShape, shaping{link, t})
}

// Unshape ends that.
func (r *Remote) Unshape(link string, t nemesis.Traffic) (string, error) {
	return r.do(callClear, shaping{link, t})
}

// Ports, Silent and Heard are Network's.
func (r *Remote) Ports(link string) (p Range, err error) {
	r.mu.Lock()
	ctx := r.run.Context
	r.mu.Unlock()
	err = r.caller.Call(ctx, callPorts, link, &p)
	return p, err
}

// Silent sees that PING gets no answer.
func (r *Remote) Silent(link string) (string, error) { return r.do(callSilent, link) }

// Heard sees that it gets one again.
func (r *Remote) Heard(link string) (string, error) { return r.do(callHeard, link) }

func (r *Remote) do(call string, args any) (back string, err error) {
	r.mu.Lock()
	ctx := r.run.Context
	r.mu.Unlock()
	err = r.caller.Call(ctx, call, args, &back)
	return back, err
}

// Tap watches a link for one message.
func (r *Remote) Tap(m nemesis.OnMessage, hit func(nemesis.Held)) error {
	r.mu.Lock()
	r.last++
	id, ctx := r.last, r.run.Context
	r.taps[id] = hit
	r.mu.Unlock()
	return r.caller.Call(ctx, callTap, tapping{id, m}, nil)
}

// Time asks what time it is there.
func (r *Remote) Time(ctx context.Context) (time.Duration, error) {
	var there Reading
	err := r.caller.Call(ctx, callClock, struct{}{}, &there)
	return there.Now, err
}

// Offset is how far the clock of the machine where it is served is ahead of this
// machine's, and by how much that may be wrong. Of one clock it is 0, exactly.
// Otherwise it is measured as NTP does (RFC 5905, section 8): by the exchange that took
// the least time, in whose middle the clock was read or, at most, at one of its ends.
func (r *Remote) Offset(ctx context.Context) (offset, within time.Duration, err error) {
	here := clockID()
	const exchanges = 20
	within = time.Hour
	for range exchanges {
		var there Reading
		from := proc.TrueClock()
		if err := r.caller.Call(ctx, callClock, struct{}{}, &there); err != nil {
			return 0, 0, err
		}
		to := proc.TrueClock()
		if there.Clock == here && here != "" {
			return 0, 0, nil
		}
		if half := (to - from) / 2; half < within {
			offset, within = there.Now-(from+half), half
		}
	}
	return offset, within, nil
}
