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

// LosePower cuts the power of a node's machine. Clients are not notified: they receive nothing
// until the machine is up again, which then rejects their old connections.
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

// StallSync implements nemesis.DiskFaulter.
func (c *cluster) StallSync(target string) (string, error) {
	return c.onDisk("stall syncs of", target, true, func(s *server) { s.disk.Met, s.disk.Stalled = 0, true })
}

// FillDisk implements nemesis.DiskFaulter.
func (c *cluster) FillDisk(target string) (string, error) {
	return c.onDisk("fill disk of", target, true, func(s *server) { s.disk.Met, s.disk.Full = 0, true })
}

// FreeDisk implements nemesis.DiskFaulter.
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

// withDisk calls do on a node with a disk. If up is set, the node must be running.
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
		return "", fmt.Errorf("%s %s: it has no persistence: set topology.persistence", what, target)
	}
	do(s)
	return fmt.Sprintf("disk of %s: %s, %d records not synced", target, s.disk.Probe(), s.disk.Unsynced()), nil
}

const touched = "touched"

// Touch implements nemesis.Toucher. It waits until the node is idle.
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
		return "", fmt.Errorf("touch %s: the write made it exit", target)
	}
	return fmt.Sprintf("%s has %s = %d; %s", target, touched, count, s.identity()), nil
}
