package sim

import (
	"fmt"

	"lockpick/nemesis"
)

var (
	_ nemesis.PowerLoser = (*cluster)(nil)
	_ nemesis.Disker     = (*cluster)(nil)
	_ nemesis.Toucher    = (*cluster)(nil)
)

// LosePower cuts the power of a node's machine. Nobody is told: its clients hear
// nothing until it is up again, and then that it doesn't know their connections.
func (c *cluster) LosePower(target string, torn bool) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.up("cut power of", target, "it is down already")
	if err != nil {
		return "", err
	}
	before := s.identity()
	s.off = true
	for _, l := range c.links {
		if l.server != s {
			continue
		}
		for _, conn := range l.conns {
			if conn.session != nil {
				conn.session, conn.orphan = nil, true
			}
		}
	}
	s.end(nil)
	kept := "it has no disk"
	if s.disk != nil {
		kept = fmt.Sprintf("its disk lost %d records", s.disk.LosePower(torn))
		if s.disk.Torn() {
			kept += ", the first of them in part"
		}
	}
	return fmt.Sprintf("%s has no power, %s; PING: %s", before, kept, s.ping()), nil
}

// StallSync lets no sync of a node's disk come back.
func (c *cluster) StallSync(target string) (string, error) {
	return c.harm("stall syncs of", target, func(s *server) { s.disk.Stalled = true })
}

// FillDisk lets no write to a node's disk succeed.
func (c *cluster) FillDisk(target string) (string, error) {
	return c.harm("fill disk of", target, func(s *server) { s.disk.Full = true })
}

// FreeDisk ends both.
func (c *cluster) FreeDisk(target string) (string, error) {
	met := 0
	back, err := c.onDisk("free disk of", target, func(s *server) {
		met = s.disk.Met
		s.disk.Stalled, s.disk.Full = false, false
		for _, back := range s.stalled {
			c.at(s.slot, c.now()+1, back)
		}
		s.stalled = nil
	})
	back = fmt.Sprintf("it met %d writes and syncs; %s", met, back)
	if err == nil && met == 0 {
		err = nemesis.ErrIdle
	}
	return back, err
}

// harm does something to the disk of a node that is there to notice.
func (c *cluster) harm(what, target string, do func(*server)) (string, error) {
	c.mu.Lock()
	s, err := c.node(target)
	down := err == nil && s.node == nil
	c.mu.Unlock()
	if down {
		return "", fmt.Errorf("%s %s: it is down", what, target)
	}
	return c.onDisk(what, target, func(s *server) {
		s.disk.Met = 0
		do(s)
	})
}

func (c *cluster) onDisk(what, target string, do func(*server)) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.node(target)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s %s: %w", what, target, err)
	case s.disk == nil:
		return "", fmt.Errorf("%s %s: it keeps nothing on disk: give topology.persistence", what, target)
	}
	do(s)
	return fmt.Sprintf("disk of %s: %s, %d records not synced", target, s.disk.Probe(), s.disk.Unsynced()), nil
}

// whenIdle waits while a node waits for a sync that will come back, or does what came
// meanwhile. The network's lock is held, and let go of meanwhile.
func (c *cluster) whenIdle(s *server) {
	for s.node != nil && !s.paused && (s.disk == nil || !s.disk.Stalled) && !s.runs() {
		slot, next := s.slot, c.now()+int64(minSync)
		c.mu.Unlock()
		c.sleep(slot, next)
		c.mu.Lock()
	}
}

// touched is the key that Touch writes.
const touched = "touched"

// Touch writes a key on a node, once that has done what it is at.
func (c *cluster) Touch(target string) (string, error) {
	defer c.inTurn(target)()
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.node(target)
	if err == nil {
		c.whenIdle(s)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("touch %s: %w", target, err)
	case s.node == nil:
		return "", fmt.Errorf("touch %s: it is down", target)
	case !s.runs():
		return "", fmt.Errorf("touch %s: it does not answer", target)
	}
	count, err := s.do("INCR", touched)
	if err != nil {
		return "", fmt.Errorf("touch %s: %w", target, err)
	}
	if s.node == nil {
		return "", fmt.Errorf("touch %s: it ended of that", target)
	}
	return fmt.Sprintf("%s has %s = %d; %s", target, touched, count, s.identity()), nil
}
