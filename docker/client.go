//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/real/contender"
	"lockpick/harness/real/skew"
)

// player is one client in a container: it waits for its order from when it is made,
// for a container takes tenths of a second to start, and a run begins at once.
type player struct {
	*box
	*talk
	killed atomic.Bool
	clocks chan skew.Reading // what it says that its clocks show
}

// makePlayer lets a client wait for its order, in a container that it may have had
// before.
func (s *site) makePlayer(ctx context.Context, name string, k *turner) (*player, error) {
	s.mu.Lock()
	b, host := s.boxes[name], s.hosts[name]
	s.mu.Unlock()
	if b != nil && b.gated != (k != nil) {
		if err := b.remove(ctx); err != nil {
			return nil, err
		}
		b = nil
	}
	if b == nil {
		makeBox := s.makeBox
		if k != nil {
			makeBox = s.makeTurnable
		}
		var err error
		if b, err = makeBox(ctx, name, host, making{image: s.image, command: s.client, talks: true}); err != nil {
			return nil, err
		}
		s.mu.Lock()
		s.boxes[name] = b
		s.mu.Unlock()
	}
	t, err := b.talk(ctx)
	if err != nil {
		return nil, err
	}
	err = b.start(ctx)
	if err == nil {
		err = k.open(ctx, b)
	}
	if err != nil {
		t.leave()
		return nil, err
	}
	return &player{box: b, talk: t, clocks: make(chan skew.Reading, 1)}, nil
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
	defer p.leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	defer context.AfterFunc(ctx, func() { p.Kill(context.Background()) })() // its error would come again when the run ends
	err = contender.Conversation{In: p.in, Out: p.out, Record: c.rec.Record, At: at, Clocks: p.clocks, Began: func(r skew.Reading) error {
		defer started()
		return m.Began(r)
	}}.Hold(contender.Order{Spec: s, Origin: c.Origin(), Clocks: m != nil})
	if err != nil {
		p.Kill(context.Background())
	}
	end := p.outcome()
	c.mu.Lock()
	delete(c.playing, s.Name)
	c.ended[s.Name] = true
	c.mu.Unlock()
	return p.verdict(ctx, err, end)
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
	c.playing[name] = p
	return p, nil
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
	case said != nil:
		return fmt.Errorf("run client %s: %w", p.name, said)
	}
	return fmt.Errorf("run client %s: %w: %s", p.name, end, p.words())
}
