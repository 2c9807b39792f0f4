package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

// Remote is a Network that another process serves, for one run after the other.
type RemoteNetwork struct {
	caller *Caller

	mu    sync.Mutex
	run   NetworkRun
	addrs map[string]addresses
	taps  map[int64]func(nemesis.Held)
	last  int64
}

// Run is what a Remote needs of a run.
type NetworkRun struct {
	Context context.Context     // ends with the run
	Record  func(history.Event) // takes the links' facts
	Go      func(func())        // runs code of the engine
	Ports   int                 // the first of the local ports that links dial from, see link.Mesh; 0: any
}

var (
	_ nemesis.Cutter = (*RemoteNetwork)(nil)
	_ nemesis.Shaper = (*RemoteNetwork)(nil)
	_ nemesis.Tapper = (*RemoteNetwork)(nil)
)

// Dial returns the network that is served behind a process's stdin and stdout.
func DialNetwork(in io.Writer, out io.Reader) *RemoteNetwork {
	r := &RemoteNetwork{run: NetworkRun{Context: context.Background()}}
	r.caller = NewCaller(in, out, known, notices{r})
	return r
}

// known are the errors by which the engine branches.
var known = callErrors{"idle": nemesis.ErrIdle, "ended": nemesis.ErrEnded}

// Ended is closed when nobody serves it any more.
func (r *RemoteNetwork) Ended() <-chan struct{} { return r.caller.Ended() }

// notices are what a Remote is told of.
type notices struct{ r *RemoteNetwork }

// Event is a fact.
func (n notices) Event(e history.Event) {
	if run := n.r.current(); run.Record != nil {
		run.Record(e)
	}
}

// Hit says that a tap has its message.
func (n notices) Hit(id int64) {
	run := n.r.current()
	n.r.mu.Lock()
	hit := n.r.taps[id]
	n.r.mu.Unlock()
	if hit == nil || run.Go == nil {
		return // the run is over
	}
	let := func(call string) func() {
		return func() { n.r.caller.Call(run.Context, call, CallArgs{id}) } // once it is over, nobody holds it
	}
	run.Go(func() { hit(nemesis.Held{Pass: let("Pass"), Lose: let("Lose")}) })
}

func (r *RemoteNetwork) current() NetworkRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run
}

// call calls a method for as long as the run lasts.
func (r *RemoteNetwork) call(name string, args CallArgs, results ...any) error {
	return r.caller.Call(r.current().Context, name, args, results...)
}

// say is call of what has a read-back.
func say(r *RemoteNetwork, name string, args ...any) (back string, err error) {
	err = r.call(name, args, &back)
	return back, err
}

// Open makes the links of a run, between addresses that the other process can reach.
func (r *RemoteNetwork) Open(run NetworkRun, seed uint64, host string, addrs map[string]string, nodes []string, clients []linkClient) error {
	r.mu.Lock()
	r.run, r.taps = run, map[int64]func(nemesis.Held){}
	r.mu.Unlock()
	var got map[string]addresses
	err := r.call("Open", CallArgs{seed, host, run.Ports, addrs, nodes, clients}, &got)
	r.mu.Lock()
	r.addrs = got
	r.mu.Unlock()
	return err
}

// Addresses is where a client finds everybody.
func (r *RemoteNetwork) Addresses(client string) (a addresses, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok = r.addrs[client]
	return a, ok
}

// Begin says when, by the other machine's clock, true time is zero, and returns what a
// right wall clock showed there then.
func (r *RemoteNetwork) Begin(origin time.Duration) (epoch int64, err error) {
	err = r.call("Begin", CallArgs{origin}, &epoch)
	return epoch, err
}

// LetTell is Network's, as are the functions that follow.
func (r *RemoteNetwork) LetTell(nodes map[string]string) error {
	return r.call("LetTell", CallArgs{nodes})
}

// Again takes in that a node is back, or what has taken over from it.
func (r *RemoteNetwork) Again(node, addr, why string) {
	r.call("Again", CallArgs{node, addr, why}) // or the links have ended, and with them all that tells
}

// Ends takes in that a node is about to end.
func (r *RemoteNetwork) Ends(node string, inOrder bool) (goesOn func()) {
	r.call("End", CallArgs{node, inOrder})
	return func() { r.call("GoesOn", CallArgs{node}) }
}

// Close ends the run's links and returns when their last facts are recorded.
func (r *RemoteNetwork) Close(ctx context.Context) error {
	err := r.caller.Call(ctx, "Close", nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run = NetworkRun{Context: context.Background()}
	if errors.Is(err, ErrAgentGone) {
		return nil // and its links with it
	}
	return err
}

// Tell says how the server at addr is: whether it runs, and whether it can answer.
func (r *RemoteNetwork) Tell(ctx context.Context, addr string, runs, answers bool) error {
	return r.caller.Call(ctx, "State", CallArgs{addr, state{Down: !runs, Mute: runs && !answers}})
}

// Gate keeps all data from and to a node until open is called.
func (r *RemoteNetwork) Gate(node string) (open func() error, err error) {
	ctx := r.current().Context
	if err := r.call("Keep", CallArgs{node}); err != nil {
		return nil, err
	}
	return func() error { return r.caller.Call(context.WithoutCancel(ctx), "Release", CallArgs{node}) }, nil
}

// Turn lets a node's links lead to another server.
func (r *RemoteNetwork) Turn(node, addr string) error { return r.call("Turn", CallArgs{node, addr}) }

// OpenReplication makes the link by which a replica follows a node, and returns its
// address. The run's other links are there before.
func (r *RemoteNetwork) OpenReplication(node, addr string) (link string, err error) {
	return say(r, "OpenReplication", node, addr)
}

// AskStamped sends one command to a server past the links, for as long as the context
// lasts.
func (r *RemoteNetwork) AskStamped(ctx context.Context, addr string, args ...string) (reply stampedReply, err error) {
	within := time.Duration(0) // as long as such a command may take
	if end, ok := ctx.Deadline(); ok {
		if within = time.Until(end); within <= 0 {
			return reply, fmt.Errorf("ask %s: %w", addr, context.DeadlineExceeded)
		}
	}
	err = r.caller.Call(ctx, "Ask", CallArgs{addr, args, within}, &reply)
	return reply, err
}

// Cut cuts a link.
func (r *RemoteNetwork) Cut(link, mode, way string) (string, error) {
	return say(r, "Cut", link, mode, way)
}

// Mend mends a link.
func (r *RemoteNetwork) Mend(link string) (string, error) { return say(r, "Mend", link) }

// Shape changes the traffic of a link.
func (r *RemoteNetwork) Shape(link string, t nemesis.Traffic) (string, error) {
	return say(r, "Shape", link, t)
}

// Unshape ends that.
func (r *RemoteNetwork) Unshape(link string, t nemesis.Traffic) (string, error) {
	return say(r, "Unshape", link, t)
}

// Ports is the range of a link.
func (r *RemoteNetwork) Ports(link string) (p portRange, err error) {
	err = r.call("Ports", CallArgs{link}, &p)
	return p, err
}

// Silent sees that PING gets no answer.
func (r *RemoteNetwork) Silent(link string) (string, error) { return say(r, "Silent", link) }

// Heard sees that it gets one again.
func (r *RemoteNetwork) Heard(link string) (string, error) { return say(r, "Heard", link) }

// Tap watches a link for one message.
func (r *RemoteNetwork) Tap(m nemesis.OnMessage, hit func(nemesis.Held)) error {
	r.mu.Lock()
	r.last++
	id := r.last
	r.taps[id] = hit
	r.mu.Unlock()
	return r.call("Watch", CallArgs{id, m})
}

// Clock asks what the clock of the other machine shows, and which clock it is.
func (r *RemoteNetwork) Clock(ctx context.Context) (now time.Duration, id string, err error) {
	err = r.caller.Call(ctx, "Clock", nil, &now, &id)
	return now, id, err
}

// Offset is how far the clock of the machine where it is served is ahead of this
// machine's, and by how much that may be wrong. Of one clock it is 0, exactly.
// Otherwise it is measured as NTP does (RFC 5905, section 8): by the exchange that took
// the least time, in whose middle the clock was read or, at most, at one of its ends.
func (r *RemoteNetwork) Offset(ctx context.Context) (offset, within time.Duration, err error) {
	here := clockID()
	const exchanges = 20
	within = time.Hour
	for range exchanges {
		from := proc.TrueClock()
		there, id, err := r.Clock(ctx)
		if err != nil {
			return 0, 0, err
		}
		to := proc.TrueClock()
		if id == here && here != "" {
			return 0, 0, nil
		}
		if half := (to - from) / 2; half < within {
			offset, within = there-(from+half), half
		}
	}
	return offset, within, nil
}
