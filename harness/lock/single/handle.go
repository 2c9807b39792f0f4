package single

import (
	"context"
	"fmt"
	"time"

	"lockpick/harness/lock"
)

// handle is one acquired lock.
type handle struct {
	lock       *single
	key, value string
	deadline   time.Time
	extends    int // tried so far
}

var (
	_ lock.Tokener  = (*handle)(nil)
	_ lock.Extender = (*handle)(nil)
)

func (h *handle) Deadline() time.Time { return h.deadline }
func (h *handle) Token() string       { return h.value }

func (h *handle) Release(ctx context.Context) error {
	return h.outcome("release", func() (bool, error) { return h.lock.del(ctx, h) })
}

func (h *handle) Extend(ctx context.Context) error {
	l := h.lock
	start := l.cfg.Now()
	switch {
	case !start.Before(h.deadline):
		return fmt.Errorf("extend %q: %w", h.key, errExpired)
	case h.extends >= l.cfg.Extends:
		return fmt.Errorf("extend %q: %w", h.key, errLimit)
	}
	h.extends++
	err := h.outcome("extend", func() (bool, error) {
		return l.ask(ctx, func(ctx context.Context) (bool, error) { return l.node.Extend(ctx, h.key, h.value, l.cfg.TTL) })
	})
	if err != nil {
		return err
	}
	if end := l.cfg.Now(); !end.Before(h.deadline) || !l.valid(end.Sub(start)) {
		return fmt.Errorf("extend %q: %w", h.key, errExpired)
	}
	if until := start.Add(l.cfg.TTL - l.drift()); until.After(h.deadline) {
		h.deadline = until
	}
	return nil
}

// outcome says in the words of the harness what the node answered.
func (h *handle) outcome(op string, ask func() (bool, error)) error {
	switch yes, err := ask(); {
	case err != nil:
		return fmt.Errorf("%s %q: outcome unknown: %w", op, h.key, err)
	case !yes:
		return fmt.Errorf("%s %q: %w", op, h.key, lock.ErrNotHeld)
	}
	return nil
}
