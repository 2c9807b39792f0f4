package broken

import (
	"context"
	"errors"
	"fmt"

	"lockpick/harness/lock"
	"lockpick/redlock"
)

// Why an extension was not tried, or not done. The lock is held until its old deadline.
var (
	errLimit   = errors.New("the limit of extensions is reached")
	errExpired = errors.New("the validity time was over")
)

// Extend implements lock.Extender, as the reference does.
func (h *handle) Extend(ctx context.Context) error {
	l := h.lock
	start := l.cfg.Now()
	switch {
	case !start.Before(h.deadline):
		return fmt.Errorf("extend %q: %w", h.key, errExpired)
	case h.extends >= l.cfg.Extends && !l.mistake.unbounded:
		return fmt.Errorf("extend %q: %w", h.key, errLimit)
	}
	h.extends++
	answers := l.ask(ctx, func(ctx context.Context, node int) (bool, error) {
		return l.cfg.Nodes[node].Extend(ctx, h.key, h.token, l.cfg.TTL)
	})
	end := l.cfg.Now()

	quorum := redlock.Quorum(len(l.clients))
	drift := redlock.Drift(l.cfg.TTL, l.cfg.Drift)
	switch {
	case answers.no >= quorum:
		return fmt.Errorf("extend %q: %w", h.key, lock.ErrNotHeld)
	case answers.yes < quorum:
		return fmt.Errorf("extend %q: outcome unknown, %d nodes said yes and %d no", h.key, answers.yes, answers.no)
	case !end.Before(h.deadline) || redlock.Validity(l.cfg.TTL, end.Sub(start), drift) <= 0:
		return fmt.Errorf("extend %q: %w", h.key, errExpired)
	}
	if until := start.Add(l.cfg.TTL - drift); until.After(h.deadline) {
		h.deadline = until
	}
	return nil
}
