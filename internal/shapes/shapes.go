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
	Mistake   string       // what the broken version does wrong
	NewBroken lock.Factory // creates the broken version
	// Fenced reports whether the lock hands out fencing tokens.
	Fenced bool
}

// design specifies how one lock differs from the standard procedure.
type design struct {
	set, del      vote
	extend        vote          // nil if the lock can't be extended
	renewPercent  time.Duration // percentage of the TTL after which the lock extends itself; 0: it doesn't
	quorum        func(answers []driver.Answer) bool
	order         func(nodes []int) // orders the nodes for sequential requests; nil: all requests at once
	eager         bool              // an attempt returns once enough nodes have granted the lock
	giveUp        bool              // an attempt stops at the first refusal and undoes nothing
	grantedOnly   bool              // a release goes only to nodes that have certainly granted the lock
	maxRequests   int               // how many times an attempt asks a node that doesn't answer; 0: once
	skipUndo      bool              // an attempt with an unknown outcome is not undone
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
			l.nodeOrder = append(l.nodeOrder, i)
		}
		if d.order != nil {
			d.order(l.nodeOrder)
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
var singleServer = design{set: set, del: compareAndDelete, extend: compareAndExpire, quorum: atLeast(func(int) int { return 1 })}

// multiNode is the same design on several servers.
var multiNode = singleServer.modify(func(d *design) { d.quorum = atLeast(redlock.Quorum) })

func (d design) modify(change func(*design)) design {
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

func unanimousQuorum(n int) int { return n }

// binaryToken returns a token that contains arbitrary bytes.
func binaryToken(token string) string {
	raw, _ := hex.DecodeString(token)
	return string(raw) + "\r\n\x00\xff"
}

// oneNodeShape returns a shape that uses one server, and manyNodesShape a shape that uses all
// servers.
func oneNodeShape(doc, mistake string, correct, broken design) Shape {
	s := manyNodesShape(doc, mistake, correct, broken)
	s.OneNode = true
	return s
}

func manyNodesShape(doc, mistake string, correct, broken design) Shape {
	return Shape{Kind: lock.Kind{Doc: doc, New: factory(correct)}, Mistake: mistake, NewBroken: factory(broken)}
}

func (s Shape) modify(change func(*Shape)) Shape {
	change(&s)
	return s
}

// All contains all shapes by name.
var All = map[string]Shape{
	"instance": oneNodeShape("one key on one server", "compares and deletes in two steps",
		singleServer, singleServer.modify(func(d *design) { d.del = checkThenDelete })),
	"polling": oneNodeShape("retries after a constant delay", "does not undo an attempt with an unknown outcome",
		singleServer.modify(func(d *design) { d.constantDelay = true }), singleServer.modify(func(d *design) { d.constantDelay, d.skipUndo = true, true })),
	"idempotent": oneNodeShape("resends its request with the same token", "treats any existing key as its own when it resends",
		singleServer.modify(func(d *design) { d.set, d.maxRequests = setOrExtendOwn, 3 }), singleServer.modify(func(d *design) { d.set, d.maxRequests = setOrClaimAny, 3 })),
	"scripted": oneNodeShape("checks and sets in a script", "checks and sets in two steps",
		singleServer.modify(func(d *design) { d.set = setIfAbsent }), singleServer.modify(func(d *design) { d.set = checkThenSet })),
	"transaction": oneNodeShape("sets the key and its expiry in a transaction", "extends another holder's key with each attempt",
		singleServer.modify(func(d *design) { d.set = setInTransaction("NX") }), singleServer.modify(func(d *design) { d.set = setInTransaction() })),
	"binary": oneNodeShape("uses binary tokens", "converts the token to text when it releases",
		singleServer.modify(func(d *design) { d.token = binaryToken }),
		singleServer.modify(func(d *design) {
			d.token = binaryToken
			d.del = withTextToken(d.del)
		})),
	"field": oneNodeShape("is a field of a hash that counts its owner's acquires", "deletes the hash no matter who owns the field",
		singleServer.modify(func(d *design) { d.set, d.del, d.extend = fieldSet, fieldDelete, fieldExpire }),
		singleServer.modify(func(d *design) { d.set, d.del, d.extend = fieldSet, deleteAnyway, fieldExpire })),
	"counter": oneNodeShape("uses the number of its grants as the fencing token", "takes the fencing token before it has the lock",
		singleServer.modify(func(d *design) { d.set = setAndCount }), singleServer.modify(func(d *design) { d.set = countThenSet })).
		modify(func(s *Shape) { s.Can.Fence, s.Fenced = true, true }),
	"fair": oneNodeShape("grants the lock in the order of arrival", "keeps a client in the queue after it has stopped waiting",
		singleServer.modify(func(d *design) { d.set = ticketQueue("now - tonumber(at) > tonumber(ARGV[4])") }),
		singleServer.modify(func(d *design) { d.set = ticketQueue("false") })),
	"watchdog": oneNodeShape("extends itself and reports its loss", "extends without comparing the token",
		singleServer.modify(func(d *design) { d.renewPercent = 25 }),
		singleServer.modify(func(d *design) { d.renewPercent, d.extend = 25, expireAnyway })).
		modify(func(s *Shape) { s.Belief = lock.BySignal }),
	"endless": oneNodeShape("has no deadline for its holder", "sets the key and its expiry in two steps",
		singleServer.modify(func(d *design) { d.endless = true }), singleServer.modify(func(d *design) { d.endless, d.set = true, setThenExpire })).
		modify(func(s *Shape) { s.Belief = lock.ByNothing }),

	"reentrant": makeReentrant(oneNodeShape("can be acquired repeatedly by its holder", "is free after the first release",
		singleServer.modify(func(d *design) { d.set, d.del, d.extend = setHash, removeEntry, extendEntry }),
		singleServer.modify(func(d *design) { d.set, d.del, d.extend = setHash, removeHash, extendEntry }))),

	"majority": manyNodesShape("needs a majority of the nodes", "needs a majority of only those nodes that answer",
		multiNode, multiNode.modify(func(d *design) { d.quorum = atLeastOfAnswers(redlock.Quorum) })),
	"unanimous": manyNodesShape("needs all nodes", "needs only those nodes that answer",
		multiNode.modify(func(d *design) { d.quorum = atLeast(unanimousQuorum) }), multiNode.modify(func(d *design) { d.quorum = atLeastOfAnswers(unanimousQuorum) })).
		modify(func(s *Shape) { s.Quorum = unanimousQuorum }),
	"reversed": manyNodesShape("asks the nodes one by one, in reverse order", "gives up at the first refusal and keeps its keys",
		multiNode.modify(func(d *design) { d.order = slices.Reverse[[]int] }),
		multiNode.modify(func(d *design) { d.order, d.giveUp = slices.Reverse[[]int], true })),
	"hasty": manyNodesShape("returns once it has a quorum", "releases only on the nodes it has waited for",
		multiNode.modify(func(d *design) { d.eager = true }), multiNode.modify(func(d *design) { d.eager, d.grantedOnly = true, true })),
}

// ticketQueue returns a vote that runs the ticket script. silent is the condition for dropping a waiting
// client.
func ticketQueue(silent string) vote {
	return script(strings.Replace(ticketScript, "{{silent}}", silent, 1))
}

// locker is one client's lock.
type locker struct {
	lock.Clients[*redis.Client]
	design
	env                   lock.Env
	cfg                   redlock.Config
	nodeOrder             []int // in the order of requests
	numAttempts, numWaits int
}

// hold is an attempt, and the resulting hold if the attempt succeeds.
type hold struct {
	*locker
	req          request
	deadline     time.Time // zero if there is none
	fence        int64
	grantedNodes []int           // nodes that have certainly granted the lock
	lateAnswers  []chan struct{} // by node: closed once a late answer has arrived
	watch        *watch          // nil if the hold doesn't extend itself
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
	waiter := fmt.Sprintf("%s-%d", l.env.Client, l.numAttempts)
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
	l.numWaits++
	delay := l.env.Delay(l.numWaits, l.cfg.RetryMin, l.cfg.RetryMax)
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
	l.numAttempts++
	h := &hold{locker: l, req: request{key: key, token: l.env.Token(l.numAttempts), waiter: waiter, ttl: l.cfg.TTL.Milliseconds(), maxSilence: 2 * (l.cfg.RetryMax + l.cfg.Timeout).Milliseconds()}}
	if l.token != nil {
		h.req.token = l.token(h.req.token)
	}
	start := l.cfg.Now()
	answers := h.acquire(ctx)
	for _, a := range answers {
		if a.Yes() {
			h.grantedNodes = append(h.grantedNodes, a.Node)
			if l.env.Settings.Fence {
				h.fence = max(h.fence, a.Value)
			}
		}
	}
	if l.quorum(answers) && ctx.Err() == nil && l.cfg.Now().Before(l.earliestExpiry(start)) {
		if h.deadline = l.earliestExpiry(start); l.endless {
			h.deadline = time.Time{}
		}
		if l.renewPercent > 0 {
			h.deadline = time.Time{}
			h.watch = h.startRenewal(start)
		}
		return h
	}
	tally := driver.Count(answers)
	if !l.giveUp && (!l.skipUndo || tally.Yes+tally.No == tally.Total) {
		h.undo(ctx)
	}
	return nil
}

// earliestExpiry returns the earliest time at which a node may have dropped a key that was
// requested at requestTime.
func (l *locker) earliestExpiry(requestTime time.Time) time.Time {
	return requestTime.Add(l.cfg.TTL - redlock.Drift(l.cfg.TTL, l.cfg.Drift))
}

func (h *hold) acquire(ctx context.Context) []driver.Answer {
	if h.eager {
		return h.acquireEagerly(ctx)
	}
	if !h.giveUp {
		answers := h.round(ctx, h.nodeOrder, h.set)
		for ; h.req.numSent < h.maxRequests-1 && answers[0].Err != nil && ctx.Err() == nil; answers = h.round(ctx, h.nodeOrder, h.set) {
			h.req.numSent++
		}
		return answers
	}
	var answers []driver.Answer
	for _, node := range h.nodeOrder {
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
	h.lateAnswers = make([]chan struct{}, len(h.nodeOrder))
	received := make(chan driver.Answer, len(h.nodeOrder))
	for _, node := range h.nodeOrder {
		done := make(chan struct{})
		h.lateAnswers[node] = done
		go func() {
			defer close(done)
			received <- h.round(context.WithoutCancel(ctx), []int{node}, h.set)[0]
		}()
	}
	answers := make([]driver.Answer, len(h.nodeOrder))
	for i := range answers {
		answers[i] = driver.Answer{Node: i, Err: errNoAnswer}
	}
	for range h.nodeOrder {
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
	nodes := h.nodeOrder
	if h.grantedOnly {
		nodes = h.grantedNodes
	}
	if h.lateAnswers == nil || h.grantedOnly {
		return h.round(ctx, nodes, h.del)
	}
	answers := make([]driver.Answer, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		wg.Go(func() {
			<-h.lateAnswers[node]
			answers[i] = h.round(ctx, []int{node}, h.del)[0]
		})
	}
	wg.Wait()
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
	answers := h.round(ctx, h.nodeOrder, h.extend)
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
type reentrantLock struct {
	*locker
	currentHold *hold // nil if not held
	numEntries  int
}

// outermostHandle is the handle of the first acquire, which is released last.
type outermostHandle struct {
	*hold
	lock *reentrantLock
}

func (o outermostHandle) Release(ctx context.Context) error {
	o.lock.currentHold = nil
	return o.hold.Release(ctx)
}

func (r *reentrantLock) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	if r.currentHold != nil {
		return r.reenter(ctx)
	}
	h, err := r.locker.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	r.currentHold = h.(*hold)
	return outermostHandle{r.currentHold, r}, nil
}

// reenter acquires a held lock once more. No other client can hold the lock, so a refusal means
// that the lock is lost. Repeating the request is harmless.
func (r *reentrantLock) reenter(ctx context.Context) (lock.Handle, error) {
	r.numEntries++
	h := &hold{locker: r.locker, req: r.currentHold.req}
	h.req.waiter = fmt.Sprintf("again-%d", r.numEntries)
	for ctx.Err() == nil {
		start := r.cfg.Now()
		answers := h.round(ctx, h.nodeOrder, addEntry)
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
	setHash = script(`if redis.call("exists", KEYS[1]) == 1 then return 0 end
redis.call("hset", KEYS[1], ARGV[1], 1) redis.call("hset", KEYS[1], ARGV[1] .. ":" .. ARGV[3], 1)
return redis.call("pexpire", KEYS[1], ARGV[2])`)
	addEntry = script(`if redis.call("hexists", KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call("hset", KEYS[1], ARGV[1] .. ":" .. ARGV[3], 1)
return redis.call("pexpire", KEYS[1], ARGV[2])`)
	removeEntry = script(`if redis.call("hexists", KEYS[1], ARGV[1]) == 0 or redis.call("hdel", KEYS[1], ARGV[1] .. ":" .. ARGV[3]) == 0 then return 0 end
if redis.call("hlen", KEYS[1]) == 1 then redis.call("del", KEYS[1]) end return 1`)
	removeHash  = script(`if redis.call("hexists", KEYS[1], ARGV[1]) == 0 then return 0 end return redis.call("del", KEYS[1])`)
	extendEntry = script(`if redis.call("hexists", KEYS[1], ARGV[1]) == 0 then return 0 end return redis.call("pexpire", KEYS[1], ARGV[2])`)
)

// makeReentrant returns a version of a shape that its holder can acquire repeatedly.
func makeReentrant(s Shape) Shape {
	wrapFactory := func(make lock.Factory) lock.Factory {
		return func(env lock.Env) (lock.Lock, error) {
			l, err := make(env)
			if err != nil {
				return nil, err
			}
			return &reentrantLock{locker: l.(*locker)}, nil
		}
	}
	s.New, s.NewBroken, s.Can.Reenter = wrapFactory(s.New), wrapFactory(s.NewBroken), true
	return s
}

// request contains the arguments of a command to a node.
type request struct {
	key, token string
	waiter     string // identifies one acquire, across all its attempts
	ttl        int64  // milliseconds
	maxSilence int64  // milliseconds of silence after which a waiting client is dropped
	numSent    int    // number of times the request was sent before
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
		return node.Do(ctx, "EVAL", text, 2, a.key, a.key+":more", a.token, a.ttl, a.waiter, a.maxSilence).Int64()
	}
}

// grantOnNil returns a vote that grants the lock on a nil reply. Any other reply is the current
// holder's remaining time.
func grantOnNil(v vote) vote {
	return func(ctx context.Context, node *redis.Client, a request) (int64, error) {
		_, err := v(ctx, node, a)
		if errors.Is(err, redis.Nil) {
			return 1, nil
		}
		return 0, err
	}
}

// ttlFirstScript returns a vote that runs a script with one key and the arguments TTL and token.
func ttlFirstScript(text string) vote {
	return func(ctx context.Context, node *redis.Client, a request) (int64, error) {
		return node.Do(ctx, "EVAL", text, 1, a.key, a.ttl, a.token).Int64()
	}
}

var (
	compareAndDelete = script(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end return 0`)
	compareAndExpire = script(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end return 0`)
	setOrExtendOwn   = script(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end
if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return 1 end return 0`)
	setIfAbsent = script(`if redis.call("get", KEYS[1]) then return 0 end redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) return 1`)
	setAndCount = script(`if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then return redis.call("incr", KEYS[2]) end return 0`)

	// fieldSet sets a field of a hash that counts its owner's acquires.
	fieldSet = grantOnNil(ttlFirstScript(`if redis.call("exists", KEYS[1]) == 0 or redis.call("hexists", KEYS[1], ARGV[2]) == 1 then
  redis.call("hincrby", KEYS[1], ARGV[2], 1) redis.call("pexpire", KEYS[1], ARGV[1]) return nil
end return redis.call("pttl", KEYS[1])`))
	fieldDelete = ttlFirstScript(`if redis.call("hexists", KEYS[1], ARGV[2]) == 0 then return 0 end
if redis.call("hincrby", KEYS[1], ARGV[2], -1) > 0 then redis.call("pexpire", KEYS[1], ARGV[1]) return 1 end
return redis.call("del", KEYS[1])`)
	fieldExpire  = ttlFirstScript(`if redis.call("hexists", KEYS[1], ARGV[2]) == 1 then return redis.call("pexpire", KEYS[1], ARGV[1]) end return 0`)
	deleteAnyway = ttlFirstScript(`return redis.call("del", KEYS[1])`)

	// A hash contains the tickets of waiting clients: each client's number and the time of its last
	// request. Among the clients that still ask, the one with the lowest number gets the lock next.
	ticketScript = `local now = redis.call("time") now = now[1] * 1000 + math.floor(now[2] / 1000)
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
func setInTransaction(condition ...any) vote {
	return func(ctx context.Context, node *redis.Client, a request) (int64, error) {
		var setReply *redis.Cmd
		_, err := node.TxPipelined(ctx, func(p redis.Pipeliner) error {
			setReply = p.Do(ctx, "SETNX", a.key, a.token)
			p.Do(ctx, append([]any{"PEXPIRE", a.key, a.ttl}, condition...)...)
			return nil
		})
		if err != nil {
			return 0, err
		}
		return setReply.Int64()
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
func setOrClaimAny(ctx context.Context, node *redis.Client, a request) (int64, error) {
	n, err := set(ctx, node, a)
	if a.numSent > 0 && err == nil {
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
func withTextToken(v vote) vote {
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
func (h *hold) startRenewal(requestTime time.Time) *watch {
	w := &watch{lost: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{})}
	latestStop := func(requestTime time.Time) time.Time {
		return h.earliestExpiry(requestTime).Add(-time.Duration(unusedShare * float64(h.cfg.TTL)))
	}
	interval := h.cfg.TTL * h.renewPercent / 100
	go func() {
		defer close(w.done)
		for end, next := latestStop(requestTime), interval; ; {
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
			switch a := h.round(context.Background(), h.nodeOrder, h.extend)[0]; {
			case a.No():
				close(w.lost)
				return
			case a.Yes():
				end, next = latestStop(start), interval
			default:
				next = min(interval, h.cfg.Timeout)
			}
		}
	}()
	return w
}
