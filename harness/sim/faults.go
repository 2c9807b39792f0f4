package sim

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"lockpick/nemesis"
)

var (
	_ nemesis.Killer    = (*cluster)(nil)
	_ nemesis.Restarter = (*cluster)(nil)
	_ nemesis.Tapper    = (*cluster)(nil)
)

func (c *cluster) clock() string { return time.Now().UTC().Format("15:04:05.000000") }

// Kill kills a client for good, or a node's process.
func (c *cluster) Kill(target string) (string, error) {
	if h := c.host(target); h != nil {
		c.mu.Lock()
		over := h.over()
		c.mu.Unlock()
		if over != nil {
			return "", fmt.Errorf("kill %s: %w", target, over)
		}
		return fmt.Sprintf("%s is gone, its kernel closes %d connections", target, h.kill()), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.up("kill", target, "it is down already")
	if err != nil {
		return "", err
	}
	before := s.identity()
	s.crash()
	return fmt.Sprintf("%s is gone; PING: %s", before, s.ping()), nil
}

// Restart starts a killed node.
func (c *cluster) Restart(target string) (string, error) {
	defer c.inTurn(target)()
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.node(target)
	switch {
	case err != nil:
		return "", fmt.Errorf("restart %s: %w", target, err)
	case s.node != nil:
		return "", fmt.Errorf("restart %s: it is up", target)
	}
	before := s.runID
	s.start()
	return fmt.Sprintf("was run_id %.8s, now %s; PING: %s", before, s.identity(), s.ping()), nil
}

// up is a node that runs, of which something is asked, or says that it is down. The
// network's mutex is held.
func (c *cluster) up(what, target, down string) (*server, error) {
	s, err := c.node(target)
	if err == nil && s.node == nil {
		err = errors.New(down)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", what, target, err)
	}
	return s, nil
}

func (c *cluster) node(name string) (*server, error) {
	for _, s := range c.servers {
		if s.name == name && s != c.resource {
			return s, nil
		}
	}
	return nil, fmt.Errorf("there is no such client or node")
}

// Tap keeps the message that on describes.
func (c *cluster) Tap(on nemesis.OnMessage, hit func(nemesis.Held)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.link(on.Link)
	switch {
	case l == nil:
		return fmt.Errorf("tap %s: there is no such link", on.Link)
	case on.Of != nemesis.Request && on.Of != nemesis.Reply:
		return fmt.Errorf("tap %s: %q is neither %s nor %s", on.Link, on.Of, nemesis.Request, nemesis.Reply)
	case !slices.Contains(nemesis.MessageKinds, on.Message):
		return fmt.Errorf("tap %s: unknown message %q; known are %v", on.Link, on.Message, nemesis.MessageKinds)
	}
	on.Nth = max(on.Nth, 1)
	l.taps = append(l.taps, &tap{on: on, hit: hit, net: c.network})
	return nil
}
