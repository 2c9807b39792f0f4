// Package shapes is locks as strangers build them: each of another shape, correct, and
// beside it the same with the one mistake that its shape invites. They are fixtures of tests:
// what the harness says of a correct one that it violates is a false alarm, and what it
// doesn't see of a wrong one is a gap.
//
// Its nouns are the design, which is what one shape does in place of the common course,
// the vote, what one node is asked, and the Shape, a line of All with both designs.
//
// Deliberately missing: a place in the table of kinds, for nobody should use one, and any
// mistake that the reference can make, too: those are in package broken.
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

// Shape is a lock that is correct, and one that is not.
type Shape struct {
	lock.Kind
	Slip  string       // what the other one does wrong
	Wrong lock.Factory // the other one
	// Fenced: it hands out fencing tokens.
	Fenced bool
}

// design is one lock: where its course differs from the common one.
type design struct {
	set, del vote
	extend   vote          // nil: it can't be extended
	renew    time.Duration // share of the TTL after which it extends by itself, in percent; 0: never
	quorum   func(answers []driver.Answer) bool
	order    func(nodes []int) // in which nodes are asked in turn; nil: all at once
	hasty    bool              // it returns as soon as enough have said yes
	giveUp   bool              // it asks nobody else once one has said no, and undoes nothing
	chosen   bool              // a release goes to those only that are known to have granted
	sends    int               // how often an attempt asks a node that doesn't answer; 0: once
	leaves   bool              // an attempt whose outcome nobody knows is not undone
	even     bool              // the delay between two attempts is always the same
	endless  bool              // a hold has no deadline
	token    func(token string) string
}

// factory makes the lock of a design.
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
			return nil, fmt.Errorf("make a lock of the shapes: %w", err)
		}
		return l, nil
	}
}

// instance is one key on one server, which most of the others change in one thing.
var instance = design{set: set, del: compareAndDelete, extend: compareAndExpire, quorum: atLeast(func(int) int { return 1 })}

// votes is the same on several.
var votes = instance.but(func(d *design) { d.quorum = atLeast(redlock.Quorum) })

func (d design) but(change func(*design)) design {
	change(&d)
	return d
}

// atLeast is a quorum of so many of all nodes.
func atLeast(of func(n int) int) func([]driver.Answer) bool {
	return func(all []driver.Answer) bool { return driver.Count(all).Yes >= of(len(all)) }
}

// ofThoseThatAnswer is a quorum of those that gave an answer.
func ofThoseThatAnswer(of func(n int) int) func([]driver.Answer) bool {
	return func(all []driver.Answer) bool {
		t := driver.Count(all)
		return t.Yes > 0 && t.Yes >= of(t.Yes+t.No)
	}
}

func every(n int) int { return n }

// binary is the token's bytes as they are.
func binary(token string) string {
	raw, _ := hex.DecodeString(token)
	return string(raw) + "\r\n\x00\xff"
}

// one is a shape on one server, and several one on all.
func one(doc, slip string, right, wrong design) Shape {
	s := several(doc, slip, right, wrong)
	s.OneNode = true
	return s
}

func several(doc, slip string, right, wrong design) Shape {
	return Shape{Kind: lock.Kind{Doc: doc, New: factory(right)}, Slip: slip, Wrong: factory(wrong)}
}

func (s Shape) with(change func(*Shape)) Shape {
	change(&s)
	return s
}

// All has each shape by its name.
var All = map[string]Shape{
	"instance": one("one key on one server", "compares and deletes in two steps",
		instance, instance.but(func(d *design) { d.del = lookThenDelete })),
	"polling": one("tries and waits for always the same time", "does not undo an attempt whose outcome it doesn't know",
		instance.but(func(d *design) { d.even = true }), instance.but(func(d *design) { d.even, d.leaves = true, true })),
	"idempotent": one("may be sent again, with the same token", "takes any key for its own once it has asked before",
		instance.but(func(d *design) { d.set, d.sends = setOrOwn, 3 }), instance.but(func(d *design) { d.set, d.sends = setOrAnybody, 3 })),
	"scripted": one("looks and sets in a script", "looks and sets in two steps",
		instance.but(func(d *design) { d.set = setIfNothing }), instance.but(func(d *design) { d.set = lookThenSet })),
	"transaction": one("sets the key and its expiry in a transaction", "gives whoever holds the key more time by trying",
		instance.but(func(d *design) { d.set = inTransaction("NX") }), instance.but(func(d *design) { d.set = inTransaction() })),
	"binary": one("has tokens of any bytes", "passes the token on as text when it releases",
		instance.but(func(d *design) { d.token = binary }),
		instance.but(func(d *design) {
			d.token = binary
			d.del = asText(d.del)
		})),
	"field": one("is a field of a hash, which counts how often its owner has it", "deletes the hash whoever has the field",
		instance.but(func(d *design) { d.set, d.del, d.extend = fieldSet, fieldDelete, fieldExpire }),
		instance.but(func(d *design) { d.set, d.del, d.extend = fieldSet, deleteAnyway, fieldExpire })),
	"counter": one("counts its grants for fencing tokens", "draws the fencing token before it has the lock",
		instance.but(func(d *design) { d.set = setAndCount }), instance.but(func(d *design) { d.set = countThenSet })).
		with(func(s *Shape) { s.Can.Fence, s.Fenced = true, true }),
	"fair": one("gives the lock to those who wait in turn", "keeps the place of one who waits no more",
		instance.but(func(d *design) { d.set = queue("now - tonumber(at) > tonumber(ARGV[4])") }),
		instance.but(func(d *design) { d.set = queue("false") })),
	"watchdog": one("extends by itself and tells of a loss", "extends without comparing the token",
		instance.but(func(d *design) { d.renew = 25 }),
		instance.but(func(d *design) { d.renew, d.extend = 25, expireAnyway })).
		with(func(s *Shape) { s.Belief = lock.BySignal }),
	"endless": one("has no deadline for its holder", "sets the key and its expiry in two steps",
		instance.but(func(d *design) { d.endless = true }), instance.but(func(d *design) { d.endless, d.set = true, setThenExpire })).
		with(func(s *Shape) { s.Belief = lock.ByNothing }),

	"reentrant": reentering(one("can be acquired again by who holds it", "lets go at the first of its releases",
		instance.but(func(d *design) { d.set, d.del, d.extend = setFirst, leave, holdsOnTo }),
		instance.but(func(d *design) { d.set, d.del, d.extend = setFirst, leaveAll, holdsOnTo }))),

	"majority": several("most of the nodes", "counts those only that answer",
		votes, votes.but(func(d *design) { d.quorum = ofThoseThatAnswer(redlock.Quorum) })),
	"unanimous": several("all nodes", "counts those only that answer",
		votes.but(func(d *design) { d.quorum = atLeast(every) }), votes.but(func(d *design) { d.quorum = ofThoseThatAnswer(every) })).
		with(func(s *Shape) { s.Quorum = every }),
	"reversed": several("asks the nodes in turn, the last first", "gives up at the first no, and keeps what it has",
		votes.but(func(d *design) { d.order = slices.Reverse[[]int] }),
		votes.but(func(d *design) { d.order, d.giveUp = slices.Reverse[[]int], true })),
	"hasty": several("returns once it has a quorum", "releases those only that it has waited for",
		votes.but(func(d *design) { d.hasty = true }), votes.but(func(d *design) { d.hasty, d.chosen = true, true })),
}

// queue is the vote of the script of tickets; silent says when one who waits is forgotten.
func queue(silent string) vote { return script(strings.Replace(ticket, "{{silent}}", silent, 1)) }

// locker is one client's lock.
type locker struct {
	lock.Clients[*redis.Client]
	design
	env          lock.Env
	cfg          redlock.Config
	all          []int // the nodes, in the order in which they are asked
	drawn, waits int
}

// hold is what one attempt sets, and is held once it is there.
type hold struct {
	*locker
	ask      ask
	deadline time.Time // zero: none
	fence    int64
	granted  []int           // nodes that are known to have said yes
	pending  []chan struct{} // of each node: closed once it has answered, where nobody waited for it
	watch    *watch          // nil: it doesn't extend by itself
}

var (
	_ lock.Extender = (*hold)(nil)
	_ lock.Tokener  = (*hold)(nil)
	_ lock.Fencer   = (*hold)(nil)
)

func (h *hold) Token() string       { return h.ask.token }
func (h *hold) Fence() int64        { return h.fence }
func (h *hold) Deadline() time.Time { return h.deadline }

func (l *locker) Acquire(ctx context.Context, key string) (lock.Handle, error) {
	waiter := fmt.Sprintf("%s-%d", l.env.Client, l.drawn)
	for ctx.Err() == nil {
		h := l.attempt(ctx, key, waiter)
		if h == nil {
			l.wait(ctx)
			continue
		}
		if h.watch != nil {
			return watched{h}, nil
		}
		return h, nil
	}
	return nil, fmt.Errorf("acquire %q: %w", key, ctx.Err())
}

func (l *locker) wait(ctx context.Context) {
	l.waits++
	delay := l.env.Delay(l.waits, l.cfg.RetryMin, l.cfg.RetryMax)
	if l.even {
		delay = l.cfg.RetryMax / 2
	}
	select {
	case <-l.env.After(delay):
	case <-ctx.Done():
	}
}

// attempt asks once. What may have been set of one that failed it undoes.
func (l *locker) attempt(ctx context.Context, key, waiter string) *hold {
	l.drawn++
	h := &hold{locker: l, ask: ask{key: key, token: l.env.Token(l.drawn), waiter: waiter, ttl: l.cfg.TTL.Milliseconds(), patience: 2 * (l.cfg.RetryMax + l.cfg.Timeout).Milliseconds()}}
	if l.token != nil {
		h.ask.token = l.token(h.ask.token)
	}
	start := l.cfg.Now()
	answers := h.take(ctx)
	for _, a := range answers {
		if a.Yes() {
			h.granted = append(h.granted, a.Node)
			if l.env.Settings.Fence {
				h.fence = max(h.fence, a.Value)
			}
		}
	}
	if l.quorum(answers) && ctx.Err() == nil && l.cfg.Now().Before(l.until(start)) {
		if h.deadline = l.until(start); l.endless {
			h.deadline = time.Time{}
		}
		if l.renew > 0 {
			h.deadline = time.Time{}
			h.watch = h.renewed(start)
		}
		return h
	}
	unknown := driver.Count(answers)
	if !l.giveUp && (!l.leaves || unknown.Yes+unknown.No == unknown.All) {
		h.drop(ctx)
	}
	return nil
}

// until is when the node may have forgotten what was asked of it at an instant.
func (l *locker) until(asked time.Time) time.Time {
	return asked.Add(l.cfg.TTL - redlock.Drift(l.cfg.TTL, l.cfg.Drift))
}

// take asks the nodes for the lock.
func (h *hold) take(ctx context.Context) []driver.Answer {
	if h.hasty {
		return h.takeHastily(ctx)
	}
	if !h.giveUp {
		answers := h.round(ctx, h.all, h.set)
		for ; h.ask.sent < h.sends-1 && answers[0].Err != nil && ctx.Err() == nil; answers = h.round(ctx, h.all, h.set) {
			h.ask.sent++
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

// round asks some nodes and waits for their answers.
func (h *hold) round(ctx context.Context, nodes []int, v vote) []driver.Answer {
	return h.cfg.Ask(ctx, nodes, func(ctx context.Context, node int) (int64, error) { return v(ctx, h.Clients[node], h.ask) })
}

// takeHastily asks all and returns once enough have said yes, or once all have answered.
// What a node is asked next waits for its answer.
func (h *hold) takeHastily(ctx context.Context) []driver.Answer {
	h.pending = make([]chan struct{}, len(h.all))
	came := make(chan driver.Answer, len(h.all))
	for _, node := range h.all {
		done := make(chan struct{})
		h.pending[node] = done
		go func() {
			defer close(done)
			came <- h.round(context.WithoutCancel(ctx), []int{node}, h.set)[0]
		}()
	}
	answers := make([]driver.Answer, len(h.all))
	for i := range answers {
		answers[i] = driver.Answer{Node: i, Err: errSilent}
	}
	for range h.all {
		a := <-came
		if answers[a.Node] = a; h.quorum(answers) {
			break
		}
	}
	return answers
}

var errSilent = errors.New("no answer yet")

// drop gives back what was set, or may have been, on all nodes.
func (h *hold) drop(ctx context.Context) []driver.Answer {
	ctx = context.WithoutCancel(ctx)
	nodes := h.all
	if h.chosen {
		nodes = h.granted
	}
	if h.pending == nil || h.chosen {
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
	return h.outcome("release", h.drop(ctx))
}

func (h *hold) Extend(ctx context.Context) error {
	start := h.cfg.Now()
	if !start.Before(h.deadline) {
		return fmt.Errorf("extend %q: its deadline has passed", h.ask.key)
	}
	answers := h.round(ctx, h.all, h.extend)
	if err := h.outcome("extend", answers); err != nil {
		return err
	}
	if !h.cfg.Now().Before(h.deadline) {
		return fmt.Errorf("extend %q: it took too long", h.ask.key)
	}
	h.deadline = h.until(start)
	return nil
}

// outcome is what answers come to: a no is definite where the others can't make a quorum.
func (h *hold) outcome(op string, answers []driver.Answer) error {
	could := make([]driver.Answer, len(answers))
	for i, a := range answers {
		if could[i] = a; a.Err != nil {
			could[i] = driver.Answer{Node: a.Node, Value: 1}
		}
	}
	switch {
	case h.quorum(answers):
		return nil
	case !h.quorum(could):
		return fmt.Errorf("%s %q: %w", op, h.ask.key, lock.ErrNotHeld)
	}
	return fmt.Errorf("%s %q: outcome unknown", op, h.ask.key)
}

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

// watch extends a hold by itself until it is given back or lost.
type watch struct {
	lost, stop, done chan struct{}
}

// watched is a hold that tells of its loss.
type watched struct{ *hold }

var _ lock.Loser = watched{}

func (w watched) Lost() <-chan struct{} { return w.hold.watch.lost }

func (w *watch) end() {
	close(w.stop)
	<-w.done
}

// spare is the share of a lease that a watchdog leaves unused, so that a holder who is paused
// for less learns of the loss before another has the lock.
const spare = 0.4

// renewed extends a hold that was asked for at an instant, every so often. It is lost where a
// node says so, and where none has said anything for most of the lease.
func (h *hold) renewed(asked time.Time) *watch {
	w := &watch{lost: make(chan struct{}), stop: make(chan struct{}), done: make(chan struct{})}
	until := func(asked time.Time) time.Time { return h.until(asked).Add(-time.Duration(spare * float64(h.cfg.TTL))) }
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
