//go:build linux

package proc

import (
	"errors"
	"os"
	"os/exec"
)

// Piped is a child that one speaks with on its stdin and stdout.
type Piped struct {
	*Child
	In, Out *os.File // its stdin and stdout, this end
}

// JoinPiped is Join of a program that is spoken with.
func (g *Group) JoinPiped(leader *Child, name string, cmd *exec.Cmd) (*Piped, error) {
	// Own pipes: those of exec.Cmd are closed when it is reaped, read or not.
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer stdout.Close()
	p := &Piped{In: in, Out: out}
	cmd.Stdin, cmd.Stdout = stdin, stdout
	if p.Child, err = g.Join(leader, name, cmd); err != nil {
		p.Leave()
		return nil, err
	}
	return p, nil
}

// Leave lets go of its pipes.
func (p *Piped) Leave() { p.In.Close(); p.Out.Close() }
