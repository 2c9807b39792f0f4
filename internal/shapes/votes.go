package shapes

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ask is what a node is asked with.
type ask struct {
	key, token string
	waiter     string // one acquire, however many attempts it takes
	ttl        int64  // milliseconds
	patience   int64  // milliseconds that one who waits may be silent
	sent       int    // how often before
}

// vote asks one node. Above 0 is yes.
type vote func(ctx context.Context, node *redis.Client, a ask) (int64, error)

// set is SET with NX and PX.
func set(ctx context.Context, node *redis.Client, a ask) (int64, error) {
	err := node.Do(ctx, "SET", a.key, a.token, "NX", "PX", a.ttl).Err()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return 1, err
}

// script is a vote by a script of one key and, after ":", of another. Its arguments are the
// token, the TTL, who waits and for how long it may be silent.
func script(text string) vote {
	return func(ctx context.Context, node *redis.Client, a ask) (int64, error) {
		return node.Do(ctx, "EVAL", text, 2, a.key, a.key+":more", a.token, a.ttl, a.waiter, a.patience).Int64()
	}
}

// unlessTaken is yes where there is no answer; else it is for how long the lock is taken.
func unlessTaken(v vote) vote {
	return func(ctx context.Context, node *redis.Client, a ask) (int64, error) {
		_, err := v(ctx, node, a)
		if errors.Is(err, redis.Nil) {
			return 1, nil
		}
		return 0, err
	}
}

// swapped is a vote by a script of one key that has the TTL first, and then the token.
func swapped(text string) vote {
	return func(ctx context.Context, node *redis.Client, a ask) (int64, error) {
		return node.Do(ctx, "EVAL", text, 1, a.key, a.ttl, a.token).Int64()
	}
}

var (
	compareAndDelete = script(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`)
	compareAndExpire = script(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0`)
	setOrOwn         = script(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end
if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return 1 end return 0`)
	setIfNothing = script(`if redis.call("get", KEYS[1]) then return 0 end redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) return 1`)
	setAndCount  = script(`if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return redis.call("incr", KEYS[2]) end return 0`)

	// A field of a hash, as many times as its owner has it.
	fieldSet = unlessTaken(swapped(`if redis.call("exists", KEYS[1]) == 0 or redis.call("hexists", KEYS[1], ARGV[2]) == 1 then
  redis.call("hincrby", KEYS[1], ARGV[2], 1) redis.call("pexpire", KEYS[1], ARGV[1]) return nil
end return redis.call("pttl", KEYS[1])`))
	fieldDelete = swapped(`if redis.call("hexists", KEYS[1], ARGV[2]) == 0 then return 0 end
if redis.call("hincrby", KEYS[1], ARGV[2], -1) > 0 then redis.call("pexpire", KEYS[1], ARGV[1]) return 1 end
return redis.call("del", KEYS[1])`)
	fieldExpire  = swapped(`if redis.call("hexists", KEYS[1], ARGV[2]) == 1 then return redis.call("pexpire", KEYS[1], ARGV[1]) end return 0`)
	deleteAnyway = swapped(`return redis.call("del", KEYS[1])`)

	// Tickets of those who wait, in a hash: who drew one, which, and when it last asked. The
	// lowest of those that still ask has the lock next.
	ticket = `local now = redis.call("time") now = now[1] * 1000 + math.floor(now[2] / 1000)
local all, mine, first = redis.call("hgetall", KEYS[2]), nil, nil
for i = 1, #all, 2 do
  local n, at = string.match(all[i + 1], "^(%d+)@(%d+)$")
  if n then
    n = tonumber(n)
    if all[i] == ARGV[3] then mine = n
    elseif {{silent}} then redis.call("hdel", KEYS[2], all[i])
    elseif not first or n < first then first = n end
  end
end
if not mine then mine = redis.call("hincrby", KEYS[2], "last", 1) end
redis.call("hset", KEYS[2], ARGV[3], mine .. "@" .. string.format("%d", now))
redis.call("pexpire", KEYS[2], 60000)
if first and first < mine or redis.call("exists", KEYS[1]) == 1 then return 0 end
redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2])
redis.call("hdel", KEYS[2], ARGV[3])
return 1`
)

// inTransaction sets the key and its expiry in a transaction. Without "NX" PEXPIRE gives
// whoever holds the key more time.
func inTransaction(condition ...any) vote {
	return func(ctx context.Context, node *redis.Client, a ask) (int64, error) {
		var free *redis.Cmd
		_, err := node.TxPipelined(ctx, func(p redis.Pipeliner) error {
			free = p.Do(ctx, "SETNX", a.key, a.token)
			p.Do(ctx, append([]any{"PEXPIRE", a.key, a.ttl}, condition...)...)
			return nil
		})
		if err != nil {
			return 0, err
		}
		return free.Int64()
	}
}

// setThenExpire does the same in two steps, between which a client can die.
func setThenExpire(ctx context.Context, node *redis.Client, a ask) (int64, error) {
	n, err := node.Do(ctx, "SETNX", a.key, a.token).Int64()
	if n > 0 {
		err = node.Do(ctx, "PEXPIRE", a.key, a.ttl).Err()
	}
	return n, err
}

// lookThenSet sets a key that wasn't there when it looked.
func lookThenSet(ctx context.Context, node *redis.Client, a ask) (int64, error) {
	if err := node.Do(ctx, "GET", a.key).Err(); !errors.Is(err, redis.Nil) {
		return 0, err
	}
	return 1, node.Do(ctx, "SET", a.key, a.token, "PX", a.ttl).Err()
}

// lookThenDelete deletes a key that was its own when it looked.
func lookThenDelete(ctx context.Context, node *redis.Client, a ask) (int64, error) {
	switch own, err := node.Do(ctx, "GET", a.key).Text(); {
	case errors.Is(err, redis.Nil), err == nil && own != a.token:
		return 0, nil
	case err != nil:
		return 0, err
	}
	return node.Do(ctx, "DEL", a.key).Int64()
}

// setOrAnybody takes any key for its own once it has asked before: it must have set it then.
func setOrAnybody(ctx context.Context, node *redis.Client, a ask) (int64, error) {
	n, err := set(ctx, node, a)
	if a.sent > 0 && err == nil {
		n = 1
	}
	return n, err
}

// countThenSet draws the fencing token before it has the lock.
func countThenSet(ctx context.Context, node *redis.Client, a ask) (int64, error) {
	fence, err := node.Do(ctx, "INCR", a.key+":more").Int64()
	if err != nil {
		return 0, err
	}
	if n, err := set(ctx, node, a); n == 0 || err != nil {
		return 0, err
	}
	return fence, nil
}

// expireAnyway gives whoever holds the key more time.
func expireAnyway(ctx context.Context, node *redis.Client, a ask) (int64, error) {
	return node.Do(ctx, "PEXPIRE", a.key, a.ttl).Int64()
}

// asText passes a token on as text in which each byte that is none is replaced.
func asText(v vote) vote {
	return func(ctx context.Context, node *redis.Client, a ask) (int64, error) {
		a.token = strings.ToValidUTF8(a.token, "\uFFFD")
		return v(ctx, node, a)
	}
}
