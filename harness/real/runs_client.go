//go:build linux

package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/real/proc"
)

// RunClient runs a client until it has ended. Its error is harness.ErrKilled if Kill
// ended it.
func (r *Run[S]) RunClient(ctx context.Context, s client.Spec, at func(point string)) error {
	a, ok := r.Addresses(s.Name)
	if !ok {
		return fmt.Errorf("run client %s: the scenario has no such client", s.Name)
	}
	s.Nodes, s.Resource, s.Start = a.Nodes, a.Resource, r.Now()
	m := r.Clocks.Of(s.Name)
	started := m.starts()
	defer started()
	p, err := r.enter(s.Name)
	if err != nil {
		return fmt.Errorf("run client %s: %w", s.Name, err)
	}
	if p.Freed != nil {
		defer p.Freed()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.Ctx, cancel)()
	kill := sync.OnceFunc(p.kill)
	defer context.AfterFunc(ctx, kill)()
	began := func(first ClockReading) error {
		defer started()
		return m.began(first)
	}
	left := func(l clientExit) {
		p.left = &l
		if l.Signal > 0 && !p.killed.Load() && ctx.Err() == nil {
			p.Gone(l.Signal)
		}
	}
	talk := conversation{In: p.In, Out: p.Out, Record: r.rec.Record, At: at, Clocks: p.clocks, Began: began, Left: left}
	if err = talk.hold(clientOrder{Spec: s, Origin: r.Origin(), Clocks: m != nil}); err != nil {
		kill()
	}
	if p.left == nil {
		select {
		case <-p.Done():
		case <-time.After(killBound): // it has nothing more to say, and stays
			kill()
		}
	}
	end := p.end()
	if p.Known != nil {
		p.Known(ctx, end)
	}
	r.mu.Lock()
	delete(r.clients, s.Name)
	r.ended[s.Name] = true
	r.mu.Unlock()
	if err = p.verdict(ctx, err, end); err != nil && err != harness.ErrKilled {
		err = fmt.Errorf("run client %s: %w", s.Name, err)
	}
	return err
}

// enter starts a client that does not run.
func (r *Run[S]) enter(name string) (*Client, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.clients[name] != nil {
		return nil, errors.New("it runs already")
	}
	p, err := r.Start(name)
	if err != nil {
		return nil, err
	}
	p.clocks = make(chan ClockReading, 1)
	r.clients[name] = p
	return p, nil
}

// Client is one that runs; nil: it does not.
func (r *Run[S]) Client(name string) *Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.clients[name]
}

// Clients are those that run, by their names.
func (r *Run[S]) Clients() map[string]*Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.clients)
}

// over reports whether a client ran and runs no more.
func (r *Run[S]) over(client string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended[client] && r.clients[client] == nil
}

// Program is what a client runs as. What is done to one that has ended is proc.ErrEnded,
// but to resume it.
type Program interface {
	Pause(ctx context.Context) (readBack string, err error)
	Resume(ctx context.Context) (readBack string, err error)
	Kill(ctx context.Context) (readBack string, err error)
	Paused() bool
	Done() <-chan struct{}
	End() error    // how it ended: nil is exit status 0; it waits for the end
	Struck() bool  // somebody else has ended it; it waits for the end
	Words() string // the end of what it has written on stderr
}

// Client is one client that runs.
type Client struct {
	Program
	In  io.Writer // its stdin
	Out io.Reader // its stdout

	// Freed is called when the client is over; nil: there is nothing to be freed.
	Freed func()
	// Gone says how a client ended that was in a room, by a signal that nobody of this
	// run has sent.
	Gone func(signal int)
	// Known waits, where the end of a client may be that of more, until that is known.
	Known func(ctx context.Context, end error)

	killed atomic.Bool
	stuck  atomic.Pointer[error] // why it could not be ended; nil: it could
	clocks chan ClockReading     // what it says that its clocks show
	left   *clientExit           // how it left its room; nil: the room has ended, or there is none
}

// killBound is how long a client may take to end once it has been killed, or has nothing more to say.
const killBound = 10 * time.Second

// kill ends it. Where that is not possible, nobody listens to it any more.
func (p *Client) kill() {
	_, err := p.Kill(context.Background())
	select {
	case <-p.Done():
	case <-time.After(killBound):
		stuck := errors.Join(proc.Late(fmt.Sprintf("it still runs %v after it was killed", killBound)), err)
		p.stuck.Store(&stuck)
		if out, ok := p.Out.(io.Closer); ok {
			out.Close()
		}
	}
}

// end says how it came to its end: nil is exit status 0. It waits for it.
func (p *Client) end() error {
	stuck := p.stuck.Load()
	switch {
	case stuck != nil:
		return *stuck
	case p.left == nil:
		return p.End()
	case p.left.Error != "":
		return errors.New(p.left.Error)
	}
	return nil
}

// verdict says how the client came to its end, from what it said last and how it ended.
func (p *Client) verdict(ctx context.Context, said, end error) error {
	switch {
	case p.stuck.Load() != nil:
		return end
	case said == nil && end == nil:
		return nil
	case p.killed.Load():
		return harness.ErrKilled
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.left != nil && p.left.Signal > 0, p.left == nil && p.Struck(): // which is recorded
		return harness.ErrKilled
	case said != nil:
		return said
	}
	return fmt.Errorf("%w: %s", end, p.Words())
}
