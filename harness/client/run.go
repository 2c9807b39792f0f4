package client

import (
	"context"
	"fmt"

	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// Run runs one client until it has done what s says or ctx ends.
func Run(ctx context.Context, s Spec, e Env) error {
	e.Emit(history.Event{T: int64(e.True()), Process: s.Name, Type: history.Begin, Op: history.OpClient})
	l, err := e.Lock(lock.Env{Client: s.Name, Nodes: s.Nodes, Dial: e.Dial, Now: e.Now, After: e.After, Settings: s.Lock})
	if err != nil {
		return fmt.Errorf("make lock: %w", err)
	}
	defer l.Close()
	for range s.Cycles {
		h, err := l.Acquire(ctx, s.Keys[0])
		if err != nil {
			continue
		}
		e.At(AfterAcquire)
		if err := h.Release(ctx); err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	e.Emit(history.Event{T: int64(e.True()), Process: s.Name, Type: history.End, Op: history.OpClient})
	return nil
}
