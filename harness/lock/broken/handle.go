package broken

import (
	"context"
	"errors"
	"fmt"
	"time"

	"lockpick/harness/lock"
	"lockpick/redlock"
)

// Why an extension was not tried, or not done. The lock is held until its old deadline.
var (
	errLimit   = errors.New("the limit of extensions is reached")
	errExpired = errors.New("the validity time was over")
)

// handle is one acquired lock, or one attempt at it.
type handle struct {
	lock       *broken
	key, value string
	granted    []redlock.Answer // to the attempt, by node
	fence      int64
	deadline   time.Time
	extends    int // tried so far
}

var (
	_ lock.Tokener     = (*handle)(nil)
	_ lock.Extender    = (*handle)(nil)
	_ lock.WallClocked = (*handle)(nil)
	_ lock.Fencer      = (*handle)(nil)
)

func (h *handle) Deadline() time.Time { return h.deadline }
func (h *handle) Token() string       { return h.value }
func (h *handle) ByWall() bool        { return h.lock.byWall }
func (h *handle) Fence() int64        { return h.fence }

func (h *handle) Release(ctx context.Context) error {
	l := h.lock
	answers := redlock.Count(l.release(ctx, l.holders(h), h, l.del))
	switch quorum := redlock.Quorum(len(l.nodes)); {
	case answers.Yes >= quorum:
		return nil
	case answers.No >= quorum:
		return fmt.Errorf("release %q: %w", h.key, lock.ErrNotHeld)
	}
	return fmt.Errorf("release %q: outcome unknown, %d nodes said yes and %d no", h.key, answers.Yes, answers.No)
}

func (h *handle) Extend(ctx context.Context) error {
	l := h.lock
	start := l.now()
	switch {
	case !l.current(h, start):
		return fmt.Errorf("extend %q: %w", h.key, errExpired)
	case h.extends >= l.extends:
		return fmt.Errorf("extend %q: %w", h.key, errLimit)
	}
	h.extends++
	answers := redlock.Count(l.ask(ctx, l.all, func(ctx context.Context, node int) (int64, error) {
		return l.extend(ctx, node, h.key, h.value)
	}))
	end := l.now()

	switch quorum := redlock.Quorum(len(l.nodes)); {
	case answers.Yes >= l.renewal:
	case answers.No >= quorum:
		return fmt.Errorf("extend %q: %w", h.key, lock.ErrNotHeld)
	default:
		return fmt.Errorf("extend %q: outcome unknown, %d nodes said yes and %d no", h.key, answers.Yes, answers.No)
	}
	if !l.renewed(h, start, end) {
		return fmt.Errorf("extend %q: %w", h.key, errExpired)
	}
	if until := l.further(start, end); until.After(h.deadline) {
		h.deadline = until
	}
	return nil
}
