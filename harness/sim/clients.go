package sim

import (
	"context"
	"fmt"

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
