//go:build linux

package real

import (
	"errors"
	"fmt"
	"time"

	"lockpick/harness/history"
	"lockpick/harness/real/proc"
	"lockpick/nemesis"
)

// Pause stops a client or a node.
func (r *Run[S]) Pause(target string) (string, error) {
	if n, ok := r.Nodes.Find(target); ok {
		return n.Pause(r.Ctx)
	}
	p := r.Client(target)
	if p == nil {
		return "", fmt.Errorf("pause %s: no such node or client runs: %w", target, nemesis.ErrEnded)
	}
	back, err := p.Pause(r.Ctx)
	return back, overIfEnded("pause", target, err)
}

// Resume lets it go on. There is nothing to do for one that was killed meanwhile.
func (r *Run[S]) Resume(target string) (string, error) {
	if n, ok := r.Nodes.Find(target); ok {
		return n.Resume(r.Ctx)
	}
	p := r.Client(target)
	if p == nil {
		return "it has ended", nil
	}
	return p.Resume(r.Ctx)
}

// Kill ends a client or a node by SIGKILL.
func (r *Run[S]) Kill(target string) (string, error) {
	if n, ok := r.Nodes.Find(target); ok {
		return r.EndBy(target, false, func() (string, error) { return n.Kill(r.Ctx) })
	}
	p := r.Client(target)
	if p == nil && r.over(target) {
		return "", fmt.Errorf("kill %s: %w", target, nemesis.ErrEnded)
	}
	if p == nil {
		return "", fmt.Errorf("kill %s: no such node or client runs", target)
	}
	p.killed.Store(true)
	back, err := p.Kill(r.Ctx)
	if errors.Is(err, proc.ErrEnded) {
		p.killed.Store(false)
	}
	return back, overIfEnded("kill", target, err)
}

// overIfEnded says in the nemesis's words that a client had ended already.
func overIfEnded(verb, client string, err error) error {
	if errors.Is(err, proc.ErrEnded) {
		return fmt.Errorf("%s %s: %w", verb, client, nemesis.ErrEnded)
	}
	return err
}

// Shutdown ends a node as an operator does.
func (r *Run[S]) Shutdown(node string) (string, error) {
	n, err := r.server("shut down", node)
	if err != nil {
		return "", err
	}
	return r.EndBy(node, true, func() (string, error) { return n.Shutdown(r.Ctx) })
}

// EndBy ends a node whose last facts are waited for.
func (r *Run[S]) EndBy(node string, inOrder bool, end func() (string, error)) (string, error) {
	goesOn := r.Ends(node, inOrder)
	back, err := end()
	if err != nil {
		goesOn()
	}
	return back, err
}

// Restart starts a node again that is down. One whose disk can lose data or be full
// may not come back, which is what becomes of such nodes, and no error.
func (r *Run[S]) Restart(node string) (back string, err error) {
	n, err := r.server("restart", node)
	if err != nil {
		return "", err
	}
	open, err := r.Links.Gate(node)
	if err != nil {
		return "", fmt.Errorf("restart %s: %w", node, err)
	}
	defer func() { err = errors.Join(err, open()) }()
	defer r.Clocks.Of(n.Redis().Name).starts()()
	back, err = n.Restart(r.Ctx)
	if errors.Is(err, proc.ErrWontStart) && r.Of(node) != nil {
		return "it did not come back: " + err.Error(), nil
	}
	if err != nil {
		return back, err
	}
	r.Again(node, n.Redis().Addr(), history.Restart)
	shown, err := r.Clocks.Again(node)
	return back + shown, err
}

// TurnClock turns the clocks of a node or a client.
func (r *Run[S]) TurnClock(target string, by time.Duration, rate float64) (string, error) {
	return r.Clocks.Turn(target, by, rate)
}

// clockOf is a node's server, as far as its clock can be asked.
func (r *Run[S]) clockOf(node string) nodeClock {
	n, ok := r.Nodes.Find(node)
	if !ok {
		return nodeClock{}
	}
	read := func() (ClockReading, error) { return r.ReadTime(n) }
	return nodeClock{Name: n.Redis().Name, Runs: n.Runs(), Mute: n.Mute(), Time: read, Ended: n.Ended}
}

// ReadTime asks a server for its clock, past the links.
func (r *Run[S]) ReadTime(s S) (ClockReading, error) {
	reply, err := r.AskStamped(r.Ctx, s.Redis().Addr(), "TIME")
	if err != nil {
		return ClockReading{}, err
	}
	return ReadTime(reply.Value, reply.From, reply.To)
}
