// Package shapes contains locks of many designs, as users write them. Each design has a correct
// version and a version with a mistake that the design invites. They are test fixtures: a violation
// reported for a correct version is a false alarm, and an undetected mistake is a gap.
//
// A design specifies how a lock differs from the usual procedure. A vote is the command sent to one
// node. A Shape is an entry of All and contains both versions.
//
// Deliberately missing: registration as lock kinds, because nobody should use these locks, and
// mistakes that the reference implementation can make, too, which are in package broken.
package shapes

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"lockpick/harness/lock"
	"lockpick/redlock"
	"lockpick/redlock/driver"
	"lockpick/redlock/redisnode"
)

// Shape is a correct lock with a broken version of it.
type Shape struct {
	lock.Kind
	Mistake string       // what the broken version does wrong
	Broken  lock.Factory // creates the broken version
	// Fenced reports whether the lock hands out fencing tokens.
	Fenced bool
}

// design specifies how one lock differs from the usual procedure.
type design struct {
	set, del      vote
	extend        vote          // nil if the lock can't be extended
	renew         time.Duration // percentage of the TTL after which the lock extends itself; 0: it doesn't
	quorum        func(answers []driver.Answer) bool
	order         func(nodes []int) // orders the nodes for sequential requests; nil: all requests at once
	eager         bool              // an attempt returns once enough nodes have granted the lock
	giveUp        bool              // an attempt stops at the first refusal and undoes nothing
	grantedOnly   bool              // a release goes only to nodes that have certainly granted the lock
	maxSends      int               // how many times an attempt asks a node that doesn't answer; 0: once
	abandons      bool              // an attempt with an unknown outcome is not undone
	constantDelay bool              // the retry delay is constant
	endless       bool              // a hold has no deadline
	token         func(token string) string
}

// factory returns a factory for locks of a design.
func factory(d design) lock.Factory {
	return func(env lock.Env) (lock.Lock, error) {
		s := env.Settings
		l := &locker{env: env, design: d}
		cfg := redlock.Config{TTL: s.TTL, Timeout: s.Timeout, Drift: cmp.Or(s.Drift, redlock.NoDrift), RetryMin: s.RetryMin, RetryMax: s.RetryMax, Now: env.Now, After: env.After, Sequential: d.order != nil}
		for i, n := range env.Nodes {
			o := redisnode.Options(n.Addr)
			o.Dialer = env.Dial
			l.Clients = append(l.Clients, redis.NewClient(o))
			cfg.Nodes = append(cfg.Nodes, redisnode.New(l.Clients[i]))
			l.all = append(l.all, i)
		}
		if d.order != nil {
			d.order(l.all)
		}
		var err error
		if l.cfg, err = cfg.WithDefaults(); err != nil {
			l.Close()
			return nil, fmt.Errorf("create lock: %w", err)
		}
		return l, nil
	}
}

// singleServer is the design that uses one key on one server. Most other designs change one aspect
// of it.
var instance = design{set: set, del: compareAndDelete, extend: compareAndExpire, quorum: atLeast(func(int) int { return 1 })}

// multiNode is the same design on several servers.
var multiNode = instance.with(func(d *design) { d.quorum = atLeast(redlock.Quorum) })

func (d design) with(change func(*design)) design {
	change(&d)
	return d
}

// atLeast returns a condition that requires a quorum of all nodes.
func atLeast(quorum func(n int) int) func([]driver.Answer) bool {
	return func(all []driver.Answer) bool { return driver.Count(all).Yes >= quorum(len(all)) }
}

// atLeastOfAnswers returns a condition that requires a quorum of the nodes that answered.
func atLeastOfAnswers(quorum func(n int) int) func([]driver.Answer) bool {
	return func(all []driver.Answer) bool {
		t := driver.Count(all)
		return t.Yes > 0 && t.Yes >= quorum(t.Yes+t.No)
	}
}

func allNodes(n int) int { return n }

// binaryToken returns a token that contains arbitrary bytes.
func binaryToken(token string) string {
	raw, _ := hex.DecodeString(token)
	return string(raw) + "\r\n\x00\xff"
}

// oneNodeShape returns a shape that uses one server, and manyNodesShape a shape that uses all
// servers.
func oneNode(doc, mistake string, correct, broken design) Shape {
	s := manyNodes(doc, mistake, correct, broken)
	s.OneNode = true
	return s
}

func manyNodes(doc, mistake string, correct, broken design) Shape {
	return Shape{Kind: lock.Kind{Doc: doc, New: factory(correct)}, Mistake: mistake, Broken: factory(broken)}
}

func (s Shape) with(change func(*Shape)) Shape {
	change(&s)
	return s
}

// All contains all shapes by name.
var All = map[string]Shape{
	"instance": oneNode("one key on one server", "compares and deletes in two steps",
		instance, instance.with(func(d *design) { d.del = checkThenDelete })),
	"polling": oneNode("retries after a constant delay", "does not undo an attempt with an unknown outcome",
		instance.with(func(d *design) { d.constantDelay = true }), instance.with(func(d *design) { d.constantDelay, d.abandons = true, true })),
	"idempotent": oneNode("resends its request with the same token", "treats any existing key as its own when it resends",
		instance.with(func(d *design) { d.set, d.maxSends = setOrOwn, 3 }), instance.with(func(d *design) { d.set, d.maxSends = setOrAny, 3 })),
	"scripted": oneNode("checks and sets in a script", "checks and sets in two steps",
		instance.with(func(d *design) { d.set = setIfAbsent }), instance.with(func(d *design) { d.set = checkThenSet })),
	"transaction": oneNode("sets the key and its expiry in a transaction", "extends another holder's key with each attempt",
		instance.with(func(d *design) { d.set = inTransaction("NX") }), instance.with(func(d *design) { d.set = inTransaction() })),
	"binary": oneNode("uses binary tokens", "converts the token to text when it releases",
		instance.with(func(d *design) { d.token = binaryToken }),
		instance.with(func(d *design) {
			d.token = binaryToken
			d.del = asText(d.del)
		})),
	"field": oneNode("is a field of a hash that counts its owner's acquires", "deletes the hash no matter who owns the field",
		instance.with(func(d *design) { d.set, d.del, d.extend = fieldSet, fieldDelete, fieldExpire }),
		instance.with(func(d *design) { d.set, d.del, d.extend = fieldSet, deleteAnyway, fieldExpire })),
	"counter": oneNode("uses the number of its grants as the fencing token", "takes the fencing token before it has the lock",
		instance.with(func(d *design) { d.set = setAndCount }), instance.with(func(d *design) { d.set = countThenSet })).
		with(func(s *Shape) { s.Can.Fence, s.Fenced = true, true }),
	"fair": oneNode("grants the lock in the order of arrival", "keeps a client in the queue after it has stopped waiting",
		instance.with(func(d *design) { d.set = queue("now - tonumber(at) > tonumber(ARGV[4])") }),
		instance.with(func(d *design) { d.set = queue("false") })),
	"watchdog": oneNode("extends itself and reports its loss", "extends without comparing the token",
		instance.with(func(d *design) { d.renew = 25 }),
		instance.with(func(d *design) { d.renew, d.extend = 25, expireAnyway })).
		with(func(s *Shape) { s.Belief = lock.BySignal }),
	"endless": oneNode("has no deadline for its holder", "sets the key and its expiry in two steps",
		instance.with(func(d *design) { d.endless = true }), instance.with(func(d *design) { d.endless, d.set = true, setThenExpire })).
		with(func(s *Shape) { s.Belief = lock.ByNothing }),

	"reentrant": makeReentrant(oneNode("can be acquired repeatedly by its holder", "is free after the first release",
		instance.with(func(d *design) { d.set, d.del, d.extend = setFirst, leave, extendEntry }),
		instance.with(func(d *design) { d.set, d.del, d.extend = setFirst, leaveAll, extendEntry }))),

	"majority": manyNodes("needs a majority of the nodes", "needs a majority of only those nodes that answer",
		multiNode, multiNode.with(func(d *design) { d.quorum = atLeastOfAnswers(redlock.Quorum) })),
	"unanimous": manyNodes("needs all nodes", "needs only those nodes that answer",
		multiNode.with(func(d *design) { d.quorum = atLeast(allNodes) }), multiNode.with(func(d *design) { d.quorum = atLeastOfAnswers(allNodes) })).
		with(func(s *Shape) { s.Quorum = allNodes }),
	"reversed": manyNodes("asks the nodes one by one, in reverse order", "gives up at the first refusal and keeps its keys",
		multiNode.with(func(d *design) { d.order = slices.Reverse[[]int] }),
		multiNode.with(func(d *design) { d.order, d.giveUp = slices.Reverse[[]int], true })),
	"hasty": manyNodes("returns once it has a quorum", "releases only on the nodes it has waited for",
		multiNode.with(func(d *design) { d.eager = true }), multiNode.with(func(d *design) { d.eager, d.grantedOnly = true, true })),
}

// ticketQueue returns a vote that runs the ticket script. silent is the condition for dropping a waiting
// client.
func queue(silent string) vote { return script(strings.Replace(ticket, "{{silent}}", silent, 1)) }

// locker is one client's lock.
type locker struct {
	lock.Clients[*redis.Client]
	design
	env             lock.Env
	cfg             redlock.Config
	all             []int // in the order of requests
	attempts, waits int
}

// hold is an attempt, and the resulting hold if the attempt succeeds.
type hold struct {
	*locker
	req      request
	deadline time.Time // zero if there is none
	fence    int64
	granted  []int           // nodes that have certainly granted the lock
	pending  []chan struct{} // by node: closed once a late answer has arrived
	watch    *watch          // nil if the hold doesn't extend itself
}

var (
	_ lock.Extender = (*hold)(nil)
	_ lock.Tokener  = (*hold)(nil)
	_ lock.Fencer   = (*hold)(nil)
)

func (h *hold) Token() string       { return h.req.token }
func (h *hold) Fence() int64        { return h.fence }
func (h *hold) Deadline() time.Time { return h.deadline }

func (l *locker) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	waiter := fmt.Sprintf("%s-%d", l.env.Client, l.attempts)
	for ctx.Err() == nil {
		h := l.attempt(ctx, key, waiter)
		if h == nil {
			l.wait(ctx)
			continue
		}
		if h.watch != nil {
			return watchedHold{h}, nil
		}
		return h, nil
	}
	return nil, fmt.Errorf("acquire %q: %w", key, ctx.Err())
}

func (l *locker) wait(ctx context.Context) {
	l.waits++
	delay := l.env.Delay(l.waits, l.cfg.RetryMin, l.cfg.RetryMax)
	if l.constantDelay {
		delay = l.cfg.RetryMax / 2
	}
	select {
	case <-l.env.After(delay):
	case <-ctx.Done():
	}
}

// attempt makes one attempt to acquire the lock. If the attempt fails, it removes any keys it may
// have set.
func (l *locker) attempt(ctx context.Context, key, waiter string) *hold {
	l.attempts++
	h := &hold{locker: l, req: request{key: key, token: l.env.Token(l.attempts), waiter: waiter, ttl: l.cfg.TTL.Milliseconds(), patience: 2 * (l.cfg.RetryMax + l.cfg.Timeout).Milliseconds()}}
	if l.token != nil {
		h.req.token = l.token(h.req.token)
	}
	start := l.cfg.Now()
	answers := h.acquire(ctx)
	for _, a := range answers {
		if a.Yes() {
			h.granted = append(h.granted, a.Node)
			if l.env.Settings.Fence {
				h.fence = max(h.fence, a.Value)
			}
		}
	}
	if l.quorum(answers) && ctx.Err() == nil && l.cfg.Now().Before(l.earliestExpiry(start)) {
		if h.deadline = l.earliestExpiry(start); l.endless {
			h.deadline = time.Time{}
		}
		if l.renew > 0 {
			h.deadline = time.Time{}
			h.watch = h.startRenewal(start)
		}
		return h
	}
	unknown := driver.Count(answers)
	if !l.giveUp && (!l.abandons || unknown.Yes+unknown.No == unknown.All) {
		h.undo(ctx)
	}
	return nil
}

// earliestExpiry returns the earliest time at which a node may have dropped a key that was
// requested at requestTime.
func (l *locker) earliestExpiry(asked time.Time) time.Time {
	return asked.Add(l.cfg.TTL - redlock.Drift(l.cfg.TTL, l.cfg.Drift))
}

func (h *hold) acquire(ctx context.Context) []driver.Answer {
	if h.eager {
		return h.acquireEagerly(ctx)
	}
	if !h.giveUp {
		answers := h.round(ctx, h.all, h.set)
		for ; h.req.sent < h.maxSends-1 && answers[0].Err != nil && ctx.Err() == nil; answers = h.round(ctx, h.all, h.set) {
			h.req.sent++
		}
		return answers
	}
	var answers []driver.Answer
	for _, node := range h.all {
		a := h.round(ctx, []int{node}, h.set)
		if answers = append(answers, a...); a[0].No() {
			break
		}
	}
	return answers
}

// round sends a command to some nodes and waits for their answers.
func (h *hold) round(ctx context.Context, nodes []int, v vote) []driver.Answer {
	return h.cfg.Ask(ctx, nodes, func(ctx context.Context, node int) (int64, error) { return v(ctx, h.Clients[node], h.req) })
}

// acquireEagerly asks all nodes and returns once enough have granted the lock, or all have
// answered. The next command to a node waits for the node's answer.
func (h *hold) acquireEagerly(ctx context.Context) []driver.Answer {
	h.pending = make([]chan struct{}, len(h.all))
	received := make(chan driver.Answer, len(h.all))
	for _, node := range h.all {
		done := make(chan struct{})
		h.pending[node] = done
		go func() {
			defer close(done)
			received <- h.round(context.WithoutCancel(ctx), []int{node}, h.set)[0]
		}()
	}
	answers := make([]driver.Answer, len(h.all))
	for i := range answers {
		answers[i] = driver.Answer{Node: i, Err: errNoAnswer}
	}
	for range h.all {
		a := <-received
		if answers[a.Node] = a; h.quorum(answers) {
			break
		}
	}
	return answers
}

var errNoAnswer = errors.New("no answer yet")

// undo removes keys that were set, or may have been set, on any node.
func (h *hold) undo(ctx context.Context) []driver.Answer {
	ctx = context.WithoutCancel(ctx)
	nodes := h.all
	if h.grantedOnly {
		nodes = h.granted
	}
	if h.pending == nil || h.grantedOnly {
		return h.round(ctx, nodes, h.del)
	}
	answers := make([]driver.Answer, len(nodes))
	var all sync.WaitGroup
	for i, node := range nodes {
		all.Go(func() {
			<-h.pending[node]
			answers[i] = h.round(ctx, []int{node}, h.del)[0]
		})
	}
	all.Wait()
	return answers
}

func (h *hold) Release(ctx context.Context) error {
	if h.watch != nil {
		h.watch.end()
	}
	return h.outcome("release", h.undo(ctx))
}

func (h *hold) Extend(ctx context.Context) error {
	start := h.cfg.Now()
	if !start.Before(h.deadline) {
		return fmt.Errorf("extend %q: its deadline has passed", h.req.key)
	}
	answers := h.round(ctx, h.all, h.extend)
	if err := h.outcome("extend", answers); err != nil {
		return err
	}
	if !h.cfg.Now().Before(h.deadline) {
		return fmt.Errorf("extend %q: it took too long", h.req.key)
	}
	h.deadline = h.earliestExpiry(start)
	return nil
}

// outcome turns answers into an error. The error is ErrNotHeld if there would be no quorum even if
// all missing answers were yes, and an unknown outcome otherwise.
func (h *hold) outcome(op string, answers []driver.Answer) error {
	possible := make([]driver.Answer, len(answers))
	for i, a := range answers {
		if possible[i] = a; a.Err != nil {
			possible[i] = driver.Answer{Node: a.Node, Value: 1}
		}
	}
	switch {
	case h.quorum(answers):
		return nil
	case !h.quorum(possible):
		return fmt.Errorf("%s %q: %w", op, h.req.key, lock.ErrNotHeld)
	}
	return fmt.Errorf("%s %q: outcome unknown", op, h.req.key)
}

// reentrantLock is a lock that its holder can acquire repeatedly. Each acquire adds a field to a
// hash, which has another field for the hold itself. The last release deletes the hash.
type reentrant struct {
	*locker
	held    *hold // nil if not held
	entries int
}

// outermostHandle is the handle of the first acquire, which is released last.
type outermostHandle struct {
	*hold
	lock *reentrant
}

func (o outermostHandle) Release(ctx context.Context) error {
	o.lock.held = nil
	return o.hold.Release(ctx)
}

func (r *reentrant) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	if r.held != nil {
		return r.reenter(ctx)
	}
	h, err := r.locker.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	r.held = h.(*hold)
	return outermostHandle{r.held, r}, nil
}

// reenter acquires a held lock once more. No other client can hold the lock, so a refusal means
// that the lock is lost. Repeating the request is harmless.
func (r *reentrant) reenter(ctx context.Context) (lock.Handle, error) {
	r.entries++
	h := &hold{locker: r.locker, req: r.held.req}
	h.req.waiter = fmt.Sprintf("again-%d", r.entries)
	for ctx.Err() == nil {
		start := r.cfg.Now()
		answers := h.round(ctx, h.all, enter)
		switch {
		case answers[0].No():
			return nil, fmt.Errorf("reacquire %q: %w", h.req.key, lock.ErrNotHeld)
		case answers[0].Yes() && r.cfg.Now().Before(r.earliestExpiry(start)):
			h.deadline = r.earliestExpiry(start)
			return h, nil
		}
		r.wait(ctx)
	}
	h.undo(ctx)
	return nil, fmt.Errorf("reacquire %q: %w", h.req.key, ctx.Err())
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
	leaveAll    = script(`if redis.call("hexists", KEYS[1], ARGV[1]) == 0 then return 0 end return redis.call("del", KEYS[1])`)
	extendEntry = script(`if redis.call("hexists", KEYS[1], ARGV[1]) == 0 then return 0 end return redis.call("pexpire", KEYS[1], ARGV[2])`)
)

// makeReentrant returns a version of a shape that its holder can acquire repeatedly.
func makeReentrant(s Shape) Shape {
	wrap := func(make lock.Factory) lock.Factory {
		return func(env lock.Env) (lock.Lock, error) {
			l, err := make(env)
			if err != nil {
				return nil, err
			}
			return &reentrant{locker: l.(*locker)}, nil
		}
	}
	s.New, s.Broken, s.Can.Reenter = wrap(s.New), wrap(s.Broken), true
	return s
}

// request contains the arguments of a command to a node.
type request struct {
	key, token string
	waiter     string // identifies one acquire, across all its attempts
	ttl        int64  // milliseconds
	patience   int64  // milliseconds of silence after which a waiting client is dropped
	sent       int    // number of times the request was sent before
}

// vote sends a request to one node. A result above 0 is a grant.
type vote func(ctx context.Context, node *redis.Client, a request) (int64, error)

func set(ctx context.Context, node *redis.Client, a request) (int64, error) {
	err := node.Do(ctx, "SET", a.key, a.token, "NX", "PX", a.ttl).Err()
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	return 1, err
}

// script returns a vote that runs a script with two keys, the second of which has the suffix
// ":more". The script's arguments are the token, the TTL, the waiter and the maximum silence.
func script(text string) vote {
	return func(ctx context.Context, node *redis.Client, a request) (int64, error) {
		return node.Do(ctx, "EVAL", text, 2, a.key, a.key+":more", a.token, a.ttl, a.waiter, a.patience).Int64()
	}
}

// grantOnNil returns a vote that grants the lock on a nil reply. Any other reply is the current
// holder's remaining time.
func unlessTaken(v vote) vote {
	return func(ctx context.Context, node *redis.Client, a request) (int64, error) {
		_, err := v(ctx, node, a)
		if errors.Is(err, redis.Nil) {
			return 1, nil
		}
		return 0, err
	}
}

// ttlFirstScript returns a vote that runs a script with one key and the arguments TTL and token.
func ttlFirst(text string) vote {
	return func(ctx context.Context, node *redis.Client, a request) (int64, error) {
		return node.Do(ctx, "EVAL", text, 1, a.key, a.ttl, a.token).Int64()
	}
}

var (
	compareAndDelete = script(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`)
	compareAndExpire = script(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0`)
	setOrOwn         = script(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end
if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return 1 end return 0`)
	setIfAbsent = script(`if redis.call("get", KEYS[1]) then return 0 end redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) return 1`)
	setAndCount = script(`if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return redis.call("incr", KEYS[2]) end return 0`)

	// fieldSet sets a field of a hash that counts its owner's acquires.
	fieldSet = unlessTaken(ttlFirst(`if redis.call("exists", KEYS[1]) == 0 or redis.call("hexists", KEYS[1], ARGV[2]) == 1 then
  redis.call("hincrby", KEYS[1], ARGV[2], 1) redis.call("pexpire", KEYS[1], ARGV[1]) return nil
end return redis.call("pttl", KEYS[1])`))
	fieldDelete = ttlFirst(`if redis.call("hexists", KEYS[1], ARGV[2]) == 0 then return 0 end
if redis.call("hincrby", KEYS[1], ARGV[2], -1) > 0 then redis.call("pexpire", KEYS[1], ARGV[1]) return 1 end
return redis.call("del", KEYS[1])`)
	fieldExpire  = ttlFirst(`if redis.call("hexists", KEYS[1], ARGV[2]) == 1 then return redis.call("pexpire", KEYS[1], ARGV[1]) end return 0`)
	deleteAnyway = ttlFirst(`return redis.call("del", KEYS[1])`)

	// A hash contains the tickets of waiting clients: each client's number and the time of its last
	// request. Among the clients that still ask, the one with the lowest number gets the lock next.
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

// setInTransaction returns a vote that sets the key and its expiry in a transaction. Without "NX",
// PEXPIRE extends another holder's key.
func inTransaction(condition ...any) vote {
	return func(ctx context.Context, node *redis.Client, a request) (int64, error) {
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

// setThenExpire sets the key and its expiry in two steps, between which a client can die.
func setThenExpire(ctx context.Context, node *redis.Client, a request) (int64, error) {
	n, err := node.Do(ctx, "SETNX", a.key, a.token).Int64()
	if n > 0 {
		err = node.Do(ctx, "PEXPIRE", a.key, a.ttl).Err()
	}
	return n, err
}

// checkThenSet sets a key that did not exist when it was checked.
func checkThenSet(ctx context.Context, node *redis.Client, a request) (int64, error) {
	if err := node.Do(ctx, "GET", a.key).Err(); !errors.Is(err, redis.Nil) {
		return 0, err
	}
	return 1, node.Do(ctx, "SET", a.key, a.token, "PX", a.ttl).Err()
}

// checkThenDelete deletes a key that belonged to the client when it was checked.
func checkThenDelete(ctx context.Context, node *redis.Client, a request) (int64, error) {
	switch value, err := node.Do(ctx, "GET", a.key).Text(); {
	case errors.Is(err, redis.Nil), err == nil && value != a.token:
		return 0, nil
	case err != nil:
		return 0, err
	}
	return node.Do(ctx, "DEL", a.key).Int64()
}

// setOrClaimAny treats any existing key as its own when it resends the request, because it assumes
// that its earlier request has set the key.
func setOrAny(ctx context.Context, node *redis.Client, a request) (int64, error) {
	n, err := set(ctx, node, a)
	if a.sent > 0 && err == nil {
		n = 1
	}
	return n, err
}

// countThenSet takes the fencing token before it has the lock.
func countThenSet(ctx context.Context, node *redis.Client, a request) (int64, error) {
	fence, err := node.Do(ctx, "INCR", a.key+":more").Int64()
	if err != nil {
		return 0, err
	}
	if n, err := set(ctx, node, a); n == 0 || err != nil {
		return 0, err
	}
	return fence, nil
}

// expireAnyway extends the key no matter who holds it.
func expireAnyway(ctx context.Context, node *redis.Client, a request) (int64, error) {
	return node.Do(ctx, "PEXPIRE", a.key, a.ttl).Int64()
}

// withTextToken returns a vote that sends the token as text, with invalid bytes replaced.
func asText(v vote) vote {
	return func(ctx context.Context, node *redis.Client, a request) (int64, error) {
		a.token = strings.ToValidUTF8(a.token, "\uFFFD")
		return v(ctx, node, a)
	}
}

// watch extends a hold automatically until the hold is released or lost.
type watch struct {
	lost, stop, done chan struct{}
}

// watchedHold is a hold that reports its loss.
type watchedHold struct{ *hold }

var _ lock.LossNotifier = watchedHold{}

func (w watchedHold) Lost() <-chan struct{} { return w.hold.watch.lost }

func (w *watch) end() {
	close(w.stop)
	<-w.done
}

// unusedShare is the share of a lease that the watchdog leaves unused. A holder that is paused for
// a shorter time still learns of the loss before another client gets the lock.
const unusedShare = 0.4

// startRenewal starts extending a hold that was requested at requestTime. The hold is considered
// lost when the node reports the loss, or when the node has not answered for most of the lease.
func (h *hold) startRenewal(asked time.Time) *watch {
	w := &watch{lost: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{})}
	until := func(asked time.Time) time.Time {
		return h.earliestExpiry(asked).Add(-time.Duration(unusedShare * float64(h.cfg.TTL)))
	}
	every := h.cfg.TTL * h.renew / 100
	go func() {
		defer close(w.done)
		for end, next := until(asked), every; ; {
			select {
			case <-w.stop:
				return
			case <-h.env.After(min(next, end.Sub(h.cfg.Now()))):
			}
			start := h.cfg.Now()
			if !start.Before(end) {
				close(w.lost)
				return
			}
			switch a := h.round(context.Background(), h.all, h.extend)[0]; {
			case a.No():
				close(w.lost)
				return
			case a.Yes():
				end, next = until(start), every
			default:
				next = min(every, h.cfg.Timeout)
			}
		}
	}()
	return w
}
