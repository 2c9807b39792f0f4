package sim

import (
	"fmt"

	"lockpick/nemesis"
)

var (
	_ nemesis.PowerLoser  = (*cluster)(nil)
	_ nemesis.DiskFaulter = (*cluster)(nil)
	_ nemesis.Toucher     = (*cluster)(nil)
)

// LosePower cuts the power of a node's machine. Clients are not notified: they receive nothing
// until the machine is up again and rejects their old connections.
func (c *cluster) LosePower(target string, torn bool) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.runningNode("cut power of", target, "it is down already")
	if err != nil {
		return "", err
	}
	oldIdentity := s.identity()
	s.poweredOff = true
	for _, conn := range c.conns(nil, s) {
		if conn.session != nil {
			conn.session, conn.orphaned = nil, true
		}
	}
	s.stop(nil)
	diskState := "it has no disk"
	if s.disk != nil {
		diskState = fmt.Sprintf("its disk lost %d records", s.disk.LosePower(torn))
		if s.disk.Torn() {
			diskState += ", the first of them in part"
		}
	}
	return fmt.Sprintf("%s has no power, %s; PING: %s", oldIdentity, diskState, s.ping()), nil
}

// StallSync implements nemesis.DiskFaulter.
func (c *cluster) StallSync(target string) (string, error) {
	return c.withDisk("stall syncs of", target, true, func(s *server) { s.disk.AffectedCount, s.disk.Stalled = 0, true })
}

// FillDisk implements nemesis.DiskFaulter.
func (c *cluster) FillDisk(target string) (string, error) {
	return c.withDisk("fill disk of", target, true, func(s *server) { s.disk.AffectedCount, s.disk.Full = 0, true })
}

// FreeDisk implements nemesis.DiskFaulter.
func (c *cluster) FreeDisk(target string) (string, error) {
	affected := 0
	readBack, err := c.withDisk("free disk of", target, false, func(s *server) {
		affected = s.disk.AffectedCount
		s.disk.Stalled, s.disk.Full = false, false
		for _, finish := range s.stalledSyncs {
			c.at(s.slot, c.now()+1, finish)
		}
		s.stalledSyncs = nil
	})
	readBack = fmt.Sprintf("it met %d writes and syncs; %s", affected, readBack)
	if err == nil && affected == 0 {
		err = nemesis.ErrIdle
	}
	return readBack, err
}

// withDisk calls f with a node that has a disk. If mustRun is set, the node must be running.
func (c *cluster) withDisk(operation, target string, mustRun bool, f func(*server)) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.node(target)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s %s: %w", operation, target, err)
	case mustRun && s.node == nil:
		return "", fmt.Errorf("%s %s: it is down", operation, target)
	case s.disk == nil:
		return "", fmt.Errorf("%s %s: it has no persistence: set topology.persistence", operation, target)
	}
	f(s)
	return fmt.Sprintf("disk of %s: %s, %d records not synced", target, s.disk.Probe(), s.disk.Unsynced()), nil
}

const touchKey = "touched"

// Touch implements nemesis.Toucher. It waits until the node is idle.
func (c *cluster) Touch(target string) (string, error) {
	c.waitTurn(target)
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.node(target)
	if err == nil {
		c.waitIdle(s)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("touch %s: %w", target, err)
	case s.node == nil:
		return "", fmt.Errorf("touch %s: it is down", target)
	case !s.isReady():
		return "", fmt.Errorf("touch %s: it does not answer", target)
	}
	count, err := s.do("INCR", touchKey)
	if err != nil {
		return "", fmt.Errorf("touch %s: %w", target, err)
	}
	if s.node == nil {
		return "", fmt.Errorf("touch %s: the write made it exit", target)
	}
	return fmt.Sprintf("%s has %s = %d; %s", target, touchKey, count, s.identity()), nil
}
