//go:build linux

package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"time"

	"lockpick/harness"
	"lockpick/harness/real/clock"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/skew"
	"lockpick/harness/real/wire"
	"lockpick/nemesis"
)

var _ nemesis.Clocker = (*cluster)(nil)

// turner turns the clocks of a box, which start right with the run. It talks to the
// agent in the box beside it, which ends with the box's program and starts with it.
type turner struct {
	*skew.Machine
	remote *skew.Remote
}

// turnable lists the nodes and clients whose clocks the scenario may turn.
func turnable(s harness.Scenario) (names []string) {
	for _, st := range s.Plan {
		if kind, _ := nemesis.KindOf(st.Fault.Kind); kind.Power == nemesis.PowerClock {
			names = append(names, st.Fault.Targets...)
		}
	}
	if s.Random == nil {
		return names
	}
	for _, choice := range s.Random.Choices() {
		switch {
		case choice.Kind.Power != nemesis.PowerClock:
		case choice.On == nemesis.Client:
			names = append(names, s.ClientNames()...)
		default:
			names = append(names, s.NodeNames()...)
		}
	}
	return names
}

// wind makes the turners of a run.
func (c *cluster) wind(s harness.Scenario) {
	there := func() time.Duration { return c.Now() + c.Origin() } // by the engine's clock
	for _, name := range turnable(s) {
		r := &skew.Remote{Context: c.ctx, Both: slices.Contains(s.ClientNames(), name), True: there}
		c.turners[name] = &turner{Machine: &skew.Machine{Clocks: r, True: there}, remote: r}
	}
}

// lacksClocks says why no clock of a container can be turned; "": it can.
func (*Backend) lacksClocks(ctx context.Context) (reason, remedy string) {
	remedy = "use an engine on amd64, or the simulation (--backend sim)"
	if err := clock.Available(); err != nil {
		return "no process can be given a wrong clock: " + err.Error(), remedy
	}
	e, _, err := meet(ctx)
	if err != nil {
		return explain(err)
	}
	defer e.close()
	switch arch, err := e.arch(ctx); {
	case err != nil:
		return explain(err)
	case arch != "amd64":
		return "it rewrites machine code of amd64, and the engine's machine is " + arch, remedy
	}
	return "", ""
}

// gatePath is where lockpick's program is put in a container of another image.
const gatePath = "/lockpick-gate"

// makeTurnable makes a container whose program waits at a gate, and that of the agent
// beside it.
func (s *site) makeTurnable(ctx context.Context, name string, host int, m making) (*box, error) {
	own := s.client[0]
	gate := own
	if m.image != s.image {
		gate = gatePath
	}
	m.command = append([]string{gate, clock.GateVerb}, m.command...)
	b, err := s.makeBox(ctx, name, host, m)
	if err != nil {
		return nil, err
	}
	if gate != own {
		if err := s.engine.put(ctx, b.id, gate, s.own); err != nil {
			return nil, fmt.Errorf("put a gate into the container of %s: %w", name, err)
		}
	}
	b.beside, err = s.makeBox(ctx, name+"-clock", host, making{image: s.image, command: []string{own, clockVerb}, talks: true, beside: b.id, tracing: true, capability: "SYS_PTRACE"})
	return b, err
}

// open lets the program of a box that was started through its gate.
func (k *turner) open(ctx context.Context, b *box) error {
	if k == nil {
		return nil
	}
	t, err := b.beside.talk(ctx)
	if err != nil {
		return err
	}
	agent := wire.NewCaller(t.in, t.out, skew.Errors, func(string, json.RawMessage) {})
	go func() {
		<-agent.Ended()
		t.leave()
	}()
	if err := b.beside.start(ctx); err != nil {
		return err
	}
	err = k.remote.Start(agent, 1)
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("start %s by clocks that can be turned: %w; let the engine's seccomp profile and the Yama of its machine allow ptrace to who has SYS_PTRACE", b.name, err)
	}
	if err != nil {
		return fmt.Errorf("start %s by clocks that can be turned: %w %s", b.name, err, t.words())
	}
	return nil
}

// TurnClock turns the clocks of a node or a client, and reads back what its process
// shows. While no process runs, its next one is read back at its start.
func (c *cluster) TurnClock(target string, by time.Duration, rate float64) (string, error) {
	k, n := c.turners[target], c.Nodes.Server(target)
	if n != nil {
		k = n.want.turner // which a replica in its place has not
	}
	if k == nil {
		return "", fmt.Errorf("turn clock of %s: no such node or client has a clock that can be turned", target)
	}
	if c.over(target) {
		return "", fmt.Errorf("turn clock of %s: %w", target, nemesis.ErrEnded)
	}
	turned := func(at time.Duration) { k.Record(c.rec, target, at, c.Origin()) }
	see := func() (string, error) { return c.seeClient(target, k) }
	if n != nil {
		turned = func(time.Duration) {}
		see = func() (string, error) { return c.seeNode(n, k) }
	}
	back, err := k.Turn(by, rate, turned, see)
	if err != nil {
		return "", fmt.Errorf("turn clock of %s: %w", target, err)
	}
	return back, nil
}

// seeNode reads back the clock of a node, and looks at those that nobody turns.
func (c *cluster) seeNode(n *node, k *turner) (string, error) {
	switch {
	case !n.Runs():
		return k.Alone(), nil
	case n.Paused():
		return k.Unasked("it is paused"), nil
	}
	back, err := k.See("TIME shows", func() (skew.Reading, error) { return k.remote.ReadTime(net.JoinHostPort("127.0.0.1", redisPort)) })
	if err != nil && n.soonOver() {
		return k.Alone(), nil
	}
	if err != nil {
		return "", err
	}
	_, err = c.seeOthers(k)
	return back, err
}

// seeOthers asks the nodes whose clocks nobody turns: it is an error if one does not show
// true time, for a fault must hit whom it is meant for. Who can't answer now is left out.
func (c *cluster) seeOthers(k *turner) (right []string, err error) {
	for _, name := range c.names {
		n := c.Nodes.Server(name)
		if n.want.turner != nil || !n.Runs() || n.Paused() {
			continue
		}
		r, err := k.remote.ReadTime(n.At)
		if err != nil {
			continue
		}
		if err := skew.Differs(clock.Shown{Offset: k.Shown().Offset}, r); err != nil {
			return nil, fmt.Errorf("%s, which was not meant: %w", name, err)
		}
		right = append(right, name)
	}
	return right, nil
}

// seeClient reads back the clocks of a client.
func (c *cluster) seeClient(client string, k *turner) (string, error) {
	p := c.player(client)
	switch {
	case p == nil && c.over(client):
		return "", nemesis.ErrEnded
	case p == nil:
		return k.Unasked("it has not begun"), nil
	}
	back, err := k.See("wall clock shows", skew.Client{In: p.in, Clocks: p.clocks, Ended: p.done(), Paused: p.Paused, True: k.True}.Read)
	switch {
	case errors.Is(err, proc.ErrEnded):
		return "", nemesis.ErrEnded
	case errors.Is(err, skew.ErrPaused):
		return k.Unasked("it is paused"), nil
	}
	return back, err
}

// machine is where a client or a node runs, as far as its clocks go; nil: nobody turns them.
func (c *cluster) machine(name string) *skew.Machine {
	if k := c.turners[name]; k != nil {
		return k.Machine
	}
	return nil
}
