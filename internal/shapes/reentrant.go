package shapes

import (
	"context"
	"fmt"

	"lockpick/harness/lock"
)

// reentrant is a lock that whoever holds it can acquire again: each acquire is a field of a
// hash, beside one for the hold, and the last release deletes it.
type reentrant struct {
	*locker
	held    *hold // nil: none
	entries int
}

// outermost is the first of its acquires, which is released last.
type outermost struct {
	*hold
	of *reentrant
}

func (o outermost) Release(ctx context.Context) error {
	o.of.held = nil
	return o.hold.Release(ctx)
}

func (r *reentrant) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	if r.held != nil {
		return r.again(ctx)
	}
	h, err := r.locker.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	r.held = h.(*hold)
	return outermost{r.held, r}, nil
}

// again enters what it holds. Nobody is in the way, so that a no says that it is lost; and to
// be asked twice does no harm.
func (r *reentrant) again(ctx context.Context) (lock.Handle, error) {
	r.entries++
	h := &hold{locker: r.locker, ask: r.held.ask}
	h.ask.waiter = fmt.Sprintf("again-%d", r.entries)
	for ctx.Err() == nil {
		start := r.cfg.Now()
		answers := h.round(ctx, h.all, enter)
		switch {
		case answers[0].No():
			return nil, fmt.Errorf("acquire %q again: %w", h.ask.key, lock.ErrNotHeld)
		case answers[0].Yes() && r.cfg.Now().Before(r.until(start)):
			h.deadline = r.until(start)
			return h, nil
		}
		r.wait(ctx)
	}
	h.drop(ctx)
	return nil, fmt.Errorf("acquire %q again: %w", h.ask.key, ctx.Err())
}

var (
	setFirst = script(`if redis.call("exists", KEYS[1]) == 1 then return 0 end
redis.call("hset", KEYS[1], ARGV[1], 1) redis.call("hset", KEYS[1], ARGV[1] .. ":" .. ARGV[3], 1)
return redis.call("pexpire", KEYS[1], ARGV[2])`)
	enter = script(`if redis.call("hexists", KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call("hset", KEYS[1], ARGV[1] .. ":" .. ARGV[3], 1)
return redis.call("pexpire", KEYS[1], ARGV[2])`)
	leave = script(`if redis.call("hexists", KEYS[1], ARGV[1]) == 0 or redis.call("hdel", KEYS[1], ARGV[1] .. ":" .. ARGV[3]) == 0 then return 0 end
if redis.call("hlen", KEYS[1]) == 1 then redis.call("del", KEYS[1]) end return 1`)
	leaveAll  = script(`if redis.call("hexists", KEYS[1], ARGV[1]) == 0 then return 0 end return redis.call("del", KEYS[1])`)
	holdsOnTo = script(`if redis.call("hexists", KEYS[1], ARGV[1]) == 0 then return 0 end return redis.call("pexpire", KEYS[1], ARGV[2])`)
)

// reentering is a shape whose holder can acquire it again.
func reentering(s Shape) Shape {
	of := func(make lock.Factory) lock.Factory {
		return func(env lock.Env) (lock.Lock, error) {
			l, err := make(env)
			if err != nil {
				return nil, err
			}
			return &reentrant{locker: l.(*locker)}, nil
		}
	}
	s.New, s.Wrong, s.Can.Reenter = of(s.New), of(s.Wrong), true
	return s
}
