package sim

import (
	"fmt"
	"time"

	"lockpick/nemesis"
)

var _ nemesis.Pauser = (*cluster)(nil)

// Pause stops a client at all its gates, or a node, whose machine goes on to take
// connections and what comes over them.
func (c *cluster) Pause(target string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.host(target)
	if h == nil {
		return c.pauseNode(target)
	}
	switch over := h.over(); {
	case over != nil:
		return "", fmt.Errorf("pause %s: %w", target, over)
	case h.paused:
		return "", fmt.Errorf("pause %s: it is paused already", target)
	}
	h.paused = true
	return fmt.Sprintf("%s is stopped, its clock shows %s", target, wallClock()), nil
}

func (c *cluster) pauseNode(target string) (string, error) {
	s, err := c.up("pause", target, "it is down")
	switch {
	case err != nil:
		return "", err
	case s.paused:
		return "", fmt.Errorf("pause %s: it is paused already", target)
	}
	s.paused = true
	return fmt.Sprintf("%s is stopped; PING: %s", target, s.ping()), nil
}

// Resume lets a client or a node go on. A node does what came for it meanwhile.
func (c *cluster) Resume(target string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.host(target)
	if h == nil {
		return c.resumeNode(target)
	}
	switch {
	case h.killed:
		return target + " was killed meanwhile", nil
	case !h.paused:
		return "", fmt.Errorf("resume %s: it isn't paused", target)
	}
	return fmt.Sprintf("%s runs again, %s, its clock shows %s", target, thatWaited(h.resume()), wallClock()), nil
}

func (c *cluster) resumeNode(target string) (string, error) {
	s, err := c.node(target)
	switch {
	case err != nil:
		return "", fmt.Errorf("resume %s: %w", target, err)
	case !s.paused:
		return target + " ended meanwhile", nil
	}
	s.paused = false
	waited := len(s.backlog)
	s.catchUp()
	s.lookAgain()
	return fmt.Sprintf("%s runs again, %s; PING: %s", target, thatWaited(waited), s.ping()), nil
}

// wallClock is what a right wall clock shows now.
func wallClock() string { return time.Now().UTC().Format("15:04:05.000000") }

// thatWaited says how much waited for a process that runs again.
func thatWaited(n int) string {
	if n == 1 {
		return "1 thing waited"
	}
	return fmt.Sprintf("%d things waited", n)
}
