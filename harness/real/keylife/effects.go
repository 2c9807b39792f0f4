package keylife

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"lockpick/harness/history"
)

// command is a command executed by the node. now is the start of relative expiries, in milliseconds
// of the node's clock.
type command struct {
	args []string
	now  int64
}

// effect returns a key's state after a command for which the node has reported an event. Commands
// whose condition was not met have no event. before returns a key's state before the command.
func (c command) effect(key, event string, before func(key string) *state) *state {
	switch event {
	case "del", "rename_from", "move_from":
		return nil
	case "rename_to", "copy_to":
		return before(c.args[1])
	}
	result := state{}
	if s := before(key); s != nil {
		result = *s
	}
	switch name := strings.ToLower(c.args[0]); name {
	case "expire", "pexpire", "expireat", "pexpireat":
		result.expiry = c.expiry(strings.TrimPrefix(strings.ToUpper(name), "P")[len("EXPIRE"):], name[0] == 'p', c.arg(2))
		return &result
	case "persist":
		result.expiry = 0
		return &result
	case "getex":
		c.setExpiry(&result, 2)
		return &result
	case "hset", "hmset", "hsetnx", "hincrby", "hdel":
		return c.hashEffect(name, result)
	case "lpush", "rpush", "lpushx", "rpushx", "lpop", "rpop":
		return c.listEffect(name, result)
	default:
		return c.stringEffect(name, key, result)
	}
}

// stringEffect returns the state after a command that sets or changes a string.
func (c command) stringEffect(name, key string, old state) *state {
	result := &state{kind: "string"}
	switch name {
	case "set":
		result.elements, result.expiry = []string{c.arg(2)}, 0
		if hasKeepTTL(c.args[3:]) {
			result.expiry = old.expiry
		}
		c.setExpiry(result, 3)
	case "setnx", "getset":
		result.elements = []string{c.arg(2)}
	case "setex", "psetex":
		result.elements, result.expiry = []string{c.arg(3)}, c.expiry("", name[0] == 'p', c.arg(2))
	case "mset", "msetnx":
		for i := 1; i+1 < len(c.args); i += 2 {
			if c.args[i] == key {
				result.elements = []string{c.args[i+1]}
			}
		}
	case "append":
		result.elements, result.expiry = []string{old.text() + c.arg(2)}, old.expiry
	case "incr", "decr", "incrby", "decrby":
		result.elements, result.expiry = []string{c.increment(name, old.text())}, old.expiry
	default:
		return &state{expiry: old.expiry} // unsupported command
	}
	return result
}

func (c command) arg(i int) string {
	if i < len(c.args) {
		return c.args[i]
	}
	return ""
}

func hasKeepTTL(options []string) bool {
	return slices.ContainsFunc(options, func(o string) bool { return strings.EqualFold(o, "KEEPTTL") })
}

// setExpiry applies the option EX, PX, EXAT, PXAT or PERSIST, if the command has one.
func (c command) setExpiry(s *state, from int) {
	for i := from; i < len(c.args); i++ {
		switch option := strings.ToUpper(c.args[i]); option {
		case "EX", "PX", "EXAT", "PXAT":
			s.expiry = c.expiry(option[2:], option[0] == 'P', c.arg(i+1))
			return
		case "PERSIST":
			s.expiry = 0
			return
		}
	}
}

// expiry returns an absolute expiry in milliseconds. The argument when is in milliseconds or
// seconds. It is relative to the command's time if at is empty.
func (c command) expiry(at string, millis bool, when string) int64 {
	t, _ := strconv.ParseInt(when, 10, 64) // no error, because the node has accepted it
	if !millis {
		t *= 1000
	}
	if at == "" {
		t += c.now
	}
	return t
}

func (c command) increment(name, old string) string {
	delta := int64(1)
	if strings.HasSuffix(name, "by") {
		delta, _ = strconv.ParseInt(c.arg(2), 10, 64)
	}
	if strings.HasPrefix(name, "decr") {
		delta = -delta
	}
	n, _ := strconv.ParseInt(old, 10, 64)
	return strconv.FormatInt(n+delta, 10)
}

// hashEffect returns the state after a command that changes a hash. A hash that becomes empty has
// an event of its own, for its deletion.
func (c command) hashEffect(name string, old state) *state {
	result := state{kind: "hash", elements: slices.Clone(old.elements), expiry: old.expiry}
	if name == "hdel" {
		for _, field := range c.args[2:] {
			if i := result.fieldIndex(field); i >= 0 {
				result.elements = slices.Delete(result.elements, i, i+2)
			}
		}
		return &result
	}
	for i := 2; i+1 < len(c.args); i += 2 {
		index, value := result.fieldIndex(c.args[i]), c.args[i+1]
		if name == "hincrby" {
			n := int64(0)
			if index >= 0 {
				n, _ = strconv.ParseInt(result.elements[index+1], 10, 64)
			}
			delta, _ := strconv.ParseInt(value, 10, 64)
			value = strconv.FormatInt(n+delta, 10)
		}
		if index < 0 {
			result.elements = append(result.elements, c.args[i], value)
		} else {
			result.elements[index+1] = value
		}
	}
	return &result
}

// fieldIndex returns the index of a hash field, or -1.
func (s *state) fieldIndex(name string) int {
	for i := 0; i < len(s.elements); i += 2 {
		if s.elements[i] == name {
			return i
		}
	}
	return -1
}

func (c command) listEffect(name string, old state) *state {
	result := state{kind: "list", elements: slices.Clone(old.elements), expiry: old.expiry}
	switch {
	case strings.HasPrefix(name, "rpush"):
		result.elements = append(result.elements, c.args[2:]...)
	case strings.HasPrefix(name, "lpush"):
		for _, w := range c.args[2:] {
			result.elements = slices.Insert(result.elements, 0, w)
		}
	default:
		count := 1
		if len(c.args) > 2 {
			count, _ = strconv.Atoi(c.args[2])
		}
		count = min(count, len(result.elements))
		if name == "lpop" {
			result.elements = result.elements[count:]
		} else {
			result.elements = result.elements[:len(result.elements)-count]
		}
	}
	return &result
}

// cause describes the command that caused a change, and when it was sent and answered.
type cause struct {
	issuer, command      string
	inScript             bool
	sentTime, answerTime int64 // when the link sent the command and got the answer, by Clock, or 0
	clock                int64 // the node's clock, from which relative expiries count
}

// bounds holds an estimate t of when a change happened, as measured by Clock, and reliable bounds lo
// and hi.
type bounds struct{ t, lo, hi int64 }

// fact is one change to a key, without its sequence number.
type fact struct {
	change        history.Change
	key           string
	before, after *state
	bounds
	clock int64 // the node's clock
	cause
	reason string
}

// process converts a stream's items to facts.
func (n *node) process(s *stream, items []item) {
	for _, it := range items {
		if it.args == nil {
			n.pending = append(n.pending, it)
			continue
		}
		n.processLine(s, it)
	}
	if len(items) > 0 {
		n.lastRead = items[len(items)-1].at
	}
	// Pending expirations and evictions are recorded now, unless a command's line is still to come.
	if !slices.ContainsFunc(n.pending, func(it item) bool { return !isSpontaneous(it.event) }) {
		for _, it := range n.pending {
			n.lastT = max(n.lastT, it.at)
			n.recordRemoval(it, bounds{n.lastT, n.lastLo, it.at}, n.lastT+n.clockAhead)
		}
		n.pending = nil
	}
}

// isSpontaneous reports whether an event can occur without a command.
func isSpontaneous(event string) bool { return event == "expired" || event == "evicted" }

// processLine handles a command and the events that precede it, if any.
func (n *node) processLine(s *stream, it item) {
	src := n.causeOf(s, it)
	timeBounds := n.boundTime(it, src)
	events := n.pending
	n.pending = nil
	for len(events) > 0 && isSpontaneous(events[0].event) {
		n.recordRemoval(events[0], timeBounds, it.clock)
		events = events[1:]
	}
	name := strings.ToLower(it.args[0])
	src.command = name
	if isFlush(name, it.args[1:]) {
		for _, key := range slices.Sorted(maps.Keys(n.keys)) {
			n.apply(fact{change: history.KeyFlushed, key: key, bounds: timeBounds, clock: it.clock, cause: src})
		}
	}
	// If a command changes a key several times, its intermediate states are not recorded.
	after := map[string]*state{}
	var order []string
	for _, e := range events {
		if isSpontaneous(e.event) {
			n.recordRemoval(e, timeBounds, it.clock)
			continue
		}
		if _, seen := after[e.key]; !seen {
			order = append(order, e.key)
		}
		after[e.key] = effectOf(it, src, e, func(key string) *state { return n.keys[key] })
	}
	for _, key := range order {
		f := fact{key: key, after: after[key], bounds: timeBounds, clock: it.clock, cause: src}
		if !slices.Contains(it.args, key) {
			f.cause = cause{} // the key was changed on behalf of another client
		}
		if f.change = change(n.keys[key], f.after); f.change != "" {
			n.apply(f)
		}
	}
}

// isFlush reports whether a command deletes all keys, for which the node reports no events.
func isFlush(name string, options []string) bool {
	if name != "flushall" && name != "flushdb" {
		return false
	}
	return len(options) == 0 || len(options) == 1 && (strings.EqualFold(options[0], "SYNC") || strings.EqualFold(options[0], "ASYNC"))
}

// effectOf returns a key's state after an event. it is the command that caused the event e.
func effectOf(it item, src cause, e item, before func(key string) *state) *state {
	if e.event != "del" && !slices.Contains(it.args, e.key) {
		return &state{}
	}
	c := command{args: it.args, now: src.clock / 1e6}
	return c.effect(e.key, e.event, before)
}

// causeOf returns a command's sender and the time when it was sent.
func (n *node) causeOf(s *stream, it item) (src cause) {
	if it.from == scriptAddr {
		src = n.script
		src.inScript = true
		if !s.frozenTime {
			src.clock = it.clock
		}
		return src
	}
	src = cause{issuer: it.from, clock: it.clock}
	if it.from == s.localAddr {
		s.handleMarker(it.args)
		src.issuer = history.Harness
	} else if found, ok := n.senders.Load(it.from); ok {
		found.(*sender).attribute(&src, it.args, n.recorder.origin.Load())
	}
	if src.sentTime == 0 && n.recorder.cfg.FromHarness(s.serverAddr, it.from) { // a link may have used this port earlier
		src.issuer = history.Harness
	}
	switch strings.ToLower(it.args[0]) {
	case "eval", "evalsha", "fcall", "eval_ro", "evalsha_ro", "fcall_ro":
		n.script = src
	}
	return src
}

// clockTolerance is how far outside the bounds a correct clock's time may lie, in nanoseconds.
const clockTolerance = 1_000_000

// boundTime bounds the time at which a command was executed: after the command entered its link and
// after the node's previous change, but before its MONITOR line was read and before its answer.
// Within these bounds, the estimate is the time by the node's clock, unless that clock has just
// been changed.
func (n *node) boundTime(it item, src cause) bounds {
	b := bounds{lo: max(n.lastLo, src.sentTime), hi: it.at}
	if src.answerTime != 0 {
		b.hi = min(b.hi, src.answerTime)
	}
	b.lo = min(b.lo, b.hi)
	b.t = b.hi
	for _, ahead := range []int64{n.recorder.wallOffset, n.clockAhead} { // the clock is correct or has its last offset
		if t := it.clock - ahead; t >= b.lo-clockTolerance && t <= b.hi+clockTolerance {
			b.t = t
			break
		}
	}
	b.t = min(max(b.t, b.lo, n.lastT), b.hi)
	n.lastLo, n.lastT, n.clockAhead = b.lo, b.t, it.clock-b.t
	return b
}

// recordRemoval records that a key was evicted or has expired. clock is computed from a MONITOR
// line, after which the node's clock may have been changed. An expiration is therefore never dated
// before the key's expiry.
func (n *node) recordRemoval(it item, timeBounds bounds, clock int64) {
	f := fact{change: history.KeyExpired, key: it.key, bounds: timeBounds, clock: max(clock, n.keys[it.key].expiryNanos())}
	if it.event == "evicted" {
		f.change, f.clock = history.KeyEvicted, clock
	}
	n.apply(f)
}

// apply updates a key's state and records the fact.
func (n *node) apply(f fact) {
	f.before = n.keys[f.key]
	if f.before != nil {
		n.pastStates[f.key] = append(n.pastStates[f.key], f.before)
	}
	n.keys[f.key] = f.after
	if f.after == nil {
		delete(n.keys, f.key)
	}
	n.record(f)
}

func (n *node) record(f fact) {
	n.seq++
	origin := n.recorder.origin.Load()
	e := history.Event{
		T: f.t - origin, Process: n.name, Type: history.Info, Op: history.OpLife, Key: f.key, Local: f.clock,
		Life: &history.Life{
			Kind: f.change, Seq: n.seq, RunID: n.runID, Value: f.after.text(), OldValue: f.before.text(), Expiry: f.after.expiryNanos(), OldExpiry: f.before.expiryNanos(),
			MinT: f.lo - origin, MaxT: f.hi - origin, Sender: f.issuer, Command: f.command, Script: f.inScript, Replacement: f.reason,
		},
	}
	if f.sentTime != 0 {
		e.SentAt = f.sentTime - origin
	}
	n.recorder.cfg.Record(e)
}
