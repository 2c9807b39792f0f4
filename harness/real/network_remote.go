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

// RemoteNetwork is a Network served by another process. It can be reused for one run after another.
type RemoteNetwork struct {
	caller *Caller

	mu      sync.Mutex
	run     NetworkRun
	addrs   map[string]clientAddresses
	taps    map[int64]func(nemesis.HeldMessage)
	lastTap int64
}

// NetworkRun is the part of a run that a RemoteNetwork needs.
type NetworkRun struct {
	Context context.Context     // canceled when the run ends
	Record  func(history.Event) // records the links' events
	Go      func(func())        // runs a function in a goroutine that the run waits for
	Ports   int                 // links connect from local ports starting here, or from any if 0; see proxy.Mesh
}

var (
	_ nemesis.Cutter = (*RemoteNetwork)(nil)
	_ nemesis.Shaper = (*RemoteNetwork)(nil)
	_ nemesis.Tapper = (*RemoteNetwork)(nil)
)

// DialNetwork connects to a process that serves a network on its stdin and stdout.
func DialNetwork(in io.Writer, out io.Reader) *RemoteNetwork {
	r := &RemoteNetwork{run: NetworkRun{Context: context.Background()}}
	r.caller = NewCaller(in, out, notices{r})
	return r
}

// Done returns a channel that is closed when the process stops serving the network.
func (r *RemoteNetwork) Done() <-chan struct{} { return r.caller.Done() }

// notices has the methods that the serving process calls by name.
type notices struct{ r *RemoteNetwork }

func (n notices) Event(e history.Event) {
	if run := n.r.currentRun(); run.Record != nil {
		run.Record(e)
	}
}

// Hit handles the notice that a tap has caught its message.
func (n notices) Hit(id int64) {
	run := n.r.currentRun()
	n.r.mu.Lock()
	hit := n.r.taps[id]
	n.r.mu.Unlock()
	if hit == nil || run.Go == nil {
		return // the run is over
	}
	remoteCall := func(call string) func() {
		return func() { n.r.caller.Call(run.Context, call, CallArgs{id}) } // fails after the run, when no message is held
	}
	run.Go(func() { hit(nemesis.HeldMessage{Pass: remoteCall("Pass"), Lose: remoteCall("Lose")}) })
}

func (r *RemoteNetwork) currentRun() NetworkRun {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.run
}

// call calls a remote method with the run's context.
func (r *RemoteNetwork) call(name string, args CallArgs, results ...any) error {
	return r.caller.Call(r.currentRun().Context, name, args, results...)
}

// callReadBack calls a remote method that returns a read-back.
func callReadBack(r *RemoteNetwork, name string, args ...any) (back string, err error) {
	err = r.call(name, args, &back)
	return back, err
}

// Open opens the links of a run. All addresses must be reachable from the serving process.
func (r *RemoteNetwork) Open(run NetworkRun, seed uint64, host string, addrs map[string]string, nodes []string, clients []scenario.Client) error {
	r.mu.Lock()
	r.run, r.taps = run, map[int64]func(nemesis.HeldMessage){}
	r.mu.Unlock()
	var got map[string]clientAddresses
	err := r.call("Open", CallArgs{seed, host, run.Ports, addrs, nodes, clients}, &got)
	r.mu.Lock()
	r.addrs = got
	r.mu.Unlock()
	return err
}

// Addresses returns a client's addresses. ok is false if there is no such client.
func (r *RemoteNetwork) Addresses(client string) (a clientAddresses, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, ok = r.addrs[client]
	return a, ok
}

// Begin makes origin, an instant of the serving machine's clock, true time zero. It returns the
// correct wall clock time on that machine at that instant.
func (r *RemoteNetwork) Begin(origin time.Duration) (epoch int64, err error) {
	err = r.call("Begin", CallArgs{origin}, &epoch)
	return epoch, err
}

// WatchKeys makes nodes report changes to their keys. nodes maps their names to addresses.
func (r *RemoteNetwork) WatchKeys(nodes map[string]string) error {
	return r.call("WatchKeys", CallArgs{nodes})
}

// NodeReturned is like Network.NodeReturned.
func (r *RemoteNetwork) NodeReturned(node, addr, why string) {
	r.call("NodeReturned", CallArgs{node, addr, why}) // fails only if the serving process has exited, which ends the key reports too
}

// NodeEnding is like Network.NodeEnding.
func (r *RemoteNetwork) NodeEnding(node string, clean bool) (cancel func()) {
	r.call("End", CallArgs{node, clean})
	return func() { r.call("GoesOn", CallArgs{node}) }
}

// Close closes the run's links and returns once their last events are recorded.
func (r *RemoteNetwork) Close(ctx context.Context) error {
	err := r.caller.Call(ctx, "Close", nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run = NetworkRun{Context: context.Background()}
	if errors.Is(err, ErrAgentGone) {
		return nil // and its links are gone too
	}
	return err
}

// SetServerState tells the links whether the server at addr is running and whether it can answer.
func (r *RemoteNetwork) SetServerState(ctx context.Context, addr string, running, responsive bool) error {
	return r.caller.Call(ctx, "State", CallArgs{addr, serverState{Down: !running, Unresponsive: running && !responsive}})
}

// HoldTraffic holds all data to and from a node until release is called.
func (r *RemoteNetwork) HoldTraffic(node string) (release func() error, err error) {
	ctx := r.currentRun().Context
	if err := r.call("Keep", CallArgs{node}); err != nil {
		return nil, err
	}
	return func() error { return r.caller.Call(context.WithoutCancel(ctx), "Release", CallArgs{node}) }, nil
}

// Redirect makes a node's links lead to another server.
func (r *RemoteNetwork) Redirect(node, addr string) error {
	return r.call("Redirect", CallArgs{node, addr})
}

// OpenReplication opens the link over which a replica follows the node at addr, and returns the
// link's address. The run's other links must already be open.
func (r *RemoteNetwork) OpenReplication(node, addr string) (link string, err error) {
	return callReadBack(r, "OpenReplication", node, addr)
}

// AskTimed sends a command to a server, bypassing links. The context's deadline applies.
func (r *RemoteNetwork) AskTimed(ctx context.Context, addr string, args ...string) (reply timedReply, err error) {
	timeout := time.Duration(0) // 0 means the default timeout
	if end, ok := ctx.Deadline(); ok {
		if timeout = time.Until(end); timeout <= 0 {
			return reply, fmt.Errorf("ask %s: %w", addr, context.DeadlineExceeded)
		}
	}
	err = r.caller.Call(ctx, "Ask", CallArgs{addr, args, timeout}, &reply)
	return reply, err
}

func (r *RemoteNetwork) Cut(link, mode, way string) (string, error) {
	return callReadBack(r, "Cut", link, mode, way)
}

func (r *RemoteNetwork) Mend(link string) (string, error) { return callReadBack(r, "Mend", link) }

func (r *RemoteNetwork) Shape(link string, t nemesis.Traffic) (string, error) {
	return callReadBack(r, "Shape", link, t)
}

// Unshape undoes a Shape.
func (r *RemoteNetwork) Unshape(link string, t nemesis.Traffic) (string, error) {
	return callReadBack(r, "Unshape", link, t)
}

// Ports returns a link's local ports.
func (r *RemoteNetwork) Ports(link string) (p portRange, err error) {
	err = r.call("Ports", CallArgs{link}, &p)
	return p, err
}

// CheckUnanswered is like Network.CheckUnanswered.
func (r *RemoteNetwork) CheckUnanswered(link string) (string, error) {
	return callReadBack(r, "CheckUnanswered", link)
}

// CheckAnswered is like Network.CheckAnswered.
func (r *RemoteNetwork) CheckAnswered(link string) (string, error) {
	return callReadBack(r, "CheckAnswered", link)
}

// Tap watches a link for a message and calls hit when it arrives.
func (r *RemoteNetwork) Tap(m nemesis.OnMessage, hit func(nemesis.HeldMessage)) error {
	r.mu.Lock()
	r.lastTap++
	id := r.lastTap
	r.taps[id] = hit
	r.mu.Unlock()
	return r.call("Watch", CallArgs{id, m})
}

// Clock returns the time by the serving machine's clock, and the clock's ID.
func (r *RemoteNetwork) Clock(ctx context.Context) (now time.Duration, id string, err error) {
	err = r.caller.Call(ctx, "Clock", nil, &now, &id)
	return now, id, err
}

// Offset measures how far the serving machine's clock is ahead of this machine's, and returns the
// maximum error. Both values are exactly 0 if the machines share a clock. Otherwise, Offset works
// like NTP (RFC 5905, section 8): it uses the exchange that took the least time and assumes that
// the other clock was read in the middle of it. In the worst case, the clock was read at one of its
// ends.
func (r *RemoteNetwork) Offset(ctx context.Context) (offset, maxError time.Duration, err error) {
	localID := clockID()
	const exchanges = 20
	maxError = time.Hour
	for range exchanges {
		from := proc.TrueClock()
		remoteNow, id, err := r.Clock(ctx)
		if err != nil {
			return 0, 0, err
		}
		to := proc.TrueClock()
		if id == localID && localID != "" {
			return 0, 0, nil
		}
		if half := (to - from) / 2; half < maxError {
			offset, maxError = remoteNow-(from+half), half
		}
	}
	return offset, maxError, nil
}

// networkServer serves networks for runs in another process. A RemoteNetwork calls the exported
// methods of networkServer and of the current run by name.
type networkServer struct {
	rpc CallServer

	mu  sync.Mutex
	run *servedRun // current run, or nil
}

type servedRun struct {
	*Network
	notify func(notice string, args ...any)
	origin atomic.Int64 // true time zero of the run
	cancel context.CancelFunc

	mu           sync.Mutex
	addrs        map[string]string      // addresses of nodes and resource
	states       map[string]serverState // server states by address
	heldMessages map[int64]nemesis.HeldMessage
	endHolds     map[string][]func() error // functions that end a node's holds
}

// ServeLinks serves the links of one run after another until in is closed. It answers the calls of
// a RemoteNetwork.
func ServeLinks(in io.Reader, out io.Writer) error {
	s := &networkServer{}
	s.rpc.Targets = func() []any {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.run == nil {
			return []any{s}
		}
		return []any{s, s.run}
	}
	return errors.Join(s.rpc.Serve(in, out), s.Close())
}

// Clock returns the time by this machine's clock, and the clock's ID.
func (s *networkServer) Clock() (now time.Duration, id string) { return proc.TrueClock(), clockID() }

// Ask sends a command to a server.
func (s *networkServer) Ask(addr string, args []string, timeout time.Duration) (timedReply, error) {
	ctx := context.Background()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return AskTimed(ctx, addr, args...)
}

// Open opens the links of a run on the address host. The links connect from local ports starting at
// ports, or from any port if ports is 0.
func (s *networkServer) Open(seed uint64, host string, ports int, addrs map[string]string, nodes []string, clients []scenario.Client) (map[string]clientAddresses, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return nil, errors.New("open links: another run's links are still open")
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &servedRun{notify: s.rpc.notify, cancel: cancel, addrs: addrs, states: map[string]serverState{}, heldMessages: map[int64]nemesis.HeldMessage{}, endHolds: map[string][]func() error{}}
	r.origin.Store(int64(proc.TrueClock()))
	now := func() time.Duration { return proc.TrueClock() - time.Duration(r.origin.Load()) }
	r.Network = NewNetwork(ctx, seed, now, func(e history.Event) { r.notify("Event", e) })
	r.Addr, r.Go = r.addr, func(f func()) { go f() }
	r.IsDown = func(node string) bool { return r.stateOf(node).Down }
	r.IsUnresponsive = func(node string) bool { return r.stateOf(node).Unresponsive }
	r.Mesh.Host, r.Mesh.Ports = host, ports
	s.run = r // lets Close clean up if Open fails halfway
	err := r.Network.Open(nodes, clients)
	return r.Network.addrs, err
}

// Close closes the links of the current run and sends its last events.
func (s *networkServer) Close() error {
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

// Begin makes the given instant true time zero. It returns the correct wall clock time at that
// instant.
func (r *servedRun) Begin(at time.Duration) (epoch int64, err error) {
	r.origin.Store(int64(at))
	return r.Network.Begin(at)
}

func (r *servedRun) addr(node string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addrs[node]
}

func (r *servedRun) stateOf(node string) serverState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.states[r.addrs[node]]
}

// State sets a server's state. Links to a server that is down immediately disconnect their clients.
func (r *servedRun) State(addr string, state serverState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.states[addr] = state
	r.Mesh.SetDown(addr, state.Down)
}

// Keep holds all data to and from a node until Release is called.
func (r *servedRun) Keep(node string) error {
	release, err := r.HoldTraffic(node)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.endHolds[node] = append(r.endHolds[node], release)
	return nil
}

func (r *servedRun) Release(node string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.endHolds[node]
	if len(all) == 0 {
		return nil
	}
	r.endHolds[node] = all[1:]
	return all[0]()
}

// Redirect makes a node's links lead to another server.
func (r *servedRun) Redirect(node, addr string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addrs[node] = addr
	err := r.Network.Redirect(node, addr)
	r.Mesh.SetDown(addr, r.states[addr].Down)
	return err
}

// End records that a node is about to exit.
func (r *servedRun) End(node string, clean bool) { r.keyRecorder.ExpectEnd(node, clean) }

// GoesOn records that a node did not exit after all.
func (r *servedRun) GoesOn(node string) { r.keyRecorder.CancelEnd(node) }

// Watch taps a link. When the message arrives, Watch sends a notice with the tap's ID.
func (r *servedRun) Watch(id int64, m nemesis.OnMessage) error {
	return r.Tap(m, func(held nemesis.HeldMessage) {
		r.mu.Lock()
		r.heldMessages[id] = held
		r.mu.Unlock()
		r.notify("Hit", id)
	})
}

// Pass delivers a tap's held message.
func (r *servedRun) Pass(id int64) { r.takeMessage(id).Pass() }

// Lose drops a tap's held message.
func (r *servedRun) Lose(id int64) { r.takeMessage(id).Lose() }

// takeMessage removes and returns a tap's held message.
func (r *servedRun) takeMessage(id int64) nemesis.HeldMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	held, ok := r.heldMessages[id]
	delete(r.heldMessages, id)
	if !ok {
		return nemesis.HeldMessage{Pass: func() {}, Lose: func() {}}
	}
	return held
}
