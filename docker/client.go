//go:build linux

package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/real/contender"
)

// player is one client in a container: it waits for its order from when it is made,
// for a container takes tenths of a second to start, and a run begins at once.
type player struct {
	*box
	in     net.Conn
	out    *io.PipeReader
	killed atomic.Bool

	mu     sync.Mutex
	errors bytes.Buffer // the end of its stderr
}

// mostWords bounds what is kept of a client's stderr.
const mostWords = 1000

// Write takes what it writes on stderr.
func (p *player) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.errors.Write(b)
	p.errors.Next(max(0, p.errors.Len()-mostWords))
	return len(b), nil
}

func (p *player) words() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.TrimSpace(p.errors.String())
}

// makePlayer makes a client's container and starts it.
func (c *cluster) makePlayer(name string, host int) (*player, error) {
	b, err := c.makeBox(name, making{image: c.images.client, addr: c.net.at(host), command: c.self, talks: true})
	if err != nil {
		return nil, err
	}
	out, stdout := io.Pipe()
	p := &player{box: b, out: out}
	var copyOut func() error
	// Beyond the run's context: what it says while it is ended is still read.
	if p.in, copyOut, err = b.engine.attach(context.WithoutCancel(c.ctx), b.id, stdout, p); err != nil {
		return nil, fmt.Errorf("attach to %s: %w", name, err)
	}
	go func() { stdout.CloseWithError(copyOut()) }()
	return p, b.start(c.ctx)
}

// RunClient runs a client in a container until it has ended. Its error is
// harness.ErrKilled if Kill ended it.
func (c *cluster) RunClient(ctx context.Context, s client.Spec, at func(point string)) error {
	a, ok := c.Addrs[s.Name]
	if !ok {
		return fmt.Errorf("run client %s: the scenario has no such client", s.Name)
	}
	s.Nodes, s.Resource, s.Start = a.Nodes, a.Resource, c.Now()
	p, err := c.enter(s.Name)
	if err != nil {
		return fmt.Errorf("run client %s: %w", s.Name, err)
	}
	defer p.leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	defer context.AfterFunc(ctx, func() { p.Kill(context.Background()) })() // its error would come again when the run ends
	err = contender.Conversation{In: p.in, Out: p.out, Record: c.rec.Record, At: at}.Hold(contender.Order{Spec: s, Origin: c.Origin()})
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

// leave ends the talk with it.
func (p *player) leave() {
	p.in.Close()
	p.out.Close()
}

// enter takes the container that waits for the client's order, or makes another for
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
		if p, err = c.makePlayer(name, c.hosts[name]); err != nil {
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
