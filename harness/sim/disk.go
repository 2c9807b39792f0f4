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
	for _, conn := range c.conns(nil, s) {
		if conn.session != nil {
			conn.session, conn.orphan = nil, true
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
	return c.onDisk("stall syncs of", target, true, func(s *server) { s.disk.Met, s.disk.Stalled = 0, true })
}

// FillDisk lets no write to a node's disk succeed.
func (c *cluster) FillDisk(target string) (string, error) {
	return c.onDisk("fill disk of", target, true, func(s *server) { s.disk.Met, s.disk.Full = 0, true })
}

// FreeDisk ends both.
func (c *cluster) FreeDisk(target string) (string, error) {
	met := 0
	back, err := c.onDisk("free disk of", target, false, func(s *server) {
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

// onDisk does something to the disk of a node, which must be up where it is to notice.
func (c *cluster) onDisk(what, target string, up bool, do func(*server)) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.node(target)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s %s: %w", what, target, err)
	case up && s.node == nil:
		return "", fmt.Errorf("%s %s: it is down", what, target)
	case s.disk == nil:
		return "", fmt.Errorf("%s %s: it keeps nothing on disk: give topology.persistence", what, target)
	}
	do(s)
	return fmt.Sprintf("disk of %s: %s, %d records not synced", target, s.disk.Probe(), s.disk.Unsynced()), nil
}

// touched is the key that Touch writes.
const touched = "touched"

// Touch writes a key on a node, once that has done what it is at.
func (c *cluster) Touch(target string) (string, error) {
	c.inTurn(target)
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
