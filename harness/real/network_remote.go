package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/harness/scenario"
	"lockpick/nemesis"
)

// RemoteNetwork is a Network that another process serves, for one run after the other.
type RemoteNetwork struct {
	caller *Caller

	mu    sync.Mutex
	run   NetworkRun
	addrs map[string]addresses
	taps  map[int64]func(nemesis.Held)
	last  int64
}

// NetworkRun is what a Remote needs of a run.
type NetworkRun struct {
	Context context.Context     // ends with the run
	Record  func(history.Event) // takes the links' facts
	Go      func(func())        // runs code of the engine
	Ports   int                 // the first of the local ports that links dial from, see proxy.Mesh; 0: any
}

var (
	_ nemesis.Cutter = (*RemoteNetwork)(nil)
	_ nemesis.Shaper = (*RemoteNetwork)(nil)
	_ nemesis.Tapper = (*RemoteNetwork)(nil)
)

// DialNetwork returns the network that is served behind a process's stdin and stdout.
func DialNetwork(in io.Writer, out io.Reader) *RemoteNetwork {
	r := &RemoteNetwork{run: NetworkRun{Context: context.Background()}}
	r.caller = NewCaller(in, out, notices{r})
	return r
}

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
func (r *RemoteNetwork) Open(run NetworkRun, seed uint64, host string, addrs map[string]string, nodes []string, clients []scenario.Client) error {
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

// served is a network whose runs are elsewhere. A Remote calls its exported methods, and
// those of the run that it has.
type served struct {
	wire CallServer

	mu  sync.Mutex
	run *servedRun // nil: there is none
}

type servedRun struct {
	*Network
	notify func(notice string, args ...any)
	origin atomic.Int64 // true time zero of the run
	cancel context.CancelFunc

	mu     sync.Mutex
	addrs  map[string]string // of its nodes and the resource
	states map[string]state  // by address
	held   map[int64]nemesis.Held
	gates  map[string][]func() error // what opens each of those that keep a node's data
}

// ServeLinks makes the links of one run after the other, as a Remote asks for it on in,
// until that ends.
func ServeLinks(in io.Reader, out io.Writer) error {
	s := &served{}
	s.wire.Of = func() []any {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.run == nil {
			return []any{s}
		}
		return []any{s, s.run}
	}
	return errors.Join(s.wire.Serve(in, out), s.Close())
}

// Clock is what the clock of this machine shows, and which clock it is.
func (s *served) Clock() (now time.Duration, id string) { return proc.TrueClock(), clockID() }

// Ask sends one command to a server.
func (s *served) Ask(addr string, args []string, within time.Duration) (stampedReply, error) {
	ctx := context.Background()
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	return AskStamped(ctx, addr, args...)
}

// Open makes the links of a run on the address host, which dial from the port ports on
// where that is not 0.
func (s *served) Open(seed uint64, host string, ports int, addrs map[string]string, nodes []string, clients []scenario.Client) (map[string]addresses, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return nil, errors.New("open links: those of another run are there")
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &servedRun{notify: s.wire.notify, cancel: cancel, addrs: addrs, states: map[string]state{}, held: map[int64]nemesis.Held{}, gates: map[string][]func() error{}}
	r.origin.Store(int64(proc.TrueClock()))
	now := func() time.Duration { return proc.TrueClock() - time.Duration(r.origin.Load()) }
	r.Network = NewNetwork(ctx, seed, now, func(e history.Event) { r.notify("Event", e) })
	r.Addr, r.Go = r.addr, func(f func()) { go f() }
	r.Down = func(node string) bool { return r.is(node).Down }
	r.Mute = func(node string) bool { return r.is(node).Mute }
	r.Mesh.Host, r.Mesh.Ports = host, ports
	s.run = r // to be closed, if it fails half way
	err := r.Network.Open(nodes, clients)
	return r.Network.addrs, err
}

// Close ends the links of the run, once their last events are told.
func (s *served) Close() error {
	s.mu.Lock()
	r := s.run
	s.run = nil
	s.mu.Unlock()
	if r == nil {
		return nil
	}
	r.cancel()
	return r.Network.Close()
}

// Begin makes an instant true time zero, and says what a right wall clock showed then.
func (r *servedRun) Begin(at time.Duration) (epoch int64, err error) {
	r.origin.Store(int64(at))
	return r.Network.Begin(at)
}

func (r *servedRun) addr(node string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addrs[node]
}

func (r *servedRun) is(node string) state {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states[r.addrs[node]]
}

// State takes in how a server is. One that is down closes its clients at once.
func (r *servedRun) State(addr string, is state) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[addr] = is
	r.Mesh.Down(addr, is.Down)
}

// Keep keeps all data from and to a node until Release.
func (r *servedRun) Keep(node string) error {
	open, err := r.Gate(node)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gates[node] = append(r.gates[node], open)
	return nil
}

// Release ends one Keep.
func (r *servedRun) Release(node string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.gates[node]
	if len(all) == 0 {
		return nil
	}
	r.gates[node] = all[1:]
	return all[0]()
}

// Turn takes in that another server is the node now.
func (r *servedRun) Turn(node, addr string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addrs[node] = addr
	err := r.Network.Turn(node, addr)
	r.Mesh.Down(addr, r.states[addr].Down)
	return err
}

// End takes in that a node is about to end.
func (r *servedRun) End(node string, inOrder bool) { r.lives.Ends(node, inOrder) }

// GoesOn takes in that a node has not ended after all.
func (r *servedRun) GoesOn(node string) { r.lives.Lives(node) }

// Watch watches a link for one message, and tells by its number that it is there.
func (r *servedRun) Watch(id int64, m nemesis.OnMessage) error {
	return r.Tap(m, func(held nemesis.Held) {
		r.mu.Lock()
		r.held[id] = held
		r.mu.Unlock()
		r.notify("Hit", id)
	})
}

// Pass lets what a tap holds pass.
func (r *servedRun) Pass(id int64) { r.take(id).Pass() }

// Lose loses it.
func (r *servedRun) Lose(id int64) { r.take(id).Lose() }

// take gives away what a tap holds.
func (r *servedRun) take(id int64) nemesis.Held {
	r.mu.Lock()
	defer r.mu.Unlock()
	held, ok := r.held[id]
	delete(r.held, id)
	if !ok {
		return nemesis.Held{Pass: func() {}, Lose: func() {}}
	}
	return held
}
