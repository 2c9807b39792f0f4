//go:build linux

package docker

import (
	"context"
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
	if p.talk, err = p.box.talk(ctx); err != nil {
		return err
	}
	if err := p.start(ctx); err != nil {
		return err
	}
	return k.open(ctx, p.box)
}
