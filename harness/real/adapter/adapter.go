//go:build linux

package adapter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/harness/real/proc"
)

// Program is an adapter that runs.
type Program struct {
	*proc.Child
	In, Out *os.File // its stdin and stdout, this end
	log     string   // file with its stderr
}

// Start starts one in a group.
func Start(g *proc.Group, name string, argv []string) (*Program, error) {
	p := &Program{log: filepath.Join(g.Dir, name+".log")}
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
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, log
	if p.Child, err = g.Start(name, cmd); err != nil {
		p.Leave()
		return nil, err
	}
	g.Cleanup(func() error { p.Leave(); return nil })
	return p, nil
}

// Leave lets go of its pipes.
func (p *Program) Leave() { p.In.Close(); p.Out.Close() }

// Speaks waits until there is something to read from it.
func (p *Program) Speaks(ctx context.Context, bound time.Duration) error {
	fds := []unix.PollFd{{Fd: int32(p.Out.Fd()), Events: unix.POLLIN}}
	for end := time.Now().Add(bound); ; {
		n, err := unix.Poll(fds, 50)
		switch {
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case n > 0 && fds[0].Revents&unix.POLLIN != 0:
			return nil
		case n > 0:
			return errors.New("it has ended without a word on stdout")
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case time.Now().After(end):
			return fmt.Errorf("it has said no hello for %v", bound)
		}
	}
}

// Words is the end of what it has written on stderr, as a part of an error; "": nothing.
func (p *Program) Words() string {
	log, _ := os.ReadFile(p.log)
	words := strings.TrimSpace(string(log[max(0, len(log)-1000):]))
	if words == "" {
		return ""
	}
	return "\nits last words on stderr:\n" + words
}
