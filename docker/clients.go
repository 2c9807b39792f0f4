//go:build linux

package docker

import (
	"context"
	"errors"

	"lockpick/harness/real/proc"
)

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
		makeBox, program := s.makeBox, s.room
		if k != nil {
			makeBox, program = s.makeTurnable, s.client
		}
		b, err := makeBox(ctx, name, host, making{image: s.image, command: program, talks: true})
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
