package client

import (
	"context"

	"lockpick/harness/history"
	"lockpick/harness/lock"
)

// Run acquires and releases each key in turn.
func Run(ctx context.Context, s Spec, e Env) error {
	emit := func(t history.Type, op, key string) {
		e.Emit(history.Event{T: int64(e.True()), Process: s.Name, Type: t, Op: op, Key: key, Local: e.Now().UnixNano()})
	}
	l, err := e.Lock(lock.Env{Client: s.Name, Nodes: s.Nodes, Dial: e.Dial, Now: e.Now, After: e.After, Settings: s.Lock})
	if err != nil {
		return err
	}
	defer l.Close()
	emit(history.Begin, history.OpClient, "")
	for i := 0; s.Cycles == 0 && e.True() < s.Until || i < s.Cycles; i++ {
		key := s.Keys[i%len(s.Keys)]
		emit(history.Invoke, history.OpAcquire, key)
		h, err := l.Acquire(ctx, key)
		if err != nil {
			emit(history.Fail, history.OpAcquire, key)
			continue
		}
		emit(history.OK, history.OpAcquire, key)
		for _, p := range s.Armed {
			if p.Name == AfterAcquire && (p.Nth == 0 || p.Nth == i+1) {
				e.At(p.Name)
			}
		}
		emit(history.Invoke, history.OpRelease, key)
		if err := h.Release(ctx); err != nil {
			emit(history.Info, history.OpRelease, key)
			continue
		}
		emit(history.OK, history.OpRelease, key)
	}
	emit(history.End, history.OpClient, "")
	return nil
}
