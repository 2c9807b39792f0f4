//go:build linux

package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockpick/harness/real/link"
	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

var (
	_ nemesis.Pauser    = (*cluster)(nil)
	_ nemesis.Killer    = (*cluster)(nil)
	_ nemesis.Restarter = (*cluster)(nil)
	_ nemesis.Cutter    = (*cluster)(nil)
	_ nemesis.Tapper    = (*cluster)(nil)
)

// Pause stops a client's process.
func (c *cluster) Pause(target string) (string, error) {
	ch := c.running(target)
	if ch == nil {
		return "", fmt.Errorf("pause %s: no such client runs", target)
	}
	// The first of two ends would let it run while the other pause is in force.
	if ch.paused.Swap(true) {
		return "", fmt.Errorf("pause %s: it is paused already", target)
	}
	return ch.Stop()
}

// Resume lets it go on. There is nothing to do for one that was killed meanwhile.
func (c *cluster) Resume(target string) (string, error) {
	ch := c.running(target)
	if ch == nil {
		return "it has ended", nil
	}
	defer ch.paused.Store(false)
	back, err := ch.Continue()
	if errors.Is(err, proc.ErrEnded) {
		return "it has ended", nil
	}
	return back, err
}

// Kill ends a client or a node by SIGKILL.
func (c *cluster) Kill(target string) (string, error) {
	if node, ok := c.nodes[target]; ok {
		return node.Kill()
	}
	ch := c.running(target)
	if ch == nil {
		return "", fmt.Errorf("kill %s: no such node or client runs", target)
	}
	ch.killed.Store(true)
	if err := ch.Kill(); err != nil {
		return "", err
	}
	return fmt.Sprintf("process %d is gone", ch.PID()), nil
}

// Restart starts a killed node again.
func (c *cluster) Restart(node string) (string, error) {
	n, ok := c.nodes[node]
	if !ok {
		return "", fmt.Errorf("restart %s: no such node", node)
	}
	defer c.mesh.Gate(node)()
	k := c.clocks[node]
	defer k.starts()()
	back, err := n.Restart(c.ctx)
	if err != nil || k == nil {
		return back, err
	}
	shown, err := c.seeNode(node, k) // the machine's clock is as wrong as it was
	return back + "; " + shown, err
}

func (c *cluster) running(client string) *child {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.clients[client]
}

const (
	silence = 20 * time.Millisecond // without an answer for so long, a link is cut: it takes 0.1 ms otherwise
	patient = 2 * time.Second       // a mended link answers within
)

// Cut cuts a link and sees that PING gets no answer.
func (c *cluster) Cut(name, mode, way string) (string, error) {
	if mode != "" && mode != nemesis.CutHold || way != "" {
		return "", fmt.Errorf("cut %s: mode %q is not %q", name, mode, nemesis.CutHold)
	}
	l, err := c.link("cut", name)
	if err != nil {
		return "", err
	}
	l.Cut()
	err = c.ping(l, silence)
	if err == nil {
		return "", fmt.Errorf("cut %s: PING is still answered", name)
	}
	return fmt.Sprintf("PING got no answer: %v", err), nil
}

// Mend mends a link and sees that PING gets an answer, if its node lives.
func (c *cluster) Mend(name string) (string, error) {
	l, err := c.link("mend", name)
	if err != nil {
		return "", err
	}
	l.Mend()
	err = c.ping(l, patient)
	switch {
	case err == nil:
		return "PING was answered", nil
	case errors.Is(err, context.DeadlineExceeded):
		return "", fmt.Errorf("mend %s: %w", name, err)
	}
	return fmt.Sprintf("the node is down: %v", err), nil
}

func (c *cluster) ping(l *link.Link, within time.Duration) error {
	ctx, cancel := context.WithTimeout(c.ctx, within)
	defer cancel()
	_, err := proc.Ask(ctx, l.Addr(), "PING")
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("none within %v: %w", within, ctx.Err())
	}
	return err
}

// Tap watches a link for one message.
func (c *cluster) Tap(m nemesis.OnMessage, hit func(nemesis.Held)) error {
	l, err := c.link("tap", m.Link)
	if err != nil {
		return err
	}
	return l.Tap(m, func(pass func()) { c.run(func() { hit(nemesis.Held{Pass: pass}) }) })
}

func (c *cluster) link(verb, name string) (*link.Link, error) {
	if l := c.mesh.Link(name); l != nil {
		return l, nil
	}
	if _, ok := c.refused[name]; ok {
		return nil, fmt.Errorf("%s %s: the client can't reach that node, so they have no link", verb, name)
	}
	return nil, fmt.Errorf("%s %s: there is no such link", verb, name)
}
