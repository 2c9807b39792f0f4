//go:build linux

package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"lockpick/harness"
	"lockpick/harness/real/contender"
	"lockpick/harness/real/skew"
)

// Program is what a client runs as. What is done to one that has ended is proc.ErrEnded,
// but to resume it.
type Program interface {
	Pause(ctx context.Context) (readBack string, err error)
	Resume(ctx context.Context) (readBack string, err error)
	Kill(ctx context.Context) (readBack string, err error)
	Paused() bool
	Done() <-chan struct{}
	End() error    // how it ended: nil is exit status 0; it waits for the end
	Struck() bool  // somebody else has ended it; it waits for the end
	Words() string // the end of what it has written on stderr
}

// Client is one client that runs.
type Client struct {
	Program
	In  io.Writer // its stdin
	Out io.Reader // its stdout

	// Freed is called when the client is over; nil: there is nothing to be freed.
	Freed func()
	// Gone says how a client ended that was in a room, by a signal that nobody of this
	// run has sent.
	Gone func(signal int)
	// Known waits, where the end of a client may be that of more, until that is known.
	Known func(ctx context.Context, end error)

	killed atomic.Bool
	clocks chan skew.Reading // what it says that its clocks show
	left   *contender.Left   // how it left its room; nil: the room has ended, or there is none
}

// end says how it came to its end: nil is exit status 0. It waits for it.
func (p *Client) end() error {
	switch {
	case p.left == nil:
		return p.End()
	case p.left.Error != "":
		return errors.New(p.left.Error)
	}
	return nil
}

// verdict says how the client came to its end, from what it said last and how it ended.
func (p *Client) verdict(ctx context.Context, said, end error) error {
	switch {
	case said == nil && end == nil:
		return nil
	case p.killed.Load():
		return harness.ErrKilled
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.left != nil && p.left.Signal > 0, p.left == nil && p.Struck(): // which is recorded
		return harness.ErrKilled
	case said != nil:
		return said
	}
	return fmt.Errorf("%w: %s", end, p.Words())
}
