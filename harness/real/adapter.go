//go:build linux

package real

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"

	"lockpick/harness/real/proc"
)

// Program is an adapter that runs.
type AdapterProcess struct{ *proc.Piped }

// Start starts one in a group. It works where lockpick does, so that paths among its
// arguments mean what the user meant.
func StartAdapter(g *proc.Group, name string, argv []string) (*AdapterProcess, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	var err error
	if cmd.Dir, err = os.Getwd(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	dir, err := os.Open(g.Dir)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer dir.Close()
	cmd.ExtraFiles = []*os.File{dir} // Sweep knows it again by what it has open
	p, err := g.JoinPiped(nil, name, cmd)
	if err != nil {
		return nil, err
	}
	g.Cleanup(func() error { p.Leave(); return nil })
	return &AdapterProcess{p}, nil
}

// Speaks waits until there is something to read from it.
func (p *AdapterProcess) Speaks(ctx context.Context, bound time.Duration) error {
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
			return fmt.Errorf("it has said no hello within %v", bound)
		}
	}
}

// Words is the end of what it has written on stderr, as a part of an error; "": nothing.
func (p *AdapterProcess) Words() string {
	words := p.Piped.Words()
	if words == "" {
		return ""
	}
	return "\nits last words on stderr:\n" + words
}
