//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/real/contender"
	"lockpick/harness/real/proc"
	"lockpick/harness/real/skew"
)

// clientBox is the container of a client. It stays for the next run, and what is in it talks
// on: a room, or a program whose clocks the run turns.
type clientBox struct {
	*box
	*talk
	turns bool // the run turns its clocks
}

// player is one client in a container: it waits for its order from when it is made,
// for a container takes tenths of a second to start, and a run begins at once.
type player struct {
	*clientBox
	killed atomic.Bool
	clocks chan skew.Reading // what it says that its clocks show
	left   *contender.Left   // how it left its room; nil: the room has ended
}

// makePlayer lets a client wait for its order, in a container that it may have had
// before.
func (s *site) makePlayer(ctx context.Context, name string, k *turner) (*player, error) {
	s.mu.Lock()
	at, host := s.clientBoxes[name], s.hosts[name]
	s.mu.Unlock()
	if at != nil && at.turns != (k != nil) {
		if err := at.remove(ctx); err != nil {
			return nil, err
		}
		at.leave()
		at = nil
	}
	p := &player{clientBox: at, clocks: make(chan skew.Reading, 1)}
	switch {
	case at == nil:
	case !at.Runs():
	case k == nil && !at.Paused():
		return p, nil
	default:
		if _, err := at.Kill(ctx); err != nil && !errors.Is(err, proc.ErrEnded) {
			return nil, err
		}
	}
	if at == nil {
		makeBox, program := s.makeBox, s.room
		if k != nil {
			makeBox, program = s.makeTurnable, s.client
		}
		b, err := makeBox(ctx, name, host, making{image: s.image, command: program, talks: true})
		if err != nil {
			return nil, err
		}
		p.clientBox = &clientBox{box: b, turns: k != nil}
		s.mu.Lock()
		s.clientBoxes[name] = p.clientBox
		s.mu.Unlock()
	}
	return p, p.startProgram(ctx, k)
}

// startProgram starts the program of a client's box.
func (p *clientBox) startProgram(ctx context.Context, k *turner) (err error) {
	if p.talk != nil {
		p.leave()
	}
	if p.talk, err = p.box.talk(ctx); err != nil {
		return err
	}
	if err := p.start(ctx); err != nil {
		return err
	}
	return k.open(ctx, p.box)
}

// RunClient runs a client in a container until it has ended. Its error is
// harness.ErrKilled if Kill ended it.
func (c *cluster) RunClient(ctx context.Context, s client.Spec, at func(point string)) error {
	a, ok := c.Addresses(s.Name)
	if !ok {
		return fmt.Errorf("run client %s: the scenario has no such client", s.Name)
	}
	s.Nodes, s.Resource, s.Start = a.Nodes, a.Resource, c.Now()
	m := c.clocks.Of(s.Name)
	started := m.Starts()
	defer started()
	p, err := c.enter(s.Name)
	if err != nil {
		return fmt.Errorf("run client %s: %w", s.Name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	defer context.AfterFunc(ctx, func() { p.Kill(context.Background()) })() // its error would come again when the run ends
	began := func(r skew.Reading) error {
		defer started()
		return m.Began(r)
	}
	left := func(l contender.Left) {
		p.left = &l
		if l.Signal > 0 && !p.killed.Load() && ctx.Err() == nil {
			c.strike(p, l.Signal)
		}
	}
	err = contender.Conversation{In: p.in, Out: p.out, Record: c.rec.Record, At: at, Clocks: p.clocks, Began: began, Left: left}.Hold(contender.Order{Spec: s, Origin: c.Origin(), Clocks: m != nil})
	if err != nil {
		p.Kill(context.Background())
	}
	end := p.end()
	if away(end) { // who watches the links knows why, and is about to say so
		select {
		case <-ctx.Done():
		case <-time.After(goneBound):
		}
	}
	c.mu.Lock()
	delete(c.playing, s.Name)
	c.ended[s.Name] = true
	c.mu.Unlock()
	return p.verdict(ctx, err, end)
}

// goneBound is how long the end of the links may come after that of a client, where both
// go with the engine.
const goneBound = 5 * time.Second

// strike tells that somebody else has ended a client, in a room that is still there.
func (c *cluster) strike(p *player, signal int) {
	if g := c.guarding(); g != nil {
		g.say(p.ward(p.name), harness.Unplanned{Op: "kill", Cause: fmt.Sprintf("its process in container %.12s was ended by signal %d", p.id, signal)})
	}
}

// enter takes the container that waits for the client's order, or starts it again for
// one that runs again.
func (c *cluster) enter(name string) (*player, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.playing[name] != nil {
		return nil, errors.New("it runs already")
	}
	p := c.waiting[name]
	delete(c.waiting, name)
	if p == nil {
		var err error
		if p, err = c.site.makePlayer(c.ctx, name, c.turners[name]); err != nil {
			return nil, err
		}
	}
	if c.guard != nil {
		c.guard.take(p.ward(name))
	}
	c.playing[name] = p
	return p, nil
}

// end says how its program came to its end: nil is exit status 0. It waits for it.
func (p *player) end() error {
	switch {
	case p.left == nil:
		return p.outcome()
	case p.left.Error != "":
		return errors.New(p.left.Error)
	}
	return nil
}

// verdict says how the client came to its end.
func (p *player) verdict(ctx context.Context, said, end error) error {
	switch {
	case said == nil && end == nil:
		return nil
	case p.killed.Load():
		return harness.ErrKilled
	case ctx.Err() != nil:
		return fmt.Errorf("run client %s: %w", p.name, context.Cause(ctx))
	case p.left != nil && p.left.Signal > 0, p.left == nil && p.struck(): // which is recorded
		return harness.ErrKilled
	case said != nil:
		return fmt.Errorf("run client %s: %w", p.name, said)
	}
	return fmt.Errorf("run client %s: %w: %s", p.name, end, p.words())
}
