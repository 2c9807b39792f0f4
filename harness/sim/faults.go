package sim

import (
	"fmt"
	"slices"
	"time"

	"lockpick/nemesis"
)

var (
	_ nemesis.Killer    = (*cluster)(nil)
	_ nemesis.Restarter = (*cluster)(nil)
	_ nemesis.Cutter    = (*cluster)(nil)
	_ nemesis.Tapper    = (*cluster)(nil)
)

func (c *cluster) clock() string { return time.Now().UTC().Format("15:04:05.000000") }

// Kill kills a client for good, or a node's process.
func (c *cluster) Kill(target string) (string, error) {
	if h := c.host(target); h != nil {
		return fmt.Sprintf("%s is gone, its kernel closes %d connections", target, h.kill()), nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.node(target)
	switch {
	case err != nil:
		return "", fmt.Errorf("kill %s: %w", target, err)
	case s.node == nil:
		return "", fmt.Errorf("kill %s: it is down already", target)
	}
	before := s.identity()
	s.crash()
	return fmt.Sprintf("%s is gone; PING: %s", before, s.ping()), nil
}

// Restart starts a killed node.
func (c *cluster) Restart(target string) (string, error) {
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

func (c *cluster) node(name string) (*server, error) {
	for _, s := range c.servers {
		if s.name == name && s != c.resource {
			return s, nil
		}
	}
	return nil, fmt.Errorf("there is no such client or node")
}

// Cut cuts a link.
func (c *cluster) Cut(name, mode, way string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.replica(name); r != nil {
		return r.cutOff(way)
	}
	l := c.link(name)
	switch {
	case l == nil:
		return "", fmt.Errorf("cut %s: there is no such link", name)
	case mode != nemesis.CutHold && mode != "" || way != "":
		return "", fmt.Errorf("cut %s: the simulation can't do mode %q %s", name, mode, way)
	case l.cut:
		return "", fmt.Errorf("cut %s: it is cut already", name)
	}
	l.cut = true
	return "PING through " + name + ": " + l.ping(), nil
}

// Mend mends a link.
func (c *cluster) Mend(name string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.replica(name); r != nil {
		return r.mend()
	}
	l := c.link(name)
	switch {
	case l == nil:
		return "", fmt.Errorf("mend %s: there is no such link", name)
	case !l.cut:
		return "", fmt.Errorf("mend %s: it isn't cut", name)
	}
	l.mend()
	return "PING through " + name + ": " + l.ping(), nil
}

// ping is what becomes of a PING through the link that arrives this very
// instant. It takes no time, so that a cut of many links is one cut.
func (l *link) ping() string {
	if !l.delivers() {
		return "no answer"
	}
	return l.server.ping()
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
	l.taps = append(l.taps, &tap{on: on, hit: func(pass func()) { hit(nemesis.Held{Pass: pass}) }, net: c.network})
	return nil
}
