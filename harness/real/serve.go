package real

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

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

// Serve makes the links of one run after the other, as a Remote asks for it on in,
// until that ends.
func ServeLinks(in io.Reader, out io.Writer) error {
	s := &served{}
	s.wire.Errors, s.wire.Of = known, func() []any {
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
func (s *served) Open(seed uint64, host string, ports int, addrs map[string]string, nodes []string, clients []linkClient) (map[string]addresses, error) {
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
