package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/life"
	"lockpick/harness/real/link"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/wire"
	"lockpick/nemesis"
)

// gate keeps data from and to a node for as many as have asked for it.
type gate struct {
	open  func()
	times int
}

// served is a network whose runs are elsewhere.
type served struct {
	wire.Server
	origin atomic.Int64 // true time zero of the run

	mu      sync.Mutex
	network *Network // of the run; nil: there is none
	addrs   *addrs   // of its nodes and the resource
	cancel  context.CancelFunc
	states  map[string]state // by address
	held    map[int64]nemesis.Held
	gates   map[string]*gate
}

// Serve makes the links of one run after the other, as a Remote asks for it on in,
// until that ends.
func Serve(in io.Reader, out io.Writer) error {
	s := &served{}
	s.Errors = known
	s.Handlers = map[string]wire.Handler{
		callClock:  wire.Handle(func(struct{}) (Reading, error) { return Reading{clockID(), proc.TrueClock()}, nil }),
		callAsk:    wire.Handle(ask),
		callOpen:   wire.Handle(s.open),
		callBegin:  run(s, s.begin),
		callTell:   run(s, func(n *Network, at map[string]string) (any, error) { return nil, n.Lives.Watch(at) }),
		callAgain:  run(s, func(n *Network, c coming) (any, error) { n.Lives.Again(c.Node, c.Addr, c.Why); return nil, nil }),
		callEnds:   run(s, func(n *Network, e ending) (any, error) { n.Lives.Ends(e.Node, e.InOrder); return nil, nil }),
		callLives:  run(s, func(n *Network, node string) (any, error) { n.Lives.Lives(node); return nil, nil }),
		callClose:  wire.Handle(func(struct{}) (any, error) { return nil, s.close() }),
		callState:  wire.Handle(s.state),
		callGate:   wire.Handle(s.gate),
		callUngate: wire.Handle(s.ungate),
		callTurn:   run(s, s.turn),
		callFollow: run(s, follow),
		callCut:    run(s, func(n *Network, c cutting) (string, error) { return n.Cut(c.Link, c.Mode, c.Way) }),
		callMend:   run(s, func(n *Network, name string) (string, error) { return n.Mend(name) }),
		callShape:  run(s, func(n *Network, c shaping) (string, error) { return n.Shape(c.Link, c.Traffic) }),
		callClear:  run(s, func(n *Network, c shaping) (string, error) { return n.Unshape(c.Link, c.Traffic) }),
		callPorts:  run(s, (*Network).Ports),
		callSilent: run(s, (*Network).Silent),
		callHeard:  run(s, (*Network).Heard),
		callTap:    run(s, s.tap),
		callPass:   wire.Handle(func(id int64) (any, error) { s.let(id).Pass(); return nil, nil }),
		callLose:   wire.Handle(func(id int64) (any, error) { s.let(id).Lose(); return nil, nil }),
	}
	err := s.Serve(in, out)
	return errors.Join(err, s.close())
}

// clockID names the clock that proc.TrueClock reads: of which start of which machine, and
// of which time namespace there.
func clockID() string {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	space, _ := os.Readlink("/proc/self/ns/time") // before Linux 5.6 there is one
	return strings.TrimSpace(string(boot)) + space
}

func ask(a asking) (r Reply, err error) {
	ctx := context.Background()
	if a.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, a.Within)
		defer cancel()
	}
	if len(a.Args) == 0 {
		return r, fmt.Errorf("ask %s: no command", a.Addr)
	}
	r.From = proc.TrueClock()
	r.Value, err = proc.Ask(ctx, a.Addr, a.Args...)
	r.To = proc.TrueClock()
	return r, err
}

// run makes a handler of what needs the run's network.
func run[Args, Result any](s *served, f func(*Network, Args) (Result, error)) wire.Handler {
	return wire.Handle(func(args Args) (Result, error) {
		s.mu.Lock()
		n := s.network
		s.mu.Unlock()
		if n == nil {
			var none Result
			return none, errors.New("no run has links")
		}
		return f(n, args)
	})
}

func (s *served) open(o opening) (map[string]Addresses, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.network != nil {
		return nil, errors.New("open links: those of another run are there")
	}
	s.states, s.held, s.gates = map[string]state{}, map[int64]nemesis.Held{}, map[string]*gate{}
	s.origin.Store(int64(proc.TrueClock()))
	ctx, cancel := context.WithCancel(context.Background())
	now := func() time.Duration { return proc.TrueClock() - time.Duration(s.origin.Load()) }
	s.addrs = &addrs{at: o.Addrs}
	record := func(e history.Event) { s.Notify(noticeEvent, e) }
	n := &Network{
		Context: ctx, Go: func(f func()) { go f() },
		Mesh:  link.NewMesh(o.Seed, now, record),
		Lives: life.New(life.Config{Clock: proc.TrueClock, Ours: proc.Asked, Record: record}),
		Addr:  s.addrs.of,
		Down:  func(node string) bool { return s.is(node).Down },
		Mute:  func(node string) bool { return s.is(node).Mute },
	}
	n.Mesh.Host, n.Mesh.Ports = o.Host, o.Ports
	s.network, s.cancel = n, cancel // to be closed, if it fails half way
	err := n.Open(o.Nodes, o.Clients)
	return n.Addrs, err
}

// begin makes an instant true time zero, and says what a right wall clock showed then.
func (s *served) begin(n *Network, at time.Duration) (epoch int64, err error) {
	s.origin.Store(int64(at))
	n.Lives.Start(at)
	return n.Lives.Epoch(), nil
}

// addrs are where nodes and the resource are, by a lock of their own: links look there
// while they are made.
type addrs struct {
	mu sync.Mutex
	at map[string]string
}

func (a *addrs) of(node string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at[node]
}

func (a *addrs) put(l leading) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at[l.Node] = l.Addr
}

func (s *served) is(node string) state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[s.addrs.of(node)]
}

func (s *served) close() error {
	s.mu.Lock()
	n, cancel := s.network, s.cancel
	s.network = nil
	s.mu.Unlock()
	if n == nil {
		return nil
	}
	cancel()
	return n.Close()
}

// state takes in how a server is. One that is down closes its clients at once.
func (s *served) state(is state) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.network == nil {
		return nil, nil // nobody asks any more
	}
	s.states[is.Addr] = is
	s.network.Mesh.Down(is.Addr, is.Down)
	return nil, nil
}

func (s *served) gate(node string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.network == nil {
		return nil, fmt.Errorf("gate %s: no run has links", node)
	}
	g := s.gates[node]
	if g == nil {
		g = &gate{open: s.network.Mesh.Gate(node)}
		s.gates[node] = g
	}
	g.times++
	return nil, nil
}

func (s *served) ungate(node string) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.gates[node]
	if g == nil {
		return nil, nil
	}
	if g.times--; g.times == 0 {
		g.open()
		delete(s.gates, node)
	}
	return nil, nil
}

// turn takes in that another server is the node now.
func (s *served) turn(n *Network, to leading) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addrs.put(to)
	n.Mesh.Turn(to.Node, to.Addr)
	n.Mesh.Down(to.Addr, s.states[to.Addr].Down)
	return nil, nil
}

func follow(n *Network, whom leading) (addr string, err error) {
	l, err := n.Mesh.OpenReplication(whom.Node, whom.Addr)
	if err != nil {
		return "", err
	}
	return l.Addr(), nil
}

func (s *served) tap(n *Network, t tapping) (any, error) {
	return nil, n.Tap(t.Message, func(held nemesis.Held) {
		s.mu.Lock()
		s.held[t.ID] = held
		s.mu.Unlock()
		s.Notify(noticeHit, t.ID)
	})
}

// let gives away what a tap holds.
func (s *served) let(id int64) nemesis.Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	held, ok := s.held[id]
	delete(s.held, id)
	if !ok {
		return nemesis.Held{Pass: func() {}, Lose: func() {}}
	}
	return held
}
