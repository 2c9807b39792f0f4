package sim

import (
	"context"
	"fmt"
	"time"

	"lockpick/harness"
	"lockpick/harness/client"
	"lockpick/harness/lock"
)

// clients are the programs that run on a network's hosts.
type clients struct {
	net   *network
	locks map[string]lock.Kind // that they can use
}

// RunClient runs the client program until it returns or is killed.
func (c *clients) RunClient(ctx context.Context, s client.Spec, at func(point string)) error {
	kind, ok := c.locks[s.Lock.Kind]
	if !ok {
		return fmt.Errorf("run client %s: there is no lock of kind %q", s.Name, s.Lock.Kind)
	}
	for _, srv := range c.net.servers {
		n := lock.Node{Name: srv.name, Addr: srv.addr.String()}
		if srv == c.net.resource {
			s.Resource = n
		} else {
			s.Nodes = append(s.Nodes, n)
		}
	}
	return c.run(ctx, s.Name, at, func(ctx context.Context, e client.Env) error {
		e.Lock = kind.New
		return client.Run(ctx, s, e)
	})
}

// run runs any program as a client.
func (c *clients) run(ctx context.Context, name string, at func(string), program func(context.Context, client.Env) error) error {
	h := c.net.host(name)
	if h == nil {
		return fmt.Errorf("run client %s: the scenario has no such client", name)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.net.mu.Lock()
	again := h.started
	h.started, h.cancel = true, cancel
	c.net.mu.Unlock()
	if again {
		return fmt.Errorf("run client %s: it has been started before", name)
	}
	c.net.sleep(h.slot, c.net.now())
	done := make(chan error, 1)
	if h.own != nil {
		h.launch(ctx, at, program, done)
	} else if h.pass() {
		go func() {
			var err error
			if crash := protect("client "+name, func() { err = program(ctx, h.env(at)) }); crash != nil {
				err = crash
			}
			done <- err
		}()
	}
	var err error
	select {
	case err = <-done:
	case <-h.dead:
	case <-h.unheeding(ctx):
		c.net.mu.Lock()
		defer c.net.mu.Unlock()
		h.hung = true
		h.kill()
		return nil
	}
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	if h.killed {
		return harness.ErrKilled
	}
	h.ended = true
	h.hangUp()
	return err
}

// grace is how long a program may go on that was told to stop, for what it still waits for.
const grace = 30 * time.Second

// unheeding is closed when the program was told to stop and has not for so long: a lock's call
// doesn't return. Its last words stand in the record, and it is as good as killed.
func (h *host) unheeding(ctx context.Context) <-chan struct{} {
	late := make(chan struct{})
	var wait func()
	wait = func() {
		h.net.at(h.slot, h.net.now()+int64(grace), func() {
			switch {
			case h.killed || h.ended:
			case h.paused:
				h.whenRunning(h.slot, wait)
			default:
				close(late)
			}
		})
	}
	context.AfterFunc(ctx, func() {
		h.net.mu.Lock()
		defer h.net.mu.Unlock()
		if !h.killed && !h.ended {
			wait()
		}
	})
	return late
}
