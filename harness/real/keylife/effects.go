package keylife

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"lockpick/harness/history"
)

// command is a command that was executed, with the instant by which relative expiries
// count, in milliseconds of the node's clock.
type command struct {
	args []string
	now  int64
}

// effect is what a key is after a command, which the node says did `done` to it. Whether
// a condition of the command's held is in that word: there is none where it did not.
// before gives what keys were before the command.
func (c command) effect(key, done string, before func(key string) *state) *state {
	switch done {
	case "del", "rename_from", "move_from":
		return nil
	case "rename_to", "copy_to":
		return before(c.args[1])
	}
	was := state{}
	if s := before(key); s != nil {
		was = *s
	}
	switch name := strings.ToLower(c.args[0]); name {
	case "expire", "pexpire", "expireat", "pexpireat":
		was.expires = c.expiry(strings.TrimPrefix(strings.ToUpper(name), "P")[len("EXPIRE"):], name[0] == 'p', c.word(2))
		return &was
	case "persist":
		was.expires = 0
		return &was
	case "getex":
		c.expires(&was, 2)
		return &was
	case "hset", "hmset", "hsetnx", "hincrby", "hdel":
		return c.hash(name, was)
	case "lpush", "rpush", "lpushx", "rpushx", "lpop", "rpop":
		return c.list(name, was)
	default:
		return c.text(name, key, was)
	}
}

// text is the effect of what makes or changes a string.
func (c command) text(name, key string, was state) *state {
	made := &state{kind: "string"}
	switch name {
	case "set":
		made.words, made.expires = []string{c.word(2)}, 0
		if keepsExpiry(c.args[3:]) {
			made.expires = was.expires
		}
		c.expires(made, 3)
	case "setnx", "getset":
		made.words = []string{c.word(2)}
	case "setex", "psetex":
		made.words, made.expires = []string{c.word(3)}, c.expiry("", name[0] == 'p', c.word(2))
	case "mset", "msetnx":
		for i := 1; i+1 < len(c.args); i += 2 {
			if c.args[i] == key {
				made.words = []string{c.args[i+1]}
			}
		}
	case "append":
		made.words, made.expires = []string{was.text() + c.word(2)}, was.expires
	case "incr", "decr", "incrby", "decrby":
		made.words, made.expires = []string{c.sum(name, was.text())}, was.expires
	default:
		return &state{expires: was.expires} // somebody else's command
	}
	return made
}

func (c command) word(i int) string {
	if i < len(c.args) {
		return c.args[i]
	}
	return ""
}

func keepsExpiry(options []string) bool {
	return slices.ContainsFunc(options, func(o string) bool { return strings.EqualFold(o, "KEEPTTL") })
}

// expires reads EX, PX, EXAT, PXAT or PERSIST among a command's options.
func (c command) expires(s *state, from int) {
	for i := from; i < len(c.args); i++ {
		switch word := strings.ToUpper(c.args[i]); word {
		case "EX", "PX", "EXAT", "PXAT":
			s.expires = c.expiry(word[2:], word[0] == 'P', c.word(i+1))
			return
		case "PERSIST":
			s.expires = 0
			return
		}
	}
}

// expiry is when something expires: at an instant or after a time, in milliseconds or
// seconds.
func (c command) expiry(at string, millis bool, when string) int64 {
	t, _ := strconv.ParseInt(when, 10, 64) // the node has read it
	if !millis {
		t *= 1000
	}
	if at == "" {
		t += c.now
	}
	return t
}

func (c command) sum(name, was string) string {
	by := int64(1)
	if strings.HasSuffix(name, "by") {
		by, _ = strconv.ParseInt(c.word(2), 10, 64)
	}
	if strings.HasPrefix(name, "decr") {
		by = -by
	}
	n, _ := strconv.ParseInt(was, 10, 64)
	return strconv.FormatInt(n+by, 10)
}

// hash is the effect of what changes a hash; one that is empty is gone, which the node says.
func (c command) hash(name string, was state) *state {
	now := state{kind: "hash", words: slices.Clone(was.words), expires: was.expires}
	if name == "hdel" {
		for _, field := range c.args[2:] {
			if i := now.field(field); i >= 0 {
				now.words = slices.Delete(now.words, i, i+2)
			}
		}
		return &now
	}
	for i := 2; i+1 < len(c.args); i += 2 {
		at, value := now.field(c.args[i]), c.args[i+1]
		if name == "hincrby" {
			n := int64(0)
			if at >= 0 {
				n, _ = strconv.ParseInt(now.words[at+1], 10, 64)
			}
			by, _ := strconv.ParseInt(value, 10, 64)
			value = strconv.FormatInt(n+by, 10)
		}
		if at < 0 {
			now.words = append(now.words, c.args[i], value)
		} else {
			now.words[at+1] = value
		}
	}
	return &now
}

// field is where a hash has a field; −1: nowhere.
func (s *state) field(name string) int {
	for i := 0; i < len(s.words); i += 2 {
		if s.words[i] == name {
			return i
		}
	}
	return -1
}

func (c command) list(name string, was state) *state {
	now := state{kind: "list", words: slices.Clone(was.words), expires: was.expires}
	switch {
	case strings.HasPrefix(name, "rpush"):
		now.words = append(now.words, c.args[2:]...)
	case strings.HasPrefix(name, "lpush"):
		for _, w := range c.args[2:] {
			now.words = slices.Insert(now.words, 0, w)
		}
	default:
		count := 1
		if len(c.args) > 2 {
			count, _ = strconv.Atoi(c.args[2])
		}
		count = min(count, len(now.words))
		if name == "lpop" {
			now.words = now.words[count:]
		} else {
			now.words = now.words[:len(now.words)-count]
		}
	}
	return &now
}

// cause is who did something, and when.
type cause struct {
	by, command    string
	script         bool
	sent, answered int64 // by Clock, as a link saw it; 0: none did
	clock          int64 // the node's, by which its expiries count
}

// bounds is when something happened, by Clock: at t as far as one can say, and for certain
// not before lo and not after hi.
type bounds struct{ t, lo, hi int64 }

// fact is a fact before it is numbered.
type fact struct {
	what          history.Change
	key           string
	before, after *state
	bounds
	clock int64 // the node's
	cause
	why string
}

// take makes facts of what a stream tells.
func (n *node) take(s *stream, items []item) {
	for _, it := range items {
		if it.args == nil {
			n.pending = append(n.pending, it)
			continue
		}
		n.line(s, it)
	}
	if len(items) > 0 {
		n.told = items[len(items)-1].at
	}
	// What came by the clock alone has no command: it has been waited for long enough.
	if !slices.ContainsFunc(n.pending, func(it item) bool { return !natural(it.done) }) {
		for _, it := range n.pending {
			n.t = max(n.t, it.at)
			n.end(it, bounds{n.t, n.low, it.at}, n.t+n.ahead)
		}
		n.pending = nil
	}
}

// natural says whether something is done to a key by no command.
func natural(done string) bool { return done == "expired" || done == "evicted" }

// line takes the command that did what is pending, which may be nothing.
func (n *node) line(s *stream, it item) {
	who := n.whose(s, it)
	when := n.when(it, who)
	events := n.pending
	n.pending = nil
	for len(events) > 0 && natural(events[0].done) {
		n.end(events[0], when, it.clock)
		events = events[1:]
	}
	name := strings.ToLower(it.args[0])
	who.command = name
	if flushes(name, it.args[1:]) {
		for _, key := range slices.Sorted(maps.Keys(n.keys)) {
			n.become(fact{what: history.KeyFlushed, key: key, bounds: when, clock: it.clock, cause: who})
		}
	}
	// Commands that do several things to a key do them to none in between.
	after := map[string]*state{}
	var order []string
	for _, e := range events {
		if natural(e.done) {
			n.end(e, when, it.clock)
			continue
		}
		if _, is := after[e.key]; !is {
			order = append(order, e.key)
		}
		after[e.key] = effectOf(it, who, e, func(key string) *state { return n.keys[key] })
	}
	for _, key := range order {
		f := fact{key: key, after: after[key], bounds: when, clock: it.clock, cause: who}
		if !slices.Contains(it.args, key) {
			f.cause = cause{} // it was done on somebody else's behalf
		}
		if f.what = change(n.keys[key], f.after); f.what != "" {
			n.become(f)
		}
	}
}

// flushes says whether a command drops all keys, of which there are no events.
func flushes(name string, options []string) bool {
	if name != "flushall" && name != "flushdb" {
		return false
	}
	return len(options) == 0 || len(options) == 1 && (strings.EqualFold(options[0], "SYNC") || strings.EqualFold(options[0], "ASYNC"))
}

// effectOf is what a key is after an event of a command.
func effectOf(it item, who cause, e item, before func(key string) *state) *state {
	if e.done != "del" && !slices.Contains(it.args, e.key) {
		return &state{}
	}
	c := command{args: it.args, now: who.clock / 1e6}
	return c.effect(e.key, e.done, before)
}

// whose finds who sent a command, and when.
func (n *node) whose(s *stream, it item) (who cause) {
	if it.from == byScript {
		who = n.script
		who.script = true
		if !s.frozen {
			who.clock = it.clock
		}
		return who
	}
	who = cause{by: it.from, clock: it.clock}
	if it.from == s.own {
		s.mark(it.args)
		who.by = history.Harness
	} else if of, is := n.senders.Load(it.from); is {
		of.(*sender).claim(&who, it.args, n.lives.origin.Load())
	}
	if who.sent == 0 && n.lives.cfg.Ours(s.server, it.from) { // a link may have had that port before
		who.by = history.Harness
	}
	switch strings.ToLower(it.args[0]) {
	case "eval", "evalsha", "fcall", "eval_ro", "evalsha_ro", "fcall_ro":
		n.script = who
	}
	return who
}

// doubt is by how much a stamp of a clock that is right may be outside of its bounds.
const doubt = 1_000_000

// when bounds a command's instant: after it entered its link and what the node did before,
// and before it was told or answered. In between the node's clock says when, unless just turned.
func (n *node) when(it item, who cause) bounds {
	b := bounds{lo: max(n.low, who.sent), hi: it.at}
	if who.answered != 0 {
		b.hi = min(b.hi, who.answered)
	}
	b.lo = min(b.lo, b.hi)
	b.t = b.hi
	for _, ahead := range []int64{n.lives.wall, n.ahead} { // right, or as wrong as before
		if t := it.clock - ahead; t >= b.lo-doubt && t <= b.hi+doubt {
			b.t = t
			break
		}
	}
	b.t = min(max(b.t, b.lo, n.t), b.hi)
	n.low, n.t, n.ahead = b.lo, b.t, it.clock-b.t
	return b
}

// end takes in that a key has expired, or was evicted. The node's clock, as a line tells it, may have
// been turned in between: no key expires by one that is not there yet.
func (n *node) end(it item, when bounds, clock int64) {
	f := fact{what: history.KeyExpired, key: it.key, bounds: when, clock: max(clock, n.keys[it.key].until())}
	if it.done == "evicted" {
		f.what, f.clock = history.KeyEvicted, clock
	}
	n.become(f)
}

// become records a fact that makes a key what it is now.
func (n *node) become(f fact) {
	f.before = n.keys[f.key]
	if f.before != nil {
		n.past[f.key] = append(n.past[f.key], f.before)
	}
	n.keys[f.key] = f.after
	if f.after == nil {
		delete(n.keys, f.key)
	}
	n.record(f)
}

func (n *node) record(f fact) {
	n.seq++
	origin := n.lives.origin.Load()
	e := history.Event{
		T: f.t - origin, Process: n.name, Type: history.Info, Op: history.OpLife, Key: f.key, Local: f.clock,
		Life: &history.Life{
			What: f.what, Seq: n.seq, Run: n.run, Value: f.after.text(), Old: f.before.text(), Expires: f.after.until(), Before: f.before.until(),
			Lo: f.lo - origin, Hi: f.hi - origin, By: f.by, Command: f.command, Script: f.script, Why: f.why,
		},
	}
	if f.sent != 0 {
		e.Sent = f.sent - origin
	}
	n.lives.cfg.Record(e)
}
