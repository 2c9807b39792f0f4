//go:build linux

package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
)

// talk is the stdin, stdout and stderr of a container's program.
type talk struct {
	in  io.WriteCloser
	out *io.PipeReader

	mu     sync.Mutex
	errors bytes.Buffer // the end of its stderr
}

// talk joins them, before the container starts, and beyond the context: what it says
// while it is ended is still read.
func (b *box) talk(ctx context.Context) (*talk, error) {
	b.mu.Lock()
	err := b.settle() // or it would be the talk with who has just ended
	b.mu.Unlock()
	if err != nil {
		return nil, err
	}
	out, stdout := io.Pipe()
	t := &talk{out: out}
	in, copyOut, err := b.engine.Attach(context.WithoutCancel(ctx), b.id, stdout, t)
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", b.name, err)
	}
	t.in = in
	go func() { stdout.CloseWithError(copyOut()) }()
	return t, nil
}

// startTalking starts its program, and talks with it from its first word on.
func (b *box) startTalking(ctx context.Context) (*talk, error) {
	t, err := b.talk(ctx)
	if err != nil {
		return nil, err
	}
	return t, b.start(ctx)
}

// mostWords bounds what is kept of a program's stderr.
const mostWords = 1000

// Write takes what it writes on stderr.
func (t *talk) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errors.Write(b)
	t.errors.Next(max(0, t.errors.Len()-mostWords))
	return len(b), nil
}

// Words is the end of what it has written on stderr.
func (t *talk) Words() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.errors.String())
}

func (t *talk) leave() {
	t.in.Close()
	t.out.Close()
}
