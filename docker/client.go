//go:build linux

package docker

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"lockpick/docker/engine"
	"lockpick/harness/real"
	"lockpick/harness/real/proc"
)

// clientBox is the container of a client. It stays for the next run, and what is in it talks
// on: a room, or a program whose clocks the run turns.
type clientBox struct {
	*box
	*talk
	turns bool // the run turns its clocks
}

// startProgram starts the program of a client's box.
func (p *clientBox) startProgram(ctx context.Context, k *turner) (err error) {
	if p.talk != nil {
		p.leave()
	}
	if p.talk, err = p.startTalking(ctx); err != nil {
		return err
	}
	return k.open(ctx, p.box)
}

// makeClient lets a client wait for its order, in a container that it may have had
// before: a container takes tenths of a second to start, and a run begins at once.
func (s *site) makeClient(ctx context.Context, name string, k *turner) (*clientBox, error) {
	s.mu.Lock()
	at, host := s.clientBoxes[name], s.hosts[name]
	s.mu.Unlock()
	if at != nil && at.turns != (k != nil) {
		if err := at.remove(ctx); err != nil {
			return nil, err
		}
		at.leave()
		at = nil
	}
	switch {
	case at == nil:
	case !at.Runs():
	case k == nil && !at.Paused():
		return at, nil
	default:
		if _, err := at.Kill(ctx); err != nil && !errors.Is(err, proc.ErrEnded) {
			return nil, err
		}
	}
	if at == nil {
		b, err := s.makeClientBox(ctx, name, host, k)
		if err != nil {
			return nil, err
		}
		at = &clientBox{box: b, turns: k != nil}
		s.mu.Lock()
		s.clientBoxes[name] = at
		s.mu.Unlock()
	}
	return at, at.startProgram(ctx, k)
}

func (s *site) makeClientBox(ctx context.Context, name string, host int, k *turner) (*box, error) {
	m := engine.Making{Image: s.image, Command: s.room, Talks: true}
	switch {
	case s.adapted != nil:
		return s.makeAdapted(ctx, name, host, m)
	case k != nil:
		m.Command = s.client
		return s.makeTurnable(ctx, name, host, m)
	}
	return s.makeBox(ctx, name, host, m)
}

// Room lets clients run one after the other in a container, each a process of program, as
// it is told on in. It is what a program that makes a Backend has to do when its first
// argument is "__room"; program is the arguments that follow.
func Room(in io.Reader, out, errs io.Writer, program []string) error {
	return real.ClientLoop(in, out, errs, program, clearRoom)
}

// clearRoom ends what a client has left running in its container, and waits for it.
func clearRoom() {
	if os.Getpid() != 1 { // all others of this machine
		return
	}
	syscall.Kill(-1, syscall.SIGKILL)
	for {
		_, err := syscall.Wait4(-1, nil, 0, nil)
		if err != nil && err != syscall.EINTR {
			return // ECHILD: nobody is left
		}
	}
}
