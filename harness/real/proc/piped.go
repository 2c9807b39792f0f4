//go:build linux

package proc

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// Piped is a child that one speaks with on its stdin and stdout.
type Piped struct {
	*Child
	In, Out *os.File // its stdin and stdout, this end
	log     string   // file with its stderr
}

// JoinPiped is Join of a program that is spoken with; its stderr is kept in the group's directory.
func (g *Group) JoinPiped(leader *Child, name string, cmd *exec.Cmd) (*Piped, error) {
	p := &Piped{log: filepath.Join(g.Dir, name+".log")}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
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
	p.In, p.Out = in, out
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, log
	if p.Child, err = g.Join(leader, name, cmd); err != nil {
		p.Leave()
		return nil, err
	}
	return p, nil
}

// Leave lets go of its pipes.
func (p *Piped) Leave() { p.In.Close(); p.Out.Close() }

// Words is the end of what it has written on stderr.
func (p *Piped) Words() string { return tail(p.log) }
